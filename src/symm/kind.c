/* SPDX-License-Identifier: MIT */
/* Kinds of symmetric memory by device type. One per type exists: "shared" memory files for
 * the CPU, "virtual" memory that travels as descriptors for devices. */
#include "symm/kind.h"

#include "base/status.h"

#include <stdatomic.h>
#include <string.h>

static _Atomic bool is_used[ACRE_DEVICE_TYPE_COUNT];

void kind_use(acre_device_type type)
{
    if ((unsigned)type < ACRE_DEVICE_TYPE_COUNT)
        atomic_store_explicit(&is_used[type], true, memory_order_relaxed);
}

/* Whether a device of a type has one of some capabilities. */
static bool type_has(acre_device_type type, int index, uint32_t wanted)
{
    acre_device *device;
    acre_device_info info = {.struct_size = sizeof info};

    return acre_device_count(type) > 0 && acre_device_get(type, index, &device) == ACRE_OK &&
           acre_device_info_get(device, &info) == ACRE_OK && (info.capabilities & wanted);
}

ACRE_API const char *acre_symm_backend(acre_device_type type)
{
    if (type == ACRE_DEVICE_CPU)
        return "shared";
    return type_has(type, 0, ACRE_CAP_SHARE_FD | ACRE_CAP_FABRIC) ? "virtual" : "";
}

ACRE_API acre_status acre_symm_set_backend(acre_device_type type, const char *name)
{
    if (!name)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_set_backend: name is NULL");
    const char *present = acre_symm_backend(type);
    if (*present && strcmp(name, present) == 0)
        return ACRE_OK;
    if (strcmp(name, "shared") != 0 && strcmp(name, "virtual") != 0)
        return status_fail(ACRE_ERR_NOT_FOUND,
                           "acre_symm_set_backend: there is no symmetric "
                           "memory \"%s\"; there are shared and virtual",
                           name);
    if ((unsigned)type < ACRE_DEVICE_TYPE_COUNT &&
        atomic_load_explicit(&is_used[type], memory_order_relaxed))
        return status_fail(ACRE_ERR_STATE, "acre_symm_set_backend: \"%s\" is in use for %s",
                           present, acre_device_type_name(type));
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "acre_symm_set_backend: %s has no symmetric memory "
                       "\"%s\"",
                       acre_device_type_name(type), name);
}

ACRE_API bool acre_symm_has_multicast(acre_device_type type, int index)
{
    kind_use(type);
    if (type == ACRE_DEVICE_CPU)
        return index <= 0;
    return type_has(type, index, ACRE_CAP_SHARE_FD) && type_has(type, index, ACRE_CAP_KERNELS);
}
