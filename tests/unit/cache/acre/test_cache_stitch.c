/* SPDX-License-Identifier: MIT */
/* Stitched memory through the public calls, on a fake device with pages. */
#include "cache/acre/stitch.h"

#include "base/heap.h"
#include "cache/acre/page_space.h"
#include "cache/acre/stitch_range.h"
#include "tests/support/gate.h"
#include "tests/support/lab.h"
#include "tests/support/share_bed.h"

#define PAGE (2 * MIB)

static void open_stitched(struct lab *lab, struct fake_config device, const char *conf)
{
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE, .conf = conf};

    device.page_bytes = PAGE;
    lab_open_with(lab, &device, &config);
}

static void check(struct lab *lab)
{
    REQUIRE_OK(acre_cache_check(lab->cache));
    EXPECT_EQ(CURRENT(lab, reserved_bytes), fake_bytes(lab->fake));
}

/* Fills so many pages with blocks of one page; frees every other one. */
static void checker(struct lab *lab, void *blocks[], int count)
{
    for (int i = 0; i < count; i++)
        blocks[i] = lab_alloc(lab, PAGE);
    for (int i = 0; i < count; i += 2) {
        lab_free(lab, blocks[i]);
        blocks[i] = NULL;
    }
}

static void free_all(struct lab *lab, void *blocks[], int count)
{
    for (int i = 0; i < count; i++)
        if (blocks[i])
            lab_free(lab, blocks[i]);
}

TEST(memory_comes_in_pages)
{
    struct lab lab;

    open_stitched(&lab, (struct fake_config){0}, NULL);
    void *a = lab_alloc(&lab, 5 * MIB), *b = lab_alloc(&lab, MIB);
    EXPECT_EQ(fake_bytes(lab.fake), 3 * PAGE); /* b lies behind a */
    EXPECT_EQ(fake_handle_count(lab.fake), 3);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_MAP), 3);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_ALLOC), 0);
    check(&lab);
    lab_free(&lab, a);
    lab_free(&lab, b);
    lab_close(&lab);
}

TEST(scattered_pages_serve_a_block_and_are_found_again)
{
    void *blocks[16];
    struct lab lab;

    open_stitched(&lab, (struct fake_config){.bytes = 16 * PAGE}, NULL);
    checker(&lab, blocks, 16);
    uint64_t creates = fake_calls(lab.fake, FAKE_CREATE);
    char *big = lab_alloc(&lab, 8 * PAGE);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_CREATE), creates); /* nothing new */
    EXPECT(fake_reaches(lab.fake, 0, big, 8 * PAGE));
    EXPECT_EQ(lab_try(&lab, PAGE), ACRE_ERR_DEVICE_MEMORY); /* no page is left */
    check(&lab);
    lab_free(&lab, big);
    uint64_t maps = fake_calls(lab.fake, FAKE_MAP);
    EXPECT_PTR_EQ(lab_alloc(&lab, 8 * PAGE), big);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_MAP), maps);
    lab_free(&lab, big);
    for (int i = 0; i < 16; i += 2)
        blocks[i] = lab_alloc(&lab, PAGE); /* the same pages, in the page space */
    EXPECT_EQ(lab_try(&lab, PAGE), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_MAP), maps);
    check(&lab);
    free_all(&lab, blocks, 16);
    lab_close(&lab);
}

TEST(what_a_stitched_block_leaves_of_a_page_is_usable)
{
    void *blocks[8];
    struct lab lab;

    open_stitched(&lab, (struct fake_config){.bytes = 8 * PAGE}, NULL);
    checker(&lab, blocks, 8);
    void *big = lab_alloc(&lab, 3 * PAGE + PAGE / 2);
    void *half = lab_alloc(&lab, PAGE / 2);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 8 * PAGE); /* all of it */
    check(&lab);
    lab_free(&lab, big);
    lab_free(&lab, half);
    free_all(&lab, blocks, 8);
    lab_close(&lab);
}

TEST(the_layout_counts_every_page_once)
{
    acre_cache_layout *layout;
    uint64_t bytes = 0;
    void *blocks[16];
    struct lab lab;

    open_stitched(&lab, (struct fake_config){.bytes = 16 * PAGE}, NULL);
    checker(&lab, blocks, 16);
    char *big = lab_alloc(&lab, 7 * PAGE + 512);
    void *small = lab_alloc(&lab, 100);
    REQUIRE_OK(acre_cache_layout_create(lab.cache, &layout));
    for (uint64_t i = 0; i < layout->segment_count; i++)
        bytes += layout->segments[i].bytes;
    EXPECT_EQ(bytes, CURRENT(&lab, reserved_bytes));
    EXPECT_EQ(bytes, fake_bytes(lab.fake));
    acre_cache_layout_destroy(layout);
    void *base;
    REQUIRE_OK(acre_cache_base(lab.cache, big, &base, &bytes));
    EXPECT_PTR_EQ(base, big);
    EXPECT_EQ(bytes, 7 * PAGE + 512);
    lab_free(&lab, big);
    lab_free(&lab, small);
    free_all(&lab, blocks, 16);
    lab_close(&lab);
}

TEST(emptying_gives_pages_and_addresses_back)
{
    void *blocks[16];
    struct lab lab;

    open_stitched(&lab, (struct fake_config){.bytes = 16 * PAGE}, NULL);
    checker(&lab, blocks, 16);
    lab_free(&lab, lab_alloc(&lab, 8 * PAGE));
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(fake_bytes(lab.fake), 8 * PAGE);
    EXPECT_EQ(fake_mapping_count(lab.fake), 8); /* no range is left */
    check(&lab);
    char *big = lab_alloc(&lab, 8 * PAGE);      /* in the addresses that were left */
    EXPECT_EQ(fake_bytes(lab.fake), 16 * PAGE);
    check(&lab);
    lab_free(&lab, big);
    free_all(&lab, blocks, 16);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(fake_bytes(lab.fake), 0);
    EXPECT_EQ(fake_reserved_bytes(lab.fake), 0);
    EXPECT_EQ(fake_alloc_count(lab.fake), 0);
    lab_close(&lab);
}

TEST(the_limit_is_honoured_in_pages)
{
    struct lab lab;

    open_stitched(&lab, (struct fake_config){0}, NULL);
    acre_cache_limit_set(lab.cache, 4 * PAGE + PAGE / 2);
    void *a = lab_alloc(&lab, 3 * PAGE);
    EXPECT_EQ(lab_try(&lab, 2 * PAGE), ACRE_ERR_DEVICE_MEMORY);
    void *b = lab_alloc(&lab, PAGE);
    EXPECT_EQ(lab_try(&lab, 100), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(fake_bytes(lab.fake), 4 * PAGE);
    check(&lab);
    lab_free(&lab, a);
    lab_free(&lab, b);
    lab_close(&lab);
}

TEST(a_range_is_not_changed_while_its_stream_may_use_it)
{
    void *blocks[40];
    struct lab lab;

    open_stitched(&lab, (struct fake_config){.bytes = 40 * PAGE}, NULL);
    checker(&lab, blocks, 40);
    lab_free(&lab, lab_alloc(&lab, 20 * PAGE)); /* work may still be queued on it */
    lab_free(&lab, blocks[1]);
    blocks[0] = blocks[1] = NULL;
    void *kept = lab_alloc(&lab, PAGE);
    uint64_t unmaps = fake_calls(lab.fake, FAKE_UNMAP);
    uint64_t waits = fake_calls(lab.fake, FAKE_DEVICE_SYNC);
    void *big = lab_alloc(&lab, 20 * PAGE); /* other pages: changing one would be cheapest */
    EXPECT_EQ(fake_calls(lab.fake, FAKE_UNMAP), unmaps);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_DEVICE_SYNC), waits);
    check(&lab);
    lab_free(&lab, big);
    lab_free(&lab, kept);
    free_all(&lab, blocks, 40);
    lab_close(&lab);
}

static void *take(struct share_bed *bed, size_t bytes, void *stream)
{
    void *pointer = NULL;

    REQUIRE_OK(acre_cache_alloc(bed->cache, bytes, stream, &pointer));
    return pointer;
}

static void give(struct share_bed *bed, void *pointer)
{
    REQUIRE_OK(acre_cache_free(bed->cache, pointer));
}

/* A range of 48 slots: one stream has work queued on all but the first 4, another one has used
 * these since, and is done. */
TEST(a_range_is_not_changed_while_any_of_its_streams_may_use_it)
{
    enum { COUNT = 96, PARTS = 4, KEPT = 12 };
    struct share_bed bed = share_bed_open("memory:192MiB", ACRE_POLICY_ACRE,
                                          "cross_stream_reuse:False");
    void *blocks[COUNT], *parts[PARTS], *kept[KEPT], *a, *b;
    struct gate gate_a = {0}, gate_b = {0};

    REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &a));
    REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &b));
    for (int i = 0; i < COUNT; i++)
        blocks[i] = take(&bed, PAGE, a);
    for (int i = 0; i < COUNT; i += 2)
        give(&bed, blocks[i]);
    give(&bed, take(&bed, 48 * PAGE, a)); /* the range */
    REQUIRE_OK(acre_device_synchronize(bed.device));
    for (int i = 0; i < PARTS; i++)
        parts[i] = take(&bed, PAGE, b);
    REQUIRE_OK(acre_launch_host(bed.device, b, gate_task, &gate_b));
    for (int i = 0; i < PARTS; i++)
        give(&bed, parts[i]);
    char *queued = take(&bed, 44 * PAGE, a);
    REQUIRE_OK(acre_launch_host(bed.device, a, gate_task, &gate_a));
    give(&bed, queued);
    char *last = take(&bed, 4 * PAGE, b);
    EXPECT_PTR_EQ(last + 4 * PAGE, queued); /* both lie in the range */
    give(&bed, last);
    gate_open(&gate_b);
    REQUIRE_OK(acre_stream_native_synchronize(bed.device, b));
    for (int i = 0; i < KEPT; i++)
        kept[i] = take(&bed, PAGE, a);
    for (int i = COUNT - 31; i < COUNT; i += 2)
        give(&bed, blocks[i]);
    uint64_t unmaps = bed_usage(&bed.sim).calls[ACRE_SIM_UNMAP];
    void *big = take(&bed, 40 * PAGE, a); /* changing the range would be cheapest */
    EXPECT_EQ(bed_usage(&bed.sim).calls[ACRE_SIM_UNMAP], unmaps);
    gate_open(&gate_a);
    REQUIRE_OK(acre_device_synchronize(bed.device));
    give(&bed, big);
    for (int i = 0; i < KEPT; i++)
        give(&bed, kept[i]);
    for (int i = 1; i < COUNT - 31; i += 2)
        give(&bed, blocks[i]);
    REQUIRE_OK(acre_stream_native_destroy(bed.device, a));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, b));
    share_bed_close(&bed);
}

TEST(plain_segments_on_request_and_where_there_are_no_pages)
{
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE};
    struct lab lab;

    open_stitched(&lab, (struct fake_config){0}, "stitched_memory:False");
    lab_free(&lab, lab_alloc(&lab, 5 * MIB));
    EXPECT_EQ(fake_calls(lab.fake, FAKE_ALLOC), 1);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_RESERVE), 0);
    lab_close(&lab);
    lab_open_with(&lab, NULL, &config);
    lab_free(&lab, lab_alloc(&lab, 5 * MIB));
    EXPECT_EQ(fake_calls(lab.fake, FAKE_ALLOC), 1);
    lab_close(&lab);
}

/* ---- Failing calls ------------------------------------------------------------------ */

/* Work that grows, stitches, changes a range and gives back; gives the first
 * failure. Everything is freed in any case. */
static acre_status work(struct lab *lab)
{
    static const size_t sizes[] = {PAGE, PAGE, PAGE, PAGE, PAGE, PAGE, 3 * PAGE, 100, 5 * MIB};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    void *blocks[COUNT] = {0};
    acre_status first = ACRE_OK;

    for (int i = 0; i < COUNT; i++) {
        acre_status status = acre_cache_alloc(lab->cache, sizes[i], NULL, &blocks[i]);
        first = first == ACRE_OK ? status : first;
        if (i == 5)
            for (int k = 0; k < 6; k += 2) {
                if (blocks[k])
                    REQUIRE_OK(acre_cache_free(lab->cache, blocks[k]));
                blocks[k] = NULL;
            }
        check(lab);
    }
    for (int i = 0; i < COUNT; i++)
        if (blocks[i])
            REQUIRE_OK(acre_cache_free(lab->cache, blocks[i]));
    acre_status status = acre_cache_empty(lab->cache);
    check(lab);
    return first == ACRE_OK ? status : first;
}

TEST(every_device_call_may_fail)
{
    static const acre_status kinds[] = {ACRE_ERR_DEVICE, ACRE_ERR_DEVICE_MEMORY};
    struct lab lab;

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint64_t nth = 1;; nth++) {
            open_stitched(&lab, (struct fake_config){.bytes = 12 * PAGE,
                                                     .completes_at_once = true}, NULL);
            fake_fail(lab.fake, FAKE_ANY, nth, kinds[k]);
            acre_status status = work(&lab);
            bool has_failed = fake_disarm(lab.fake);
            REQUIRE_OK(work(&lab)); /* as if nothing had happened */
            EXPECT_EQ(fake_bytes(lab.fake), 0);
            lab_close(&lab);
            if (!has_failed) {
                REQUIRE_OK(status);
                break;
            }
        }
}

TEST(every_host_allocation_may_fail)
{
    struct lab lab;

    for (uint64_t nth = 1;; nth++) {
        open_stitched(&lab, (struct fake_config){.bytes = 12 * PAGE, .completes_at_once = true},
                      NULL);
        heap_fail_nth(nth);
        acre_status status = work(&lab);
        bool has_failed = heap_fail_disarm();
        REQUIRE_OK(work(&lab));
        lab_close(&lab);
        if (!has_failed) {
            REQUIRE_OK(status);
            break;
        }
    }
}

T_MAIN()
