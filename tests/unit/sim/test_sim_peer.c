/* SPDX-License-Identifier: MIT */
#include "sim/sim_memory.h"

#include "tests/support/sim_bed.h"

/* The links of device 0 and 3 of 6 devices as digits. */
static void expect_links(const char *text, const char *zero, const char *three)
{
    struct sim_bed bed = bed_open(text);
    char seen[2][7] = {"", ""};

    for (int i = 0; i < 6; i++) {
        bool can = false;

        REQUIRE_OK(bed.ops->peer_query(bed.sim, 0, i, &can));
        seen[0][i] = (char)('0' + can);
        REQUIRE_OK(bed.ops->peer_query(bed.sim, 3, i, &can));
        seen[1][i] = (char)('0' + can);
    }
    EXPECT_STR_EQ(seen[0], zero);
    EXPECT_STR_EQ(seen[1], three);
    bed_close(&bed);
}

TEST(each_topology_links_its_pairs)
{
    expect_links("devices:6", "111111", "111111");
    expect_links("devices:6,peers:none", "100000", "000100");
    expect_links("devices:6,peers:ring", "110001", "001110");
    expect_links("devices:6,peers:pair", "110000", "001100");
}

TEST(enabling_needs_a_link)
{
    struct sim_bed bed = bed_open("devices:4,peers:pair");
    bool can = true;

    REQUIRE_OK(bed.ops->peer_enable(bed.sim, 0, 1));
    REQUIRE_OK(bed.ops->peer_enable(bed.sim, 0, 1));
    EXPECT_EQ(bed.ops->peer_enable(bed.sim, 0, 2), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "no link");
    EXPECT_EQ(bed.ops->peer_enable(bed.sim, 0, 4), ACRE_ERR_RANGE);
    EXPECT_EQ(bed.ops->peer_query(bed.sim, 0, -1, &can), ACRE_ERR_RANGE);
    EXPECT_EQ(bed.ops->peer_query(bed.sim, 4, 0, &can), ACRE_ERR_RANGE);
    EXPECT_EQ(atomic_load(&bed.sim->peers[0]), 2);
    bed_close(&bed);
}

T_MAIN()
