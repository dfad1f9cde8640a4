/* SPDX-License-Identifier: MIT */
/* A trace, replayed on a simulated device while a view watches: blocks get
 * addresses, and segments come and go as the policy decides.
 *
 * A trace has no stacks; allocations of one size stand together instead, each
 * under its own size, or under its power of two when there are many sizes. */
#ifndef SRC_VIEW_WATCH_H
#define SRC_VIEW_WATCH_H

#include "view/view.h"

/* Adds the trace as device 0. Errors: those of reading and of the cache. */
acre_status watch_trace(acre_view *view, const char *path, const acre_view_config *config);

#endif
