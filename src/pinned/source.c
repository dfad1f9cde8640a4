/* SPDX-License-Identifier: MIT */
#include "pinned/source.h"

#include "backend/backend.h"
#include "base/bits.h"
#include "base/heap.h"
#include "pinned/host_arena.h"
#include "host/numa.h"
#include "pinned/touch.h"

static acre_status get_registered(struct acre_device *device, const struct source_wish *wish,
                                  size_t bytes, void **out)
{
    size_t whole = round_up(bytes, HOST_ARENA_PAGE);
    void *base = whole ? heap_map(whole) : NULL;

    if (!base)
        return ACRE_ERR_HOST_MEMORY;
    numa_bind(base, whole, wish->node);
    touch_pages(base, whole, wish->threads);
    acre_status status = device->ops->host_register(device->self, base, bytes);
    if (status != ACRE_OK)
        heap_unmap(base, whole);
    else
        *out = base;
    return status;
}

acre_status source_get(struct acre_device *device, const struct source_wish *wish, size_t bytes,
                       void **out)
{
    struct numa_policy before;

    if (wish->method == SOURCE_REGISTER)
        return get_registered(device, wish, bytes, out);
    numa_enter(&before, wish->node);
    acre_status status = device->ops->host_alloc(device->self, bytes, out);
    numa_leave(&before);
    return status;
}

acre_status source_put(struct acre_device *device, enum source_method method, void *base,
                       size_t bytes)
{
    acre_status status = ACRE_OK;

    if (method == SOURCE_ALLOC)
        return device->ops->host_free(device->self, base);
    if (method == SOURCE_REGISTER) {
        status = device->ops->host_unregister(device->self, base);
        if (status == ACRE_OK)
            heap_unmap(base, round_up(bytes, HOST_ARENA_PAGE));
    }
    return status;
}
