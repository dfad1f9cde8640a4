/* SPDX-License-Identifier: MIT */
/* Views of a store under a prefix, two levels deep. */
#include "tests/unit/symm/store/store_suite.h"

static acre_store *whole, *outer;

static void store_begin(void)
{
    REQUIRE_OK(acre_store_create_local(&whole));
    REQUIRE_OK(acre_store_create_prefix(whole, "job", &outer));
}

static acre_store *store_open(void)
{
    acre_store *view;

    REQUIRE_OK(acre_store_create_prefix(outer, "group", &view));
    return view;
}

static void store_end(void)
{
    acre_store_destroy(outer);
    acre_store_destroy(whole);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(prefixes_are_joined_by_slashes)
{
    store_begin();
    acre_store *view = store_open();
    set_text(view, "k", "v");
    expect_text(whole, "job/group/k", "v");
    acre_store_destroy(view);
    store_end();
}

TEST(a_prefix_that_makes_keys_too_long_is_refused)
{
    static char key[8190];

    store_begin();
    acre_store *view = store_open();
    memset(key, 'k', sizeof key - 1);
    EXPECT_EQ(acre_store_set(view, key, "", 0), ACRE_ERR_INVALID);
    acre_store_destroy(view);
    store_end();
}

T_MAIN()
