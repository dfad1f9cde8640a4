/* SPDX-License-Identifier: MIT */
/* Keeps a number of blocks live and replaces a random one again and again; sizes
 * are log-uniform between 512 bytes and 64 MiB. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>

static uint64_t ops = 1000000, live = 1000, largest = 64 << 20, seed = 1;
static const char *policy;
static bool as_json, as_peer, is_alone;

/* Sizes are drawn ahead, so that the clock sees allocators only. */
enum { SIZES = 1 << 16 };
static size_t sizes[SIZES];

static void draw_sizes(void)
{
    double span = log((double)largest / 512);

    for (int i = 0; i < SIZES; i++) {
        double u = (double)(bench_random(&seed) >> 11) / (double)(UINT64_C(1) << 53);
        sizes[i] = (size_t)(512 * exp(u * span));
    }
}

/* Random enough to pick blocks, and a few instructions. */
static inline uint64_t next_random(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return seed;
}

static double run_cache(acre_cache *cache, void **blocks)
{
    uint64_t count = live;

    for (uint64_t i = 0; i < live; i++)
        bench_require(acre_cache_alloc(cache, sizes[i % SIZES], NULL, &blocks[i]), "live");
    double begin = bench_seconds();
    for (uint64_t i = 0; i < ops; i++) {
        uint64_t r = next_random(), at = (r >> 32) * count >> 32;
        if (acre_cache_free(cache, blocks[at]) != ACRE_OK ||
            acre_cache_alloc(cache, sizes[r >> 8 & (SIZES - 1)], NULL, &blocks[at]) != ACRE_OK)
            bench_require(ACRE_ERR_INTERNAL, "mix");
    }
    return bench_seconds() - begin;
}

static double run_malloc(void **blocks)
{
    uint64_t count = live;

    for (uint64_t i = 0; i < live; i++)
        blocks[i] = malloc(sizes[i % SIZES]);
    double begin = bench_seconds();
    for (uint64_t i = 0; i < ops; i++) {
        uint64_t r = next_random(), at = (r >> 32) * count >> 32;
        free(blocks[at]);
        blocks[at] = malloc(sizes[r >> 8 & (SIZES - 1)]);
        if (!blocks[at])
            abort();
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
    if (ops == 0 || live == 0 || live > UINT32_MAX || largest < 512) {
        fprintf(stderr, "--ops is at least 1, --live 1 to 2^32 - 1, --largest at least 512\n");
        return 2;
    }
    void **blocks = calloc(live, sizeof *blocks);
    if (!blocks)
        return 1;
    draw_sizes();
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
