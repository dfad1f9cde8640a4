/* SPDX-License-Identifier: MIT */
/* Whether the system, or the control group of this process, runs short of memory. */
#ifndef SRC_HOSTMEM_PRESSURE_H
#define SRC_HOSTMEM_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

/* True when less than a sixteenth of the memory is available. */
bool pressure_is_high(void);

/* The rule, for figures of the kernel: available and total memory of the system, use and
 * limit of the group; limit 0: it has none. */
bool pressure_of(uint64_t available, uint64_t total, uint64_t used, uint64_t limit);

/* Use and limit of the control group (of version 1 or 2) below root, both 0 when there is none.
 * Pages of files that the kernel can drop are not counted as used. */
void pressure_group(const char *root, const char *membership, uint64_t *out_used,
                    uint64_t *out_limit);

#endif
