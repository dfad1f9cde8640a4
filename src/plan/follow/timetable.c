/* SPDX-License-Identifier: MIT */
#include "plan/follow/timetable.h"

#include "base/bits.h"
#include "base/heap.h"
#include "plan/follow/budget.h"
#include "plan/place/clock.h"
#include "plan/follow/guard.h"

#include <acre/plan.h>

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES   512u /* sizes and offsets are multiples of it           */
#define GUARDED_SHARE 16u  /* streams share bytes when 1/16 of uses are guarded */

char timetable_mark[1];

/* ---- Rounds ---------------------------------------------------------------------- */

/* Gives entries their positions in the order of records; what is used on further
 * streams or not freed within a round is left to the cache. */
static void list_entries(struct timetable *table, const struct timetable_record *records,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct timetable_entry *entry = &table->entries[records[i].entry];
        if (records[i].kind == ACRE_TRACE_ALLOC)
            *entry = (struct timetable_entry){.bytes = records[i].bytes,
                                              .stream = records[i].stream,
                                              .size = round_up(records[i].bytes, BLOCK_BYTES),
                                              .alloc_at = i,
                                              .free_at = NO_POSITION};
    }
    for (uint32_t i = 0; i < count; i++)
        if (records[i].kind == ACRE_TRACE_FREE)
            table->entries[records[i].entry].free_at = i;
    for (uint32_t i = 0; i < count; i++)
        if (records[i].kind == ACRE_TRACE_USE)
            table->entries[records[i].entry].offset = OFFSET_CACHE;
    for (uint32_t e = 0; e < table->entry_count; e++)
        if (table->entries[e].free_at == NO_POSITION)
            table->entries[e].offset = OFFSET_CACHE;
}

/* The record before which the fewest bytes of the arena live. */
static uint32_t find_turn(const struct timetable *table, const struct timetable_record *records,
                          uint32_t count)
{
    int64_t live = 0, least = 0; /* against the live bytes at record 0 */
    uint32_t turn = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct timetable_entry *entry = &table->entries[records[i].entry];
        if (entry->offset == OFFSET_CACHE || records[i].kind == ACRE_TRACE_USE)
            continue;
        if (live < least) {
            least = live;
            turn = i;
        }
        live += records[i].kind == ACRE_TRACE_ALLOC ? (int64_t)entry->size : -(int64_t)entry->size;
    }
    return turn;
}

/* Lists the events from turn on, without uses and without frees of what the cache
 * serves, and renumbers positions and entries after them. */
static acre_status list_events(struct timetable *table, const struct timetable_record *records,
                               uint32_t count, uint32_t turn, uint32_t *out_turn)
{
    struct timetable_entry *entries = heap_array(table->entry_count + 1u, sizeof *entries);
    uint32_t *number = heap_array(table->entry_count + 1u, sizeof *number);
    uint32_t at = 0, entry_at = 0;

    if (!entries || !number) {
        heap_free(entries);
        heap_free(number);
        return ACRE_ERR_HOST_MEMORY;
    }
    *out_turn = 0;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = turn + n < count ? turn + n : turn + n - count;
        const struct timetable_record *record = &records[i];
        const struct timetable_entry *entry = &table->entries[record->entry];
        if (i == 0)
            *out_turn = at;
        if (record->kind == ACRE_TRACE_ALLOC) {
            number[record->entry] = entry_at;
            entries[entry_at] = *entry;
            entries[entry_at++].alloc_at = at;
            table->entry_of[at++] = record->entry;
        } else if (record->kind == ACRE_TRACE_FREE && entry->offset != OFFSET_CACHE)
            table->entry_of[at++] = record->entry | 1u << 31;
    }
    table->event_count = at;
    for (uint32_t p = 0; p < at; p++) {
        bool is_free = table->entry_of[p] >> 31;
        table->entry_of[p] = number[table->entry_of[p] & INT32_MAX];
        if (is_free)
            entries[table->entry_of[p]].free_at = p;
    }
    heap_free(table->entries);
    heap_free(number);
    table->entries = entries;
    return ACRE_OK;
}

/* ---- Placing --------------------------------------------------------------------- */

/* Room for placing. */
struct yard {
    acre_plan_buffer *buffers;
    acre_plan_gap *gaps;
    uint32_t *whose; /* by buffer: its entry                        */
    uint64_t *offsets;
    uint64_t *apart; /* by entry: its offset when streams are apart */
    bool *is_done;   /* by entry: its stream was seen               */
    uint64_t seed;
    struct budget budget;
};

/* An entry as a buffer to place. */
static void fill_buffer(const struct timetable *table, const struct timetable_entry *entry,
                        acre_plan_buffer *buffer, acre_plan_gap *gap)
{
    *buffer =
        (acre_plan_buffer){.start = entry->alloc_at, .end = entry->free_at, .size = entry->size};
    if (entry->free_at > entry->alloc_at)
        return;
    buffer->end = table->event_count; /* lives over the end of the round */
    if (entry->free_at == 0)
        return;
    *gap = (acre_plan_gap){entry->free_at, entry->alloc_at};
    buffer->start = 0;
    buffer->gaps = gap;
    buffer->gap_count = 1;
}

/* Places the entries of one stream, or all of them, above what the arena has. */
static acre_status place_some(struct timetable *table, struct yard *yard, bool is_all, void *stream)
{
    acre_plan_config how = {.struct_size = sizeof how,
                            .seed = yard->seed,
                            .seconds = budget_next(&yard->budget, clock_now())};
    acre_plan_result result = {.struct_size = sizeof result};
    uint32_t count = 0;

    for (uint32_t e = 0; e < table->entry_count; e++) {
        const struct timetable_entry *entry = &table->entries[e];
        if (entry->offset == OFFSET_CACHE || (!is_all && entry->stream != stream))
            continue;
        fill_buffer(table, entry, &yard->buffers[count], &yard->gaps[count]);
        yard->whose[count++] = e;
    }
    acre_status status = acre_plan_place(yard->buffers, count, &how, yard->offsets, &result);
    if (status != ACRE_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        table->entries[yard->whose[i]].offset = table->arena_bytes + yard->offsets[i];
    table->arena_bytes += result.height;
    table->lower_bound += result.lower_bound;
    return ACRE_OK;
}

/* Whether an entry of the arena is the first of its stream that is met; all of that
 * stream then count as seen. */
static bool is_first(const struct timetable *table, struct yard *yard, uint32_t e)
{
    if (yard->is_done[e] || table->entries[e].offset == OFFSET_CACHE)
        return false;
    for (uint32_t k = e; k < table->entry_count; k++)
        yard->is_done[k] |= table->entries[k].stream == table->entries[e].stream;
    return true;
}

static uint32_t count_streams(const struct timetable *table, struct yard *yard)
{
    uint32_t count = 0;

    memset(yard->is_done, 0, table->entry_count * sizeof *yard->is_done);
    for (uint32_t e = 0; e < table->entry_count; e++)
        count += is_first(table, yard, e);
    return count;
}

/* Places stream after stream, in the order they first come. */
static acre_status place_apart(struct timetable *table, struct yard *yard)
{
    acre_status status = ACRE_OK;

    memset(yard->is_done, 0, table->entry_count * sizeof *yard->is_done);
    for (uint32_t e = 0; e < table->entry_count && status == ACRE_OK; e++)
        if (is_first(table, yard, e))
            status = place_some(table, yard, false, table->entries[e].stream);
    return status;
}

/* Places everything together when that is lower and few entries need a guard. */
static acre_status place_all(struct timetable *table, struct yard *yard, double seconds)
{
    uint32_t streams = count_streams(table, yard), guarded = 0;

    yard->budget = budget_make(seconds, streams > 1 ? streams + 1 : 1, clock_now());
    acre_status status = place_apart(table, yard);
    if (status != ACRE_OK || streams < 2)
        return status;
    uint64_t arena_bytes = table->arena_bytes, lower_bound = table->lower_bound;
    for (uint32_t e = 0; e < table->entry_count; e++)
        yard->apart[e] = table->entries[e].offset;
    table->arena_bytes = table->lower_bound = 0;
    status = place_some(table, yard, true, NULL);
    if (status == ACRE_OK)
        status = guard_entries(table->entries, table->entry_count, &guarded);
    if (status != ACRE_OK ||
        (table->arena_bytes < arena_bytes && guarded <= table->entry_count / GUARDED_SHARE))
        return status;
    for (uint32_t e = 0; e < table->entry_count; e++) {
        table->entries[e].is_guarded = false;
        table->entries[e].offset = yard->apart[e];
    }
    table->arena_bytes = arena_bytes;
    table->lower_bound = lower_bound;
    return ACRE_OK;
}

static acre_status place_entries(struct timetable *table, const acre_planner_config *config)
{
    size_t count = table->entry_count + (size_t)1;
    struct yard yard = {.buffers = heap_array(count, sizeof *yard.buffers),
                        .gaps = heap_array(count, sizeof *yard.gaps),
                        .whose = heap_array(count, sizeof *yard.whose),
                        .offsets = heap_array(count, sizeof *yard.offsets),
                        .apart = heap_array(count, sizeof *yard.apart),
                        .seed = config->seed,
                        .is_done = heap_array(count, sizeof *yard.is_done)};
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (yard.buffers && yard.gaps && yard.whose && yard.offsets && yard.apart && yard.is_done)
        status = place_all(table, &yard, config->seconds);
    heap_free(yard.buffers);
    heap_free(yard.gaps);
    heap_free(yard.whose);
    heap_free(yard.offsets);
    heap_free(yard.apart);
    heap_free(yard.is_done);
    return status;
}

/* ---- Finding --------------------------------------------------------------------- */

static int compare_places(const void *left, const void *right, void *arg)
{
    const struct timetable_entry *entries = arg;
    const struct timetable_entry *a = &entries[*(const uint32_t *)left];
    const struct timetable_entry *b = &entries[*(const uint32_t *)right];

    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return a->alloc_at < b->alloc_at ? -1 : a->alloc_at > b->alloc_at;
}

static int compare_grams(const void *left, const void *right)
{
    const struct gram *a = left, *b = right;

    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->alloc < b->alloc ? -1 : a->alloc > b->alloc;
}

static void list_grams(struct timetable *table)
{
    uint64_t requests[GRAM];
    uint32_t count = table->entry_count;

    for (uint32_t e = 0; e < count; e++) {
        for (uint32_t g = 0; g < GRAM; g++) {
            const struct timetable_entry *entry =
                &table->entries[(e + (uint64_t)GRAM * count - (GRAM - 1 - g)) % count];
            requests[g] = request_hash(entry->bytes, entry->stream);
        }
        table->grams[e] = (struct gram){gram_hash(requests), e};
    }
    qsort(table->grams, count, sizeof *table->grams, compare_grams);
}

static void list_levels(struct timetable *table)
{
    struct timetable_level level = {0};

    for (uint32_t e = 0; e < table->entry_count; e++)
        if (entry_lives(&table->entries[e], 0))
            level.live += table->entries[e].size;
    level.live_peak = level.live;
    for (uint32_t p = 0; p < table->event_count; p++) {
        const struct timetable_entry *entry = &table->entries[table->entry_of[p]];
        table->levels[p] = level;
        if (entry->offset == OFFSET_CACHE)
            continue;
        if (entry->alloc_at != p) {
            level.live -= entry->size;
            continue;
        }
        level.live += entry->size;
        level.total += entry->size;
        if (level.live > level.live_peak)
            level.live_peak = level.live;
    }
    table->levels[table->event_count] = level;
}

/* ---- Making ---------------------------------------------------------------------- */

void timetable_settle(struct timetable *table, char *arena)
{
    for (uint32_t p = 0; p <= table->event_count; p++) {
        struct expected *event = &table->events[p];
        *event = (struct expected){0, STREAM_NONE, NULL, FREED_NONE};
        if (p == table->event_count)
            break;
        const struct timetable_entry *entry = &table->entries[table->entry_of[p]];
        if (entry->offset == OFFSET_CACHE)
            continue;
        if (entry->alloc_at == p) {
            event->bytes = entry->bytes;
            event->stream = entry->stream;
            event->address = arena + entry->offset;
        } else if (!entry->is_guarded)
            event->freed = arena + entry->offset;
    }
}

static acre_status timetable_fill(struct timetable *table, const struct timetable_record *records,
                                  uint32_t count, const acre_planner_config *config,
                                  uint32_t *out_turn)
{
    list_entries(table, records, count);
    acre_status status =
        list_events(table, records, count, find_turn(table, records, count), out_turn);
    if (status == ACRE_OK)
        status = place_entries(table, config);
    if (status != ACRE_OK)
        return status;
    list_levels(table);
    for (uint32_t e = 0; e < table->entry_count; e++)
        if (table->entries[e].offset != OFFSET_CACHE)
            table->by_offset[table->placed_count++] = e;
    qsort_r(table->by_offset, table->placed_count, sizeof *table->by_offset, compare_places,
            table->entries);
    list_grams(table);
    return ACRE_OK;
}

acre_status timetable_create(const struct timetable_record *records, uint32_t count,
                             const acre_planner_config *config, struct timetable **out,
                             uint32_t *out_turn)
{
    struct timetable *table = heap_zalloc(sizeof *table);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!table)
        return status;
    for (uint32_t i = 0; i < count; i++)
        table->entry_count += records[i].kind == ACRE_TRACE_ALLOC;
    table->events = heap_array(count + (size_t)1, sizeof *table->events);
    table->entry_of = heap_array(count + (size_t)1, sizeof *table->entry_of);
    table->levels = heap_array(count + (size_t)1, sizeof *table->levels);
    table->entries = heap_array(table->entry_count + (size_t)1, sizeof *table->entries);
    table->by_offset = heap_array(table->entry_count + (size_t)1, sizeof *table->by_offset);
    table->grams = heap_array(table->entry_count + (size_t)1, sizeof *table->grams);
    if (table->events && table->entry_of && table->levels && table->entries && table->by_offset &&
        table->grams)
        status = timetable_fill(table, records, count, config, out_turn);
    if (status != ACRE_OK) {
        timetable_destroy(table);
        return status;
    }
    *out = table;
    return ACRE_OK;
}

void timetable_destroy(struct timetable *table)
{
    if (!table)
        return;
    heap_free(table->events);
    heap_free(table->entry_of);
    heap_free(table->levels);
    heap_free(table->entries);
    heap_free(table->by_offset);
    heap_free(table->grams);
    heap_free(table);
}
