/* SPDX-License-Identifier: MIT */
/* Buffers from the history of a memory snapshot.
 *
 * Time is the number of allocations and frees before; what was there before the history
 * began lives from its start, what is never freed until its end. A block ends when its free
 * is completed, as in a replay, for a stream may use it until then; recordings without
 * completed frees end blocks when the free is requested. Buffers are numbered in the order
 * they are met.
 */
#include "format/csv.h"

#include "base/heap.h"
#include "base/ptrmap.h"
#include "base/status.h"
#include "format/snapshot/facts.h"

struct plan_reading {
    acre_plan_table *table;
    struct ptrmap live; /* address to number of its buffer + 1 */
    uint64_t now;
    uint16_t free_action; /* the event that ends a buffer     */
    uint32_t padding;     /* of every size, see facts.h       */
};

static acre_status add_buffer(struct plan_reading *reading, uint64_t start, uint64_t bytes)
{
    acre_plan_table *table = reading->table;
    acre_status status = table_grow(table, true);

    if (status != ACRE_OK)
        return status;
    table->ids[table->count] = table->count;
    table->buffers[table->count++] = (acre_plan_buffer){
        .start = start, .end = UINT64_MAX, .size = table_round(bytes, reading->padding)};
    return ACRE_OK;
}

static acre_status take_entry(struct plan_reading *reading, const struct snap_entry *entry)
{
    const void *address = (const void *)(uintptr_t)entry->address;
    acre_plan_table *table = reading->table;
    acre_status status = ACRE_OK;

    if (!address || (entry->action != SNAP_ALLOC && entry->action != reading->free_action))
        return ACRE_OK;
    if (entry->action == SNAP_ALLOC) {
        status = add_buffer(reading, reading->now++, entry->bytes);
        if (status == ACRE_OK)
            status = ptrmap_put(&reading->live, address, (void *)(uintptr_t)table->count);
        return status;
    }
    uintptr_t number = (uintptr_t)ptrmap_take(&reading->live, address);
    if (!number) {
        status = add_buffer(reading, 0, entry->bytes);
        number = table->count;
    }
    if (status == ACRE_OK)
        table->buffers[number - 1].end = reading->now++;
    return status;
}

/* What lives at the end and was never met in the history lived throughout. */
static acre_status take_blocks(struct plan_reading *reading, const struct snapshot *snapshot,
                               uint32_t device)
{
    acre_status status = ACRE_OK;

    for (size_t s = 0; s < snapshot->segment_count && status == ACRE_OK; s++) {
        const struct snap_segment *segment = &snapshot->segments[s];
        if (segment->device != device)
            continue;
        for (uint64_t b = 0; b < segment->block_count && status == ACRE_OK; b++) {
            const struct snap_block *block = &snapshot->blocks[segment->first_block + b];
            uint64_t requested = block->has & SNAP_HAS_REQUESTED && block->requested_bytes
                                     ? block->requested_bytes
                                     : block->bytes - reading->padding;
            if (block->state != SNAP_INACTIVE && block->address &&
                !ptrmap_has(&reading->live, (const void *)(uintptr_t)block->address))
                status = add_buffer(reading, 0, requested);
        }
    }
    return status;
}

static acre_status take_snapshot(acre_plan_table *table, const struct snapshot *snapshot,
                                 uint32_t device, const char *path)
{
    struct plan_reading reading = {.table = table, .padding = facts_padding(snapshot)};
    const char *reason;
    acre_status status = facts_device(snapshot, device, FACTS_HISTORY, &device, &reason);

    if (status == ACRE_OK && !facts_has_history(snapshot, device))
        status = ACRE_ERR_NOT_FOUND;
    if (status != ACRE_OK)
        return status_fail(ACRE_ERR_FORMAT,
                           "%s: there is no history of allocations to plan: record one with "
                           "torch.cuda.memory._record_memory_history() before the job",
                           path);
    const struct snap_device *history = &snapshot->devices[device];
    reading.free_action = facts_free_action(snapshot, device);
    ptrmap_init(&reading.live);
    for (uint64_t e = 0; e < history->entry_count && status == ACRE_OK; e++)
        status = take_entry(&reading, &snapshot->entries[history->first_entry + e]);
    if (status == ACRE_OK)
        status = take_blocks(&reading, snapshot, device);
    for (size_t i = 0; i < table->count; i++)
        if (table->buffers[i].end == UINT64_MAX)
            table->buffers[i].end = reading.now;
    ptrmap_fini(&reading.live);
    return status;
}

acre_status plan_snapshot_read(acre_plan_table *table, uint32_t device, const char *path,
                               struct source *source)
{
    struct snapshot *snapshot = NULL;
    acre_status status = snapshot_read_source(path, source, &snapshot);

    if (status == ACRE_OK)
        status = take_snapshot(table, snapshot, device, path);
    snapshot_destroy(snapshot);
    return status;
}
