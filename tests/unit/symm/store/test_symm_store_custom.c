/* SPDX-License-Identifier: MIT */
/* A store over functions of the user, which here keep their keys in a local store. */
#include "base/heap.h"
#include "tests/support/t.h"

#include <acre/symm.h>

#include <string.h>

static unsigned destroyed_count;
static acre_status next_failure; /* what set answers next; ACRE_OK: it works */

static acre_status keys_set(void *self, const char *key, const void *value, size_t bytes)
{
    if (next_failure != ACRE_OK)
        return next_failure;
    return acre_store_set(self, key, value, bytes);
}

static acre_status keys_get(void *self, const char *key, uint64_t timeout_ms, acre_blob *out)
{
    acre_status status = acre_store_wait(self, &key, 1, timeout_ms);
    acre_blob blob;

    if (status == ACRE_OK)
        status = acre_store_get(self, key, &blob);
    if (status != ACRE_OK)
        return status;
    status = acre_blob_set(out, blob.data, blob.bytes);
    acre_blob_free(&blob);
    return status;
}

static acre_status keys_check(void *self, const char *key, bool *out)
{
    return acre_store_check(self, &key, 1, out);
}

static acre_status keys_remove(void *self, const char *key, bool *out_removed)
{
    return acre_store_delete(self, key, out_removed);
}

static void keys_destroy(void *self)
{
    acre_store_destroy(self);
    destroyed_count++;
}

static acre_store *custom_open(void)
{
    acre_store_functions functions = {.struct_size = sizeof functions,
                                      .set = keys_set,
                                      .get = keys_get,
                                      .check = keys_check,
                                      .remove = keys_remove,
                                      .destroy = keys_destroy};
    acre_store *local, *store;

    next_failure = ACRE_OK;
    REQUIRE_OK(acre_store_create_local(&local));
    functions.self = local;
    REQUIRE_OK(acre_store_create_custom(&functions, &store));
    return store;
}

TEST(keys_reach_the_functions)
{
    acre_store *store = custom_open();
    const char *keys[] = {"a", "b"};
    const void *values[] = {"1", "22"};
    size_t bytes[] = {1, 2};
    acre_blob blobs[2];
    bool is_there = false, is_removed = false;
    uint64_t number = 0;

    EXPECT_EQ(acre_store_multi_set(store, keys, values, bytes, 2), ACRE_OK);
    EXPECT_EQ(acre_store_check(store, keys, 2, &is_there), ACRE_OK);
    EXPECT(is_there);
    EXPECT_EQ(acre_store_wait(store, keys, 2, 1000), ACRE_OK);
    REQUIRE_OK(acre_store_multi_get(store, keys, 2, blobs));
    EXPECT_EQ(blobs[1].bytes, 2);
    EXPECT(memcmp(blobs[1].data, "22", 2) == 0);
    acre_blob_free(&blobs[0]);
    acre_blob_free(&blobs[1]);
    EXPECT_EQ(acre_store_delete(store, "a", &is_removed), ACRE_OK);
    EXPECT(is_removed);
    EXPECT_EQ(acre_store_check(store, keys, 2, &is_there), ACRE_OK);
    EXPECT(!is_there);
    EXPECT_EQ(acre_store_ping(store, 7, &number), ACRE_OK);
    EXPECT_EQ(number, 7);
    acre_store_destroy(store);
    EXPECT_EQ(destroyed_count, 1);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(failures_name_the_key)
{
    acre_store *store = custom_open();
    const char *key = "absent";
    int64_t sum;

    EXPECT_EQ(acre_store_wait(store, &key, 1, 20), ACRE_ERR_TIMEOUT);
    EXPECT(strstr(acre_last_error(), "absent"));
    next_failure = ACRE_ERR_PEER;
    EXPECT_EQ(acre_store_set(store, "k", "v", 1), ACRE_ERR_PEER);
    EXPECT(strstr(acre_last_error(), "\"k\""));
    EXPECT_EQ(acre_store_add(store, "k", 1, &sum), ACRE_ERR_UNSUPPORTED);
    acre_store_destroy(store);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(incomplete_tables_are_refused)
{
    acre_store_functions functions = {.struct_size = sizeof functions};
    acre_store *store = NULL;
    acre_blob blob = {NULL, 0};

    EXPECT_EQ(acre_store_create_custom(NULL, &store), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_store_create_custom(&functions, &store), ACRE_ERR_INVALID);
    functions.struct_size = 8;
    EXPECT_EQ(acre_store_create_custom(&functions, &store), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_blob_set(&blob, NULL, 3), ACRE_ERR_INVALID);
    EXPECT(!store);
}

T_MAIN()
