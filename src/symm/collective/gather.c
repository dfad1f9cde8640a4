/* SPDX-License-Identifier: MIT */
/* Collectives that move bytes: all-gather, gather, broadcast, all-to-all. */
#include "symm/far/reach.h"

#include "base/heap.h"
#include "base/status.h"

#include <string.h>

#define RANKS_MAX 1024

enum motion { MOTION_PUSH, MOTION_GATHER, MOTION_BROADCAST, MOTION_ALL_TO_ALL };

struct moving {
    struct work work;
    enum motion motion;
    size_t offset, bytes;
    int root;
    const void *in;
    void *out;
};

/* Moves the parts of ranks on other hosts, all at once. */
static acre_status move_far(struct moving *op, void *const *at, const void *in, char *out)
{
    struct work *work = &op->work;
    const struct team *team = work->symm->team;
    size_t bytes = op->bytes, own = (size_t)team->rank, count = 0;
    far_op *ops = heap_array((size_t)team->count, sizeof *ops);

    if (!ops)
        return ACRE_ERR_HOST_MEMORY;
    for (int rank = 0; rank < team->count; rank++) {
        char *to = out ? out + (size_t)rank * bytes : NULL;
        if (!team_is_far(team, rank))
            continue;
        if (op->motion == MOTION_PUSH)
            ops[count++] = reach_piece(work, WIRE_PUT, rank, op->offset + own * bytes, in, bytes);
        else if (op->motion == MOTION_GATHER)
            ops[count++] = reach_piece(work, WIRE_GET, rank, op->offset, to, bytes);
        else if (op->motion == MOTION_ALL_TO_ALL)
            ops[count++] = reach_piece(work, WIRE_GET, rank, op->offset + own * bytes, to, bytes);
        else if (rank == op->root)
            ops[count++] = reach_piece(work, WIRE_GET, rank, op->offset, at[own], bytes);
    }
    acre_status status = reach_together(work, ops, count);
    heap_free(ops);
    return status;
}

/* Between the two meetings; every rank starts at another place. */
static void gather_move(const struct moving *op, void *const *at, const void *in, char *out)
{
    int own = op->work.symm->team->rank, count = op->work.symm->team->count;
    size_t bytes = op->bytes;

    if (op->motion == MOTION_BROADCAST && own != op->root && at[op->root])
        copy_bytes(at[own], at[op->root], bytes);
    for (int i = 0; op->motion != MOTION_BROADCAST && i < count; i++) {
        int rank = (own + count - i) % count;
        if (!at[rank])
            continue;
        if (op->motion == MOTION_PUSH)
            memmove((char *)at[rank] + (size_t)own * bytes, in, bytes);
        else if (op->motion == MOTION_GATHER)
            copy_bytes(out + (size_t)rank * bytes, at[rank], bytes);
        else
            copy_bytes(out + (size_t)rank * bytes, (char *)at[rank] + (size_t)own * bytes, bytes);
    }
}

static acre_status moving_steps(struct moving *op)
{
    struct work *work = &op->work;
    size_t count = (size_t)work->symm->team->count;
    void *at[RANKS_MAX], *out = NULL;
    const void *in = NULL;
    acre_status status = ranks_at(work, op->offset, at);

    if (status == ACRE_OK && ((op->in && !(in = work_pointer(work, op->in, op->bytes))) ||
                              (op->out && !(out = work_pointer(work, op->out, op->bytes * count)))))
        status = ACRE_ERR_INVALID;
    if (status != ACRE_OK)
        return status;
    if (op->motion == MOTION_GATHER && in)
        memcpy(at[work->symm->team->rank], in, op->bytes);
    status = sync_meet(work);
    if (status != ACRE_OK)
        return status;
    gather_move(op, at, in, out);
    if (work->symm->team->places)
        status = move_far(op, at, in, out);
    return status == ACRE_OK ? sync_meet(work) : status;
}

static acre_status moving_body(struct work *work)
{
    acre_status status = sync_begin(work);

    if (status != ACRE_OK)
        return status;
    status = moving_steps((struct moving *)work);
    sync_end(work);
    return status;
}

/* pieces: how many times bytes the buffer must have. */
static acre_status moving_run(struct moving *op, const char *call, acre_symm *symm,
                              const acre_collective_options *options, size_t pieces)
{
    struct place place;
    acre_status status = options_take(call, symm, options, 1, &op->work, &place);

    if (status != ACRE_OK)
        return status;
    if (op->bytes && pieces > SIZE_MAX / op->bytes)
        return status_fail(ACRE_ERR_INVALID, "%s: %zu bytes are too many", call, op->bytes);
    status = work_range_check(&op->work, op->offset, op->bytes * pieces, 1);
    if (status == ACRE_OK && op->motion == MOTION_BROADCAST)
        status = rank_check(symm->team, call, op->root);
    if (status != ACRE_OK || op->bytes == 0)
        return status;
    op->work.body = moving_body;
    return work_run(&op->work, sizeof *op, &place);
}

static size_t ranks_of(const acre_symm *symm)
{
    return symm ? (size_t)symm->team->count : 1;
}

ACRE_API acre_status acre_symm_all_gather(acre_symm *symm, size_t offset, const void *in,
                                          size_t bytes, const acre_collective_options *options)
{
    struct moving op = {.motion = MOTION_PUSH, .offset = offset, .bytes = bytes, .in = in};

    if (!in && bytes)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_all_gather: in is NULL");
    if (symm && !symm->team->has_multicast)
        return status_fail(ACRE_ERR_UNSUPPORTED, "acre_symm_all_gather: not all ranks offer "
                                                 "multicast");
    return moving_run(&op, "acre_symm_all_gather", symm, options, ranks_of(symm));
}

ACRE_API acre_status acre_symm_gather_out(acre_symm *symm, size_t offset, const void *in,
                                          size_t bytes, void *out,
                                          const acre_collective_options *options)
{
    struct moving op = {
        .motion = MOTION_GATHER, .offset = offset, .bytes = bytes, .in = in, .out = out};

    if (!out && bytes)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_gather_out: out is NULL");
    return moving_run(&op, "acre_symm_gather_out", symm, options, 1);
}

ACRE_API acre_status acre_symm_broadcast(acre_symm *symm, size_t offset, size_t bytes, int root,
                                         const acre_collective_options *options)
{
    struct moving op = {.motion = MOTION_BROADCAST, .offset = offset, .bytes = bytes, .root = root};

    return moving_run(&op, "acre_symm_broadcast", symm, options, 1);
}

ACRE_API acre_status acre_symm_all_to_all(acre_symm *symm, size_t offset, size_t bytes, void *out,
                                          const acre_collective_options *options)
{
    struct moving op = {.motion = MOTION_ALL_TO_ALL, .offset = offset, .bytes = bytes, .out = out};

    if (!out && bytes)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_all_to_all: out is NULL");
    return moving_run(&op, "acre_symm_all_to_all", symm, options, ranks_of(symm));
}
