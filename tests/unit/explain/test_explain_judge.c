/* SPDX-License-Identifier: MIT */
/* Which setting is recommended, and what the paragraph admits. */
#include "explain/judge.h"
#include "tests/support/t.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)

/* The present settings first; what each reserves and needs in MiB. */
static acre_setting settings[4];
static acre_advice advice;
static char text[4096];
static struct notes notes;
static uint64_t failed_mib; /* the request that failed; 0: none */

static void judge(uint64_t device_mib)
{
    struct judgement judgement = {.advice = &advice, .settings = settings, .notes = &notes,
                                  .text = text, .text_bytes = sizeof text,
                                  .is_recorded_device = device_mib <= 1000};

    advice = (acre_advice){.setting_count = 4, .device_bytes = device_mib * MIB,
                           .bytes_requested_peak = 700 * MIB, .wanted_peak_bytes = 700 * MIB,
                           .allocator = "PyTorch", .failed_stack = "", .device_reason = ""};
    for (int i = 0; i < 4; i++)
        settings[i].fits =
            device_mib ? settings[i].min_capacity_bytes <= device_mib * MIB : -1;
    advice.failed_bytes = failed_mib * MIB;
    for (int i = 0; i < 4; i++)
        if (failed_mib && settings[i].reserved) /* marked by the test: no room in one piece */
            settings[i].fits = 0;
    REQUIRE_OK(judge_settings(&judgement));
}

static void set(int i, const char *conf, uint64_t reserved, uint64_t needs)
{
    settings[i] = (acre_setting){.conf = conf, .note = "", .policy = ACRE_POLICY_TORCH,
                                 .bytes_reserved_peak = reserved * MIB,
                                 .min_capacity_bytes = needs * MIB};
}

static const char *recommended(void)
{
    return advice.recommended < 0 ? "none" : advice.settings[advice.recommended].conf;
}

TEST(a_gain_below_two_percent_is_no_reason)
{
    set(0, "", 1000, 1000);
    set(1, "expandable_segments:True", 990, 985);
    set(2, "max_split_size_mb:32", 1000, 981);
    set(3, "roundup_power2_divisions:8", 1100, 1100);
    judge(0);
    EXPECT_STR_EQ(recommended(), "none");
    EXPECT_HAS(advice.why, "noticeably less");
}

TEST(the_simplest_of_equals_is_taken)
{
    set(0, "", 1000, 1000);
    set(1, "expandable_segments:True,roundup_power2_divisions:8", 899, 899);
    set(2, "expandable_segments:True", 900, 900);
    set(3, "max_split_size_mb:32", 950, 950);
    judge(0);
    EXPECT_STR_EQ(recommended(), "expandable_segments:True");
    EXPECT_EQ(advice.saves_bytes, 100 * MIB);
    EXPECT_HAS(advice.why, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n");
}

TEST(what_reserves_more_is_not_recommended)
{
    set(0, "", 1000, 1000);
    set(1, "max_split_size_mb:32", 1350, 900);
    set(2, "max_split_size_mb:64", 1001, 950);
    set(3, "roundup_power2_divisions:8", 1100, 1100);
    judge(0);
    EXPECT_STR_EQ(recommended(), "none");
    judge(1200); /* the present settings fit */
    EXPECT_STR_EQ(recommended(), "none");
}

TEST(unless_nothing_else_fits_and_then_it_is_said)
{
    set(0, "", 1000, 1000);
    set(1, "max_split_size_mb:32", 1350, 900);
    set(2, "roundup_power2_divisions:8", 1100, 1100);
    set(3, "roundup_power2_divisions:4", 1100, 1100);
    judge(950);
    EXPECT_STR_EQ(recommended(), "max_split_size_mb:32");
    EXPECT_HAS(advice.why, "more than now");
    EXPECT_HAS(advice.why, "It fits the device of 950.00 MiB");
}

/* What serves the request that failed and changes nothing else is not said to save 0 bytes. */
TEST(the_request_that_failed_is_a_reason_of_its_own)
{
    set(0, "", 900, 900);
    set(1, "expandable_segments:True", 900, 900);
    set(2, "max_split_size_mb:32", 1740, 900);
    set(3, "roundup_power2_divisions:8", 960, 960);
    settings[0].reserved = settings[3].reserved = 1;
    failed_mib = 200;
    judge(1000);
    EXPECT_STR_EQ(recommended(), "expandable_segments:True");
    EXPECT(!strstr(advice.why, "0 bytes"));
    EXPECT_HAS(advice.why, "finds no room in one piece");
    EXPECT_HAS(advice.why, "the request of 200.00 MiB that failed is served");
    failed_mib = 0;
}

/* A job that fits by its own settings failed for another reason; on a larger device it is no
 * wonder that it fits. */
TEST(a_failure_that_no_setting_explains_is_said_to_be_one)
{
    set(0, "", 400, 400);
    set(1, "expandable_segments:True", 400, 400);
    set(2, "max_split_size_mb:32", 400, 400);
    set(3, "roundup_power2_divisions:8", 420, 420);
    failed_mib = 300;
    judge(1000);
    EXPECT_STR_EQ(recommended(), "none");
    EXPECT_HAS(advice.why, "not what stood in its way");
    judge(2000);
    EXPECT(!strstr(advice.why, "stood in its way"));
    EXPECT_HAS(advice.why, "the request of 300.00 MiB that failed is served");
    failed_mib = 0;
}

TEST(settings_are_ranked_by_both_figures)
{
    set(0, "a", 1000, 1000);
    set(1, "b", 1500, 900);
    set(2, "c", 990, 995);
    set(3, "d", 1000, 0);
    settings[3].min_capacity_bytes = 0;
    judge(0);
    EXPECT_STR_EQ(advice.settings[0].conf, "c");
    EXPECT_STR_EQ(advice.settings[1].conf, "a");
    EXPECT_STR_EQ(advice.settings[2].conf, "b");
    EXPECT_STR_EQ(advice.settings[3].conf, "d");
}

/* What there was no time for has no figures: it stands last, is not advised, and is said. */
TEST(settings_that_were_not_tried_are_said_to_be_left)
{
    set(0, "", 1000, 1000);
    set(1, "a", 0, 0);
    set(2, "b", 1500, 900);
    set(3, "c", 2000, 0); /* tried: no capacity is enough */
    settings[1].flags = ACRE_SETTING_UNTRIED;
    judge(0);
    EXPECT_STR_EQ(recommended(), "none");
    EXPECT_STR_EQ(advice.settings[2].conf, "c");
    EXPECT_STR_EQ(advice.settings[3].conf, "a");
    EXPECT_HAS(advice.why, "before 1 of 4 settings were tried");
    EXPECT_HAS(advice.why, "no other that was tried");
    settings[3].flags = 0;
    judge(0);
    EXPECT(!strstr(advice.why, "tried"));
}

TEST(a_difference_that_rounding_hides_is_written_in_full)
{
    struct judgement judgement = {.advice = &advice, .settings = settings, .notes = &notes,
                                  .text = text, .text_bytes = sizeof text};

    set(0, "", 1000, 1000);
    advice = (acre_advice){.setting_count = 1, .device_bytes = 1700 * MIB,
                           .bytes_requested_peak = 1700 * MIB + 4096,
                           .wanted_peak_bytes = 1700 * MIB + 4096, .allocator = "PyTorch"};
    REQUIRE_OK(judge_settings(&judgement));
    EXPECT_HAS(advice.why, "1782583296 bytes are live at the peak, more than the 1782579200 bytes");
    notes_fini(&notes);
}

T_MAIN()
