/* SPDX-License-Identifier: MIT */
/* The backends that features are tried on: sim, host, the stand-ins of drivers, OpenCL. */
#ifndef TESTS_SUPPORT_GROUND_H
#define TESTS_SUPPORT_GROUND_H

#include "tests/support/features/stage.h"

/* Opens a backend by name; skips the test where there is no OpenCL. */
acre_backend *backend_open(const char *name);
/* Closes it; nothing of the test may be left there. */
void backend_close(const char *name, acre_backend *backend);

#endif
