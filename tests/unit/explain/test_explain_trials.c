/* SPDX-License-Identifier: MIT */
/* Which settings are tried, and which of them need not be. */
#include "explain/trials.h"
#include "tests/support/t.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)

static acre_setting settings[TRIALS_MAX];
static const acre_setting *alike[TRIALS_MAX];

static size_t index_of(size_t count, const char *conf)
{
    for (size_t i = 0; i < count; i++)
        if (settings[i].policy == ACRE_POLICY_TORCH && strcmp(settings[i].conf, conf) == 0)
            return i;
    REQUIRE(!"found");
    return 0;
}

/* Settings of PyTorch with these options. */
static int count_of(size_t count, const char *conf)
{
    int found = 0;

    for (size_t i = 0; i < count; i++)
        found += settings[i].policy == ACRE_POLICY_TORCH && strcmp(settings[i].conf, conf) == 0;
    return found;
}

TEST(the_recorded_settings_stand_first_and_once)
{
    size_t without = trials_list("", settings);

    EXPECT_STR_EQ(settings[0].conf, "");
    EXPECT_EQ(settings[0].flags, ACRE_SETTING_RECORDED);
    EXPECT_EQ(trials_list("expandable_segments:True", settings), without);
    EXPECT_STR_EQ(settings[0].conf, "expandable_segments:True");
    EXPECT_EQ(settings[0].flags, ACRE_SETTING_RECORDED);
    EXPECT_EQ(count_of(without, "expandable_segments:True"), 1);
    EXPECT_EQ(trials_list("max_split_size_mb:77", settings), without + 1);
    EXPECT_LE(without + 1, TRIALS_MAX);
    EXPECT_STR_EQ(settings[0].note, "as recorded");
}

TEST(segments_that_nobody_has_cannot_stay_whole)
{
    size_t count = trials_list("", settings);
    size_t small = index_of(count, "max_split_size_mb:32");
    size_t large = index_of(count, "max_split_size_mb:128");

    memset(alike, 0, sizeof alike);
    trials_find_alike(settings, count, 50 * MIB, alike);
    EXPECT(!alike[small]);
    EXPECT(alike[large] == &settings[0]);
    settings[0].bytes_reserved_peak = 3 * MIB;
    settings[0].min_capacity_bytes = 2 * MIB;
    settings[0].fits = 1;
    trials_copy_alike(settings, count, alike);
    EXPECT_EQ(settings[small].bytes_reserved_peak, 0);
    EXPECT_EQ(settings[large].bytes_reserved_peak, 3 * MIB);
    EXPECT_EQ(settings[large].min_capacity_bytes, 2 * MIB);
    EXPECT_EQ(settings[large].fits, 1);
    trial_leave(&settings[0]);
    trials_copy_alike(settings, count, alike);
    EXPECT_EQ(settings[small].flags, 0);
    EXPECT_EQ(settings[large].flags, ACRE_SETTING_UNTRIED);
    EXPECT_EQ(settings[large].bytes_reserved_peak, 0);
    EXPECT_EQ(settings[large].min_capacity_bytes, 0);
    EXPECT_EQ(settings[large].fits, -1);
    memset(alike, 0, sizeof alike);
    trials_find_alike(settings, count, UINT64_MAX, alike);
    for (size_t i = 0; i < count; i++)
        EXPECT(!alike[i]);
}

T_MAIN()
