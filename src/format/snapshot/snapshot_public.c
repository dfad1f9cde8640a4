/* SPDX-License-Identifier: MIT */
/* The calls of acre/snapshot.h that need nothing but the file. An acre_snapshot is a
 * struct snapshot under another name. */
#include <acre/snapshot.h>

#include "base/status.h"
#include "base/struct_size.h"
#include "format/snapshot/facts.h"

static const struct snapshot *snapshot_public_inner(const acre_snapshot *snapshot)
{
    return (const struct snapshot *)snapshot;
}

acre_status acre_snapshot_open(const char *path, acre_snapshot **out)
{
    struct snapshot *snapshot;

    if (!path || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_snapshot_open: an argument is NULL");
    acre_status status = snapshot_read(path, &snapshot);
    if (status == ACRE_OK)
        *out = (acre_snapshot *)snapshot;
    return status;
}

void acre_snapshot_close(acre_snapshot *snapshot)
{
    snapshot_destroy((struct snapshot *)snapshot);
}

acre_status acre_snapshot_info_get(const acre_snapshot *snapshot, acre_snapshot_info *info)
{
    const struct snapshot *from = snapshot_public_inner(snapshot);

    if (!snapshot)
        return status_fail(ACRE_ERR_INVALID, "acre_snapshot_info_get: snapshot is NULL");
    acre_status status = STRUCT_CHECK("acre_snapshot_info_get", acre_snapshot_info, info);
    if (status != ACRE_OK)
        return status;
    acre_snapshot_info found = {.struct_size = sizeof found,
                                .device_count = (uint32_t)from->device_count,
                                .segment_count = from->segment_count,
                                .stack_count = from->stack_count,
                                .frame_count = from->frame_count,
                                .has_settings = from->has_settings,
                                .annotation_count = (uint32_t)from->annotation_count};
    for (size_t i = 0; i < from->segment_count; i++) {
        found.block_count += from->segments[i].block_count;
        found.reserved_bytes += from->segments[i].bytes;
        found.allocated_bytes += from->segments[i].allocated_bytes;
    }
    for (size_t i = 0; i < from->device_count; i++)
        found.event_count += from->devices[i].entry_count;
    STRUCT_GIVE(acre_snapshot_info, info, &found);
    return ACRE_OK;
}

acre_status acre_snapshot_check(const acre_snapshot *snapshot)
{
    if (!snapshot)
        return status_fail(ACRE_ERR_INVALID, "acre_snapshot_check: snapshot is NULL");
    return snapshot_check(snapshot_public_inner(snapshot));
}

acre_status acre_snapshot_write(const acre_snapshot *snapshot, const char *path,
                                acre_snapshot_format format)
{
    if (!snapshot || !path)
        return status_fail(ACRE_ERR_INVALID, "acre_snapshot_write: an argument is NULL");
    if (format != ACRE_SNAPSHOT_PICKLE && format != ACRE_SNAPSHOT_JSON)
        return status_fail(ACRE_ERR_INVALID, "acre_snapshot_write: %d is no format", (int)format);
    return snapshot_write(snapshot_public_inner(snapshot), path,
                          format == ACRE_SNAPSHOT_JSON ? SNAPSHOT_JSON : SNAPSHOT_PICKLE);
}
