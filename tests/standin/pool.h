/* SPDX-License-Identifier: MIT */
/* Pools of the stand-ins, as other files see them. */
#ifndef TESTS_STANDIN_POOL_H
#define TESTS_STANDIN_POOL_H

#include "tests/standin/context.h"

/* Gives a block of a pool back at once; CUDA_ERROR_INVALID_VALUE when it is none. */
CUresult pool_free_now(uintptr_t base);
/* Counts pools that callers made; books locked. */
void pool_live(struct standin_live *live);

#endif
