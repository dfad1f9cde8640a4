/* SPDX-License-Identifier: MIT */
/* Eight threads share a cache on the reference device: four streams, memory that
 * one thread allocates and another frees, uses on other streams, pressure from a
 * small device, observers that call back. Every block is filled by its stream and
 * checked by every stream that uses it right before it is freed, so memory that
 * is handed out too early is caught by its content. */
#include "base/bits.h"
#include "tests/support/t.h"

#include <acre/cache.h>
#include <acre/sim.h>

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, STREAMS = 4, LIVE = 24, MAILBOX = 64 };

#define EDGE 1024 /* bytes looked at on either side of a large block */

struct piece {
    char *base;
    uint32_t bytes;
    uint32_t stream;
    uint32_t value; /* what the block is filled with */
};

static acre_device *device;
static acre_cache *cache;
static void *streams[STREAMS];
static _Atomic uint64_t wrong_bytes, checks, failures, observed;

static pthread_mutex_t mailbox_lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece mailbox[MAILBOX]; /* for another thread to free; by mailbox_lock */
static int mailbox_count;

#define GO(call)                                                               \
    do {                                                                       \
        acre_status go = (call);                                               \
        if (go != ACRE_OK) {                                                   \
            atomic_fetch_add(&failures, 1);                                    \
            fprintf(stderr, "%s: %s (%s)\n", #call, acre_status_name(go),      \
                    acre_last_error());                                        \
        }                                                                      \
    } while (0)

/* A small device, and what is held of it. test_opencl_cache_threads.c has others. */
#ifndef GROUND
#define STEPS t_count(6000, 300000)

static acre_backend *ground_open(void)
{
    acre_sim_config sim = {.struct_size = sizeof sim, .devices = 1, .memory_bytes = 96 * MIB};
    acre_backend *backend;

    REQUIRE_OK(acre_sim_create(&sim, &backend));
    return backend;
}

static uint64_t ground_held(acre_backend *backend)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};

    REQUIRE_OK(acre_sim_usage_get(backend, &usage));
    return usage.alloc_count + usage.event_count + usage.bytes_used;
}
#endif

/* ---- On the device ------------------------------------------------------------- */

static void fill(acre_kernel_context *context, void *args)
{
    const struct piece *piece = args;
    char *memory = acre_kernel_pointer(context, piece->base, piece->bytes);

    if (!memory) {
        atomic_fetch_add(&wrong_bytes, 1);
        return;
    }
    if (piece->bytes <= 2 * EDGE) {
        memset(memory, (int)piece->value, piece->bytes);
        return;
    }
    memset(memory, (int)piece->value, EDGE);
    memset(memory + piece->bytes - EDGE, (int)piece->value, EDGE);
}

static uint64_t count_wrong(const char *memory, size_t bytes, uint32_t value)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < bytes; i++)
        wrong += (unsigned char)memory[i] != value;
    return wrong;
}

static void check(acre_kernel_context *context, void *args)
{
    const struct piece *piece = args;
    const char *memory = acre_kernel_pointer(context, piece->base, piece->bytes);
    uint64_t wrong;

    if (!memory)
        wrong = 1;
    else if (piece->bytes <= 2 * EDGE)
        wrong = count_wrong(memory, piece->bytes, piece->value);
    else
        wrong = count_wrong(memory, EDGE, piece->value) +
                count_wrong(memory + piece->bytes - EDGE, EDGE, piece->value);
    atomic_fetch_add(&wrong_bytes, wrong);
    atomic_fetch_add(&checks, 1);
}

/* ---- What threads do --------------------------------------------------------------- */

/* Queues the last check on the block's own stream and frees it. */
static void finish(struct piece *piece)
{
    GO(acre_launch_kernel(device, streams[piece->stream], check, piece, sizeof *piece));
    GO(acre_cache_free(cache, piece->base));
}

/* Uses the block on another stream, after what its own stream has queued, and
 * writes there too; the own stream does not touch it again before the free. */
static void use_elsewhere(struct piece *piece, uint32_t other)
{
    void *event;

    GO(acre_event_native_create(device, 0, &event));
    GO(acre_event_native_record(device, event, streams[piece->stream]));
    GO(acre_stream_native_wait(device, streams[other], event));
    GO(acre_event_native_destroy(device, event));
    GO(acre_launch_kernel(device, streams[other], check, piece, sizeof *piece));
    GO(acre_cache_record_stream(cache, piece->base, streams[other]));
}

/* Leaves a piece for another thread, or takes one from there. */
static bool exchange(struct piece *piece, bool gives)
{
    bool is_done = false;

    pthread_mutex_lock(&mailbox_lock);
    if (gives && mailbox_count < MAILBOX) {
        mailbox[mailbox_count++] = *piece;
        is_done = true;
    } else if (!gives && mailbox_count > 0) {
        *piece = mailbox[--mailbox_count];
        is_done = true;
    }
    pthread_mutex_unlock(&mailbox_lock);
    return is_done;
}

static uint32_t random_bytes(uint64_t *random)
{
    switch (t_random(random) % 16) {
    case 0:
        return (uint32_t)(1 + t_random(random) % (6 * MIB));
    case 1:
    case 2:
        return (uint32_t)(1 + t_random(random) % (512 * KIB));
    default:
        return (uint32_t)(1 + t_random(random) % 2000);
    }
}

/* A new piece, filled; false when there is no memory, which is fine. */
static bool begin(uint64_t *random, struct piece *piece)
{
    void *pointer;

    piece->bytes = random_bytes(random);
    piece->stream = (uint32_t)(t_random(random) % STREAMS);
    piece->value = (uint32_t)(t_random(random) % 256);
    acre_status status =
        acre_cache_alloc(cache, piece->bytes, streams[piece->stream], &pointer);
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return false;
    GO(status);
    if (status != ACRE_OK)
        return false;
    piece->base = pointer;
    GO(acre_launch_kernel(device, streams[piece->stream], fill, piece, sizeof *piece));
    return true;
}

struct worker {
    pthread_t thread;
    uint64_t random, steps;
};

static void step(struct worker *worker, struct piece *live, int *count)
{
    uint64_t dice = t_random(&worker->random) % 1000;
    struct piece piece;

    if (dice < 480) {
        if (*count < LIVE && begin(&worker->random, &live[*count]))
            ++*count;
    } else if (dice < 900 && *count) {
        int index = (int)(t_random(&worker->random) % (uint64_t)*count);
        piece = live[index];
        if (dice < 640)
            use_elsewhere(&piece, (uint32_t)(t_random(&worker->random) % STREAMS));
        if (dice >= 700 || !exchange(&piece, true))
            finish(&piece);
        live[index] = live[--*count];
    } else if (dice < 960) {
        if (exchange(&piece, false))
            finish(&piece);
    } else if (dice < 963) {
        GO(acre_cache_empty(cache));
    } else if (dice < 980) {
        acre_cache_stats stats = {.struct_size = sizeof stats};
        GO(acre_cache_stats_get(cache, &stats));
        if (stats.allocated_bytes.all.current > stats.allocated_bytes.all.peak ||
            stats.active_bytes.all.current > stats.reserved_bytes.all.current)
            atomic_fetch_add(&failures, 1);
    }
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct piece live[LIVE];
    int count = 0;

    for (uint64_t i = 0; i < worker->steps; i++)
        step(worker, live, &count);
    while (count)
        finish(&live[--count]);
    return NULL;
}

/* Allocates and frees, adds and removes, while a request is failing. */
static void observe(void *arg, int index, uint64_t bytes, uint64_t limit, uint64_t free_bytes)
{
    void *pointer;

    (void)arg;
    (void)index;
    if (bytes == 0 || limit < free_bytes)
        atomic_fetch_add(&failures, 1);
    if (acre_cache_alloc(cache, 100, streams[0], &pointer) == ACRE_OK)
        GO(acre_cache_free(cache, pointer));
    atomic_fetch_add(&observed, 1);
}

static bool reclaim(void *arg)
{
    struct piece piece;

    (void)arg;
    if (!exchange(&piece, false))
        return false;
    finish(&piece);
    return true;
}

/* ---- The whole --------------------------------------------------------------------------- */

static void run_threads(void)
{
    struct worker workers[THREADS];
    struct piece piece;

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.random = t_seed() + (uint64_t)i * 7919,
                                     .steps = STEPS};
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    while (exchange(&piece, false))
        finish(&piece);
}

static void run(acre_policy policy, const char *conf)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_cache_stats stats = {.struct_size = sizeof stats};
    acre_backend *backend = ground_open();
    uint64_t held = ground_held(backend);

    wrong_bytes = checks = failures = observed = 0;
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_cache_create(device, &config, &cache));
    REQUIRE_OK(acre_cache_oom_observer_add(cache, observe, NULL));
    REQUIRE_OK(acre_cache_reclaimer_add(cache, reclaim, NULL));
    for (int i = 0; i < STREAMS; i++)
        REQUIRE_OK(acre_stream_native_create(device, 0, 0, &streams[i]));
    run_threads();
    REQUIRE_OK(acre_device_synchronize(device));
    EXPECT_EQ(wrong_bytes, 0);
    EXPECT_EQ(failures, 0);
    EXPECT_GT(checks, 1000);
    REQUIRE_OK(acre_cache_empty(cache));
    REQUIRE_OK(acre_cache_check(cache));
    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    EXPECT_EQ(stats.active.all.current, 0);
    EXPECT_EQ(stats.allocated_bytes.all.allocated, stats.allocated_bytes.all.freed);
    EXPECT_EQ(stats.reserved_bytes.all.current, 0);
    EXPECT_EQ(stats.num_ooms, observed);
    acre_cache_destroy(cache);
    for (int i = 0; i < STREAMS; i++)
        REQUIRE_OK(acre_stream_native_destroy(device, streams[i]));
    EXPECT_EQ(ground_held(backend), held);
    acre_backend_unregister(backend);
}

TEST(torch)
{
    run(ACRE_POLICY_TORCH, "");
}

TEST(torch_with_the_lock_dropped)
{
    run(ACRE_POLICY_TORCH, "release_lock_on_cudamalloc:True,max_split_size_mb:20");
}

TEST(acre)
{
    run(ACRE_POLICY_ACRE, "");
}

TEST(acre_without_waits)
{
    run(ACRE_POLICY_ACRE, "cross_stream_reuse:False");
}

T_MAIN()
