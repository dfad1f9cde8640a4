/* SPDX-License-Identifier: MIT */
/* A cache on top of a plug-in: all allocations go to one private pool, whose
 * segments come from the plug-in's allocator. */
#include "alloc/pluggable.h"
#include "base/status.h"

enum { SEGMENT_ALIGNMENT = 512 }; /* of blocks, thus of segments */

acre_status acre_pluggable_cache(acre_allocator *allocator, int device,
                                 const acre_cache_config *config, acre_cache **out,
                                 acre_pool_id *out_pool)
{
    const acre_pool_filter all = {.kind = ACRE_POOL_ANY};
    acre_pool_config pool = {
        .struct_size = sizeof pool, .flags = ACRE_POOL_GIVES_BACK, .allocator = allocator};
    acre_pool_id id = acre_pool_id_next();
    struct plug *plug = plug_of(allocator);
    struct status_saved saved;
    acre_device *at;
    acre_cache *cache;

    if (!plug)
        return ACRE_ERR_INVALID;
    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_cache: out is NULL");
    acre_status status = plug_check_device(plug, device);
    if (status == ACRE_OK)
        status = acre_device_get(plug->type, device, &at);
    if (status == ACRE_OK)
        status = acre_cache_create(at, config, &cache);
    if (status != ACRE_OK)
        return status;
    status = acre_pool_create(cache, id, &pool);
    if (status == ACRE_OK)
        status = acre_pool_begin(cache, id, &all);
    if (status != ACRE_OK) {
        status_save(&saved);
        acre_cache_destroy(cache);
        status_restore(&saved);
        return status;
    }
    lock_take(&plug->lock);
    if (plug->alignment < SEGMENT_ALIGNMENT)
        plug->alignment = SEGMENT_ALIGNMENT;
    lock_drop(&plug->lock);
    *out = cache;
    if (out_pool)
        *out_pool = id;
    return ACRE_OK;
}
