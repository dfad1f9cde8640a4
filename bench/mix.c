/* SPDX-License-Identifier: MIT */
/* Keeps a number of blocks live and replaces a random one again and again; sizes
 * are log-uniform between 512 bytes and 64 MiB. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>

static uint64_t ops = 1000000, live = 1000, largest = 64 << 20, seed = 1;
static const char *policy;
static bool as_json, as_peer, is_alone;

/* What to do is drawn ahead, so that the clock sees allocators only. */
enum { STEPS = 1 << 16 };
static struct step {
    uint32_t at; /* which block                    */
    uint32_t bytes;
} steps[STEPS];

static void draw_steps(void)
{
    double span = log((double)largest / 512);

    for (int i = 0; i < STEPS; i++) {
        double u = (double)(bench_random(&seed) >> 11) / (double)(UINT64_C(1) << 53);
        steps[i].bytes = (uint32_t)(512 * exp(u * span));
        steps[i].at = (uint32_t)((bench_random(&seed) >> 32) * live >> 32);
    }
}

static double run_cache(acre_cache *cache, void **blocks)
{
    const struct step *step = steps;
    uint64_t left = ops;

    for (uint64_t i = 0; i < live; i++)
        bench_require(acre_cache_alloc(cache, steps[i % STEPS].bytes, NULL, &blocks[i]), "live");
    double begin = bench_seconds();
    while (left--) {
        void **block = &blocks[step->at];
        if (acre_cache_free(cache, *block) != ACRE_OK ||
            acre_cache_alloc(cache, step->bytes, NULL, block) != ACRE_OK)
            bench_require(ACRE_ERR_INTERNAL, "mix");
        step = step == &steps[STEPS - 1] ? steps : step + 1;
    }
    return bench_seconds() - begin;
}

static double run_malloc(void **blocks)
{
    const struct step *step = steps;
    uint64_t left = ops;

    for (uint64_t i = 0; i < live; i++)
        blocks[i] = malloc(steps[i % STEPS].bytes);
    double begin = bench_seconds();
    while (left--) {
        void **block = &blocks[step->at];
        free(*block);
        *block = malloc(step->bytes);
        if (!*block)
            abort();
        step = step == &steps[STEPS - 1] ? steps : step + 1;
    }
    return bench_seconds() - begin;
}

static void report(acre_cache *cache, double seconds, const double *peers)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};
    double ns = seconds / (double)ops * 1e9;

    bench_require(acre_cache_stats_get(cache, &stats), "statistics");
    double waste = (double)stats.reserved_bytes.all.peak /
                       (double)stats.requested_bytes.all.peak - 1;
    if (as_json) {
        printf("{\"ops\": %llu, \"seconds\": %.6f, \"ns_per_op\": %.3f, \"waste_ppm\": %.0f",
               (unsigned long long)ops, seconds, ns, waste * 1e6);
        for (int i = 0; i < 3; i++)
            if (peers[i] >= 0)
                printf(", \"%s_ns_per_op\": %.3f", bench_peers[i].name, peers[i]);
        printf("}\n");
        return;
    }
    printf("%llu replacements among %llu: %.2f ns each; held %.1f %% above what was asked\n",
           (unsigned long long)ops, (unsigned long long)live, ns, waste * 100);
    for (int i = 0; i < 3; i++)
        if (peers[i] >= 0)
            printf("  %-10s %8.2f ns per free and malloc\n", bench_peers[i].name, peers[i]);
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {.name = "ops", .help = "replacements (1000000)", .number = &ops},
        {.name = "live", .help = "blocks (1000)", .number = &live},
        {.name = "largest", .help = "bytes of the largest block (64M)", .number = &largest},
        {.name = "seed", .help = "of the random numbers (1)", .number = &seed},
        {.name = "policy", .help = "acre or torch (acre)", .word = &policy},
        {.name = "json", .help = "one JSON object", .flag = &as_json},
        {.name = "alone", .help = "without the host allocators", .flag = &is_alone},
        {.name = "peer", .help = "malloc and free only; prints ns per op", .flag = &as_peer},
        {0}};
    double peers[3] = {-1, -1, -1};

    bench_options(argc, argv, "Times replacing random blocks.", options);
    if (ops == 0 || live == 0 || live > UINT32_MAX || largest < 512 ||
        largest > UINT32_MAX) {
        fprintf(stderr, "--ops is at least 1, --live 1 to 2^32 - 1, --largest 512 to 4G\n");
        return 2;
    }
    void **blocks = calloc(live, sizeof *blocks);
    if (!blocks)
        return 1;
    draw_steps();
    if (as_peer) {
        printf("%.3f\n", run_malloc(blocks) / (double)ops * 1e9);
        return 0;
    }
    acre_cache *cache = bench_cache(policy);
    double seconds = run_cache(cache, blocks);
    for (int i = 0; !is_alone && i < 3; i++)
        peers[i] = bench_peer_run(&bench_peers[i], argc, argv);
    report(cache, seconds, peers);
    acre_cache_destroy(cache);
    free(blocks);
    return 0;
}
