/* SPDX-License-Identifier: MIT */
/* What expandable segments do not do: lose count of pools (W1), release parts
 * (W6), leak addresses (W10) or handles (W14); and what is said about them. */
#include "tests/support/page_lab.h"

/* One growth, cut into three, gives pages back in two pieces. */
TEST(W1_one_growth_unmapped_in_pieces)
{
    struct lab lab;
    void *blocks[3];

    open_pages(&lab, ON);
    acre_pool_id id = new_pool(&lab, 0);
    fill(&lab, id, 60 * MIB);
    for (int i = 0; i < 3; i++)
        blocks[i] = alloc_in(&lab, id, 20 * MIB);
    lab_free(&lab, blocks[0]);
    lab_free(&lab, blocks[2]);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(pool_stats(&lab, id).reserved_bytes.all.current, 20 * MIB);
    EXPECT_EQ(pool_of(&lab, blocks[1]), id.user);
    EXPECT_EQ(pool_stats(&lab, id).segment_count, 1);
    lab_free(&lab, blocks[1]);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(acre_pool_use_count(lab.cache, id, &(uint64_t){0}), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(fake_reserved_bytes(lab.fake), 0);
    lab_close(&lab);
}

/* Two growths, given back as one block: the pool ends all the same. */
TEST(W1_two_growths_unmapped_at_once)
{
    struct lab lab;

    open_pages(&lab, ON);
    acre_pool_id id = new_pool(&lab, 0);
    void *first = alloc_in(&lab, id, 20 * MIB), *second = alloc_in(&lab, id, 20 * MIB);
    lab_free(&lab, first);
    lab_free(&lab, second);
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 2);
    REQUIRE_OK(acre_cache_empty(lab.cache)); /* it is in use: nothing happens */
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 40 * MIB);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(COUNT(&lab, num_device_free), 1);
    EXPECT_EQ(acre_pool_use_count(lab.cache, id, &(uint64_t){0}), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(fake_reserved_bytes(lab.fake), 0);
    lab_close(&lab);
}

/* A pool that helps when memory is short lends plain memory only (3.4). */
TEST(expandable_memory_is_not_lent)
{
    struct lab lab;

    open_pages(&lab, ON);
    acre_pool_id id = new_pool(&lab, ACRE_POOL_USE_ON_OOM);
    fill(&lab, id, 40 * MIB);
    lab_limit(&lab, 40 * MIB);
    EXPECT_EQ(lab_try(&lab, 30 * MIB), ACRE_ERR_DEVICE_MEMORY);
    lab_close(&lab);
}

TEST(W6_part_of_a_segment_is_never_released)
{
    struct lab lab;

    open_pages(&lab, "max_split_size_mb:20");
    lab_limit(&lab, 200 * MIB);
    void *whole = lab_alloc(&lab, 100 * MIB);
    lab_free(&lab, whole);
    /* With expandable segments the oversize block is cut. */
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "max_split_size_mb:200," ON));
    char *front = lab_alloc(&lab, 50 * MIB);
    EXPECT_PTR_EQ(front, whole);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "max_split_size_mb:20,expandable_segments:False"));
    /* No room: the free half is oversize, yet it must stay. */
    EXPECT_EQ(lab_try(&lab, 120 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(COUNT(&lab, num_device_free), 0);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_FREE), 0);
    EXPECT_STR_EQ(layout_mib(&lab), "50*,50");
    lab_close(&lab);
}

TEST(W10_a_request_beyond_all_addresses_reserves_none)
{
    struct lab lab;

    open_pages(&lab, ON);
    EXPECT_EQ(lab_try(&lab, 10 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_RESERVE), 0);
    EXPECT_EQ(fake_reserved_bytes(lab.fake), 0);
    lab_close(&lab);
}

TEST(W10_addresses_that_get_no_page_are_returned)
{
    struct lab lab;

    open_pages(&lab, ON);
    fake_hog(lab.fake, 8 * GIB - 10 * MIB);
    EXPECT_EQ(lab_try(&lab, 3 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(fake_reserved_bytes(lab.fake), 0);
    EXPECT_EQ(sizes(&lab, NULL, 0), 0);
    EXPECT_EQ(fake_handle_count(lab.fake), 0);
    lab_close(&lab);
}

/* The segment that failed keeps its age: in PyTorch's allocator it is there. */
TEST(W10_the_age_of_a_segment_survives)
{
    struct lab lab;

    open_pages(&lab, ON);
    fake_fail(lab.fake, FAKE_MAP, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(lab_try(&lab, 20 * MIB), ACRE_ERR_DEVICE);
    EXPECT_EQ(fake_disarm(lab.fake), 1);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "expandable_segments:False"));
    void *plain = lab_alloc(&lab, 20 * MIB);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, ON));
    void *grown = lab_alloc(&lab, 20 * MIB);
    lab_alloc(&lab, 20 * MIB); /* so that the end cannot grow */
    lab_free(&lab, plain);
    lab_free(&lab, grown);
    EXPECT_PTR_EQ(lab_alloc(&lab, 20 * MIB), grown);
    lab_close(&lab);
}

TEST(W14_handles_of_every_kind_are_released)
{
    static const struct {
        const char *conf;
        bool has_fabric;
        acre_handle_type type;
    } cases[] = {
        {ON, false, ACRE_HANDLE_NONE},
        {ON, true, ACRE_HANDLE_FABRIC},
        {ON ",expandable_segments_handle_type:fabric", true, ACRE_HANDLE_FABRIC},
        {ON ",expandable_segments_handle_type:fabric", false, ACRE_HANDLE_NONE},
        {ON ",expandable_segments_handle_type:posix_fd", true, ACRE_HANDLE_NONE},
        {ON ",expandable_segments_handle_type:none", true, ACRE_HANDLE_NONE},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        acre_cache_config config = {.policy = ACRE_POLICY_TORCH, .conf = cases[i].conf};
        acre_stream_segment_size found;
        struct lab lab;

        lab_open_with(&lab, &(struct fake_config){.page_bytes = 2 * MIB,
                                                  .has_fabric = cases[i].has_fabric}, &config);
        void *pointer = lab_alloc(&lab, 100 * MIB);
        REQUIRE_EQ(sizes(&lab, &found, 1), 1);
        EXPECT_EQ(found.handle_type, cases[i].type);
        EXPECT_EQ(fake_handle_count(lab.fake), 5);
        lab_free(&lab, pointer);
        REQUIRE_OK(acre_cache_empty(lab.cache));
        EXPECT_EQ(fake_handle_count(lab.fake), 0);
        lab_close(&lab);
    }
}

/* ---- What the device lacks, and the log ---------------------------------------- */

static int lines;
static char line[512];

static void note(void *arg, acre_log_level level, const char *text)
{
    (void)arg, (void)level;
    if (!strstr(text, "expandable_segments"))
        return;
    lines++;
    snprintf(line, sizeof line, "%s", text);
}

TEST(without_virtual_memory_segments_are_plain_and_it_is_said_once)
{
    struct lab lab;

    lines = 0;
    acre_log_set(note, NULL, ACRE_LOG_INFO);
    lab_open(&lab, ON);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, ON));
    acre_log_set(NULL, NULL, ACRE_LOG_INFO);
    EXPECT_EQ(lines, 1);
    EXPECT_HAS(line, "plain");
    lab_alloc(&lab, 512);
    EXPECT_EQ(CURRENT(&lab, segment), 1);
    lab_close(&lab);
}

TEST(the_type_of_handle_is_said)
{
    struct lab lab;

    lines = 0;
    acre_log_set(note, NULL, ACRE_LOG_INFO);
    open_pages(&lab, ON);
    EXPECT_EQ(lines, 1);
    EXPECT_HAS(line, "not shareable");
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "expandable_segments_handle_type:fabric"));
    EXPECT_EQ(lines, 2); /* what was asked for by name is not there */
    acre_log_set(NULL, NULL, ACRE_LOG_INFO);
    lab_close(&lab);
}

TEST(policy_acre_does_not_use_the_option)
{
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE, .conf = ON};
    struct lab lab;

    lab_open_with(&lab, NULL, &config);
    lab_alloc(&lab, 512);
    EXPECT_EQ(sizes(&lab, NULL, 0), 0);
    EXPECT_EQ(CURRENT(&lab, segment), 1);
    lab_close(&lab);
}

/* Garbage collection and oversize release never touch expandable memory. */
TEST(collection_leaves_expandable_memory_alone)
{
    struct lab lab;

    open_pages(&lab, ON ",garbage_collection_threshold:0.2,max_split_size_mb:40");
    lab_limit(&lab, 400 * MIB);
    void *old = lab_alloc(&lab, 200 * MIB);
    lab_free(&lab, old);
    EXPECT_EQ(lab_alloc_on(&lab, 100 * MIB, 1) != NULL, 1);
    EXPECT_EQ(COUNT(&lab, num_device_free), 0);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 300 * MIB);
    lab_close(&lab);
}

TEST(exact_addresses_in_expandable_memory)
{
    struct lab lab;

    open_pages(&lab, ON);
    char *old = lab_alloc(&lab, 20 * MIB);
    lab_free(&lab, old);
    REQUIRE_OK(acre_cache_alloc_at(lab.cache, 4 * MIB, NULL, old + 8 * MIB));
    EXPECT_STR_EQ(layout_mib(&lab), "8,4*,8");
    EXPECT_EQ(acre_cache_alloc_at(lab.cache, 4 * MIB, NULL, old + 20 * MIB),
              ACRE_ERR_NOT_FOUND);
    lab_close(&lab);
}

T_MAIN()
