/* SPDX-License-Identifier: MIT */
#include "cache/size.h"

#include "tests/support/t.h"

static struct cache_conf conf;

static void use(const char *text)
{
    cache_conf_init(&conf);
    REQUIRE(cache_conf_read(&conf, "test", text, NULL) == ACRE_OK);
}

TEST(plain_rounding)
{
    use("");
    EXPECT_EQ(size_round(&conf, 1), 512);
    EXPECT_EQ(size_round(&conf, 511), 512);
    EXPECT_EQ(size_round(&conf, 512), 512);
    EXPECT_EQ(size_round(&conf, 513), 1024);
    EXPECT_EQ(size_round(&conf, MIB + 1), MIB + 512);
    EXPECT_EQ(size_round(&conf, ((size_t)1 << 60) - 1), (size_t)1 << 60);
    EXPECT_EQ(size_round(&conf, SIZE_MAX), 0);
    EXPECT_EQ(size_round(&conf, SIZE_MAX - 510), 0);
}

TEST(B20_rounding_by_divisions)
{
    static const size_t pairs[][2] = {
        {513, 1024}, {1200, 1536}, {2049, 2560}, {3000, 3072}, {5000, 5120},
        {1300000, 1310720}, {84 * MIB, 96 * MIB}, {100 * MIB + 1, 112 * MIB},
        {64 * MIB, 64 * MIB}, {2048, 2048},
    };

    use("roundup_power2_divisions:4");
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        EXPECT_EQ(size_round(&conf, pairs[i][0]), pairs[i][1]);
    EXPECT_EQ(size_round(&conf, SIZE_MAX), 0);
    EXPECT_EQ(size_round_division(3, 8), 4);
    use("roundup_power2_divisions:1");
    EXPECT_EQ(size_round(&conf, 84 * MIB + 1), 84 * MIB + 512);
    use("roundup_power2_divisions:[64:0,>:2]");
    EXPECT_EQ(size_round(&conf, 65 * MIB), 65 * MIB);
    EXPECT_EQ(size_round(&conf, 129 * MIB), 192 * MIB);
}

TEST(entries_serve_their_range)
{
    use("roundup_power2_divisions:[1:2,2:4,4:8,>:16]");
    EXPECT_EQ(size_divisions(&conf, 1), 2);
    EXPECT_EQ(size_divisions(&conf, 2 * MIB - 1), 2);
    EXPECT_EQ(size_divisions(&conf, 2 * MIB), 4);
    EXPECT_EQ(size_divisions(&conf, 4 * MIB), 8);
    EXPECT_EQ(size_divisions(&conf, 32 * GIB), 16);
    EXPECT_EQ(size_divisions(&conf, SIZE_MAX), 16);
}

TEST(what_the_device_is_asked_for)
{
    use("");
    EXPECT_EQ(size_segment(&conf, 512), 2 * MIB);
    EXPECT_EQ(size_segment(&conf, MIB), 2 * MIB);
    EXPECT_EQ(size_segment(&conf, MIB + 512), 20 * MIB);
    EXPECT_EQ(size_segment(&conf, 10 * MIB - 512), 20 * MIB);
    EXPECT_EQ(size_segment(&conf, 10 * MIB), 10 * MIB);
    EXPECT_EQ(size_segment(&conf, 10 * MIB + 512), 12 * MIB);
    EXPECT_EQ(size_segment(&conf, SIZE_MAX - 511), 0);
    EXPECT(size_is_small(MIB) && !size_is_small(MIB + 512));
}

TEST(sums_do_not_wrap)
{
    EXPECT(size_fits(1, 2, 3));
    EXPECT(!size_fits(1, 3, 3));
    EXPECT(!size_fits(UINT64_MAX, 1, UINT64_MAX));
    EXPECT(!size_fits(1, UINT64_MAX, 100));
    EXPECT(size_fits(0, UINT64_MAX, UINT64_MAX));
}

T_MAIN()
