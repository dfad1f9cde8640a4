/* SPDX-License-Identifier: MIT */
/* Looking inside: layout, dump, and the walk that proves the facts. */
#include "base/heap.h"
#include "cache/cache.h"
#include "tests/support/lab.h"

TEST(a_layout_tells_segments_and_blocks)
{
    struct lab lab;
    acre_cache_layout *layout;

    lab_open_with(&lab, &(struct fake_config){.is_descending = true}, NULL);
    REQUIRE_OK(acre_cache_layout_create(lab.cache, &layout));
    EXPECT_EQ(layout->segment_count, 0);
    EXPECT_EQ(layout->block_count, 0);
    acre_cache_layout_destroy(layout);
    void *a = lab_alloc_on(&lab, 3 * MIB, 2), *b = lab_alloc(&lab, 100);
    REQUIRE_OK(acre_cache_layout_create(lab.cache, &layout));
    EXPECT_EQ(layout->segment_count, 2);
    EXPECT_EQ(layout->block_count, 4);
    /* In address order: the younger one lies lower here. */
    EXPECT_PTR_EQ(layout->segments[0].base, b);
    EXPECT_PTR_EQ(layout->segments[1].base, a);
    EXPECT_EQ(layout->segments[0].order, 1);
    EXPECT_EQ(layout->segments[0].is_small, 1);
    EXPECT_EQ(layout->segments[1].is_small, 0);
    EXPECT_PTR_EQ(layout->segments[1].stream, fake_stream(2));
    EXPECT_EQ(layout->segments[1].first_block, 2);
    EXPECT_EQ(layout->segments[1].block_count, 2);
    EXPECT_EQ(layout->segments[1].bytes, 20 * MIB);
    EXPECT_EQ(layout->blocks[0].requested_bytes, 100);
    EXPECT_EQ(layout->blocks[0].state, ACRE_BLOCK_LIVE);
    EXPECT_EQ(layout->blocks[1].state, ACRE_BLOCK_FREE);
    acre_cache_layout_destroy(layout);
    acre_cache_layout_destroy(NULL);
    lab_close(&lab);
}

TEST(every_host_allocation_of_a_layout_may_fail)
{
    struct lab lab;
    acre_cache_layout *layout;
    bool has_failed = true;

    lab_open(&lab, NULL);
    lab_alloc(&lab, 100);
    uint64_t before = heap_live_count();
    for (uint64_t nth = 1; has_failed; nth++) {
        heap_fail_nth(nth);
        acre_status status = acre_cache_layout_create(lab.cache, &layout);
        has_failed = heap_fail_disarm();
        EXPECT_EQ(status, has_failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        if (!has_failed)
            acre_cache_layout_destroy(layout);
        EXPECT_EQ(heap_live_count(), before);
    }
    lab_close(&lab);
}

TEST(a_dump_is_for_people)
{
    struct lab lab;
    char *text = NULL;
    size_t length = 0;

    lab_open(&lab, "max_split_size_mb:40");
    void *a = lab_alloc(&lab, 3 * MIB);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    lab_free(&lab, a);
    FILE *file = open_memstream(&text, &length);
    REQUIRE_OK(acre_cache_dump(lab.cache, file));
    fclose(file);
    EXPECT_HAS(text, "max_split_size_mb:40");
    EXPECT_HAS(text, "policy:torch");
    EXPECT_HAS(text, "reserved_bytes");
    EXPECT_HAS(text, "num_device_alloc");
    EXPECT_HAS(text, "20971520 bytes, large");
    EXPECT_HAS(text, "3145728 waiting");
    EXPECT_HAS(text, "17825792 free");
    free(text);
    EXPECT_EQ(acre_cache_dump(lab.cache, NULL), ACRE_ERR_INVALID);
    file = fopen("/dev/full", "w");
    if (file) {
        EXPECT_EQ(acre_cache_dump(lab.cache, file), ACRE_ERR_IO);
        fclose(file);
    }
    lab_close(&lab);
}

TEST(the_walk_notices_what_is_wrong)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 1000);
    struct block *block = map_find(&lab.cache->map, a);
    EXPECT_EQ(acre_cache_check(lab.cache), ACRE_OK);
    lab.cache->stats.reserved_bytes.small_pool.current++;
    EXPECT_EQ(acre_cache_check(lab.cache), ACRE_ERR_INTERNAL);
    EXPECT_HAS(acre_last_error(), "reserved_bytes");
    lab.cache->stats.reserved_bytes.small_pool.current--;
    block->requested++;
    EXPECT_EQ(acre_cache_check(lab.cache), ACRE_ERR_INTERNAL);
    block->requested--;
    map_clear(&lab.cache->map, a);
    EXPECT_EQ(acre_cache_check(lab.cache), ACRE_ERR_INTERNAL);
    map_set(&lab.cache->map, a, block);
    lab.cache->small.free_count++;
    EXPECT_EQ(acre_cache_check(lab.cache), ACRE_ERR_INTERNAL);
    lab.cache->small.free_count--;
    block->next->bytes -= 512;
    EXPECT_EQ(acre_cache_check(lab.cache), ACRE_ERR_INTERNAL);
    block->next->bytes += 512;
    EXPECT_EQ(acre_cache_check(lab.cache), ACRE_OK);
    lab_close(&lab);
}

T_MAIN()
