/* SPDX-License-Identifier: MIT */
/* What one graph capture draws from one Philox generator.
 *
 * The kernels of the graph read seed and base offset from here each time they
 * run; a kernel queued before each launch of the graph writes them:
 *
 *     capture_begin          capture_end            capture_replay, launch
 *  ──────────────► DRAWING ─────────────► ENDED ──────────────► ENDED ──► ...
 *                  words grows            words is final
 */
#ifndef SRC_GENERATOR_CAPTURE_H
#define SRC_GENERATOR_CAPTURE_H

#include "generator/generator.h"

/* What the captured kernels read; written and read in stream order only. */
struct capture_base {
    uint64_t seed;
    uint64_t offset; /* of the generator when the replay was queued */
};

struct acre_generator_capture {
    struct generator_state *state; /* held                                            */
    uint64_t id;                   /* of the device's capture; constant               */
    uint64_t words;                /* drawn so far, multiple of 4; guarded by state   */
    struct capture_base base;
};

/* Which capture a stream is in; 0 when in none or when the device has none.
 * Errors: what the device answers; ACRE_ERR_STATE for an invalidated one. */
acre_status capture_id_of(acre_device *device, void *stream, uint64_t *out_id);

#endif
