/* SPDX-License-Identifier: MIT */
/* Returning idle pages of a heap to the system.
 *
 * Time is cut into looks, IDLE_LOOKS within config.idle_ms. Each look asks the cache for
 * the highest use since the look before. The highest of the last IDLE_LOOKS looks is what
 * the program needs; resident memory beyond that need, plus a share of it, is idle. So
 * memory that a step of the program uses and frees stays, however short its use.
 *
 * Free blocks between live ones may make a program touch more than its highest use at any
 * moment. Pages that come back soon after they went were needed after all, so the next trim
 * for the same need waits: one period, then twice as long each time.
 *
 * Pages go back by MADV_DONTNEED: the addresses stay in the cache and are touched anew when
 * they are used. Which pages of free blocks are resident is asked of the kernel (mincore),
 * so the cache keeps no account of it. Segments that are free as a whole go back to the
 * device when all of them are idle.
 */
#ifndef SRC_HOSTMEM_IDLE_H
#define SRC_HOSTMEM_IDLE_H

#include "base/lock.h"

#include <acre/hostmem.h>

#include <pthread.h>
#include <stdatomic.h>

enum { IDLE_LOOKS = 10 };

struct idle {
    struct lock lock; /* RANK_LEAF: guards is_ending                     */
    pthread_cond_t wake;
    pthread_t thread;        /* while has_thread                                */
    _Atomic bool has_thread; /* it runs, or must not                            */
    bool is_owned;           /* there is a thread to join                       */
    bool is_ending;
    uint32_t look_ms;           /* constant: between looks                         */
    uint32_t keep_percent;      /* constant                                        */
    uint64_t needs[IDLE_LOOKS]; /* highest use of the last looks; guarded, as what
                                    follows, by idle_trim_lock                      */
    unsigned look;              /* next place in needs                             */
    uint64_t need_trimmed;      /* the need at the last trim                       */
    unsigned wait;              /* looks until the next trim for that need         */
    unsigned wait_next;         /* looks that follow such a trim                   */
    acre_cache_stats peaks;     /* highest peaks before the last reset; struct_size 0:
                                    none yet                                        */
    _Atomic int64_t trimmed_bytes, trim_count;
};

/* One heap of the process trims at a time. RANK_HEAPS. */
extern struct lock idle_trim_lock;

void idle_init(struct idle *idle, const acre_hostmem_config *config);
/* Ends the thread. */
void idle_fini(struct idle *idle);

/* Starts the thread if there is none; cheap when there is. */
void idle_start(acre_hostmem *heap);
static inline void idle_wish(acre_hostmem *heap, struct idle *idle)
{
    if (__builtin_expect(!atomic_load_explicit(&idle->has_thread, memory_order_relaxed), 0))
        idle_start(heap);
}
/* In the child of a fork: the thread is gone. */
void idle_orphan(struct idle *idle, bool may_start);

/* One look; the thread's work, and a test's. */
void idle_look(acre_hostmem *heap);
/* Reads the statistics of the cache, with peaks from before resets. */
void idle_stats(acre_hostmem *heap, acre_cache_stats *stats);
void idle_reset_peak(acre_hostmem *heap);
/* Discards idle pages until at most keep_bytes of free memory are resident; what went. */
uint64_t idle_trim(acre_hostmem *heap, uint64_t keep_bytes);

#endif
