/* SPDX-License-Identifier: MIT */
/* The planner: what its files share.
 *
 * next is what the fast path compares a request with, and moves on. It points into
 * the table of the follower while no entry there is marked, and at something that
 * nothing matches otherwise. Whoever needs the position calls planner_enter, which
 * brings the follower up to it; planner_leave puts next back.
 *
 * Public calls come one at a time and take no lock on the fast path. The allocator of
 * a planner is called from any thread and uses the _shared calls, which do. The cache
 * is called without the lock, as its observers may free memory of the planner, and nothing
 * waits for the device with it, whose work may wait for a thread that frees.
 */
#ifndef SRC_PLAN_PLAN_H
#define SRC_PLAN_PLAN_H

#include "base/process/fork.h"
#include "base/quick_lock.h"
#include "plan/follow/recorder.h"
#include "plan/follow/follower.h"

struct plan_ticket;

struct acre_planner {
    const struct expected *next;    /* what the plan expects next         */
    struct quick_lock lock;         /* guards everything for _shared calls */
    struct fork_guard fork_guard; /* of the lock */
    acre_cache *cache;
    acre_device *device;
    acre_planner_config config;
    struct follower *follower;        /* NULL while recording               */
    struct follower *retired;        /* dropped, with live memory          */
    struct follower *ended;          /* to be destroyed without the lock   */
    struct recorder recorder;
    _Atomic(struct plan_ticket *) refused; /* frees to try again; changes under the lock */
    uint64_t plans, drops, departures, rounds; /* rounds of past followers */
    uint64_t past_bytes;            /* allocated in arenas that are gone  */
    uint64_t past_peak;             /* highest live bytes of those        */
    uint64_t held_peak;             /* bytes of arenas                    */
    uint64_t base_total, base_freed; /* at the last reset                 */
};

/* Tries the frees of deleters that were refused a last time, and forgets them. */
void planner_tickets_fini(struct acre_planner *planner);

/* Takes the lock and brings the follower up to the position. */
void planner_enter(struct acre_planner *planner);
/* Puts the fast path back, when it may be used, drops the lock, and destroys what has ended. */
void planner_leave(struct acre_planner *planner);

/* Serves a request that is the next of the plan, when nothing else is to be done. */
static inline bool planner_alloc_quick(struct acre_planner *planner, size_t bytes,
                                       void *stream, void **out)
{
    const struct expected *next = planner->next;

    if (UNLIKELY(next->bytes != bytes || next->stream != stream))
        return false;
    planner->next = next + 1;
    *out = next->address;
    return true;
}

/* Serves a free that is the next event of the plan. */
static inline bool planner_free_quick(struct acre_planner *planner, void *pointer)
{
    const struct expected *next = planner->next;

    if (UNLIKELY(next->freed != pointer))
        return false;
    planner->next = next + 1;
    return true;
}

/* As acre_planner_alloc and acre_planner_free, from any thread; no argument is NULL. */
acre_status planner_alloc_shared(struct acre_planner *planner, size_t bytes, void *stream,
                                 void **out);
acre_status planner_free_shared(struct acre_planner *planner, void *pointer);

/* Follows a round from a record on. Lock held, nothing followed. Errors: those of
 * timetable_create and follower_create. */
acre_status planner_follow(struct acre_planner *planner, const struct timetable_record *records,
                           uint32_t count);
/* Leaves, has the cache give back what is idle, and enters again. */
void planner_make_room(struct acre_planner *planner);
/* Ends following; what lives in the arena may still be freed. Lock held. */
void planner_drop(struct acre_planner *planner);

#endif
