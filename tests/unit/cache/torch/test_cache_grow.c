/* SPDX-License-Identifier: MIT */
/* Expandable segments under policy torch (B57 to B75), on a fake device of 8 GiB
 * whose every call is counted. Sizes in the layouts are MiB. */
#include "tests/support/page_lab.h"

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

TEST(B71_a_pool_that_does_not_split_hands_out_what_was_mapped)
{
    struct lab lab;

    open_pages(&lab, ON);
    acre_pool_id id = new_pool(&lab, ACRE_POOL_NO_SPLIT);
    alloc_in(&lab, id, 4 * MIB);
    alloc_in(&lab, id, 4 * MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 40 * MIB);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 40 * MIB);
    EXPECT_STR_EQ(layout_mib(&lab), "20*,20*");
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

static void *source_alloc(void *arg, size_t bytes, int device, void *stream)
{
    void *pointer = NULL;

    (void)device, (void)stream;
    REQUIRE_OK(acre_device_alloc(fake_device(arg, 0), bytes, &pointer));
    return pointer;
}

static void source_free(void *arg, void *pointer, size_t bytes, int device, void *stream)
{
    (void)bytes, (void)device, (void)stream;
    REQUIRE_OK(acre_device_free(fake_device(arg, 0), pointer));
}

TEST(B73_memory_of_a_users_allocator_is_not_expandable)
{
    struct lab lab;

    open_pages(&lab, ON);
    acre_pool_config config = {.struct_size = sizeof config, .alloc = source_alloc,
                               .free = source_free, .arg = lab.fake};
    acre_pool_id id = acre_pool_id_next();
    REQUIRE_OK(acre_pool_create(lab.cache, id, &config));
    alloc_in(&lab, id, 3 * MIB);
    EXPECT_EQ(CURRENT(&lab, segment), 1);
    EXPECT_EQ(sizes(&lab, NULL, 0), 0);
    EXPECT_EQ(CURRENT(&lab, inactive_split_bytes), 17 * MIB);
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

T_MAIN()
