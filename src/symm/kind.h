/* SPDX-License-Identifier: MIT */
/* What symmetric memory on a device type is made of: chosen by name until it is used. */
#ifndef SRC_SYMM_KIND_H
#define SRC_SYMM_KIND_H

#include <acre/symm.h>

/* Notes that memory of a type is in use, so that the choice is final. */
void kind_use(acre_device_type type);

#endif
