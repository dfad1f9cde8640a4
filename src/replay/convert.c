/* SPDX-License-Identifier: MIT */
/* Between traces and snapshots. */
#include <acre/snapshot.h>

#include "base/check.h"
#include "base/heap.h"
#include "base/ptrmap.h"
#include "base/status.h"
#include "format/array.h"
#include "format/sink.h"
#include "format/snapshot/facts.h"
#include "replay/history.h"
#include "replay/script.h"

#include <acre/trace.h>

#include <string.h>

#define CHUNK 4096

static bool is_gzip_name(const char *path)
{
    size_t length = strlen(path);

    return length >= 3 && strcmp(path + length - 3, ".gz") == 0;
}

/* ---- To a trace -------------------------------------------------------------------------- */

static void put_numbers(struct sink *sink, char letter, const uint64_t *numbers, int count)
{
    sink_byte(sink, (unsigned char)letter);
    for (int i = 0; i < count; i++) {
        sink_byte(sink, ' ');
        sink_unsigned(sink, numbers[i]);
    }
    sink_byte(sink, '\n');
}

static void put_event(struct sink *sink, const acre_trace_event *event)
{
    switch ((acre_trace_kind)event->kind) {
    case ACRE_TRACE_ALLOC:
        put_numbers(sink, 'a', (uint64_t[]){event->id, event->bytes, event->stream}, 3);
        break;
    case ACRE_TRACE_FREE:
        put_numbers(sink, 'f', &event->id, 1);
        break;
    case ACRE_TRACE_USE:
        put_numbers(sink, 'u', (uint64_t[]){event->id, event->stream}, 2);
        break;
    case ACRE_TRACE_SYNC:
        if (event->stream == ACRE_TRACE_ALL_STREAMS)
            sink_text(sink, "s *\n");
        else
            put_numbers(sink, 's', (uint64_t[]){event->stream}, 1);
        break;
    case ACRE_TRACE_EMPTY:
        sink_text(sink, "e\n");
        break;
    }
}

static void put_history(struct sink *sink, const struct trace_history *history)
{
    sink_text(sink, "# From the history of a memory snapshot.\n");
    if (history->start_count) {
        sink_text(sink, "# Live when the history began, by address: allocations ");
        sink_unsigned(sink, history->start_count);
        sink_text(sink, "; the order in which they came is not known.\n");
    }
    if (history->past.open_count) {
        sink_text(sink, "# Blocks among them whose exact size is not known: ");
        sink_unsigned(sink, history->past.open_count);
        sink_text(sink, ", in all at most this many bytes larger: ");
        sink_unsigned(sink, history->past.open_bytes_max);
        sink_text(sink, "\n");
    }
    if (history->past.contradictions) {
        sink_text(sink, "# Events that do not fit the segments at the end: ");
        sink_unsigned(sink, history->past.contradictions);
        sink_text(sink, "\n");
    }
    for (size_t i = 0; i < history->event_count; i++) {
        if (i == history->start_count && i)
            sink_text(sink, "# The history begins.\n");
        put_event(sink, &history->events[i]);
    }
}

static acre_status snapshot_to_trace(const struct snapshot *snapshot, const char *from,
                                     uint32_t device, const char *to)
{
    struct trace_history *history = NULL;
    struct sink sink;
    const char *reason;
    acre_status status = snapshot_check(snapshot);

    if (status != ACRE_OK)
        return ACRE_ERR_STATE;
    status = facts_device(snapshot, device, FACTS_HISTORY, &device, &reason);
    if (status == ACRE_OK)
        status = history_create(snapshot, device, false, &history);
    else
        device = 0;
    if (status == ACRE_ERR_NOT_FOUND)
        return status_fail(status, "%s: device %u has no history, of which a trace could be made",
                           from, device);
    if (status == ACRE_OK)
        status = sink_open(&sink, to, is_gzip_name(to));
    if (status == ACRE_OK) {
        put_history(&sink, history);
        status = sink_finish(&sink);
    }
    history_destroy(history);
    return status;
}

static acre_status trace_to_trace(const char *from, const char *to)
{
    acre_trace_event *events = heap_alloc(CHUNK * sizeof *events);
    acre_trace *trace = NULL;
    struct sink sink;
    size_t count = 1;

    if (!events)
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = acre_trace_open(from, &trace);
    if (status == ACRE_OK)
        status = sink_open(&sink, to, is_gzip_name(to));
    if (status == ACRE_OK) {
        while (count > 0 && status == ACRE_OK) {
            status = acre_trace_read(trace, events, CHUNK, &count);
            for (size_t i = 0; status == ACRE_OK && i < count; i++)
                put_event(&sink, &events[i]);
        }
        if (status == ACRE_OK)
            status = sink_finish(&sink);
        else
            sink_abandon(&sink);
    }
    acre_trace_close(trace);
    heap_free(events);
    return status;
}

/* ---- From a trace -------------------------------------------------------------------------- */

/* A trace being recorded: what is live by slot, and the snapshot so far. */
struct recording {
    struct script script;
    acre_cache *cache;
    struct snapshot *snapshot;
    struct live {
        void *pointer;
        uint64_t bytes;
        uint32_t stream;
    } * slots;
    size_t slot_count, slot_capacity;
    struct ptrmap segments; /* address to number + 1 of its entry */
    int64_t time_us;        /* one microsecond an event           */
};

/* Streams need no substance here: their number is their handle. */
static void *stream_handle(uint32_t number)
{
    return (void *)(uintptr_t)number;
}

static acre_status convert_record(struct recording *recording, uint16_t action, uint64_t address,
                                  uint64_t bytes, uint32_t stream)
{
    struct snapshot *snapshot = recording->snapshot;
    struct snap_origin origin = snapshot->origins[0];
    struct snap_entry *entry;
    uint32_t number;

    origin.stream = stream;
    acre_status status = snapshot_add_origin(snapshot, &origin, &number);
    if (status == ACRE_OK)
        status = snapshot_add_entry(snapshot, &entry);
    if (status != ACRE_OK)
        return status;
    entry->action = action;
    entry->address = address;
    entry->bytes = bytes;
    entry->origin = number;
    entry->time_us = recording->time_us;
    entry->has = SNAP_HAS_TIME;
    return ACRE_OK;
}

/* Puts down what the device was asked for meanwhile. */
static acre_status record_calls(struct recording *recording, uint32_t stream)
{
    struct script *script = &recording->script;
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < script->call_count && status == ACRE_OK; i++) {
        const struct script_call *call = &script->calls[i];
        const void *key = (const void *)(uintptr_t)call->address;
        if (call->is_free) {
            /* The allocation was recorded, so its size and stream are known. */
            size_t entry = (size_t)ptrmap_take(&recording->segments, key);
            const struct snap_entry *from = &recording->snapshot->entries[entry - 1];
            CHECK(entry > 0);
            status = convert_record(recording, SNAP_SEGMENT_FREE, call->address, from->bytes,
                                    (uint32_t)snapshot_origin(recording->snapshot, from)->stream);
            continue;
        }
        status = convert_record(recording, SNAP_SEGMENT_ALLOC, call->address, call->bytes, stream);
        if (status == ACRE_OK)
            status =
                ptrmap_put(&recording->segments, key, (void *)recording->snapshot->entry_count);
    }
    script->call_count = 0;
    return status;
}

static acre_status record_alloc(struct recording *recording, const acre_trace_event *event)
{
    struct live live = {.bytes = event->bytes, .stream = event->stream};
    acre_status status = ACRE_OK;

    while (recording->slot_count <= event->slot && status == ACRE_OK) {
        status = ARRAY_ROOM(recording, slots, slot, 1);
        if (status == ACRE_OK)
            recording->slots[recording->slot_count++] = (struct live){NULL, 0, 0};
    }
    if (status == ACRE_OK)
        status = acre_cache_alloc(recording->cache, event->bytes, stream_handle(event->stream),
                                  &live.pointer);
    if (status == ACRE_OK)
        status = record_calls(recording, event->stream);
    if (status != ACRE_OK)
        return status;
    recording->slots[event->slot] = live;
    return convert_record(recording, SNAP_ALLOC, (uint64_t)(uintptr_t)live.pointer, live.bytes,
                          live.stream);
}

static acre_status record_event(struct recording *recording, const acre_trace_event *event)
{
    acre_status status;

    recording->time_us++;
    if (event->kind == ACRE_TRACE_ALLOC)
        return record_alloc(recording, event);
    if (event->kind == ACRE_TRACE_FREE) {
        const struct live *live = &recording->slots[event->slot];
        uint64_t address = (uint64_t)(uintptr_t)live->pointer;
        status = convert_record(recording, SNAP_FREE_REQUESTED, address, live->bytes, live->stream);
        if (status == ACRE_OK)
            status = acre_cache_free(recording->cache, live->pointer);
        return status == ACRE_OK ? convert_record(recording, SNAP_FREE_COMPLETED, address,
                                                  live->bytes, live->stream)
                                 : status;
    }
    if (event->kind != ACRE_TRACE_EMPTY)
        return ACRE_OK;
    status = acre_cache_empty(recording->cache);
    return status == ACRE_OK ? record_calls(recording, 0) : status;
}

static acre_status record_block(struct snapshot *snapshot, struct snap_segment *segment,
                                const acre_block_info *from)
{
    struct snap_block *block;
    acre_status status = snapshot_add_block(snapshot, &block);

    if (status != ACRE_OK)
        return status;
    block->address = (uint64_t)(uintptr_t)from->base;
    block->bytes = from->bytes;
    block->requested_bytes = from->requested_bytes;
    block->state = from->state == ACRE_BLOCK_LIVE ? SNAP_ALLOCATED : SNAP_INACTIVE;
    block->has = SNAP_HAS_ADDRESS | SNAP_HAS_REQUESTED | SNAP_HAS_FRAMES;
    if (block->state == SNAP_ALLOCATED) {
        segment->allocated_bytes += block->bytes;
        segment->active_bytes += block->bytes;
        segment->requested_bytes += block->requested_bytes;
    }
    return ACRE_OK;
}

/* The state at the end. */
static acre_status record_end(struct recording *recording)
{
    struct snapshot *snapshot = recording->snapshot;
    acre_cache_layout *layout;
    acre_status status = acre_cache_layout_create(recording->cache, &layout);

    if (status != ACRE_OK)
        return status;
    for (uint64_t i = 0; i < layout->segment_count && status == ACRE_OK; i++) {
        const acre_segment_info *from = &layout->segments[i];
        struct snap_segment *segment;
        status = snapshot_add_segment(snapshot, &segment);
        if (status == ACRE_OK)
            status = snapshot_add_string(snapshot, from->is_small ? "small" : "large", 5,
                                         &segment->type);
        if (status == ACRE_OK)
            status = snapshot_add_pool(snapshot, from->pool[0], from->pool[1], &segment->pool);
        if (status != ACRE_OK)
            break;
        segment->address = (uint64_t)(uintptr_t)from->base;
        segment->bytes = from->bytes;
        segment->stream = (uint64_t)(uintptr_t)from->stream;
        segment->is_small = from->is_small != 0;
        segment->has = SNAP_HAS_REQUESTED | SNAP_HAS_POOL | SNAP_HAS_EXPANDABLE | SNAP_HAS_FRAMES;
        for (uint64_t k = 0; k < from->block_count && status == ACRE_OK; k++)
            status = record_block(snapshot, segment, &layout->blocks[from->first_block + k]);
    }
    acre_cache_layout_destroy(layout);
    return status;
}

static acre_status record_trace(struct recording *recording, acre_trace *trace)
{
    acre_trace_event *events = heap_alloc(CHUNK * sizeof *events);
    acre_status status = events ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
    size_t count = 1;

    while (count > 0 && status == ACRE_OK) {
        status = acre_trace_read(trace, events, CHUNK, &count);
        for (size_t i = 0; i < count && status == ACRE_OK; i++)
            status = record_event(recording, &events[i]);
    }
    heap_free(events);
    return status == ACRE_OK ? record_end(recording) : status;
}

static acre_status trace_to_snapshot(const char *path, struct snapshot **out)
{
    struct recording recording = {.segments = PTRMAP_INITIALIZER};
    acre_cache_config config = {.struct_size = sizeof config,
                                .policy = ACRE_POLICY_TORCH,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_trace *trace = NULL;
    struct snap_device *device;
    acre_status status = acre_trace_open(path, &trace);

    if (status != ACRE_OK)
        return status;
    status = snapshot_create(&recording.snapshot);
    if (status == ACRE_OK)
        status = snapshot_add_device(recording.snapshot, &device);
    if (status == ACRE_OK)
        status = script_init(&recording.script, (uint64_t)1 << 46);
    if (status == ACRE_OK) {
        recording.script.is_recording = true;
        recording.snapshot->has_traces = true;
        recording.snapshot->trace_count = 1;
        status = acre_cache_create(recording.script.device, &config, &recording.cache);
        if (status == ACRE_OK)
            status = record_trace(&recording, trace);
        acre_cache_destroy(recording.cache);
        script_fini(&recording.script);
    }
    heap_free(recording.slots);
    ptrmap_fini(&recording.segments);
    acre_trace_close(trace);
    if (status == ACRE_OK)
        *out = recording.snapshot;
    else
        snapshot_destroy(recording.snapshot);
    return status;
}

acre_status acre_convert(const char *from, const char *to, acre_convert_format format,
                         uint32_t device)
{
    struct snapshot *snapshot = NULL;
    bool is_snapshot;

    if (!from || !to || format < ACRE_CONVERT_TRACE || format > ACRE_CONVERT_JSON)
        return status_fail(ACRE_ERR_INVALID, "acre_convert: %s",
                           from && to ? "that is no format" : "an argument is NULL");
    acre_status status = snapshot_is_one(from, &is_snapshot);
    if (status != ACRE_OK)
        return status;
    if (!is_snapshot && format == ACRE_CONVERT_TRACE)
        return trace_to_trace(from, to);
    status = is_snapshot ? snapshot_read(from, &snapshot) : trace_to_snapshot(from, &snapshot);
    if (status != ACRE_OK)
        return status;
    if (format == ACRE_CONVERT_TRACE)
        status = snapshot_to_trace(snapshot, from, device, to);
    else
        status = snapshot_write(snapshot, to,
                                format == ACRE_CONVERT_JSON ? SNAPSHOT_JSON : SNAPSHOT_PICKLE);
    snapshot_destroy(snapshot);
    return status;
}
