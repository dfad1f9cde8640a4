/* SPDX-License-Identifier: MIT */
/* Multicast: entries of the table; self is a struct driver. */
#ifndef SRC_DRIVER_MULTICAST_H
#define SRC_DRIVER_MULTICAST_H

#include "base/list.h"
#include "driver/driver.h"

/* What the table calls a multicast handle is the address of one. */
struct multicast {
    struct object object;
    driver_handle native;
    size_t bytes;
    uint64_t members[2];    /* bit per device                               */
    struct list bindings;   /* of struct binding, under the lock of the books */
};

struct binding {
    struct list link;
    int device;
    size_t offset, bytes;
    char *memory;
};

acre_status drv_multicast_create(void *self, const int *devices, int device_count, size_t bytes,
                                 void **out_handle);
acre_status drv_multicast_bind(void *self, void *handle, int device, size_t offset, void *memory,
                               size_t bytes);
acre_status drv_multicast_unbind(void *self, void *handle, int device, size_t offset, size_t bytes);
/* Copies to each member in turn: a driver writes through a multicast address from
 * kernels only. */
acre_status drv_multicast_write(void *self, int device, void *handle, size_t offset,
                                const void *src, size_t bytes, void *stream);
acre_status drv_multicast_release(void *self, void *handle);

#endif
