/* SPDX-License-Identifier: MIT */
#include "format/snapshot/facts.h"

#include "base/status.h"

#define NPU_PADDING 32
#define UNIT        512

/* ---- Devices ------------------------------------------------------------------------------- */

bool facts_has_history(const struct snapshot *snapshot, uint32_t device)
{
    uint64_t count = 0;

    if (device >= snapshot->device_count)
        return false;
    const struct snap_device *trace = &snapshot->devices[device];
    for (uint64_t i = 0; i < trace->entry_count && count < 2; i++)
        count += snapshot->entries[trace->first_entry + i].action < SNAP_SNAPSHOT;
    return count == 2;
}

uint16_t facts_free_action(const struct snapshot *snapshot, uint32_t device)
{
    const struct snap_device *trace = &snapshot->devices[device];

    for (uint64_t i = 0; i < trace->entry_count; i++)
        if (snapshot->entries[trace->first_entry + i].action == SNAP_FREE_COMPLETED)
            return SNAP_FREE_COMPLETED;
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const struct snap_segment *segment = &snapshot->segments[i];
        for (uint64_t k = 0; segment->device == device && k < segment->block_count; k++)
            if (snapshot->blocks[segment->first_block + k].state > SNAP_ALLOCATED)
                return SNAP_FREE_COMPLETED;
    }
    return SNAP_FREE_REQUESTED;
}

/* The latest item of a legacy block's own history, or NULL. */
static const struct snap_past *block_past(const struct snapshot *snapshot,
                                          const struct snap_block *block)
{
    return block->has & SNAP_HAS_HISTORY && block->past_count ? &snapshot->pasts[block->first_past]
                                                              : NULL;
}

uint32_t facts_block_stack(const struct snapshot *snapshot, const struct snap_block *block)
{
    const struct snap_past *past = block_past(snapshot, block);

    return block->stack == SNAP_NONE && past ? past->stack : block->stack;
}

uint64_t facts_block_requested(const struct snapshot *snapshot, const struct snap_block *block)
{
    const struct snap_past *past = block_past(snapshot, block);

    if (block->has & SNAP_HAS_REQUESTED)
        return block->requested_bytes;
    return past && past->bytes && past->bytes <= block->bytes ? past->bytes : block->bytes;
}

bool facts_last_oom(const struct snapshot *snapshot, uint32_t device, uint64_t *out_event)
{
    const struct snap_device *trace = &snapshot->devices[device];

    for (uint64_t i = trace->entry_count; i-- > 0;)
        if (snapshot->entries[trace->first_entry + i].action == SNAP_OOM) {
            *out_event = i;
            return true;
        }
    return false;
}

static uint64_t reserved_of(const struct snapshot *snapshot, uint32_t device)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < snapshot->segment_count; i++)
        if (snapshot->segments[i].device == device)
            bytes += snapshot->segments[i].bytes;
    return bytes;
}

static int64_t oom_time(const struct snapshot *snapshot, uint32_t device, uint64_t event)
{
    return snapshot->entries[snapshot->devices[device].first_entry + event].time_us;
}

/* The device whose request failed last; false: no request failed. */
static bool choose_by_oom(const struct snapshot *snapshot, uint32_t *out)
{
    bool is_found = false;
    uint64_t event;
    int64_t latest = 0;

    for (uint32_t i = 0; i < snapshot->device_count; i++)
        if (facts_last_oom(snapshot, i, &event) &&
            (!is_found || oom_time(snapshot, i, event) > latest)) {
            latest = oom_time(snapshot, i, event);
            *out = i;
            is_found = true;
        }
    return is_found;
}

/* The device that holds most; false: no device holds anything. */
static bool choose_by_size(const struct snapshot *snapshot, enum facts_need need, uint32_t *out)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < snapshot->device_count; i++) {
        uint64_t bytes = reserved_of(snapshot, i);
        if (bytes > most && (need == FACTS_STATE || facts_has_history(snapshot, i))) {
            most = bytes;
            *out = i;
        }
    }
    return most > 0;
}

acre_status facts_device(const struct snapshot *snapshot, uint32_t wanted, enum facts_need need,
                         uint32_t *out, const char **reason)
{
    uint32_t device = 0;

    if (wanted != FACTS_CHOOSE && wanted >= snapshot->device_count)
        return status_fail(ACRE_ERR_NOT_FOUND, "there is no device %u in the snapshot; it has %zu",
                           wanted, snapshot->device_count);
    if (snapshot->device_count == 0)
        return status_fail(ACRE_ERR_NOT_FOUND,
                           "the snapshot is empty: it has no device and no history");
    if (wanted != FACTS_CHOOSE) {
        device = wanted;
        *reason = "as asked for";
    } else if (snapshot->device_count == 1) {
        *reason = "the only one in the snapshot";
    } else if (choose_by_oom(snapshot, &device)) {
        *reason = "where a request failed";
    } else if (choose_by_size(snapshot, need, &device)) {
        uint32_t most = device;
        choose_by_size(snapshot, FACTS_STATE, &most);
        *reason = most == device ? "which holds most memory"
                                 : "which holds most memory of those that have a history";
    } else {
        for (uint32_t i = 1; i < snapshot->device_count; i++)
            if (snapshot->devices[i].entry_count > snapshot->devices[device].entry_count)
                device = i;
        *reason = "which has the longest history";
    }
    *out = device;
    return ACRE_OK;
}

/* ---- Rounding ------------------------------------------------------------------------------ */

static uint64_t round_unit(uint64_t bytes)
{
    return bytes > UINT64_MAX - UNIT ? bytes : (bytes + UNIT - 1) / UNIT * UNIT;
}

/* Counts the live blocks that only one of both rules explains. */
static void count_rules(const struct snapshot *snapshot, uint64_t *plain, uint64_t *padded)
{
    for (size_t i = 0; i < snapshot->block_count; i++) {
        const struct snap_block *block = &snapshot->blocks[i];
        uint64_t requested = block->requested_bytes;
        if (block->state == SNAP_INACTIVE || !(block->has & SNAP_HAS_REQUESTED) || !requested ||
            requested > UINT64_MAX / 2)
            continue;
        uint64_t without = round_unit(requested), with = round_unit(requested + NPU_PADDING);
        if (without == with)
            continue;
        *plain += block->bytes == without;
        *padded += block->bytes == with;
    }
}

uint32_t facts_padding(const struct snapshot *snapshot)
{
    uint64_t plain = 0, padded = 0;

    count_rules(snapshot, &plain, &padded);
    if (plain + padded == 0)
        return snapshot_setting(snapshot, "PYTORCH_NPU_ALLOC_CONF") ? NPU_PADDING : 0;
    /* PyTorch's own blocks follow the plain rule wherever a block was cut to size; a few
     * may have 512 bytes more by chance. */
    return padded >= 3 && plain * 20 <= padded ? NPU_PADDING : 0;
}
