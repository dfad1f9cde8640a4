/* SPDX-License-Identifier: MIT */
/* Plans from recorded events, and what a planner tells about itself. */
#include "plan/follow/plan.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"

/* ---- Learning -------------------------------------------------------------------- */

/* A sequence on its way to records. */
struct lesson {
    struct timetable_record *records;
    uint32_t record_count, entry_count;
    uint32_t *entry_of; /* by slot: entry + 1; 0: not live */
    uint32_t slot_count;
    void *const *streams;
    uint32_t stream_count;
};

static acre_status fail_event(size_t index, const char *why)
{
    return status_fail(ACRE_ERR_INVALID, "acre_planner_learn: event %zu %s", index, why);
}

static acre_status find_stream(const struct lesson *lesson, const acre_trace_event *event,
                               size_t index, void **out)
{
    if (lesson->streams && event->stream >= lesson->stream_count)
        return fail_event(index, "names a stream that was not given");
    *out = lesson->streams ? lesson->streams[event->stream] : NULL;
    return ACRE_OK;
}

static acre_status take_event(struct lesson *lesson, const acre_trace_event *event, size_t index)
{
    struct timetable_record *record = &lesson->records[lesson->record_count];
    acre_status status = ACRE_OK;
    void *stream = NULL;

    if (event->kind == ACRE_TRACE_SYNC || event->kind == ACRE_TRACE_EMPTY)
        return ACRE_OK;
    if (event->kind < ACRE_TRACE_ALLOC || event->kind > ACRE_TRACE_EMPTY)
        return fail_event(index, "is of no known kind");
    if (event->slot >= lesson->slot_count)
        return fail_event(index, "has a slot above the number of events");
    uint32_t *entry = &lesson->entry_of[event->slot];
    if (event->kind != ACRE_TRACE_FREE)
        status = find_stream(lesson, event, index, &stream);
    if (status != ACRE_OK)
        return status;
    if (event->kind == ACRE_TRACE_ALLOC) {
        if (*entry || event->bytes == 0 || event->bytes > (uint64_t)1 << 60)
            return fail_event(index,
                              *entry ? "allocates what is live" : "has a size of 0 or above 2^60");
        *entry = ++lesson->entry_count;
    }
    if (!*entry)
        return fail_event(index, "frees or uses what is not live");
    *record = (struct timetable_record){event->bytes, stream, *entry - 1, event->kind};
    lesson->record_count++;
    if (event->kind == ACRE_TRACE_FREE)
        *entry = 0;
    return ACRE_OK;
}

/* Frees what is live at the end. */
static void free_rest(struct lesson *lesson)
{
    for (uint32_t slot = 0; slot < lesson->slot_count; slot++)
        if (lesson->entry_of[slot])
            lesson->records[lesson->record_count++] =
                (struct timetable_record){0, NULL, lesson->entry_of[slot] - 1, ACRE_TRACE_FREE};
}

static acre_status take_all(struct lesson *lesson, const acre_trace_event *events, size_t count)
{
    acre_status status = ACRE_OK;

    lesson->slot_count = (uint32_t)count;
    lesson->records = heap_array(2 * count, sizeof *lesson->records);
    lesson->entry_of = heap_array(count, sizeof *lesson->entry_of);
    if (!lesson->records || !lesson->entry_of)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < count && status == ACRE_OK; i++)
        status = take_event(lesson, &events[i], i);
    if (status == ACRE_OK)
        free_rest(lesson);
    if (status == ACRE_OK && lesson->entry_count == 0)
        return status_fail(ACRE_ERR_INVALID, "acre_planner_learn: nothing is allocated");
    return status;
}

acre_status acre_planner_learn(acre_planner *planner, const acre_trace_event *events, size_t count,
                               void *const *streams, uint32_t stream_count)
{
    struct lesson lesson = {.streams = streams, .stream_count = stream_count};

    if (!planner || !events || count == 0 || count > (size_t)1 << 29)
        return status_fail(ACRE_ERR_INVALID, "acre_planner_learn: %s",
                           planner && events ? "0 events, or more than 2^29"
                                             : "an argument is NULL");
    acre_status status = take_all(&lesson, events, count);
    if (status == ACRE_OK) {
        planner_enter(planner);
        if (planner->follower)
            planner_drop(planner);
        if (!planner->retired)
            planner_make_room(planner);
        if (planner->follower) /* others made one meanwhile */
            planner_drop(planner);
        if (planner->retired)
            status = status_fail(ACRE_ERR_STATE, "acre_planner_learn: memory of an earlier plan "
                                                 "is live; free it first");
        else
            status = planner_follow(planner, lesson.records, lesson.record_count);
        planner_leave(planner);
    }
    heap_free(lesson.records);
    heap_free(lesson.entry_of);
    return status;
}

/* ---- Statistics ------------------------------------------------------------------ */

/* Bytes allocated and live in all arenas. */
static void sum_arenas(const struct acre_planner *planner, uint64_t *out_total, uint64_t *out_live,
                       uint64_t *out_held, uint64_t *out_peak)
{
    const struct follower *follower = planner->follower ? planner->follower : planner->retired;

    *out_total = planner->past_bytes;
    *out_peak = planner->past_peak;
    *out_live = *out_held = 0;
    while (follower) {
        *out_total += follower->total_bytes;
        *out_live += follower->live_bytes;
        *out_held += follower->table->arena_bytes;
        if (follower->live_bytes_peak > *out_peak)
            *out_peak = follower->live_bytes_peak;
        follower = follower == planner->follower ? planner->retired : follower->next;
    }
}

static void add_stat(acre_stat *stat, uint64_t current, uint64_t peak, uint64_t allocated,
                     uint64_t freed)
{
    stat->current += (int64_t)current;
    stat->peak += (int64_t)peak;
    stat->allocated += (int64_t)allocated;
    stat->freed += (int64_t)freed;
}

static void fill_stats(struct acre_planner *planner, acre_planner_stats *stats)
{
    const struct follower *follower = planner->follower;
    uint64_t total, live, held, peak;

    sum_arenas(planner, &total, &live, &held, &peak);
    add_stat(&stats->allocated_bytes, live, peak, total - planner->base_total,
             total - live - planner->base_freed);
    add_stat(&stats->reserved_bytes, held, planner->held_peak, held, 0);
    stats->is_following = follower != NULL;
    stats->plans = planner->plans;
    stats->drops = planner->drops;
    stats->departures = planner->departures;
    stats->rounds = planner->rounds + (follower ? follower->round_count : 0);
    stats->period_events = follower ? follower->table->event_count : 0;
    stats->period_allocs = follower ? follower->table->entry_count : 0;
    stats->arena_bytes = follower ? follower->table->arena_bytes : 0;
    stats->lower_bound = follower ? follower->table->lower_bound : 0;
}

acre_status acre_planner_stats_get(acre_planner *planner, acre_planner_stats *stats)
{
    acre_cache_stats cache = {.struct_size = sizeof cache};

    if (!planner)
        return status_fail(ACRE_ERR_INVALID, "acre_planner_stats_get: planner is NULL");
    acre_status status = STRUCT_CHECK("acre_planner_stats_get", acre_planner_stats, stats);
    if (status == ACRE_OK)
        status = acre_cache_stats_get(planner->cache, &cache);
    if (status != ACRE_OK)
        return status;
    acre_planner_stats found = {.struct_size = sizeof found,
                                .allocated_bytes = cache.allocated_bytes.all,
                                .reserved_bytes = cache.reserved_bytes.all};
    planner_enter(planner);
    fill_stats(planner, &found);
    planner_leave(planner);
    STRUCT_GIVE(acre_planner_stats, stats, &found);
    return ACRE_OK;
}

void acre_planner_stats_reset_peak(acre_planner *planner)
{
    uint64_t total, live, peak;

    if (!planner)
        return;
    acre_cache_stats_reset_peak(planner->cache);
    planner_enter(planner);
    planner->past_peak = 0;
    for (struct follower *follower = planner->retired; follower; follower = follower->next)
        follower->live_bytes_peak = follower->live_bytes;
    if (planner->follower)
        planner->follower->live_bytes_peak = planner->follower->live_bytes;
    sum_arenas(planner, &total, &live, &planner->held_peak, &peak);
    planner_leave(planner);
}

void acre_planner_stats_reset_accumulated(acre_planner *planner)
{
    uint64_t total, live, held, peak;

    if (!planner)
        return;
    acre_cache_stats_reset_accumulated(planner->cache);
    planner_enter(planner);
    sum_arenas(planner, &total, &live, &held, &peak);
    planner->base_total = total;
    planner->base_freed = total - live;
    planner->departures = planner->plans = planner->drops = planner->rounds = 0;
    if (planner->follower)
        planner->follower->round_count = 0;
    planner_leave(planner);
}
