/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory: entries of the table; self is a struct driver.
 *
 * Each device has one pool of the driver, made at its first use and apart from the
 * driver's default pool, so that nobody else's settings matter. It keeps all freed
 * memory until it is trimmed.
 */
#ifndef SRC_DRIVER_POOL_H
#define SRC_DRIVER_POOL_H

#include "driver/driver.h"

acre_status drv_pool_alloc(void *self, int device, size_t bytes, void *stream, void **out_base);
acre_status drv_pool_free(void *self, int device, void *base, void *stream);
acre_status drv_pool_trim(void *self, int device, uint64_t bytes);
acre_status drv_pool_usage(void *self, int device, acre_async_usage *out_usage);
acre_status drv_pool_reset_peak(void *self, int device);

/* Lets another device reach the memory of a device's pool, now or once it is made. */
acre_status drv_pool_share(struct driver *driver, int device, int accessor);

/* Gives the pools back. */
void drv_pool_fini(struct driver *driver);

#endif
