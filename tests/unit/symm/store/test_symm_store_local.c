/* SPDX-License-Identifier: MIT */
/* Stores inside one process. Others get at the contents through a prefix of nothing, so
 * destroying their view must not touch it. */
#include "tests/unit/symm/store/store_suite.h"

static acre_store *whole;

static void store_begin(void)
{
    REQUIRE_OK(acre_store_create_local(&whole));
}

static acre_store *store_open(void)
{
    acre_store *view;

    REQUIRE_OK(acre_store_create_prefix(whole, "", &view));
    return view;
}

static void store_end(void)
{
    acre_store_destroy(whole);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(every_host_allocation_may_fail)
{
    for (uint64_t nth = 1;; nth++) {
        acre_store *store = NULL;
        acre_blob blob = {NULL, 0};
        heap_fail_nth(nth);
        acre_status status = acre_store_create_local(&store);
        if (status == ACRE_OK)
            status = acre_store_set(store, "k", "v", 1);
        if (status == ACRE_OK)
            status = acre_store_push(store, "q", "v", 1);
        if (status == ACRE_OK)
            status = acre_store_get(store, "k", &blob);
        int was_failed = heap_fail_disarm();
        acre_blob_free(&blob);
        acre_store_destroy(store);
        EXPECT_EQ(heap_live_count(), 0);
        if (!was_failed)
            break;
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
    }
}

/* A key that is there, one that comes twice, and one that is new. */
TEST(several_keys_are_set_or_none)
{
    const char *keys[] = {"a", "b", "c", "b"};
    const void *values[] = {"new a", "first b", "new c", "last b"};
    const size_t bytes[] = {5, 7, 5, 6};
    acre_status status = ACRE_ERR_HOST_MEMORY;
    uint64_t count = 0;

    store_begin();
    set_text(whole, "a", "old a");
    for (uint64_t nth = 1; status == ACRE_ERR_HOST_MEMORY; nth++) {
        heap_fail_nth(nth);
        status = acre_store_multi_set(whole, keys, values, bytes, 4);
        heap_fail_disarm();
        REQUIRE_OK(acre_store_count(whole, &count));
        EXPECT_EQ(count, status == ACRE_OK ? 3 : 1);
        expect_text(whole, "a", status == ACRE_OK ? "new a" : "old a");
    }
    REQUIRE_OK(status);
    expect_text(whole, "b", "last b");
    expect_text(whole, "c", "new c");
    store_end();
}

T_MAIN()
