/* SPDX-License-Identifier: MIT */
/* A planner behind the allocator interface; the rules all allocators keep are tested by
 * the conformance suite. */
#include "tests/support/planner_ground.h"

TEST(statistics_and_streams_are_those_of_its_device)
{
    acre_allocator_stats found = {.struct_size = sizeof found};
    acre_stream stream;
    acre_allocator *allocator;
    acre_data_ptr ptr, foreign = ACRE_DATA_PTR_EMPTY;

    open_ground(NULL, 0, true);
    REQUIRE_OK(acre_planner_allocator(ground.planner, &allocator));
    EXPECT_STR_EQ(acre_allocator_name(allocator), "planner");
    REQUIRE_OK(acre_allocator_allocate(allocator, 1000, &ptr));
    EXPECT(!acre_data_ptr_is_simple(&ptr));
    REQUIRE_OK(acre_allocator_stats_get(allocator, 0, &found));
    EXPECT_EQ(found.allocated_bytes.current, 1024);
    EXPECT_EQ(acre_allocator_stats_get(allocator, 1, &found), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_allocator_stats_reset_peak(allocator, 1), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_allocator_stats_reset_accumulated(allocator, 1), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_stream_default(acre_device_id_of(ground.device).type, 0, &stream));
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, stream));
    foreign.data = &found;
    REQUIRE_OK(acre_allocator_record_stream(allocator, &foreign, stream));
    acre_data_ptr_clear(&ptr);
    REQUIRE_OK(acre_allocator_stats_get(allocator, 0, &found));
    EXPECT_EQ(found.allocated_bytes.current, 0);
    EXPECT_EQ(acre_planner_allocator(NULL, &allocator), ACRE_ERR_INVALID);
    acre_allocator_destroy(allocator);
    close_ground();
}

T_MAIN()
