/* SPDX-License-Identifier: MIT */
/* What every kind of store must do; test_symm_store_KIND.c gives store_open(), which opens
 * the same contents again for a second user. */
#ifndef TESTS_UNIT_STORE_SUITE_H
#define TESTS_UNIT_STORE_SUITE_H

#include "base/heap.h"
#include "symm/deadline.h"

#include "tests/support/t.h"

#include <acre/store.h>

#include <pthread.h>
#include <unistd.h>

/* Contents for one test, and a way to them; store_begin starts empty. */
static void store_begin(void);
static acre_store *store_open(void);
static void store_end(void);

static inline void set_text(acre_store *store, const char *key, const char *value)
{
    REQUIRE_OK(acre_store_set(store, key, value, strlen(value)));
}

static inline void expect_text(acre_store *store, const char *key, const char *value)
{
    acre_blob blob;

    REQUIRE_OK(acre_store_get(store, key, &blob));
    EXPECT_STR_EQ(blob.data, value);
    EXPECT_EQ(blob.bytes, strlen(value));
    acre_blob_free(&blob);
}

/* A second thread with a store of its own. */
struct helper {
    pthread_t thread;
    acre_store *store;
    void (*run)(struct helper *);
    int64_t number;
};

static void *helper_main(void *arg)
{
    struct helper *helper = arg;

    helper->run(helper);
    return NULL;
}

static inline void helper_start(struct helper *helper, void (*run)(struct helper *))
{
    helper->store = store_open();
    helper->run = run;
    REQUIRE(pthread_create(&helper->thread, NULL, helper_main, helper) == 0);
}

static inline void helper_join(struct helper *helper)
{
    pthread_join(helper->thread, NULL);
    acre_store_destroy(helper->store);
}

static void set_late(struct helper *helper)
{
    usleep(20000);
    set_text(helper->store, "late", "here");
}

static void add_late(struct helper *helper)
{
    usleep(20000);
    REQUIRE_OK(acre_store_add(helper->store, "number", 4, NULL));
}

static void compare_set_late(struct helper *helper)
{
    usleep(20000);
    REQUIRE_OK(acre_store_compare_set(helper->store, "compared", "", 0, "x", 1, NULL));
}

static void add_many(struct helper *helper)
{
    for (int i = 0; i < 50; i++)
        REQUIRE_OK(acre_store_add(helper->store, "sum", helper->number, NULL));
}

static void meet(struct helper *helper)
{
    REQUIRE_OK(acre_store_barrier(helper->store, "meeting", 3));
    REQUIRE_OK(acre_store_add(helper->store, "met", 1, NULL));
}

TEST(S82_get_waits_for_another_who_sets)
{
    struct helper helper;

    store_begin();
    acre_store *store = store_open();
    helper_start(&helper, set_late);
    expect_text(store, "late", "here");
    helper_join(&helper);
    acre_store_destroy(store);
    store_end();
}

TEST(S82_get_times_out_and_names_the_key)
{
    acre_blob blob;

    store_begin();
    acre_store *store = store_open();
    REQUIRE_OK(acre_store_set_timeout(store, 50));
    int64_t begin = clock_ns();
    EXPECT_EQ(acre_store_get(store, "never", &blob), ACRE_ERR_TIMEOUT);
    EXPECT_GE(clock_ns() - begin, 50 * NS_PER_MS);
    EXPECT_HAS(acre_last_error(), "never");
    EXPECT_EQ(acre_store_pop(store, "nothing", &blob), ACRE_ERR_TIMEOUT);
    set_text(store, "still", "works");
    expect_text(store, "still", "works");
    acre_store_destroy(store);
    store_end();
}

TEST(S82_add_of_several_sums_exactly)
{
    struct helper helpers[3];
    int64_t sum;

    store_begin();
    acre_store *store = store_open();
    for (int i = 0; i < 3; i++) {
        helpers[i].number = i + 1;
        helper_start(&helpers[i], add_many);
    }
    for (int i = 0; i < 3; i++)
        helper_join(&helpers[i]);
    REQUIRE_OK(acre_store_add(store, "sum", 0, &sum));
    EXPECT_EQ(sum, 50 * 6);
    expect_text(store, "sum", "300");
    set_text(store, "word", "seven");
    EXPECT_EQ(acre_store_add(store, "word", 1, &sum), ACRE_ERR_FORMAT);
    expect_text(store, "word", "seven");
    acre_store_destroy(store);
    store_end();
}

/* Adds from a process of its own, whose store must be opened there. */
static inline void process_main(void *arg)
{
    struct helper helper = {.store = store_open(), .number = *(int *)arg};

    add_many(&helper);
    acre_store_destroy(helper.store);
}

/* For the kinds that processes can share. */
static inline void expect_processes_sum(void)
{
    int numbers[3] = {1, 2, 3};
    pid_t pids[3];
    int64_t sum;

    store_begin();
    for (int i = 0; i < 3; i++)
        pids[i] = t_start(process_main, &numbers[i]);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(t_join(pids[i]), 0);
    acre_store *store = store_open();
    REQUIRE_OK(acre_store_add(store, "sum", 0, &sum));
    EXPECT_EQ(sum, 50 * 6);
    acre_store_destroy(store);
    store_end();
}

static void expect_compare(acre_store *store, const char *expected, const char *desired,
                           const char *answer)
{
    acre_blob blob;

    REQUIRE_OK(acre_store_compare_set(store, "cell", expected, strlen(expected), desired,
                                      strlen(desired), &blob));
    EXPECT_STR_EQ(blob.data, answer);
    acre_blob_free(&blob);
}

TEST(S83_compare_set_has_its_four_cases)
{
    const char *key = "cell";
    bool is_there = true;

    store_begin();
    acre_store *store = store_open();
    expect_compare(store, "old", "new", "old"); /* absent, expected something: nothing stored */
    REQUIRE_OK(acre_store_check(store, &key, 1, &is_there));
    EXPECT(!is_there);
    expect_compare(store, "", "first", "first"); /* absent, expected nothing */
    expect_compare(store, "first", "second", "second");
    expect_compare(store, "first", "third", "second"); /* differs: the present value */
    expect_text(store, key, "second");
    acre_store_destroy(store);
    store_end();
}

TEST(S84_barrier_releases_all_at_the_last)
{
    struct helper helpers[2];
    int64_t met;

    store_begin();
    acre_store *store = store_open();
    for (int i = 0; i < 2; i++)
        helper_start(&helpers[i], meet);
    usleep(10000);
    REQUIRE_OK(acre_store_add(store, "met", 0, &met));
    EXPECT_EQ(met, 0);
    REQUIRE_OK(acre_store_barrier(store, "meeting", 3));
    for (int i = 0; i < 2; i++)
        helper_join(&helpers[i]);
    EXPECT_EQ(acre_store_barrier(store, "meeting", 3), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "another key");
    REQUIRE_OK(acre_store_set_timeout(store, 30));
    EXPECT_EQ(acre_store_barrier(store, "lonely", 2), ACRE_ERR_TIMEOUT);
    EXPECT_HAS(acre_last_error(), "1 of 2");
    acre_store_destroy(store);
    store_end();
}

static void count_key(void *arg, const char *key)
{
    int *count = arg;

    (*count)++;
    EXPECT(strcmp(key, "k") == 0 || strcmp(key, "other") == 0);
}

TEST(S85_prefixes_do_not_see_each_other)
{
    acre_store *a, *ab;
    acre_blob blob;
    int count = 0;

    store_begin();
    acre_store *store = store_open();
    REQUIRE_OK(acre_store_create_prefix(store, "a", &a));
    REQUIRE_OK(acre_store_create_prefix(store, "ab", &ab));
    set_text(a, "k", "1");
    set_text(ab, "other", "2");
    set_text(ab, "third", "3");
    REQUIRE_OK(acre_store_list(a, count_key, &count));
    EXPECT_EQ(count, 1);
    REQUIRE_OK(acre_store_set_timeout(a, 20));
    EXPECT_EQ(acre_store_get(a, "other", &blob), ACRE_ERR_TIMEOUT);
    expect_text(store, "a/k", "1");
    expect_text(ab, "other", "2");
    acre_store_destroy(a);
    acre_store_destroy(ab);
    acre_store_destroy(store);
    store_end();
}

TEST(S88_add_and_compare_set_wake_those_who_wait)
{
    struct helper helper;

    store_begin();
    acre_store *store = store_open();
    helper_start(&helper, add_late);
    int64_t begin = clock_ns();
    expect_text(store, "number", "4");
    helper_join(&helper);
    helper_start(&helper, compare_set_late);
    expect_text(store, "compared", "x");
    helper_join(&helper);
    EXPECT_LT(clock_ns() - begin, 20000 * NS_PER_MS);
    acre_store_destroy(store);
    store_end();
}

TEST(several_keys_travel_together)
{
    const char *keys[] = {"one", "two"};
    const void *values[] = {"1", "22"};
    size_t bytes[] = {1, 2};
    acre_blob blobs[2];
    bool is_there, was_there;
    uint64_t count;

    store_begin();
    acre_store *store = store_open();
    REQUIRE_OK(acre_store_check(store, keys, 2, &is_there));
    EXPECT(!is_there);
    REQUIRE_OK(acre_store_multi_set(store, keys, values, bytes, 2));
    REQUIRE_OK(acre_store_check(store, keys, 2, &is_there));
    EXPECT(is_there);
    REQUIRE_OK(acre_store_wait(store, keys, 2, 10));
    REQUIRE_OK(acre_store_multi_get(store, keys, 2, blobs));
    EXPECT_STR_EQ(blobs[0].data, "1");
    EXPECT_STR_EQ(blobs[1].data, "22");
    for (int i = 0; i < 2; i++)
        acre_blob_free(&blobs[i]);
    REQUIRE_OK(acre_store_count(store, &count));
    EXPECT_EQ(count, 2);
    REQUIRE_OK(acre_store_append(store, "two", "33", 2));
    expect_text(store, "two", "2233");
    REQUIRE_OK(acre_store_delete(store, "one", &was_there));
    EXPECT(was_there);
    REQUIRE_OK(acre_store_delete(store, "one", &was_there));
    EXPECT(!was_there);
    keys[1] = "absent";
    EXPECT_EQ(acre_store_wait(store, keys, 2, 10), ACRE_ERR_TIMEOUT);
    EXPECT_HAS(acre_last_error(), "one");
    acre_store_destroy(store);
    store_end();
}

TEST(queues_keep_their_order)
{
    acre_blob blob;
    uint64_t length;

    store_begin();
    acre_store *store = store_open(), *second = store_open();
    REQUIRE_OK(acre_store_push(store, "q", "a", 1));
    REQUIRE_OK(acre_store_push(second, "q", "b", 1));
    REQUIRE_OK(acre_store_length(store, "q", &length));
    EXPECT_EQ(length, 2);
    for (const char *expected = "ab"; *expected; expected++) {
        REQUIRE_OK(acre_store_pop(second, "q", &blob));
        EXPECT_EQ(*(char *)blob.data, *expected);
        acre_blob_free(&blob);
    }
    REQUIRE_OK(acre_store_length(store, "q", &length));
    EXPECT_EQ(length, 0);
    acre_store_destroy(store);
    acre_store_destroy(second);
    store_end();
}

static void inherited_use(void *store)
{
    uint64_t number;

    EXPECT_EQ(acre_store_add(store, "sum", 1, NULL), ACRE_ERR_FORKED);
    EXPECT_HAS(acre_last_error(), "opened before fork");
    EXPECT_EQ(acre_store_ping(store, 1, &number), ACRE_ERR_FORKED);
    acre_store_destroy(store);
}

TEST(a_child_does_not_use_what_it_inherits)
{
    int64_t sum;

    store_begin();
    acre_store *store = store_open();
    REQUIRE_OK(acre_store_add(store, "sum", 1, NULL));
    EXPECT_EQ(t_child(inherited_use, store), 0);
    REQUIRE_OK(acre_store_add(store, "sum", 1, &sum));
    EXPECT_EQ(sum, 2);
    acre_store_destroy(store);
    store_end();
}

TEST(bad_arguments_are_refused)
{
    static char long_key[9000];
    acre_blob blob;

    store_begin();
    acre_store *store = store_open();
    memset(long_key, 'k', sizeof long_key - 1);
    EXPECT_EQ(acre_store_set(store, "", "", 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_store_set(store, long_key, "", 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_store_set(NULL, "k", "", 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_store_set(store, "k", NULL, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_store_set(store, "k", long_key, 9u << 20), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_store_get(store, NULL, &blob), ACRE_ERR_INVALID);
    set_text(store, "k", "");
    expect_text(store, "k", "");
    acre_store_destroy(store);
    store_end();
}

#endif
