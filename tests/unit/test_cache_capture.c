/* SPDX-License-Identifier: MIT */
#include "tests/support/pool_lab.h"

TEST(a_device_without_captures_has_none)
{
    acre_pool_filter filter = {.kind = ACRE_POOL_CAPTURE, .capture_id = 1};
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, &filter));
    void *block = lab_alloc(&lab, MIB);
    EXPECT_EQ(pool_of(&lab, block), 0);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    lab_free(&lab, block);
    lab_close(&lab);
}

T_MAIN()
