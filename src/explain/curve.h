/* SPDX-License-Identifier: MIT */
/* What a setting holds from the device while a recording is replayed. */
#ifndef SRC_EXPLAIN_CURVE_H
#define SRC_EXPLAIN_CURVE_H

#include "replay/feed.h"

#include <acre/explain.h>

#define CURVE_POINTS 480

/* Replays a feed of that many events on a device of device_bytes, which must be enough.
 * points[i] is the highest number of bytes held in part i of CURVE_POINTS equal parts of the
 * events. Errors: those of replaying. */
acre_status curve_trace(struct feed *feed, uint64_t events, const acre_setting *setting,
                        uint64_t device_bytes, uint64_t points[CURVE_POINTS]);

#endif
