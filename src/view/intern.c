/* SPDX-License-Identifier: MIT */
#include "view/intern.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/process/hash.h"
#include "base/status.h"

#include <string.h>

void intern_fini(struct intern *intern)
{
    heap_free(intern->bytes);
    heap_free(intern->offsets);
    heap_free(intern->slots);
    memset(intern, 0, sizeof *intern);
}

const void *intern_get(const struct intern *intern, uint32_t number, size_t *out_length)
{
    CHECK(number < intern->count);
    *out_length = intern->offsets[number + 1] - intern->offsets[number];
    return intern->bytes + intern->offsets[number];
}

/* The slot that holds the string, or the empty one where it belongs. */
static size_t intern_find(const struct intern *intern, const void *bytes, size_t length)
{
    size_t mask = intern->slot_count - 1, slot = (size_t)hash_bytes(bytes, length) & mask, other;

    while (intern->slots[slot]) {
        const void *held = intern_get(intern, intern->slots[slot] - 1, &other);
        if (other == length && memcmp(held, bytes, length) == 0)
            break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

static acre_status grow_slots(struct intern *intern)
{
    size_t count = intern->slot_count ? intern->slot_count * 2 : 256, length;
    struct intern wider = *intern;

    if ((size_t)intern->count * 2 < intern->slot_count)
        return ACRE_OK;
    wider.slots = heap_array(count, sizeof *wider.slots);
    wider.slot_count = count;
    if (!wider.slots)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t i = 0; i < intern->count; i++) {
        const void *bytes = intern_get(intern, i, &length);
        wider.slots[intern_find(&wider, bytes, length)] = i + 1;
    }
    heap_free(intern->slots);
    *intern = wider;
    return ACRE_OK;
}

/* Room for one more string. */
static acre_status intern_grow(struct intern *intern, size_t length)
{
    size_t used = intern->count ? intern->offsets[intern->count] : 0;
    acre_status status = grow_slots(intern);

    if (status != ACRE_OK)
        return status;
    if (used + length > intern->bytes_capacity || !intern->bytes) {
        size_t capacity = (used + length) * 2 + 4096;
        unsigned char *bytes = heap_realloc(intern->bytes, capacity);
        if (!bytes)
            return ACRE_ERR_HOST_MEMORY;
        intern->bytes = bytes;
        intern->bytes_capacity = capacity;
    }
    if ((size_t)intern->count + 2 > intern->offsets_capacity) {
        size_t capacity = intern->offsets_capacity ? intern->offsets_capacity * 2 : 256;
        size_t *offsets = heap_realloc(intern->offsets, capacity * sizeof *offsets);
        if (!offsets)
            return ACRE_ERR_HOST_MEMORY;
        offsets[0] = 0;
        intern->offsets = offsets;
        intern->offsets_capacity = capacity;
    }
    return ACRE_OK;
}

acre_status intern_put(struct intern *intern, const void *bytes, size_t length, uint32_t *out)
{
    acre_status status = intern_grow(intern, length);

    if (status != ACRE_OK)
        return status;
    size_t slot = intern_find(intern, bytes, length);
    if (!intern->slots[slot]) {
        size_t used = intern->count ? intern->offsets[intern->count] : 0;
        if (intern->count >= UINT32_MAX - 2)
            return status_fail(ACRE_ERR_LIMIT, "a view holds at most 2^32 different stacks");
        if (length)
            memcpy(intern->bytes + used, bytes, length);
        intern->offsets[intern->count + 1] = used + length;
        intern->slots[slot] = ++intern->count;
    }
    *out = intern->slots[slot] - 1;
    return ACRE_OK;
}
