/* SPDX-License-Identifier: MIT */
/* Threads with scopes of their own, of streams and of functions, while others
 * record graphs, replay them, and empty the cache. Every block is filled by its
 * stream and checked by it right before it is freed, so memory that is handed
 * out twice is caught by its content; blocks of a scope of this thread must come
 * from its pool; replays must write where they were recorded. */
#include "base/bits.h"
#include "tests/support/t.h"

#include <acre/pool.h>
#include <acre/sim.h>

#include <pthread.h>
#include <stdatomic.h>

enum { SCOPERS = 4, RECORDERS = 2, LIVE = 12 };

static acre_device *device;
static acre_cache *cache;
static _Atomic uint64_t wrong_bytes, failures, recorded, scoped;

#define GO(call)                                                               \
    do {                                                                       \
        acre_status go = (call);                                               \
        if (go != ACRE_OK) {                                                   \
            atomic_fetch_add(&failures, 1);                                    \
            fprintf(stderr, "%s: %s (%s)\n", #call, acre_status_name(go),      \
                    acre_last_error());                                        \
        }                                                                      \
    } while (0)

struct piece {
    char *base;
    uint32_t bytes, value;
};

static void check(acre_kernel_context *context, void *args)
{
    const struct piece *piece = args;
    const unsigned char *memory = acre_kernel_pointer(context, piece->base, piece->bytes);
    uint64_t wrong = !memory;

    for (uint32_t i = 0; memory && i < piece->bytes; i++)
        wrong += memory[i] != piece->value;
    atomic_fetch_add(&wrong_bytes, wrong);
}

struct worker {
    pthread_t thread;
    uint64_t random, steps;
    void *stream, *side;
    struct piece live[LIVE];
    int count;
};

static uint64_t below(struct worker *worker, uint64_t limit)
{
    return t_random(&worker->random) % limit;
}

static bool take(struct worker *worker, void *stream)
{
    struct piece *piece = &worker->live[worker->count];
    void *pointer = NULL;

    piece->bytes = (uint32_t)(1 + below(worker, below(worker, 8) ? 3000 : 300000));
    piece->value = (uint32_t)below(worker, 256);
    acre_status status = acre_cache_alloc(cache, piece->bytes, stream, &pointer);
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return false;
    GO(status);
    if (status != ACRE_OK)
        return false;
    piece->base = pointer;
    worker->count++;
    GO(acre_fill_async(device, pointer, (int)piece->value, piece->bytes, stream));
    return true;
}

static void give(struct worker *worker, int index)
{
    struct piece *piece = &worker->live[index];

    GO(acre_launch_kernel(device, worker->stream, check, piece, sizeof *piece));
    GO(acre_cache_free(cache, piece->base));
    worker->live[index] = worker->live[--worker->count];
}

static bool yes(void *arg, void *stream)
{
    return arg == stream;
}

/* Fills a pool within a scope and looks that all of it came from there. */
static void run_scope(struct worker *worker, acre_pool_id id)
{
    acre_pool_filter filters[] = {
        {.kind = ACRE_POOL_THIS_THREAD},
        {.kind = ACRE_POOL_STREAM, .stream = worker->stream},
        {.kind = ACRE_POOL_CALLBACK, .fn = yes, .arg = worker->stream},
    };
    acre_pool_stats before = {.struct_size = sizeof before}, after = before;
    uint64_t taken = 0;

    GO(acre_pool_begin(cache, id, &filters[below(worker, 3)]));
    GO(acre_pool_stats_get(cache, id, &before));
    for (int i = 0; i < 4 && worker->count < LIVE; i++)
        taken += take(worker, worker->stream);
    GO(acre_pool_stats_get(cache, id, &after));
    if (after.live_count != before.live_count + taken)
        atomic_fetch_add(&failures, 1);
    GO(acre_pool_end(cache, id));
    atomic_fetch_add(&scoped, taken);
}

static void *run_scoper(void *arg)
{
    struct worker *worker = arg;
    acre_pool_id id = acre_pool_id_next();

    GO(acre_pool_create(cache, id, NULL));
    for (uint64_t i = 0; i < worker->steps; i++) {
        uint64_t dice = below(worker, 100);
        if (dice < 30)
            run_scope(worker, id);
        else if (dice < 55 && worker->count < LIVE)
            take(worker, worker->stream);
        else if (dice < 97 && worker->count)
            give(worker, (int)below(worker, (uint64_t)worker->count));
        else if (dice < 98)
            GO(acre_cache_empty(cache));
        else if (dice < 99) { /* a pool anew; what is live keeps the old one */
            GO(acre_pool_release(cache, id));
            id = acre_pool_id_next();
            GO(acre_pool_create(cache, id, NULL));
        }
    }
    while (worker->count)
        give(worker, 0);
    GO(acre_pool_release(cache, id));
    return NULL;
}

/* Records two fills on two streams, one into memory that is freed meanwhile. */
static void run_recording(struct worker *worker, const acre_pool_id *pool, void *event)
{
    acre_recording *recording = NULL;
    void *a = NULL, *b = NULL;
    struct piece piece;

    GO(acre_recording_begin(cache, worker->stream, pool, &recording));
    if (!recording)
        return;
    if (acre_cache_alloc(cache, 3000, worker->stream, &a) == ACRE_ERR_DEVICE_MEMORY) {
        acre_recording_destroy(recording); /* other captures keep memory of graphs */
        return;
    }
    GO(acre_fill_async(device, a, 5, 3000, worker->stream));
    GO(acre_event_native_record(device, event, worker->stream));
    GO(acre_stream_native_wait(device, worker->side, event));
    GO(acre_cache_alloc(cache, 4000, worker->side, &b));
    GO(acre_fill_async(device, b, 6, 4000, worker->side));
    GO(acre_cache_record_stream(cache, a, worker->side));
    GO(acre_cache_free(cache, a));
    GO(acre_event_native_record(device, event, worker->side));
    GO(acre_stream_native_wait(device, worker->stream, event));
    GO(acre_recording_end(recording));
    for (int i = 0; i < 3; i++) {
        GO(acre_recording_launch(recording, worker->stream));
        piece = (struct piece){.base = a, .bytes = 3000, .value = 5};
        GO(acre_launch_kernel(device, worker->stream, check, &piece, sizeof piece));
        piece = (struct piece){.base = b, .bytes = 4000, .value = 6};
        GO(acre_launch_kernel(device, worker->stream, check, &piece, sizeof piece));
        if (worker->count < LIVE)
            take(worker, worker->stream);
        if (worker->count)
            give(worker, 0);
    }
    GO(acre_cache_free(cache, b));
    acre_recording_destroy(recording);
    atomic_fetch_add(&recorded, 1);
}

static void *run_recorder(void *arg)
{
    struct worker *worker = arg;
    acre_pool_id id = acre_pool_id_next();
    void *event;

    GO(acre_event_native_create(device, 0, &event));
    GO(acre_pool_create(cache, id, NULL));
    for (uint64_t i = 0; i < worker->steps / 8; i++)
        run_recording(worker, below(worker, 8) ? &id : NULL, event);
    GO(acre_pool_release(cache, id));
    while (worker->count)
        give(worker, 0);
    GO(acre_event_native_destroy(device, event));
    return NULL;
}

static void run_threads(void)
{
    static struct worker workers[SCOPERS + RECORDERS];

    memset(workers, 0, sizeof workers);
    for (int i = 0; i < SCOPERS + RECORDERS; i++) {
        struct worker *worker = &workers[i];
        worker->random = t_seed() + (uint64_t)i * 7919;
        worker->steps = t_count(1600, 80000);
        REQUIRE_OK(acre_stream_native_create(device, 0, 0, &worker->stream));
        REQUIRE_OK(acre_stream_native_create(device, 0, 0, &worker->side));
    }
    for (int i = 0; i < SCOPERS + RECORDERS; i++)
        REQUIRE(pthread_create(&workers[i].thread, NULL,
                               i < SCOPERS ? run_scoper : run_recorder, &workers[i]) == 0);
    for (int i = 0; i < SCOPERS + RECORDERS; i++)
        pthread_join(workers[i].thread, NULL);
    REQUIRE_OK(acre_device_synchronize(device));
    REQUIRE_OK(acre_cache_empty(cache));
    for (int i = 0; i < SCOPERS + RECORDERS; i++) {
        REQUIRE_OK(acre_stream_native_destroy(device, workers[i].stream));
        REQUIRE_OK(acre_stream_native_destroy(device, workers[i].side));
    }
}

static void run(acre_policy policy, const char *conf)
{
    acre_sim_config sim = {.struct_size = sizeof sim, .devices = 1,
                           .memory_bytes = 8192 * MIB};
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_cache_stats stats = {.struct_size = sizeof stats};
    acre_sim_usage usage = {.struct_size = sizeof usage, .alloc_count = 0};
    acre_backend *backend;

    wrong_bytes = failures = recorded = scoped = 0;
    REQUIRE_OK(acre_sim_create(&sim, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_cache_create(device, &config, &cache));
    run_threads();
    EXPECT_EQ(wrong_bytes, 0);
    EXPECT_EQ(failures, 0);
    EXPECT_GT(scoped, 100);
    EXPECT_GT(recorded, 10);
    REQUIRE_OK(acre_cache_check(cache));
    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    EXPECT_EQ(stats.active.all.current, 0);
    EXPECT_EQ(stats.reserved_bytes.all.current, 0);
    acre_cache_destroy(cache);
    REQUIRE_OK(acre_sim_usage_get(backend, &usage));
    EXPECT_EQ(usage.alloc_count, 0);
    EXPECT_EQ(usage.event_count, 0);
    EXPECT_EQ(usage.graph_count, 0);
    acre_backend_unregister(backend);
}

TEST(torch)
{
    run(ACRE_POLICY_TORCH, "");
}

TEST(torch_with_expandable_segments_and_reuse)
{
    run(ACRE_POLICY_TORCH, "expandable_segments:True,graph_capture_record_stream_reuse:True");
}

TEST(acre)
{
    run(ACRE_POLICY_ACRE, "");
}

TEST(acre_with_reuse)
{
    run(ACRE_POLICY_ACRE, "graph_capture_record_stream_reuse:True");
}

T_MAIN()
