/* SPDX-License-Identifier: MIT */
/* Policy torch on recorded traces against what PyTorch's own allocator gave:
 * every figure of expected.json, to the byte.
 *
 * The normal run takes three traces and leaves the search for the smallest
 * capacity to one of them; ACRE_TEST_LONG=1 takes everything,
 * except where every structure is walked after every call. */
#include <acre/trace.h>

#include "base/bits.h"
#include "tests/support/json.h"
#include "tests/support/t.h"

static struct json *expected;
static int compared;

/* In the normal run: traces with their figures, and those searched as well. */
static bool is_wanted(const char *trace, bool searches)
{
    static const char *const short_run[] = {"resnet50_sgd", "lstm_lm_tbptt", "fasterrcnn_varsize"};

    if (t_count(0, 1) && t_slowness() < 50)
        return true;
    for (int i = 0; i < (searches || t_slowness() > 1 ? 1 : 3); i++)
        if (strcmp(trace, short_run[i]) == 0)
            return true;
    return false;
}

static void compare(const char *where, const struct json *figures, const char *name,
                    uint64_t got)
{
    const struct json *want = json_get(figures, name);

    if (!want || want->kind != JSON_NUMBER)
        t_fail(__FILE__, __LINE__, "%s: no %s in expected.json", where, name);
    else if ((uint64_t)want->number != got)
        t_fail(__FILE__, __LINE__, "%s: %s is %llu, PyTorch's is %.0f", where, name,
               (unsigned long long)got, want->number);
    compared++;
}

static void compare_pass(const char *where, const struct json *figures,
                         const acre_replay_pass *pass)
{
    compare(where, figures, "events", pass->events);
    compare(where, figures, "bytes_requested_peak", pass->bytes_requested_peak);
    compare(where, figures, "bytes_allocated_peak", pass->bytes_allocated_peak);
    compare(where, figures, "bytes_reserved_peak", pass->bytes_reserved_peak);
    compare(where, figures, "segments", pass->segments);
    compare(where, figures, "device_allocs", pass->device_allocs);
    compare(where, figures, "device_frees", pass->device_frees);
    compare(where, figures, "creates", pass->maps);
    compare(where, figures, "unmaps", pass->unmaps);
    compare(where, figures, "retries", pass->retries);
    compare(where, figures, "ooms", pass->ooms);
}

/* Splits "conf @NMiB" and turns "default" into no options. */
static void read_setting(const char *setting, char conf[256], uint64_t *device_bytes)
{
    const char *at = strstr(setting, " @");

    *device_bytes = at ? strtoull(at + 2, NULL, 10) * MIB : 0;
    snprintf(conf, 256, "%.*s", (int)(at ? at - setting : (ptrdiff_t)strlen(setting)), setting);
    if (strcmp(conf, "default") == 0)
        conf[0] = '\0';
}

static void compare_setting(const char *trace, const char *path, const struct json *setting)
{
    acre_replay_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH};
    acre_replay_result result = {.struct_size = sizeof result};
    const struct json *warm = json_get(setting, "warm"), *at_min = json_get(setting, "at_min");
    char conf[256], where[512];

    snprintf(where, sizeof where, "%s, %s", trace, setting->name);
    read_setting(setting->name, conf, &config.device_bytes);
    config.conf = conf;
    config.repeat = warm ? 2 : 1;
    bool searches = at_min && is_wanted(trace, true);
    config.flags = searches ? ACRE_REPLAY_MIN_CAPACITY : 0;
    acre_status status = acre_replay(path, &config, &result);
    if (status == ACRE_ERR_UNSUPPORTED)
        T_SKIP("%s", acre_last_error());
    if (status != ACRE_OK) {
        t_fail(__FILE__, __LINE__, "%s: %s", where, acre_last_error());
        return;
    }
    compare_pass(where, setting, &result.first);
    if (warm) {
        strncat(where, ", warm", 10);
        compare_pass(where, warm, &result.warm);
    }
    if (searches) {
        snprintf(where, sizeof where, "%s, %s, smallest capacity", trace, setting->name);
        compare(where, setting, "min_capacity_mib", result.min_capacity_bytes / MIB);
        config.device_bytes = result.min_capacity_bytes;
        config.flags = 0;
        config.repeat = 1;
        REQUIRE_OK(acre_replay(path, &config, &result));
        compare_pass(where, at_min, &result.first);
    }
}

static void compare_trace(const char *trace)
{
    char name[256], path[4096];
    const char *found = t_shared("traces/expected.json");

    if (!found)
        T_SKIP("traces/expected.json is not there; ACRE_SHARED names its folder");
    if (!is_wanted(trace, false))
        T_SKIP("%s is compared under ACRE_TEST_LONG=1", trace);
    if (!expected)
        expected = json_read_file(found);
    REQUIRE_EQ(expected != NULL, 1);
    snprintf(name, sizeof name, "traces/public/%s.trace.gz", trace);
    found = t_shared(name);
    if (!found)
        T_SKIP("%s is not there", name);
    snprintf(path, sizeof path, "%s", found);
    const struct json *settings = json_get(expected, trace);
    REQUIRE_EQ(settings && settings->child, 1);
    compared = 0;
    for (const struct json *setting = settings->child; setting; setting = setting->next)
        compare_setting(trace, path, setting);
    printf("  %d figures compared\n", compared);
    EXPECT_GE(compared, 10 * 11);
}

TEST(resnet50_sgd)
{
    compare_trace("resnet50_sgd");
}

TEST(lstm_lm_tbptt)
{
    compare_trace("lstm_lm_tbptt");
}

TEST(fasterrcnn_varsize)
{
    compare_trace("fasterrcnn_varsize");
}

TEST(gpt12_varlen_adam)
{
    compare_trace("gpt12_varlen_adam");
}

TEST(gpt12_varlen_ckpt)
{
    compare_trace("gpt12_varlen_ckpt");
}

TEST(kvcache_serving)
{
    compare_trace("kvcache_serving");
}

TEST(unet_ddpm)
{
    compare_trace("unet_ddpm");
}

/* Peak reserved above requested, in tenths of a percent, with every allocation
 * moved to stream i mod 4, as PyTorch's allocator gave it. */
TEST(four_streams)
{
    static const struct {
        const char *trace;
        int waste;
    } want[] = {{"resnet50_sgd", 256},      {"lstm_lm_tbptt", 2706},    {"fasterrcnn_varsize", 327},
                {"gpt12_varlen_adam", 511}, {"gpt12_varlen_ckpt", 2727}, {"kvcache_serving", 411},
                {"unet_ddpm", 506}};
    acre_replay_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                 .streams = 4};
    acre_replay_result result = {.struct_size = sizeof result};
    char name[256];

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        snprintf(name, sizeof name, "traces/public/%s.trace.gz", want[i].trace);
        const char *path = t_shared(name);
        if (!path)
            T_SKIP("%s is not there", name);
        if (!is_wanted(want[i].trace, false))
            continue;
        acre_status status = acre_replay(path, &config, &result);
        if (status == ACRE_ERR_UNSUPPORTED)
            T_SKIP("%s", acre_last_error());
        REQUIRE_EQ(status, ACRE_OK);
        int waste = (int)((result.first.waste_ppm + 500) / 1000);
        if (waste != want[i].waste)
            t_fail(__FILE__, __LINE__, "%s: %d, not %d", want[i].trace, waste, want[i].waste);
    }
}

/* A trace or setting that this program does not know must not go unnoticed. */
TEST(every_trace_of_the_file_has_a_test)
{
    const char *found = t_shared("traces/expected.json");
    int count = 0;

    if (!found)
        T_SKIP("traces/expected.json is not there; ACRE_SHARED names its folder");
    if (!expected)
        expected = json_read_file(found);
    REQUIRE_EQ(expected != NULL, 1);
    for (const struct json *trace = expected->child; trace; trace = trace->next)
        count++;
    EXPECT_EQ(count, 7);
    json_free(expected);
    expected = NULL;
}

T_MAIN()
