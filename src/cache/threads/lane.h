/* SPDX-License-Identifier: MIT */
/* What one thread keeps of one arena: free blocks at hand, and credit.
 *
 *   thread ──► lane (cache, stream) ──► bins[size] ──► block ──► block
 *
 * A bin is a stack of blocks linked through cached_next that ends in lane_end, a
 * block of no size, so that looking at the top needs no test for emptiness.
 * Large sizes share a bin and lie on one stack; the top decides. Small sizes share
 * none, so that giving back what takes up memory leaves them alone. What was borrowed
 * from the pool of the other class lies in a bin of its own: the others are of one
 * class each.
 *
 * Who may touch a lane:
 *   its thread, between lane_enter and lane_leave, without any lock;
 *   its thread, holding the cache's lock;
 *   any thread that holds the cache's lock and has stopped the lane.
 *
 * Entering costs a store and no atomic instruction. Stopping pays for it:
 *
 *   the thread                          the stopper, under the cache's lock
 *     is_busy = 1                         cache = key = LANE_STOPPED
 *     (compiler barrier)                  membarrier: every running thread of
 *     cache or key is mine?               the process passes a full barrier
 *       no: is_busy = 0, take the lock    wait until is_busy is 0
 *     ... work ...                        ... work ...
 *     is_busy = 0 (release)               cache = key = as before (release)
 *
 * Either the thread's store of is_busy comes before the barrier, and the stopper
 * sees and waits; or its look at the key comes after, and it sees LANE_STOPPED.
 * A thread never waits for anything between enter and leave.
 */
#ifndef SRC_CACHE_LANE_H
#define SRC_CACHE_LANE_H

#include "cache/acre/arena.h"
#include "cache/threads/credit.h"
#include "cache/observe/history.h"

enum {
    LANE_EXACT_BINS = CREDIT_LARGE_UNITS, /* one per small size                  */
    LANE_LARGE_BIN = LANE_EXACT_BINS, /* where all large blocks lie              */
    LANE_BORROWED_BIN,      /* those counted in the other class                  */
    LANE_BINS,
    LANE_SHARE = 8,         /* lanes keep at most this part of what is held      */
    LANE_LOOK_EVERY = 8,    /* misses between looks at how much it keeps         */
    LANE_MOST = 512,        /* of one thread: to search more takes longer than a lane saves */
};

/* A key that no call carries. */
#define LANE_STOPPED 1
/* What is added to both keys of a lane that writes notes (history.h), so that the
 * ordinary path does not take it and the noting one does, for nothing more than
 * the comparison that fails. */
#define LANE_NOTES 2

struct lane {
    struct block *bins[LANE_BINS];
    void *stream;                  /* constant                                    */
    _Atomic(acre_cache *) cache;   /* key of allocations, or LANE_STOPPED         */
    _Atomic(acre_cache *) free_cache; /* key of frees, or LANE_STOPPED            */
    struct arena *key;             /* constant: of the blocks that it may keep    */
    _Atomic uint32_t is_busy;      /* the thread is inside                        */
    struct note *note;             /* where the next one goes                     */
    struct note *notes_end;        /* none fits from here on; note when there are none */
    struct thread_budget thread_budget;
    /* Cold. */
    _Atomic(acre_cache *) owner;    /* the cache; NULL once it has ended           */
    struct arena *arenas[CREDIT_CLASSES]; /* constant: where blocks come from     */
    uint32_t looks_in;             /* misses until the next look at lane_units    */
    struct thread *thread;         /* constant: who may enter                     */
    uint64_t thread_number;        /* constant: the number of that thread         */
    bool is_diverted;              /* scopes concern it: allocations take the lock;
                                      guarded by the cache's lock                 */
    struct note_page *page;        /* that note and notes_end point into, or NULL */
    struct label label;            /* of its thread; guarded by the cache's lock  */
    int64_t units_base;            /* see lane_units                              */
    struct list cache_link;        /* in front.lanes; guarded by the cache's lock */
    struct list thread_link;       /* in thread.lanes; its thread's alone         */
};

/* Ends every stack; its size is that of no request. */
extern struct block lane_end;
/* The lane of threads without one: no call carries its keys. */
extern struct lane lane_none;
/* The lane this thread used last; never NULL. */
extern _Thread_local struct lane *lane_current;

/* Size of a block for a request, in units; 0 when that cannot be represented. */
static inline size_t lane_units_of(size_t bytes)
{
    return (bytes + BLOCK_UNIT - 1) / BLOCK_UNIT;
}

/* Where blocks of a size lie: small sizes have a bin each, the others share one, of
 * which only the block last freed is handed out again. A large request of any other
 * size gives them all back to their arena first, and takes the best fit of all that
 * is free. */
static inline size_t lane_bin(size_t units)
{
    if (units < LANE_EXACT_BINS)
        return units;
    return LANE_LARGE_BIN;
}

/* Prepares a block that leaves its arena for lanes. Its class is that of its pool,
 * which is another than its size would have when memory was borrowed. */
static inline void lane_prepare(struct block *block, size_t units, enum credit_class class,
                                struct arena *key)
{
    block->units = units;
    block->bin = LIKELY(class == credit_class_of(units)) ? (uint16_t)lane_bin(units)
                                                         : (uint16_t)LANE_BORROWED_BIN;
    block->class_budget = (uint16_t)(offsetof(struct lane, thread_budget.class_budgets) +
                               (size_t)class * sizeof(struct class_budget));
    atomic_store_explicit(&block->key, key, memory_order_relaxed);
}

_Static_assert(sizeof(struct lane) <= UINT16_MAX, "blocks know an offset in a lane");

/* The class under which a block is counted. */
static inline enum credit_class lane_class(const struct block *block)
{
    return block->pool->is_small ? CREDIT_SMALL : CREDIT_LARGE;
}

/* The class budget that serves a block. */
static inline struct class_budget *lane_budget(struct lane *lane, const struct block *block)
{
    return (struct class_budget *)(void *)((char *)lane + block->class_budget);
}

/* Begins unlocked work. The caller looks at a key next and leaves if it is not
 * what it expects; the barrier keeps the compiler from looking earlier. */
static inline void lane_enter(struct lane *lane)
{
    atomic_store_explicit(&lane->is_busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void lane_leave(struct lane *lane)
{
    atomic_store_explicit(&lane->is_busy, 0, memory_order_release);
}

/* Whether a key of a lane that is entered is that of a cache, with marks; lane_go_on
 * comes next. Written as an atomic load, gcc would not make one instruction of loading
 * and comparing; on this machine every load is an acquire. */
static inline bool lane_key_is(_Atomic(acre_cache *) *key, const acre_cache *cache, size_t marks)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    return *(const uintptr_t *)(const void *)key == (uintptr_t)cache + marks;
#else
    return (uintptr_t)atomic_load_explicit(key, memory_order_acquire) == (uintptr_t)cache + marks;
#endif
}

/* Keeps the compiler from reading what a key guards before the key. */
static inline void lane_go_on(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* Whether keys, as read from a lane, are those of a lane that writes notes. */
static inline bool lane_is_noting(const void *seen, const void *key)
{
    return (uintptr_t)seen == (uintptr_t)key + LANE_NOTES;
}

/* Writes down an allocation, or a free, that takes place in a lane; note is where
 * its next one goes, which is not notes_end. */
static inline void lane_note(struct lane *lane, struct note *note, const void *base,
                             size_t bytes, bool is_free)
{
    lane->note = note + 1;
    note->address = (uintptr_t)base;
    note->bytes = is_free ? ~bytes : bytes;
    ticks_write(&note->ticks);
}

/* Units and requested bytes, added by one instruction where the machine has it. */
typedef int64_t lane_pair __attribute__((vector_size(16), may_alias));
typedef int64_t lane_pair_anywhere __attribute__((vector_size(16), aligned(8), may_alias));
_Static_assert(CREDIT_UNITS == 0 && CREDIT_REQUESTED == 1 &&
                   offsetof(struct block, requested) ==
                       offsetof(struct block, units) + sizeof(int64_t),
               "units and requested bytes are a pair in a class budget and in a block");

/* Puts a block in. */
static inline void lane_put(struct lane *lane, struct block *block)
{
    struct block **top = &lane->bins[block->bin];

    block->cached_next = *top;
    *top = block;
}

/* Puts a block in and takes its credit back. */
static inline void lane_push(struct lane *lane, struct block *block)
{
    struct class_budget *class_budget = lane_budget(lane, block);

    lane_put(lane, block);
    class_budget->credit[CREDIT_COUNT] += 1;
    *(lane_pair *)(void *)class_budget->credit += *(lane_pair_anywhere *)(void *)&block->units;
}

/* Units of the blocks that a lane keeps. The hot path does not count them: every
 * block it puts in or takes out moves the credit by the same amount, and what
 * moves credit otherwise, under the lock, moves units_base along. */
static inline int64_t lane_units(const struct lane *lane)
{
    return thread_budget_sum(&lane->thread_budget, CREDIT_UNITS) - lane->units_base;
}

/* Says how many units a lane keeps, after its credit was moved otherwise. */
static inline void lane_units_set(struct lane *lane, int64_t units)
{
    lane->units_base = thread_budget_sum(&lane->thread_budget, CREDIT_UNITS) - units;
}

/* Whether a lane is one of the calling thread. */
bool lane_is_own(const struct lane *lane);

/* Adds how many blocks of each class a lane holds. The cache's lock is held, the
 * lane stopped or the caller's own. */
void lane_count(const struct lane *lane, int64_t count[CREDIT_CLASSES]);

/* The calling thread's lane of a stream; made if need be. NULL: there is no
 * host memory, the kernel has no membarrier, or the thread has LANE_MOST lanes.
 * Takes the cache's lock when it makes one. */
struct lane *lane_get(acre_cache *cache, void *stream);
/* The labels of the calling thread have changed: what it noted so far goes into
 * the histories with the old ones. Takes locks. */
void lane_relabel(void);

/* The calling thread's lane of a key of cache, or NULL when it has none. */
struct lane *lane_peek(const acre_cache *cache, const struct arena *key);

#endif
