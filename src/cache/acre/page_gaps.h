/* SPDX-License-Identifier: MIT */
/* What is free at the edges of pages: the input of stitching.
 *
 *   │▒▒▒▒▒     ▒▒▒    │               one page in the page space, ▒ is in use
 *    prefix 0    suffix
 *
 * A page whose prefix is the whole page is free. A stitched block begins in the
 * suffix of one page, goes on through free pages and ends in the prefix of
 * another, so only these two figures of a page matter.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_EDGES_H
#define SRC_CACHE_EDGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct block;
struct expand;

struct edge {
    size_t prefix, suffix; /* free bytes from the start, and up to the end          */
    struct block *near;    /* a block of the page space that was at one of them, if any   */
};

struct page_gaps {
    struct edge *pages; /* count of them                                          */
    size_t count, capacity;
    uint64_t *entered;         /* a bit for each page of which something is free         */
    size_t page_bytes;         /* a power of two                                         */
    size_t full_count;         /* pages that are free                                    */
    uint64_t free_bytes;       /* in all blocks looked at                                */
    const struct arena *arena; /* that was looked at; NULL: none yet               */
    uint64_t arena_changes, page_changes; /* when it was: see page_gaps_scan         */
};

/* Looks at the free blocks of one arena that lie in page_space, unless nothing has changed there
 * since it last did: a job that runs out of memory asks several times for each request. False:
 * no host memory. */
bool page_gaps_scan(struct page_gaps *page_gaps, const struct expand *page_space,
                    const struct arena *arena);
void page_gaps_fini(struct page_gaps *page_gaps);

/* Whether a page of the page space is wholly free. */
static inline bool page_gaps_is_full(const struct page_gaps *page_gaps, size_t page)
{
    return page < page_gaps->count && page_gaps->pages[page].prefix == page_gaps->page_bytes;
}

/* Pages that make up one block: the suffix of one, whole ones, the prefix of one. */
struct page_choice {
    size_t first; /* page whose suffix is used, or PAGE_GAPS_NONE  */
    size_t last;  /* page whose prefix is used, or PAGE_GAPS_NONE  */
    size_t whole; /* how many whole pages lie between          */
};
#define PAGE_GAPS_NONE SIZE_MAX

/* The choice for a block of bytes with the fewest whole pages, and of these the
 * one that leaves the least of its edges; with plenty, whole pages only. whole
 * may be more than there are: the difference is missing then. */
struct page_choice page_gaps_choose(const struct page_gaps *page_gaps, size_t bytes, size_t plenty);

#endif
