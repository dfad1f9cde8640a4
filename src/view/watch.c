/* SPDX-License-Identifier: MIT */
#include "view/watch.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"
#include "replay/feed.h"
#include "replay/target.h"

#include <stdio.h>
#include <string.h>

#define SIZES_MAX 2048 /* different sizes that get a group of their own */

/* A block of the trace. */
struct placed {
    void *pointer;   /* NULL: not served */
    uint64_t bytes;
    uint32_t stream;
};

/* A range of device memory that the view knows of. */
struct range {
    uint64_t address, bytes, stream, pool[2];
    uint32_t flags;
};

struct ranges {
    struct range *items;
    size_t count, capacity;
};

struct watch {
    acre_view *view;
    const acre_view_config *config;
    struct target target;
    struct feed *feed;
    struct placed *placed; /* by slot                                     */
    uint64_t slot_count;
    uint64_t calls;        /* to the device for memory, when last looked  */
    struct ranges known;   /* in order of address                         */
    struct ranges seen;    /* the same, being read                        */
};

/* ---- Segments ------------------------------------------------------------------------ */

static acre_status add_range(struct ranges *ranges, const struct range *range)
{
    struct range *last = ranges->count ? &ranges->items[ranges->count - 1] : NULL;

    if (last && last->address + last->bytes == range->address && last->stream == range->stream &&
        (range->flags & ACRE_VIEW_EXPANDABLE) && last->flags == range->flags) {
        last->bytes += range->bytes;
        return ACRE_OK;
    }
    if (ranges->count == ranges->capacity) {
        size_t capacity = ranges->capacity ? ranges->capacity * 2 : 64;
        struct range *items = heap_realloc(ranges->items, capacity * sizeof *items);
        if (!items)
            return ACRE_ERR_HOST_MEMORY;
        ranges->items = items;
        ranges->capacity = capacity;
    }
    ranges->items[ranges->count++] = *range;
    return ACRE_OK;
}

static uint32_t stream_number(const struct watch *watch, const void *stream)
{
    for (uint32_t i = 0; i < watch->target.stream_count; i++)
        if (watch->target.streams[i] == stream)
            return i;
    return 0;
}

/* Adds what of a segment has memory: all of it, or the mapped part of its blocks. */
static acre_status add_segment(struct watch *watch, const acre_cache_layout *layout,
                               const acre_segment_info *segment)
{
    struct range range = {.stream = stream_number(watch, segment->stream),
                          .pool = {segment->pool[0], segment->pool[1]},
                          .flags = (segment->is_expandable ? ACRE_VIEW_EXPANDABLE : 0) |
                                   (segment->is_small ? ACRE_VIEW_SMALL : 0)};
    acre_status status = ACRE_OK;

    range.address = (uint64_t)(uintptr_t)segment->base;
    range.bytes = segment->bytes;
    if (!segment->is_expandable)
        return add_range(&watch->seen, &range);
    for (uint64_t i = 0; i < segment->block_count && status == ACRE_OK; i++) {
        const acre_block_info *block = &layout->blocks[segment->first_block + i];
        range.address = (uint64_t)(uintptr_t)block->base;
        range.bytes = block->bytes;
        if (block->state != ACRE_BLOCK_UNMAPPED)
            status = add_range(&watch->seen, &range);
    }
    return status;
}

/* Tells that [low, high) of a range came or went. */
static acre_status tell_range(struct watch *watch, const struct range *range, uint64_t low,
                              uint64_t high, uint32_t action)
{
    acre_view_event event = {.action = action, .address = low, .bytes = high - low,
                             .stream = range->stream, .flags = range->flags,
                             .pool = {range->pool[0], range->pool[1]}};

    return low < high ? acre_view_event_add(watch->view, &event) : ACRE_OK;
}

/* Whether memory of one range may be memory of the other, seen later: pages of
 * the same kind, or the same segment. */
static bool is_kin(const struct range *a, const struct range *b)
{
    if (a->stream != b->stream || a->flags != b->flags)
        return false;
    return (a->flags & ACRE_VIEW_EXPANDABLE) ||
           (a->address == b->address && a->bytes == b->bytes);
}

/* Tells what the ranges of one list have and those of the other have not; both
 * are in order of address. */
static acre_status tell_missing(struct watch *watch, const struct ranges *list,
                                const struct ranges *other, uint32_t action)
{
    acre_status status = ACRE_OK;
    size_t first = 0;

    for (size_t i = 0; i < list->count && status == ACRE_OK; i++) {
        const struct range *range = &list->items[i];
        uint64_t at = range->address, end = at + range->bytes;
        while (first < other->count &&
               other->items[first].address + other->items[first].bytes <= at)
            first++;
        for (size_t k = first; k < other->count && other->items[k].address < end &&
                               status == ACRE_OK; k++) {
            const struct range *match = &other->items[k];
            if (!is_kin(range, match))
                continue;
            status = tell_range(watch, range, at, match->address, action);
            if (match->address + match->bytes > at)
                at = match->address + match->bytes;
        }
        if (status == ACRE_OK)
            status = tell_range(watch, range, at, end, action);
    }
    return status;
}

/* Looks for segments that came or went, after the device was asked for any. */
static acre_status look(struct watch *watch)
{
    acre_sim_usage usage;
    acre_cache_layout *layout = NULL;
    acre_status status = acre_sim_usage_get(watch->target.backend, &usage);

    if (status != ACRE_OK)
        return status;
    uint64_t calls = usage.calls[ACRE_SIM_ALLOC] + usage.calls[ACRE_SIM_FREE] +
                     usage.calls[ACRE_SIM_MAP] + usage.calls[ACRE_SIM_UNMAP];
    if (calls == watch->calls)
        return ACRE_OK;
    watch->calls = calls;
    status = acre_cache_layout_create(watch->target.cache, &layout);
    watch->seen.count = 0;
    for (uint64_t i = 0; status == ACRE_OK && i < layout->segment_count; i++)
        status = add_segment(watch, layout, &layout->segments[i]);
    acre_cache_layout_destroy(layout);
    if (status == ACRE_OK)
        status = tell_missing(watch, &watch->known, &watch->seen, ACRE_VIEW_SEGMENT_FREE);
    if (status == ACRE_OK)
        status = tell_missing(watch, &watch->seen, &watch->known, ACRE_VIEW_SEGMENT_ALLOC);
    struct ranges swap = watch->known;
    watch->known = watch->seen;
    watch->seen = swap;
    return status;
}

/* ---- Blocks ------------------------------------------------------------------------- */

/* The group of a size, in place of a stack. */
static acre_status size_stack(struct watch *watch, uint64_t bytes, uint32_t *out)
{
    char number[TEXT_BYTES_MAX], name[96];
    acre_view_frame frame = {.name = name};

    if (watch->view->stacks.count < SIZES_MAX)
        snprintf(name, sizeof name, "allocations of %s (%llu bytes)",
                 text_bytes(number, bytes), (unsigned long long)bytes);
    else
        snprintf(name, sizeof name, "allocations of %s or more, up to twice that",
                 text_bytes(number, (uint64_t)1 << bit_high(bytes)));
    return acre_view_stack_add(watch->view, &frame, 1, out);
}

static acre_status feed_alloc(struct watch *watch, const acre_trace_event *event)
{
    struct placed *placed = &watch->placed[event->slot];
    acre_view_event told = {.action = ACRE_VIEW_ALLOC, .bytes = event->bytes,
                            .stream = event->stream};
    acre_status status = acre_cache_alloc(watch->target.cache, event->bytes,
                                          watch->target.streams[event->stream],
                                          &placed->pointer);

    placed->bytes = event->bytes;
    placed->stream = event->stream;
    if (status == ACRE_ERR_DEVICE_MEMORY || status == ACRE_ERR_REJECTED) {
        placed->pointer = NULL;
        told.action = ACRE_VIEW_OOM;
        told.text = acre_status_name(status);
    } else if (status != ACRE_OK)
        return status;
    status = look(watch);
    if (status == ACRE_OK)
        status = size_stack(watch, event->bytes, &told.stack);
    if (status == ACRE_OK && placed->pointer) {
        told.address = (uint64_t)(uintptr_t)placed->pointer;
        status = acre_cache_block_bytes(watch->target.cache, placed->pointer, &told.block_bytes);
    }
    return status == ACRE_OK ? acre_view_event_add(watch->view, &told) : status;
}

static acre_status feed_free(struct watch *watch, const acre_trace_event *event)
{
    struct placed *placed = &watch->placed[event->slot];
    acre_view_event told = {.action = ACRE_VIEW_FREE_COMPLETED, .bytes = placed->bytes,
                            .address = (uint64_t)(uintptr_t)placed->pointer,
                            .stream = placed->stream};

    if (!placed->pointer)
        return ACRE_OK;
    acre_status status = acre_cache_free(watch->target.cache, placed->pointer);
    placed->pointer = NULL;
    return status == ACRE_OK ? acre_view_event_add(watch->view, &told) : status;
}

static acre_status feed_event(struct watch *watch, const acre_trace_event *event)
{
    struct target *target = &watch->target;
    acre_status status;

    switch ((acre_trace_kind)event->kind) {
    case ACRE_TRACE_ALLOC:
        return feed_alloc(watch, event);
    case ACRE_TRACE_FREE:
        return feed_free(watch, event);
    case ACRE_TRACE_USE:
        return acre_cache_record_stream(target->cache, watch->placed[event->slot].pointer,
                                        target->streams[event->stream]);
    case ACRE_TRACE_SYNC:
        if (event->stream == ACRE_TRACE_ALL_STREAMS)
            return acre_device_synchronize(target->device);
        return acre_stream_native_synchronize(target->device, target->streams[event->stream]);
    case ACRE_TRACE_EMPTY:
        break;
    }
    status = acre_cache_empty(target->cache);
    return status == ACRE_OK ? look(watch) : status;
}

/* ---- All of it ------------------------------------------------------------------------- */

static acre_status prepare(struct watch *watch, const acre_trace_event *events, size_t count)
{
    acre_status status = ACRE_OK;

    if (watch->feed->slot_count > watch->slot_count) {
        uint64_t wanted = watch->feed->slot_count * 2;
        struct placed *placed = heap_realloc(watch->placed, wanted * sizeof *placed);
        if (!placed)
            return ACRE_ERR_HOST_MEMORY;
        memset(placed + watch->slot_count, 0, (wanted - watch->slot_count) * sizeof *placed);
        watch->placed = placed;
        watch->slot_count = wanted;
    }
    for (size_t i = 0; i < count && status == ACRE_OK; i++)
        if (events[i].stream != ACRE_TRACE_ALL_STREAMS)
            status = target_need_stream(&watch->target, events[i].stream);
    return status;
}

static acre_status run(struct watch *watch)
{
    const acre_trace_event *events;
    size_t count = 0;

    for (;;) {
        acre_status status = feed_next(watch->feed, &events, &count);
        if (status == ACRE_OK && count > 0)
            status = prepare(watch, events, count);
        for (size_t i = 0; i < count && status == ACRE_OK; i++)
            status = feed_event(watch, &events[i]);
        if (status != ACRE_OK || count == 0)
            return status;
        if (watch->config->progress)
            watch->config->progress(watch->config->progress_arg, feed_progress(watch->feed));
    }
}

acre_status watch_trace(acre_view *view, const char *path, const acre_view_config *config)
{
    struct watch watch = {.view = view, .config = config};
    acre_status status = feed_open(path, 0, 0, &watch.feed);

    if (status == ACRE_OK)
        status = target_init(&watch.target, config->policy, config->conf,
                             config->device_bytes ? config->device_bytes
                                                  : ACRE_REPLAY_DEVICE_BYTES);
    if (status == ACRE_OK) {
        status = run(&watch);
        target_fini(&watch.target);
    }
    feed_close(watch.feed);
    heap_free(watch.placed);
    heap_free(watch.known.items);
    heap_free(watch.seen.items);
    return status;
}
