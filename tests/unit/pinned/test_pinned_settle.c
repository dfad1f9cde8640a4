/* SPDX-License-Identifier: MIT */
/* What is kept for captures and after failures, and when it comes back. */
#include "tests/support/gate.h"
#include "tests/support/pinned_bed.h"

TEST(what_is_freed_after_its_pool_was_released_goes_with_it)
{
    struct pinned_bed bed;
    acre_pool_filter filter = {.kind = ACRE_POOL_ANY};

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        acre_pool_id id = acre_pool_id_next();
        void *graph;
        pinned_bed_open(&bed, policy, NULL);
        REQUIRE_OK(acre_pinned_pool_begin(bed.pinned, id, &filter));
        void *block = pinned_take(&bed, 4096);
        REQUIRE_OK(acre_capture_begin(bed.devices[0], bed.streams[0]));
        pinned_use(&bed, block, 0);
        REQUIRE_OK(acre_capture_end(bed.devices[0], bed.streams[0], &graph));
        REQUIRE_OK(acre_pinned_pool_end(bed.pinned, id));
        REQUIRE_OK(acre_graph_destroy(bed.devices[0], graph));
        REQUIRE_OK(acre_pinned_pool_release(bed.pinned, id));
        pinned_give(&bed, block);
        REQUIRE_OK(acre_pinned_empty(bed.pinned));
        EXPECT_EQ(pinned_stats(&bed).captured_bytes, 0);
        EXPECT_EQ(pinned_stats(&bed).allocations.current, 0);
        EXPECT_EQ(acre_pinned_pool_release(bed.pinned, id), ACRE_ERR_NOT_FOUND);
        pinned_bed_close(&bed);
    }
}

TEST(what_was_kept_after_a_failure_is_not_free_while_a_stream_uses_it)
{
    struct pinned_bed bed;

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_EVENT_RECORD,
                                .nth = 1, .status = ACRE_ERR_DEVICE};
        struct gate gate = {0};
        pinned_bed_open(&bed, policy, "pinned_free_catch_all:True");
        void *block = pinned_take(&bed, 4096);
        REQUIRE_OK(acre_launch_host(bed.devices[0], bed.streams[0], gate_task, &gate));
        pinned_use(&bed, block, 0);
        REQUIRE_OK(acre_sim_fault_arm(bed.sim, &fault));
        pinned_give(&bed, block);
        EXPECT_EQ(acre_sim_fault_disarm(bed.sim), 1);
        acre_pinned_captured_release(bed.pinned);
        void *other = pinned_take(&bed, 4096);
        EXPECT(other != block);
        gate_open(&gate);
        REQUIRE_OK(acre_stream_native_synchronize(bed.devices[0], bed.streams[0]));
        REQUIRE_OK(pinned_process(bed.pinned));
        EXPECT_PTR_EQ(pinned_take(&bed, 4096), block);
        pinned_bed_close(&bed);
    }
}

T_MAIN()
