/* SPDX-License-Identifier: MIT */
/* Virtual memory and its sharing: entries of the table; self is a struct driver. */
#ifndef SRC_DRIVER_VIRTUAL_H
#define SRC_DRIVER_VIRTUAL_H

#include "driver/driver.h"

/* Physical memory. What the table calls a handle is the address of one. */
struct physical {
    struct object object;
    driver_handle native;
    size_t bytes;           /* 0: imported, and the driver does not tell */
    int device;
    driver_handle_type type;
};

/* The granularity of virtual memory of a device. */
acre_status drv_virtual_page_bytes(struct driver *driver, int device, uint64_t *out);

acre_status drv_virtual_reserve(void *self, int device, size_t bytes, void **out_base);
acre_status drv_virtual_unreserve(void *self, int device, void *base, size_t bytes);
acre_status drv_virtual_create(void *self, int device, size_t bytes, acre_handle_type type,
                               void **out_handle);
acre_status drv_virtual_release(void *self, int device, void *handle);
acre_status drv_virtual_map(void *self, int device, void *base, size_t bytes, size_t offset,
                            void *handle);
acre_status drv_virtual_unmap(void *self, int device, void *base, size_t bytes);
acre_status drv_virtual_set_access(void *self, int device, void *base, size_t bytes, int accessor,
                                   acre_access access);

acre_status drv_virtual_export_fd(void *self, int device, void *handle, int *out_fd);
/* The size is taken from the descriptor; where that has none, 0 is given and the
 * first map tells it. */
acre_status drv_virtual_import_fd(void *self, int device, int fd, void **out_handle,
                                  uint64_t *out_bytes);

/* A handle made as ACRE_HANDLE_FABRIC, as 64 bytes and back. */
acre_status drv_virtual_export_fabric(void *self, int device, void *handle,
                                      uint8_t out_fabric[64]);
acre_status drv_virtual_import_fabric(void *self, int device, const uint8_t fabric[64],
                                      size_t bytes, void **out_handle);
/* Whether a device shares memory over a fabric: the attribute is set, and making,
 * exporting and importing a page succeeds. */
bool drv_virtual_has_fabric(struct driver *driver, int device);

#endif
