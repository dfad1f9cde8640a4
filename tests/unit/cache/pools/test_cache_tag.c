/* SPDX-License-Identifier: MIT */
/* Tags of pools; which pools a tag means, test_cache_sleep.c shows. */
#include "tests/support/share_bed.h"

TEST(tags_are_set_changed_and_taken_away)
{
    struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH, NULL);
    acre_pool_id id = acre_pool_id_next(), none = acre_pool_id_next(), shared = {0};
    char tag[ACRE_TAG_BYTES] = "?";

    REQUIRE_OK(acre_pool_create(bed.cache, id, NULL));
    REQUIRE_OK(acre_pool_tag_get(bed.cache, id, tag));
    EXPECT_STR_EQ(tag, "");
    REQUIRE_OK(acre_pool_tag_set(bed.cache, id, "0123456789012345678901234567890"));
    REQUIRE_OK(acre_pool_tag_set(bed.cache, id, "kv"));
    EXPECT_EQ(acre_pool_tag_set(bed.cache, id, "01234567890123456789012345678901"),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_tag_set(NULL, id, "w"), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_pool_tag_get(bed.cache, id, tag));
    EXPECT_STR_EQ(tag, "kv");
    REQUIRE_OK(acre_pool_tag_set(bed.cache, id, NULL));
    REQUIRE_OK(acre_pool_tag_get(bed.cache, id, tag));
    EXPECT_STR_EQ(tag, "");
    EXPECT_EQ(acre_pool_tag_set(bed.cache, none, "w"), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_pool_tag_get(bed.cache, none, tag), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_pool_tag_set(bed.cache, shared, "w"), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_tag_get(bed.cache, shared, tag), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_pool_tag_get(bed.cache, id, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_pool_release(bed.cache, id));
    share_bed_close(&bed);
}

T_MAIN()
