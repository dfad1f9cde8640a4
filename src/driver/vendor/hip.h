/* SPDX-License-Identifier: MIT */
/* The HIP runtime behind the common shape. */
#ifndef SRC_DRIVER_HIP_H
#define SRC_DRIVER_HIP_H

#include "driver/driver.h"

extern const struct vendor vendor_hip;

#endif
