/* SPDX-License-Identifier: MIT */
/* A cache of policy torch on a fake device of 8 GiB, and short ways to use it.
 *
 *     struct rig rig;
 *     rig_open(&rig, "max_split_size_mb:40");
 *     void *a = rig_alloc(&rig, 3 * MIB);
 *     EXPECT_EQ(CURRENT(&rig, reserved_bytes), 20 * MIB);
 *     rig_close(&rig);
 *
 * Calls that must succeed end the test when they do not. Closing checks that
 * every fact of the cache holds and that nothing is left on device or host. */
#ifndef TESTS_SUPPORT_RIG_H
#define TESTS_SUPPORT_RIG_H

#include "base/bits.h"
#include "tests/support/fake.h"
#include "tests/support/t.h"

#include <acre/cache.h>

struct rig {
    struct fake *fake;
    acre_cache *cache;
    acre_cache_stats stats; /* as last read by rig_stats */
    uint64_t heap_before;
};

/* conf may be NULL. */
void rig_open(struct rig *rig, const char *conf);
/* The same with a device and a configuration of choice; either may be NULL. */
void rig_open_with(struct rig *rig, const struct fake_config *device,
                   const acre_cache_config *config);
void rig_close(struct rig *rig);

void *rig_alloc(struct rig *rig, size_t bytes); /* on stream 0 */
void *rig_alloc_on(struct rig *rig, size_t bytes, int stream);
void rig_free(struct rig *rig, void *pointer);
/* Allocates blocks of so many MiB, ended by 0, then frees them all. */
void rig_cache_mib(struct rig *rig, const int *mib);
#define RIG_CACHE(rig, ...) rig_cache_mib(rig, (const int[]){__VA_ARGS__, 0})
/* The status of an allocation that may fail; what it gave is freed. */
acre_status rig_try(struct rig *rig, size_t bytes);
/* Sets the memory fraction that allows so many bytes. */
void rig_limit(struct rig *rig, uint64_t bytes);
/* Writes the blocks of all segments, oldest first, as "size[*~],size|size". */
const char *rig_layout(struct rig *rig);
uint64_t rig_block_bytes(struct rig *rig, void *pointer);

const acre_cache_stats *rig_stats(struct rig *rig);
#define CURRENT(rig, name) (rig_stats(rig)->name.all.current)
#define COUNT(rig, name) (rig_stats(rig)->name)

#endif
