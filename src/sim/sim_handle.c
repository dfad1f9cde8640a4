/* SPDX-License-Identifier: MIT */
/* See sim_handle.h. */
#include "sim/sim_handle.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

#define INDEX_SHIFT  4
#define SERIAL_SHIFT 24
#define INDEX_MASK   (((uintptr_t)1 << (SERIAL_SHIFT - INDEX_SHIFT)) - 1)

/* Serial of the latest handle of any table of the process. */
static _Atomic uint64_t serial_last;

/* Which chunk a slot lies in; *offset is its place there. */
static unsigned chunk_of(uint32_t index, uint32_t *offset)
{
    unsigned chunk = bit_high(index + SLOT_FIRST_CHUNK) - bit_high(SLOT_FIRST_CHUNK);

    *offset = index + SLOT_FIRST_CHUNK - (SLOT_FIRST_CHUNK << chunk);
    return chunk;
}

struct slot *slots_at(struct slots *slots, uint32_t index)
{
    uint32_t offset;
    unsigned chunk = chunk_of(index, &offset);
    char *base = atomic_load_explicit(&slots->chunks[chunk], memory_order_acquire);

    return (struct slot *)(base + (size_t)offset * slots->bytes);
}

/* Adds one chunk of slots. Called with slots->lock held, or before anyone else. */
static acre_status grow_locked(struct slots *slots)
{
    uint32_t made = atomic_load_explicit(&slots->made, memory_order_relaxed), offset;
    unsigned chunk = chunk_of(made, &offset);
    uint32_t count = SLOT_FIRST_CHUNK << chunk;
    char *base;

    if (chunk >= SLOT_CHUNKS)
        return status_fail(ACRE_ERR_LIMIT,
                           "%u live %ss are as many as a reference device has; "
                           "destroy some",
                           made, slots->noun);
    base = heap_array(count, slots->bytes);
    if (!base)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        struct slot *slot = (struct slot *)(base + (size_t)i * slots->bytes);

        lock_init(&slot->lock, slots->rank, slots->noun);
        slot->index = made + i;
        slots->init(slot);
        list_push_back(&slots->free, &slot->link);
    }
    atomic_store_explicit(&slots->chunks[chunk], base, memory_order_release);
    atomic_store_explicit(&slots->made, made + count, memory_order_release);
    return ACRE_OK;
}

acre_status slots_init(struct slots *slots, const char *noun, size_t bytes, enum lock_rank rank,
                       void (*init)(struct slot *))
{
    acre_status status;

    lock_init(&slots->lock, RANK_LEAF, "handles");
    slots->noun = noun;
    slots->bytes = bytes;
    slots->rank = rank;
    slots->init = init;
    list_init(&slots->free);
    status = grow_locked(slots);
    if (status != ACRE_OK)
        lock_fini(&slots->lock);
    return status;
}

void slots_fini(struct slots *slots)
{
    uint32_t made = atomic_load(&slots->made);

    for (uint32_t i = 0; i < made; i++)
        lock_fini(&slots_at(slots, i)->lock);
    for (unsigned c = 0; c < SLOT_CHUNKS; c++)
        heap_free(atomic_load(&slots->chunks[c]));
    lock_fini(&slots->lock);
}

acre_status slots_take(struct slots *slots, struct slot **out)
{
    acre_status status = ACRE_OK;

    lock_take(&slots->lock);
    if (list_empty(&slots->free))
        status = grow_locked(slots);
    if (status == ACRE_OK) {
        *out = CONTAINER_OF(slots->free.next, struct slot, link);
        list_remove(&(*out)->link);
        atomic_fetch_add_explicit(&slots->live, 1, memory_order_relaxed);
    }
    lock_drop(&slots->lock);
    return status;
}

void slots_give(struct slots *slots, struct slot *slot)
{
    CHECK(!atomic_load(&slot->handle));
    lock_take(&slots->lock);
    list_push_back(&slots->free, &slot->link);
    atomic_fetch_sub_explicit(&slots->live, 1, memory_order_relaxed);
    lock_drop(&slots->lock);
}

void *slot_open(struct slot *slot)
{
    uint64_t serial = atomic_fetch_add_explicit(&serial_last, 1, memory_order_relaxed) + 1;
    uintptr_t handle = (uintptr_t)(serial << SERIAL_SHIFT) | (uintptr_t)slot->index << INDEX_SHIFT;

    atomic_store_explicit(&slot->handle, handle, memory_order_release);
    return (void *)handle;
}

struct slot *slots_find(struct slots *slots, const void *handle)
{
    uintptr_t number = (uintptr_t)handle;
    uintptr_t index = number >> INDEX_SHIFT & INDEX_MASK;
    struct slot *slot;

    if (!number || index >= atomic_load_explicit(&slots->made, memory_order_acquire))
        return NULL;
    slot = slots_at(slots, (uint32_t)index);
    return atomic_load_explicit(&slot->handle, memory_order_acquire) == number ? slot : NULL;
}

struct slot *slots_lock(struct slots *slots, const void *handle)
{
    struct slot *slot = slots_find(slots, handle);

    if (!slot)
        return NULL;
    lock_take(&slot->lock);
    if (atomic_load_explicit(&slot->handle, memory_order_relaxed) == (uintptr_t)handle)
        return slot;
    lock_drop(&slot->lock);
    return NULL;
}
