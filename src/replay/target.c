/* SPDX-License-Identifier: MIT */
#include "replay/target.h"

#include "base/heap.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

acre_status target_init(struct target *target, acre_policy policy, const char *conf,
                        uint64_t device_bytes)
{
    static atomic_uint counter; /* replays may run at the same time */
    char name[32];
    acre_sim_config sim = {.struct_size = sizeof sim,
                           .devices = 1,
                           .memory_bytes = device_bytes,
                           .page_bytes = (uint64_t)2 << 20,
                           .dry = 1,
                           .name = name};
    acre_cache_config config = {.struct_size = sizeof config,
                                .policy = policy,
                                .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};

    snprintf(name, sizeof name, "replay-%u", atomic_fetch_add(&counter, 1));
    memset(target, 0, sizeof *target);
    acre_status status = acre_sim_create(&sim, &target->backend);
    if (status == ACRE_OK)
        status = acre_backend_device(target->backend, 0, &target->device);
    if (status == ACRE_OK)
        status = acre_cache_create(target->device, &config, &target->cache);
    if (status == ACRE_OK)
        status = target_need_stream(target, 0);
    if (status != ACRE_OK)
        target_fini(target);
    return status;
}

void target_fini(struct target *target)
{
    acre_planner_destroy(target->planner);
    acre_pinned_destroy(target->pinned);
    acre_cache_destroy(target->cache);
    for (uint32_t i = 1; i < target->stream_count; i++)
        acre_stream_native_destroy(target->device, target->streams[i]);
    heap_free(target->streams);
    acre_backend_unregister(target->backend);
    memset(target, 0, sizeof *target);
}

/* Copies all events of the feed into one array, which the caller frees. */
static acre_status target_collect(struct target *target, struct feed *feed, acre_trace_event **out,
                                  size_t *out_count)
{
    acre_trace_event *all = NULL;
    size_t total = 0, capacity = 0, count;
    acre_status status;

    for (;;) {
        const acre_trace_event *events;
        status = feed_next(feed, &events, &count);
        if (status != ACRE_OK || count == 0)
            break;
        if (total + count > capacity) {
            capacity = 2 * (total + count);
            acre_trace_event *bigger = heap_realloc(all, capacity * sizeof *bigger);
            status = bigger ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
            all = bigger ? bigger : all;
        }
        for (size_t i = 0; i < count && status == ACRE_OK; i++) {
            if (events[i].stream != ACRE_TRACE_ALL_STREAMS)
                status = target_need_stream(target, events[i].stream);
            all[total++] = events[i];
        }
        if (status != ACRE_OK)
            break;
    }
    *out = all;
    *out_count = total;
    return status;
}

acre_status target_plan(struct target *target, struct feed *feed)
{
    /* A fixed amount of work, so that a replay gives the same figures again. */
    acre_planner_config config = {
        .struct_size = sizeof config, .flags = ACRE_PLANNER_KEEP, .seconds = INFINITY};
    acre_trace_event *events = NULL;
    size_t count = 0;
    acre_status status = feed_rewind(feed);

    if (status == ACRE_OK)
        status = target_collect(target, feed, &events, &count);
    if (status == ACRE_OK)
        status = feed_seconds_left(feed, &config.limit);
    if (status == ACRE_OK)
        status = acre_planner_create(target->cache, &config, &target->planner);
    if (status == ACRE_OK && count > 0)
        status = acre_planner_learn(target->planner, events, count, target->streams,
                                    target->stream_count);
    heap_free(events);
    return status == ACRE_ERR_DEVICE_MEMORY ? ACRE_OK : status;
}

acre_status target_pin(struct target *target, acre_policy policy, const char *conf)
{
    acre_pinned_config config = {.struct_size = sizeof config,
                                 .policy = policy,
                                 .conf = conf,
                                 .flags = ACRE_PINNED_NO_ENVIRONMENT};

    return acre_pinned_create(target->device, &config, &target->pinned);
}

acre_status target_alloc(struct target *target, size_t bytes, void *stream, void **out)
{
    if (target->planner)
        return acre_planner_alloc(target->planner, bytes, stream, out);
    if (target->pinned)
        return acre_pinned_alloc(target->pinned, bytes, out);
    return acre_cache_alloc(target->cache, bytes, stream, out);
}

acre_status target_free(struct target *target, void *pointer)
{
    if (target->planner)
        return acre_planner_free(target->planner, pointer);
    if (target->pinned)
        return acre_pinned_free(target->pinned, pointer);
    return acre_cache_free(target->cache, pointer);
}

acre_status target_use(struct target *target, void *pointer, void *stream)
{
    if (target->planner)
        return acre_planner_record_stream(target->planner, pointer, stream);
    if (target->pinned)
        return acre_pinned_record_stream(target->pinned, pointer, NULL, stream);
    return acre_cache_record_stream(target->cache, pointer, stream);
}

acre_status target_stats(struct target *target, acre_cache_stats *out)
{
    acre_pinned_stats stats = {.struct_size = sizeof stats};

    *out = (acre_cache_stats){.struct_size = sizeof *out};
    if (!target->pinned)
        return acre_cache_stats_get(target->cache, out);
    acre_status status = acre_pinned_stats_get(target->pinned, &stats);
    out->allocated_bytes.all = stats.active_bytes;
    out->reserved_bytes.all = stats.allocated_bytes;
    out->segment.all = stats.allocations;
    return status;
}

void target_reset_peak(struct target *target)
{
    if (target->planner)
        acre_planner_stats_reset_peak(target->planner);
    else if (target->pinned)
        acre_pinned_stats_reset_peak(target->pinned);
    else
        acre_cache_stats_reset_peak(target->cache);
}

acre_status target_empty(struct target *target)
{
    return target->pinned ? acre_pinned_empty(target->pinned) : acre_cache_empty(target->cache);
}

acre_status target_need_stream(struct target *target, uint32_t number)
{
    if (number < target->stream_count)
        return ACRE_OK;
    void **streams = heap_realloc(target->streams, ((size_t)number + 1) * sizeof *streams);
    if (!streams)
        return ACRE_ERR_HOST_MEMORY;
    target->streams = streams;
    streams[0] = NULL;
    if (target->stream_count == 0)
        target->stream_count = 1;
    while (target->stream_count <= number) {
        acre_status status =
            acre_stream_native_create(target->device, 0, 0, &streams[target->stream_count]);
        if (status != ACRE_OK)
            return status;
        target->stream_count++;
    }
    return ACRE_OK;
}

acre_status target_page_calls(struct target *target, uint64_t *out_maps, uint64_t *out_unmaps)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};
    acre_status status = acre_sim_usage_get(target->backend, &usage);

    if (status != ACRE_OK)
        return status;
    *out_maps = usage.calls[ACRE_SIM_MAP] + usage.unused_count;
    *out_unmaps = usage.calls[ACRE_SIM_UNMAP];
    return ACRE_OK;
}
