/* SPDX-License-Identifier: MIT */
/* Checks that open every public call on a device. */
#ifndef SRC_BACKEND_DEVICE_H
#define SRC_BACKEND_DEVICE_H

#include "backend/backend.h"
#include "base/check.h"

/* The device is there, usable in this process, and has the group.
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_FORKED, ACRE_ERR_UNSUPPORTED. */
acre_status device_check(const acre_device *device, uint32_t capability, const char *call);

/* Records that a parameter of a public call is NULL: ACRE_ERR_INVALID. */
acre_status device_null(const char *call, const char *parameter);

/* Opens a public call with a parameter "device": usable, and group there. */
#define ENTER(capability)                                                      \
    do {                                                                       \
        acre_status entered = device_check(device, capability, __func__);      \
        if (UNLIKELY(entered != ACRE_OK))                                      \
            return entered;                                                    \
    } while (0)

/* Refuses a parameter that is NULL. */
#define NEED(parameter)                                                        \
    do {                                                                       \
        if (UNLIKELY(!(parameter)))                                            \
            return device_null(__func__, #parameter);                          \
    } while (0)

/* See acre_backend_ops.export_fabric and import_fabric. */
acre_status handle_export_fabric(acre_device *device, void *handle, uint8_t out_fabric[64]);
acre_status handle_import_fabric(acre_device *device, const uint8_t fabric[64], size_t bytes,
                                 void **out_handle);

/* The first two arguments of most entries. */
#define SELF device->self, device->index

#endif
