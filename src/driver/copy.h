/* SPDX-License-Identifier: MIT */
/* Copies and fills: entries of the table; self is a struct driver. */
#ifndef SRC_DRIVER_COPY_H
#define SRC_DRIVER_COPY_H

#include "driver/driver.h"

acre_status drv_copy_now(void *self, void *dst, const void *src, size_t bytes, acre_copy_kind kind);
acre_status drv_copy_queue(void *self, int device, void *dst, const void *src, size_t bytes,
                           acre_copy_kind kind, void *stream);
acre_status drv_copy_queue_peer(void *self, void *dst, int dst_device, const void *src,
                                int src_device, size_t bytes, void *stream);
acre_status drv_copy_queue_fill(void *self, int device, void *dst, int value, size_t bytes,
                                void *stream);

#endif
