/* SPDX-License-Identifier: MIT */
/* Keeps a number of blocks live and replaces a random one again and again; sizes
 * are log-uniform between 512 bytes and 64 MiB. */
#include "bench/bench.h"

#include <math.h>

static uint64_t ops = 1000000, live = 1000, largest = 64 << 20, seed = 1;
static const char *policy;
static bool as_json, as_peer, is_alone;

static void report(acre_cache *cache, double ns, const double *peers)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    bench_require(acre_cache_stats_get(cache, &stats), "statistics");
    double waste =
        (double)stats.reserved_bytes.all.peak / (double)stats.requested_bytes.all.peak - 1;
    if (as_json) {
        printf("{\"ops\": %llu, \"seconds\": %.6f, \"ns_per_op\": %.3f, \"waste_ppm\": %.0f",
               (unsigned long long)ops, ns * (double)ops * 1e-9, ns, waste * 1e6);
        for (int i = 0; i < 3; i++)
            if (peers[i] >= 0)
                printf(", \"%s_ns_per_op\": %.3f", measure_peers[i].name, peers[i]);
        printf("}\n");
        return;
    }
    printf("%llu replacements among %llu: %.2f ns each; held %.1f %% above what was asked\n",
           (unsigned long long)ops, (unsigned long long)live, ns, waste * 100);
    for (int i = 0; i < 3; i++)
        if (peers[i] >= 0)
            printf("  %-10s %8.2f ns per free and malloc\n", measure_peers[i].name, peers[i]);
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
    if (ops == 0 || live == 0 || live > UINT32_MAX || largest < 512 || largest > UINT32_MAX) {
        fprintf(stderr, "--ops is at least 1, --live 1 to 2^32 - 1, --largest 512 to 4G\n");
        return 2;
    }
    if (as_peer) {
        printf("%.3f\n", measure_mix(NULL, ops, live, largest, seed, INFINITY));
        return 0;
    }
    acre_cache *cache = bench_cache(policy);
    double ns = measure_mix(cache, ops, live, largest, seed, INFINITY);
    if (ns < 0)
        bench_require(ACRE_ERR_DEVICE_MEMORY, "mix");
    for (int i = 0; !is_alone && i < 3; i++)
        peers[i] = measure_peer_run(&measure_peers[i], argc, argv);
    report(cache, ns, peers);
    acre_cache_destroy(cache);
    return 0;
}
