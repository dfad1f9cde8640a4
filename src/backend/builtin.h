/* SPDX-License-Identifier: MIT */
/* The backends that come with the library. Each function registers one. */
#ifndef SRC_BACKEND_BUILTIN_H
#define SRC_BACKEND_BUILTIN_H

#include <acre/backend.h>

/* The reference device, configured by ACRE_SIM. Weak until it is linked in. */
acre_status sim_start(acre_backend **out) __attribute__((weak));

/* Host memory as a device. */
acre_status host_start(acre_backend **out);

#endif
