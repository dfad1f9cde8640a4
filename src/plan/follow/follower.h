/* SPDX-License-Identifier: MIT */
/* Serving requests from an arena after a timetable.
 *
 * While everything goes as planned, what lives in the arena follows from the position
 * alone, and nothing but the position is written. An entry that does not is marked:
 *
 *   ABSENT  by its position it lives, but not in the arena: its request departed,
 *           did not come, or it was freed early; until its planned free is passed
 *   LATE    by its position it is dead, but its free was passed and has not come
 *   USED    it is used on a stream that the plan did not foresee
 *   LINGER  it was freed, but a stream may still use it: other streams than that one
 *           do not get its bytes. So do guarded entries (timetable.h) after each free.
 *
 * Only while no mark is set requests may be compared with the next event alone (see
 * plan.h). A request is served from the arena when it is the next allocation of the
 * table and no late or lingering entry keeps its bytes. Otherwise it departs; the position is found
 * again as follows, the first that holds:
 *
 *   the next allocation is this request          something was inserted
 *   the one after the next is                    one was replaced
 *   the last and this request follow one another a little further on   some are missing
 *   the last four requests occur anywhere        the program is elsewhere
 *
 * Passing a position marks what it passes, so any jump is safe.
 *
 * Not thread-safe: the planner's lock is held around every call.
 */
#ifndef SRC_PLAN_FOLLOWER_H
#define SRC_PLAN_FOLLOWER_H

#include "plan/follow/timetable.h"

enum mark { MARK_ABSENT = 1, MARK_LATE = 2, MARK_USED = 4, MARK_LINGER = 8 };

/* A use that may not have finished. */
struct follower_use {
    uint32_t entry;
    void *stream;
    void *event;        /* recorded at the free; NULL: not freed yet          */
};

struct follower {
    struct follower *next;      /* of retired ones                             */
    struct timetable *table;
    acre_device *device;
    char *arena;               /* NULL: the cache serves everything           */
    uint32_t at;               /* position                                    */
    uint32_t step_at;          /* position of the first request of an iteration */
    uint32_t marked_count;     /* entries with a mark                         */
    uint32_t late_count;
    uint8_t *marks;            /* by entry                                    */
    uint32_t *late;            /* entries with MARK_LATE                      */
    struct follower_use *uses;
    uint32_t use_count, use_capacity;
    uint64_t requests[GRAM];   /* the last ones, hashed                       */
    uint32_t missed;           /* departures in a row, up to GRAM             */
    uint32_t window_requests, window_departures; /* of about one round        */
    uint32_t bad_windows;      /* windows of many departures in a row         */
    uint64_t live_bytes, live_bytes_peak, total_bytes; /* of the arena        */
    uint64_t round_count;
    bool is_clean;             /* the round went as planned so far            */
};

/* Takes the arena from the device and begins at a position with an empty arena. The
 * table is the follower's on success. Errors: those of acre_device_alloc,
 * ACRE_ERR_HOST_MEMORY. */
acre_status follower_create(struct timetable *table, acre_device *device, uint32_t at,
                           struct follower **out);
/* Waits for the device and returns the arena. Errors: those of acre_device_free; it stays. */
acre_status follower_give_back(struct follower *follower);
/* Does so, and frees the rest. NULL is fine. */
void follower_destroy(struct follower *follower);

/* Takes note that events up to a position went as planned. */
void follower_catch_up(struct follower *follower, uint32_t at);

enum served {
    SERVED_ARENA,   /* *out is its address                              */
    SERVED_CACHE,   /* the plan leaves it to the cache                  */
    SERVED_NOT,     /* it departs                                       */
};
enum served follower_alloc(struct follower *follower, size_t bytes, void *stream, void **out);

/* Whether an address lies in the arena. */
static inline bool follower_holds(const struct follower *follower, const void *pointer)
{
    return follower->arena && (uintptr_t)pointer - (uintptr_t)follower->arena <
                                 follower->table->arena_bytes;
}

/* Errors: ACRE_ERR_INVALID (nothing lives there); those of recording an event. */
acre_status follower_free(struct follower *follower, void *pointer);
acre_status follower_use(struct follower *follower, void *pointer, void *stream);

/* An iteration begins: goes to its first event, marking what is passed. */
void follower_step(struct follower *follower);

/* Whether departures persist. */
bool follower_is_bad(const struct follower *follower);
/* Whether nothing lives in the arena and no use is pending. */
bool follower_is_idle(struct follower *follower);

#endif
