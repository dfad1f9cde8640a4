/* SPDX-License-Identifier: MIT */
/* What the runtime hands out for a snapshot: layout, history and options of one moment. What is
 * made of it is tested with format/snapshot/snapshot_live.c. */
#include "cache/observe/snapshot_parts.h"

#include "base/heap.h"
#include "tests/support/lab.h"
#include "tests/support/t.h"

#include <acre/pluggable.h>

#include <string.h>

static const acre_snapshot_option *option_named(const acre_snapshot_parts *parts, const char *key)
{
    for (uint64_t i = 0; i < parts->option_count; i++)
        if (strcmp(parts->options[i].key, key) == 0)
            return &parts->options[i];
    t_fail(__FILE__, __LINE__, "no option %s", key);
    return NULL;
}

TEST(parts_are_of_one_moment)
{
    struct lab lab;
    acre_snapshot_parts *parts;
    void *block;

    lab_open(&lab, "max_split_size_mb:64");
    REQUIRE_OK(acre_cache_alloc(lab.cache, 5000, NULL, &block));
    REQUIRE_OK(acre_cache_snapshot_parts(lab.cache, NULL, &parts));
    REQUIRE_OK(acre_cache_free(lab.cache, block));
    EXPECT_EQ(parts->struct_size, sizeof *parts);
    EXPECT_EQ(parts->device_count, 1u);
    EXPECT(parts->layout->segment_count >= 1);
    EXPECT_EQ(parts->history->entry_count, 0u);
    EXPECT_EQ(option_named(parts, "max_split_size")->number, 64 << 20);
    EXPECT_HAS(option_named(parts, "PYTORCH_CUDA_ALLOC_CONF")->text, "max_split_size_mb");
    EXPECT_EQ(option_named(parts, "roundup_power2_divisions")->number_count, CONF_DIVISION_COUNT);
    EXPECT_EQ(option_named(parts, "garbage_collection_threshold")->kind, ACRE_OPTION_REAL);
    acre_snapshot_parts_destroy(parts);
    acre_snapshot_parts_destroy(NULL);
    lab_close(&lab);
}

TEST(bad_arguments_are_refused)
{
    struct lab lab;
    acre_snapshot_parts *parts = NULL;
    acre_snapshot_choice unset = {.struct_size = 0};

    lab_open(&lab, NULL);
    EXPECT_EQ(acre_cache_snapshot_parts(NULL, NULL, &parts), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_snapshot_parts(lab.cache, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_snapshot_parts(lab.cache, &unset, &parts), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pluggable_snapshot_parts(NULL, 0, &parts), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(parts, NULL);
    lab_close(&lab);
}

TEST(missing_parts_free_the_others)
{
    acre_cache_layout *layout = heap_zalloc(sizeof *layout);
    size_t live = heap_live_count();

    EXPECT(layout != NULL);
    EXPECT(snapshot_parts_create(layout, NULL, NULL, NULL) == NULL);
    EXPECT_EQ(heap_live_count(), live - 1);
}

T_MAIN()
