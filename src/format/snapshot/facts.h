/* SPDX-License-Identifier: MIT */
/* Facts about a snapshot that every tool needs: which device a question is about, whether
 * there is a history to work on, and whose rules rounded the blocks. */
#ifndef SRC_FORMAT_SNAPSHOT_FACTS_H
#define SRC_FORMAT_SNAPSHOT_FACTS_H

#include "format/snapshot/snapshot.h"

/* Stands for "choose the device", also in public calls (ACRE_DEVICE_CHOOSE). */
#define FACTS_CHOOSE UINT32_MAX

/* What a device is chosen for. */
enum facts_need {
    FACTS_STATE,  /* its segments, or its history */
    FACTS_HISTORY /* its history                  */
};

/* Gives the device wanted, or chooses one: the device whose request failed last, else the
 * device that holds most memory, else the one with the longest history. With FACTS_HISTORY
 * only devices that have a history are considered, as long as there is one.
 * reason is a short phrase that lives forever.
 * Errors: ACRE_ERR_NOT_FOUND (no such device, or no device at all). */
acre_status facts_device(const struct snapshot *snapshot, uint32_t wanted, enum facts_need need,
                         uint32_t *out, const char **reason);

/* Whether a device has a history: at least two events that moved memory. One event alone is
 * what PyTorch leaves behind when only the state is recorded; events "snapshot" and "oom" do
 * not count. */
bool facts_has_history(const struct snapshot *snapshot, uint32_t device);

/* The event that ends a block: SNAP_FREE_COMPLETED, or SNAP_FREE_REQUESTED in recordings that
 * leave completed frees out. A block that waits for a stream at the end proves that a free
 * was requested and not completed, also where no other free is. */
uint16_t facts_free_action(const struct snapshot *snapshot, uint32_t device);

/* Who allocated a block of a segment, or SNAP_NONE; and how much was asked for, its size when
 * that is not told. Files of PyTorch before 2.1 tell both in the block's own history, the
 * latest first. */
uint32_t facts_block_stack(const struct snapshot *snapshot, const struct snap_block *block);
uint64_t facts_block_requested(const struct snapshot *snapshot, const struct snap_block *block);

/* The last request that failed on a device; false: no request failed. */
bool facts_last_oom(const struct snapshot *snapshot, uint32_t device, uint64_t *out_event);

/* Bytes that the allocator adds to every request before it rounds: 32 in snapshots of
 * Ascend's torch_npu, whose blocks are round_up(request + 32, 512); otherwise 0. */
uint32_t facts_padding(const struct snapshot *snapshot);

#endif
