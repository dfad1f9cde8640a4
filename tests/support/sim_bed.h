/* SPDX-License-Identifier: MIT */
/* A reference device for one test, with its table at hand and its leaks counted.
 * With ACRE_TEST_DRIVER, a driver whose stand-in has that device behind it.
 *
 *     struct sim_bed bed = bed_open("devices:2,memory:64MiB");
 *     REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, &p));
 *     bed_close(&bed);   expects that nothing is held any more
 */
#ifndef TESTS_SUPPORT_SIM_BED_H
#define TESTS_SUPPORT_SIM_BED_H

#include "backend/backend.h"
#include "sim/sim.h"
#include "base/heap.h"
#include "tests/support/standin_bed.h"
#include "tests/support/t.h"

#include <acre/sim.h>

#define BED_PAGE ((size_t)2 << 20) /* default page of virtual memory */

struct sim_bed {
    acre_backend *backend;
    const acre_backend_ops *ops;
    struct sim *sim;  /* of the reference device alone */
    uint64_t heap_before;
    int fds_before;
};

__attribute__((unused)) static struct sim_bed bed_open(const char *text)
{
    struct sim_bed bed = {.heap_before = heap_live_count(), .fds_before = t_fd_count()};
    acre_device *device;

    bed.backend = ground_create(text);
    REQUIRE_OK(acre_backend_device(bed.backend, 0, &device));
    bed.ops = device->ops;
    bed.sim = device->self;
    return bed;
}

__attribute__((unused)) static acre_sim_usage bed_usage(const struct sim_bed *bed)
{
    return ground_usage(bed->backend);
}

/* Nothing of the kinds the memory half counts is held. */
__attribute__((unused)) static void bed_expect_empty(const struct sim_bed *bed)
{
    acre_sim_usage usage = bed_usage(bed);

    EXPECT_EQ(usage.alloc_count, 0);
    EXPECT_EQ(usage.host_count, 0);
    EXPECT_EQ(usage.reserve_count, 0);
    EXPECT_EQ(usage.handle_count, 0);
    EXPECT_EQ(usage.map_count, 0);
    EXPECT_EQ(usage.window_count, 0);
    EXPECT_EQ(usage.bytes_used, 0);
    EXPECT_EQ(usage.reserved_bytes, 0);
}

/* Unregisters; host memory and descriptors are as before, whatever was left. */
__attribute__((unused)) static void bed_drop(struct sim_bed *bed)
{
    ground_destroy(bed->backend);
    EXPECT_EQ(heap_live_count(), bed->heap_before);
    EXPECT_EQ(t_fd_count(), bed->fds_before);
}

__attribute__((unused)) static void bed_close(struct sim_bed *bed)
{
    bed_expect_empty(bed);
    bed_drop(bed);
}

/* Writes and reads device memory as a worker does; also in threads. */
__attribute__((unused)) static void bed_write(const struct sim_bed *bed, void *to,
                                              const void *from, size_t bytes)
{
    struct sim_pin pin = {.address = NULL};

    EXPECT_EQ(sim_pin(bed->sim, to, bytes, &pin), ACRE_OK);
    if (pin.address)
        memcpy(pin.address, from, bytes);
    sim_unpin(bed->sim, &pin);
}

__attribute__((unused)) static void bed_read(const struct sim_bed *bed, void *to,
                                             const void *from, size_t bytes)
{
    struct sim_pin pin = {.address = NULL};

    EXPECT_EQ(sim_pin(bed->sim, from, bytes, &pin), ACRE_OK);
    if (pin.address)
        memcpy(to, pin.address, bytes);
    sim_unpin(bed->sim, &pin);
}

/* Sanitizers map memory of their own at any time and wherever there is room, so
 * mappings are counted, and freed addresses touched, only without them. */
#define BED_SANITIZED T_SANITIZED

/* Mappings of this process; under a sanitizer those of device memory only. */
__attribute__((unused)) static int bed_map_count(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;

    while (file && fgets(line, sizeof line, file))
        count += !BED_SANITIZED || strstr(line, "memfd:acre") != NULL;
    if (file)
        fclose(file);
    return count;
}

/* For t_faults: touches a byte. */
__attribute__((unused)) static void bed_touch(void *pointer)
{
    *(volatile char *)pointer += 1;
}

/* Nothing can be touched at an address that was freed. */
__attribute__((unused)) static void bed_expect_gone(void *pointer)
{
    if (!BED_SANITIZED)
        EXPECT(t_faults(bed_touch, pointer));
}

#endif
