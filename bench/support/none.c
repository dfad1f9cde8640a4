/* SPDX-License-Identifier: MIT */
/* A device whose calls cost nearly nothing, so that what is measured is the cache alone:
 * addresses come from a counter and are never taken back, streams and events are numbers, and an
 * event is complete as soon as it is recorded. Each call is a function that returns. */
#include "bench/bench.h"

#include <acre/backend.h>
#include <acre/device.h>

#include <stdatomic.h>

static acre_status none_count(void *self, int *out_count)
{
    (void)self;
    *out_count = 1;
    return ACRE_OK;
}

static acre_status none_info(void *self, int device, acre_device_info *out_info)
{
    (void)self;
    (void)device;
    snprintf(out_info->name, sizeof out_info->name, "a device whose events cost nothing");
    out_info->total_bytes = (uint64_t)80 << 30;
    out_info->alloc_granularity = 512;
    return ACRE_OK;
}

static acre_status none_memory(void *self, int device, uint64_t *out_free, uint64_t *out_total)
{
    (void)self;
    (void)device;
    *out_free = *out_total = (uint64_t)80 << 30;
    return ACRE_OK;
}

static acre_status none_alloc(void *self, int device, size_t bytes, void **out_base)
{
    static _Atomic uintptr_t next = (uintptr_t)1 << 40;

    (void)self;
    (void)device;
    *out_base = (void *)atomic_fetch_add(&next, (bytes + 511) / 512 * 512);
    return ACRE_OK;
}

/* Frees memory, destroys a stream or an event, and answers whether they are done. */
static acre_status none_done(void *self, int device, void *what)
{
    (void)self;
    (void)device;
    (void)what;
    return ACRE_OK;
}

/* Records an event, or lets a stream wait for one. */
static acre_status none_record(void *self, int device, void *event, void *stream)
{
    (void)self;
    (void)device;
    (void)event;
    (void)stream;
    return ACRE_OK;
}

static acre_status none_number(void **out)
{
    static _Atomic uintptr_t next = 8;

    *out = (void *)atomic_fetch_add(&next, 8);
    return ACRE_OK;
}

static acre_status none_stream(void *self, int device, uint32_t flags, int priority, void **out)
{
    (void)self;
    (void)device;
    (void)flags;
    (void)priority;
    return none_number(out);
}

static acre_status none_event(void *self, int device, uint32_t flags, void **out)
{
    (void)self;
    (void)device;
    (void)flags;
    return none_number(out);
}

static acre_status none_priority(void *self, int device, void *stream, int *out_priority)
{
    (void)self;
    (void)device;
    (void)stream;
    *out_priority = 0;
    return ACRE_OK;
}

static acre_status none_synchronize(void *self, int device)
{
    (void)self;
    (void)device;
    return ACRE_OK;
}

static acre_status none_elapsed(void *self, int device, void *start, void *end, double *out_ms)
{
    (void)self;
    (void)device;
    (void)start;
    (void)end;
    *out_ms = 0;
    return ACRE_OK;
}

acre_cache *bench_cache_none(const char *policy)
{
    static const acre_backend_ops ops = {
        .struct_size = sizeof ops,
        .version = ACRE_BACKEND_VERSION,
        .device_count = none_count,
        .device_info = none_info,
        .memory_info = none_memory,
        .alloc = none_alloc,
        .free = none_done,
        .stream_create = none_stream,
        .stream_destroy = none_done,
        .stream_query = none_done,
        .stream_synchronize = none_done,
        .stream_wait_event = none_record,
        .stream_priority = none_priority,
        .device_synchronize = none_synchronize,
        .event_create = none_event,
        .event_destroy = none_done,
        .event_record = none_record,
        .event_query = none_done,
        .event_synchronize = none_done,
        .event_elapsed = none_elapsed,
    };
    static acre_backend *backend;
    acre_backend_desc desc = {.struct_size = sizeof desc,
                              .name = "none",
                              .type = ACRE_DEVICE_PRIVATE,
                              .ops = &ops,
                              .flags = ACRE_BACKEND_NULL_STREAM};
    acre_cache_config config = {.struct_size = sizeof config,
                                .policy = bench_policy(policy ? policy : "acre")};
    acre_device *device;
    acre_cache *cache;

    if (!backend)
        bench_require(acre_backend_register(&desc, &backend), "backend");
    bench_require(acre_backend_device(backend, 0, &device), "device");
    bench_require(acre_cache_create(device, &config, &cache), "cache");
    return cache;
}
