/* SPDX-License-Identifier: MIT */
#include "plan/follow/follower.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"

#include <string.h>

#define LOOK_AHEAD   16u   /* allocations looked at for what is missing     */
#define EVENTS_AHEAD 1024u /* events looked at for that                     */
#define BAD_SHARE    8u    /* a window is bad when 1/8 of its calls depart  */
#define BAD_WINDOWS  2u    /* bad windows in a row: departures persist      */
#define WINDOW_MIN   64u   /* requests                                      */

/* ---- Marks ----------------------------------------------------------------------- */

static void set_mark(struct follower *follower, uint32_t entry, enum mark mark)
{
    if (follower->marks[entry] & mark)
        return;
    follower->marked_count += follower->marks[entry] == 0;
    follower->marks[entry] |= (uint8_t)mark;
    follower->is_clean = false;
    if (mark == MARK_LATE)
        follower->late[follower->late_count++] = entry;
}

static void clear_mark(struct follower *follower, uint32_t entry, enum mark mark)
{
    if (!(follower->marks[entry] & mark))
        return;
    follower->marks[entry] &= (uint8_t)~mark;
    follower->marked_count -= follower->marks[entry] == 0;
    for (uint32_t i = 0; mark == MARK_LATE && i < follower->late_count; i++)
        if (follower->late[i] == entry) {
            follower->late[i] = follower->late[--follower->late_count];
            break;
        }
}

static bool is_overlapping(const struct timetable_entry *a, const struct timetable_entry *b)
{
    return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

/* Whether the bytes of an entry are kept by a late or lingering one. */
static bool is_kept(const struct follower *follower, uint32_t entry)
{
    const struct timetable_entry *entries = follower->table->entries, *mine = &entries[entry];

    for (uint32_t i = 0; i < follower->late_count; i++)
        if (is_overlapping(mine, &entries[follower->late[i]]))
            return true;
    for (uint32_t i = 0; i < follower->use_count; i++) {
        const struct follower_use *use = &follower->uses[i];
        if (use->event && use->stream != mine->stream && is_overlapping(mine, &entries[use->entry]))
            return true;
    }
    return false;
}

/* ---- Uses ------------------------------------------------------------------------ */

static acre_status add_use(struct follower *follower, uint32_t entry, void *stream)
{
    if (follower->use_count == follower->use_capacity) {
        uint32_t capacity = follower->use_capacity ? 2 * follower->use_capacity : 16;
        struct follower_use *uses = heap_realloc(follower->uses, capacity * sizeof *uses);
        if (!uses)
            return ACRE_ERR_HOST_MEMORY;
        follower->uses = uses;
        follower->use_capacity = capacity;
    }
    follower->uses[follower->use_count++] = (struct follower_use){entry, stream, NULL};
    set_mark(follower, entry, MARK_USED);
    return ACRE_OK;
}

/* Ends uses that have finished. */
static void poll_uses(struct follower *follower)
{
    for (uint32_t i = follower->use_count; i > 0; i--) {
        struct follower_use use = follower->uses[i - 1];
        bool is_last = true;
        if (!use.event || acre_event_native_query(follower->device, use.event) != ACRE_OK)
            continue;
        acre_event_native_destroy(follower->device, use.event);
        follower->uses[i - 1] = follower->uses[--follower->use_count];
        for (uint32_t k = 0; k < follower->use_count; k++)
            if (follower->uses[k].entry == use.entry && follower->uses[k].event)
                is_last = false;
        if (is_last)
            clear_mark(follower, use.entry, MARK_LINGER);
    }
}

/* Takes back the events of uses from one on, after a failure. */
static void forget_events(struct follower *follower, uint32_t entry, const bool *is_new)
{
    for (uint32_t i = 0; i < follower->use_count; i++)
        if (follower->uses[i].entry == entry && is_new[i] && follower->uses[i].event) {
            acre_event_native_destroy(follower->device, follower->uses[i].event);
            follower->uses[i].event = NULL;
        }
}

/* An entry is freed: records events behind its uses, which linger. On failure it
 * lives on. */
static acre_status record_uses(struct follower *follower, uint32_t entry)
{
    bool *is_new = heap_array(follower->use_count + 1u, sizeof *is_new);
    acre_status status = is_new ? ACRE_OK : ACRE_ERR_HOST_MEMORY;

    for (uint32_t i = 0; i < follower->use_count && status == ACRE_OK; i++) {
        struct follower_use *use = &follower->uses[i];
        if (use->entry != entry || use->event)
            continue;
        is_new[i] = true;
        status = acre_event_native_create(follower->device, 0, &use->event);
        if (status == ACRE_OK)
            status = acre_event_native_record(follower->device, use->event, use->stream);
    }
    if (status == ACRE_OK) {
        set_mark(follower, entry, MARK_LINGER);
        clear_mark(follower, entry, MARK_USED);
    } else if (is_new)
        forget_events(follower, entry, is_new);
    heap_free(is_new);
    return status;
}

/* What had the bytes of a guarded entry before it may hand them to another stream only
 * after its own stream, which the entry would have waited for, but did not come. */
static void guard_absent(struct follower *follower, uint32_t entry)
{
    const struct timetable_entry *absent = &follower->table->entries[entry];

    if (add_use(follower, entry, absent->stream) != ACRE_OK ||
        record_uses(follower, entry) != ACRE_OK)
        set_mark(follower, entry, MARK_LATE); /* kept for good: nobody gets them */
}

/* ---- Positions ------------------------------------------------------------------- */

static bool is_alloc(const struct timetable *table, uint32_t at)
{
    return table->entries[table->entry_of[at]].alloc_at == at;
}

/* Ends a round when its last event is passed. */
static void follower_wrap(struct follower *follower)
{
    if (follower->at < follower->table->event_count)
        return;
    follower->at = 0;
    follower->round_count++;
    follower->is_clean = follower->marked_count == 0;
}

/* Goes over one event that did not come. */
static void follower_pass(struct follower *follower)
{
    uint32_t entry = follower->table->entry_of[follower->at];

    if (follower->table->entries[entry].offset == OFFSET_CACHE)
        ;
    else if (is_alloc(follower->table, follower->at)) {
        set_mark(follower, entry, MARK_ABSENT);
        if (follower->table->entries[entry].is_guarded)
            guard_absent(follower, entry);
    } else if (follower->marks[entry] & MARK_ABSENT)
        clear_mark(follower, entry, MARK_ABSENT);
    else
        set_mark(follower, entry, MARK_LATE);
    follower->at++;
    follower_wrap(follower);
}

/* Goes to a position. */
static void follower_jump(struct follower *follower, uint32_t to)
{
    follower_wrap(follower);
    while (follower->at != to)
        follower_pass(follower);
}

/* Passes frees of what is not there, so that the next event is one to wait for. */
static void skip_absent(struct follower *follower)
{
    const struct timetable *table = follower->table;

    follower_wrap(follower);
    while (follower->marked_count && !is_alloc(table, follower->at) &&
           (follower->marks[table->entry_of[follower->at]] & MARK_ABSENT))
        follower_pass(follower);
}

void follower_step(struct follower *follower)
{
    follower_jump(follower, follower->step_at);
    skip_absent(follower);
}

void follower_catch_up(struct follower *follower, uint32_t at)
{
    const struct timetable_level *levels = follower->table->levels;
    uint64_t live = follower->live_bytes, peak = live;

    CHECK(at >= follower->at && follower->marked_count == 0);
    if (follower->is_clean)
        peak = levels[at].live_peak;
    else
        for (uint32_t p = follower->at; p <= at; p++)
            peak = levels[p].live > peak ? levels[p].live : peak;
    follower->live_bytes = levels[at].live;
    follower->total_bytes += levels[at].total - levels[follower->at].total;
    if (peak > follower->live_bytes_peak)
        follower->live_bytes_peak = peak;
    follower->at = at;
}

/* ---- Finding the position again --------------------------------------------------- */

static bool is_request(const struct timetable *table, uint32_t at, uint64_t request)
{
    const struct timetable_entry *entry = &table->entries[table->entry_of[at]];

    return entry->alloc_at == at && request_hash(entry->bytes, entry->stream) == request;
}

/* The position of the next allocation from at on; at most EVENTS_AHEAD further. */
static uint32_t next_alloc(const struct timetable *table, uint32_t at)
{
    for (uint32_t n = 0; n < EVENTS_AHEAD && n < table->event_count; n++) {
        at = at < table->event_count ? at : 0;
        if (is_alloc(table, at))
            return at;
        at++;
    }
    return NO_POSITION;
}

/* The last and this request one after the other, a little further on. */
static uint32_t find_near(const struct follower *follower, uint32_t at)
{
    const struct timetable *table = follower->table;
    uint64_t last = follower->requests[GRAM - 2], request = follower->requests[GRAM - 1];

    for (uint32_t n = 0; n < LOOK_AHEAD && at != NO_POSITION; n++) {
        uint32_t next = next_alloc(table, at + 1);
        if (next != NO_POSITION && is_request(table, at, last) && is_request(table, next, request))
            return next;
        at = next;
    }
    return NO_POSITION;
}

/* The last GRAM requests anywhere, the nearest from here on. */
static uint32_t find_anywhere(const struct follower *follower)
{
    const struct timetable *table = follower->table;
    uint64_t hash = gram_hash(follower->requests);
    uint32_t low = 0, high = table->entry_count, found = NO_POSITION;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table->grams[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < table->entry_count && table->grams[low].hash == hash; low++) {
        uint32_t at = table->entries[table->grams[low].alloc].alloc_at;
        if (found == NO_POSITION || (at >= follower->at && found < follower->at))
            found = at;
    }
    return found;
}

/* The position of a request, or NO_POSITION when it departs. */
static uint32_t follower_find(struct follower *follower, uint64_t request)
{
    const struct timetable *table = follower->table;
    uint32_t first = next_alloc(table, follower->at), second = NO_POSITION;

    if (first != NO_POSITION && is_request(table, first, request))
        return first;
    if (first != NO_POSITION && follower->missed)
        second = next_alloc(table, first + 1);
    if (second != NO_POSITION && is_request(table, second, request))
        return second;
    if (second != NO_POSITION)
        second = find_near(follower, second);
    if (second == NO_POSITION && follower->missed + 1 >= GRAM)
        second = find_anywhere(follower);
    return second;
}

/* ---- Requests -------------------------------------------------------------------- */

/* Counts a request; about one round is a window. */
static void count_request(struct follower *follower, bool is_departure)
{
    uint32_t window = follower->table->entry_count;

    follower->window_departures += is_departure;
    follower->missed = is_departure ? follower->missed + (follower->missed < GRAM) : 0;
    if (++follower->window_requests < (window > WINDOW_MIN ? window : WINDOW_MIN))
        return;
    if (follower->window_departures > follower->window_requests / BAD_SHARE)
        follower->bad_windows++;
    else
        follower->bad_windows = 0;
    follower->window_requests = follower->window_departures = 0;
}

static void add_live(struct follower *follower, uint64_t bytes)
{
    follower->live_bytes += bytes;
    follower->total_bytes += bytes;
    if (follower->live_bytes > follower->live_bytes_peak)
        follower->live_bytes_peak = follower->live_bytes;
}

enum served follower_alloc(struct follower *follower, size_t bytes, void *stream, void **out)
{
    const struct timetable *table = follower->table;
    enum served served = SERVED_NOT;

    memmove(follower->requests, follower->requests + 1, (GRAM - 1) * sizeof follower->requests[0]);
    follower->requests[GRAM - 1] = request_hash(bytes, stream);
    poll_uses(follower);
    follower_wrap(follower);
    uint32_t at = follower_find(follower, follower->requests[GRAM - 1]);
    if (at != NO_POSITION) {
        uint32_t entry = table->entry_of[at];
        follower_jump(follower, at);
        if (table->entries[entry].offset == OFFSET_CACHE) {
            served = SERVED_CACHE;
            follower->at++;
        } else if (is_kept(follower, entry))
            follower_pass(follower);
        else {
            served = SERVED_ARENA;
            *out = follower->arena + table->entries[entry].offset;
            follower->at++;
            add_live(follower, table->entries[entry].size);
        }
        skip_absent(follower);
    }
    count_request(follower, served == SERVED_NOT);
    return served;
}

/* How many entries of by_offset come before an offset and position. */
static uint32_t count_before(const struct timetable *table, uint64_t offset, uint32_t at)
{
    uint32_t low = 0, high = table->placed_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct timetable_entry *entry = &table->entries[table->by_offset[middle]];
        if (entry->offset < offset || (entry->offset == offset && entry->alloc_at < at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The entry that lives at an address, or NO_ENTRY: a late one, the last one allocated
 * there in this round, or one of the round before. */
static uint32_t find_live(const struct follower *follower, const void *pointer)
{
    const struct timetable *table = follower->table;
    uint64_t offset = (uintptr_t)pointer - (uintptr_t)follower->arena;
    const uint32_t before[2] = {count_before(table, offset, follower->at),
                                count_before(table, offset, UINT32_MAX)};

    for (uint32_t i = 0; i < follower->late_count; i++)
        if (table->entries[follower->late[i]].offset == offset)
            return follower->late[i];
    for (int i = 0; i < 2; i++) {
        uint32_t entry = before[i] ? table->by_offset[before[i] - 1] : NO_ENTRY;
        if (entry != NO_ENTRY && table->entries[entry].offset == offset &&
            entry_lives(&table->entries[entry], follower->at) &&
            !(follower->marks[entry] & MARK_ABSENT))
            return entry;
    }
    return NO_ENTRY;
}

static acre_status follower_refuse(const void *pointer)
{
    return status_fail(ACRE_ERR_INVALID, "invalid device pointer: nothing of the plan lives at %p",
                       pointer);
}

acre_status follower_free(struct follower *follower, void *pointer)
{
    const struct timetable *table = follower->table;

    follower_wrap(follower);
    uint32_t entry = find_live(follower, pointer), at = follower->at;
    if (entry == NO_ENTRY)
        return follower_refuse(pointer);
    acre_status status = ACRE_OK;
    if (table->entries[entry].is_guarded)
        status = add_use(follower, entry, table->entries[entry].stream);
    if (status == ACRE_OK && (follower->marks[entry] & MARK_USED))
        status = record_uses(follower, entry);
    if (status != ACRE_OK)
        return status;
    follower->live_bytes -= table->entries[entry].size;
    if (follower->marks[entry] & MARK_LATE)
        clear_mark(follower, entry, MARK_LATE);
    else if (table->entry_of[at] == entry && !is_alloc(table, at))
        follower->at++; /* as planned */
    else
        set_mark(follower, entry, MARK_ABSENT);
    poll_uses(follower);
    skip_absent(follower);
    return ACRE_OK;
}

acre_status follower_use(struct follower *follower, void *pointer, void *stream)
{
    follower_wrap(follower);
    uint32_t entry = find_live(follower, pointer);

    if (entry == NO_ENTRY)
        return follower_refuse(pointer);
    if (follower->table->entries[entry].stream == stream)
        return ACRE_OK;
    for (uint32_t i = 0; i < follower->use_count; i++)
        if (follower->uses[i].entry == entry && !follower->uses[i].event &&
            follower->uses[i].stream == stream)
            return ACRE_OK;
    return add_use(follower, entry, stream);
}

bool follower_is_bad(const struct follower *follower)
{
    return follower->bad_windows >= BAD_WINDOWS;
}

bool follower_is_idle(struct follower *follower)
{
    poll_uses(follower);
    return follower->live_bytes == 0 && follower->use_count == 0;
}

/* ---- Making ---------------------------------------------------------------------- */

acre_status follower_create(struct timetable *table, acre_device *device, uint32_t at,
                            struct follower **out)
{
    struct follower *follower = heap_zalloc(sizeof *follower);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!follower)
        return status;
    follower->device = device;
    follower->at = follower->step_at = at < table->event_count ? at : 0;
    follower->marks = heap_array(table->entry_count + (size_t)1, sizeof *follower->marks);
    follower->late = heap_array(table->entry_count + (size_t)1, sizeof *follower->late);
    if (follower->marks && follower->late)
        status = ACRE_OK;
    if (status == ACRE_OK && table->arena_bytes)
        status = acre_device_alloc(device, table->arena_bytes, (void **)&follower->arena);
    if (status != ACRE_OK) {
        follower_destroy(follower);
        return status;
    }
    follower->table = table;
    timetable_settle(table, follower->arena);
    for (uint32_t e = 0; e < table->entry_count; e++)
        if (entry_lives(&table->entries[e], at))
            set_mark(follower, e, MARK_ABSENT);
    skip_absent(follower);
    *out = follower;
    return ACRE_OK;
}

acre_status follower_give_back(struct follower *follower)
{
    if (!follower->arena)
        return ACRE_OK;
    acre_device_synchronize(follower->device);
    acre_status status = acre_device_free(follower->device, follower->arena);
    if (status == ACRE_OK)
        follower->arena = NULL;
    return status;
}

void follower_destroy(struct follower *follower)
{
    if (!follower)
        return;
    acre_status status = follower_give_back(follower);
    if (status != ACRE_OK && status != ACRE_ERR_FORKED) /* a child leaves it to its parent */
        log_line(ACRE_LOG_ERROR, "the arena of a plan could not be returned: %s",
                 acre_last_error());
    for (uint32_t i = 0; i < follower->use_count; i++)
        if (follower->uses[i].event)
            acre_event_native_destroy(follower->device, follower->uses[i].event);
    timetable_destroy(follower->table);
    heap_free(follower->marks);
    heap_free(follower->late);
    heap_free(follower->uses);
    heap_free(follower);
}
