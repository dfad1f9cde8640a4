/* SPDX-License-Identifier: MIT */
/* The limit on host memory that the library takes for itself (acre_host_limit_set).
 *
 * libacre keeps it; bind/tools_status.c has these calls for libacre_tools, over the public ones.
 */
#ifndef SRC_BASE_HOST_LIMIT_H
#define SRC_BASE_HOST_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether there is a limit: bytes are counted only then. */
bool host_limit_is_set(void);
/* Counts bytes that were taken, or given back when negative. */
void host_limit_count(int64_t bytes);
/* Whether taking bytes would exceed the limit; records the failure if so. */
bool host_limit_refuses(size_t bytes);

#endif
