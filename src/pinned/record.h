/* SPDX-License-Identifier: MIT */
/* Writing the history of a pinned cache. Every function is a test of one byte while
 * nothing is recorded; the lock is held except in host_gather. */
#ifndef SRC_PINNED_RECORD_H
#define SRC_PINNED_RECORD_H

#include "pinned/pinned.h"

void host_gather_slow(acre_pinned *pinned);
void host_record_piece(acre_pinned *pinned, struct host_block *host_block, acre_action action);
void host_record_extent(acre_pinned *pinned, struct extent *extent, acre_action action);
void host_record_oom(acre_pinned *pinned, const struct host_request *request);
void host_record_snapshot(acre_pinned *pinned, uint64_t active_bytes, const uint64_t pool[2]);

/* Before the lock: the stack, when the level asks for it. */
static inline void host_gather(acre_pinned *pinned, acre_context_level level)
{
    if (UNLIKELY(atomic_load_explicit(&pinned->history.level, memory_order_relaxed) >= level))
        host_gather_slow(pinned);
}

static inline void record_block_locked(acre_pinned *pinned, struct host_block *host_block,
                                       acre_action action)
{
    if (UNLIKELY(pinned->history.is_on))
        host_record_piece(pinned, host_block, action);
}

static inline void record_extent_locked(acre_pinned *pinned, struct extent *extent,
                                        acre_action action)
{
    if (UNLIKELY(pinned->history.is_on))
        host_record_extent(pinned, extent, action);
}

#endif
