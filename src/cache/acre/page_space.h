/* SPDX-License-Identifier: MIT */
/* The page space: the segment of stitched memory (stitch.h) where every page is
 * mapped once, how it grows and how it gives pages back.
 *
 * The page space is tiled by blocks like any segment: what has no pages is UNMAPPED and
 * in stitch->unmapped, what is used through ranges and chunks is LENT.
 *
 * Not thread-safe: the cache's lock is held around every call.
 */
#ifndef SRC_CACHE_ACRE_PAGE_SPACE_H
#define SRC_CACHE_ACRE_PAGE_SPACE_H

#include "cache/acre/stitch.h"

enum {
    PAGE_SPACE_CHUNK_SHARE = 64, /* part of the addresses that is for chunks */
    GROWTH_PARTS = 16,
};

/* Where pages were put, to undo it. */
struct page_growth {
    size_t count;
    size_t offsets[GROWTH_PARTS], bytes[GROWTH_PARTS];
};

/* Bytes of all pages. */
uint64_t page_space_bytes(const struct stitch *stitch);

/* Reserves the addresses, if they are not: one UNMAPPED block. */
acre_status page_space_make(acre_cache *cache, struct stitch *stitch, void *stream);
/* Returns the addresses of a page space without pages and ranges; else does nothing. */
acre_status page_space_drop(acre_cache *cache, struct stitch *stitch);

/* Where the page space can grow. */
struct point {
    struct block *block; /* UNMAPPED                              */
    char *base;          /* first byte to map, inside the block   */
    size_t bytes;        /* room from there on; 0: nowhere        */
};
/* The lowest point with room for bytes, what is free in arena before it included, else
 * the one with the most. The first addresses are kept for chunks, so that these do
 * not lie among large blocks. */
struct point page_space_point(const struct stitch *stitch, const struct arena *arena, size_t bytes,
                        bool is_chunk);
/* Bytes of new pages with which growing there serves a block of bytes; SIZE_MAX
 * when there is no room. */
size_t page_space_growth(const struct point *point, const struct arena *arena, size_t bytes);

/* Obtains bytes of new pages for arena where a block of wanted bytes can grow; in
 * several places if there is none. On failure nothing has changed. */
acre_status page_space_grow(acre_cache *cache, struct arena *arena, size_t bytes, size_t wanted,
                            bool is_chunk, struct page_growth *growth);
/* Takes pages that were just obtained, and are free still, out again. */
void page_space_undo(acre_cache *cache, struct stitch *stitch, const struct page_growth *growth);

/* Takes the whole pages [offset, offset + bytes), which lie in a FREE block, out. On
 * failure those before the one that failed are out. */
acre_status page_space_shrink(acre_cache *cache, struct stitch *stitch, struct block *block,
                        size_t offset, size_t bytes);

#endif
