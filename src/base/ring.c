/* SPDX-License-Identifier: MIT */
#include "base/ring.h"

#include "base/check.h"
#include "base/heap.h"

#include <string.h>

static char *ring_slot(const struct ring *ring, size_t i)
{
    size_t at = ring->oldest + i;

    if (at >= ring->capacity)
        at -= ring->capacity;
    return ring->slots + at * ring->item_bytes;
}

acre_status ring_init(struct ring *ring, size_t item_bytes, size_t capacity, ring_drop_fn drop,
                      void *drop_arg)
{
    CHECK(item_bytes > 0);
    if (capacity == 0)
        capacity = 1;
    char *slots = heap_array(capacity, item_bytes);
    if (!slots)
        return ACRE_ERR_HOST_MEMORY;
    *ring = (struct ring){.slots = slots,
                          .item_bytes = item_bytes,
                          .capacity = capacity,
                          .drop = drop,
                          .drop_arg = drop_arg};
    return ACRE_OK;
}

/* Drops the oldest items until only count are left. */
static void drop_to(struct ring *ring, size_t count)
{
    while (ring->count > count) {
        if (ring->drop)
            ring->drop(ring->drop_arg, ring_slot(ring, 0));
        ring->oldest = ring->oldest + 1 == ring->capacity ? 0 : ring->oldest + 1;
        ring->count--;
    }
}

void ring_fini(struct ring *ring)
{
    drop_to(ring, 0);
    heap_free(ring->slots);
    *ring = (struct ring){0};
}

bool ring_append(struct ring *ring, const void *item)
{
    bool is_full = ring->count == ring->capacity;

    if (is_full)
        drop_to(ring, ring->capacity - 1);
    memcpy(ring_slot(ring, ring->count), item, ring->item_bytes);
    ring->count++;
    return is_full;
}

void *ring_at(const struct ring *ring, size_t i)
{
    CHECK(i < ring->count);
    return ring_slot(ring, i);
}

void ring_clear(struct ring *ring)
{
    drop_to(ring, 0);
    ring->oldest = 0;
}

acre_status ring_resize(struct ring *ring, size_t capacity)
{
    if (capacity == 0)
        capacity = 1;
    char *slots = heap_array(capacity, ring->item_bytes);
    if (!slots)
        return ACRE_ERR_HOST_MEMORY;

    drop_to(ring, capacity);
    for (size_t i = 0; i < ring->count; i++)
        memcpy(slots + i * ring->item_bytes, ring_slot(ring, i), ring->item_bytes);
    heap_free(ring->slots);
    ring->slots = slots;
    ring->capacity = capacity;
    ring->oldest = 0;
    return ACRE_OK;
}
