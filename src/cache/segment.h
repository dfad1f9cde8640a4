/* SPDX-License-Identifier: MIT */
/* A segment: a contiguous range obtained from the device, tiled by blocks.
 *
 * It belongs to one pool and was obtained for one stream. An expandable segment
 * is a range of addresses of which only parts have pages (expand.h); the rest of
 * it is UNMAPPED blocks. Segments of a cache are linked in the order they were
 * made. Not thread-safe: the owner's lock.
 */
#ifndef SRC_CACHE_SEGMENT_H
#define SRC_CACHE_SEGMENT_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct acre_device;
struct block;
struct expand;
struct range;
struct pool;

struct segment {
    struct list link;     /* in the cache's list of segments                   */
    char *base;           /* first byte, as the device gave it                 */
    size_t bytes;         /* extent                                            */
    struct block *first;  /* block at base; the others follow through next     */
    struct pool *pool;    /* where its free blocks are                         */
    void *stream;         /* native stream it was obtained for                 */
    struct expand *expand; /* its addresses and pages; NULL: a plain segment   */
    struct range *range;   /* of one stitched block (range.h); else NULL       */
    struct block *host;    /* LENT block that it lies in (stitch.h); else NULL */
    uint64_t order;       /* grows with every new segment, never reused        */
    uint32_t stack;       /* that obtained it (history.h); 0: not known        */
    bool is_oversize;     /* counted in oversize_segments                      */
};

/* Whether it is one allocation of the device, or of a pool's source. */
static inline bool segment_is_plain(const struct segment *segment)
{
    return !segment->expand && !segment->range && !segment->host;
}

/* Sets up a segment of one block that covers it; both objects are given. */
void segment_init(struct segment *segment, struct block *block, struct pool *pool, void *stream,
                  void *base, size_t bytes);

/* Walks the blocks and tells whether they tile the segment and each is sound. */
bool segment_check(const struct segment *segment, const char **fact);

#endif
