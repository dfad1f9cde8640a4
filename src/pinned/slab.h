/* SPDX-License-Identifier: MIT */
/* Small blocks of one size, side by side in a larger one.
 *
 *   body   │ slot │ slot │ slot │ ... │ rest below a page │
 *
 * free_mask has bit i set when slot i is free; the others are blocks that are
 * handed out, at hand, waiting or captured. A slab without free slots is in no list.
 * When all are free, the body becomes free memory again.
 */
#ifndef SRC_PINNED_SLAB_H
#define SRC_PINNED_SLAB_H

#include "pinned/host_block.h"

enum {
    SLAB_SLOTS_MAX = 64,
    SLAB_SLOTS_MIN = 8,
    SLAB_BYTES = 128 << 10, /* about so large, within these bounds */
};

struct pinned_slab {
    struct list link;      /* in host_pool.slabs while a slot is free */
    struct host_block *body;
    char *base;            /* that of the body                        */
    uint32_t slot_bytes;
    uint32_t slot_count;
    uint64_t free_mask;
    struct host_block slots[];  /* slot_count of them */
};

/* How many slots a slab of a size has, and its bytes: whole pages. */
uint32_t slab_count(size_t slot_bytes);
size_t slab_bytes(size_t slot_bytes);

/* A slab without a body; NULL: no host memory. */
struct pinned_slab *slab_create(size_t slot_bytes);
/* Puts it on memory; all slots are free. */
void slab_place(struct pinned_slab *slab, struct host_block *body);

static inline uint64_t slab_full_mask(const struct pinned_slab *slab)
{
    return slab->slot_count == 64 ? UINT64_MAX : ((uint64_t)1 << slab->slot_count) - 1;
}

/* The slot around an address inside the body, or NULL. */
static inline struct host_block *slab_slot(struct pinned_slab *slab, const char *address)
{
    uint32_t index = (uint32_t)(address - slab->base) / slab->slot_bytes;

    return index < slab->slot_count ? &slab->slots[index] : NULL;
}

#endif
