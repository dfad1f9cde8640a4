/* SPDX-License-Identifier: MIT */
/* The public calls on snapshot files. */
#include "format/snapshot/snapshot.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <acre/snapshot.h>

static const char sample[] =
    "{\"acre_snapshot\": 1, \"frames\": [{\"filename\": \"a.py\", \"line\": 1, \"name\": \"f\"}],"
    "\"stacks\": [[0], [0, 0]], \"segments\": [{\"device\": 1, \"address\": 4096, "
    "\"total_size\": 2097152, \"allocated_size\": 512, \"active_size\": 512, \"stream\": 0, "
    "\"segment_type\": \"small\", \"unknown\": {\"x\": [1, 2.5, null, true]}, \"blocks\": "
    "[{\"size\": 512, \"state\": \"active_allocated\", \"stack\": 1}, "
    "{\"size\": 2096640, \"state\": \"inactive\"}]}], \"device_traces\": [[], [{\"action\": "
    "\"alloc\", \"addr\": 4096, \"size\": 100, \"stream\": 0, \"stack\": 0}]]}";

TEST(a_snapshot_is_counted_checked_and_written)
{
    const char *path = files_write("a.json", sample, sizeof sample - 1);
    acre_snapshot *snapshot = NULL;
    acre_snapshot_info info = {.struct_size = sizeof info};
    bool is_snapshot = false;

    REQUIRE_OK(snapshot_is_one(path, &is_snapshot));
    EXPECT(is_snapshot);
    REQUIRE_OK(acre_snapshot_open(path, &snapshot));
    REQUIRE_OK(acre_snapshot_check(snapshot));
    REQUIRE_OK(acre_snapshot_info_get(snapshot, &info));
    EXPECT_EQ(info.device_count, 2);
    EXPECT_EQ(info.segment_count, 1);
    EXPECT_EQ(info.block_count, 2);
    EXPECT_EQ(info.event_count, 1);
    EXPECT_EQ(info.frame_count, 1);
    EXPECT_EQ(info.reserved_bytes, 2097152);
    EXPECT_EQ(info.allocated_bytes, 512);
    REQUIRE_OK(acre_snapshot_write(snapshot, files_path("b.pickle"), ACRE_SNAPSHOT_PICKLE));
    acre_snapshot_close(snapshot);
    REQUIRE_OK(acre_snapshot_open(files_path("b.pickle"), &snapshot));
    REQUIRE_OK(acre_snapshot_info_get(snapshot, &info));
    EXPECT_EQ(info.event_count, 1);
    EXPECT_EQ(acre_snapshot_write(snapshot, "x", 7), ACRE_ERR_INVALID);
    acre_snapshot_close(snapshot);
    acre_snapshot_close(NULL);
}

TEST(arguments_are_checked)
{
    acre_snapshot *snapshot = NULL;
    acre_snapshot_info info = {.struct_size = 4};
    bool is_snapshot = true;

    EXPECT_EQ(acre_snapshot_open(NULL, &snapshot), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_snapshot_open("x", NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_snapshot_check(NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_snapshot_write(NULL, "x", ACRE_SNAPSHOT_JSON), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_snapshot_info_get(NULL, &info), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_snapshot_open(files_write("a.json", sample, sizeof sample - 1), &snapshot));
    EXPECT_EQ(acre_snapshot_info_get(snapshot, &info), ACRE_ERR_INVALID);
    acre_snapshot_close(snapshot);
    REQUIRE_OK(snapshot_is_one(files_write("a.trace", "a 1 2 0\n", 8), &is_snapshot));
    EXPECT(!is_snapshot);
}

static void expect_refused(const char *text, const char *part)
{
    acre_snapshot *snapshot = NULL;

    EXPECT_EQ(acre_snapshot_open(files_write("bad.json", text, strlen(text)), &snapshot),
              ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), part);
    EXPECT_HAS(acre_last_error(), "bad.json: at offset ");
}

TEST(json_that_is_damaged_is_refused)
{
    expect_refused("{\"segments\": [", "truncated");
    expect_refused("{\"segments\": [1 2]}", "a comma or the end");
    expect_refused("{\"segments\": []} x", "something follows");
    expect_refused("{\"segments\" []}", "a colon");
    expect_refused("{segments: []}", "a key in quotes");
    expect_refused("{\"segments\": [nul]}", "no value of JSON");
    expect_refused("{\"segments\": \"\\x\"}", "an escape");
    expect_refused("{\"segments\": \"a\nb\"}", "control character");
    expect_refused("{\"segments\": \"abc", "inside a text");
    expect_refused("{\"segments\": 1}", "is not a list");
    expect_refused("{\"acre_snapshot\": 2, \"segments\": []}", "newer version");
    expect_refused("{\"stacks\": [[5]], \"segments\": []}", "names frame 5 of 0");
    expect_refused("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "64 deep");
}

T_MAIN()
