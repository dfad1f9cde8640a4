/* SPDX-License-Identifier: MIT */
#include "cache/observe/label.h"
#include "tests/support/t.h"

#include <pthread.h>

TEST(a_thread_begins_without_texts)
{
    struct label label = label_current();

    EXPECT_STR_EQ(label_metadata(label.metadata), "");
    EXPECT_STR_EQ(label_compile(label.compile), "N/A");
}

TEST(equal_texts_have_one_number_that_stays)
{
    REQUIRE_OK(label_metadata_set("step 1"));
    uint32_t first = label_current().metadata;
    REQUIRE_OK(label_metadata_set("step 2"));
    EXPECT_NE(label_current().metadata, first);
    EXPECT_STR_EQ(label_metadata(first), "step 1");
    REQUIRE_OK(label_metadata_set("step 1"));
    EXPECT_EQ(label_current().metadata, first);
    REQUIRE_OK(label_metadata_set(NULL));
    EXPECT_EQ(label_current().metadata, 0);
}

TEST(regions_nest_and_an_extra_pop_is_harmless)
{
    REQUIRE_OK(label_compile_push("outer"));
    REQUIRE_OK(label_compile_push("inner"));
    EXPECT_STR_EQ(label_compile(label_current().compile), "inner");
    label_compile_pop();
    EXPECT_STR_EQ(label_compile(label_current().compile), "outer");
    label_compile_pop();
    label_compile_pop();
    EXPECT_STR_EQ(label_compile(label_current().compile), "N/A");
}

TEST(too_many_regions_are_refused)
{
    for (int i = 0; i < LABEL_DEPTH_MAX; i++)
        REQUIRE_OK(label_compile_push("r"));
    EXPECT_EQ(label_compile_push("r"), ACRE_ERR_LIMIT);
    for (int i = 0; i < LABEL_DEPTH_MAX; i++)
        label_compile_pop();
    EXPECT_EQ(label_current().compile, 0);
}

static void *look(void *arg)
{
    *(struct label *)arg = label_current();
    return NULL;
}

TEST(texts_belong_to_their_thread)
{
    struct label seen = {7, 7};
    pthread_t thread;

    REQUIRE_OK(label_metadata_set("mine"));
    REQUIRE_EQ(pthread_create(&thread, NULL, look, &seen), 0);
    pthread_join(thread, NULL);
    EXPECT_EQ(seen.metadata, 0);
    EXPECT_EQ(seen.compile, 0);
    REQUIRE_OK(label_metadata_set(""));
}

T_MAIN()
