/* SPDX-License-Identifier: MIT */
#include "pinned/slab.h"

#include "base/bits.h"
#include "base/heap.h"
#include "pinned/host_arena.h"

uint32_t slab_count(size_t slot_bytes)
{
    size_t count = SLAB_BYTES / slot_bytes;

    return count > SLAB_SLOTS_MAX   ? SLAB_SLOTS_MAX
           : count < SLAB_SLOTS_MIN ? SLAB_SLOTS_MIN
                                    : (uint32_t)count;
}

size_t slab_bytes(size_t slot_bytes)
{
    return round_up(slab_count(slot_bytes) * slot_bytes, HOST_ARENA_PAGE);
}

struct pinned_slab *slab_create(size_t slot_bytes)
{
    uint32_t count = slab_count(slot_bytes);
    struct pinned_slab *slab = heap_zalloc(sizeof *slab + count * sizeof slab->slots[0]);

    if (!slab)
        return NULL;
    list_init(&slab->link);
    slab->slot_bytes = (uint32_t)slot_bytes;
    slab->slot_count = count;
    slab->free_mask = slab_full_mask(slab);
    return slab;
}

void slab_place(struct pinned_slab *slab, struct host_block *body)
{
    slab->body = body;
    slab->base = body->base;
    body->slab = slab;
    body->state = PIECE_BODY;
    for (uint32_t i = 0; i < slab->slot_count; i++) {
        struct host_block *slot = &slab->slots[i];
        slot->base = body->base + (size_t)i * slab->slot_bytes;
        slot->bytes = slab->slot_bytes;
        slot->slab = slab;
        slot->is_slot = true;
        slot->pool = body->pool;
        slot->extent = body->extent;
        list_init(&slot->link);
    }
}
