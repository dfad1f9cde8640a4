/* SPDX-License-Identifier: MIT */
#include "cache/observer.h"

#include "base/heap.h"

#include <string.h>

static struct observers *list_create(size_t count)
{
    struct observers *list = heap_alloc(sizeof *list + count * sizeof list->items[0]);

    if (!list)
        return NULL;
    atomic_init(&list->reference_count, 1);
    list->count = count;
    return list;
}

acre_status observers_add(struct observers **list, void (*fn)(void), void *arg)
{
    size_t count = *list ? (*list)->count : 0;
    struct observers *grown = list_create(count + 1);

    if (!grown)
        return ACRE_ERR_HOST_MEMORY;
    if (count)
        memcpy(grown->items, (*list)->items, count * sizeof grown->items[0]);
    grown->items[count] = (struct observer){fn, arg};
    observers_drop(*list);
    *list = grown;
    return ACRE_OK;
}

acre_status observers_remove(struct observers **list, void (*fn)(void), void *arg)
{
    size_t count = *list ? (*list)->count : 0, at = 0;

    while (at < count && ((*list)->items[at].fn != fn || (*list)->items[at].arg != arg))
        at++;
    if (at == count)
        return ACRE_OK;
    struct observers *rest = NULL;
    if (count > 1) {
        rest = list_create(count - 1);
        if (!rest)
            return ACRE_ERR_HOST_MEMORY;
        memcpy(rest->items, (*list)->items, at * sizeof rest->items[0]);
        memcpy(rest->items + at, (*list)->items + at + 1, (count - 1 - at) * sizeof rest->items[0]);
    }
    observers_drop(*list);
    *list = rest;
    return ACRE_OK;
}

struct observers *observers_hold(struct observers *list)
{
    if (list)
        atomic_fetch_add_explicit(&list->reference_count, 1, memory_order_relaxed);
    return list;
}

void observers_drop(struct observers *list)
{
    if (list && atomic_fetch_sub_explicit(&list->reference_count, 1, memory_order_acq_rel) == 1)
        heap_free(list);
}
