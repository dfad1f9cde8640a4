/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory: the driver's own pools. */
#ifndef SRC_DRIVER_POOL_H
#define SRC_DRIVER_POOL_H

#include "driver/driver.h"

/* Gives the pools back. */
void drv_pool_fini(struct driver *driver);

#endif
