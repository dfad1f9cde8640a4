/* SPDX-License-Identifier: MIT */
/* The allocator of caches that a process shares, one per device type. It is made
 * when first asked for, from the environment, and nothing is done before. With
 * backend:cudaMallocAsync there it is one of stream-ordered memory instead.
 *
 *            acre_device_allocator
 *   NULL ───────────────────────────► allocator
 *     ▲                                  │
 *     └──────────────────────────────────┘ acre_allocator_destroy
 */
#include "alloc/async.h"
#include "backend/backend.h"
#include "base/status.h"
#include "cache/allocator/adapter.h"
#include "cache/conf.h"

#include <acre/cache.h>

/* Priority of caches in the registry: above what programs set without one. */
enum { PRIORITY = 1 };

/* Threads that come first at the same time each make one; the first to enter it
 * here wins, and the others destroy theirs, which nobody has seen. */
static _Atomic(acre_allocator *) defaults[ACRE_DEVICE_TYPE_COUNT];

static acre_status defaults_make(acre_device_type type, acre_allocator **out)
{
    acre_allocator *made, *first = NULL;
    acre_status status;

    if (cache_conf_environment_is_async() && acre_async_allocator_create(type, &made) == ACRE_OK) {
        async_set_place(made, &defaults[type]);
    } else {
        status = acre_cache_allocator_create(type, NULL, &made);
        if (status != ACRE_OK)
            return status;
        adapter_set_place(made, &defaults[type]);
    }
    if (atomic_compare_exchange_strong(&defaults[type], &first, made)) {
        *out = made;
    } else {
        acre_allocator_destroy(made);
        *out = first;
    }
    return ACRE_OK;
}

acre_status acre_device_allocator(acre_device_type type, acre_allocator **out)
{
    if (!out || !device_type_is_valid((int)type))
        return status_fail(ACRE_ERR_INVALID, "acre_device_allocator: %s",
                           out ? "there is no such device type" : "out is NULL");
    acre_allocator *allocator = atomic_load_explicit(&defaults[type], memory_order_acquire);
    if (!allocator)
        return defaults_make(type, out);
    *out = allocator;
    return ACRE_OK;
}

acre_status acre_device_allocator_install(acre_device_type type, bool *out_replaced)
{
    acre_allocator *allocator;
    acre_status status = acre_device_allocator(type, &allocator);

    return status == ACRE_OK ? acre_allocator_set(type, allocator, PRIORITY, out_replaced) : status;
}
