/* SPDX-License-Identifier: MIT */
/* Allocates and frees a block of one size again and again: the cost of a cached
 * allocation, calls into the shared library included. */
#include "bench/bench.h"

#include <pthread.h>
#include <stdlib.h>

static uint64_t size = 512, count = 1000000, live, threads = 1;
static const char *policy;
static bool as_json, as_peer, is_alone, has_history;

/* One thread's share of the work. */
struct worker {
    pthread_t thread;
    acre_cache *cache;
    void *stream;
    pthread_barrier_t *start;
    double begin, end;
};

static void *work(void *arg)
{
    struct worker *worker = arg;

    measure_pairs(worker->cache, worker->stream, size, 100);
    pthread_barrier_wait(worker->start);
    worker->begin = measure_seconds();
    measure_pairs(worker->cache, worker->stream, size, count);
    worker->end = measure_seconds();
    return NULL;
}

/* Seconds from the first begin to the last end. */
static double run_threads(acre_cache *cache)
{
    struct worker *workers = calloc(threads, sizeof *workers);
    pthread_barrier_t start;
    double begin, end;

    if (!workers || pthread_barrier_init(&start, NULL, (unsigned)threads) != 0)
        exit(1);
    for (uint64_t i = 0; i < threads; i++) {
        void *stream = cache && i ? bench_stream(cache) : NULL;
        workers[i] = (struct worker){.cache = cache, .stream = stream, .start = &start};
    }
    if (!measure_live(cache, NULL, size, live))
        bench_require(ACRE_ERR_DEVICE_MEMORY, "live blocks");
    for (uint64_t i = 1; i < threads; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(1);
    work(&workers[0]);
    begin = workers[0].begin;
    end = workers[0].end;
    for (uint64_t i = 1; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        begin = workers[i].begin < begin ? workers[i].begin : begin;
        end = workers[i].end > end ? workers[i].end : end;
    }
    free(workers);
    return end - begin;
}

static void report(double seconds, const double *peers)
{
    double pairs = (double)count * (double)threads;
    double ns = seconds / (double)count * 1e9;

    if (as_json) {
        printf("{\"pairs\": %.0f, \"threads\": %llu, \"seconds\": %.6f, \"ns_per_pair\": %.3f, "
               "\"pairs_per_second\": %.0f",
               pairs, (unsigned long long)threads, seconds, ns, pairs / seconds);
        for (int i = 0; i < 3; i++)
            if (peers[i] >= 0)
                printf(", \"%s_ns_per_pair\": %.3f", measure_peers[i].name, peers[i]);
        printf("}\n");
        return;
    }
    printf("%.0f pairs of %llu bytes, %llu live, %llu threads: %.2f ns per pair, "
           "%.2f million pairs per second\n",
           pairs, (unsigned long long)size, (unsigned long long)live,
           (unsigned long long)threads, ns, pairs / seconds / 1e6);
    for (int i = 0; i < 3; i++)
        if (peers[i] >= 0)
            printf("  %-10s %8.2f ns per malloc and free\n", measure_peers[i].name, peers[i]);
}

/* Keeps the last hundred thousand events, without stacks. */
static void start_history(acre_cache *cache)
{
    const acre_history_config config = {.struct_size = sizeof config, .max_entries = 100000};

    if (acre_cache_history_start(cache, &config) != ACRE_OK) {
        fprintf(stderr, "%s\n", acre_last_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {.name = "size", .help = "bytes of a block (512)", .number = &size},
        {.name = "count", .help = "pairs per thread (1000000)", .number = &count},
        {.name = "live", .help = "blocks allocated before, that stay (0)", .number = &live},
        {.name = "threads", .help = "each on its own stream (1)", .number = &threads},
        {.name = "policy", .help = "acre or torch (acre)", .word = &policy},
        {.name = "history", .help = "with history on", .flag = &has_history},
        {.name = "json", .help = "one JSON object", .flag = &as_json},
        {.name = "alone", .help = "without the host allocators", .flag = &is_alone},
        {.name = "peer", .help = "malloc and free only; prints ns per pair", .flag = &as_peer},
        {0}};
    double peers[3] = {-1, -1, -1};

    bench_options(argc, argv, "Times cached allocate and free pairs.", options);
    if (count == 0 || threads == 0 || threads > 1024) {
        fprintf(stderr, "--count is at least 1, --threads 1 to 1024\n");
        return 2;
    }
    if (as_peer) {
        printf("%.3f\n", run_threads(NULL) / (double)count * 1e9);
        return 0;
    }
    acre_cache *cache = bench_cache(policy);
    if (has_history)
        start_history(cache);
    double seconds = run_threads(cache);
    for (int i = 0; !is_alone && i < 3; i++)
        peers[i] = measure_peer_run(&measure_peers[i], argc, argv);
    report(seconds, peers);
    acre_cache_destroy(cache);
    return 0;
}
