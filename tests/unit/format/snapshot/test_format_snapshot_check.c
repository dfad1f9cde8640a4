/* SPDX-License-Identifier: MIT */
/* Segments that add up, and each way in which they may not. */
#include "base/heap.h"
#include "format/snapshot/snapshot.h"
#include "tests/support/t.h"

/* Two blocks, one of them live, in one segment. */
static struct snapshot *make(void)
{
    struct snapshot *snapshot = NULL;
    struct snap_segment *segment;
    struct snap_block *block;

    REQUIRE_OK(snapshot_create(&snapshot));
    REQUIRE_OK(snapshot_add_segment(snapshot, &segment));
    *segment = (struct snap_segment){.address = 4096, .bytes = 2048, .allocated_bytes = 512,
                                     .active_bytes = 512, .requested_bytes = 500,
                                     .has = SNAP_HAS_REQUESTED};
    REQUIRE_OK(snapshot_add_block(snapshot, &block));
    block->address = 4096;
    block->bytes = 512;
    block->requested_bytes = 500;
    block->state = SNAP_ALLOCATED;
    block->has = SNAP_HAS_REQUESTED;
    REQUIRE_OK(snapshot_add_block(snapshot, &block));
    block->address = 4608;
    block->bytes = 1536;
    block->requested_bytes = 77; /* stale */
    block->has = SNAP_HAS_REQUESTED;
    return snapshot;
}

static void expect_bad(struct snapshot *snapshot, const char *part)
{
    EXPECT_EQ(snapshot_check(snapshot), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "segment 0 of device 0 at 0x1000 is inconsistent");
    EXPECT_HAS(acre_last_error(), part);
    snapshot_destroy(snapshot);
}

TEST(a_sound_snapshot_adds_up)
{
    struct snapshot *snapshot = make();

    EXPECT_EQ(snapshot_check(snapshot), ACRE_OK);
    snapshot->blocks[0].state = SNAP_PENDING;
    snapshot->segments[0].allocated_bytes = 0;
    EXPECT_EQ(snapshot_check(snapshot), ACRE_OK);
    snapshot_destroy(snapshot);
}

TEST(what_does_not_add_up_is_named)
{
    struct snapshot *snapshot = make();

    snapshot->segments[0].bytes = 4096;
    expect_bad(snapshot, "total_size is 4096, its blocks have 2048 bytes");
    snapshot = make();
    snapshot->blocks[1].address += 512;
    expect_bad(snapshot, "block 1 starts at 0x1400, the one before ends at 0x1200");
    snapshot = make();
    snapshot->segments[0].allocated_bytes = 0;
    expect_bad(snapshot, "allocated_size is 0");
    snapshot = make();
    snapshot->segments[0].active_bytes = 1024;
    expect_bad(snapshot, "active_size is 1024");
    snapshot = make();
    snapshot->segments[0].requested_bytes = 577;
    expect_bad(snapshot, "requested_size is 577");
}

T_MAIN()
