/* SPDX-License-Identifier: MIT */
/* A registered backend and its devices, as the rest of the library sees them.
 *
 * Every entry of ops is callable: gaps were filled with functions that answer
 * ACRE_ERR_UNSUPPORTED. Whether a group is really there is in info.capabilities.
 * Devices live inside their backend and never move.
 */
#ifndef SRC_BACKEND_BACKEND_H
#define SRC_BACKEND_BACKEND_H

#include <acre/backend.h>
#include <acre/device.h>

struct acre_device {
    const acre_backend_ops *ops; /* complete: no entry is NULL                  */
    void *self;                  /* first argument of every entry               */
    int index;                   /* device argument of every entry              */
    acre_device_type type;       /* as shown outside; follows a masquerade      */
    acre_backend *backend;
    acre_device_info info;       /* constant after registration                 */
};

static inline int device_has(const struct acre_device *device, uint32_t capability)
{
    return (device->info.capabilities & capability) == capability;
}

#endif
