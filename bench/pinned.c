/* SPDX-License-Identifier: MIT */
/* Allocates and frees page-locked host memory again and again: the cost of a cached pair,
 * calls into the shared library included. */
#include "bench/bench.h"

#include <acre/pinned.h>

#include <pthread.h>
#include <stdlib.h>

static uint64_t size = 4096, count = 1000000, live, threads = 1;
static const char *policy;
static bool as_json;
static acre_pinned *pinned;
static pthread_barrier_t start;

static void *work(void *arg)
{
    void *pointer;

    acre_pinned_alloc(pinned, size, &pointer);
    acre_pinned_free(pinned, pointer);
    pthread_barrier_wait(&start);
    for (uint64_t i = 0; i < count; i++) {
        acre_pinned_alloc(pinned, size, &pointer);
        acre_pinned_free(pinned, pointer);
    }
    return arg;
}

/* Seconds from the first begin to the last end, about. */
static double run(void)
{
    pthread_t *others = calloc(threads, sizeof *others);

    if (!others || pthread_barrier_init(&start, NULL, (unsigned)threads) != 0)
        exit(1);
    for (uint64_t i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, work, NULL) != 0)
            exit(1);
    double begin = measure_seconds();
    work(NULL);
    for (uint64_t i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    double seconds = measure_seconds() - begin;
    free(others);
    return seconds;
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {.name = "size", .help = "bytes of a block (4096)", .number = &size},
        {.name = "count", .help = "pairs per thread (1000000)", .number = &count},
        {.name = "live", .help = "blocks allocated before, that stay (0)", .number = &live},
        {.name = "threads", .help = "how many (1)", .number = &threads},
        {.name = "policy", .help = "acre or torch (acre)", .word = &policy},
        {.name = "json", .help = "one JSON object", .flag = &as_json},
        {0}};
    acre_pinned_config config = {.struct_size = sizeof config};

    bench_options(argc, argv, "Times cached pairs of page-locked host memory.", options);
    if (count == 0 || threads == 0 || threads > 1024) {
        fprintf(stderr, "--count is at least 1, --threads 1 to 1024\n");
        return 2;
    }
    acre_cache *cache = bench_cache(policy);
    config.policy = acre_cache_policy(cache);
    bench_require(acre_pinned_create(acre_cache_device(cache), &config, &pinned), "cache");
    for (uint64_t i = 0; i < live; i++) {
        void *pointer;
        bench_require(acre_pinned_alloc(pinned, size, &pointer), "live blocks");
    }
    double seconds = run(), ns = seconds / (double)count * 1e9;
    if (as_json)
        printf("{\"pairs\": %llu, \"threads\": %llu, \"seconds\": %.6f, \"ns_per_pair\": %.3f}\n",
               (unsigned long long)(count * threads), (unsigned long long)threads, seconds, ns);
    else
        printf("%llu pairs of %llu bytes, %llu live, %llu threads: %.2f ns per pair\n",
               (unsigned long long)(count * threads), (unsigned long long)size,
               (unsigned long long)live, (unsigned long long)threads, ns);
    acre_pinned_destroy(pinned);
    acre_cache_destroy(cache);
    return 0;
}
