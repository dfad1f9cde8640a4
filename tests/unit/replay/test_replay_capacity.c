/* SPDX-License-Identifier: MIT */
/* The smallest capacity: the same answer with fewer replays. */
#include "replay/capacity.h"

#include "base/bits.h"
#include "tests/support/dice.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <acre/trace.h>

/* ---- The search alone ------------------------------------------------------------- */

/* A device of which every capacity that is even and below 1000 works by chance, as more memory
 * does not always help; each trial stands for a few neighbours. */
struct odd_device {
    unsigned tries;
    bool has_spans;
};

static bool odd_fits(uint64_t mib)
{
    return mib >= 1000 || (mib / 8) % 5 == 1;
}

static acre_status odd_try(void *arg, uint64_t mib, struct capacity_span *out)
{
    struct odd_device *device = arg;

    device->tries++;
    *out = (struct capacity_span){mib, mib, odd_fits(mib)};
    if (device->has_spans) {
        out->from_mib = mib / 8 * 8;
        out->to_mib = out->from_mib + 7;
    }
    return ACRE_OK;
}

TEST(spans_save_trials_and_change_no_answer)
{
    struct odd_device plain = {.has_spans = false}, spanned = {.has_spans = true};

    for (uint64_t low = 100; low < 900; low += 13) {
        struct capacity_range range = {.low_mib = low, .high_mib = 1500, .first = {1, 0, false}};
        uint64_t one = 0, other = 0;
        REQUIRE_OK(capacity_search(&range, odd_try, &plain, &one));
        range.first = (struct capacity_span){1000, CAPACITY_MIB_MAX, true};
        REQUIRE_OK(capacity_search(&range, odd_try, &spanned, &other));
        EXPECT_EQ(one, other);
    }
    EXPECT_LE(spanned.tries * 3, plain.tries * 2);
}

TEST(what_is_not_enough_is_doubled_up_to_the_end)
{
    struct odd_device device = {.has_spans = false};
    struct capacity_range range = {.low_mib = 7, .high_mib = 7, .first = {1, 0, false}};
    uint64_t mib = 1;

    REQUIRE_OK(capacity_search(&range, odd_try, &device, &mib));
    EXPECT_EQ(mib, 8); /* 7 does not work, and 14 does */
    range.first = (struct capacity_span){1, CAPACITY_MIB_MAX, false};
    REQUIRE_OK(capacity_search(&range, odd_try, &device, &mib));
    EXPECT_EQ(mib, 0);
}

TEST(a_span_ends_where_a_request_would_have_gone_otherwise)
{
    acre_sim_usage usage = {.bytes_used_peak = 100 * MIB + 1, .bytes_refused_least = 130 * MIB};
    struct capacity_span span = capacity_span_of(&usage, 120, 4 * MIB, false);

    EXPECT_EQ(span.from_mib, 101);
    EXPECT_EQ(span.to_mib, 129);
    EXPECT_EQ(span.fits, false);
    usage.bytes_refused_least = 0;
    span = capacity_span_of(&usage, 120, 4 * MIB, true);
    EXPECT_EQ(span.to_mib, CAPACITY_MIB_MAX);
    span = capacity_span_of(&usage, 120, 4 * MIB, false); /* whatever failed, not the device */
    EXPECT_EQ(span.from_mib, 120);
    EXPECT_EQ(span.to_mib, 120);
}

TEST(reserved_addresses_bound_a_span)
{
    acre_sim_usage usage = {.bytes_used_peak = 100 * MIB, .mapped_end_peak = 144 * MIB};

    usage.calls[ACRE_SIM_RESERVE] = 2;
    /* 144 and 4 and 32 MiB of addresses are those of a device of 160 MiB. */
    struct capacity_span span = capacity_span_of(&usage, 200, 4 * MIB, true);
    EXPECT_EQ(span.from_mib, 160);
    span = capacity_span_of(&usage, 159, 4 * MIB, true);
    EXPECT_EQ(span.from_mib, 159);
    EXPECT_EQ(span.to_mib, 159);
    usage.calls[ACRE_SIM_RESERVE] = 13;
    span = capacity_span_of(&usage, 200, 4 * MIB, true);
    EXPECT_EQ(span.from_mib, 200);
}

TEST(only_known_options_are_told_by_refusals)
{
    EXPECT(capacity_is_told_by_refusals(ACRE_POLICY_TORCH, NULL));
    EXPECT(capacity_is_told_by_refusals(ACRE_POLICY_TORCH, ""));
    EXPECT(capacity_is_told_by_refusals(ACRE_POLICY_TORCH,
                                        "expandable_segments:True,max_split_size_mb:128"));
    EXPECT(!capacity_is_told_by_refusals(ACRE_POLICY_ACRE, ""));
    EXPECT(!capacity_is_told_by_refusals(ACRE_POLICY_TORCH, "per_process_memory_fraction:0.9"));
    EXPECT(!capacity_is_told_by_refusals(
        ACRE_POLICY_TORCH, "max_split_size_mb:64,garbage_collection_threshold:0.6"));
}

/* ---- Replays ------------------------------------------------------------------------ */

static const char *random_trace(size_t events)
{
    static char text[1 << 18];
    size_t at = 0, live_count = 0;
    unsigned live[60], next = 0;

    for (size_t i = 0; i < events; i++) {
        if (live_count == 60 || (live_count && below(20) < 9)) {
            size_t k = below(live_count);
            at += (size_t)snprintf(text + at, sizeof text - at, "f %u\n", live[k]);
            live[k] = live[--live_count];
        } else {
            uint64_t bytes = (uint64_t)512 << below(17);
            bytes += below(bytes);
            at += (size_t)snprintf(text + at, sizeof text - at, "a %u %llu %u\n", next,
                                   (unsigned long long)bytes, (unsigned)below(2));
            live[live_count++] = next++;
        }
    }
    return files_write("random.trace", text, at);
}

static bool fits_at(const char *path, const char *conf, uint64_t mib)
{
    acre_replay_config config = {.struct_size = sizeof config,
                                 .policy = ACRE_POLICY_TORCH,
                                 .conf = conf,
                                 .device_bytes = mib * MIB};
    acre_replay_result result = {.struct_size = sizeof result};

    REQUIRE_OK(acre_replay(path, &config, &result));
    return result.first.ooms == 0;
}

/* Halving with one replay a step. */
static uint64_t search_plainly(const char *path, const char *conf, const acre_replay_pass *first)
{
    uint64_t low = capacity_in_mib(first->bytes_requested_peak);
    uint64_t high = capacity_in_mib(first->bytes_reserved_peak);

    while (!fits_at(path, conf, high)) {
        low = high + 1;
        high *= 2;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (fits_at(path, conf, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return high * MIB;
}

TEST(random_jobs_need_what_replays_one_by_one_say)
{
    static const char tight[] = "garbage_collection_threshold:0.6,"
                                "per_process_memory_fraction:0.98";
    static const char *const confs[] = {"", "max_split_size_mb:21", "expandable_segments:True",
                                        "roundup_power2_divisions:4",
                                        "expandable_segments:True,max_split_size_mb:32", tight};

    dice_begin();
    for (int round = 0; round < 4; round++) {
        const char *path = random_trace(1200);
        for (size_t i = 0; i < sizeof confs / sizeof *confs; i++) {
            acre_replay_config config = {.struct_size = sizeof config,
                                         .policy = ACRE_POLICY_TORCH,
                                         .conf = confs[i],
                                         .device_bytes = (uint64_t)1 << 39,
                                         .flags = ACRE_REPLAY_MIN_CAPACITY};
            acre_replay_result result = {.struct_size = sizeof result};
            REQUIRE_OK(acre_replay(path, &config, &result));
            EXPECT_EQ(result.min_capacity_bytes, search_plainly(path, confs[i], &result.first));
        }
    }
}

T_MAIN()
