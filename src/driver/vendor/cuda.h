/* SPDX-License-Identifier: MIT */
/* The CUDA driver API behind the common shape. */
#ifndef SRC_DRIVER_CUDA_H
#define SRC_DRIVER_CUDA_H

#include "driver/driver.h"

extern const struct vendor vendor_cuda;

#endif
