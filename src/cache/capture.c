/* SPDX-License-Identifier: MIT */
/* Captures as a cache sees them. */
#include "backend/backend.h"
#include "cache/cache.h"

acre_status capture_has_locked(acre_cache *cache, uint64_t capture_id, void *stream,
                               bool *out_has)
{
    struct acre_device *device = cache->device;
    acre_capture_info info;

    *out_has = false;
    if (!device_has(device, ACRE_CAP_CAPTURE))
        return ACRE_OK;
    acre_status status = device->ops->capture_info(device->self, device->index, stream, &info);
    if (status == ACRE_OK)
        *out_has = info.status == ACRE_CAPTURE_ACTIVE && info.id == capture_id;
    return status;
}
