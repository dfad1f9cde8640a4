/* SPDX-License-Identifier: MIT */
/* Allocates a block, lets one other stream use it and frees it, again and again: the cost of
 * memory that crosses streams, calls into the shared library included.
 *
 * The device is one whose calls cost nothing (support/none.c). --sim takes the reference device
 * instead, whose events are those of queues that worker threads empty. */
#include "bench/bench.h"

static uint64_t size = 4096, count = 1000000;
static const char *policy;
static bool as_json, on_sim;

/* ---- The measurement ------------------------------------------------------------ */

static void run_pairs(acre_cache *cache, void *other, uint64_t pairs)
{
    void *pointer;

    for (uint64_t i = 0; i < pairs; i++)
        if (acre_cache_alloc(cache, size, NULL, &pointer) != ACRE_OK ||
            acre_cache_record_stream(cache, pointer, other) != ACRE_OK ||
            acre_cache_free(cache, pointer) != ACRE_OK)
            bench_require(ACRE_ERR_STATE, acre_last_error());
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {.name = "size", .help = "bytes of a block (4096)", .number = &size},
        {.name = "count", .help = "pairs (1000000)", .number = &count},
        {.name = "policy", .help = "acre or torch (acre)", .word = &policy},
        {.name = "sim", .help = "on the reference device", .flag = &on_sim},
        {.name = "json", .help = "one JSON object", .flag = &as_json},
        {0}};

    bench_options(argc, argv, "Times allocate, record_stream and free.", options);
    acre_cache *cache = on_sim ? bench_cache(policy) : bench_cache_none(policy);
    void *other = bench_stream(cache);
    run_pairs(cache, other, 100);
    double begin = measure_seconds();
    run_pairs(cache, other, count);
    double ns = (measure_seconds() - begin) / (double)count * 1e9;
    printf(as_json ? "{\"ns_per_pair\": %.3f}\n" : "%.2f ns per pair with record_stream\n", ns);
    acre_cache_destroy(cache);
    return 0;
}
