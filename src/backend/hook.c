/* SPDX-License-Identifier: MIT */
/* What a framework asks of a device type, in the manner frameworks ask: many
 * answers are plain truth values, and bad indices are passed over. */
#include "backend/backend.h"

#include "backend/device.h"
#include "base/status.h"

bool acre_hook_is_built(acre_device_type type)
{
    return backend_is_known(type);
}

bool acre_hook_is_available(acre_device_type type)
{
    return backend_is_known(type) && acre_device_count(type) > 0;
}

bool acre_hook_has_primary_context(acre_device_type type, int index)
{
    acre_device *device;

    return index >= 0 && acre_device_get(type, index, &device) == ACRE_OK;
}

acre_status acre_hook_maybe_exchange_device(acre_device_type type, int index, int *out_previous)
{
    return acre_device_exchange(type, index, out_previous);
}

bool acre_hook_is_pinned(acre_device_type type, const void *pointer)
{
    acre_device *device;

    return pointer && acre_device_get(type, 0, &device) == ACRE_OK &&
           acre_host_is_pinned(device, pointer);
}

acre_status acre_hook_device_of_pointer(acre_device_type type, const void *pointer,
                                        acre_device_id *out)
{
    acre_pointer_info info = {.struct_size = sizeof info};
    acre_device *device;
    acre_status status;

    NEED(out);
    status = acre_device_get(type, 0, &device);
    if (status == ACRE_OK)
        status = acre_pointer_info_get(device, pointer, &info);
    if (status != ACRE_OK)
        return status;
    if (info.kind != ACRE_MEMORY_DEVICE)
        return status_fail(ACRE_ERR_INVALID, "%p is %s, not memory of a device of type %s", pointer,
                           info.kind == ACRE_MEMORY_HOST ? "page-locked host memory" : "unknown",
                           acre_device_type_name(type));
    out->type = type;
    out->index = info.device;
    return ACRE_OK;
}
