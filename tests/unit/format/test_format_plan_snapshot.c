/* SPDX-License-Identifier: MIT */
/* Buffers from memory snapshots. */
#include "format/csv.h"
#include "format/snapshot/snapshot.h"
#include "tests/support/t.h"

#include <acre/plan.h>

#include <unistd.h>

/* A history: one block was there before, one is allocated and freed, one stays, and one
 * that stays is only seen at the end. */
static void write_snapshot(const char *path, bool has_history)
{
    static const struct {
        uint16_t action;
        uint64_t address, bytes;
    } events[] = {{SNAP_ALLOC, 0x1000, 100},
                  {SNAP_SEGMENT_ALLOC, 0x9000, 4096},
                  {SNAP_FREE_REQUESTED, 0x5000, 1000},
                  {SNAP_FREE_COMPLETED, 0x5000, 1000},
                  {SNAP_ALLOC, 0x2000, 513},
                  {SNAP_FREE_REQUESTED, 0x1000, 100},
                  {SNAP_FREE_COMPLETED, 0x1000, 100}};
    struct snapshot *snapshot;
    struct snap_device *device;
    struct snap_segment *segment;
    struct snap_block *block;

    REQUIRE_OK(snapshot_create(&snapshot));
    REQUIRE_OK(snapshot_add_device(snapshot, &device));
    snapshot->has_traces = true;
    snapshot->trace_count = 1;
    for (int i = 0; has_history && i < 7; i++) {
        struct snap_entry *entry;
        REQUIRE_OK(snapshot_add_entry(snapshot, &entry));
        entry->action = events[i].action;
        entry->address = events[i].address;
        entry->bytes = events[i].bytes;
    }
    REQUIRE_OK(snapshot_add_segment(snapshot, &segment));
    segment->address = 0x8000;
    segment->bytes = segment->allocated_bytes = segment->active_bytes = 2048;
    REQUIRE_OK(snapshot_add_string(snapshot, "small", 5, &segment->type));
    REQUIRE_OK(snapshot_add_block(snapshot, &block));
    block->address = 0x8000;
    block->bytes = block->requested_bytes = 2048;
    block->state = SNAP_ALLOCATED;
    REQUIRE_OK(snapshot_write(snapshot, path, SNAPSHOT_PICKLE));
    snapshot_destroy(snapshot);
}

TEST(a_history_gives_lifetimes)
{
    static const acre_plan_buffer expected[] = {{.start = 0, .end = 3, .size = 512},
                                                {.start = 0, .end = 1, .size = 1024},
                                                {.start = 2, .end = 4, .size = 1024},
                                                {.start = 0, .end = 4, .size = 2048}};
    char path[] = "/tmp/acre_plan_snapshot_XXXXXX";
    acre_plan_table *table = NULL;
    size_t count = 0;

    close(mkstemp(path));
    write_snapshot(path, true);
    acre_status status = acre_plan_read(path, &table);
    unlink(path);
    REQUIRE_OK(status);
    const acre_plan_buffer *buffers = acre_plan_buffers(table, &count);
    REQUIRE_EQ(count, 4);
    for (size_t i = 0; i < count; i++) {
        EXPECT_EQ(buffers[i].start, expected[i].start);
        EXPECT_EQ(buffers[i].end, expected[i].end);
        EXPECT_EQ(buffers[i].size, expected[i].size);
    }
    acre_plan_close(table);
}

TEST(without_a_history_nothing_can_be_planned)
{
    char path[] = "/tmp/acre_plan_snapshot_XXXXXX";
    acre_plan_table *table = NULL;

    close(mkstemp(path));
    write_snapshot(path, false);
    EXPECT_EQ(acre_plan_read(path, &table), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "no history");
    unlink(path);
}

T_MAIN()
