/* SPDX-License-Identifier: MIT */
#include "plan/follow/timetable.h"

#include "base/bits.h"
#include "base/heap.h"
#include "base/status.h"
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

#define END UINT32_MAX

/* Room for placing. Entries that the cache serves are of no stream here. */
struct yard {
    acre_plan_buffer *buffers;
    acre_plan_gap *gaps;
    uint32_t *whose; /* by buffer: its entry                        */
    uint64_t *offsets;
    uint64_t *apart; /* by entry: its offset when streams are apart */
    uint32_t *next;  /* by entry: the next of its stream, or END    */
    bool *is_first;  /* by entry: it is the first of its stream     */
    uint64_t seed;
    struct budget budget;
    double limit; /* when to give up (clock.h)                   */
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

/* Places entries, whose numbers are in yard->whose, above what the arena has. */
static acre_status place_some(struct timetable *table, struct yard *yard, uint32_t count)
{
    double now = clock_now();
    acre_plan_config how = {
        .struct_size = sizeof how, .seed = yard->seed, .seconds = budget_next(&yard->budget, now)};
    acre_plan_result result = {.struct_size = sizeof result};

    if (yard->limit > 0) {
        if (now >= yard->limit)
            return status_fail(ACRE_ERR_TIMEOUT, "placing %u allocations takes longer than it may",
                               table->entry_count);
        how.limit = yard->limit - now;
    }
    for (uint32_t i = 0; i < count; i++)
        fill_buffer(table, &table->entries[yard->whose[i]], &yard->buffers[i], &yard->gaps[i]);
    acre_status status = acre_plan_place(yard->buffers, count, &how, yard->offsets, &result);
    if (status != ACRE_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        table->entries[yard->whose[i]].offset = table->arena_bytes + yard->offsets[i];
    table->arena_bytes += result.height;
    table->lower_bound += result.lower_bound;
    return ACRE_OK;
}

/* By stream, then by position. */
static int compare_streams(const void *left, const void *right, void *arg)
{
    const struct timetable_entry *entries = arg;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uintptr_t first = (uintptr_t)entries[a].stream, second = (uintptr_t)entries[b].stream;

    if (first != second)
        return first < second ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Lists the entries of the arena in yard->whose; gives their number. */
static uint32_t list_placed(const struct timetable *table, struct yard *yard)
{
    uint32_t count = 0;

    for (uint32_t e = 0; e < table->entry_count; e++)
        if (table->entries[e].offset != OFFSET_CACHE)
            yard->whose[count++] = e;
    return count;
}

/* Links the entries of each stream; gives the number of streams. */
static uint32_t link_streams(const struct timetable *table, struct yard *yard)
{
    uint32_t count = list_placed(table, yard), streams = 0;

    qsort_r(yard->whose, count, sizeof *yard->whose, compare_streams, table->entries);
    memset(yard->is_first, 0, table->entry_count * sizeof *yard->is_first);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t e = yard->whose[i];
        bool is_last =
            i + 1 == count || table->entries[yard->whose[i + 1]].stream != table->entries[e].stream;
        yard->is_first[e] =
            i == 0 || table->entries[yard->whose[i - 1]].stream != table->entries[e].stream;
        yard->next[e] = is_last ? END : yard->whose[i + 1];
        streams += yard->is_first[e];
    }
    return streams;
}

/* Places stream after stream, in the order they first come. */
static acre_status place_apart(struct timetable *table, struct yard *yard)
{
    acre_status status = ACRE_OK;

    for (uint32_t first = 0; first < table->entry_count && status == ACRE_OK; first++) {
        uint32_t count = 0;
        if (!yard->is_first[first])
            continue;
        for (uint32_t e = first; e != END; e = yard->next[e])
            yard->whose[count++] = e;
        status = place_some(table, yard, count);
    }
    return status;
}

/* Places everything together when that is lower and few entries need a guard. */
static acre_status place_all(struct timetable *table, struct yard *yard, double seconds)
{
    uint32_t streams = link_streams(table, yard), guarded = 0;

    yard->budget = budget_make(seconds, streams > 1 ? streams + 1 : 1, clock_now());
    acre_status status = place_apart(table, yard);
    if (status != ACRE_OK || streams < 2)
        return status;
    uint64_t arena_bytes = table->arena_bytes, lower_bound = table->lower_bound;
    for (uint32_t e = 0; e < table->entry_count; e++)
        yard->apart[e] = table->entries[e].offset;
    table->arena_bytes = table->lower_bound = 0;
    status = place_some(table, yard, list_placed(table, yard));
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
                        .next = heap_array(count, sizeof *yard.next),
                        .is_first = heap_array(count, sizeof *yard.is_first),
                        .seed = config->seed,
                        .limit = config->limit > 0 ? clock_now() + config->limit : 0};
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (yard.buffers && yard.gaps && yard.whose && yard.offsets && yard.apart && yard.next &&
        yard.is_first)
        status = place_all(table, &yard, config->seconds);
    heap_free(yard.buffers);
    heap_free(yard.gaps);
    heap_free(yard.whose);
    heap_free(yard.offsets);
    heap_free(yard.apart);
    heap_free(yard.next);
    heap_free(yard.is_first);
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
