/* SPDX-License-Identifier: MIT */
/* What is said when a request fails.
 *
 * Not thread-safe: the cache's lock is held around every call whose name ends in _locked.
 */
#ifndef SRC_CACHE_OBSERVE_REPORT_H
#define SRC_CACHE_OBSERVE_REPORT_H

#include "cache/cache.h"

/* Gathers what the report says and counts the failure. */
void attempt_gather_locked(acre_cache *cache, struct attempt *attempt);
/* Then, with no lock held: tells observers, and records the error. Gives the status. */
acre_status attempt_failed(acre_cache *cache, const struct attempt *attempt, acre_status status);

#endif
