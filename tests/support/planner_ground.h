/* SPDX-License-Identifier: MIT */
/* A planner in front of a cache on a device of its own, and what a test holds of it:
 * nothing that lives may overlap, whatever is done.
 *
 *     open_ground(NULL, 0, true);     defaults, default memory, dry
 *     char *pointer = take(5, 4096);  into slot 5
 *     give(5);
 *     close_ground();                 frees the rest, expects that nothing is left
 */
#ifndef TESTS_SUPPORT_PLANNER_GROUND_H
#define TESTS_SUPPORT_PLANNER_GROUND_H

#include "base/heap.h"
#include "tests/support/t.h"

#include <acre/acre.h>

#define LIVE_MAX 4096
#define KB 1024u

struct live {
    char *pointer;
    size_t bytes;
};

struct ground {
    acre_backend *backend;
    acre_device *device;
    acre_cache *cache;
    acre_planner *planner;
    struct live live[LIVE_MAX]; /* what the test holds, by slot */
    uint64_t heap_before;
};

__attribute__((unused)) static struct ground ground;

__attribute__((unused)) static void open_ground(const acre_planner_config *config,
                                                uint64_t memory_bytes, bool is_dry)
{
    acre_sim_config sim = {.struct_size = sizeof sim, .devices = 1, .dry = is_dry,
                           .memory_bytes = memory_bytes};
    acre_cache_config cache = {.struct_size = sizeof cache, .flags = ACRE_CACHE_NO_ENVIRONMENT};

    memset(&ground, 0, sizeof ground);
    ground.heap_before = heap_live_count();
    REQUIRE_OK(acre_sim_create(&sim, &ground.backend));
    REQUIRE_OK(acre_backend_device(ground.backend, 0, &ground.device));
    REQUIRE_OK(acre_cache_create(ground.device, &cache, &ground.cache));
    REQUIRE_OK(acre_planner_create(ground.cache, config, &ground.planner));
}

__attribute__((unused)) static void close_ground(void)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};

    for (int i = 0; i < LIVE_MAX; i++)
        EXPECT_EQ(acre_planner_free(ground.planner, ground.live[i].pointer), ACRE_OK);
    acre_planner_destroy(ground.planner);
    acre_cache_destroy(ground.cache);
    REQUIRE_OK(acre_sim_usage_get(ground.backend, &usage));
    EXPECT_EQ(usage.bytes_used, 0);
    acre_backend_unregister(ground.backend);
    EXPECT_EQ(heap_live_count(), ground.heap_before);
}

__attribute__((unused)) static acre_planner_stats stats(void)
{
    acre_planner_stats found = {.struct_size = sizeof found};

    REQUIRE_OK(acre_planner_stats_get(ground.planner, &found));
    EXPECT_EQ(found.allocated_bytes.current,
              found.allocated_bytes.allocated - found.allocated_bytes.freed);
    EXPECT_LE(found.allocated_bytes.current, found.allocated_bytes.peak);
    EXPECT_LE(found.allocated_bytes.current, found.reserved_bytes.current);
    return found;
}

/* Allocates into a slot; nothing that lives may overlap it. */
__attribute__((unused)) static char *take_on(int slot, size_t bytes, void *stream)
{
    void *pointer;

    REQUIRE(!ground.live[slot].pointer);
    REQUIRE_OK(acre_planner_alloc(ground.planner, bytes, stream, &pointer));
    REQUIRE(pointer);
    for (int i = 0; i < LIVE_MAX; i++) {
        const struct live *other = &ground.live[i];
        if (other->pointer && (char *)pointer < other->pointer + other->bytes &&
            other->pointer < (char *)pointer + bytes)
            t_fail(__FILE__, __LINE__, "slot %d overlaps slot %d", slot, i);
    }
    ground.live[slot] = (struct live){pointer, bytes};
    return pointer;
}

__attribute__((unused)) static char *take(int slot, size_t bytes)
{
    return take_on(slot, bytes, NULL);
}

__attribute__((unused)) static void give(int slot)
{
    REQUIRE(ground.live[slot].pointer);
    REQUIRE_OK(acre_planner_free(ground.planner, ground.live[slot].pointer));
    ground.live[slot].pointer = NULL;
}

/* An iteration: activations saved going forward, gradients going back, and temporaries.
 * Slots from 10 on. */
__attribute__((unused)) static void iterate(int layers, size_t unit)
{
    for (int i = 0; i < layers; i++) {
        take(10 + 2 * i, unit * (size_t)(3 + i % 5));
        take(11 + 2 * i, unit);
        give(11 + 2 * i);
    }
    for (int i = layers - 1; i >= 0; i--) {
        take(11 + 2 * i, unit * (size_t)(2 + i % 3));
        give(10 + 2 * i);
        give(11 + 2 * i);
    }
}

#endif
