/* SPDX-License-Identifier: MIT */
/* Allocating and freeing after a plan: the fast path, and who serves otherwise. */
#include "plan/follow/plan.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "base/text.h"

#define PERIOD_MIN  64u
#define PERIOD_MAX  (1u << 18)
#define ROUNDS_GOOD 4u /* a plan dropped before was no period: look for longer ones */

/* Matches nothing. */
static const struct expected never = {0, STREAM_NONE, NULL, FREED_NONE};

/* ---- Plans ----------------------------------------------------------------------- */

void planner_enter(struct acre_planner *planner)
{
    quick_lock_take(&planner->lock);
    if (planner->next != &never)
        follower_catch_up(planner->follower,
                          (uint32_t)(planner->next - planner->follower->table->events));
    planner->next = &never;
}

/* Destroys what has ended; an arena that the device does not take back is offered again. */
static void destroy_ended(struct acre_planner *planner, struct follower *ended)
{
    struct status_saved before;

    status_save(&before);
    for (struct follower *next; ended; ended = next) {
        next = ended->next;
        if (follower_give_back(ended) == ACRE_OK) { /* waits for the device */
            follower_destroy(ended);
            continue;
        }
        quick_lock_take(&planner->lock);
        ended->next = planner->ended;
        planner->ended = ended;
        quick_lock_drop(&planner->lock);
    }
    status_restore(&before);
}

void planner_leave(struct acre_planner *planner)
{
    const struct follower *follower = planner->follower;
    struct follower *ended = planner->ended;

    planner->ended = NULL;
    if (follower && follower->marked_count == 0)
        planner->next = &follower->table->events[follower->at];
    quick_lock_drop(&planner->lock);
    if (ended)
        destroy_ended(planner, ended);
}

/* Bytes of all arenas. */
static uint64_t held_bytes(const struct acre_planner *planner)
{
    uint64_t bytes = planner->follower ? planner->follower->table->arena_bytes : 0;

    for (const struct follower *retired = planner->retired; retired; retired = retired->next)
        bytes += retired->table->arena_bytes;
    return bytes;
}

acre_status planner_follow(struct acre_planner *planner, const struct timetable_record *records,
                           uint32_t count)
{
    struct timetable *table;
    uint32_t turn;
    acre_status status = timetable_create(records, count, &planner->config, &table, &turn);

    if (status != ACRE_OK)
        return status;
    status = follower_create(table, planner->device, turn, &planner->follower);
    if (status != ACRE_OK) {
        timetable_destroy(table);
        return status;
    }
    planner->plans++;
    if (held_bytes(planner) > planner->held_peak)
        planner->held_peak = held_bytes(planner);
    recorder_reset(&planner->recorder);
    return ACRE_OK;
}

/* Ends a follower that nothing lives in; planner_leave destroys it. */
static void end_follower(struct acre_planner *planner, struct follower *follower)
{
    planner->past_bytes += follower->total_bytes;
    planner->rounds += follower->round_count;
    if (follower->live_bytes_peak > planner->past_peak)
        planner->past_peak = follower->live_bytes_peak;
    follower->next = planner->ended;
    planner->ended = follower;
}

/* Ends retired followers that nothing lives in any more. */
static void end_idle(struct acre_planner *planner)
{
    struct follower **link = &planner->retired;

    while (*link) {
        struct follower *follower = *link;
        if (!follower_is_idle(follower)) {
            link = &follower->next;
            continue;
        }
        *link = follower->next;
        end_follower(planner, follower);
    }
}

void planner_drop(struct acre_planner *planner)
{
    struct follower *follower = planner->follower;
    struct recorder *recorder = &planner->recorder;

    planner->follower = NULL;
    planner->drops++;
    if (follower->round_count < ROUNDS_GOOD && recorder->period_min < recorder->period_max / 4)
        recorder->period_min =
            2 * (follower->table->event_count > recorder->period_min ? follower->table->event_count
                                                                     : recorder->period_min);
    if (recorder->period_min > recorder->period_max / 2)
        recorder->period_min = recorder->period_max / 2;
    follower->next = planner->retired;
    planner->retired = follower;
    end_idle(planner);
}

static bool is_recording(const struct acre_planner *planner)
{
    return !planner->follower && !(planner->config.flags & ACRE_PLANNER_KEEP);
}

/* Gives idle memory of the cache back, for an arena. Waits for the device, so the lock is not
 * held meanwhile. */
void planner_make_room(struct acre_planner *planner)
{
    planner_leave(planner);
    acre_cache_empty(planner->cache); /* what it says does not matter */
    planner_enter(planner);
}

/* Makes a plan of the last round. When that fails, or others made one, recording goes on. */
static void try_period(struct acre_planner *planner, uint32_t period)
{
    struct timetable_record *records;
    uint32_t count;
    acre_status status = ACRE_OK;

    if (recorder_round(&planner->recorder, period, &records, &count) != ACRE_OK)
        return;
    planner_make_room(planner);
    if (is_recording(planner))
        status = planner_follow(planner, records, count);
    if (status != ACRE_OK)
        log_line(ACRE_LOG_WARN, "planner: no plan for %u event%s: %s", count, text_plural(count),
                 acre_last_error());
    heap_free(records);
}

static void look_for_period(struct acre_planner *planner)
{
    uint32_t period;

    if (recorder_find(&planner->recorder, &period))
        try_period(planner, period);
}

/* ---- Allocating ------------------------------------------------------------------ */

/* The memory for a departure is missing: an arena that nobody uses goes. Tells
 * whether one did. */
static bool give_way(struct acre_planner *planner)
{
    bool has_gone = false;

    planner_enter(planner);
    if (planner->follower && !(planner->config.flags & ACRE_PLANNER_KEEP) &&
        follower_is_idle(planner->follower)) {
        planner_drop(planner);
        has_gone = true;
    }
    planner_leave(planner);
    return has_gone;
}

static acre_status alloc_from_cache(struct acre_planner *planner, size_t bytes, void *stream,
                                    void **out)
{
    acre_status status = acre_cache_alloc(planner->cache, bytes, stream, out);

    if (status == ACRE_ERR_DEVICE_MEMORY && give_way(planner))
        status = acre_cache_alloc(planner->cache, bytes, stream, out);
    if (status != ACRE_OK || !*out)
        return status;
    planner_enter(planner);
    if (is_recording(planner)) {
        recorder_alloc(&planner->recorder, *out, bytes, stream);
        look_for_period(planner);
    }
    planner_leave(planner);
    return status;
}

static __attribute__((noinline)) acre_status alloc_slow(struct acre_planner *planner, size_t bytes,
                                                        void *stream, void **out)
{
    enum served served = SERVED_CACHE;
    void *address = NULL;

    if (!planner || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_planner_alloc: %s is NULL",
                           planner ? "out" : "planner");
    planner_enter(planner);
    if (planner->follower && bytes)
        served = follower_alloc(planner->follower, bytes, stream, &address);
    if (served == SERVED_NOT) {
        planner->departures++;
        if (follower_is_bad(planner->follower) && !(planner->config.flags & ACRE_PLANNER_KEEP))
            planner_drop(planner);
    }
    planner_leave(planner);
    if (served != SERVED_ARENA)
        return alloc_from_cache(planner, bytes, stream, out);
    *out = address;
    return ACRE_OK;
}

acre_status acre_planner_alloc(acre_planner *planner, size_t bytes, void *stream, void **out)
{
    if (LIKELY(planner && out && planner_alloc_quick(planner, bytes, stream, out)))
        return ACRE_OK;
    return alloc_slow(planner, bytes, stream, out);
}

acre_status planner_alloc_shared(struct acre_planner *planner, size_t bytes, void *stream,
                                 void **out)
{
    quick_lock_take(&planner->lock);
    bool is_served = planner_alloc_quick(planner, bytes, stream, out);
    quick_lock_drop(&planner->lock);
    return is_served ? ACRE_OK : alloc_slow(planner, bytes, stream, out);
}

/* ---- Freeing --------------------------------------------------------------------- */

/* The follower whose arena holds an address, or NULL. */
static struct follower *find_follower(const struct acre_planner *planner, const void *pointer)
{
    struct follower *follower = planner->follower;

    if (follower && follower_holds(follower, pointer))
        return follower;
    for (follower = planner->retired; follower; follower = follower->next)
        if (follower_holds(follower, pointer))
            return follower;
    return NULL;
}

static __attribute__((noinline)) acre_status free_slow(struct acre_planner *planner, void *pointer)
{
    acre_status status = ACRE_OK;

    if (!planner)
        return status_fail(ACRE_ERR_INVALID, "acre_planner_free: planner is NULL");
    if (!pointer)
        return ACRE_OK;
    planner_enter(planner);
    struct follower *follower = find_follower(planner, pointer);
    if (follower)
        status = follower_free(follower, pointer);
    else if (is_recording(planner)) {
        recorder_free(&planner->recorder, pointer);
        look_for_period(planner);
    }
    if (planner->retired)
        end_idle(planner);
    planner_leave(planner);
    return follower ? status : acre_cache_free(planner->cache, pointer);
}

acre_status acre_planner_free(acre_planner *planner, void *pointer)
{
    if (LIKELY(planner && planner_free_quick(planner, pointer)))
        return ACRE_OK;
    return free_slow(planner, pointer);
}

acre_status planner_free_shared(struct acre_planner *planner, void *pointer)
{
    quick_lock_take(&planner->lock);
    bool is_served = planner_free_quick(planner, pointer);
    quick_lock_drop(&planner->lock);
    return is_served ? ACRE_OK : free_slow(planner, pointer);
}

acre_status acre_planner_record_stream(acre_planner *planner, void *pointer, void *stream)
{
    acre_status status = ACRE_OK;

    if (!planner)
        return status_fail(ACRE_ERR_INVALID, "acre_planner_record_stream: planner is NULL");
    if (!pointer)
        return ACRE_OK;
    planner_enter(planner);
    struct follower *follower = find_follower(planner, pointer);
    if (follower)
        status = follower_use(follower, pointer, stream);
    else if (is_recording(planner)) {
        recorder_use(&planner->recorder, pointer, stream);
        look_for_period(planner);
    }
    planner_leave(planner);
    return follower ? status : acre_cache_record_stream(planner->cache, pointer, stream);
}

acre_status acre_planner_step(acre_planner *planner)
{
    uint32_t period;

    if (!planner)
        return status_fail(ACRE_ERR_INVALID, "acre_planner_step: planner is NULL");
    planner_enter(planner);
    if (planner->follower)
        follower_step(planner->follower);
    else if (is_recording(planner) && recorder_step(&planner->recorder, &period))
        try_period(planner, period);
    planner_leave(planner);
    return ACRE_OK;
}

/* ---- Making ---------------------------------------------------------------------- */

acre_status acre_planner_create(acre_cache *cache, const acre_planner_config *config,
                                acre_planner **out)
{
    acre_planner_config whole = {.struct_size = sizeof whole};
    acre_status status = ACRE_OK;

    if (!cache || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_planner_create: %s is NULL",
                           cache ? "out" : "cache");
    if (config)
        status = STRUCT_TAKE("acre_planner_create", acre_planner_config, config, &whole);
    if (status != ACRE_OK)
        return status;
    config = &whole;
    uint32_t period_min = config->period_min ? config->period_min : PERIOD_MIN;
    uint32_t period_max = config->period_max ? config->period_max : PERIOD_MAX;
    if (period_min > period_max || period_max > 1u << 28 || !(config->seconds >= 0) ||
        !(config->limit >= 0))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_planner_create: periods of %u to %u events in %g seconds, "
                           "%g at most; at most 2^28 events are possible",
                           period_min, period_max, config->seconds, config->limit);
    struct acre_planner *planner = heap_zalloc(sizeof *planner);
    if (!planner)
        return ACRE_ERR_HOST_MEMORY;
    quick_lock_init(&planner->lock, RANK_PLAN, "planner");
    fork_guard_quick(&planner->fork_guard, &planner->lock, NULL);
    planner->next = &never;
    planner->cache = cache;
    planner->device = acre_cache_device(cache);
    planner->config = *config;
    recorder_init(&planner->recorder, period_min, period_max);
    *out = planner;
    return ACRE_OK;
}

static void destroy_all(struct follower *follower)
{
    for (struct follower *next; follower; follower = next) {
        next = follower->next;
        follower_destroy(follower);
    }
}

void acre_planner_destroy(acre_planner *planner)
{
    if (!planner)
        return;
    fork_guard_end(&planner->fork_guard);
    planner_tickets_fini(planner);
    follower_destroy(planner->follower);
    destroy_all(planner->retired);
    destroy_all(planner->ended);
    recorder_fini(&planner->recorder);
    heap_free(planner);
}
