/* SPDX-License-Identifier: MIT */
#include "cache/observe/stacks.h"

#include "base/heap.h"

#include <string.h>

enum { STACKS_FIRST = 64 }; /* what arrays begin with */

void stacks_fini(struct stacks *stacks)
{
    stacks_objects_change(stacks, NULL);
    heap_free(stacks->slots);
    heap_free(stacks->items);
    heap_free(stacks->words);
    *stacks = (struct stacks){0};
}

uint32_t stacks_count(const struct stacks *stacks)
{
    return stacks->count ? stacks->count : 1;
}

const uint64_t *stacks_frames(const struct stacks *stacks, uint32_t number, size_t *out_count)
{
    *out_count = 0;
    if (number == 0 || number >= stacks->count)
        return NULL;
    *out_count = stacks->items[number].count;
    return stacks->words + stacks->items[number].first;
}

static uint64_t hash_of(const uint64_t *frames, size_t count)
{
    uint64_t hash = count;

    for (size_t i = 0; i < count; i++) {
        hash ^= frames[i];
        hash *= UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool is_item(const struct stacks *stacks, uint32_t number, uint64_t hash,
                    const uint64_t *frames, size_t count)
{
    const struct stacks_item *item = &stacks->items[number];

    return item->hash == hash && item->count == count &&
           memcmp(stacks->words + item->first, frames, count * sizeof *frames) == 0;
}

/* The slot that holds the stack, or the empty one where it belongs. */
static size_t slot_of(const struct stacks *stacks, uint64_t hash, const uint64_t *frames,
                      size_t count)
{
    size_t slot = hash & (stacks->slot_count - 1);

    while (stacks->slots[slot] && !is_item(stacks, stacks->slots[slot], hash, frames, count))
        slot = (slot + 1) & (stacks->slot_count - 1);
    return slot;
}

/* The array with room for the needed elements, moved if need be; NULL: no memory, and
 * it stays as it was. */
static void *stacks_grow(void *array, size_t *capacity, size_t needed, size_t bytes)
{
    size_t wanted = *capacity ? *capacity : STACKS_FIRST;

    if (needed <= *capacity)
        return array;
    while (wanted < needed)
        wanted *= 2;
    void *larger = heap_realloc(array, wanted * bytes);
    if (larger)
        *capacity = wanted;
    return larger;
}

static bool grow_arrays(struct stacks *stacks, size_t items, size_t words)
{
    struct stacks_item *more =
        stacks_grow(stacks->items, &stacks->item_capacity, items, sizeof *more);

    if (!more)
        return false;
    stacks->items = more;
    uint64_t *longer = stacks_grow(stacks->words, &stacks->word_capacity, words, sizeof *longer);
    if (!longer)
        return false;
    stacks->words = longer;
    return true;
}

static bool grow_slots(struct stacks *stacks)
{
    size_t wanted = stacks->slot_count ? stacks->slot_count * 2 : (size_t)2 * STACKS_FIRST;

    if ((size_t)stacks->count * 2 < stacks->slot_count)
        return true;
    uint32_t *slots = heap_array(wanted, sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t number = 1; number < stacks->count; number++) {
        if (stacks->items[number].is_object)
            continue;
        size_t slot = stacks->items[number].hash & (wanted - 1);
        while (slots[slot])
            slot = (slot + 1) & (wanted - 1);
        slots[slot] = number;
    }
    heap_free(stacks->slots);
    stacks->slots = slots;
    stacks->slot_count = wanted;
    return true;
}

uint32_t stacks_intern(struct stacks *stacks, const uint64_t *frames, size_t count)
{
    uint64_t hash = hash_of(frames, count);

    if (!count || !grow_slots(stacks))
        return 0;
    size_t slot = slot_of(stacks, hash, frames, count);
    if (stacks->slots[slot])
        return stacks->slots[slot];
    uint32_t number = stacks_count(stacks);
    if (number >= STACKS_MAX ||
        !grow_arrays(stacks, (size_t)number + 1, stacks->word_count + count))
        return 0;
    memcpy(stacks->words + stacks->word_count, frames, count * sizeof *frames);
    stacks->items[number] =
        (struct stacks_item){.hash = hash, .first = stacks->word_count, .count = count};
    stacks->word_count += count;
    stacks->count = number + 1;
    stacks->slots[slot] = number;
    return number;
}

/* ---- Objects ----------------------------------------------------------------- */

/* The item of an object, or NULL when the number is one of frames. */
static struct stacks_item *object_item(const struct stacks *stacks, uint32_t number)
{
    if (number == 0 || number >= stacks->count || !stacks->items[number].is_object)
        return NULL;
    return &stacks->items[number];
}

uint32_t stacks_object_add(struct stacks *stacks, void *object)
{
    uint32_t number = stacks->vacant;

    if (number) {
        stacks->vacant = (uint32_t)stacks->items[number].first;
    } else {
        number = stacks_count(stacks);
        if (number >= STACKS_MAX ||
            !grow_arrays(stacks, (size_t)number + 1, stacks->word_count + 1))
            return 0;
        stacks->count = number + 1;
    }
    stacks->objects.retain(stacks->objects.arg, object);
    stacks->items[number] = (struct stacks_item){.object = object, .uses = 1, .is_object = true};
    return number;
}

void *stacks_object(const struct stacks *stacks, uint32_t number)
{
    const struct stacks_item *item = object_item(stacks, number);

    return item ? item->object : NULL;
}

void stacks_use(struct stacks *stacks, uint32_t number)
{
    struct stacks_item *item = object_item(stacks, number);

    if (item)
        item->uses++;
}

void stacks_drop(struct stacks *stacks, uint32_t number)
{
    struct stacks_item *item = object_item(stacks, number);

    if (!item || --item->uses > 0)
        return;
    if (item->object)
        stacks->objects.release(stacks->objects.arg, item->object);
    *item = (struct stacks_item){.first = stacks->vacant, .is_object = true};
    stacks->vacant = number;
}

void stacks_objects_change(struct stacks *stacks, const acre_context_objects *objects)
{
    for (uint32_t number = 1; number < stacks->count; number++) {
        void *object = stacks_object(stacks, number);
        if (object)
            stacks->objects.release(stacks->objects.arg, object);
        stacks->items[number].object = NULL;
    }
    stacks->objects = objects ? *objects : (acre_context_objects){0};
}
