/* SPDX-License-Identifier: MIT */
/* A placement as a picture: time to the right, offsets upwards. */
#ifndef CLI_PLAN_SVG_H
#define CLI_PLAN_SVG_H

#include <acre/plan.h>

#include <stdbool.h>

/* Writes the picture; of many buffers only those large enough to be seen. False, with a recorded
 * failure, when the file cannot be written. */
bool plan_svg(const char *path, const acre_plan_buffer *buffers, size_t count,
              const uint64_t *offsets, uint64_t height);

#endif
