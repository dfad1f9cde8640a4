/* SPDX-License-Identifier: MIT */
#include "alloc/plug_table.h"

#include "base/check.h"
#include "base/heap.h"

static inline uintptr_t record_end(const struct plug_record *record)
{
    return record->base + (record->bytes ? record->bytes : 1);
}

static inline bool record_less(const struct plug_record *a, const struct plug_record *b)
{
    return a->base < b->base;
}

static inline bool record_before(const struct plug_record *record, const uintptr_t *address)
{
    return record_end(record) <= *address;
}

RBTREE_DEFINE(records, struct plug_record, node, uintptr_t, record_less, record_before);

acre_status plug_table_init(struct plug_table *table, int device_count)
{
    *table = (struct plug_table){.device_count = device_count};
    rbtree_init(&table->records);
    table->accounts = heap_array((size_t)device_count, sizeof *table->accounts);
    if (!table->accounts)
        return ACRE_ERR_HOST_MEMORY;
    for (int i = 0; i < device_count; i++) {
        table->accounts[i].stats.struct_size = sizeof table->accounts[i].stats;
        table->accounts[i].fraction = 1;
        table->accounts[i].limit = UINT64_MAX;
    }
    return ACRE_OK;
}

void plug_table_fini(struct plug_table *table)
{
    CHECK(rbtree_empty(&table->records));
    heap_free(table->accounts);
}

struct plug_record *plug_table_overlap(const struct plug_table *table, uintptr_t base, size_t bytes)
{
    struct plug_record *record = records_lower_bound(&table->records, &base);

    return record && record->base < base + (bytes ? bytes : 1) ? record : NULL;
}

struct plug_record *plug_table_find(const struct plug_table *table, const void *pointer)
{
    struct plug_record *record = plug_table_around(table, pointer);

    return record && record->base == (uintptr_t)pointer && !record->is_leaving ? record : NULL;
}

struct plug_record *plug_table_around(const struct plug_table *table, const void *pointer)
{
    return plug_table_overlap(table, (uintptr_t)pointer, 1);
}

struct plug_record *plug_table_next(const struct plug_table *table,
                                    const struct plug_record *record)
{
    uintptr_t after = record ? record_end(record) : 0;

    return records_lower_bound(&table->records, &after);
}

static void stat_increase(acre_stat *stat, size_t bytes)
{
    stat->current += (int64_t)bytes;
    stat->allocated += (int64_t)bytes;
    if (stat->peak < stat->current)
        stat->peak = stat->current;
}

static void stat_decrease(acre_stat *stat, size_t bytes)
{
    stat->current -= (int64_t)bytes;
    stat->freed += (int64_t)bytes;
}

void plug_table_put(struct plug_table *table, struct plug_record *record)
{
    acre_allocator_stats *stats = &table->accounts[record->device].stats;

    CHECK(!plug_table_overlap(table, record->base, record->bytes));
    records_insert(&table->records, record);
    table->count++;
    table->bytes += record->bytes;
    stat_increase(&stats->allocated_bytes, record->bytes);
    stat_increase(&stats->reserved_bytes, record->bytes);
    stats->num_device_alloc++;
}

void plug_table_take(struct plug_table *table, struct plug_record *record)
{
    acre_allocator_stats *stats = &table->accounts[record->device].stats;

    records_remove(&table->records, record);
    table->count--;
    table->bytes -= record->bytes;
    stat_decrease(&stats->allocated_bytes, record->bytes);
    stat_decrease(&stats->reserved_bytes, record->bytes);
    stats->num_device_free++;
}

acre_status plug_record_add_stream(struct plug_record *record, void *stream)
{
    if (stream == record->stream)
        return ACRE_OK;
    for (size_t i = 0; i < record->stream_count; i++)
        if (record->streams[i] == stream)
            return ACRE_OK;
    void **streams = heap_realloc(record->streams, (record->stream_count + 1) * sizeof *streams);
    if (!streams)
        return ACRE_ERR_HOST_MEMORY;
    streams[record->stream_count++] = stream;
    record->streams = streams;
    return ACRE_OK;
}
