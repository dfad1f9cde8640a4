/* SPDX-License-Identifier: MIT */
/* A pinned cache on a reference device of its own, with streams that a test can hold up.
 *
 *     struct pinned_bed bed;
 *     pinned_bed_open(&bed, ACRE_POLICY_TORCH, "pinned_max_cached_size_mb:4");
 *     void *a = pinned_take(&bed, 40960);
 *     pinned_bed_close(&bed);   expects that every fact holds and nothing is left
 */
#ifndef TESTS_SUPPORT_PINNED_BED_H
#define TESTS_SUPPORT_PINNED_BED_H

#include "base/bits.h"
#include "base/heap.h"
#include "pinned/pinned.h"
#include "tests/support/gate.h"
#include "tests/support/t.h"

#include <acre/pinned.h>
#include <acre/sim.h>

#define BED_HELPER __attribute__((unused)) static

enum { BED_STREAMS = 3 }; /* two of device 0, one of device 1 */

struct pinned_bed {
    acre_backend *sim;
    acre_device *devices[2];
    void *streams[BED_STREAMS];
    struct gate gates[BED_STREAMS]; /* of what holds a stream up */
    acre_pinned *pinned;
    uint64_t heap_before;
};

BED_HELPER acre_device *pinned_bed_device(const struct pinned_bed *bed, int stream)
{
    return bed->devices[stream == 2];
}

/* Makes a cache on the device that is there. */
BED_HELPER void pinned_bed_begin(struct pinned_bed *bed, acre_policy policy, const char *conf)
{
    acre_pinned_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                 .flags = ACRE_PINNED_NO_ENVIRONMENT};

    REQUIRE_OK(acre_pinned_create(bed->devices[0], &config, &bed->pinned));
}

BED_HELPER void pinned_bed_open(struct pinned_bed *bed, acre_policy policy, const char *conf)
{
    acre_sim_config sim = {.struct_size = sizeof sim, .devices = 2, .memory_bytes = 64 * MIB};

    memset(bed, 0, sizeof *bed);
    bed->heap_before = heap_live_count();
    REQUIRE_OK(acre_sim_create(&sim, &bed->sim));
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(acre_backend_device(bed->sim, i, &bed->devices[i]));
    for (int i = 0; i < BED_STREAMS; i++)
        REQUIRE_OK(acre_stream_native_create(pinned_bed_device(bed, i), 0, 0, &bed->streams[i]));
    pinned_bed_begin(bed, policy, conf);
}

/* Ends the cache, which leaves nothing behind. */
BED_HELPER void pinned_bed_end(struct pinned_bed *bed)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};

    EXPECT_EQ(pinned_verify(bed->pinned), ACRE_OK);
    acre_pinned_destroy(bed->pinned);
    REQUIRE_OK(acre_sim_usage_get(bed->sim, &usage));
    EXPECT_EQ(usage.host_count, 0);
    EXPECT_EQ(usage.event_count, 0);
}

BED_HELPER void pinned_bed_close(struct pinned_bed *bed)
{
    pinned_bed_end(bed);
    for (int i = 0; i < BED_STREAMS; i++)
        REQUIRE_OK(acre_stream_native_destroy(pinned_bed_device(bed, i), bed->streams[i]));
    acre_backend_unregister(bed->sim);
    EXPECT_EQ(heap_live_count(), bed->heap_before);
}

BED_HELPER void *pinned_take(struct pinned_bed *bed, size_t bytes)
{
    void *pointer = NULL;

    REQUIRE_OK(acre_pinned_alloc(bed->pinned, bytes, &pointer));
    return pointer;
}

BED_HELPER void pinned_give(struct pinned_bed *bed, void *pointer)
{
    REQUIRE_OK(acre_pinned_free(bed->pinned, pointer));
}

/* Holds a stream up until pinned_let_go. */
BED_HELPER void pinned_hold_up(struct pinned_bed *bed, int stream)
{
    bed->gates[stream] = (struct gate){0};
    REQUIRE_OK(acre_launch_host(pinned_bed_device(bed, stream), bed->streams[stream], gate_task,
                                &bed->gates[stream]));
}

BED_HELPER void pinned_let_go(struct pinned_bed *bed, int stream)
{
    gate_open(&bed->gates[stream]);
    REQUIRE_OK(acre_stream_native_synchronize(pinned_bed_device(bed, stream),
                                              bed->streams[stream]));
}

BED_HELPER void pinned_use(struct pinned_bed *bed, void *pointer, int stream)
{
    REQUIRE_OK(acre_pinned_record_stream(bed->pinned, pointer, pinned_bed_device(bed, stream),
                                         bed->streams[stream]));
}

BED_HELPER acre_pinned_stats pinned_stats(struct pinned_bed *bed)
{
    acre_pinned_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_pinned_stats_get(bed->pinned, &stats));
    return stats;
}

BED_HELPER uint64_t pinned_bytes(struct pinned_bed *bed, void *pointer)
{
    uint64_t bytes = 0;

    REQUIRE_OK(pinned_block_bytes(bed->pinned, pointer, &bytes));
    return bytes;
}

#endif
