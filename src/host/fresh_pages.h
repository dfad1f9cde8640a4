/* SPDX-License-Identifier: MIT */
/* Fresh pages of host memory.
 *
 * Ranges of 2 MiB and more begin at a multiple of 2 MiB, so that the kernel can use huge
 * pages, and so that large blocks of a cache are whole pages. */
#ifndef SRC_HOST_FRESH_PAGES_H
#define SRC_HOST_FRESH_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Maps pages, of which none is touched; MAP_FAILED and errno when there are none. */
void *fresh_pages_map(size_t bytes);

/* Whether ranges mapped from now on are spread over all memory nodes. For the whole process; off
 * until set. */
void fresh_pages_spread(bool wants_interleave);

#endif
