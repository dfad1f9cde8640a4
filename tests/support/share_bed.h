/* SPDX-License-Identifier: MIT */
/* A reference device with a cache, for tests that share memory.
 *
 *     struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH, NULL);
 *     char *p = share_bed_alloc(&bed, 3 << 20, 'a');    filled with that byte
 *     struct ticket_box box = share_bed_export(&bed, p);
 *     share_bed_close(&bed);        nothing is left, in this process at least
 */
#ifndef TESTS_SUPPORT_SHARE_BED_H
#define TESTS_SUPPORT_SHARE_BED_H

#include "base/bits.h"
#include "tests/support/sim_bed.h"

#include <acre/acre.h>
#include <unistd.h>

struct share_bed {
    struct sim_bed sim;
    acre_device *device;
    acre_cache *cache;
    int threads_before;
};

/* A handle as it travels. */
struct parcel {
    uint8_t handle[ACRE_SHARE_HANDLE_MAX];
    size_t bytes;
    uint64_t offset;
};

__attribute__((unused)) static struct share_bed share_bed_open(const char *text,
                                                               acre_policy policy,
                                                               const char *conf)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    struct share_bed bed = {.threads_before = t_thread_count()};

    bed.sim = bed_open(text);
    REQUIRE_OK(acre_backend_device(bed.sim.backend, 0, &bed.device));
    REQUIRE_OK(acre_cache_create(bed.device, &config, &bed.cache));
    return bed;
}

__attribute__((unused)) static void share_bed_close(struct share_bed *bed)
{
    REQUIRE_OK(acre_cache_check(bed->cache));
    acre_cache_destroy(bed->cache);
    bed_close(&bed->sim);
    if (BED_SANITIZED)
        return; /* sanitizers have threads of their own */
    EXPECT_EQ(t_threads_left(bed->threads_before), bed->threads_before);
}

/* Fills device memory with a byte, and compares it with one. */
__attribute__((unused)) static void share_bed_fill(struct share_bed *bed, void *to, int value,
                                                   size_t bytes)
{
    REQUIRE_OK(acre_fill_async(bed->device, to, value, bytes, NULL));
    REQUIRE_OK(acre_device_synchronize(bed->device));
}

__attribute__((unused)) static bool share_bed_has(struct share_bed *bed, const void *from,
                                                  int value, size_t bytes)
{
    unsigned char *copy = malloc(bytes);
    bool is_equal = copy && acre_copy(bed->device, copy, from, bytes,
                                      ACRE_COPY_DEVICE_TO_HOST) == ACRE_OK;

    /* All bytes equal the one before them. */
    is_equal = is_equal && copy[0] == (unsigned char)value &&
               memcmp(copy, copy + 1, bytes - 1) == 0;
    free(copy);
    return is_equal;
}

__attribute__((unused)) static void *share_bed_alloc(struct share_bed *bed, size_t bytes,
                                                     int value)
{
    void *pointer = NULL;

    REQUIRE_OK(acre_cache_alloc(bed->cache, bytes, NULL, &pointer));
    share_bed_fill(bed, pointer, value, bytes);
    return pointer;
}

__attribute__((unused)) static struct parcel share_bed_export(struct share_bed *bed,
                                                              const void *pointer)
{
    struct parcel parcel = {.bytes = 0};

    REQUIRE_OK(acre_share_export(bed->cache, pointer, parcel.handle, sizeof parcel.handle,
                                 &parcel.bytes, &parcel.offset));
    return parcel;
}

/* Opens a parcel; gives the address of what was exported. */
__attribute__((unused)) static char *share_bed_import(struct share_bed *bed,
                                                      const struct parcel *parcel,
                                                      void **out_base)
{
    uint64_t bytes = 0;

    REQUIRE_OK(acre_share_open(bed->device, parcel->handle, parcel->bytes, out_base, &bytes));
    EXPECT_LT(parcel->offset, bytes);
    return (char *)*out_base + parcel->offset;
}

/* Waits until the block has so many users; the service hears of it soon. */
__attribute__((unused)) static void share_bed_users(struct share_bed *bed, const void *pointer,
                                                    uint64_t count)
{
    uint64_t users = UINT64_MAX;

    for (int i = 0; i < 20000 && users != count; i++) {
        REQUIRE_OK(acre_share_users(bed->cache, pointer, &users));
        if (users != count)
            usleep(500);
    }
    EXPECT_EQ(users, count);
}

/* Live or waiting blocks. */
__attribute__((unused)) static int64_t share_bed_active(struct share_bed *bed)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_cache_stats_get(bed->cache, &stats));
    return stats.active.all.current;
}

/* Waits until so many blocks are live or waiting; each look is an allocation. */
__attribute__((unused)) static void share_bed_settle(struct share_bed *bed, int64_t active)
{
    for (int i = 0; i < 20000 && share_bed_active(bed) != active; i++) {
        REQUIRE_OK(acre_cache_empty(bed->cache));
        usleep(500);
    }
    EXPECT_EQ(share_bed_active(bed), active);
}

#endif
