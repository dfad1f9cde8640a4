/* SPDX-License-Identifier: MIT */
/* Buffers from the history of a memory snapshot.
 *
 * The device with the longest history is taken. Time is the number of allocations and
 * frees before; what was there before the history began lives from its start, what is
 * never freed until its end. Buffers are numbered in the order they are met.
 */
#include "format/csv.h"

#include "base/heap.h"
#include "base/ptrmap.h"
#include "base/status.h"
#include "format/snapshot/snapshot.h"

struct reading {
    acre_plan_table *table;
    struct ptrmap live; /* address to number of its buffer + 1 */
    uint64_t now;
};

static acre_status add_buffer(struct reading *reading, uint64_t start, uint64_t bytes)
{
    acre_plan_table *table = reading->table;
    acre_status status = table_grow(table, true);

    if (status != ACRE_OK)
        return status;
    table->ids[table->count] = table->count;
    table->buffers[table->count++] =
        (acre_plan_buffer){.start = start, .end = UINT64_MAX, .size = table_round(bytes)};
    return ACRE_OK;
}

static acre_status take_entry(struct reading *reading, const struct snap_entry *entry)
{
    const void *address = (const void *)(uintptr_t)entry->address;
    acre_plan_table *table = reading->table;
    acre_status status = ACRE_OK;

    if (!address || (entry->action != SNAP_ALLOC && entry->action != SNAP_FREE_REQUESTED))
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
static acre_status take_blocks(struct reading *reading, const struct snapshot *snapshot,
                               uint32_t device)
{
    acre_status status = ACRE_OK;

    for (size_t s = 0; s < snapshot->segment_count && status == ACRE_OK; s++) {
        const struct snap_segment *segment = &snapshot->segments[s];
        if (segment->device != device)
            continue;
        for (uint64_t b = 0; b < segment->block_count && status == ACRE_OK; b++) {
            const struct snap_block *block = &snapshot->blocks[segment->first_block + b];
            if (block->state == SNAP_ALLOCATED && block->address &&
                !ptrmap_has(&reading->live, (const void *)(uintptr_t)block->address))
                status = add_buffer(reading, 0, block->bytes);
        }
    }
    return status;
}

static acre_status take_snapshot(acre_plan_table *table, const struct snapshot *snapshot,
                                 const char *path)
{
    struct reading reading = {.table = table};
    uint32_t device = 0;
    acre_status status = ACRE_OK;

    for (uint32_t d = 1; d < snapshot->device_count; d++)
        if (snapshot->devices[d].entry_count > snapshot->devices[device].entry_count)
            device = d;
    ptrmap_init(&reading.live);
    const struct snap_device *history = snapshot->devices ? &snapshot->devices[device] : NULL;
    for (uint64_t e = 0; history && e < history->entry_count && status == ACRE_OK; e++)
        status = take_entry(&reading, &snapshot->entries[history->first_entry + e]);
    if (status == ACRE_OK && reading.now == 0)
        status = status_fail(ACRE_ERR_FORMAT,
                             "%s: the snapshot has no history of allocations to plan: record "
                             "one with record_memory_history()",
                             path);
    if (status == ACRE_OK)
        status = take_blocks(&reading, snapshot, device);
    for (size_t i = 0; i < table->count; i++)
        if (table->buffers[i].end == UINT64_MAX)
            table->buffers[i].end = reading.now;
    ptrmap_fini(&reading.live);
    return status;
}

acre_status plan_snapshot_read(acre_plan_table *table, const char *path)
{
    struct snapshot *snapshot = NULL;
    acre_status status = snapshot_read(path, &snapshot);

    if (status == ACRE_OK)
        status = take_snapshot(table, snapshot, path);
    snapshot_destroy(snapshot);
    return status;
}
