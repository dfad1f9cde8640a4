/* SPDX-License-Identifier: MIT */
/* Which device a question is about, what counts as a history, and whose rules rounded. */
#include "format/snapshot/facts.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <acre/snapshot.h>

#include <string.h>

#define SEGMENT(device, address, bytes)                                                          \
    "{\"device\": " #device ", \"address\": " #address ", \"total_size\": " #bytes               \
    ", \"allocated_size\": " #bytes ", \"active_size\": " #bytes ", \"stream\": 0,"              \
    " \"segment_type\": \"large\", \"blocks\": [{\"size\": " #bytes                              \
    ", \"state\": \"active_allocated\"}]}"
#define EVENT(action, address, time)                                                             \
    "{\"action\": \"" action "\", \"addr\": " #address ", \"size\": 512, \"stream\": 0,"         \
    " \"time_us\": " #time "}"
#define OOM(time)                                                                                \
    "{\"action\": \"oom\", \"device_free\": 0, \"size\": 512, \"stream\": 0,"                  \
    " \"time_us\": " #time "}"

static struct snapshot *open_text(const char *text)
{
    struct snapshot *snapshot = NULL;

    REQUIRE_OK(snapshot_read(files_write("facts.json", text, strlen(text)), &snapshot));
    return snapshot;
}

static void expect_device(const char *text, enum facts_need need, uint32_t device,
                          const char *reason)
{
    struct snapshot *snapshot = open_text(text);
    const char *said = NULL;
    uint32_t found = 99;

    REQUIRE_OK(facts_device(snapshot, FACTS_CHOOSE, need, &found, &said));
    EXPECT_EQ(found, device);
    EXPECT_STR_EQ(said, reason);
    REQUIRE_OK(facts_device(snapshot, 0, need, &found, &said));
    EXPECT_EQ(found, 0);
    EXPECT_EQ(facts_device(snapshot, 7, need, &found, &said), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "there is no device 7");
    snapshot_destroy(snapshot);
}

TEST(the_device_of_the_failure_is_chosen)
{
    expect_device("{\"segments\": [" SEGMENT(0, 4096, 4096) "," SEGMENT(1, 4096, 512) "],"
                  "\"device_traces\": [[], [" OOM(5) "], [" OOM(3) "]]}",
                  FACTS_STATE, 1, "where a request failed");
    expect_device("{\"segments\": [" SEGMENT(0, 4096, 4096) "," SEGMENT(1, 4096, 512) "],"
                  "\"device_traces\": [[], [" OOM(5) "], [" OOM(6) "]]}",
                  FACTS_STATE, 2, "where a request failed");
}

TEST(else_the_one_that_holds_most)
{
    static const char text[] =
        "{\"segments\": [" SEGMENT(0, 4096, 512) "," SEGMENT(1, 4096, 4096) ","
        SEGMENT(2, 4096, 1024) "], \"device_traces\": [[], [],"
        " [" EVENT("alloc", 4096, 1) "," EVENT("free_completed", 4096, 2) "]]}";

    expect_device(text, FACTS_STATE, 1, "which holds most memory");
    expect_device(text, FACTS_HISTORY, 2,
                  "which holds most memory of those that have a history");
    expect_device("{\"segments\": [" SEGMENT(0, 4096, 512) "]}", FACTS_STATE, 0,
                  "the only one in the snapshot");
    expect_device("{\"segments\": [], \"device_traces\": [[], [" EVENT("alloc", 4096, 1) "]]}",
                  FACTS_STATE, 1, "which has the longest history");
}

/* A block that waits at the end was freed by request alone, though no free completes. */
TEST(what_waits_tells_which_event_frees)
{
    static const char text[] =
        "{\"segments\": [{\"device\": 0, \"address\": 4096, \"total_size\": 512,"
        " \"allocated_size\": 0, \"active_size\": 512, \"stream\": 0, \"segment_type\": \"small\","
        " \"blocks\": [{\"size\": 512, \"state\": \"active_pending_free\"}]}],"
        " \"device_traces\": [[" EVENT("alloc", 4096, 1) "," EVENT("free_requested", 4096, 2)
        "], [" EVENT("alloc", 4096, 1) "," EVENT("free_requested", 4096, 2) "]]}";
    struct snapshot *snapshot = open_text(text);

    EXPECT_EQ(facts_free_action(snapshot, 0), SNAP_FREE_COMPLETED);
    EXPECT_EQ(facts_free_action(snapshot, 1), SNAP_FREE_REQUESTED);
    snapshot_destroy(snapshot);
}

/* PyTorch 2.0 tells of a block's stack and request in the block's own history, latest first. */
TEST(old_files_tell_in_the_history_of_blocks)
{
    static const char text[] =
        "{\"frames\": [{\"filename\": \"a.py\", \"line\": 7, \"name\": \"f\"},"
        " {\"filename\": \"b.py\", \"line\": 7, \"name\": \"g\"}], \"stacks\": [[0], [1]],"
        " \"segments\": [{\"device\": 0, \"address\": 4096, \"total_size\": 1024,"
        " \"allocated_size\": 512, \"active_size\": 512, \"stream\": 0,"
        " \"segment_type\": \"small\", \"blocks\": ["
        "{\"size\": 512, \"state\": \"active_allocated\", \"history\": ["
        "{\"addr\": 4096, \"real_size\": 500, \"stack\": 1},"
        " {\"addr\": 4096, \"real_size\": 400, \"stack\": 0}]},"
        " {\"size\": 512, \"state\": \"inactive\"}]}]}";
    struct snapshot *snapshot = open_text(text);

    REQUIRE_EQ(snapshot->block_count, 2);
    const struct snap_block *block = &snapshot->blocks[0];
    REQUIRE_EQ(block->past_count, 2);
    EXPECT_EQ(facts_block_stack(snapshot, block), snapshot->pasts[block->first_past].stack);
    EXPECT_NE(facts_block_stack(snapshot, block), SNAP_NONE);
    EXPECT_EQ(facts_block_requested(snapshot, &snapshot->blocks[0]), 500);
    EXPECT_EQ(facts_block_stack(snapshot, &snapshot->blocks[1]), SNAP_NONE);
    EXPECT_EQ(facts_block_requested(snapshot, &snapshot->blocks[1]), 512);
    snapshot_destroy(snapshot);
}

TEST(an_empty_snapshot_has_no_device)
{
    struct snapshot *snapshot = open_text("{\"segments\": []}");
    const char *reason;
    uint32_t device;

    EXPECT_EQ(facts_device(snapshot, FACTS_CHOOSE, FACTS_STATE, &device, &reason),
              ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(facts_padding(snapshot), 0);
    snapshot_destroy(snapshot);
}

TEST(one_event_is_no_history)
{
    struct snapshot *snapshot = open_text(
        "{\"segments\": [], \"device_traces\": [[" EVENT("snapshot", 0, 1) "],"
        " [" EVENT("free_completed", 4096, 1) "], [" OOM(1) "," EVENT("snapshot", 0, 2) "],"
        " [" EVENT("alloc", 4096, 1) "," EVENT("alloc", 8192, 1) "]]}");

    for (uint32_t i = 0; i < 3; i++)
        EXPECT(!facts_has_history(snapshot, i));
    EXPECT(facts_has_history(snapshot, 3));
    EXPECT(!facts_has_history(snapshot, 4));
    snapshot_destroy(snapshot);
}

/* Blocks of requests of 1024 bytes: 1024 by PyTorch's rule, 1536 by that of torch_npu. */
static uint32_t padding_of(const char *size, const char *settings)
{
    char text[2048];

    snprintf(text, sizeof text,
             "{\"segments\": [{\"device\": 0, \"address\": 4096, \"total_size\": %s,"
             " \"stream\": 0, \"segment_type\": \"small\", \"blocks\": ["
             "{\"size\": %s, \"requested_size\": 1024, \"state\": \"active_allocated\"},"
             "{\"size\": %s, \"requested_size\": 1024, \"state\": \"active_allocated\"},"
             "{\"size\": %s, \"requested_size\": 1000, \"state\": \"active_allocated\"}]}]%s}",
             size, size, size, size, settings);
    struct snapshot *snapshot = open_text(text);
    uint32_t padding = facts_padding(snapshot);
    snapshot_destroy(snapshot);
    return padding;
}

TEST(files_of_torch_npu_are_known_by_their_blocks)
{
    EXPECT_EQ(padding_of("1024", ""), 0);
    EXPECT_EQ(padding_of("1536", ""), 32);
    EXPECT_EQ(padding_of("4096", ""), 0); /* neither rule explains them */
    EXPECT_EQ(padding_of("4096", ", \"allocator_settings\": {\"PYTORCH_NPU_ALLOC_CONF\": \"\"}"),
              32);
    EXPECT_EQ(padding_of("1024", ", \"allocator_settings\": {\"PYTORCH_NPU_ALLOC_CONF\": \"\"}"),
              0);
}

T_MAIN()
