/* SPDX-License-Identifier: MIT */
/* Advice on a trace that fragments, on one that cannot fit, and on real recordings. */
#include "base/heap.h"
#include "replay/replay.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <acre/explain.h>

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

/* Seconds that pass with each look at the clock; 0: as many as really do. */
static atomic_int clock_pace;

/* Instead of that of the C library. */
int clock_gettime(clockid_t which, struct timespec *now)
{
    static atomic_long passed;
    long status = syscall(SYS_clock_gettime, which, now);

    if (which == CLOCK_MONOTONIC)
        now->tv_sec += atomic_fetch_add(&passed, clock_pace);
    return (int)status;
}

/* Segments of 100 MiB are cut into blocks of 42 MiB, every second of which is freed: no
 * hole takes 60 MiB, unless pages can be taken from it. */
static const char *fragmenting(void)
{
    static char text[65536];
    size_t at = 0;

    for (int i = 0; i < 12; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "a %d %d 0\n", i, 100 << 20);
    for (int i = 0; i < 12; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "f %d\n", i);
    for (int i = 12; i < 36; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "a %d %d 0\n", i, 42 << 20);
    for (int i = 12; i < 36; i += 2)
        at += (size_t)snprintf(text + at, sizeof text - at, "f %d\n", i);
    for (int i = 36; i < 44; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "a %d %d 0\n", i, 60 << 20);
    return files_write("f.trace", text, at);
}

static const acre_setting *find(const acre_advice *advice, const char *conf, acre_policy policy)
{
    for (uint64_t i = 0; i < advice->setting_count; i++)
        if (strcmp(advice->settings[i].conf, conf) == 0 &&
            advice->settings[i].policy == policy &&
            !(advice->settings[i].flags & ACRE_SETTING_PLAN))
            return &advice->settings[i];
    REQUIRE(!"found");
    return NULL;
}

TEST(fragmentation_is_told_with_a_line_to_paste)
{
    acre_advise_config config = {.struct_size = sizeof config, .device_bytes = 1500 * MIB};
    acre_advice *advice = NULL;

    REQUIRE_OK(acre_advise(fragmenting(), &config, &advice));
    EXPECT_EQ(advice->is_shortage, 0);
    EXPECT_EQ(advice->bytes_requested_peak, 1200 * MIB);
    EXPECT_EQ(advice->events, 68);
    REQUIRE(advice->recommended >= 0);
    const acre_setting *best = &advice->settings[advice->recommended];
    const acre_setting *now = find(advice, "", ACRE_POLICY_TORCH);
    EXPECT_HAS(best->conf, "expandable_segments:True");
    EXPECT_EQ(advice->saves_bytes, now->min_capacity_bytes - best->min_capacity_bytes);
    EXPECT_EQ(now->flags, ACRE_SETTING_RECORDED);
    EXPECT_EQ(best->fits, 1);
    EXPECT_HAS(advice->why, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    for (uint64_t i = 1; i < advice->setting_count; i++)
        EXPECT_LE(advice->settings[i - 1].min_capacity_bytes +
                      advice->settings[i - 1].bytes_reserved_peak,
                  advice->settings[i].min_capacity_bytes +
                      advice->settings[i].bytes_reserved_peak);
    acre_advice_destroy(advice);
    acre_advice_destroy(NULL);
}

/* Settings that keep no segment whole have the figures of replays all the same. */
TEST(settings_that_decide_alike_have_the_figures_of_replays)
{
    static const char *const confs[] = {"max_split_size_mb:64", "max_split_size_mb:128",
                                        "max_split_size_mb:512",
                                        "max_split_size_mb:128,roundup_power2_divisions:8"};
    acre_advice *advice = NULL;
    const char *path = fragmenting();

    REQUIRE_OK(acre_advise(path, NULL, &advice));
    for (size_t i = 0; i < sizeof confs / sizeof *confs; i++) {
        acre_replay_config config = {.struct_size = sizeof config,
                                     .policy = ACRE_POLICY_TORCH,
                                     .conf = confs[i],
                                     .device_bytes = (uint64_t)1 << 39,
                                     .flags = ACRE_REPLAY_MIN_CAPACITY};
        acre_replay_result result = {.struct_size = sizeof result};
        const acre_setting *setting = find(advice, confs[i], ACRE_POLICY_TORCH);
        REQUIRE_OK(acre_replay(path, &config, &result));
        EXPECT_EQ(setting->bytes_reserved_peak, result.first.bytes_reserved_peak);
        EXPECT_EQ(setting->min_capacity_bytes, result.min_capacity_bytes);
        EXPECT_EQ(setting->fits, -1);
    }
    acre_advice_destroy(advice);
}

/* The recorded settings decide as PyTorch's defaults here: they are what the job is known from. */
TEST(recorded_settings_that_change_nothing_are_tried_too)
{
    static const char text[] =
        "{\"segments\": [], \"device_traces\": [["
        "{\"action\": \"segment_alloc\", \"addr\": 2097152, \"size\": 2097152, \"stream\": 0},"
        "{\"action\": \"alloc\", \"addr\": 2097152, \"size\": 4096, \"stream\": 0},"
        "{\"action\": \"free_requested\", \"addr\": 2097152, \"size\": 4096, \"stream\": 0},"
        "{\"action\": \"free_completed\", \"addr\": 2097152, \"size\": 4096, \"stream\": 0},"
        "{\"action\": \"segment_free\", \"addr\": 2097152, \"size\": 2097152, \"stream\": 0}]],"
        "\"allocator_settings\": {\"max_split_size\": 536870912}}";
    acre_advice *advice = NULL;

    REQUIRE_OK(acre_advise(files_write("set.json", text, sizeof text - 1), NULL, &advice));
    EXPECT_STR_EQ(advice->recorded_conf, "max_split_size_mb:512");
    EXPECT(advice->events >= 2);
    EXPECT_EQ(advice->bytes_requested_peak, 4096);
    EXPECT_EQ(find(advice, "", ACRE_POLICY_TORCH)->bytes_reserved_peak, 2 * MIB);
    acre_advice_destroy(advice);
}

TEST(shortage_is_told_plainly)
{
    acre_advise_config config = {.struct_size = sizeof config, .device_bytes = 1100 * MIB};
    acre_advice *advice = NULL;

    REQUIRE_OK(acre_advise(fragmenting(), &config, &advice));
    EXPECT_EQ(advice->is_shortage, 1);
    EXPECT_EQ(advice->recommended, -1);
    EXPECT_HAS(advice->why, "no setting can help");
    for (uint64_t i = 0; i < advice->setting_count; i++)
        EXPECT_EQ(advice->settings[i].fits, 0);
    acre_advice_destroy(advice);
}

/* As on a machine with 64 processors. */
TEST(many_threads_find_addresses_for_their_devices)
{
    acre_advise_config config = {.struct_size = sizeof config, .threads = 64};
    static char text[1 << 20];
    acre_advice *advice = NULL;
    size_t at = 0;

    for (int i = 0; i < 20000; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "a %d %d 0\nf %d\n", i,
                               (i % 999 + 1) << 10, i);
    REQUIRE_OK(acre_advise(files_write("long.trace", text, at), &config, &advice));
    EXPECT_EQ(advice->events, 40000);
    acre_advice_destroy(advice);
}

/* Growing segments reserve addresses for every stream, on as many devices as there are threads. */
TEST(many_streams_have_the_same_figures_on_many_threads)
{
    acre_advise_config config = {.struct_size = sizeof config};
    acre_advice *alone = NULL, *together = NULL;
    char text[8192];
    size_t at = 0;

    for (int i = 0; i < 120; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "a %d %d %d\n", i,
                               i % 2 ? 3000000 : 600, i / 2);
    const char *path = files_write("streams.trace", text, at);
    config.threads = 1;
    REQUIRE_OK(acre_advise(path, &config, &alone));
    config.threads = 7;
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(acre_advise(path, &config, &together));
        for (uint64_t j = 0; j < alone->setting_count; j++) {
            EXPECT_STR_EQ(together->settings[j].conf, alone->settings[j].conf);
            EXPECT_EQ(together->settings[j].bytes_reserved_peak,
                      alone->settings[j].bytes_reserved_peak);
            EXPECT_EQ(together->settings[j].min_capacity_bytes,
                      alone->settings[j].min_capacity_bytes);
        }
        acre_advice_destroy(together);
    }
    acre_advice_destroy(alone);
}

/* Blocks of 100 GiB: eight at once are more than the ample memory of usual jobs, sixty more than
 * any device that can be simulated. */
TEST(jobs_of_terabytes_are_answered_or_refused)
{
    acre_advise_config config = {.struct_size = sizeof config, .threads = 4};
    acre_advice *advice = NULL;
    char text[4096];
    size_t at = 0;

#if ACRE_CHECK >= 2
    T_SKIP("walking 400,000 pages after every call takes an hour");
#endif
    for (int i = 0; i < 60; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "a %d 107374182400 0\n", i);
        if (i != 7)
            continue;
        REQUIRE_OK(acre_advise(files_write("8.trace", text, at), &config, &advice));
        EXPECT_EQ(find(advice, "", ACRE_POLICY_TORCH)->bytes_reserved_peak, 800 * 1024 * MIB);
        EXPECT_EQ(find(advice, "", ACRE_POLICY_TORCH)->min_capacity_bytes, 800 * 1024 * MIB);
        acre_advice_destroy(advice);
    }
    const char *path = files_write("60.trace", text, at);
    EXPECT_EQ(acre_advise(path, &config, &advice), ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "6000.00 GiB are live at once");
    EXPECT(!strstr(acre_last_error(), "shortage"));
    config.device_bytes = 80 * 1024 * MIB;
    EXPECT_EQ(acre_advise(path, &config, &advice), ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "a true shortage on one of 80.00 GiB");
}

/* The figures that PyTorch's own allocator gave for this recording. */
TEST(a_real_recording_gives_the_known_figures)
{
    const char *path = t_shared("snapshots/ZidongLiu-DeComFL-memory.pickle.gz");
    acre_advise_config config = {.struct_size = sizeof config};
    acre_advice *advice = NULL;

    if (!path)
        T_SKIP("no snapshots at hand");
    REQUIRE_OK(acre_advise(path, &config, &advice));
    EXPECT_EQ(advice->bytes_requested_peak, 1783664516);
    EXPECT_EQ(advice->recorded_reserved_peak, 1897922560);
    const acre_setting *setting = find(advice, "", ACRE_POLICY_TORCH);
    EXPECT_EQ(setting->bytes_reserved_peak, 1897922560);
    EXPECT_EQ(setting->min_capacity_bytes, 1782 * MIB);
    EXPECT_EQ(setting->fits, -1);
    setting = find(advice, "expandable_segments:True", ACRE_POLICY_TORCH);
    EXPECT_EQ(setting->bytes_reserved_peak, 1809842176);
    EXPECT_EQ(setting->min_capacity_bytes, 1704 * MIB);
    EXPECT_EQ(find(advice, "max_split_size_mb:64", ACRE_POLICY_TORCH)->bytes_reserved_peak,
              2032140288);
    EXPECT_EQ(find(advice, "roundup_power2_divisions:4", ACRE_POLICY_TORCH)->bytes_reserved_peak,
              2153775104);
    acre_advice_destroy(advice);
}

/* Compares what was tried with the advice of one who has time; gives how many were not. */
static uint64_t compare_tried(const acre_advice *advice, const acre_advice *whole,
                              uint64_t *out_drawn)
{
    uint64_t left = 0;

    EXPECT_EQ(advice->setting_count, whole->setting_count);
    for (uint64_t i = 0; i < advice->setting_count; i++) {
        const acre_setting *setting = &advice->settings[i], *same = whole->settings;
        bool is_left = setting->flags & ACRE_SETTING_UNTRIED;
        while (strcmp(same->conf, setting->conf) != 0 || same->policy != setting->policy)
            same++;
        EXPECT_EQ(setting->bytes_reserved_peak, is_left ? 0 : same->bytes_reserved_peak);
        EXPECT_EQ(setting->min_capacity_bytes, is_left ? 0 : same->min_capacity_bytes);
        EXPECT_EQ(setting->fits, is_left ? -1 : same->fits);
        EXPECT(!is_left || !(setting->flags & ACRE_SETTING_RECORDED));
        EXPECT(!left || is_left); /* they stand last */
        left += is_left;
        for (uint32_t p = 0; p < advice->curve_points; p++) { /* as with time enough, or none */
            uint64_t first = advice->curves[i][0] ? whole->curves[same - whole->settings][p] : 0;
            EXPECT_EQ(advice->curves[i][p], first);
        }
        EXPECT(!is_left || !advice->curves[i][0]);
        *out_drawn += advice->curves[i][0] > 0;
    }
    return left;
}

/* The clock advances by one second with each look at it, so that no real time plays a part: from no
 * time at all to enough. */
TEST(a_limit_of_time_leaves_settings_and_says_so)
{
    acre_advise_config config = {.struct_size = sizeof config, .threads = 1,
                                 .device_bytes = 1500 * MIB, .flags = ACRE_ADVISE_CURVES};
    const char *path = fragmenting();
    acre_advice *whole = NULL, *advice = NULL;
    uint64_t left = UINT64_MAX, live = heap_live_count();
    int refused = 0, partial = 0;

    REQUIRE_OK(acre_advise(path, &config, &whole));
    EXPECT(!strstr(whole->why, "time"));
    clock_pace = 1;
    for (config.seconds = 0.5; left > 0; config.seconds *= 1.2) {
        REQUIRE(config.seconds < 1e6);
        acre_status status = acre_advise(path, &config, &advice);
        if (status == ACRE_ERR_TIMEOUT) {
            EXPECT_HAS(acre_last_error(), "before the present settings were tried");
            EXPECT_HAS(acre_last_error(), "1.17 GiB or more are live at once");
            EXPECT(!partial);
            refused++;
            continue;
        }
        REQUIRE_OK(status);
        uint64_t drawn = 0;
        left = compare_tried(advice, whole, &drawn);
        EXPECT_LE(drawn, advice->setting_count - left);
        EXPECT_EQ(left > 0, strstr(advice->why, "The time was over before") != NULL);
        partial += left > 0;
        acre_advice_destroy(advice);
    }
    clock_pace = 0;
    EXPECT(refused > 0 && partial > 1);
    acre_advice_destroy(whole);
    EXPECT_EQ(heap_live_count(), live);
    config.seconds = -1;
    EXPECT_EQ(acre_advise(path, &config, &advice), ACRE_ERR_INVALID);
}

TEST(refusals_leave_nothing_behind)
{
    acre_advice *advice = NULL;
    acre_advise_config config = {.struct_size = 4};
    uint64_t live = heap_live_count();

    EXPECT_EQ(acre_advise(NULL, NULL, &advice), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_advise("x", &config, &advice), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_advise("/nowhere", NULL, &advice), ACRE_ERR_IO);
    EXPECT_EQ(acre_advise(files_write("s.json", "{\"segments\":[]}", 15), NULL, &advice),
              ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_advise(files_write("bad.trace", "a 1 0 0\n", 8), NULL, &advice),
              ACRE_ERR_FORMAT);
    EXPECT_EQ(heap_live_count(), live);
}

T_MAIN()
