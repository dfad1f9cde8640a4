/* SPDX-License-Identifier: MIT */
/* A cache on the reference device, whose calls are counted, with three streams:
 * a captures in most tests, b joins, c stays outside.
 *
 * Closing checks that every fact of the cache holds and that nothing is left. */
#ifndef TESTS_SUPPORT_CAPTURE_LAB_H
#define TESTS_SUPPORT_CAPTURE_LAB_H

#include "base/bits.h"
#include "base/heap.h"
#include "tests/support/gate.h"
#include "tests/support/standin_bed.h"
#include "tests/support/t.h"
#include "tests/support/tracing_backend.h"

#include <acre/pool.h>
#include <acre/sim.h>

#define HELPER __attribute__((unused)) static

struct bench {
    acre_backend *sim, *traced;
    acre_device *device;
    acre_cache *cache;
    void *a, *b, *c;
    void *event;
    uint64_t heap_before;
};

HELPER void bench_open(struct bench *bench, acre_policy policy, const char *conf)
{
    acre_cache_config own = {.struct_size = sizeof own, .policy = policy, .conf = conf,
                             .flags = ACRE_CACHE_NO_ENVIRONMENT};
    const struct wrap_config wrap = {.name = "traced", .type = ACRE_DEVICE_OPENCL};

    memset(bench, 0, sizeof *bench);
    bench->heap_before = heap_live_count();
    bench->sim = ground_create("devices:1,memory:8GiB");
    REQUIRE_OK(tracing_create(bench->sim, &wrap, &bench->traced));
    REQUIRE_OK(acre_backend_device(bench->traced, 0, &bench->device));
    REQUIRE_OK(acre_stream_native_create(bench->device, 0, 0, &bench->a));
    REQUIRE_OK(acre_stream_native_create(bench->device, 0, 0, &bench->b));
    REQUIRE_OK(acre_stream_native_create(bench->device, 0, 0, &bench->c));
    REQUIRE_OK(acre_event_native_create(bench->device, 0, &bench->event));
    REQUIRE_OK(acre_cache_create(bench->device, &own, &bench->cache));
}

HELPER void bench_close(struct bench *bench)
{
    REQUIRE_OK(acre_cache_check(bench->cache));
    acre_cache_destroy(bench->cache);
    REQUIRE_OK(acre_event_native_destroy(bench->device, bench->event));
    REQUIRE_OK(acre_stream_native_destroy(bench->device, bench->a));
    REQUIRE_OK(acre_stream_native_destroy(bench->device, bench->b));
    REQUIRE_OK(acre_stream_native_destroy(bench->device, bench->c));
    acre_sim_usage usage = ground_usage(bench->sim);
    EXPECT_EQ(usage.alloc_count, 0);
    EXPECT_EQ(usage.event_count, 0);
    EXPECT_EQ(usage.graph_count, 0);
    acre_backend_unregister(bench->traced);
    ground_destroy(bench->sim);
    EXPECT_EQ(heap_live_count(), bench->heap_before);
}

HELPER void *bench_alloc(struct bench *bench, size_t bytes, void *stream)
{
    void *pointer = NULL;

    REQUIRE_OK(acre_cache_alloc(bench->cache, bytes, stream, &pointer));
    return pointer;
}

HELPER void bench_free(struct bench *bench, void *pointer)
{
    REQUIRE_OK(acre_cache_free(bench->cache, pointer));
}

HELPER void bench_use(struct bench *bench, void *pointer, void *stream)
{
    REQUIRE_OK(acre_cache_record_stream(bench->cache, pointer, stream));
}

/* to waits for what is queued on from; in a capture, joins it. */
HELPER void bench_join(struct bench *bench, void *from, void *to)
{
    REQUIRE_OK(acre_event_native_record(bench->device, bench->event, from));
    REQUIRE_OK(acre_stream_native_wait(bench->device, to, bench->event));
}

/* Queues something on a stream that touches memory. */
HELPER void bench_fill(struct bench *bench, void *pointer, int value, size_t bytes, void *stream)
{
    REQUIRE_OK(acre_fill_async(bench->device, pointer, value, bytes, stream));
}

/* The first byte of device memory. */
HELPER int bench_read(struct bench *bench, void *pointer)
{
    unsigned char byte = 0;

    REQUIRE_OK(acre_device_synchronize(bench->device));
    REQUIRE_OK(acre_copy(bench->device, &byte, pointer, 1, ACRE_COPY_DEVICE_TO_HOST));
    return byte;
}

HELPER acre_recording *bench_record(struct bench *bench, const acre_pool_id *pool)
{
    acre_recording *recording = NULL;

    REQUIRE_OK(acre_recording_begin(bench->cache, bench->a, pool, &recording));
    return recording;
}

HELPER acre_cache_stats bench_stats(struct bench *bench)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_cache_stats_get(bench->cache, &stats));
    return stats;
}

HELPER acre_pool_stats bench_pool(struct bench *bench, acre_pool_id id)
{
    acre_pool_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_pool_stats_get(bench->cache, id, &stats));
    return stats;
}

/* Calls so far that a capture does not survive. */
HELPER uint64_t bench_breakers(struct bench *bench)
{
    return tracing_count(bench->traced, WRAP_event_query) +
           tracing_count(bench->traced, WRAP_event_synchronize) +
           tracing_count(bench->traced, WRAP_stream_synchronize) +
           tracing_count(bench->traced, WRAP_stream_query) +
           tracing_count(bench->traced, WRAP_device_synchronize) +
           tracing_count(bench->traced, WRAP_free);
}

#endif
