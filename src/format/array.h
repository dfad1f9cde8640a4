/* SPDX-License-Identifier: MIT */
/* Arrays that grow: a pointer, a count and a capacity, side by side in their owner.
 *
 *     acre_status status = ARRAY_ROOM(owner, entries, entry, 1);
 *     owner->entries[owner->entry_count++] = ...;
 *
 * Room grows by half: what large files need at most stays near what they use.
 */
#ifndef SRC_FORMAT_ARRAY_H
#define SRC_FORMAT_ARRAY_H

#include "base/heap.h"

#include <acre/base.h>

/* Makes room for need items in all. Errors: ACRE_ERR_HOST_MEMORY. */
static inline acre_status array_room(void **items, size_t *capacity, size_t need,
                                     size_t item_bytes)
{
    if (need <= *capacity)
        return ACRE_OK;
    size_t wanted = *capacity + *capacity / 2 + 16;
    if (wanted < need)
        wanted = need;
    if (wanted > SIZE_MAX / item_bytes)
        return ACRE_ERR_HOST_MEMORY;
    void *bigger = heap_realloc(*items, wanted * item_bytes);
    if (!bigger)
        return ACRE_ERR_HOST_MEMORY;
    *items = bigger;
    *capacity = wanted;
    return ACRE_OK;
}

/* array_room for owner->items, owner->item_count and owner->item_capacity. */
#define ARRAY_ROOM(owner, items, item, more)                                   \
    ((owner)->item##_count + (more) <= (owner)->item##_capacity                \
         ? ACRE_OK                                                             \
         : array_room((void **)&(owner)->items, &(owner)->item##_capacity,     \
                      (owner)->item##_count + (more), sizeof *(owner)->items))

#endif
