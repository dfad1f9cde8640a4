/* SPDX-License-Identifier: MIT */
#include "cache/pools/scope.h"

#include "tests/support/pool_lab.h"

#include <pthread.h>

TEST(B91_the_innermost_scope_serves)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id outer = new_pool(&lab, 0), inner = new_pool(&lab, 0);
    void *blocks[4];
    REQUIRE_OK(acre_pool_begin(lab.cache, outer, &pool_any));
    blocks[0] = lab_alloc(&lab, MIB);
    REQUIRE_OK(acre_pool_begin(lab.cache, inner, &pool_any));
    blocks[1] = lab_alloc(&lab, MIB);
    REQUIRE_OK(acre_pool_end(lab.cache, inner));
    blocks[2] = lab_alloc(&lab, MIB);
    REQUIRE_OK(acre_pool_end(lab.cache, outer));
    blocks[3] = lab_alloc(&lab, MIB);
    EXPECT_STR_EQ(lab_layout(&lab), "1048576*,1048576*|1048576*,1048576|1048576*,1048576");
    EXPECT_EQ(pool_stats(&lab, outer).live_count, 2);
    EXPECT_EQ(pool_stats(&lab, inner).live_count, 1);
    EXPECT_EQ(pool_of(&lab, blocks[0]), outer.user);
    EXPECT_EQ(pool_of(&lab, blocks[1]), inner.user);
    EXPECT_EQ(pool_of(&lab, blocks[2]), outer.user);
    EXPECT_EQ(pool_of(&lab, blocks[3]), 0);
    for (int i = 0; i < 4; i++)
        lab_free(&lab, blocks[i]);
    lab_close(&lab);
}

static void *alloc_elsewhere(void *arg)
{
    return lab_alloc(arg, MIB);
}

TEST(B103_a_scope_of_a_thread_is_that_threads)
{
    struct lab lab;
    pthread_t thread;
    void *theirs;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    void *mine = lab_alloc(&lab, MIB);
    REQUIRE(pthread_create(&thread, NULL, alloc_elsewhere, &lab) == 0);
    pthread_join(thread, &theirs);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    EXPECT_EQ(pool_of(&lab, mine), id.user);
    EXPECT_EQ(pool_of(&lab, theirs), 0);
    lab_free(&lab, mine);
    lab_free(&lab, theirs);
    lab_close(&lab);
}

TEST(a_scope_of_a_stream)
{
    struct lab lab;
    acre_pool_filter filter = {.kind = ACRE_POOL_STREAM, .stream = fake_stream(1)};

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, &filter));
    void *a = lab_alloc_on(&lab, MIB, 1), *b = lab_alloc_on(&lab, MIB, 0);
    EXPECT_EQ(pool_of(&lab, a), id.user);
    EXPECT_EQ(pool_of(&lab, b), 0);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    lab_free(&lab, a);
    lab_free(&lab, b);
    lab_close(&lab);
}

struct asked {
    struct lab *lab;
    acre_pool_id id;
    int count;
    bool answer, ends;
};

/* Runs without a lock: calls back into the cache. */
static bool ask(void *arg, void *stream)
{
    struct asked *asked = arg;

    asked->count++;
    EXPECT_PTR_EQ(stream, fake_stream(0));
    EXPECT_GE(CURRENT(asked->lab, reserved_bytes), 0);
    if (asked->ends)
        REQUIRE_OK(acre_pool_end(asked->lab->cache, asked->id));
    return asked->answer;
}

TEST(a_scope_of_a_function)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id outer = new_pool(&lab, 0), inner = new_pool(&lab, 0);
    struct asked asked = {.lab = &lab, .id = inner, .answer = true};
    acre_pool_filter filter = {.kind = ACRE_POOL_CALLBACK, .fn = ask, .arg = &asked};
    REQUIRE_OK(acre_pool_begin(lab.cache, outer, &pool_any));
    REQUIRE_OK(acre_pool_begin(lab.cache, inner, &filter));
    void *a = lab_alloc(&lab, MIB);
    asked.answer = false;
    void *b = lab_alloc(&lab, MIB);
    asked.answer = asked.ends = true; /* the scope goes while its filter is asked */
    void *c = lab_alloc(&lab, MIB);
    REQUIRE_OK(acre_pool_end(lab.cache, outer));
    EXPECT_EQ(asked.count, 3);
    EXPECT_EQ(pool_of(&lab, a), inner.user);
    EXPECT_EQ(pool_of(&lab, b), outer.user);
    EXPECT_EQ(pool_of(&lab, c), outer.user);
    lab_free(&lab, a);
    lab_free(&lab, b);
    lab_free(&lab, c);
    lab_close(&lab);
}

TEST(scopes_may_end_in_any_order)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id outer = new_pool(&lab, 0), inner = new_pool(&lab, 0);
    REQUIRE_OK(acre_pool_begin(lab.cache, outer, &pool_any));
    REQUIRE_OK(acre_pool_begin(lab.cache, inner, &pool_any));
    REQUIRE_OK(acre_pool_end(lab.cache, outer));
    void *a = lab_alloc(&lab, MIB);
    EXPECT_EQ(pool_of(&lab, a), inner.user);
    REQUIRE_OK(acre_pool_end(lab.cache, inner));
    lab_free(&lab, a);
    lab_close(&lab);
}

TEST(B87_a_scope_alone_defers_no_free)
{
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    void *block = alloc_in(&lab, id, MIB);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, block, fake_stream(1)));
    REQUIRE_OK(acre_pool_begin(lab.cache, id, &pool_any));
    lab_free(&lab, block);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_EVENT_RECORD), 1);
    fake_finish(lab.fake, fake_stream(1));
    void *again = lab_alloc(&lab, MIB);
    EXPECT_PTR_EQ(again, block);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    lab_free(&lab, again);
    lab_close(&lab);
}

TEST(policy_acre_routes_by_thread)
{
    struct lab lab;
    pthread_t thread;
    void *theirs;

    open_acre(&lab, NULL);
    for (int i = 0; i < 3; i++) /* the thread has a lane, with blocks at hand */
        lab_free(&lab, lab_alloc(&lab, MIB));
    acre_pool_id id = new_pool(&lab, 0);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    void *mine = lab_alloc(&lab, MIB), *small = lab_alloc(&lab, 100);
    REQUIRE(pthread_create(&thread, NULL, alloc_elsewhere, &lab) == 0);
    pthread_join(thread, &theirs);
    EXPECT_EQ(pool_of(&lab, mine), id.user);
    EXPECT_EQ(pool_of(&lab, small), id.user);
    EXPECT_EQ(pool_of(&lab, theirs), 0);
    lab_free(&lab, mine);
    EXPECT_PTR_EQ(lab_alloc(&lab, MIB), mine);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    void *after = lab_alloc(&lab, MIB);
    EXPECT_EQ(pool_of(&lab, after), 0);
    lab_free(&lab, mine); /* outside of the scope: back to its pool all the same */
    EXPECT_EQ(pool_stats(&lab, id).live_count, 1);
    void *shared = lab_alloc(&lab, MIB);
    EXPECT_EQ(pool_of(&lab, shared), 0);
    lab_free(&lab, small);
    lab_free(&lab, theirs);
    lab_free(&lab, after);
    lab_free(&lab, shared);
    REQUIRE_OK(acre_cache_check(lab.cache));
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_GT(CURRENT(&lab, reserved_bytes), 0);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 0);
    lab_close(&lab);
}

T_MAIN()
