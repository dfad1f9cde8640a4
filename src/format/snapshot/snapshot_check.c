/* SPDX-License-Identifier: MIT */
/* Whether the segments of a snapshot add up. Files that were edited do not, and
 * nothing that is computed from them can be trusted. */
#include "base/status.h"
#include "format/snapshot/snapshot.h"

typedef unsigned long long ull;

#define FAIL(number, segment, format, ...)                                                         \
    status_fail(ACRE_ERR_FORMAT, "segment %llu of device %u at 0x%llx is inconsistent: " format,   \
                (ull)(number), (segment)->device, (ull)(segment)->address, __VA_ARGS__)

static acre_status check_segment(const struct snapshot *snapshot, size_t number)
{
    const struct snap_segment *segment = &snapshot->segments[number];
    uint64_t total = 0, allocated = 0, active = 0, requested = 0;
    bool has_requested = segment->has & SNAP_HAS_REQUESTED;

    for (uint64_t i = 0; i < segment->block_count; i++) {
        const struct snap_block *block = &snapshot->blocks[segment->first_block + i];
        if (block->address != segment->address + total)
            return FAIL(number, segment,
                        "block %llu starts at 0x%llx, the one before ends at "
                        "0x%llx",
                        (ull)i, (ull)block->address, (ull)(segment->address + total));
        total += block->bytes;
        allocated += block->state == SNAP_ALLOCATED ? block->bytes : 0;
        active += block->state != SNAP_INACTIVE ? block->bytes : 0;
        requested += block->state != SNAP_INACTIVE ? block->requested_bytes : 0;
        has_requested = has_requested && block->has & SNAP_HAS_REQUESTED;
    }
    if (total != segment->bytes)
        return FAIL(number, segment, "total_size is %llu, its blocks have %llu bytes",
                    (ull)segment->bytes, (ull)total);
    if (allocated != segment->allocated_bytes)
        return FAIL(number, segment, "allocated_size is %llu, its allocated blocks have %llu bytes",
                    (ull)segment->allocated_bytes, (ull)allocated);
    if (active != segment->active_bytes)
        return FAIL(number, segment, "active_size is %llu, its active blocks have %llu bytes",
                    (ull)segment->active_bytes, (ull)active);
    if (has_requested && requested != segment->requested_bytes)
        return FAIL(number, segment, "requested_size is %llu, its active blocks have %llu",
                    (ull)segment->requested_bytes, (ull)requested);
    return ACRE_OK;
}

acre_status snapshot_check(const struct snapshot *snapshot)
{
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < snapshot->segment_count && status == ACRE_OK; i++)
        status = check_segment(snapshot, i);
    return status;
}
