/* SPDX-License-Identifier: MIT */
/* The thread caches of one cache: its lanes, and the credit they draw on.
 * front.c holds the unlocked calls, lane.c the lanes of a thread. */
#ifndef SRC_CACHE_FRONT_H
#define SRC_CACHE_FRONT_H

#include "base/check.h"
#include "cache/cache.h"
#include "cache/threads/lane.h"

struct front {
    struct list lanes;    /* of all threads                                    */
    uint64_t lane_count;
    _Atomic uint32_t rest; /* allocations until closed lanes open; 0: they are not closed.
                             Read without the lock as a hint                   */
    struct credit credit; /* what changes with every allocation comes first    */
    bool is_off;          /* lanes stay stopped: caching is switched off       */
    bool is_noting;       /* lanes write notes: a history is recorded          */
    bool is_central;      /* lanes stay stopped: the lock sees every event     */
    uint64_t stop_count;  /* how often threads were stopped for credit         */
    uint32_t rest_next;   /* length of the next rest (account.h); 0: none due  */
    int64_t spent_seen;   /* allocations at the last stop for credit, by the sums */
};

/* Errors: ACRE_ERR_HOST_MEMORY. */
acre_status front_init(acre_cache *cache);
/* Detaches all lanes; no other call uses the cache any more. */
void front_fini(acre_cache *cache);

/* Stops the lanes of all other threads, and lets them go on. */
void front_stop_locked(struct front *front);
void front_go_locked(struct front *front);
/* Leaves the lanes of all threads, which are stopped and without credit, closed for a number of
 * allocations; 0: lets them go on. */
void front_rest_locked(struct front *front, uint32_t count);
static inline bool front_is_resting(const struct front *front)
{
    return atomic_load_explicit(&front->rest, memory_order_relaxed) != 0;
}
/* Asks for what an allocation under the lock changes while lanes rest, all at once: another
 * processor had it last, and one after the other would take several times as long. */
static inline void front_prepare(const acre_cache *cache)
{
    line_prepare(&cache->lock);
    for (size_t at = 0; at < offsetof(struct front, credit.waiting); at += LINE_BYTES)
        line_prepare((const char *)cache->front + at);
}
/* Lets lanes be used, or not until further notice. */
void front_enable_locked(struct front *front, bool enabled);

/* Scopes were opened or closed: lets lanes that they concern serve frees only, so
 * that allocations take the lock and are routed. */
void front_divert_locked(acre_cache *cache);
/* After recording was switched on or off: lanes write notes, or stay stopped when
 * every event is to pass the lock. */
void front_record_locked(acre_cache *cache, bool is_on, bool is_central);
/* Puts the notes of all lanes into the history; between stop and go. */
void front_notes_take_locked(acre_cache *cache);
/* Puts the notes of one lane, stopped or the caller's own, into the history. */
void lane_notes_collect_locked(acre_cache *cache, struct lane *lane);

/* Gives the blocks of all lanes, or the large ones, back to their arenas; whether
 * there were any. */
bool front_drain_locked(acre_cache *cache, bool large_only);
/* Returns the calling thread's large blocks to their arenas without stopping other threads. */
void front_drain_own_locked(acre_cache *cache);
/* Gives all blocks back and leaves the lanes of other threads stopped: no block is
 * in a lane until front_go_locked. */
void front_halt_locked(acre_cache *cache);
/* Returns all cached blocks of all lanes to their arenas. Returns true if any block moved. */
bool front_relieve_locked(acre_cache *cache);

/* Frees a block whose tag says that other streams use it: it waits for them. */
acre_status front_free_used(acre_cache *cache, struct block *block, void *pointer);

/* Looks which waiting blocks have become free, for the lane's thread: they go to the lane, or to
 * their arenas. False: captures have a say in it, and nothing was done. */
bool lane_collect_locked(acre_cache *cache, struct lane *lane);

/* Removes a lane of the calling thread from its cache. */
void front_detach_locked(acre_cache *cache, struct lane *lane);

/* In a child of fork, with every lock held: gives back the lanes of all threads but this one; and
 * all lanes of a cache, which gets no other. */
void threads_forget_others(void);
void front_abandon_locked(acre_cache *cache);

#endif
