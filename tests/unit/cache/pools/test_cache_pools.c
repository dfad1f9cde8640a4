/* SPDX-License-Identifier: MIT */
#include "tests/support/pool_lab.h"

#include <acre/history.h>
#include <acre/sleep.h>

#include <pthread.h>

TEST(B89_a_scope_is_a_use)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    EXPECT_EQ(use_count(&lab, id), 1);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    EXPECT_EQ(use_count(&lab, id), 2);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    EXPECT_EQ(use_count(&lab, id), 1);
    REQUIRE_OK(acre_pool_create(lab.cache, id, NULL));
    EXPECT_EQ(use_count(&lab, id), 2);
    lab_close(&lab);
}

TEST(B90_mistakes_have_statuses)
{
    struct lab lab;
    uint64_t count;

    lab_open(&lab, NULL);
    acre_pool_id id = acre_pool_id_next();
    EXPECT_EQ(acre_pool_release(lab.cache, id), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_pool_use_count(lab.cache, id, &count), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_pool_end(lab.cache, id), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "not currently recording");
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    EXPECT_EQ(acre_pool_begin(lab.cache, id, &pool_any), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "already recording to mempool_id");
    EXPECT_EQ(use_count(&lab, id), 1);
    EXPECT_EQ(acre_pool_release(lab.cache, id), ACRE_ERR_STATE);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    EXPECT_EQ(acre_pool_end(lab.cache, id), ACRE_ERR_STATE);
    EXPECT_EQ(acre_pool_release(lab.cache, id), ACRE_ERR_STATE);
    EXPECT_EQ(acre_pool_begin(lab.cache, id, NULL), ACRE_ERR_STATE);
    EXPECT_EQ(acre_pool_begin(lab.cache, (acre_pool_id){0}, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_begin(lab.cache, (acre_pool_id){1, 1}, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_begin(NULL, id, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_begin(lab.cache, acre_pool_id_next(),
                              &(acre_pool_filter){.kind = ACRE_POOL_CALLBACK}),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_empty(lab.cache, acre_pool_id_next()), ACRE_OK);
    lab_close(&lab);
}

TEST(B92_a_used_pool_keeps_its_segments)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    fill(&lab, id, 30 * MIB);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 30 * MIB);
    REQUIRE_OK(acre_pool_empty(lab.cache, id));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 30 * MIB);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 30 * MIB);
    REQUIRE_OK(acre_pool_empty(lab.cache, id));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 0);
    EXPECT_EQ(acre_pool_release(lab.cache, id), ACRE_ERR_NOT_FOUND);
    REQUIRE_OK(acre_pool_create(lab.cache, id, NULL)); /* the id is free again */
    EXPECT_EQ(use_count(&lab, id), 1);
    lab_close(&lab);
}

TEST(B92_emptying_one_pool_leaves_the_others)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id first = new_pool(&lab, 0), second = new_pool(&lab, 0);
    fill(&lab, first, 30 * MIB);
    fill(&lab, second, 32 * MIB);
    LAB_CACHE(&lab, 34);
    REQUIRE_OK(acre_pool_release(lab.cache, first));
    REQUIRE_OK(acre_pool_release(lab.cache, second));
    int64_t syncs = COUNT(&lab, num_sync_all_streams);
    REQUIRE_OK(acre_pool_empty(lab.cache, first));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 66 * MIB);
    EXPECT_EQ(COUNT(&lab, num_sync_all_streams), syncs + 1);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 0);
    lab_close(&lab);
}

TEST(B95_a_pool_has_segments_of_its_own)
{
    struct lab lab;
    void *blocks[3];

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    LAB_CACHE(&lab, 1);
    for (int i = 0; i < 3; i++)
        blocks[i] = alloc_in(&lab, id, MIB);
    EXPECT_EQ(pool_stats(&lab, id).segment_count, 2);
    EXPECT_EQ(CURRENT(&lab, segment), 3);
    for (int i = 0; i < 3; i++)
        lab_free(&lab, blocks[i]);
    EXPECT_EQ(pool_stats(&lab, id).free_bytes, 4 * MIB);
    lab_close(&lab);
}

TEST(B96_no_split)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, ACRE_POOL_NO_SPLIT);
    void *a = alloc_in(&lab, id, 4 * MIB), *b = alloc_in(&lab, id, 4 * MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "20971520*|20971520*");
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 40 * MIB);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 8 * MIB);
    void *c = alloc_in(&lab, id, 1000);
    EXPECT_EQ(CURRENT(&lab, allocated_bytes), 42 * MIB);
    lab_free(&lab, a);
    lab_free(&lab, b);
    lab_free(&lab, c);
    REQUIRE_OK(acre_pool_no_split_set(lab.cache, id, false));
    a = alloc_in(&lab, id, 4 * MIB);
    EXPECT_EQ(lab_block_bytes(&lab, a), 4 * MIB);
    lab_free(&lab, a);
    lab_close(&lab);
}

TEST(B97_use_on_oom)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 80 * MIB);
    acre_pool_id p = new_pool(&lab, 0), q = new_pool(&lab, ACRE_POOL_USE_ON_OOM);
    fill(&lab, p, 40 * MIB);
    fill(&lab, q, 40 * MIB);
    void *block = lab_alloc(&lab, 30 * MIB);
    EXPECT_EQ(pool_of(&lab, block), q.user);
    EXPECT_EQ(lab_try(&lab, 30 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(lab_try(&lab, MIB), ACRE_ERR_DEVICE_MEMORY);
    lab_free(&lab, block);
    REQUIRE_OK(acre_pool_use_on_oom_set(lab.cache, q, false));
    EXPECT_EQ(lab_try(&lab, 30 * MIB), ACRE_ERR_DEVICE_MEMORY);
    lab_close(&lab);
}

/* It can be put to sleep, of which who is given it knows nothing. */
TEST(stitched_memory_is_not_lent)
{
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE};
    struct lab lab;

    lab_open_with(&lab, &(struct fake_config){.page_bytes = 2 * MIB}, &config);
    lab_limit(&lab, 60 * MIB);
    acre_pool_id q = new_pool(&lab, ACRE_POOL_USE_ON_OOM | ACRE_POOL_STITCHED);
    fill(&lab, q, 40 * MIB);
    EXPECT_EQ(lab_try(&lab, 30 * MIB), ACRE_ERR_DEVICE_MEMORY);
    lab_close(&lab);
}

TEST(stitched_memory_that_is_idle_goes_back_when_another_pool_runs_short)
{
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE};
    struct lab lab;

    lab_open_with(&lab, &(struct fake_config){.page_bytes = 2 * MIB}, &config);
    lab_limit(&lab, 60 * MIB);
    acre_pool_id released = new_pool(&lab, ACRE_POOL_STITCHED);
    fill(&lab, released, 40 * MIB);
    REQUIRE_OK(acre_pool_release(lab.cache, released));
    EXPECT_EQ(lab_try(&lab, 30 * MIB), ACRE_OK);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    acre_pool_id giving = new_pool(&lab, ACRE_POOL_STITCHED | ACRE_POOL_GIVES_BACK);
    fill(&lab, giving, 40 * MIB);
    EXPECT_EQ(lab_try(&lab, 30 * MIB), ACRE_OK);
    EXPECT_EQ(pool_stats(&lab, giving).free_bytes, 0);
    lab_close(&lab);
}

TEST(B98_lending_changes_no_count)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 40 * MIB);
    acre_pool_id q = new_pool(&lab, ACRE_POOL_USE_ON_OOM);
    fill(&lab, q, 40 * MIB);
    void *block = lab_alloc(&lab, 30 * MIB);
    EXPECT_EQ(use_count(&lab, q), 1);
    EXPECT_EQ(pool_stats(&lab, q).live_count, 1);
    lab_free(&lab, block);
    EXPECT_EQ(pool_stats(&lab, q).free_bytes, 40 * MIB);
    lab_close(&lab);
}

TEST(W8_a_pool_that_somebody_has_open_is_passed_over)
{
    static const acre_pool_filter elsewhere = {.kind = ACRE_POOL_STREAM,
                                               .stream = (void *)0x1000};
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 80 * MIB);
    acre_pool_id p = new_pool(&lab, ACRE_POOL_USE_ON_OOM);
    acre_pool_id q = new_pool(&lab, ACRE_POOL_USE_ON_OOM);
    fill(&lab, p, 40 * MIB);
    fill(&lab, q, 40 * MIB);
    REQUIRE_OK(acre_pool_begin(lab.cache, p, &elsewhere));
    void *block = lab_alloc(&lab, 30 * MIB);
    EXPECT_EQ(pool_of(&lab, block), q.user);
    EXPECT_EQ(lab_try(&lab, 30 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(use_count(&lab, p), 2);
    EXPECT_EQ(use_count(&lab, q), 1);
    REQUIRE_OK(acre_pool_end(lab.cache, p));
    void *second = lab_alloc(&lab, 30 * MIB);
    EXPECT_EQ(pool_of(&lab, second), p.user);
    lab_free(&lab, block);
    lab_free(&lab, second);
    lab_close(&lab);
}

TEST(B99_a_private_request_releases_the_shared_cache)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 100 * MIB);
    acre_pool_id id = new_pool(&lab, 0);
    LAB_CACHE(&lab, 60);
    void *block = alloc_in(&lab, id, 80 * MIB);
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 1);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 80 * MIB);
    lab_free(&lab, block);
    lab_close(&lab);
}

#define ID_THREADS 4
#define ID_COUNT 1000

static void *take_ids(void *arg)
{
    for (int i = 0; i < ID_COUNT; i++)
        ((uint64_t *)arg)[i] = acre_pool_id_next().user;
    return NULL;
}

static int by_number(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return first < second ? -1 : first > second;
}

TEST(B101_ids_grow_and_are_unique_across_threads)
{
    static uint64_t numbers[ID_THREADS][ID_COUNT];
    pthread_t threads[ID_THREADS];
    acre_pool_id a = acre_pool_id_next(), b = acre_pool_id_next();
    acre_pool_id c = acre_pool_id_next_graph(), d = acre_pool_id_next_graph();

    EXPECT(a.graph == 0 && b.graph == 0 && b.user > a.user);
    EXPECT(c.user == 0 && d.user == 0 && d.graph > c.graph && c.graph > 0);
    for (int i = 0; i < ID_THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, take_ids, numbers[i]) == 0);
    for (int i = 0; i < ID_THREADS; i++) {
        pthread_join(threads[i], NULL);
        for (int k = 1; k < ID_COUNT; k++)
            EXPECT_LT(numbers[i][k - 1], numbers[i][k]);
    }
    uint64_t *all = &numbers[0][0];
    qsort(all, ID_THREADS * ID_COUNT, sizeof *all, by_number);
    for (int i = 1; i < ID_THREADS * ID_COUNT; i++)
        REQUIRE(all[i - 1] != all[i]);
}

TEST(W21_a_rejection_does_not_outlive_its_attempt)
{
    struct lab lab;

    /* The limit stops the first attempt, the fraction the second, which comes after
     * one oversize block went; when all have gone, there is room for the third. */
    lab_open(&lab, "max_split_size_mb:40,throw_on_cudamalloc_oom:True,"
                   "per_process_memory_fraction:0.015625"); /* 128 MiB */
    acre_cache_limit_set(lab.cache, 160 * MIB);
    void *a = lab_alloc_on(&lab, 44 * MIB, 0), *b = lab_alloc_on(&lab, 50 * MIB, 1);
    void *c = lab_alloc_on(&lab, 24 * MIB, 1);
    lab_free(&lab, a);
    lab_free(&lab, b);
    lab_free(&lab, c); /* 118 MiB are held */
    EXPECT_EQ(lab_try(&lab, 44 * MIB), ACRE_OK);
    void *d = lab_alloc_on(&lab, 48 * MIB, 0);
    (void)d;
    EXPECT_EQ(COUNT(&lab, num_oom_rejections), 0);
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 1);
    lab_free(&lab, d);
    lab_close(&lab);
}

TEST(policy_acre_lends_and_keeps_whole)
{
    struct lab lab;

    open_acre(&lab, NULL);
    acre_cache_limit_set(lab.cache, 80 * MIB);
    acre_pool_id p = new_pool(&lab, 0);
    acre_pool_id q = new_pool(&lab, ACRE_POOL_USE_ON_OOM | ACRE_POOL_NO_SPLIT);
    fill(&lab, p, 40 * MIB);
    fill(&lab, q, 40 * MIB);
    void *block = lab_alloc(&lab, 30 * MIB);
    EXPECT_EQ(pool_of(&lab, block), q.user);
    EXPECT_EQ(lab_block_bytes(&lab, block), 40 * MIB);
    EXPECT_EQ(lab_try(&lab, 30 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "80.00 MiB allocated");
    EXPECT_HAS(acre_last_error(), "40.00 MiB of it free in private pools");
    lab_free(&lab, block);
    EXPECT_EQ(pool_stats(&lab, q).free_bytes, 40 * MIB);
    lab_close(&lab);
}

/* What a scope serves is in the history, whichever policy the cache has. */
static void expect_recorded(acre_policy policy)
{
    acre_history_config recording = {.struct_size = sizeof recording, .max_entries = 100};
    acre_cache_config config = {.policy = policy};
    acre_history *history;
    struct lab lab;
    uint64_t alloc_count = 0, free_count = 0;

    lab_open_with(&lab, NULL, &config);
    acre_pool_id id = new_pool(&lab, 0);
    REQUIRE_OK(acre_cache_history_start(lab.cache, &recording));
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    lab_free(&lab, lab_alloc(&lab, 3 * MIB));
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    for (uint64_t i = 0; i < history->entry_count; i++) {
        alloc_count += history->entries[i].action == ACRE_ACTION_ALLOC;
        free_count += history->entries[i].action == ACRE_ACTION_FREE_REQUESTED;
    }
    EXPECT_EQ(alloc_count, 1);
    EXPECT_EQ(free_count, 1);
    acre_history_destroy(history);
    lab_close(&lab);
}

TEST(allocations_of_a_scope_are_recorded)
{
    expect_recorded(ACRE_POLICY_TORCH);
    expect_recorded(ACRE_POLICY_ACRE);
}

/* Gives up a pool while memory for it is obtained. */
struct quitter {
    struct lab *lab;
    acre_pool_id id;
    acre_status slept;
};

static bool quit(void *arg)
{
    struct quitter *quitter = arg;
    acre_cache *cache = quitter->lab->cache;

    quitter->slept = acre_cache_sleep(cache, &quitter->id, NULL, ACRE_SLEEP_DISCARD);
    EXPECT_EQ(acre_pool_end(cache, quitter->id), ACRE_OK);
    EXPECT_EQ(acre_pool_release(cache, quitter->id), ACRE_OK);
    EXPECT_EQ(acre_pool_empty(cache, quitter->id), ACRE_OK);
    return true;
}

static void run_quitter(const acre_cache_config *config)
{
    struct lab lab;
    uint64_t count;

    lab_open_with(&lab, NULL, config);
    struct quitter quitter = {&lab, new_pool(&lab, 0), ACRE_OK};
    REQUIRE_OK(acre_pool_begin(lab.cache, quitter.id, NULL));
    REQUIRE_OK(acre_cache_reclaimer_add(lab.cache, quit, &quitter));
    void *block = lab_alloc(&lab, 5 * MIB);
    acre_cache_reclaimer_remove(lab.cache, quit, &quitter);
    EXPECT_EQ(quitter.slept, ACRE_ERR_BUSY);
    EXPECT_EQ(pool_of(&lab, block), quitter.id.user);
    EXPECT_EQ(use_count(&lab, quitter.id), 0);
    lab_free(&lab, block);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(acre_pool_use_count(lab.cache, quitter.id, &count), ACRE_ERR_NOT_FOUND);
    lab_close(&lab);
}

TEST(a_pool_that_is_given_up_while_a_request_is_served_serves_it)
{
    run_quitter(&(acre_cache_config){.policy = ACRE_POLICY_TORCH});
    run_quitter(&(acre_cache_config){.policy = ACRE_POLICY_ACRE});
}

T_MAIN()
