/* SPDX-License-Identifier: MIT */
/* Saving and restoring how a pool is divided (B105 to B113, W13), under both
 * policies where that makes a difference. */
#include "base/heap.h"
#include "cache/cache.h"
#include "cache/torch/grow.h"
#include "tests/support/page_lab.h"

static acre_pool_state *save(struct lab *lab, acre_pool_id id)
{
    acre_pool_state *state = NULL;

    REQUIRE_OK(acre_pool_save(lab->cache, id, &state));
    return state;
}

static bool has(void *const *list, uint64_t count, const void *pointer)
{
    for (uint64_t i = 0; i < count; i++)
        if (list[i] == pointer)
            return true;
    return false;
}

/* Restores and ends the state. */
static acre_pool_delta *restore(struct lab *lab, acre_pool_state *state)
{
    acre_pool_delta *delta = NULL;

    REQUIRE_OK(acre_pool_restore(lab->cache, state, &delta));
    REQUIRE_OK(acre_cache_check(lab->cache));
    acre_pool_state_destroy(state);
    return delta;
}

static void open_policy(struct lab *lab, acre_policy policy)
{
    if (policy == ACRE_POLICY_ACRE)
        open_acre(lab, NULL);
    else
        lab_open(lab, NULL);
}

/* Frees what a delta says is live. */
static void free_allocated(struct lab *lab, acre_pool_delta *delta)
{
    for (uint64_t i = 0; i < delta->allocated_count; i++)
        lab_free(lab, delta->allocated[i]);
    acre_pool_delta_destroy(delta);
}

static void round_trip(acre_policy policy)
{
    struct lab lab;
    void *blocks[11];

    open_policy(&lab, policy);
    acre_pool_id id = new_pool(&lab, 0);
    for (int i = 0; i < 11; i++)
        blocks[i] = alloc_in(&lab, id, 512);
    void *large = alloc_in(&lab, id, 3 * MIB);
    for (int i = 0; i < 11; i++)
        if (i != 5)
            lab_free(&lab, blocks[i]);
    acre_pool_state *state = save(&lab, id);
    char before[8192];
    snprintf(before, sizeof before, "%s", lab_layout(&lab));
    if (policy == ACRE_POLICY_TORCH)
        EXPECT_STR_EQ(before, "2560,512*,2094080|3145728*,17825792");
    acre_pool_delta *delta = restore(&lab, state);
    EXPECT_STR_EQ(lab_layout(&lab), before);
    EXPECT_EQ(delta->freed_count, 2);
    EXPECT_EQ(delta->allocated_count, 2);
    EXPECT(has(delta->freed, 2, blocks[5]) && has(delta->freed, 2, large));
    EXPECT(has(delta->allocated, 2, blocks[5]) && has(delta->allocated, 2, large));
    EXPECT_EQ(CURRENT(&lab, allocation), 2);
    free_allocated(&lab, delta);
    EXPECT_EQ(CURRENT(&lab, allocation), 0);
    EXPECT_EQ(CURRENT(&lab, active_bytes), 0);
    lab_close(&lab);
}

TEST(B105_a_pool_is_divided_as_it_was)
{
    round_trip(ACRE_POLICY_TORCH);
}

TEST(B105_a_pool_is_divided_as_it_was_with_lanes)
{
    round_trip(ACRE_POLICY_ACRE);
}

static void later_allocations(acre_policy policy)
{
    struct lab lab;

    open_policy(&lab, policy);
    acre_pool_id id = new_pool(&lab, 0);
    void *kept = alloc_in(&lab, id, 4096);
    acre_pool_state *state = save(&lab, id);
    void *later = alloc_in(&lab, id, 1 * MIB), *other = lab_alloc(&lab, 4096);
    acre_pool_delta *delta = restore(&lab, state);
    EXPECT_EQ(delta->freed_count, 2);
    EXPECT_EQ(delta->allocated_count, 1);
    EXPECT_EQ(acre_cache_free(lab.cache, later), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "invalid device pointer");
    lab_free(&lab, kept);
    lab_free(&lab, other); /* other pools are not touched */
    acre_pool_delta_destroy(delta);
    EXPECT_EQ(CURRENT(&lab, allocation), 0);
    lab_close(&lab);
}

TEST(B106_what_came_later_is_freed)
{
    later_allocations(ACRE_POLICY_TORCH);
    later_allocations(ACRE_POLICY_ACRE);
}

TEST(B107_a_later_segment_stays_free)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    alloc_in(&lab, id, 3 * MIB);
    acre_pool_state *state = save(&lab, id);
    alloc_in(&lab, id, 30 * MIB);
    acre_pool_delta_destroy(restore(&lab, state));
    EXPECT_STR_EQ(lab_layout(&lab), "3145728*,17825792|31457280");
    lab_close(&lab);
}

TEST(B108_cuts_whatever_the_options_say)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    void *whole = alloc_in(&lab, id, 60 * MIB);
    lab_free(&lab, whole);
    alloc_in(&lab, id, 30 * MIB);
    acre_pool_state *state = save(&lab, id);
    lab_free(&lab, whole);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "max_split_size_mb:20"));
    REQUIRE_OK(acre_pool_no_split_set(lab.cache, id, true));
    acre_pool_delta_destroy(restore(&lab, state));
    EXPECT_STR_EQ(lab_layout(&lab), "31457280*,31457280");
    lab_close(&lab);
}

TEST(B109_an_expandable_segment_that_has_grown)
{
    struct lab lab;

    open_pages(&lab, ON);
    acre_pool_id id = new_pool(&lab, 0);
    alloc_in(&lab, id, 2 * MIB);
    acre_pool_state *state = save(&lab, id);
    alloc_in(&lab, id, 32 * MIB);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 40 * MIB);
    acre_pool_delta_destroy(restore(&lab, state));
    EXPECT_STR_EQ(lab_layout(&lab), "2097152*,39845888");
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 40 * MIB);
    lab_close(&lab);
}

TEST(B110_an_empty_pool)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    acre_pool_state *state = save(&lab, id);
    alloc_in(&lab, id, 3 * MIB);
    acre_pool_delta *delta = restore(&lab, state);
    EXPECT_EQ(delta->freed_count, 1);
    EXPECT_EQ(delta->allocated_count, 0);
    acre_pool_delta_destroy(delta);
    EXPECT_STR_EQ(lab_layout(&lab), "20971520");
    lab_close(&lab);
}

TEST(B111_errors_are_told_apart)
{
    struct lab lab, other;
    acre_pool_state *state = NULL, *none = NULL;

    lab_open(&other, NULL);
    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    fill(&lab, id, 3 * MIB);
    state = save(&lab, id);
    EXPECT_EQ(acre_pool_restore(other.cache, state, NULL), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "of this cache");
    EXPECT_EQ(acre_pool_restore(lab.cache, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_restore(NULL, state, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_save(NULL, id, &none), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_save(lab.cache, id, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    EXPECT_EQ(acre_pool_restore(lab.cache, state, NULL), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "freeable");
    acre_pool_state_destroy(save(&lab, id)); /* saving a freeable pool is fine */
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(acre_pool_restore(lab.cache, state, NULL), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "Could not find pool of id");
    EXPECT_EQ(acre_pool_save(lab.cache, id, &none), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "Could not find pool of id");
    /* The same id again, but the memory is gone. */
    REQUIRE_OK(acre_pool_create(lab.cache, id, NULL));
    EXPECT_EQ(acre_pool_restore(lab.cache, state, NULL), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "could not be found");
    acre_pool_state_destroy(state);
    acre_pool_state_destroy(NULL);
    acre_pool_delta_destroy(NULL);
    lab_close(&lab);
    lab_close(&other);
}

TEST(B112_peaks_rise_to_whole_segments)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    alloc_in(&lab, id, 3 * MIB);
    acre_pool_state *state = save(&lab, id);
    EXPECT_EQ(lab_stats(&lab)->allocated_bytes.all.peak, 3 * MIB);
    acre_pool_delta_destroy(restore(&lab, state));
    EXPECT_EQ(lab_stats(&lab)->allocated_bytes.all.peak, 20 * MIB);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 3 * MIB);
    lab_close(&lab);
}

TEST(B113_the_size_asked_for_is_not_kept)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    alloc_in(&lab, id, 100);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 100);
    acre_pool_state *state = save(&lab, id);
    acre_pool_delta_destroy(restore(&lab, state));
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 512);
    lab_close(&lab);
}

/* ---- All parts of expandable segments ------------------------------------------------ */

/* A freeable pool whose pages went, first and in the middle: the state shows every
 * part with memory; a pool that is used is restored whole. */
TEST(W13_every_run_of_pages_is_covered)
{
    struct lab lab;
    void *blocks[5], *found[5];
    bool is_same = false;

    open_pages(&lab, ON);
    acre_pool_id id = new_pool(&lab, 0);
    for (int i = 0; i < 5; i++)
        blocks[i] = alloc_in(&lab, id, 20 * MIB);
    lab_free(&lab, blocks[0]);
    lab_free(&lab, blocks[2]);
    REQUIRE_OK(acre_pool_release(lab.cache, id)); /* so that its pages may go */
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_STR_EQ(layout_mib(&lab), "20*|20*,20*");
    acre_pool_state *state = save(&lab, id);
    acre_pool_state_destroy(state);
    for (int i = 0, k = 0; i < 5; i++)
        if (i != 0 && i != 2)
            found[k++] = blocks[i];
    REQUIRE_OK(acre_pool_check_live(lab.cache, id, found, 3, &is_same));
    EXPECT(is_same);
    lab_close(&lab);
}

/* Takes the free pages of a pool that is in use, which the cache itself never does. */
static void take_pages(struct lab *lab, acre_pool_id id)
{
    bool is_quiet = false;

    quick_lock_take(&lab->cache->lock);
    struct private_pool *pool = private_pool_find(&lab->cache->private_pools, id);
    REQUIRE_OK(grow_shrink_locked(lab->cache, &pool->large, &is_quiet));
    quick_lock_drop(&lab->cache->lock);
}

TEST(W13_runs_behind_holes_are_restored)
{
    struct lab lab;
    void *blocks[5];

    open_pages(&lab, ON);
    acre_pool_id id = new_pool(&lab, 0);
    for (int i = 0; i < 5; i++)
        blocks[i] = alloc_in(&lab, id, 20 * MIB);
    lab_free(&lab, blocks[0]);
    lab_free(&lab, blocks[2]);
    take_pages(&lab, id);
    EXPECT_STR_EQ(layout_mib(&lab), "20*|20*,20*");
    acre_pool_state *state = save(&lab, id);
    lab_free(&lab, blocks[3]);
    EXPECT_PTR_EQ(alloc_in(&lab, id, 40 * MIB), blocks[2]); /* fills the second hole */
    acre_pool_delta *delta = restore(&lab, state);
    EXPECT_STR_EQ(layout_mib(&lab), "20*,20,20*,20*"); /* which stays, free */
    EXPECT_EQ(delta->freed_count, 3);
    EXPECT_EQ(delta->allocated_count, 3);
    EXPECT(has(delta->allocated, 3, blocks[3]));
    free_allocated(&lab, delta);
    /* What was there at the save and is not now is an error before anything. */
    alloc_in(&lab, id, 20 * MIB);
    state = save(&lab, id);
    take_pages(&lab, id);
    acre_cache_stats before = *lab_stats(&lab);
    EXPECT_EQ(acre_pool_restore(lab.cache, state, NULL), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "could not be found");
    EXPECT(memcmp(&before, lab_stats(&lab), sizeof before) == 0);
    acre_pool_state_destroy(state);
    lab_close(&lab);
}

/* The pool is looked at first, its memory only then. */
TEST(W13_a_freeable_pool_is_refused_and_nothing_changes)
{
    struct lab lab;

    open_pages(&lab, ON);
    acre_pool_id id = new_pool(&lab, 0);
    void *first = alloc_in(&lab, id, 20 * MIB), *second = alloc_in(&lab, id, 20 * MIB);
    acre_pool_state *state = save(&lab, id);
    lab_free(&lab, first);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    REQUIRE_OK(acre_cache_empty(lab.cache));
    acre_cache_stats before = *lab_stats(&lab);
    EXPECT_EQ(acre_pool_restore(lab.cache, state, NULL), ACRE_ERR_STATE);
    EXPECT(memcmp(&before, lab_stats(&lab), sizeof before) == 0);
    acre_pool_state_destroy(state);
    lab_free(&lab, second);
    lab_close(&lab);
}

/* ---- All or nothing --------------------------------------------------------------------- */

TEST(a_block_that_streams_use_is_not_saved)
{
    acre_pool_state *state = NULL;
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    void *block = alloc_in(&lab, id, 3 * MIB);
    acre_pool_state *good = save(&lab, id);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, block, fake_stream(1)));
    acre_cache_stats before = *lab_stats(&lab);
    EXPECT_EQ(acre_pool_restore(lab.cache, good, NULL), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "other streams");
    EXPECT(memcmp(&before, lab_stats(&lab), sizeof before) == 0);
    lab_free(&lab, block);
    before = *lab_stats(&lab);
    EXPECT_EQ(acre_pool_save(lab.cache, id, &state), ACRE_ERR_NOT_READY);
    EXPECT_EQ(acre_pool_restore(lab.cache, good, NULL), ACRE_ERR_NOT_READY);
    EXPECT(memcmp(&before, lab_stats(&lab), sizeof before) == 0);
    fake_finish(lab.fake, fake_stream(1));
    acre_pool_delta_destroy(restore(&lab, good));
    EXPECT_EQ(CURRENT(&lab, allocation), 1);
    lab_close(&lab);
}

/* Policy acre lets streams share memory: each block gets its stream back. */
TEST(streams_are_as_they_were)
{
    struct lab lab;
    char *blocks[6];

    open_acre(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    for (int i = 0; i < 6; i++)
        blocks[i] = lab_alloc_on(&lab, (size_t)(i + 1) * 100000, i % 3);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    lab_free(&lab, blocks[1]);
    lab_free(&lab, blocks[4]);
    acre_pool_state *state = save(&lab, id);
    for (int i = 0; i < 6; i++)
        if (i != 1 && i != 4)
            lab_free(&lab, blocks[i]);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    for (int i = 0; i < 4; i++) /* everything is mixed up meanwhile */
        lab_alloc_on(&lab, 300000, 2 - i % 3);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    acre_pool_delta *delta = restore(&lab, state);
    EXPECT_EQ(delta->freed_count, 4);
    EXPECT_EQ(delta->allocated_count, 4);
    for (int i = 0; i < 6; i++) {
        EXPECT_EQ(has(delta->allocated, 4, blocks[i]), i != 1 && i != 4);
        if (i != 1 && i != 4)
            lab_free(&lab, blocks[i]);
    }
    acre_pool_delta_destroy(delta);
    EXPECT_EQ(CURRENT(&lab, active_bytes), 0);
    lab_close(&lab);
}

TEST(every_failing_call_and_allocation_leaves_the_pool_as_it_was)
{
    for (int policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++)
        for (int is_heap = 0; is_heap < 2; is_heap++)
            for (uint64_t nth = 1;; nth++) {
                acre_pool_state *state = NULL;
                struct lab lab;

                open_policy(&lab, (acre_policy)policy);
                acre_pool_id id = new_pool(&lab, 0);
                void *one = alloc_in(&lab, id, 3 * MIB);
                alloc_in(&lab, id, 1000);
                if (is_heap)
                    heap_fail_nth(nth);
                else
                    fake_fail(lab.fake, FAKE_ANY, nth, ACRE_ERR_DEVICE);
                acre_status status = acre_pool_save(lab.cache, id, &state);
                if (status != ACRE_OK)
                    REQUIRE_OK(acre_pool_save(lab.cache, id, &state));
                lab_free(&lab, one);
                acre_cache_stats before = *lab_stats(&lab);
                status = acre_pool_restore(lab.cache, state, NULL);
                bool has_failed = is_heap ? heap_fail_disarm() : fake_disarm(lab.fake);
                if (status != ACRE_OK) {
                    EXPECT_EQ(status, is_heap ? ACRE_ERR_HOST_MEMORY : ACRE_ERR_DEVICE);
                    EXPECT(memcmp(&before, lab_stats(&lab), sizeof before) == 0);
                    REQUIRE_OK(acre_pool_restore(lab.cache, state, NULL));
                }
                EXPECT_EQ(CURRENT(&lab, allocation), 2);
                acre_pool_state_destroy(state);
                lab_close(&lab);
                if (!has_failed)
                    break;
            }
}

/* A stitched pool has no division that could be made again: nothing changes, and no live
 * memory is handed out twice. */
TEST(a_stitched_pool_is_not_saved)
{
    struct lab lab;
    acre_pool_state *state = NULL;
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE};

    lab_open_with(&lab, &(struct fake_config){.page_bytes = 2 * MIB}, &config);
    acre_pool_id id = new_pool(&lab, ACRE_POOL_STITCHED);
    char *small = alloc_in(&lab, id, 1024);
    acre_pool_stats before = pool_stats(&lab, id);
    EXPECT_EQ(acre_pool_save(lab.cache, id, &state), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "ACRE_POOL_STITCHED");
    EXPECT(!state);
    acre_pool_stats after = pool_stats(&lab, id);
    EXPECT_EQ(memcmp(&before, &after, sizeof before), 0);
    char *large = alloc_in(&lab, id, 2 * MIB);
    EXPECT(small < large || small >= large + 2 * MIB);
    lab_free(&lab, large);
    lab_free(&lab, small);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    lab_close(&lab);
}

T_MAIN()
