/* SPDX-License-Identifier: MIT */
#include "format/deflate.h"

#include "base/heap.h"
#include "tests/support/t.h"

TEST(what_repeats_becomes_small)
{
    static unsigned char bytes[100000];
    unsigned char *made;
    size_t count;

    REQUIRE_EQ(deflate_bytes(bytes, sizeof bytes, &made, &count), ACRE_OK);
    if (!made)
        T_SKIP("this build has no zlib");
    EXPECT_LT(count, 1000);
    EXPECT_EQ(made[0] & 15, 8); /* the zlib form, which browsers call deflate */
    EXPECT_EQ((made[0] * 256 + made[1]) % 31, 0);
    heap_free(made);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(what_does_not_shrink_is_left_alone)
{
    unsigned char *made;
    size_t count;

    REQUIRE_EQ(deflate_bytes("ab", 2, &made, &count), ACRE_OK);
    EXPECT_PTR_EQ(made, NULL);
    REQUIRE_EQ(deflate_bytes("", 0, &made, &count), ACRE_OK);
    EXPECT_PTR_EQ(made, NULL);
    EXPECT_EQ(heap_live_count(), 0);
}

T_MAIN()
