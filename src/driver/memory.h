/* SPDX-License-Identifier: MIT */
/* Plain and page-locked memory, pointers, memory of other processes: entries of
 * the table; self is a struct driver. */
#ifndef SRC_DRIVER_MEMORY_H
#define SRC_DRIVER_MEMORY_H

#include "driver/driver.h"

acre_status drv_memory_alloc(void *self, int device, size_t bytes, void **out_base);
acre_status drv_memory_free(void *self, int device, void *base);

acre_status drv_memory_host_alloc(void *self, size_t bytes, void **out_base);
acre_status drv_memory_host_free(void *self, void *base);
acre_status drv_memory_host_register(void *self, void *base, size_t bytes);
acre_status drv_memory_host_unregister(void *self, void *base);

acre_status drv_memory_pointer_info(void *self, const void *pointer, acre_pointer_info *out_info);

acre_status drv_memory_ipc_export(void *self, int device, void *base, uint8_t out_handle[64]);
acre_status drv_memory_ipc_open(void *self, int device, const uint8_t handle[64], void **out_base,
                                uint64_t *out_bytes);
acre_status drv_memory_ipc_close(void *self, int device, void *base);

#endif
