/* SPDX-License-Identifier: MIT */
/* Stitched memory: which range serves a block, and which pages it gets. The rest
 * is in stitch.h. Not thread-safe: the cache's lock is held around every call. */
#ifndef SRC_CACHE_STITCH_RANGE_H
#define SRC_CACHE_STITCH_RANGE_H

#include "cache/acre/stitch.h"

/* A LIVE block in an idle range whose pages are free, or NULL. */
struct block *stitch_range_reuse(acre_cache *cache, struct stitch *stitch, struct arena *arena,
                                 size_t bytes);
/* A LIVE block in a range that is made or changed to have the pages chosen from
 * stitch->page_gaps, of which enough are free. On failure nothing has changed. */
acre_status stitch_range_make(acre_cache *cache, struct stitch *stitch, struct arena *arena,
                              size_t bytes, const struct page_choice *choice, struct block **out);

/* Whether any range, in use or idle, maps a page. */
bool stitch_range_uses(const struct stitch *stitch, size_t page);
/* Ends all idle ranges; no queued work uses them. Goes on after an error. */
acre_status stitch_range_drop_idle(struct stitch *stitch);

#endif
