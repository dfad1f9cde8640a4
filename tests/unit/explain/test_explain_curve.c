/* SPDX-License-Identifier: MIT */
/* Curves reach the peak that a replay tells, and never exceed it. */
#include "explain/curve.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)

/* Rises to 40 blocks of 20 MiB, falls, and empties the cache. */
static const char *write_job(void)
{
    static char text[8192];
    size_t at = 0;

    for (int i = 0; i < 40; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "a %d %d 0\n", i, 20 << 20);
    for (int i = 0; i < 40; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "f %d\n", i);
    at += (size_t)snprintf(text + at, sizeof text - at, "e\na 99 512 0\n");
    return files_write("curve.trace", text, at);
}

TEST(curves_of_each_setting)
{
    acre_advise_config config = {.struct_size = sizeof config, .flags = ACRE_ADVISE_CURVES};
    acre_advice *advice = NULL;

    REQUIRE_OK(acre_advise(write_job(), &config, &advice));
    REQUIRE_EQ(advice->curve_points, CURVE_POINTS);
    for (uint64_t s = 0; s < advice->setting_count; s++) {
        uint64_t highest = 0;
        for (int i = 0; i < CURVE_POINTS; i++)
            if (advice->curves[s][i] > highest)
                highest = advice->curves[s][i];
        EXPECT_EQ(highest, advice->settings[s].bytes_reserved_peak);
        if (!(advice->settings[s].flags & ACRE_SETTING_PLAN)) {
            EXPECT_LE(advice->curves[s][0], 40 * MIB);
            EXPECT_LE(advice->curves[s][CURVE_POINTS - 1], 20 * MIB);
        }
    }
    acre_advice_destroy(advice);
    REQUIRE_OK(acre_advise(write_job(), NULL, &advice));
    EXPECT(!advice->curves);
    acre_advice_destroy(advice);
}

T_MAIN()
