/* SPDX-License-Identifier: MIT */
#include "view/watch.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/ptrmap.h"
#include "base/status.h"
#include "base/text.h"
#include "replay/feed.h"
#include "replay/target.h"

#include <stdio.h>
#include <string.h>

#define SIZES_MAX 2048 /* different sizes that get a group of their own */
/* Segments and blocks that looks may copy: so many for any trace, and so many for each call to the
 * device. Beyond that, a look waits until it is paid for by further calls. */
#define COPIED_FREE     (32u << 20)
#define COPIED_PER_CALL 1024u

/* A block of the trace. */
struct placed {
    void *pointer; /* NULL: not served */
    uint64_t bytes;
    uint32_t stream;
};

struct watch {
    acre_view *view;
    const acre_view_config *config;
    struct target target;
    struct feed *feed;
    struct placed *placed; /* by slot                                     */
    uint64_t slot_count;
    struct ptrmap numbers; /* native stream to its number; not for number 0 */
    uint32_t number_count; /* streams that have been there before          */
    uint64_t calls;        /* to the device for memory, when last looked   */
    uint64_t copied;       /* segments and blocks, by all looks so far     */
    uint64_t late;         /* moments at which a look had to wait          */
};

/* ---- Segments ------------------------------------------------------------------------ */

static acre_status number_streams(struct watch *watch)
{
    acre_status status = ACRE_OK;

    for (; watch->number_count < watch->target.stream_count && status == ACRE_OK;
         watch->number_count++)
        if (watch->number_count > 0)
            status = ptrmap_put(&watch->numbers, watch->target.streams[watch->number_count],
                                (void *)(uintptr_t)watch->number_count);
    return status;
}

/* Looks for segments that came or went, after the device was asked for any; at the end also when
 * looks have copied too much already. */
static acre_status watch_look(struct watch *watch, bool is_end)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};
    acre_cache_layout *layout = NULL;
    acre_status status = acre_sim_usage_get(watch->target.backend, &usage);

    if (status != ACRE_OK)
        return status;
    uint64_t calls = usage.calls[ACRE_SIM_ALLOC] + usage.calls[ACRE_SIM_FREE] +
                     usage.calls[ACRE_SIM_MAP] + usage.calls[ACRE_SIM_UNMAP];
    if (calls == watch->calls)
        return ACRE_OK;
    if (!is_end && watch->copied > COPIED_FREE + COPIED_PER_CALL * calls) {
        watch->late++;
        return ACRE_OK;
    }
    watch->calls = calls;
    status = acre_cache_layout_create(watch->target.cache, &layout);
    if (status != ACRE_OK)
        return status;
    for (uint64_t i = 0; i < layout->segment_count; i++) { /* streams by number, as in the trace */
        acre_segment_info *segment = &layout->segments[i];
        segment->stream = segment->stream ? ptrmap_get(&watch->numbers, segment->stream) : NULL;
    }
    watch->copied += layout->segment_count + layout->block_count;
    status = acre_view_layout_add(watch->view, 0, layout);
    acre_cache_layout_destroy(layout);
    return status;
}

/* ---- Blocks ------------------------------------------------------------------------- */

/* The group of a size, in place of a stack. */
static acre_status size_stack(struct watch *watch, uint64_t bytes, uint32_t *out)
{
    char number[TEXT_BYTES_MAX], name[96];
    acre_view_frame frame = {.name = name};

    if (watch->view->stacks.count < SIZES_MAX)
        snprintf(name, sizeof name, "allocations of %s (%llu bytes)", text_bytes(number, bytes),
                 (unsigned long long)bytes);
    else
        snprintf(name, sizeof name, "allocations of %s or more, up to twice that",
                 text_bytes(number, (uint64_t)1 << bit_high(bytes)));
    return acre_view_stack_add(watch->view, &frame, 1, out);
}

static acre_status feed_alloc(struct watch *watch, const acre_trace_event *event)
{
    struct placed *placed = &watch->placed[event->slot];
    acre_view_event told = {
        .action = ACRE_VIEW_ALLOC, .bytes = event->bytes, .stream = event->stream};
    acre_status status = acre_cache_alloc(watch->target.cache, event->bytes,
                                          watch->target.streams[event->stream], &placed->pointer);

    placed->bytes = event->bytes;
    placed->stream = event->stream;
    if (status == ACRE_ERR_DEVICE_MEMORY || status == ACRE_ERR_REJECTED) {
        placed->pointer = NULL;
        told.action = ACRE_VIEW_OOM;
        told.text = acre_status_name(status);
    } else if (status != ACRE_OK)
        return status;
    status = watch_look(watch, false);
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
    acre_view_event told = {.action = ACRE_VIEW_FREE_COMPLETED,
                            .bytes = placed->bytes,
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
    return status == ACRE_OK ? watch_look(watch, false) : status;
}

/* ---- All of it ------------------------------------------------------------------------- */

static acre_status watch_prepare(struct watch *watch, const acre_trace_event *events, size_t count)
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
    return status == ACRE_OK ? number_streams(watch) : status;
}

/* Sees the segments at the end, and says what was not seen in time. */
static acre_status watch_end(struct watch *watch)
{
    acre_status status = watch_look(watch, true);
    char text[200];

    if (status != ACRE_OK || !watch->late)
        return status;
    snprintf(text, sizeof text,
             "The trace asks the device for memory too often to look at all segments each time: "
             "at %llu events, segments that came or went are shown some events late.",
             (unsigned long long)watch->late);
    return acre_view_note_add(watch->view, "Segments", text);
}

static acre_status watch_run(struct watch *watch)
{
    const acre_trace_event *events;
    size_t count = 0;

    for (;;) {
        acre_status status = feed_next(watch->feed, &events, &count);
        if (status == ACRE_OK && count > 0)
            status = watch_prepare(watch, events, count);
        for (size_t i = 0; i < count && status == ACRE_OK; i++)
            status = feed_event(watch, &events[i]);
        if (status != ACRE_OK)
            return status;
        if (count == 0)
            return watch_end(watch);
        if (watch->config->progress)
            watch->config->progress(watch->config->progress_arg, feed_progress(watch->feed));
    }
}

acre_status watch_trace(acre_view *view, const char *path, const acre_view_config *config)
{
    struct watch watch = {.view = view, .config = config};
    acre_status status = feed_open(path, 0, false, 0, &watch.feed);

    if (status == ACRE_OK)
        status =
            target_init(&watch.target, config->policy, config->conf,
                        config->device_bytes ? config->device_bytes : ACRE_REPLAY_DEVICE_BYTES);
    if (status == ACRE_OK) {
        status = watch_run(&watch);
        target_fini(&watch.target);
    }
    feed_close(watch.feed);
    ptrmap_fini(&watch.numbers);
    heap_free(watch.placed);
    return status;
}
