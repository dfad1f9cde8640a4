/* SPDX-License-Identifier: MIT */
/* Stitched memory: where policy acre's memory comes from on devices with virtual
 * memory. One of these serves a small and a large pool.
 *
 *   page space  one range of addresses where every page is mapped once, one segment
 *               of the large pool; blocks of all sizes lie there by best fit
 *   ranges    further addresses for blocks of a page and more, when no free block
 *             in the page space is large enough: any free pages, joined (range.h)
 *   chunks    small blocks lie together in chunks, segments of the small pool
 *             inside LENT blocks of the page space, so that they do not hold pages
 *
 * Where a block that the free blocks in the page space cannot serve comes from, in order:
 *
 *   1. an idle range: one that was made for this size and
 *      whose pages are free, else the oldest with room        stitch_reuse
 *   2. empty chunks, which go back to the page space          stitch_obtain
 *   3. new pages, while little is held beyond what was ever
 *      needed: each saves many calls later                    stitch_obtain
 *   4. free pages stitched, in a range made, extended or
 *      changed for it                                         stitch_obtain
 *   5. new pages for what is missing                          stitch_obtain
 *
 * Choices do not depend on ranges made later than the one that is chosen, so a
 * job that repeats itself finds the same ranges again and stops calling the
 * device.
 *
 * No byte is live twice: what a range or a chunk uses is LENT in the page space, and every
 * LENT block belongs to exactly one of them (stitch_check).
 *
 * A page is mapped once in the page space and any number of times in ranges. Unmapping an
 * address, in a range that changes, needs that work queued on it is done; the
 * stream that used it last is asked, never waited for.
 *
 * Not thread-safe: the cache's lock is held around every call.
 */
#ifndef SRC_CACHE_STITCH_H
#define SRC_CACHE_STITCH_H

#include "cache/cache.h"
#include "cache/acre/page_gaps.h"
#include "cache/acre/range.h"

struct arena;

enum {
    STITCH_CHUNK_MIN = 128 << 10, /* a chunk is a page, or less where memory is short  */
    STITCH_SLACK_SHARE = 400,  /* slack beyond the peak: 1/400 of it, plus one page    */
    STITCH_SLACK_EVERY = 64,   /* the slack grows by one share after 64 stitchings,    */
                               /* because mapping costs more than a page then          */
    STITCH_SLACK_END = 100,    /* the slack stops growing at 1/100 of the peak         */
    STITCH_TIRED_AFTER = 1024, /* stitchings after which a job counts as irregular     */
    STITCH_TIRED_PAGES = 16,   /* pages by which an irregular job's slack grows        */
    STITCH_TIRED_END = 5,      /* an irregular job's slack stops at 1/5 of the peak    */
    STITCH_PLENTY = 4,         /* page gaps stay unused while 4 free pages are left    */
    STITCH_LOOK_COUNT = 128,   /* idle ranges examined per request, oldest first        */
    STITCH_PATCH_COST = 16,    /* calls that changing a range must save; each change    */
    STITCH_PATCH_MAX = 6,      /* of that range multiplies them by 8, at most 6 times   */
    STITCH_SLOT_SHARE = 16,    /* slots of all ranges: 16 for each page of memory      */
    STITCH_SPAN_SHARE = 16,    /* addresses of ranges: 16 times the device's memory    */
};

struct stitch {
    struct pool *small, *large;
    struct segment *page_space;   /* NULL: no page yet                                  */
    struct list unmapped;   /* UNMAPPED blocks of the page space, through block->link   */
    struct list ranges;     /* oldest first                                       */
    size_t slot_count;      /* mapped in ranges                                   */
    size_t span_slots;      /* for which they have addresses                      */
    uint64_t made_count;    /* how often pages were stitched                      */
    struct page_gaps page_gaps;     /* as last looked at                                  */
};

/* Makes a pair of pools take its memory by stitching, if the device can and the
 * options allow. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status stitch_create(acre_cache *cache, struct pool *small, struct pool *large);
/* Returns everything to the device, in use or not. The segment of the page space stays
 * in the cache's list, for which expand_abandon is to be called. */
void stitch_destroy(struct stitch *stitch);

/* A LIVE block for an arena without a call to the device, or NULL. */
struct block *stitch_reuse(acre_cache *cache, struct arena *arena, size_t bytes);
/* A FREE block of exactly the rounded size, or for small ones a new chunk, that is
 * in no index. On failure nothing has changed. */
acre_status stitch_obtain(acre_cache *cache, struct attempt *attempt, struct block **out);

/* Gives free pages, idle ranges and addresses back. Goes on after an error. */
acre_status stitch_shrink_locked(acre_cache *cache, struct stitch *stitch, bool *is_quiet);

/* Gives another device access to all ranges of a cache, or takes it back. */
acre_status stitch_admit_locked(acre_cache *cache, int peer);
void stitch_expel_locked(acre_cache *cache, int peer);

/* Whether every LENT block is accounted for, and ranges are sound. */
bool stitch_check(const struct stitch *stitch, const acre_cache *cache, const char **fact);

/* The pages behind a block of an expandable segment or of stitched memory: count of
 * them, mapped one after another from base on, which is at or before the block's
 * first byte. For sharing, and for putting memory to sleep. Page i is
 * page_space->pages[pages ? pages[i] : first + i]. */
struct stitch_span {
    const struct expand *page_space;
    char *base;
    const size_t *pages; /* NULL: from first on, one after another */
    size_t first, count;
};
struct stitch_span stitch_span_of(const struct block *block);

/* Calls fn for every mapping of every page: first in the page space, then in ranges. The
 * address and page_bytes from there on have the handle's memory. For sleeping. */
typedef acre_status (*stitch_page_fn)(void *arg, void *handle, char *address);
acre_status stitch_pages_locked(const struct stitch *stitch, stitch_page_fn fn, void *arg);

#endif
