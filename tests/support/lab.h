/* SPDX-License-Identifier: MIT */
/* A cache of policy torch on a fake device of 8 GiB, and short ways to use it.
 *
 *     struct lab lab;
 *     lab_open(&lab, "max_split_size_mb:40");
 *     void *a = lab_alloc(&lab, 3 * MIB);
 *     EXPECT_EQ(CURRENT(&lab, reserved_bytes), 20 * MIB);
 *     lab_close(&lab);
 *
 * Calls that must succeed end the test when they do not. Closing checks that
 * every fact of the cache holds and that nothing is left on device or host. */
#ifndef TESTS_SUPPORT_LAB_H
#define TESTS_SUPPORT_LAB_H

#include "base/bits.h"
#include "tests/support/fake.h"
#include "tests/support/t.h"

#include <acre/cache.h>

struct lab {
    struct fake *fake;
    acre_cache *cache;
    acre_cache_stats stats; /* as last read by lab_stats */
    uint64_t heap_before;
};

/* conf may be NULL. */
void lab_open(struct lab *lab, const char *conf);
/* The same with a device and a configuration of choice; either may be NULL. */
void lab_open_with(struct lab *lab, const struct fake_config *device,
                   const acre_cache_config *config);
void lab_close(struct lab *lab);

void *lab_alloc(struct lab *lab, size_t bytes); /* on stream 0 */
void *lab_alloc_on(struct lab *lab, size_t bytes, int stream);
void lab_free(struct lab *lab, void *pointer);
/* Allocates blocks of so many MiB, ended by 0, then frees them all. */
void lab_cache_mib(struct lab *lab, const int *mib);
#define LAB_CACHE(lab, ...) lab_cache_mib(lab, (const int[]){__VA_ARGS__, 0})
/* The status of an allocation that may fail; what it gave is freed. */
acre_status lab_try(struct lab *lab, size_t bytes);
/* Sets the memory fraction that allows so many bytes. */
void lab_limit(struct lab *lab, uint64_t bytes);
/* Writes the blocks of all segments, oldest first, as "size[*~],size|size". */
const char *lab_layout(struct lab *lab);
uint64_t lab_block_bytes(struct lab *lab, void *pointer);

const acre_cache_stats *lab_stats(struct lab *lab);
#define CURRENT(lab, name) (lab_stats(lab)->name.all.current)
#define COUNT(lab, name) (lab_stats(lab)->name)

#endif
