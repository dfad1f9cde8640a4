/* SPDX-License-Identifier: MIT */
/* How long single calls take: two threads, each on a stream of its own, allocate and
 * free blocks of random sizes while a third asks for statistics a thousand times a
 * second. Policy torch is the same work behind one lock; --peer is malloc. The device is one
 * whose calls cost nothing: the workers of the reference device (--sim) would take the two
 * processors from the threads that are timed. */
#include "bench/bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 2, SLOTS = 64, STEP_BITS = 4, BUCKETS = 40 << STEP_BITS };

static uint64_t calls = 10000000, largest = 1 << 20, asks = 1000, seed = 1;
static bool as_json, as_peer, is_alone, on_sim;
static atomic_bool is_done;

struct worker {
    acre_cache *cache; /* NULL: malloc */
    void *stream;
    uint64_t seed;
    uint64_t counts[BUCKETS]; /* calls by their time */
    uint64_t longest;
    pthread_t thread;
};

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Sixteen buckets for each power of two of nanoseconds. */
static int bucket_of(uint64_t ns)
{
    int log = 63 - __builtin_clzll(ns | 1), bucket;

    if (log < STEP_BITS)
        return (int)ns;
    bucket = ((log - STEP_BITS + 1) << STEP_BITS) +
             (int)(ns >> (log - STEP_BITS) & ((1 << STEP_BITS) - 1));
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* The most nanoseconds of a bucket. */
static uint64_t bucket_end(int bucket)
{
    int log = (bucket >> STEP_BITS) + STEP_BITS - 1;

    if (bucket < 1 << STEP_BITS)
        return (uint64_t)bucket;
    return ((uint64_t)((bucket & ((1 << STEP_BITS) - 1)) + (1 << STEP_BITS) + 1)
            << (log - STEP_BITS)) -
           1;
}

static void call(struct worker *worker, void **slot, size_t bytes)
{
    acre_status status = ACRE_OK;
    uint64_t begin = now();

    if (worker->cache)
        status = *slot ? acre_cache_free(worker->cache, *slot)
                       : acre_cache_alloc(worker->cache, bytes, worker->stream, slot);
    else if (*slot)
        free(*slot);
    else
        *slot = malloc(bytes);
    uint64_t ns = now() - begin;
    if (status != ACRE_OK)
        abort();
    worker->counts[bucket_of(ns)]++;
    if (ns > worker->longest)
        worker->longest = ns;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    void *slots[SLOTS] = {0};

    for (uint64_t i = 0; i < calls / THREADS; i++) {
        uint64_t r = measure_random(&worker->seed);
        void **slot = &slots[r % SLOTS];
        bool was_live = *slot;
        call(worker, slot, 512 + (r >> 16) % (largest >> (r >> 8) % 12));
        if (was_live)
            *slot = NULL;
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i])
            call(worker, &slots[i], 0);
    return NULL;
}

static void *ask(void *arg)
{
    acre_cache *cache = arg;
    struct timespec pause = {.tv_nsec = (long)(1000000000 / asks)};
    acre_cache_stats stats = {.struct_size = sizeof stats};

    while (!atomic_load(&is_done)) {
        nanosleep(&pause, NULL);
        if (cache && acre_cache_stats_get(cache, &stats) != ACRE_OK)
            abort();
    }
    return NULL;
}

static uint64_t slowest_of(const uint64_t *counts, uint64_t total, uint64_t one_in)
{
    uint64_t slower = 0;

    for (int i = BUCKETS - 1; i >= 0; i--)
        if ((slower += counts[i]) > total / one_in)
            return bucket_end(i);
    return 0;
}

static void measure(const char *name, acre_cache *cache, bool is_last)
{
    static struct worker workers[THREADS];
    uint64_t total = 0, longest = 0, *counts = calloc(BUCKETS, sizeof *counts);
    pthread_t asker;

    if (!counts)
        exit(1);
    atomic_store(&is_done, false);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.cache = cache, .seed = seed + (uint64_t)i};
        if (cache)
            workers[i].stream = bench_stream(cache);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            exit(1);
    }
    if (asks && pthread_create(&asker, NULL, ask, cache) != 0)
        exit(1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    atomic_store(&is_done, true);
    if (asks)
        pthread_join(asker, NULL);
    for (int i = 0; i < THREADS; i++) {
        for (int b = 0; b < BUCKETS; b++) {
            counts[b] += workers[i].counts[b];
            total += workers[i].counts[b];
        }
        longest = workers[i].longest > longest ? workers[i].longest : longest;
    }
    const uint64_t parts[] = {2, 100, 10000, 1000000};
    if (as_json) {
        printf("{\"name\": \"%s\", \"calls\": %llu, \"longest\": %llu, \"counts\": [", name,
               (unsigned long long)total, (unsigned long long)longest);
        for (int b = 0, count = 0; b < BUCKETS; b++)
            if (counts[b])
                printf("%s[%llu, %llu]", count++ ? ", " : "", (unsigned long long)bucket_end(b),
                       (unsigned long long)counts[b]);
        printf("]}%s\n", is_last ? "" : ",");
    } else {
        printf("%-10s", name);
        for (int i = 0; i < 4; i++)
            printf(" %12llu", (unsigned long long)slowest_of(counts, total, parts[i]));
        printf(" %12llu\n", (unsigned long long)longest);
    }
    free(counts);
}

static acre_cache *cache_of(const char *policy)
{
    return on_sim ? bench_cache(policy) : bench_cache_none(policy);
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {.name = "calls", .help = "in all (10000000)", .number = &calls},
        {.name = "largest", .help = "bytes of the largest block (1M)", .number = &largest},
        {.name = "asks", .help = "for statistics per second, 0: none (1000)", .number = &asks},
        {.name = "seed", .help = "of the random numbers (1)", .number = &seed},
        {.name = "json", .help = "one JSON list with every bucket", .flag = &as_json},
        {.name = "sim", .help = "on the reference device", .flag = &on_sim},
        {.name = "alone", .help = "without one lock and malloc", .flag = &is_alone},
        {.name = "peer", .help = "malloc and free only", .flag = &as_peer},
        {0}};

    bench_options(argc, argv, "Times single calls of two threads.", options);
    if (calls < THREADS || largest < 4096 || asks > 1000000) {
        fprintf(stderr, "--calls is at least 2, --largest 4096, --asks at most 1000000\n");
        return 2;
    }
    if (as_json)
        printf("[");
    else
        printf("nanoseconds, clock included: the slowest one in\n%-10s %12s %12s %12s %12s %12s\n",
               "", "2", "100", "10,000", "1,000,000", "all");
    if (!as_peer) {
        measure("acre", cache_of("acre"), is_alone);
        if (!is_alone)
            measure("one lock", cache_of("torch"), false);
    }
    if (as_peer || !is_alone)
        measure("malloc", NULL, true);
    if (as_json)
        printf("]\n");
    return 0;
}
