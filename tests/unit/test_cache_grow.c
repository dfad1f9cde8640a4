/* SPDX-License-Identifier: MIT */
/* Expandable segments under policy torch (B57 to B75, W6, W10, W14), on a fake
 * device of 8 GiB whose every call is counted. Sizes in the layouts are bytes. */
#include "tests/support/lab.h"

#define ON "expandable_segments:True"

static void open_pages(struct lab *lab, const char *conf)
{
    acre_cache_config config = {.policy = ACRE_POLICY_TORCH, .conf = conf};

    lab_open_with(lab, &(struct fake_config){.page_bytes = 2 * MIB}, &config);
}

/* The layout in MiB as "block,block*|block": runs of pages by address. */
static const char *layout_mib(struct lab *lab)
{
    static char text[4096];
    acre_cache_layout *layout;
    size_t length = 0;

    REQUIRE_OK(acre_cache_layout_create(lab->cache, &layout));
    text[0] = '\0';
    for (uint64_t i = 0; i < layout->segment_count; i++) {
        const acre_segment_info *segment = &layout->segments[i];
        for (uint64_t k = 0; k < segment->block_count; k++) {
            const acre_block_info *block = &layout->blocks[segment->first_block + k];
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%g%s",
                                       k ? "," : i ? "|" : "",
                                       (double)block->bytes / (double)MIB,
                                       block->state == ACRE_BLOCK_LIVE ? "*" : "");
        }
    }
    acre_cache_layout_destroy(layout);
    return text;
}

static void *first_base(struct lab *lab)
{
    acre_cache_layout *layout;

    REQUIRE_OK(acre_cache_layout_create(lab->cache, &layout));
    REQUIRE(layout->segment_count > 0);
    void *base = layout->segments[0].base;
    EXPECT_EQ(layout->segments[0].is_expandable, 1);
    acre_cache_layout_destroy(layout);
    return base;
}

static uint64_t sizes(struct lab *lab, acre_stream_segment_size *out, uint64_t capacity)
{
    uint64_t count = 0;

    REQUIRE_OK(acre_cache_stream_segment_sizes(lab->cache, out, capacity, &count));
    return count;
}

TEST(B57_a_small_request_maps_one_page)
{
    struct lab lab;

    open_pages(&lab, ON);
    lab_alloc(&lab, 512);
    EXPECT_EQ(fake_reserved_bytes(lab.fake), 9663676416);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 2097152);
    EXPECT_EQ(lab.stats.reserved_bytes.small_pool.current, 2097152);
    EXPECT_EQ(CURRENT(&lab, segment), 0);
    EXPECT_EQ(CURRENT(&lab, inactive_split), 0);
    EXPECT_EQ(CURRENT(&lab, inactive_split_bytes), 0);
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 1);
    first_base(&lab);
    lab_close(&lab);
}

/* The state that B58 to B62 lead from one to the next. */
struct steps {
    struct lab lab;
    char *three, *thirty, *fifty, *nineteen, *base;
};

static void steps_open(struct steps *s)
{
    open_pages(&s->lab, ON);
    s->three = lab_alloc(&s->lab, 3 * MIB);
    EXPECT_EQ(CURRENT(&s->lab, reserved_bytes), 20 * MIB);
    s->base = first_base(&s->lab);
    s->thirty = lab_alloc(&s->lab, 30 * MIB);
}

TEST(B58_the_tail_is_used_before_growing)
{
    struct steps s;

    steps_open(&s);
    EXPECT_EQ(fake_reserved_bytes(s.lab.fake), 9667870720);
    EXPECT_EQ(CURRENT(&s.lab, reserved_bytes), 40 * MIB);
    EXPECT_STR_EQ(layout_mib(&s.lab), "3*,30*,7");
    lab_close(&s.lab);
}

static void steps_grow(struct steps *s)
{
    steps_open(s);
    lab_free(&s->lab, s->three);
    s->fifty = lab_alloc(&s->lab, 50 * MIB);
}

TEST(B59_growing_at_the_end_leaves_the_hole)
{
    struct steps s;

    steps_grow(&s);
    EXPECT_EQ(CURRENT(&s.lab, reserved_bytes), 100 * MIB);
    EXPECT_STR_EQ(layout_mib(&s.lab), "3,30*,50*,17");
    lab_close(&s.lab);
}

static void steps_empty(struct steps *s)
{
    steps_grow(s);
    lab_free(&s->lab, s->thirty);
    REQUIRE_OK(acre_cache_empty(s->lab.cache));
}

TEST(B60_emptying_takes_whole_pages_only)
{
    struct steps s;

    steps_empty(&s);
    EXPECT_STR_EQ(layout_mib(&s.lab), "13,50*,17");
    EXPECT_EQ(CURRENT(&s.lab, reserved_bytes), 80 * MIB);
    EXPECT_EQ((char *)first_base(&s.lab) - s.base, 20 * MIB);
    EXPECT_EQ(COUNT(&s.lab, num_device_free), 1);
    lab_close(&s.lab);
}

TEST(B61_the_lowest_hole_is_filled_first)
{
    struct steps s;

    steps_empty(&s);
    EXPECT_EQ((char *)lab_alloc(&s.lab, 19 * MIB) - s.base, 0);
    EXPECT_EQ(CURRENT(&s.lab, reserved_bytes), 100 * MIB);
    EXPECT_STR_EQ(layout_mib(&s.lab), "19*,14,50*,17");
    lab_close(&s.lab);
}

TEST(B62_nothing_is_left_of_an_idle_segment)
{
    struct steps s;

    steps_empty(&s);
    lab_free(&s.lab, s.fifty);
    REQUIRE_OK(acre_cache_empty(s.lab.cache));
    EXPECT_EQ(fake_reserved_bytes(s.lab.fake), 0);
    EXPECT_EQ(fake_handle_count(s.lab.fake), 0);
    EXPECT_EQ(CURRENT(&s.lab, reserved_bytes), 0);
    EXPECT_STR_EQ(layout_mib(&s.lab), "");
    lab_close(&s.lab);
}

TEST(B63_a_hole_is_better_than_an_end_that_can_grow)
{
    struct lab lab;

    open_pages(&lab, ON);
    void *hole = lab_alloc(&lab, 6 * MIB);
    lab_alloc(&lab, 10 * MIB);
    lab_free(&lab, hole);
    EXPECT_STR_EQ(layout_mib(&lab), "6,10*,4");
    EXPECT_PTR_EQ(lab_alloc(&lab, 4 * MIB), hole);
    lab_close(&lab);
}

TEST(B64_small_pages_go_one_by_one)
{
    struct lab lab;
    void *blocks[5];

    open_pages(&lab, ON);
    for (int i = 0; i < 5; i++)
        blocks[i] = lab_alloc(&lab, MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 6 * MIB);
    EXPECT_EQ(fake_mapping_count(lab.fake), 3);
    lab_free(&lab, blocks[0]);
    lab_free(&lab, blocks[1]);
    lab_free(&lab, blocks[4]);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 2 * MIB);
    EXPECT_EQ(COUNT(&lab, num_device_free), 2);
    EXPECT_STR_EQ(layout_mib(&lab), "1*,1*");
    lab_close(&lab);
}

TEST(B65_each_stream_has_its_own_segment)
{
    acre_stream_segment_size found[4];
    struct lab lab;

    open_pages(&lab, ON);
    lab_alloc_on(&lab, 512, 0);
    lab_alloc_on(&lab, 3 * MIB, 1);
    REQUIRE_EQ(sizes(&lab, found, 4), 2);
    EXPECT_PTR_EQ(found[0].stream, NULL); /* the default stream is listed too */
    EXPECT_EQ(found[0].is_small, 1);
    EXPECT_EQ(found[0].bytes, 2 * MIB);
    EXPECT_EQ(found[0].page_bytes, 2 * MIB);
    EXPECT_PTR_EQ(found[1].stream, fake_stream(1));
    EXPECT_EQ(found[1].is_small, 0);
    EXPECT_EQ(found[1].bytes, 20 * MIB);
    EXPECT_EQ(found[1].span_bytes, 9667870720);
    EXPECT_EQ(sizes(&lab, NULL, 0), 2);
    EXPECT_EQ(sizes(&lab, found, 1), 2);
    EXPECT_EQ(acre_cache_stream_segment_sizes(lab.cache, NULL, 1, &found[0].bytes),
              ACRE_ERR_INVALID);
    lab_close(&lab);
}

TEST(B66_growth_that_fails_changes_nothing)
{
    struct lab lab;

    open_pages(&lab, ON);
    lab_alloc(&lab, 20 * MIB);
    EXPECT_EQ(lab_try(&lab, 8 * GIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 20 * MIB);
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 1);
    EXPECT_EQ(COUNT(&lab, num_ooms), 1);
    EXPECT_EQ(fake_handle_count(lab.fake), 1);
    EXPECT_EQ(fake_mapping_count(lab.fake), 1);
    lab_close(&lab);
}

TEST(B67_W11_the_limit_does_not_see_whole_pages)
{
    struct lab lab;

    open_pages(&lab, ON);
    lab_limit(&lab, 70 * MIB);
    lab_alloc(&lab, 60 * MIB);
    lab_alloc(&lab, 10 * MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 80 * MIB);
    lab_close(&lab);
}

TEST(B68_switched_off_its_memory_is_left_alone)
{
    struct lab lab;

    open_pages(&lab, ON);
    void *old = lab_alloc(&lab, 20 * MIB);
    lab_free(&lab, old);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "expandable_segments:False"));
    EXPECT_EQ(lab_alloc(&lab, 20 * MIB) == old, 0);
    EXPECT_EQ(CURRENT(&lab, segment), 1);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 40 * MIB);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 20 * MIB);
    EXPECT_EQ(fake_reserved_bytes(lab.fake), 0);
    lab_close(&lab);
}

TEST(B69_switched_on_plain_memory_is_used_and_cut)
{
    struct lab lab;

    open_pages(&lab, NULL);
    void *old = lab_alloc(&lab, 20 * MIB);
    lab_free(&lab, old);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, ON));
    EXPECT_PTR_EQ(lab_alloc(&lab, 20 * MIB - 512), old);
    EXPECT_EQ(CURRENT(&lab, inactive_split_bytes), 512);
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 1);
    lab_close(&lab);
}

TEST(B70_pages_are_mapped_in_one_go)
{
    struct lab lab;

    open_pages(&lab, ON);
    lab_alloc(&lab, 30 * MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 41943040);
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 1);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_MAP), 2);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_SET_ACCESS), 1);
    lab_close(&lab);
}

TEST(B72_no_base_allocation)
{
    struct lab lab;
    uint64_t bytes;
    void *base;

    open_pages(&lab, ON);
    void *pointer = lab_alloc(&lab, 512);
    EXPECT_EQ(acre_cache_base(lab.cache, pointer, &base, &bytes), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "expandable_segments");
    lab_close(&lab);
}

TEST(B74_seven_gib)
{
    struct lab lab;

    open_pages(&lab, ON);
    lab_alloc(&lab, 7 * GIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 7528775680);
    EXPECT_STR_EQ(layout_mib(&lab), "7168*,12");
    lab_close(&lab);
}

TEST(B75_a_segment_keeps_its_pages)
{
    struct lab lab;

    open_pages(&lab, ON);
    lab_alloc(&lab, 3 * MIB);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "large_segment_size_mb:30," ON));
    lab_alloc(&lab, 20 * MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 40 * MIB);
    lab_alloc_on(&lab, 3 * MIB, 1);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 70 * MIB);
    lab_close(&lab);
}

/* 3.3: what the max_split rules refuse is found again by growing. */
TEST(a_block_that_is_large_enough_grows_by_nothing)
{
    struct lab lab;

    open_pages(&lab, ON ",max_split_size_mb:40");
    void *old = lab_alloc(&lab, 100 * MIB);
    lab_free(&lab, old);
    uint64_t calls = fake_calls(lab.fake, FAKE_MAP);
    EXPECT_PTR_EQ(lab_alloc(&lab, 50 * MIB), old);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_MAP), calls);
    lab_close(&lab);
}

/* Two holes before the end are filled in one growth. */
TEST(growing_fills_several_holes)
{
    struct lab lab;
    char *blocks[5];

    open_pages(&lab, ON);
    for (int i = 0; i < 5; i++)
        blocks[i] = lab_alloc(&lab, (size_t)(i % 2 ? 10 : 30) * MIB);
    EXPECT_STR_EQ(layout_mib(&lab), "30*,10*,30*,10*,30*,10");
    lab_free(&lab, blocks[0]);
    lab_free(&lab, blocks[2]);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_STR_EQ(layout_mib(&lab), "10,10*|10,10*,30*,10"); /* [20,40) and [60,120) */
    lab_free(&lab, blocks[1]);
    EXPECT_PTR_EQ(lab_alloc(&lab, 62 * MIB), blocks[0]);
    EXPECT_STR_EQ(layout_mib(&lab), "62*,8,10*,30*,10");
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 5); /* 3 for the blocks, 1 for each hole */
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
