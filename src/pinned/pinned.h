/* SPDX-License-Identifier: MIT */
/* The whole: pools of host memory under one lock.
 *
 * Memory is obtained and given back without the lock. What is to go back is collected
 * in doomed while the lock is held, and leaves when it is dropped (pinned_leave). */
#ifndef SRC_PINNED_PINNED_H
#define SRC_PINNED_PINNED_H

#include "base/process/fork.h"
#include "base/quick_lock.h"
#include "cache/conf.h"
#include "cache/observe/history.h"
#include "pinned/events.h"
#include "pinned/host_arena.h"
#include "pinned/level.h"
#include "host/numa.h"
#include "pinned/poller.h"

#include <acre/pinned.h>

#include <limits.h>

enum {
    PINNED_SLACK = 16,     /* idle memory beyond one so-many-th of the highest use goes
                              back before more is taken                              */
    PINNED_STEP = 16,      /* an extent is one so-many-th of what is held, within:   */
    PINNED_STEP_MIN = 1 << 20,
    PINNED_STEP_MAX = 64 << 20,
    PINNED_PAUSE_MAX = 1023, /* most calls that pass by memory which the device refuses */
};

/* Memory obtained at once, when the first piece is needed. */
struct reserve {
    char *base;                /* NULL: none                                         */
    size_t bytes, used;
    enum source_method method;
    bool is_asked;             /* it was asked for, whether or not there is any      */
};

struct acre_pinned {
    struct quick_lock lock;
    struct fork_guard fork_guard; /* of the lock */
    /* What the hot path may use: all while the cache is plain, that is of policy acre, while
     * nothing records, routes or limits; nothing otherwise, and in a child of fork at first. */
    struct host_block **at_hand; /* stacks: those of the shared pool, or empty ones */
    uintptr_t leaf_count;        /* of the map                                      */
    struct map map;            /* from addresses to blocks                           */
    struct pinned_level requested_bytes;
    struct pinned_level active_requests[ACRE_PINNED_BUCKETS]; /* by piece.bucket            */
    struct pinned_level active_bytes[ACRE_PINNED_BUCKETS];
    struct host_pool shared;
    /* Cold. */
    struct pinned_level allocations, allocated_bytes;
    acre_pinned_time alloc_time, free_time;
    int64_t bucket_allocation[ACRE_PINNED_BUCKETS];
    uint64_t highest_bytes;    /* of active ones, before peaks were last reset       */
    uint64_t waiting_bytes, captured_bytes;
    struct acre_device *device; /* constant                                          */
    _Atomic unsigned generation; /* fork_generation() of the last process that may use it */
    acre_policy policy;        /* constant                                           */
    struct cache_conf conf;
    char *conf_text;           /* the last one set                                   */
    struct list pools;         /* private ones, oldest first                         */
    uint32_t scope_count;      /* pools with an open scope                           */
    uint64_t scope_number;     /* of the last scope                                  */
    struct event_store store;
    struct list doomed;        /* extents to be given back                           */
    struct reserve reserve;
    struct history history;
    struct numa numa;
    struct poller poller;
};

/* A request under way. */
struct host_request {
    size_t bytes, rounded;
    struct host_pool *pool;
    struct host_block *host_block;
    bool is_from_capture;
};

/* ACRE_ERR_FORKED in a child, for memory of a device that does not work there. */
acre_status pinned_fork_refuse(acre_pinned *pinned);
static inline acre_status pinned_check_fork(acre_pinned *pinned)
{
    return LIKELY(atomic_load_explicit(&pinned->generation, memory_order_relaxed) ==
                  fork_generation())
               ? ACRE_OK
               : pinned_fork_refuse(pinned);
}

/* Opens a public call that allocates, frees or changes. */
#define REFUSE_FORKED_PINNED(pinned)                                           \
    do {                                                                       \
        acre_status forked = pinned_check_fork(pinned);                        \
        if (UNLIKELY(forked != ACRE_OK))                                       \
            return forked;                                                     \
    } while (0)

static inline bool pinned_is_torch(const acre_pinned *pinned)
{
    return pinned->policy == ACRE_POLICY_TORCH;
}

/* Drops the lock and gives back what is doomed. What the device refused is offered again after
 * twice as many calls each time, or after pinned_offer_locked. Errors: what the backend says
 * first. */
acre_status pinned_leave(acre_pinned *pinned);
void pinned_offer_locked(acre_pinned *pinned);

/* Bytes active now; and the most there ever were. */
int64_t pinned_active_bytes(const acre_pinned *pinned);
uint64_t pinned_highest_bytes(const acre_pinned *pinned);

/* The policy of a pinned cache; the default one for NULL. */
acre_policy pinned_policy(const acre_pinned *pinned);
/* Looks which pending uses are over, without waiting. Errors: what the backend answers; uses
 * that it could not tell about stay pending. */
acre_status pinned_process(acre_pinned *pinned);

/* After something changed that being plain depends on. */
void pinned_update_plain_locked(acre_pinned *pinned);

/* ---- acquire.c ------------------------------------------------------------------------ */

/* Finds or obtains a piece for a request; may drop the lock meanwhile. Errors: those of
 * acre_pinned_alloc. */
acre_status host_acquire_locked(acre_pinned *pinned, struct host_request *request);

/* Makes all that a pool has at hand free. */
void host_drain_locked(acre_pinned *pinned, struct host_pool *pool);

/* ---- settle.c ------------------------------------------------------------------------- */

/* A LIVE piece is freed: it becomes free, waits, or is kept for a graph. On failure it
 * stays LIVE. */
acre_status settle_free_locked(acre_pinned *pinned, struct host_block *host_block);
/* After settle_free_locked failed: the piece is freed all the same, and its uses are recorded when
 * events are next looked at. */
void settle_postpone_locked(acre_pinned *pinned, struct host_block *host_block);
/* Looks at the events of a pool; waits for them if is_waiting. */
acre_status settle_collect_locked(acre_pinned *pinned, struct host_pool *pool, bool is_waiting);
/* No graph uses the CAPTURED blocks of a pool any more. */
void settle_captured_locked(acre_pinned *pinned, struct host_pool *pool);
/* Dooms idle extents of a pool, longest idle first, until at most keep bytes are idle.
 * Returns how many bytes. */
uint64_t settle_release_locked(acre_pinned *pinned, struct host_pool *pool, uint64_t keep);

/* ---- pools.c -------------------------------------------------------------------------- */

/* The pool that serves the calling thread, made busy: the caller undoes that. May drop
 * the lock meanwhile. */
struct host_pool *host_route_locked(acre_pinned *pinned);
/* Ends pools that nobody uses and that hold nothing. */
void host_sweep_locked(acre_pinned *pinned);

/* ---- serve.c, adapter.c, report.c ------------------------------------------------------- */

/* Size, in bytes, of the block behind a live allocation.
 * Errors: ACRE_ERR_INVALID ("invalid host pointer"). */
acre_status pinned_block_bytes(acre_pinned *pinned, void *pointer, uint64_t *out_bytes);
/* As acre_pinned_free, for callers who cannot try again: what cannot be recorded now is later.
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_FORKED. */
acre_status pinned_free_surely(acre_pinned *pinned, void *pointer);
/* The pinned cache behind an allocator; NULL for allocators of other kinds. */
acre_pinned *pinned_of_allocator(const acre_allocator *allocator);
/* Walks every structure. Errors: ACRE_ERR_INTERNAL names the first fact that does not hold. */
acre_status pinned_verify(acre_pinned *pinned);

#endif
