/* SPDX-License-Identifier: MIT */
/* What grew between two snapshots, whatever numbers their stacks have. */
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <acre/explain.h>

static const char pattern[] =
    "{\"frames\": [%s{\"filename\": \"a.py\", \"line\": 1, \"name\": \"same\"}, "
    "{\"filename\": \"a.py\", \"line\": 2, \"name\": \"grows\"}], \"stacks\": [[%d], [%d]], "
    "\"segments\": [{\"device\": 0, \"address\": 4096, \"total_size\": %d, \"allocated_size\": %d, "
    "\"active_size\": %d, \"stream\": 0, \"segment_type\": \"small\", \"blocks\": ["
    "{\"size\": 512, \"state\": \"active_allocated\", \"stack\": 0}, "
    "{\"size\": %d, \"state\": \"active_allocated\", \"stack\": 1}]}]}";

static acre_snapshot *make(const char *name, const char *before, int base, int bytes)
{
    char text[2048];
    acre_snapshot *snapshot = NULL;

    snprintf(text, sizeof text, pattern, before, base, base + 1, bytes + 512, bytes + 512,
             bytes + 512, bytes);
    REQUIRE_OK(acre_snapshot_open(files_write(name, text, strlen(text)), &snapshot));
    REQUIRE_OK(acre_snapshot_check(snapshot));
    return snapshot;
}

TEST(stacks_are_matched_by_what_they_are)
{
    acre_snapshot *a = make("a.json", "", 0, 1024);
    acre_snapshot *b = make("b.json", "{\"filename\": \"z.py\", \"line\": 9, \"name\": \"z\"}, ", 1,
                            4096);
    acre_diff *diff = NULL;

    REQUIRE_OK(acre_diff_create(a, b, 0, 0, &diff));
    EXPECT_EQ(diff->allocated_a, 1536);
    EXPECT_EQ(diff->allocated_b, 4608);
    REQUIRE_EQ(diff->stack_count, 1);
    EXPECT_STR_EQ(diff->stacks[0].text, "grows (a.py:2)");
    EXPECT_EQ(diff->stacks[0].bytes_a, 1024);
    EXPECT_EQ(diff->stacks[0].bytes_b, 4096);
    REQUIRE_EQ(diff->size_count, 2);
    EXPECT_STR_EQ(diff->sizes[0].text, "4 KiB to 8 KiB");
    EXPECT_STR_EQ(diff->sizes[1].text, "1 KiB to 2 KiB");
    EXPECT_EQ(diff->sizes[1].bytes_b, 0);
    EXPECT_HAS(diff->text, "grew by 3.00 KiB");
    acre_diff_destroy(diff);
    REQUIRE_OK(acre_diff_create(b, b, 0, ACRE_DIFF_PEAK, &diff));
    EXPECT_EQ(diff->stack_count, 0);
    acre_diff_destroy(diff);
    EXPECT_EQ(acre_diff_create(a, b, 1, 0, &diff), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_diff_create(a, NULL, 0, 0, &diff), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_diff_create(a, b, 0, 8, &diff), ACRE_ERR_INVALID);
    acre_snapshot_close(a);
    acre_snapshot_close(b);
    acre_diff_destroy(NULL);
}

T_MAIN()
