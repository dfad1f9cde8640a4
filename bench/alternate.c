/* SPDX-License-Identifier: MIT */
/* Two threads, each on a stream of its own, allocate and free a block in turn, so that exactly
 * one block is live whenever one is: every allocation reaches the peak of all statistics again
 * and never passes it. The same turns without a cache in them tell what handing over costs. */
#include "bench/bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { THREADS = 2 };

static uint64_t count = 200000, size = 4096, batch = 1;
static const char *policy;
static bool as_json;
static _Atomic uint64_t turn;

struct worker {
    acre_cache *cache; /* NULL: only hands over */
    void *stream;
    uint64_t number;
    pthread_t thread;
};

static void *work(void *arg)
{
    struct worker *worker = arg;

    for (uint64_t i = 0; i < count; i += batch) {
        while (atomic_load_explicit(&turn, memory_order_acquire) % THREADS != worker->number)
            ;
        if (worker->cache)
            measure_pairs(worker->cache, worker->stream, size, batch);
        atomic_fetch_add_explicit(&turn, 1, memory_order_acq_rel);
    }
    return NULL;
}

/* Nanoseconds per pair. */
static double run(acre_cache *cache)
{
    struct worker workers[THREADS];
    double begin = measure_seconds();

    atomic_store(&turn, 0);
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){
            .cache = cache, .stream = cache ? bench_stream(cache) : NULL, .number = i};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    return (measure_seconds() - begin) / (double)(count * THREADS) * 1e9;
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {.name = "count", .help = "pairs of each thread (200000)", .number = &count},
        {.name = "size", .help = "bytes of a block (4096)", .number = &size},
        {.name = "batch", .help = "pairs before the turn changes (1)", .number = &batch},
        {.name = "policy", .help = "acre or torch (acre)", .word = &policy},
        {.name = "json", .help = "one JSON object", .flag = &as_json},
        {0}};

    bench_options(argc, argv, "Times threads that allocate in turn at the peak.", options);
    if (!count || !batch) {
        fprintf(stderr, "--count and --batch are at least 1\n");
        return 2;
    }
    double bare = run(NULL), all = run(bench_cache(policy));
    printf(as_json ? "{\"ns_per_pair\": %.1f, \"handing_over_ns\": %.1f}\n"
                   : "%.1f ns per pair, of which handing over %.1f\n",
           all, bare);
    return 0;
}
