/* SPDX-License-Identifier: MIT */
#include "cache/segment.h"

#include "base/check.h"
#include "cache/block.h"
#include "cache/torch/expand.h"

void segment_init(struct segment *segment, struct block *block, struct pool *pool, void *stream,
                  void *base, size_t bytes)
{
    CHECK(bytes && bytes % BLOCK_UNIT == 0);
    *segment = (struct segment){
        .base = base, .bytes = bytes, .first = block, .pool = pool, .stream = stream};
    list_init(&segment->link);
    block->base = base;
    block->bytes = bytes;
    block->stream = stream;
    block->segment = segment;
    block->pool = pool;
    block->is_expandable = false;
}

bool segment_check(const struct segment *segment, const char **fact)
{
    size_t sum = 0, mapped = 0;

    if (!segment->first || segment->first->prev) {
        *fact = "segment: the first block has nothing before it";
        return false;
    }
    for (const struct block *block = segment->first; block; block = block->next) {
        if (block->segment != segment) {
            *fact = "segment: every block knows its segment";
            return false;
        }
        if (!block_check(block, fact))
            return false;
        sum += block->bytes;
        mapped += block->state == BLOCK_UNMAPPED ? 0 : block->bytes;
    }
    if (sum != segment->bytes) {
        *fact = "segment: its blocks add up to its size";
        return false;
    }
    if (!segment->expand)
        return true;
    /* More pages than that are only there when taking them out failed. */
    if (mapped > segment->expand->mapped_bytes + expand_out_bytes(segment->expand)) {
        *fact = "segment: what is not unmapped has pages, or sleeps";
        return false;
    }
    return expand_check(segment->expand, fact);
}
