/* SPDX-License-Identifier: MIT */
/* Options: table, sources, what a new string resets (B20, B136 to B143). */
#include "cache/conf.h"

#include "base/text.h"
#include "tests/support/lab.h"

static struct cache_conf conf;

/* Reads a string on top of the defaults. */
static acre_status fresh(const char *text)
{
    cache_conf_init(&conf);
    return cache_conf_read(&conf, "test", text, NULL);
}

TEST(B136_max_split_needs_a_large_segment)
{
    EXPECT_EQ(fresh("max_split_size_mb:19"), ACRE_ERR_CONFIG);
    EXPECT_HAS(acre_last_error(), "max_split_size_mb");
    EXPECT_EQ(fresh("max_split_size_mb:20"), ACRE_OK);
    EXPECT_EQ(conf.max_split_bytes, 20 * MIB);
    EXPECT_EQ(fresh("large_segment_size_mb:11,max_split_size_mb:11"), ACRE_OK);
    EXPECT_EQ(fresh("max_split_size_mb:11,large_segment_size_mb:11"), ACRE_OK);
    EXPECT_EQ(conf.max_split_bytes, 11 * MIB);
    EXPECT_EQ(conf.large_segment_bytes, 11 * MIB);
    EXPECT_EQ(cache_conf_rounding(&conf), 11 * MIB);
    EXPECT_EQ(fresh("large_segment_size_mb:10"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("max_non_split_rounding_mb:19"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("max_non_split_rounding_mb:20"), ACRE_OK);
    EXPECT_EQ(fresh("max_split_size_mb:18446744073709551615"), ACRE_OK);
    EXPECT_EQ(cache_conf_signed(conf.max_split_bytes), -1);
}

TEST(B137_thresholds)
{
    EXPECT_EQ(fresh("garbage_collection_threshold:0"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("garbage_collection_threshold:1"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("garbage_collection_threshold:nan"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("garbage_collection_threshold:1e-9"), ACRE_OK);
    EXPECT_EQ(fresh("garbage_collection_threshold:0.999"), ACRE_OK);
    EXPECT(conf.gc_threshold == 0.999);
    EXPECT_EQ(fresh("per_process_memory_fraction:0"), ACRE_OK);
    EXPECT_EQ(fresh("per_process_memory_fraction:1"), ACRE_OK);
    EXPECT_EQ(fresh("per_process_memory_fraction:1.01"), ACRE_ERR_CONFIG);
}

TEST(B138_register_threads)
{
    EXPECT_EQ(fresh("pinned_num_register_threads:0"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("pinned_num_register_threads:3"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("pinned_num_register_threads:256"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("pinned_num_register_threads:128"), ACRE_OK);
    EXPECT_EQ(conf.pinned_num_register_threads, 128);
}

TEST(B139_booleans)
{
    EXPECT_EQ(fresh("expandable_segments:true"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("expandable_segments:1"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("expandable_segments:True"), ACRE_OK);
    EXPECT(conf.is_expandable);
    EXPECT_EQ(fresh("release_lock_on_hipmalloc:True"), ACRE_OK);
    EXPECT(conf.drops_lock);
}

TEST(B140_keys_and_commas)
{
    EXPECT_EQ(fresh("no_such_key:1"), ACRE_ERR_CONFIG);
    EXPECT_HAS(acre_last_error(), "no_such_key");
    EXPECT_EQ(fresh("max_split_size_mb:40,"), ACRE_OK);
    EXPECT_EQ(fresh("max_split_size_mb:40,,"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("max_split_size_mb,40"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("max_split_size_mb:-1"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("max_split_size_mb:40x"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh(" max_split_size_mb : 4 0 "), ACRE_OK);
    EXPECT_EQ(conf.max_split_bytes, 40 * MIB);
    EXPECT_EQ(fresh(""), ACRE_OK);
}

TEST(B141_a_new_string_resets_some_and_keeps_others)
{
    REQUIRE_OK(fresh("max_split_size_mb:40,max_non_split_rounding_mb:50,"
                     "garbage_collection_threshold:0.5,roundup_power2_divisions:4,"
                     "expandable_segments:True,large_segment_size_mb:30,"
                     "pinned_max_cached_size_mb:7,throw_on_cudamalloc_oom:True"));
    REQUIRE_OK(cache_conf_read(&conf, "test", "pinned_use_background_threads:True", NULL));
    EXPECT_EQ(conf.max_split_bytes, UINT64_MAX);
    EXPECT_EQ(cache_conf_rounding(&conf), 30 * MIB);
    EXPECT(conf.gc_threshold == 0);
    EXPECT_EQ(conf.divisions[5], 0);
    EXPECT(conf.is_expandable && conf.is_rejecting && conf.pinned_uses_background_threads);
    EXPECT_EQ(conf.large_segment_bytes, 30 * MIB);
    EXPECT_EQ(conf.pinned_max_cached_bytes, 7 * MIB);
}

TEST(a_bad_string_changes_nothing)
{
    struct cache_conf before;

    REQUIRE_OK(fresh("max_split_size_mb:40,garbage_collection_threshold:0.5"));
    before = conf;
    EXPECT_EQ(cache_conf_read(&conf, "test", "large_segment_size_mb:30,max_split_size_mb:x", NULL),
              ACRE_ERR_CONFIG);
    EXPECT_EQ(cache_conf_read(&conf, "test", "large_segment_size_mb:50,max_split_size_mb:40",
                              NULL), ACRE_ERR_CONFIG);
    EXPECT(memcmp(&before, &conf, sizeof conf) == 0);
}

/* ---- Divisions ------------------------------------------------------------------- */

static void expect_divisions(const char *text, const int *expected)
{
    char option[128];

    snprintf(option, sizeof option, "roundup_power2_divisions:%s", text);
    REQUIRE_OK(fresh(option));
    for (int i = 0; i < CONF_DIVISION_COUNT; i++)
        EXPECT_EQ(conf.divisions[i], expected[i]);
}

TEST(B20_divisions_of_both_forms)
{
    expect_divisions("4", (int[]){4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
    expect_divisions("1", (int[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    expect_divisions("[256:1,512:2,1024:4,>:8]",
                     (int[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8});
    expect_divisions("[64:8,256:4]", (int[]){8, 8, 8, 8, 8, 8, 8, 0, 4, 0, 0, 0, 0, 0, 0, 0});
    expect_divisions("[>:4]", (int[]){0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
    expect_divisions("[512:2,256:4,>:8]",
                     (int[]){2, 2, 2, 2, 2, 2, 2, 2, 4, 8, 8, 8, 8, 8, 8, 8});
    EXPECT_EQ(fresh("roundup_power2_divisions:0"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("roundup_power2_divisions:3"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("roundup_power2_divisions:[3:2]"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("roundup_power2_divisions:[4:3]"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("roundup_power2_divisions:[4]"), ACRE_ERR_CONFIG);
    EXPECT_EQ(fresh("roundup_power2_divisions:[4:0]"), ACRE_OK);
    EXPECT_EQ(fresh("roundup_power2_divisions:[4294967296:2]"), ACRE_ERR_CONFIG);
}

/* ---- Sources ------------------------------------------------------------------------ */

static const char *const variables[] = {"ACRE_CONF", "PYTORCH_CUDA_ALLOC_CONF",
                                        "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};

/* Sets the four variables; NULL unsets. */
static void environment(const char *acre, const char *cuda, const char *hip,
                        const char *generic)
{
    const char *const values[] = {acre, cuda, hip, generic};

    for (int i = 0; i < 4; i++) {
        if (values[i])
            setenv(variables[i], values[i], 1);
        else
            unsetenv(variables[i]);
    }
}

static uint64_t loaded_split_mib(const acre_cache_config *config)
{
    const char *text;
    uint64_t given;

    REQUIRE_OK(cache_conf_load(&conf, config, &text, &given));
    return conf.max_split_bytes / MIB;
}

TEST(B142_which_variable_counts)
{
    acre_cache_config fields = {.max_split_bytes = 60 * MIB};
    acre_cache_config quiet = {.flags = ACRE_CACHE_NO_ENVIRONMENT,
                               .conf = "max_split_size_mb:70"};

    environment(NULL, "max_split_size_mb:21", "max_split_size_mb:22", "max_split_size_mb:23");
    EXPECT_EQ(loaded_split_mib(NULL), 21);
    environment(NULL, NULL, "max_split_size_mb:22", "max_split_size_mb:23");
    EXPECT_EQ(loaded_split_mib(NULL), 22);
    environment(NULL, NULL, NULL, "max_split_size_mb:23");
    EXPECT_EQ(loaded_split_mib(NULL), 23);
    EXPECT_EQ(loaded_split_mib(&fields), 60);
    environment("max_split_size_mb:20", "no_such_option:1", NULL, NULL);
    EXPECT_EQ(loaded_split_mib(NULL), 20);
    EXPECT_EQ(loaded_split_mib(&fields), 20);
    EXPECT_EQ(loaded_split_mib(&quiet), 70);
    environment(NULL, NULL, NULL, NULL);
}

TEST(B142_backend_is_fixed)
{
    struct lab lab;
    acre_cache *cache;

    lab_open(&lab, "backend:native");
    EXPECT_EQ(acre_cache_conf_set(lab.cache, "backend:cudaMallocAsync"), ACRE_ERR_CONFIG);
    EXPECT_EQ(acre_cache_conf_set(lab.cache, "backend:other"), ACRE_ERR_CONFIG);
    EXPECT_EQ(acre_cache_conf_set(lab.cache, "policy:acre"), ACRE_ERR_CONFIG);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "backend:native,policy:torch"));
    environment(NULL, "no_such_option:1", NULL, NULL);
    EXPECT_EQ(acre_cache_create(fake_device(lab.fake, 0), NULL, &cache), ACRE_ERR_CONFIG);
    EXPECT_HAS(acre_last_error(), "PYTORCH_CUDA_ALLOC_CONF");
    environment(NULL, NULL, NULL, NULL);
    lab_close(&lab);
}

TEST(B143_max_split_size_of_the_statistics)
{
    struct lab lab;

    lab_open(&lab, NULL);
    EXPECT_EQ(COUNT(&lab, max_split_size), -1);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "max_split_size_mb:40"));
    EXPECT_EQ(COUNT(&lab, max_split_size), -1);
    acre_cache_stats_reset_accumulated(lab.cache);
    EXPECT_EQ(COUNT(&lab, max_split_size), -1);
    lab_close(&lab);
    lab_open(&lab, "max_split_size_mb:40");
    acre_cache_stats_reset_accumulated(lab.cache);
    EXPECT_EQ(COUNT(&lab, max_split_size), 40 * MIB);
    lab_close(&lab);
}

TEST(the_last_string_can_be_read)
{
    char buffer[64];
    struct lab lab;

    lab_open(&lab, "max_split_size_mb:40");
    EXPECT_EQ(acre_cache_conf_get(lab.cache, buffer, sizeof buffer), 20);
    EXPECT_STR_EQ(buffer, "max_split_size_mb:40");
    EXPECT_EQ(acre_cache_conf_set(lab.cache, "bad:1"), ACRE_ERR_CONFIG);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "expandable_segments:False"));
    EXPECT_EQ(acre_cache_conf_get(lab.cache, buffer, 4), 25);
    EXPECT_STR_EQ(buffer, "exp");
    lab_close(&lab);
}

static int line_count;
static char line_text[256];

static void take_line(void *arg, acre_log_level level, const char *text)
{
    (void)arg;
    (void)level;
    line_count++;
    snprintf(line_text, sizeof line_text, "%s", text);
}

TEST(an_unused_option_is_named_once)
{
    uint64_t given;

    cache_conf_init(&conf);
    conf.policy = ACRE_POLICY_TORCH;
    acre_log_set(take_line, NULL, ACRE_LOG_WARN);
    REQUIRE_OK(cache_conf_read(&conf, "test", "cross_stream_reuse:False", &given));
    cache_conf_report_unused(ACRE_POLICY_TORCH, given);
    cache_conf_report_unused(ACRE_POLICY_TORCH, given);
    cache_conf_report_unused(ACRE_POLICY_ACRE, given);
    EXPECT_EQ(line_count, 1);
    EXPECT_HAS(line_text, "cross_stream_reuse");
    EXPECT_HAS(line_text, "torch");
    acre_log_set(NULL, NULL, ACRE_LOG_ERROR);
}

T_MAIN()
