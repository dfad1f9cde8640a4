/* SPDX-License-Identifier: MIT */
#include "exchange/transfer.h"

#include "base/check.h"
#include "base/status.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { RETRIES_MAX = 1000 }; /* of requests that moved nothing and may be repeated */

/* A block that is under way. */
struct transfer_slot {
    size_t at; /* its place in the range          */
    size_t bytes;
    size_t done; /* of bytes, by earlier requests   */
    unsigned retries;
};

struct transfer_run {
    const struct transfer *t;
    struct transfer_slot slots[IO_DEPTH_MAX];
    unsigned idle[IO_DEPTH_MAX]; /* slots that are not under way */
    unsigned idle_count;
    size_t next;        /* first byte that no slot had  */
    acre_status status; /* the first failure            */
};

static char *slot_memory(const struct transfer_run *run, unsigned index)
{
    const struct transfer *t = run->t;

    return t->stage ? t->stage + index * t->block_bytes : t->memory + run->slots[index].at;
}

/* Copies a whole block between the stage and the memory. */
static acre_status stage_copy(const struct transfer_run *run, unsigned index)
{
    const struct transfer *t = run->t;
    const struct transfer_slot *slot = &run->slots[index];
    char *stage = slot_memory(run, index), *memory = t->memory + slot->at;
    char *to = t->is_write ? stage : memory, *from = t->is_write ? memory : stage;

    if (!t->is_device_memory) {
        memcpy(to, from, slot->bytes);
        return ACRE_OK;
    }
    return acre_copy(t->device, to, from, slot->bytes,
                     t->is_write ? ACRE_COPY_DEVICE_TO_HOST : ACRE_COPY_HOST_TO_DEVICE);
}

static void slot_request(struct transfer_run *run, unsigned index)
{
    const struct transfer *t = run->t;
    const struct transfer_slot *slot = &run->slots[index];

    io_start(t->io, &(struct io_request){.memory = slot_memory(run, index) + slot->done,
                                         .bytes = slot->bytes - slot->done,
                                         .offset = t->offset + slot->at + slot->done,
                                         .tag = index,
                                         .is_write = t->is_write,
                                         .is_fixed = t->stage && t->stage_is_fixed});
}

static void slot_begin(struct transfer_run *run)
{
    const struct transfer *t = run->t;
    unsigned index = run->idle[--run->idle_count];
    size_t left = t->bytes - run->next;

    run->slots[index] = (struct transfer_slot){
        .at = run->next, .bytes = left < t->block_bytes ? left : t->block_bytes};
    if (t->is_write && t->stage)
        run->status = stage_copy(run, index);
    if (run->status != ACRE_OK) {
        run->idle[run->idle_count++] = index;
        return;
    }
    run->next += run->slots[index].bytes;
    slot_request(run, index);
}

static acre_status io_failed(const struct transfer_run *run, const struct transfer_slot *slot,
                             int error)
{
    const struct transfer *t = run->t;
    bool is_room = error == ENOSPC || error == EDQUOT || error == EFBIG;

    return status_fail_native(is_room ? ACRE_ERR_LIMIT : ACRE_ERR_IO, error,
                              "%s: %s %zu bytes at offset %" PRIu64 ": %s; %s", t->path,
                              t->is_write ? "writing" : "reading", slot->bytes - slot->done,
                              t->offset + slot->at + slot->done, strerror(error),
                              t->is_write ? "what was to be saved is not complete in the file"
                                          : "what was to be loaded is not complete in memory");
}

/* A result that is no failure and not the whole: may it go on from there? */
static acre_status slot_continue(struct transfer_run *run, unsigned index, size_t moved)
{
    struct transfer_slot *slot = &run->slots[index];
    const struct transfer *t = run->t;

    if (moved == 0)
        return status_fail(ACRE_ERR_IO, "%s: %s at offset %" PRIu64 ", %zu bytes are missing",
                           t->path, t->is_write ? "no more is accepted" : "the file ends",
                           t->offset + slot->at + slot->done, slot->bytes - slot->done);
    slot->done += moved;
    if (slot->done % t->alignment)
        return status_fail(ACRE_ERR_IO,
                           "%s: %s stopped at offset %" PRIu64 ", which is not a "
                           "multiple of %zu, with %zu bytes missing",
                           t->path, t->is_write ? "writing" : "reading",
                           t->offset + slot->at + slot->done, t->alignment,
                           slot->bytes - slot->done);
    slot_request(run, index);
    return ACRE_OK;
}

/* Takes one result; the slot is idle afterwards or under way again. */
static void slot_result(struct transfer_run *run, struct io_result result)
{
    struct transfer_slot *slot = &run->slots[result.tag];
    size_t missing = slot->bytes - slot->done;
    acre_status status;

    if (run->status != ACRE_OK) {
        status = run->status;
    } else if ((result.bytes == -EINTR || result.bytes == -EAGAIN) &&
               slot->retries++ < RETRIES_MAX) {
        slot_request(run, result.tag);
        return;
    } else if (result.bytes < 0) {
        status = io_failed(run, slot, (int)-result.bytes);
    } else if ((size_t)result.bytes < missing) {
        status = slot_continue(run, result.tag, (size_t)result.bytes);
        if (status == ACRE_OK)
            return;
    } else {
        status = run->t->is_write || !run->t->stage ? ACRE_OK : stage_copy(run, result.tag);
    }
    run->status = status;
    run->idle[run->idle_count++] = result.tag;
}

acre_status transfer_run(const struct transfer *transfer)
{
    struct transfer_run run = {.t = transfer, .idle_count = transfer->io->depth};

    CHECK(transfer->io->under_way == 0 && transfer->block_bytes % transfer->alignment == 0);
    for (unsigned i = 0; i < run.idle_count; i++)
        run.idle[i] = i;
    for (;;) {
        while (run.status == ACRE_OK && run.idle_count && run.next < transfer->bytes)
            slot_begin(&run);
        if (!transfer->io->under_way)
            return run.status;
        slot_result(&run, io_finish(transfer->io));
    }
}
