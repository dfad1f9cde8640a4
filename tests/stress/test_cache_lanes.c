/* SPDX-License-Identifier: MIT */
/* Threads and streams on the reference device, contents verified.
 *
 * Each allocation is filled on its stream with a byte of its own and checked on
 * the same stream before it is freed; other streams that were told about it read
 * it too. A block that is handed out while anybody still uses it shows as a wrong
 * byte. Blocks change hands between threads; observers call back. */
#include "backend/backend.h"
#include "base/bits.h"
#include "base/heap.h"
#include "tests/support/t.h"

#include <acre/cache.h>
#include <acre/sim.h>

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, STREAMS = 4, SLOTS = 64 };

static acre_cache *cache;
static acre_device *device;
static void *streams[STREAMS];
static _Atomic uint64_t wrong_bytes, allocs, frees, refusals;

/* A device of one's own. test_opencl_cache_lanes.c has another. */
#ifndef GROUND
#define STEPS t_count(1500, 60000)

static acre_backend *ground_open(const char *memory)
{
    acre_sim_config sim = {.struct_size = sizeof sim, .devices = 1};
    acre_backend *backend;

    REQUIRE_OK(acre_sim_parse(memory, &sim));
    REQUIRE_OK(acre_sim_create(&sim, &backend));
    return backend;
}
#endif

/* A live allocation on its way between threads. */
struct piece {
    void *pointer;
    uint32_t bytes;
    uint8_t value;
    uint8_t stream, other; /* other: a second stream that reads it; STREAMS: none */
};

static pthread_mutex_t slots_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct piece slots[SLOTS];

struct verify_args {
    const void *pointer;
    uint32_t bytes;
    uint8_t value;
};

/* Runs on the device: looks at some bytes, the ends among them. */
static void verify(acre_kernel_context *context, void *arg)
{
    struct verify_args *args = arg;
    const uint8_t *data = acre_kernel_pointer(context, args->pointer, args->bytes);
    uint32_t step = args->bytes > 64 ? args->bytes / 32 : 1;

    for (uint32_t i = 0; data && i < args->bytes; i += step)
        if (data[i] != args->value)
            atomic_fetch_add(&wrong_bytes, 1);
    if (!data || data[args->bytes - 1] != args->value)
        atomic_fetch_add(&wrong_bytes, 1);
}

static void queue_verify(const struct piece *piece, int stream)
{
    struct verify_args args = {piece->pointer, piece->bytes, piece->value};

    if (acre_launch_kernel(device, streams[stream], verify, &args, sizeof args) != ACRE_OK)
        atomic_fetch_add(&wrong_bytes, 1);
}

static bool piece_alloc(struct piece *piece, uint64_t r)
{
    piece->bytes = 1 + (uint32_t)((r >> 8) % (r & 1 ? 3000 : r & 2 ? 200000 : 2500000));
    piece->value = (uint8_t)(r >> 48);
    piece->stream = (uint8_t)((r >> 4) % STREAMS);
    piece->other = r >> 60 < 4 ? (uint8_t)((piece->stream + 1 + (r >> 56) % 3) % STREAMS)
                               : STREAMS;
    acre_status status =
        acre_cache_alloc(cache, piece->bytes, streams[piece->stream], &piece->pointer);
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return false;
    REQUIRE_OK(status);
    atomic_fetch_add(&allocs, 1);
    REQUIRE_OK(acre_fill_async(device, piece->pointer, piece->value, piece->bytes,
                               streams[piece->stream]));
    if (piece->other < STREAMS) {
        /* The other stream reads after the fill; a stream wait orders them. */
        void *event;
        REQUIRE_OK(acre_event_native_create(device, 0, &event));
        REQUIRE_OK(acre_event_native_record(device, event, streams[piece->stream]));
        REQUIRE_OK(acre_stream_native_wait(device, streams[piece->other], event));
        REQUIRE_OK(acre_event_native_destroy(device, event));
        REQUIRE_OK(acre_cache_record_stream(cache, piece->pointer, streams[piece->other]));
        queue_verify(piece, piece->other);
    }
    return true;
}

static void piece_free(struct piece *piece)
{
    queue_verify(piece, piece->stream);
    REQUIRE_OK(acre_cache_free(cache, piece->pointer));
    atomic_fetch_add(&frees, 1);
    piece->pointer = NULL;
}

/* Swaps a piece with a random slot, so that another thread frees it. */
static void piece_pass(struct piece *piece, uint64_t r)
{
    pthread_mutex_lock(&slots_mutex);
    struct piece *slot = &slots[(r >> 20) % SLOTS], taken = *slot;
    *slot = *piece;
    *piece = taken;
    pthread_mutex_unlock(&slots_mutex);
}

static void *worker(void *arg)
{
    uint64_t seed = t_seed() + (uint64_t)(uintptr_t)arg * 7919;
    struct piece own[16] = {{0}};

    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t r = t_random(&seed);
        struct piece *piece = &own[(r >> 32) % 16];
        if (piece->pointer && r % 3 == 0)
            piece_pass(piece, r);
        if (piece->pointer)
            piece_free(piece);
        else
            piece_alloc(piece, t_random(&seed));
        if (r % 256 == 1) {
            int host;
            if (acre_cache_free(cache, &host) == ACRE_ERR_INVALID)
                atomic_fetch_add(&refusals, 1);
        }
        if (r % 512 == 2) {
            acre_cache_stats stats = {.struct_size = sizeof stats};
            REQUIRE_OK(acre_cache_stats_get(cache, &stats));
            EXPECT_LE(stats.allocation.all.current, stats.allocation.all.peak);
            EXPECT_LE(stats.allocated_bytes.all.current, stats.reserved_bytes.all.current);
            EXPECT_EQ(stats.allocation.all.allocated - stats.allocation.all.freed,
                      stats.allocation.all.current);
            EXPECT_EQ(stats.allocation.small_pool.current + stats.allocation.large_pool.current,
                      stats.allocation.all.current);
        }
        if (r % 1024 == 3)
            REQUIRE_OK(acre_cache_empty(cache));
        if (r % 1024 == 4)
            REQUIRE_OK(acre_cache_check(cache));
    }
    for (int i = 0; i < 16; i++)
        if (own[i].pointer)
            piece_free(&own[i]);
    return NULL;
}

/* Called when memory runs out, with no lock held: calls back into the cache. */
static void on_oom(void *arg, int index, uint64_t bytes, uint64_t limit, uint64_t free_bytes)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    (void)arg;
    (void)index;
    (void)bytes;
    (void)limit;
    (void)free_bytes;
    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    REQUIRE_OK(acre_cache_empty(cache));
}

/* Asked for memory: frees what waits in a slot, if anything does. */
static bool on_pressure(void *arg)
{
    struct piece piece = {0};

    (void)arg;
    for (int i = 0; i < SLOTS && !piece.pointer; i++)
        piece_pass(&piece, (uint64_t)i << 20);
    if (!piece.pointer)
        return false;
    piece_free(&piece);
    return true;
}

static void expect_settled(void)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_device_synchronize(device));
    REQUIRE_OK(acre_cache_empty(cache));
    REQUIRE_OK(acre_cache_check(cache));
    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    EXPECT_EQ(stats.allocation.all.current, 0);
    EXPECT_EQ(stats.active_bytes.all.current, 0);
    EXPECT_EQ(stats.requested_bytes.all.current, 0);
    EXPECT_EQ(stats.reserved_bytes.all.current, 0);
    EXPECT_GE(stats.allocation.all.allocated, (int64_t)atomic_load(&allocs));
    EXPECT_EQ(stats.allocation.all.allocated, stats.allocation.all.freed);
    EXPECT_EQ(atomic_load(&allocs), atomic_load(&frees));
    EXPECT_EQ(atomic_load(&wrong_bytes), 0);
}

static void run(const char *memory, const char *conf)
{
    acre_cache_config config = {.struct_size = sizeof config, .conf = conf,
                                .policy = ACRE_POLICY_ACRE,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    uint64_t heap_before = heap_live_count();
    acre_backend *backend;
    pthread_t threads[THREADS];

    wrong_bytes = allocs = frees = refusals = 0;
    memset(slots, 0, sizeof slots);
    backend = ground_open(memory);
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_cache_create(device, &config, &cache));
    REQUIRE_OK(acre_cache_oom_observer_add(cache, on_oom, NULL));
    REQUIRE_OK(acre_cache_reclaimer_add(cache, on_pressure, NULL));
    for (int i = 0; i < STREAMS; i++)
        REQUIRE_OK(acre_stream_native_create(device, 0, 0, &streams[i]));
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, worker, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].pointer)
            piece_free(&slots[i]);
    expect_settled();
    EXPECT_GT(atomic_load(&allocs), 0);
    acre_cache_destroy(cache);
    for (int i = 0; i < STREAMS; i++)
        REQUIRE_OK(acre_stream_native_destroy(device, streams[i]));
    acre_backend_unregister(backend);
    EXPECT_EQ(heap_live_count(), heap_before);
}

TEST(threads_and_streams_with_room)
{
    run("memory:1GiB", NULL);
}

TEST(threads_and_streams_with_waits_refused)
{
    run("memory:1GiB", "cross_stream_reuse:False");
}

TEST(threads_and_streams_on_a_tight_device)
{
    run("memory:48MiB", NULL);
}

T_MAIN()
