/* SPDX-License-Identifier: MIT */
#include "replay/history.h"

#include "base/heap.h"
#include "base/ptrmap.h"
#include "base/status.h"
#include "format/array.h"
#include "format/snapshot/facts.h"

#include <string.h>

#define BYTES_MAX ((uint64_t)1 << 60)

/* While walking: who lives where. */
struct history_walk {
    struct trace_history *history;
    const struct snapshot *snapshot;
    const struct snap_entry *entries;
    uint64_t entry_count;
    struct ptrmap live; /* address + 1 to slot + 1               */
    uint64_t *ids;      /* by slot                               */
    size_t id_count, id_capacity;
    uint32_t *free_slots; /* to hand out again                     */
    size_t free_slot_count, free_slot_capacity;
    uint64_t next_id;
    struct ptrmap numbers; /* handle of a stream to its number; not for handle 0 */
    uint64_t last_handle;  /* the stream asked for last ...         */
    uint32_t last_stream;  /* ... and its number                    */
};

static const void *key_of(uint64_t address)
{
    return (const void *)(uintptr_t)(address + 1);
}

void history_destroy(struct trace_history *history)
{
    if (!history)
        return;
    heap_free(history->events);
    heap_free(history->entries);
    heap_free(history->streams);
    past_fini(&history->past);
    heap_free(history);
}

static acre_status stream_number(struct history_walk *walk, uint64_t handle, uint32_t *out)
{
    struct trace_history *history = walk->history;

    if (handle != walk->last_handle) {
        const void *key = (const void *)(uintptr_t)handle;
        size_t known = handle ? (size_t)ptrmap_get(&walk->numbers, key) : 0;
        size_t i = known || !handle ? known : history->stream_count;
        if (i > ACRE_TRACE_STREAM_MAX)
            return status_fail(ACRE_ERR_LIMIT, "the history has more than %d streams",
                               ACRE_TRACE_STREAM_MAX + 1);
        if (i == history->stream_count) {
            acre_status status = ARRAY_ROOM(history, streams, stream, 1);
            if (status == ACRE_OK)
                status = ptrmap_put(&walk->numbers, key, (void *)i);
            if (status != ACRE_OK)
                return status;
            history->streams[history->stream_count++] = handle;
        }
        walk->last_handle = handle;
        walk->last_stream = (uint32_t)i;
    }
    *out = walk->last_stream;
    return ACRE_OK;
}

static acre_status add_event(struct history_walk *walk, acre_trace_event event, uint32_t entry)
{
    struct trace_history *history = walk->history;
    acre_status status = ARRAY_ROOM(history, events, event, 1);

    if (status == ACRE_OK)
        status = array_room((void **)&history->entries, &history->entry_capacity,
                            history->event_count + 1, sizeof *history->entries);
    if (status != ACRE_OK)
        return status;
    history->entries[history->event_count] = entry;
    history->events[history->event_count++] = event;
    return ACRE_OK;
}

/* ---- Allocations --------------------------------------------------------------------------- */

static acre_status take_slot(struct history_walk *walk, uint32_t *out)
{
    if (walk->free_slot_count) {
        *out = walk->free_slots[--walk->free_slot_count];
        return ACRE_OK;
    }
    acre_status status = ARRAY_ROOM(walk, ids, id, 1);
    if (status == ACRE_OK)
        status = array_room((void **)&walk->free_slots, &walk->free_slot_capacity,
                            walk->id_count + 1, sizeof *walk->free_slots);
    if (status != ACRE_OK)
        return status;
    *out = (uint32_t)walk->id_count++;
    walk->history->slot_count = walk->id_count;
    return ACRE_OK;
}

static acre_status end_life(struct history_walk *walk, uint64_t address, uint32_t entry)
{
    size_t slot = (size_t)ptrmap_take(&walk->live, key_of(address));

    if (!slot)
        return ACRE_OK;
    walk->free_slots[walk->free_slot_count++] = (uint32_t)slot - 1;
    return add_event(walk,
                     (acre_trace_event){.kind = ACRE_TRACE_FREE,
                                        .id = walk->ids[slot - 1],
                                        .slot = (uint32_t)slot - 1},
                     entry);
}

static acre_status begin_life(struct history_walk *walk, uint64_t address, uint64_t bytes,
                              uint64_t handle, uint32_t entry)
{
    acre_trace_event event = {.kind = ACRE_TRACE_ALLOC, .bytes = bytes};
    acre_status status = end_life(walk, address, entry); /* of a free that was lost */

    if (status == ACRE_OK)
        status = stream_number(walk, handle, &event.stream);
    if (status == ACRE_OK)
        status = take_slot(walk, &event.slot);
    if (status != ACRE_OK)
        return status;
    bytes += bytes < BYTES_MAX ? walk->history->past.padding : 0;
    event.bytes = bytes == 0 ? 1 : bytes > BYTES_MAX ? BYTES_MAX : bytes;
    event.id = walk->ids[event.slot] = walk->next_id++;
    status = ptrmap_put(&walk->live, key_of(address), (void *)((size_t)event.slot + 1));
    return status == ACRE_OK ? add_event(walk, event, entry) : status;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static bool gives_back(const struct snap_entry *entry)
{
    return entry->action == SNAP_SEGMENT_FREE || entry->action == SNAP_SEGMENT_UNMAP;
}

/* Whether a run of segments given back ends here, and was not making room: what makes
 * room is followed by a new segment or by the failure. */
static bool empties_cache(const struct history_walk *walk, uint64_t i)
{
    if (!gives_back(&walk->entries[i]))
        return false;
    if (i + 1 == walk->entry_count)
        return true;
    uint16_t next = walk->entries[i + 1].action;
    return next != SNAP_SEGMENT_FREE && next != SNAP_SEGMENT_UNMAP && next != SNAP_SEGMENT_ALLOC &&
           next != SNAP_SEGMENT_MAP && next != SNAP_OOM;
}

static acre_status walk_entry(struct history_walk *walk, uint64_t i)
{
    const struct snap_entry *entry = &walk->entries[i];
    bool has_completed = walk->history->past.has_completed;
    uint64_t stream = snapshot_origin(walk->snapshot, entry)->stream;
    uint32_t number = (uint32_t)i;
    acre_status status;

    switch (entry->action) {
    case SNAP_ALLOC:
        return begin_life(walk, entry->address, entry->bytes, stream, number);
    case SNAP_FREE_REQUESTED:
        return has_completed ? ACRE_OK : end_life(walk, entry->address, number);
    case SNAP_FREE_COMPLETED:
        return end_life(walk, entry->address, number);
    case SNAP_OOM:
        walk->history->oom_count++;
        if (!walk->history->has_requests)
            return ACRE_OK;
        /* Its size is rounded already, and padded. */
        status = begin_life(walk, UINT64_MAX - 1,
                            entry->bytes - (entry->bytes > walk->history->past.padding
                                                ? walk->history->past.padding
                                                : 0),
                            stream, number);
        return status == ACRE_OK ? end_life(walk, UINT64_MAX - 1, number) : status;
    default:
        if (empties_cache(walk, i))
            return add_event(walk, (acre_trace_event){.kind = ACRE_TRACE_EMPTY}, number);
        return ACRE_OK;
    }
}

static acre_status walk_all(struct history_walk *walk)
{
    struct trace_history *history = walk->history;
    acre_status status = ARRAY_ROOM(history, streams, stream, 1);

    if (status != ACRE_OK)
        return status;
    history->streams[history->stream_count++] = 0;
    for (size_t i = 0; i < history->past.block_count && status == ACRE_OK; i++) {
        const struct past_block *block = &history->past.blocks[i];
        status = begin_life(walk, block->address, block->requested_bytes, block->stream, SNAP_NONE);
    }
    history->start_count = history->event_count;
    for (uint64_t i = 0; i < walk->entry_count && status == ACRE_OK; i++)
        status = walk_entry(walk, i);
    return status;
}

acre_status history_create(const struct snapshot *snapshot, uint32_t device, bool has_requests,
                           struct trace_history **out)
{
    struct trace_history *history = heap_zalloc(sizeof *history);
    struct history_walk walk = {.history = history};
    acre_status status;

    if (!history)
        return ACRE_ERR_HOST_MEMORY;
    history->has_requests = has_requests;
    status = facts_has_history(snapshot, device)
                 ? past_recover(snapshot, device, &history->past)
                 : status_fail(ACRE_ERR_NOT_FOUND, "device %u has no history", device);
    if (status == ACRE_OK) {
        walk.snapshot = snapshot;
        walk.entries = snapshot_history(snapshot, device);
        walk.entry_count = snapshot->devices[device].entry_count;
        ptrmap_init(&walk.live);
        ptrmap_init(&walk.numbers);
        status = walk_all(&walk);
        ptrmap_fini(&walk.live);
        ptrmap_fini(&walk.numbers);
        heap_free(walk.ids);
        heap_free(walk.free_slots);
    }
    if (status != ACRE_OK) {
        history_destroy(history);
        return status;
    }
    *out = history;
    return ACRE_OK;
}
