/* SPDX-License-Identifier: MIT */
/* Plug-ins as allocators: what goes to a hook where there is one, and is answered
 * from Acre's books or refused where there is none; and who serves a type. */
#include "alloc/cxx_filter.h"
#include "alloc/pluggable.h"
#include "base/status.h"

enum { PRIORITY = 2 }; /* in the registry: above caches */

acre_status acre_pluggable_base(acre_allocator *allocator, void *pointer, void **out_base,
                                size_t *out_bytes)
{
    struct plug *plug = plug_of(allocator);

    if (!plug)
        return ACRE_ERR_INVALID;
    if (!out_base || !out_bytes)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_base: an out parameter is NULL");
    lock_take(&plug->lock);
    void *(*hook)(void *, size_t *) = plug->hooks.base_alloc;
    struct plug_record *record = plug_table_around(&plug->table, pointer);
    void *base = record ? (void *)record->base : NULL;
    size_t bytes = record ? record->bytes : 0;
    lock_drop(&plug->lock);
    if (!record)
        return status_fail(ACRE_ERR_INVALID,
                           "invalid device pointer: nothing of this plug-in is "
                           "live at %p",
                           pointer);
    *out_bytes = bytes;
    *out_base = hook ? hook(pointer, out_bytes) : base;
    return ACRE_OK;
}

/* ---- Memory fraction ---------------------------------------------------------------- */

acre_status acre_pluggable_memory_fraction_set(acre_allocator *allocator, int device,
                                               double fraction)
{
    struct plug *plug = plug_of(allocator);
    uint64_t free_bytes, total = UINT64_MAX;
    acre_device *at;

    if (!plug)
        return ACRE_ERR_INVALID;
    acre_status status = plug_check_device(plug, device);
    if (status != ACRE_OK)
        return status;
    if (!(fraction >= 0 && fraction <= 1))
        return status_fail(ACRE_ERR_RANGE, "a memory fraction of %g is not in [0, 1]", fraction);
    acre_pluggable_hooks hooks = plug_hooks(plug);
    if (!hooks.memory_fraction && fraction < 1) {
        status = acre_device_get(plug->type, device, &at);
        if (status == ACRE_OK)
            status = acre_device_memory(at, &free_bytes, &total);
        if (status != ACRE_OK)
            return status;
        total = (uint64_t)(fraction * (double)total);
    }
    lock_take(&plug->lock);
    plug->table.accounts[device].fraction = fraction;
    plug->table.accounts[device].limit = total;
    lock_drop(&plug->lock);
    if (hooks.memory_fraction)
        hooks.memory_fraction(fraction, device);
    return ACRE_OK;
}

acre_status acre_pluggable_memory_fraction_get(acre_allocator *allocator, int device,
                                               double *out_fraction)
{
    struct plug *plug = plug_of(allocator);

    if (!plug)
        return ACRE_ERR_INVALID;
    if (!out_fraction)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_memory_fraction_get: out is NULL");
    acre_status status = plug_check_device(plug, device);
    if (status != ACRE_OK)
        return status;
    lock_take(&plug->lock);
    *out_fraction = plug->table.accounts[device].fraction;
    lock_drop(&plug->lock);
    return ACRE_OK;
}

/* ---- Pools of the plug-in ----------------------------------------------------------- */

static acre_status no_hook(const char *name)
{
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "this plug-in has no hook %s; a cache on top of it "
                       "(acre_pluggable_cache) has pools of its own",
                       name);
}

/* A filter in C as C++ sees it: target[0] the function, target[1] its argument. */
static bool filter_manage(void *to, const void *from, int wish)
{
    if (wish == CXX_FILTER_TYPE)
        memset(to, 0, sizeof(void *));
    else if (wish == CXX_FILTER_TARGET)
        memcpy(to, &from, sizeof from);
    else if (wish == CXX_FILTER_CLONE)
        memcpy(to, from, 2 * sizeof(void *));
    return false;
}

static bool filter_invoke(const void *target, void **stream)
{
    acre_pool_filter_fn fn;
    void *const *words = target;

    memcpy(&fn, target, sizeof fn);
    return !fn || fn(words[1], *stream);
}

/* The hooks of a plug-in that serves a device. */
static acre_status hooks_for(acre_allocator *allocator, int device, acre_pluggable_hooks *out)
{
    struct plug *plug = plug_of(allocator);
    acre_status status = plug ? plug_check_device(plug, device) : ACRE_ERR_INVALID;

    if (status == ACRE_OK)
        *out = plug_hooks(plug);
    return status;
}

acre_status acre_pluggable_pool_begin(acre_allocator *allocator, int device, acre_pool_id id,
                                      acre_pool_filter_fn filter, void *arg)
{
    struct cxx_filter seen = {{NULL, arg}, filter_manage, filter_invoke};
    acre_pluggable_hooks hooks;
    acre_status status = hooks_for(allocator, device, &hooks);

    if (status != ACRE_OK)
        return status;
    if (!hooks.begin_allocate_to_pool)
        return no_hook("begin_allocate_to_pool");
    memcpy(&seen.target[0], &filter, sizeof filter);
    hooks.begin_allocate_to_pool(device, id, &seen);
    return ACRE_OK;
}

acre_status acre_pluggable_pool_end(acre_allocator *allocator, int device, acre_pool_id id)
{
    acre_pluggable_hooks hooks;
    acre_status status = hooks_for(allocator, device, &hooks);

    if (status != ACRE_OK)
        return status;
    if (!hooks.end_allocate_to_pool)
        return no_hook("end_allocate_to_pool");
    hooks.end_allocate_to_pool(device, id);
    return ACRE_OK;
}

acre_status acre_pluggable_pool_release(acre_allocator *allocator, int device, acre_pool_id id)
{
    acre_pluggable_hooks hooks;
    acre_status status = hooks_for(allocator, device, &hooks);

    if (status != ACRE_OK)
        return status;
    if (!hooks.release_pool)
        return no_hook("release_pool");
    hooks.release_pool(device, id);
    return ACRE_OK;
}

/* ---- Who serves --------------------------------------------------------------------- */

acre_status acre_pluggable_make_current(acre_allocator *allocator)
{
    struct plug *plug = plug_of(allocator);
    bool has_replaced = false;

    if (!plug)
        return ACRE_ERR_INVALID;
    acre_allocator *current = acre_allocator_get(plug->type);
    if (!current || !acre_allocator_is_initialized(current)) {
        acre_status status = acre_allocator_set(plug->type, allocator, PRIORITY, &has_replaced);
        if (status != ACRE_OK || has_replaced)
            return status;
    }
    return status_fail(ACRE_ERR_STATE,
                       "Can't swap an already initialized allocator: \"%s\" serves "
                       "%s; swap once, before anything is allocated",
                       current ? acre_allocator_name(current) : "another one",
                       acre_device_type_name(plug->type));
}
