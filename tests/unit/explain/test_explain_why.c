/* SPDX-License-Identifier: MIT */
/* What stood in the way of a request is told apart; growth is seen where it is. */
#include "explain/growth.h"
#include "explain/device_state.h"
#include "explain/notes.h"
#include "explain/shares.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <acre/explain.h>

#define MIB ((uint64_t)1 << 20)

/* One segment of 100 MiB on stream 0 with two live blocks of 30 MiB and 40 MiB free in
 * two pieces; another on stream 5, and one of a private pool; then a failed request. */
static const char scene[] =
    "{\"frames\": [{\"filename\": \"/a/b/model.py\", \"line\": 7, \"name\": \"forward\"}, "
    "{\"filename\": \"/x/module.py\", \"line\": 1, \"name\": \"_call_impl\"}], "
    "\"stacks\": [[1, 0]], \"segments\": ["
    "{\"device\": 0, \"address\": 1048576, \"total_size\": 104857600, \"allocated_size\": 62914560,"
    " \"active_size\": 62914560, \"stream\": 0, \"segment_type\": \"large\", \"blocks\": ["
    "{\"size\": 31457280, \"state\": \"active_allocated\", \"stack\": 0},"
    "{\"size\": 20971520, \"state\": \"inactive\"},"
    "{\"size\": 31457280, \"state\": \"active_allocated\", \"stack\": 0},"
    "{\"size\": 20971520, \"state\": \"inactive\"}]},"
    "{\"device\": 0, \"address\": 1073741824, \"total_size\": 41943040, \"allocated_size\": "
    "10485760, \"active_size\": 20971520, \"stream\": 5, \"segment_type\": \"large\", \"blocks\": ["
    "{\"size\": 10485760, \"state\": \"active_allocated\"},"
    "{\"size\": 10485760, \"state\": \"active_pending_free\"},"
    "{\"size\": 20971520, \"state\": \"inactive\"}]},"
    "{\"device\": 0, \"address\": 2147483648, \"total_size\": 62914560, \"allocated_size\": "
    "2097152, \"active_size\": 2097152, \"stream\": 0, \"segment_type\": \"large\","
    " \"segment_pool_id\": [0, 1], \"blocks\": ["
    "{\"size\": 2097152, \"state\": \"active_allocated\"},"
    "{\"size\": 60817408, \"state\": \"inactive\"}]}],"
    "\"device_traces\": [[{\"action\": \"free_requested\", \"addr\": 1084227584, "
    "\"size\": 10485760, \"stream\": 5}, {\"action\": \"free_completed\", "
    "\"addr\": 9999872, \"size\": 512,"
    " \"stream\": 0}, {\"action\": \"oom\", \"device_free\": 1048576, \"size\": %llu,"
    " \"stream\": 0}]]}";

static acre_why *explain(uint64_t requested)
{
    char text[4096];
    acre_snapshot *snapshot = NULL;
    acre_why *why = NULL;
    acre_why_config config = {.struct_size = sizeof config, .device = -1,
                              .device_bytes = 300 * MIB};

    snprintf(text, sizeof text, scene, (unsigned long long)requested);
    REQUIRE_OK(acre_snapshot_open(files_write("scene.json", text, strlen(text)), &snapshot));
    REQUIRE_OK(acre_snapshot_check(snapshot));
    REQUIRE_OK(acre_why_create(snapshot, &config, &why));
    acre_snapshot_close(snapshot);
    return why;
}

TEST(the_state_at_the_failure)
{
    acre_why *why = explain(35 * MIB);

    EXPECT_EQ(why->has_oom, 1);
    EXPECT_EQ(why->event, 2);
    EXPECT_EQ(why->oom_requested_bytes, 35 * MIB);
    EXPECT_EQ(why->oom_device_free_bytes, MIB);
    EXPECT_EQ(why->reserved_bytes, 200 * MIB);
    EXPECT_EQ(why->allocated_bytes, 72 * MIB);
    EXPECT_EQ(why->waiting_bytes, 10 * MIB);
    EXPECT_EQ(why->free_split_bytes, 60 * MIB);
    EXPECT_EQ(why->largest_free_bytes, 20 * MIB);
    EXPECT_EQ(why->private_pool_bytes, 60 * MIB);
    EXPECT_EQ(why->outside_bytes, 99 * MIB);
    REQUIRE(why->top_count >= 2);
    EXPECT_EQ(why->top[0].bytes, 60 * MIB);
    EXPECT_EQ(why->top[0].count, 2);
    EXPECT_STR_EQ(why->top[0].text, "forward (b/model.py:7)");
    EXPECT_STR_EQ(why->sizes[0].text, "16 MiB to 32 MiB");
    acre_why_destroy(why);
    acre_why_destroy(NULL);
}

TEST(verdicts_are_told_apart)
{
    static const struct {
        uint64_t mib;
        acre_verdict verdict;
        const char *part;
    } cases[] = {{41, ACRE_VERDICT_FRAGMENTATION, "expandable_segments:True"},
                 {42, ACRE_VERDICT_STREAMS, "other streams"},
                 {71, ACRE_VERDICT_STREAMS, "other streams"},
                 {72, ACRE_VERDICT_POOLS, "private pools"},
                 {129, ACRE_VERDICT_POOLS, "private pools"},
                 {130, ACRE_VERDICT_SHORTAGE, "no setting cures"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        acre_why *why = explain(cases[i].mib * MIB);
        EXPECT_EQ(why->verdict, cases[i].verdict);
        EXPECT_HAS(why->text, cases[i].part);
        acre_why_destroy(why);
    }
}

/* In use, waiting and the three kinds of free memory add up to what is held. */
TEST(the_sums_add_up)
{
    acre_why *why = explain(35 * MIB);

    EXPECT_EQ(why->allocated_bytes + why->waiting_bytes + why->free_split_bytes +
                  why->free_whole_bytes + why->private_free_bytes,
              why->reserved_bytes);
    EXPECT_EQ(why->private_free_bytes, 58 * MIB);
    EXPECT_EQ(why->missing_bytes, 34 * MIB);
    EXPECT_STR_EQ(why->allocator, "PyTorch");
    acre_why_destroy(why);
}

/* A piece that is large enough rules out fragmentation; so does a device with room. */
TEST(what_was_enough_is_not_called_fragmentation)
{
    acre_why *why = explain(15 * MIB);

    EXPECT_EQ(why->verdict, ACRE_VERDICT_UNUSED);
    EXPECT_HAS(why->text, "not fragmentation");
    EXPECT(!strstr(why->text, "expandable_segments"));
    EXPECT_EQ(why->remedy_count, 2); /* what waits, and what private pools hold */
    acre_why_destroy(why);
}

/* Reads a snapshot of one segment, whose blocks and history are given. */
static acre_why *explain_blocks(const char *sizes, const char *blocks, const char *events)
{
    char text[4096];
    acre_snapshot *snapshot = NULL;
    acre_why *why = NULL;

    snprintf(text, sizeof text,
             "{\"segments\": [{\"device\": 0, \"address\": 1048576, %s, \"stream\": 0,"
             " \"segment_type\": \"large\", \"blocks\": [%s]}], \"device_traces\": [[%s]]}",
             sizes, blocks, events);
    REQUIRE_OK(acre_snapshot_open(files_write("one.json", text, strlen(text)), &snapshot));
    REQUIRE_OK(acre_snapshot_check(snapshot));
    REQUIRE_OK(acre_why_create(snapshot, NULL, &why));
    acre_snapshot_close(snapshot);
    return why;
}

#define SIZES "\"total_size\": 41943040, \"allocated_size\": 20971520, \"active_size\": 41943040"
#define BLOCKS "{\"size\": 20971520, \"state\": \"active_allocated\"}," \
               "{\"size\": 20971520, \"state\": \"active_pending_free\"}"

TEST(blocks_that_wait_are_seen_without_a_history)
{
    acre_why *why = explain_blocks(SIZES, BLOCKS, "");

    EXPECT_EQ(why->waiting_bytes, 20 * MIB);
    EXPECT_EQ(why->allocated_bytes, 20 * MIB);
    EXPECT_EQ(why->has_history, 0);
    EXPECT_HAS(why->text, "_record_memory_history");
    EXPECT_HAS(why->text, "a cache of Acre records them with record_history(stacks=\"all\")");
    acre_why_destroy(why);
    /* One event alone is what a recording of the state leaves. */
    why = explain_blocks(SIZES, BLOCKS, "{\"action\": \"snapshot\", \"addr\": 0, \"size\": 0,"
                                        " \"stream\": 0}");
    EXPECT_EQ(why->has_history, 0);
    EXPECT_EQ(why->waiting_bytes, 20 * MIB);
    acre_why_destroy(why);
}

TEST(a_device_with_room_means_a_limit)
{
    acre_why *why = explain_blocks(SIZES, BLOCKS,
                                   "{\"action\": \"oom\", \"device_free\": 1073741824,"
                                   " \"size\": 31457280, \"stream\": 0}");

    EXPECT_EQ(why->verdict, ACRE_VERDICT_LIMIT);
    EXPECT_HAS(why->text, "set_per_process_memory_fraction");
    EXPECT_EQ(why->missing_bytes, 0);
    acre_why_destroy(why);
}

/* The verdict about a request on a device with so much room, under recorded settings. */
static acre_verdict verdict_of(uint64_t request, uint64_t room, const char *settings)
{
    char text[2048];
    acre_snapshot *snapshot = NULL;
    acre_why *why = NULL;
    acre_verdict verdict;

    snprintf(text, sizeof text,
             "{\"segments\": [{\"device\": 0, \"address\": 1048576, " SIZES ", \"stream\": 0,"
             " \"segment_type\": \"large\", \"blocks\": [" BLOCKS "]}], \"device_traces\": [["
             "{\"action\": \"oom\", \"device_free\": %llu, \"size\": %llu, \"stream\": 0}]],"
             " \"allocator_settings\": {%s}}",
             (unsigned long long)room, (unsigned long long)request, settings);
    REQUIRE_OK(acre_snapshot_open(files_write("room.json", text, strlen(text)), &snapshot));
    REQUIRE_OK(acre_why_create(snapshot, NULL, &why));
    verdict = why->verdict;
    acre_why_destroy(why);
    acre_snapshot_close(snapshot);
    return verdict;
}

/* What a request makes PyTorch ask the device for: see the rules of segments. */
TEST(room_is_compared_with_the_segment_that_is_needed)
{
    const char *plain = "\"expandable_segments\": false";
    const char *grows = "\"expandable_segments\": true";
    const char *larger = "\"PYTORCH_CUDA_ALLOC_CONF\": \"large_segment_size_mb:32\"";

    EXPECT_EQ(verdict_of(512, 2 * MIB, plain), ACRE_VERDICT_LIMIT);
    EXPECT_NE(verdict_of(512, 2 * MIB - 1, plain), ACRE_VERDICT_LIMIT);
    EXPECT_EQ(verdict_of(MIB, 2 * MIB, plain), ACRE_VERDICT_LIMIT);
    EXPECT_NE(verdict_of(MIB + 512, 20 * MIB - 1, plain), ACRE_VERDICT_LIMIT);
    EXPECT_EQ(verdict_of(MIB + 512, 20 * MIB, plain), ACRE_VERDICT_LIMIT);
    EXPECT_NE(verdict_of(MIB + 512, 20 * MIB, larger), ACRE_VERDICT_LIMIT);
    EXPECT_EQ(verdict_of(MIB + 512, 32 * MIB, larger), ACRE_VERDICT_LIMIT);
    EXPECT_EQ(verdict_of(10 * MIB, 10 * MIB, plain), ACRE_VERDICT_LIMIT);
    EXPECT_NE(verdict_of(29 * MIB, 29 * MIB, plain), ACRE_VERDICT_LIMIT);
    EXPECT_EQ(verdict_of(29 * MIB, 30 * MIB, plain), ACRE_VERDICT_LIMIT);
    EXPECT_NE(verdict_of(29 * MIB, 30 * MIB, grows), ACRE_VERDICT_LIMIT);
    EXPECT_EQ(verdict_of(29 * MIB, 40 * MIB, grows), ACRE_VERDICT_LIMIT);
}

/* A job of 40 rounds: 20 temporary blocks each, and one that is never freed. */
static struct snapshot *leaking(bool leaks)
{
    struct snapshot *snapshot = NULL;
    struct snap_device *device;
    struct snap_entry *entry;
    struct snap_frame frame = {.line = 3, .extra = SNAP_NONE};
    uint32_t id, stacks[2];

    REQUIRE_OK(snapshot_create(&snapshot));
    REQUIRE_OK(snapshot_add_device(snapshot, &device));
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(snapshot_add_string(snapshot, i ? "keeper" : "worker", 6, &frame.name));
        REQUIRE_OK(snapshot_add_string(snapshot, "a.py", 4, &frame.file));
        REQUIRE_OK(snapshot_add_frame(snapshot, &frame, &id));
        REQUIRE_OK(snapshot_add_stack(snapshot, &id, 1, &stacks[i]));
    }
    for (uint64_t round = 0; round < 40; round++)
        for (uint64_t i = 0; i < 41; i++) {
            REQUIRE_OK(snapshot_add_entry(snapshot, &entry));
            entry->action = i % 2 ? SNAP_FREE_COMPLETED : SNAP_ALLOC;
            entry->stack = stacks[i == 40 && leaks];
            entry->address = i == 40 ? (round + 1) << 30 : i / 2 * 4096 + 4096;
            entry->bytes = 65536;
            if (i == 40 && !leaks)
                entry->action = SNAP_SNAPSHOT;
        }
    return snapshot;
}

TEST(growth_is_found_where_it_is)
{
    struct growth found[GROWTH_MAX];
    struct snapshot *snapshot = leaking(true);
    size_t count;

    REQUIRE_OK(growth_find(snapshot, 0, found, &count));
    REQUIRE_EQ(count, 1);
    EXPECT_EQ(found[0].stack, 1);
    EXPECT_GT(found[0].count_to, found[0].count_from + 20);
    snapshot_destroy(snapshot);
    snapshot = leaking(false);
    REQUIRE_OK(growth_find(snapshot, 0, found, &count));
    EXPECT_EQ(count, 0);
    snapshot_destroy(snapshot);
}

/* One step of an optimizer makes state for parameter after parameter, and frees temporaries
 * on the way: that is no leak, though it grows all the time. */
TEST(state_made_in_one_step_is_no_growth)
{
    struct growth found[GROWTH_MAX];
    struct snapshot *snapshot = leaking(true);
    size_t count;

    REQUIRE_OK(snapshot_add_string(snapshot, "/x/site-packages/torch/optim/adam.py", 36,
                                   &snapshot->frames[1].file));
    REQUIRE_OK(growth_find(snapshot, 0, found, &count));
    EXPECT_EQ(count, 0);
    snapshot_destroy(snapshot);
}

TEST(three_iterations_prove_nothing)
{
    struct growth found[GROWTH_MAX];
    struct snapshot *snapshot = leaking(true);
    size_t count;

    snapshot->devices[0].entry_count = 3 * 41;
    REQUIRE_OK(growth_find(snapshot, 0, found, &count));
    EXPECT_EQ(count, 0);
    snapshot_destroy(snapshot);
}

TEST(refusals)
{
    acre_snapshot *snapshot = NULL;
    acre_why *why = NULL;
    acre_why_config config = {.struct_size = sizeof config, .device = 3};

    EXPECT_EQ(acre_why_create(NULL, NULL, &why), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_snapshot_open(files_write("e.json", "{\"segments\":[]}", 15), &snapshot));
    EXPECT_EQ(acre_why_create(snapshot, NULL, &why), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_why_create(snapshot, &config, &why), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "there is no device 3");
    config.struct_size = 1;
    EXPECT_EQ(acre_why_create(snapshot, &config, &why), ACRE_ERR_INVALID);
    acre_snapshot_close(snapshot);
}

T_MAIN()
