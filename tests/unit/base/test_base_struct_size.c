/* SPDX-License-Identifier: MIT */
/* One rule for every struct of the public interface: older callers' structs are completed with
 * zeros, newer ones accepted while they use nothing new, and nothing beyond is read or written. */
#include "base/struct_size.h"

#include <acre/acre.h>

#include "tests/support/t.h"

#include <string.h>

struct known {
    uint32_t struct_size, first;
    uint64_t second, third;
};

struct newer {
    struct known known;
    uint64_t fourth;
};

static acre_status known_take(const void *given, struct known *own)
{
    return struct_size_take(STRUCT_NAME("acre_call", struct known), given, own, sizeof *own);
}

TEST(smaller_structs_are_completed_with_zeros)
{
    struct known given = {offsetof(struct known, third), 1, 2, 77}, own;

    memset(&own, 0xff, sizeof own);
    REQUIRE_OK(known_take(&given, &own));
    EXPECT_EQ(own.struct_size, sizeof own);
    EXPECT_EQ(own.second, 2u);
    EXPECT_EQ(own.third, 0u);
}

TEST(larger_structs_are_accepted_when_the_rest_is_zero)
{
    struct newer given = {{sizeof given, 1, 2, 3}, 0};
    struct known own;

    REQUIRE_OK(known_take(&given, &own));
    EXPECT_EQ(own.third, 3u);
    given.fourth = 1;
    memset(&own, 0xff, sizeof own);
    EXPECT_EQ(known_take(&given, &own), ACRE_ERR_INVALID);
    EXPECT(strstr(acre_last_error(), "byte 24 of struct known") != NULL);
    EXPECT_EQ(own.first, UINT32_MAX);
}

TEST(a_size_that_was_not_set_is_refused)
{
    struct known given = {0}, own;

    EXPECT_EQ(known_take(NULL, &own), ACRE_ERR_INVALID);
    EXPECT_EQ(known_take(&given, &own), ACRE_ERR_INVALID);
    given.struct_size = STRUCT_SIZE_LEAST - 1;
    EXPECT_EQ(known_take(&given, &own), ACRE_ERR_INVALID);
    given.struct_size = UINT32_MAX;
    EXPECT_EQ(known_take(&given, &own), ACRE_ERR_INVALID);
    EXPECT(strstr(acre_last_error(), "set it to sizeof(struct known)") != NULL);
}

TEST(results_never_reach_past_the_size_that_was_said)
{
    struct known own = {sizeof own, 1, 2, 3}, out;
    struct newer large;

    memset(&out, 0xff, sizeof out);
    out.struct_size = 9; /* one byte of second */
    struct_size_give(&out, &own, sizeof own);
    EXPECT_EQ(out.struct_size, 9u);
    EXPECT_EQ(out.first, 1u);
    EXPECT_EQ(out.second, UINT64_MAX - 0xff + 2);
    EXPECT_EQ(out.third, UINT64_MAX);
    memset(&large, 0xff, sizeof large);
    large.known.struct_size = sizeof large;
    const struct struct_name *name = STRUCT_NAME("acre_call", struct known);
    EXPECT_EQ(struct_size_check(name, &large, sizeof own), ACRE_ERR_INVALID);
    large.fourth = 0;
    REQUIRE_OK(struct_size_check(name, &large, sizeof own));
    large.fourth = 77;
    struct_size_give(&large, &own, sizeof own);
    EXPECT_EQ(large.known.third, 3u);
    EXPECT_EQ(large.fourth, 77u);
    EXPECT_EQ(large.known.struct_size, sizeof large);
}

/* Every public call that takes or fills in a struct follows the rule; here those that need
 * nothing but a device. */
TEST(public_calls_follow_the_rule)
{
    acre_device *device;
    acre_cache *cache;
    struct {
        acre_cache_config known;
        uint64_t later;
    } config = {{.struct_size = sizeof config}, 1};
    struct {
        acre_device_info known;
        uint64_t later;
    } info = {{.struct_size = sizeof info}, 1};

    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &device));
    EXPECT_EQ(acre_cache_create(device, &config.known, &cache), ACRE_ERR_INVALID);
    config.later = 0;
    config.known.struct_size = 4;
    EXPECT_EQ(acre_cache_create(device, &config.known, &cache), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_info_get(device, &info.known), ACRE_ERR_INVALID);
    info.later = 0;
    REQUIRE_OK(acre_device_info_get(device, &info.known));
    EXPECT(info.known.name[0] != '\0');
    info.known.struct_size = 0;
    EXPECT_EQ(acre_device_info_get(device, &info.known), ACRE_ERR_INVALID);
    info.known.struct_size = offsetof(acre_device_info, total_bytes);
    info.known.total_bytes = 42;
    REQUIRE_OK(acre_device_info_get(device, &info.known));
    EXPECT_EQ(info.known.total_bytes, 42u);
}

T_MAIN()
