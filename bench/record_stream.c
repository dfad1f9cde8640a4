/* SPDX-License-Identifier: MIT */
/* Allocates a block, lets one other stream use it and frees it, again and again: the cost of
 * memory that crosses streams, calls into the shared library included.
 *
 * The device is a table of its own, made so that its calls cost nearly nothing: addresses come
 * from a counter and are never taken back, streams and events are numbers, and an event is
 * complete as soon as it is recorded, so that each of its calls is a function that returns.
 * What is counted is then the cache alone. --sim takes the reference device instead, whose
 * events are those of queues that worker threads empty. */
#include "bench/bench.h"

#include <acre/backend.h>
#include <acre/device.h>

#include <string.h>

static uint64_t size = 4096, count = 1000000;
static const char *policy;
static bool as_json, on_sim;

/* ---- A device whose calls cost nothing ---------------------------------------- */

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
    static uintptr_t next = (uintptr_t)1 << 40;

    (void)self;
    (void)device;
    *out_base = (void *)next;
    next += (bytes + 511) / 512 * 512;
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
    static uintptr_t last;

    *out = (void *)(last += 8);
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

static acre_cache *cache_of_none(void)
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
    acre_backend_desc desc = {.struct_size = sizeof desc,
                              .name = "none",
                              .type = ACRE_DEVICE_PRIVATE,
                              .ops = &ops,
                              .flags = ACRE_BACKEND_NULL_STREAM};
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_ACRE};
    acre_backend *backend;
    acre_device *device;
    acre_cache *cache;

    if (policy && strcmp(policy, "torch") == 0)
        config.policy = ACRE_POLICY_TORCH;
    bench_require(acre_backend_register(&desc, &backend), "backend");
    bench_require(acre_backend_device(backend, 0, &device), "device");
    bench_require(acre_cache_create(device, &config, &cache), "cache");
    return cache;
}

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
    acre_cache *cache = on_sim ? bench_cache(policy) : cache_of_none();
    void *other = bench_stream(cache);
    run_pairs(cache, other, 100);
    double begin = measure_seconds();
    run_pairs(cache, other, count);
    double ns = (measure_seconds() - begin) / (double)count * 1e9;
    printf(as_json ? "{\"ns_per_pair\": %.3f}\n" : "%.2f ns per pair with record_stream\n", ns);
    acre_cache_destroy(cache);
    return 0;
}
