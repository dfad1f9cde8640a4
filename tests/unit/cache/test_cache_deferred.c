/* SPDX-License-Identifier: MIT */
/* Blocks that other streams use: alone, and through a cache (B76 to B81). */
#include "cache/deferred.h"

#include "base/heap.h"
#include "tests/support/lab.h"

/* ---- The part alone ------------------------------------------------------------ */

static int done_count;

static void note_done(void *arg, struct block *block)
{
    EXPECT_PTR_EQ(arg, &done_count);
    EXPECT_EQ(block->state, BLOCK_WAITING);
    block->state = BLOCK_LIVE;
    done_count++;
}

static bool is_sound(const struct deferred *deferred)
{
    const char *fact = NULL;

    if (deferred_check(deferred, &fact))
        return true;
    fprintf(stderr, "%s\n", fact);
    return false;
}

TEST(a_block_waits_for_every_stream)
{
    struct fake *fake = fake_create(NULL);
    struct deferred deferred;
    struct block block = {.state = BLOCK_LIVE};

    done_count = 0;
    deferred_init(&deferred, fake_device(fake, 0));
    REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(1), 0));
    REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(2), 0));
    REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(1), 0));
    REQUIRE_OK(deferred_add(&deferred, &block, false));
    EXPECT_EQ(block.event_count, 2);
    EXPECT_EQ(block.state, BLOCK_WAITING);
    EXPECT(is_sound(&deferred));
    deferred_collect(&deferred, note_done, &done_count);
    EXPECT_EQ(done_count, 0);
    fake_finish(fake, fake_stream(2));
    deferred_collect(&deferred, note_done, &done_count);
    EXPECT_EQ(done_count, 0);
    fake_finish(fake, fake_stream(1));
    deferred_collect(&deferred, note_done, &done_count);
    EXPECT_EQ(done_count, 1);
    EXPECT(is_sound(&deferred));
    EXPECT_EQ(deferred.idle_count, 2);
    deferred_fini(&deferred);
    EXPECT_EQ(fake_event_count(fake), 0);
    fake_destroy(fake);
}

TEST(events_are_used_again)
{
    struct fake *fake = fake_create(&(struct fake_config){.completes_at_once = true});
    struct deferred deferred;
    struct block block = {.state = BLOCK_LIVE};

    deferred_init(&deferred, fake_device(fake, 0));
    for (int i = 0; i < 100; i++) {
        REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(1 + i % 3), 0));
        REQUIRE_OK(deferred_add(&deferred, &block, false));
        deferred_collect(&deferred, note_done, &done_count);
    }
    EXPECT_EQ(fake_calls(fake, FAKE_EVENT_CREATE), 1);
    deferred_trim(&deferred);
    EXPECT_EQ(fake_event_count(fake), 0);
    EXPECT(is_sound(&deferred));
    deferred_fini(&deferred);
    fake_destroy(fake);
}

/* Each device call and host allocation of adding fails in turn; the block stays
 * live with its uses and nothing is queued. */
TEST(adding_all_or_nothing)
{
    uint64_t heap_before = heap_live_count();

    for (int pass = 0; pass < 2; pass++) {
        bool has_failed = true;
        for (uint64_t nth = 1; has_failed; nth++) {
            struct fake *fake = fake_create(NULL);
            struct deferred deferred;
            struct block block = {.state = BLOCK_LIVE};
            deferred_init(&deferred, fake_device(fake, 0));
            for (int i = 1; i <= 3; i++)
                REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(i), 0));
            if (pass)
                fake_fail(fake, FAKE_ANY, nth, ACRE_ERR_DEVICE);
            else
                heap_fail_nth(nth);
            acre_status status = deferred_add(&deferred, &block, false);
            has_failed = pass ? fake_disarm(fake) : heap_fail_disarm();
            EXPECT(is_sound(&deferred));
            if (has_failed) {
                EXPECT_EQ(status, pass ? ACRE_ERR_DEVICE : ACRE_ERR_HOST_MEMORY);
                EXPECT_EQ(block.state, BLOCK_LIVE);
                EXPECT_EQ(block.event_count, 0);
                EXPECT_EQ(deferred.pending_count, 0);
                EXPECT(block.uses && block.uses->next && block.uses->next->next);
                REQUIRE_OK(deferred_add(&deferred, &block, false));
            }
            EXPECT_EQ(block.event_count, 3);
            REQUIRE_OK(deferred_synchronize(&deferred, NULL, note_done, &done_count));
            deferred_fini(&deferred);
            EXPECT_EQ(fake_event_count(fake), 0);
            fake_destroy(fake);
        }
    }
    EXPECT_EQ(heap_live_count(), heap_before);
}

/* The event is set aside, so that others behind it are not in its way, and asked again. */
TEST(a_failed_query_is_met_again)
{
    struct fake *fake = fake_create(&(struct fake_config){.completes_at_once = true});
    struct deferred deferred;
    struct block block = {.state = BLOCK_LIVE};

    done_count = 0;
    deferred_init(&deferred, fake_device(fake, 0));
    REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(1), 0));
    REQUIRE_OK(deferred_add(&deferred, &block, false));
    fake_fail(fake, FAKE_EVENT_QUERY, 1, ACRE_ERR_DEVICE);
    deferred_collect(&deferred, note_done, &done_count);
    fake_disarm(fake);
    EXPECT_EQ(done_count, 0);
    EXPECT_EQ(deferred.bad_count, 1);
    EXPECT(is_sound(&deferred));
    fake_fail(fake, FAKE_EVENT_QUERY, 1, ACRE_ERR_DEVICE);
    deferred_collect(&deferred, note_done, &done_count);
    fake_disarm(fake);
    EXPECT_EQ(done_count, 0);
    deferred_collect(&deferred, note_done, &done_count);
    EXPECT_EQ(done_count, 1);
    deferred_fini(&deferred);
    fake_destroy(fake);
}

TEST(waiting_goes_on_after_a_failure)
{
    struct fake *fake = fake_create(&(struct fake_config){.completes_at_once = true});
    struct deferred deferred;
    struct block block = {.state = BLOCK_LIVE};

    done_count = 0;
    deferred_init(&deferred, fake_device(fake, 0));
    REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(1), 0));
    REQUIRE_OK(deferred_add(&deferred, &block, false));
    fake_fail(fake, FAKE_EVENT_SYNC, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(deferred_synchronize(&deferred, NULL, note_done, &done_count), ACRE_ERR_DEVICE);
    fake_disarm(fake);
    EXPECT_EQ(done_count, 0);
    deferred_collect(&deferred, note_done, &done_count);
    EXPECT_EQ(done_count, 1);
    deferred_fini(&deferred);
    fake_destroy(fake);
}

/* An event that never answers again is recorded anew when everything is waited for. */
TEST(a_bad_event_is_repaired_by_waiting)
{
    struct fake *fake = fake_create(&(struct fake_config){.completes_at_once = true});
    struct deferred deferred;
    struct block block = {.state = BLOCK_LIVE}, other = {.state = BLOCK_LIVE};

    done_count = 0;
    deferred_init(&deferred, fake_device(fake, 0));
    REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(1), 0));
    REQUIRE_OK(deferred_use(&deferred, &other, fake_stream(1), 0));
    REQUIRE_OK(deferred_add(&deferred, &block, false));
    REQUIRE_OK(deferred_add(&deferred, &other, false));
    fake_fail(fake, FAKE_EVENT_QUERY, 1, ACRE_ERR_DEVICE);
    deferred_collect(&deferred, note_done, &done_count);
    fake_disarm(fake);
    EXPECT_EQ(done_count, 1); /* the one behind it is free */
    EXPECT_EQ(block.state, BLOCK_WAITING);
    uint64_t records = fake_calls(fake, FAKE_EVENT_RECORD);
    fake_fail(fake, FAKE_EVENT_SYNC, 1, ACRE_ERR_DEVICE);
    REQUIRE_OK(deferred_synchronize(&deferred, NULL, note_done, &done_count));
    fake_disarm(fake);
    EXPECT_EQ(fake_calls(fake, FAKE_EVENT_RECORD), records + 1);
    EXPECT_EQ(done_count, 2);
    EXPECT(is_sound(&deferred));
    deferred_fini(&deferred);
    EXPECT_EQ(fake_event_count(fake), 0);
    fake_destroy(fake);
}

/* ---- Through a cache --------------------------------------------------------------- */

TEST(B76_the_own_stream_records_nothing)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc_on(&lab, 512, 1);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    lab_free(&lab, a);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_EVENT_RECORD), 0);
    EXPECT_EQ(CURRENT(&lab, active), 0);
    lab_close(&lab);
}

TEST(B77_one_event_per_other_stream)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 1);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(2)));
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    lab_free(&lab, a);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_EVENT_RECORD), 2);
    EXPECT_STR_EQ(lab_layout(&lab), "512~,2096640");
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 0);
    EXPECT_EQ(CURRENT(&lab, allocation), 0);
    EXPECT_EQ(CURRENT(&lab, active_bytes), 512);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 1);
    EXPECT_EQ(acre_cache_free(lab.cache, a), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_record_stream(lab.cache, a, fake_stream(3)), ACRE_ERR_INVALID);
    lab_close(&lab);
}

TEST(B78_reusable_at_the_next_malloc_after_both)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 20 * MIB);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(2)));
    lab_free(&lab, a);
    EXPECT(lab_alloc(&lab, 20 * MIB) != a);
    fake_finish(lab.fake, fake_stream(1));
    EXPECT(lab_alloc(&lab, 20 * MIB) != a);
    fake_finish(lab.fake, fake_stream(2));
    EXPECT_EQ(CURRENT(&lab, active), 3); /* noticed by a malloc only */
    EXPECT_PTR_EQ(lab_alloc(&lab, 20 * MIB), a);
    lab_close(&lab);
}

TEST(B79_one_query_per_busy_stream_and_malloc)
{
    struct lab lab;

    lab_open(&lab, NULL);
    for (int i = 0; i < 2; i++) {
        void *a = lab_alloc(&lab, 20 * MIB);
        REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
        lab_free(&lab, a);
    }
    uint64_t before = fake_calls(lab.fake, FAKE_EVENT_QUERY);
    lab_alloc(&lab, 512);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_EVENT_QUERY), before + 1);
    lab_close(&lab);
}

TEST(B80_empty_cache_waits_for_pending_blocks)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 20 * MIB);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    lab_free(&lab, a);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 0);
    EXPECT_EQ(CURRENT(&lab, active_bytes), 0);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_EVENT_SYNC), 1);
    EXPECT_EQ(fake_event_count(lab.fake), 0);
    lab_close(&lab);
}

TEST(B81_null_is_ignored_and_strangers_are_refused)
{
    struct lab lab;

    lab_open(&lab, NULL);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, NULL, fake_stream(1)));
    EXPECT_EQ(acre_cache_record_stream(lab.cache, &lab, fake_stream(1)), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "invalid device pointer");
    lab_close(&lab);
}

TEST(a_waiting_block_is_no_neighbour_to_merge_with)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 512), *b = lab_alloc(&lab, 512), *c = lab_alloc(&lab, 512);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, b, fake_stream(1)));
    lab_free(&lab, b);
    lab_free(&lab, a);
    lab_free(&lab, c);
    EXPECT_STR_EQ(lab_layout(&lab), "512,512~,2096128");
    fake_finish(lab.fake, fake_stream(1));
    lab_free(&lab, lab_alloc(&lab, 3 * MIB));
    EXPECT_STR_EQ(lab_layout(&lab), "2097152|20971520");
    lab_close(&lab);
}

TEST(without_streams_all_work_counts_as_done)
{
    struct fake_config device = {.without_streams = true};
    struct lab lab;

    lab_open_with(&lab, &device, NULL);
    void *a = lab_alloc(&lab, 20 * MIB);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    lab_free(&lab, a);
    EXPECT_PTR_EQ(lab_alloc(&lab, 20 * MIB), a);
    lab_close(&lab);
}

/* Where events lately were complete when they were looked at, the next one is asked at once; a
 * try in vain makes the one after come later. */
TEST(a_complete_event_is_noticed_at_once)
{
    struct fake *fake = fake_create(&(struct fake_config){.completes_at_once = true});
    struct deferred deferred;
    struct block block = {.state = BLOCK_LIVE};

    deferred_init(&deferred, fake_device(fake, 0));
    REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(1), 0));
    REQUIRE_OK(deferred_add(&deferred, &block, true));
    EXPECT_EQ(block.state, BLOCK_WAITING); /* nothing is known yet */
    deferred_collect(&deferred, note_done, &done_count);
    block.state = BLOCK_LIVE;
    for (int i = 0; i < 10; i++) {
        uint64_t before = fake_calls(fake, FAKE_EVENT_QUERY);
        REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(1 + i % 2), 0));
        REQUIRE_OK(deferred_add(&deferred, &block, true));
        EXPECT_EQ(block.state, BLOCK_LIVE);
        EXPECT(!block.uses && !block.event_count && !deferred.pending_count);
        EXPECT_EQ(fake_calls(fake, FAKE_EVENT_QUERY), before + 1);
    }
    fake_fail(fake, FAKE_EVENT_QUERY, 1, ACRE_ERR_NOT_READY);
    REQUIRE_OK(deferred_use(&deferred, &block, fake_stream(1), 0));
    REQUIRE_OK(deferred_add(&deferred, &block, true));
    EXPECT_EQ(block.state, BLOCK_WAITING);
    EXPECT(!deferred.is_prompt);
    EXPECT_EQ(deferred.prompt_pause, 2);
    deferred_collect(&deferred, note_done, &done_count);
    EXPECT(deferred.is_prompt);
    deferred_fini(&deferred);
    fake_destroy(fake);
}

T_MAIN()
