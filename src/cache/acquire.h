/* SPDX-License-Identifier: MIT */
/* From a miss to a block: the ladder of policy torch, and the rungs that policies share.
 *
 * Not thread-safe: the cache's lock is held around every call whose name ends in _locked.
 */
#ifndef SRC_CACHE_ACQUIRE_H
#define SRC_CACHE_ACQUIRE_H

#include "cache/cache.h"

/* Whether the limits allow attempt->segment_bytes more from the device.
 * Errors: ACRE_ERR_LIMIT, ACRE_ERR_REJECTED. */
acre_status acquire_allows_locked(acre_cache *cache, struct attempt *attempt);
/* Begins after a miss: sets attempt->segment_bytes, saves the last error, and says whether the
 * request is part of a capture. Errors: what the device says about captures. */
acre_status acquire_begin_locked(acre_cache *cache, struct attempt *attempt, bool *out_is_capturing,
                                 struct status_saved *out_before);
/* Asks all callbacks of users for memory, with the lock dropped; whether one freed some. */
bool acquire_ask_reclaimers_locked(acre_cache *cache);
/* Obtains a segment of attempt->segment_bytes, or room in an expandable one; the block is FREE
 * and in no index. */
acre_status acquire_segment_locked(acre_cache *cache, struct attempt *attempt, struct block **out);
/* Ends what acquire_begin_locked began: restores the last error, or gathers the report. Gives
 * the status of the attempt. */
acre_status acquire_end_locked(acre_cache *cache, struct attempt *attempt, acre_status status,
                               const struct status_saved *before);
/* policy.acquire of policy torch. */
acre_status acquire_locked(acre_cache *cache, struct attempt *attempt, struct block **out);

#endif
