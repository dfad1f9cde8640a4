/* SPDX-License-Identifier: MIT */
/* Accounting for blocks that lanes hand out under the lock, and threads that are in each
 * other's way there.
 *
 * A thread that frees keeps the credit, so that at the peak another one has to stop it to get
 * that back, which takes microseconds. Threads that allocate in turn exactly at the peak would
 * do so each time. When that is noticed, all lanes rest: they stay closed for a number of
 * allocations, which take the lock instead. Meanwhile lanes keep blocks, but no credit. Each time
 * it happens again soon the rest is longer.
 *
 * Not thread-safe: the cache's lock is held around every call whose name ends in _locked.
 */
#ifndef SRC_CACHE_THREADS_ACCOUNT_H
#define SRC_CACHE_THREADS_ACCOUNT_H

#include "cache/threads/front.h"

enum {
    ACCOUNT_SOON = 256,       /* allocations between two stops that are too few  */
    ACCOUNT_REST_MIN = 64,    /* allocations of a rest                           */
    ACCOUNT_REST_MAX = 2048,
};

/* Accounts for a block handed out: from the class budgets of lane, when not NULL. */
void front_account_locked(struct front *front, struct lane *lane, const struct block *block);

/* Collects all class budgets; between stop and go. */
void front_collect_locked(struct front *front);

/* Brings what was spent into the statistics, whereupon the sums begin anew; between stop and go,
 * with all class budgets collected. */
void front_store_locked(struct front *front, acre_cache_stats *stats);

/* Frees into a lane of the calling thread while lanes rest; the credit is nobody's. False: they do
 * not, or there is more to the free than that. Takes the lock. */
bool account_free_resting(acre_cache *cache, struct lane *lane, struct block *block,
                          const void *pointer);

#endif
