/* SPDX-License-Identifier: MIT */
/* What a trace is fed to: a simulated device that hands out addresses only, a
 * cache on it, perhaps a planner in front of it, and its streams by number. Nothing of
 * it is seen by others: the device belongs to a backend of its own. */
#ifndef SRC_REPLAY_TARGET_H
#define SRC_REPLAY_TARGET_H

#include "replay/feed.h"

#include <acre/pinned.h>
#include <acre/planner.h>
#include <acre/sim.h>
#include <acre/trace.h>

struct target {
    acre_backend *backend;
    acre_device *device;
    acre_cache *cache;
    acre_planner *planner; /* NULL without a plan                            */
    acre_pinned *pinned;   /* NULL unless host memory is asked for, then the
                              cache serves nothing                           */
    void **streams;        /* native ones; number 0 is NULL, the default one */
    uint32_t stream_count; /* streams below it exist                         */
};

/* Errors: ACRE_ERR_CONFIG (conf, capacity), ACRE_ERR_HOST_MEMORY. */
acre_status target_init(struct target *target, acre_policy policy, const char *conf,
                        uint64_t device_bytes);
void target_fini(struct target *target); /* a zeroed one is fine */

/* Reads all of the feed and makes a plan of it. Without room for the arena the cache
 * serves everything. Errors: those of reading, ACRE_ERR_HOST_MEMORY. */
acre_status target_plan(struct target *target, struct feed *feed);

/* Lets a cache of page-locked host memory serve instead of the cache. Errors: as
 * target_init. */
acre_status target_pin(struct target *target, acre_policy policy, const char *conf);

/* Allocates, frees and records a use, whoever serves. */
acre_status target_alloc(struct target *target, size_t bytes, void *stream, void **out);
acre_status target_free(struct target *target, void *pointer);
acre_status target_use(struct target *target, void *pointer, void *stream);

/* The statistics of the cache; of host memory, blocks live and pieces held stand where
 * those of the device do. */
acre_status target_stats(struct target *target, acre_cache_stats *out);
void target_reset_peak(struct target *target);
acre_status target_empty(struct target *target);

/* Makes the streams up to this number. Errors: ACRE_ERR_HOST_MEMORY, and those
 * of the device. */
acre_status target_need_stream(struct target *target, uint32_t number);

/* Pages mapped, or obtained for a mapping that was given up, and pages unmapped so
 * far. */
acre_status target_page_calls(struct target *target, uint64_t *out_maps, uint64_t *out_unmaps);

#endif
