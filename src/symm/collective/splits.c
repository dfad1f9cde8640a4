/* SPDX-License-Identifier: MIT */
/* All-to-all with variable splits: 1-D, 2-D, and the way back.
 *
 * Every rank puts its splits and where they begin into its control page; after a meeting it
 * reads what is meant for it from everybody's, lays out its output, pulls the rows, and meets
 * again. A rank whose output is too small takes part in both meetings and fails alone.
 *
 *                in: index of (destination d, expert e)    out: index of (source s, expert e)
 *   1-D          d                                         s
 *   2-D          d * experts + e                           e * N + s, groups aligned
 *   the way back e * N + d, with offsets                   s * experts + e
 */
#include "symm/far/reach.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "base/text.h"

#include <string.h>

#define RANKS_MAX 1024
#define CELLS_MAX (STAGE_BYTES / 16) /* a split and an offset each */

/* What a rank tells the others; lies in its control page. */
struct plan {
    int64_t splits[CELLS_MAX];
    int64_t offsets[CELLS_MAX];
};

struct exchange_v {
    struct work work;
    size_t offset;
    acre_splits splits;
    void *out;
};

static size_t cells_of(const struct exchange_v *op)
{
    size_t experts = op->splits.experts ? op->splits.experts : 1;

    return experts * (size_t)op->work.symm->team->count;
}

static void plan_write(const struct exchange_v *op, struct plan *plan)
{
    const acre_splits *splits = &op->splits;
    int64_t at = 0;

    for (size_t i = 0; i < cells_of(op); i++) {
        plan->splits[i] = splits->in_splits[i];
        plan->offsets[i] = splits->in_offsets ? splits->in_offsets[i] : at;
        at += splits->in_splits[i];
    }
}

/* Cell of what goes to rank from an expert, in the sender's plan. */
static size_t cell_in(const struct exchange_v *op, size_t rank, size_t expert)
{
    size_t ranks = (size_t)op->work.symm->team->count;

    if (op->splits.experts == 0)
        return rank;
    return op->splits.in_offsets ? expert * ranks + rank : rank * op->splits.experts + expert;
}

/* Where the next expert group begins. */
static int64_t group_end(const struct exchange_v *op, int64_t begin, int64_t end)
{
    int64_t align = op->splits.align;

    if (op->splits.experts == 0 || op->splits.in_offsets)
        return end;
    return end == begin ? begin + align : begin + (end - begin + align - 1) / align * align;
}

/* Lays out what comes, in the order of the output; gives the rows needed. */
static int64_t layout_out(const struct exchange_v *op, struct plan *const *plans)
{
    size_t ranks = (size_t)op->work.symm->team->count, own = (size_t)op->work.symm->team->rank;
    size_t experts = op->splits.experts ? op->splits.experts : 1, at = 0;
    bool is_back = op->splits.in_offsets && op->splits.experts;
    size_t outer = is_back ? ranks : experts, inner = is_back ? experts : ranks;
    int64_t row = 0, last = 0;

    for (size_t i = 0; i < outer; i++) {
        int64_t begin = row;
        for (size_t k = 0; k < inner; k++, at++) {
            size_t source = is_back ? i : k, expert = is_back ? k : i;
            op->splits.out_splits[at] = plans[source]->splits[cell_in(op, own, expert)];
            op->splits.out_offsets[at] = row;
            row += op->splits.out_splits[at];
        }
        last = row;
        row = group_end(op, begin, row);
    }
    return last;
}

/* The plans of ranks on other hosts, brought into room for as many as there are ranks. */
static acre_status plans_bring(struct work *work, unsigned which, struct plan *room,
                               struct plan **plans)
{
    const struct team *team = work->symm->team;
    size_t stage = control_stage_offset(team->channels) + which * STAGE_BYTES;
    acre_status status = ACRE_OK;

    for (int i = 0; i < team->count && status == ACRE_OK; i++) {
        if (!team_is_far(team, i))
            continue;
        plans[i] = &room[i];
        far_op piece = {.kind = WIRE_GET,
                        .rank = team->places[i].wire_rank,
                        .address = team->places[i].control + stage,
                        .here = plans[i],
                        .bytes = sizeof *room};
        status = reach_together(work, &piece, 1);
    }
    return status;
}

/* Copies rows of a rank, which may be far: at is NULL then. */
static acre_status rows_copy(struct exchange_v *op, int source, const char *at, int64_t from,
                             char *to, int64_t count)
{
    size_t offset = (size_t)from * op->splits.row_bytes;
    size_t bytes = (size_t)count * op->splits.row_bytes;

    if (at) {
        copy_bytes(to, at + offset, bytes);
        return ACRE_OK;
    }
    far_op piece = reach_piece(&op->work, WIRE_GET, source, op->offset + offset, to, bytes);
    return reach_together(&op->work, &piece, bytes != 0);
}

static acre_status pull_rows(struct exchange_v *op, struct plan *const *plans, void *const *at,
                             char *out)
{
    size_t ranks = (size_t)op->work.symm->team->count, own = (size_t)op->work.symm->team->rank;
    size_t experts = op->splits.experts ? op->splits.experts : 1;
    bool is_back = op->splits.in_offsets && op->splits.experts;
    acre_status status = ACRE_OK;

    for (size_t step = 0; step < ranks; step++) {
        size_t source = (own + step) % ranks;
        for (size_t expert = 0; expert < experts && status == ACRE_OK; expert++) {
            size_t to = is_back ? source * experts + expert : expert * ranks + source;
            size_t cell = cell_in(op, own, expert);
            status = rows_copy(op, (int)source, at[source], plans[source]->offsets[cell],
                               out + (size_t)op->splits.out_offsets[to] * op->splits.row_bytes,
                               plans[source]->splits[cell]);
        }
    }
    return status;
}

static acre_status exchange_steps(struct exchange_v *op, struct plan *room_far)
{
    struct work *work = &op->work;
    struct team *team = work->symm->team;
    unsigned which = STAGE_COUNT + (sync_step(work) & 1);
    struct plan *plans[RANKS_MAX];
    void *at[RANKS_MAX];
    size_t room = op->splits.out_rows * op->splits.row_bytes;
    acre_status status = ranks_at(work, op->offset, at);

    if (status != ACRE_OK)
        return status;
    char *out = room ? work_pointer(work, op->out, room) : op->out;
    for (int i = 0; i < team->count; i++)
        if (!team_is_far(team, i))
            plans[i] = (struct plan *)(void *)team_stage(team, i, which);
    plan_write(op, plans[team->rank]);
    status = sync_meet(work);
    if (status == ACRE_OK && room_far)
        status = plans_bring(work, which, room_far, plans);
    if (status != ACRE_OK)
        return status;
    int64_t rows = layout_out(op, plans);
    bool fits = (room == 0 || out) && rows >= 0 && (uint64_t)rows <= op->splits.out_rows;
    if (fits)
        status = pull_rows(op, plans, at, out);
    if (status == ACRE_OK)
        status = sync_meet(work);
    if (status == ACRE_OK && !fits)
        status = status_fail(ACRE_ERR_INVALID, "%s: %lld rows come, out has room for %zu",
                             work->call, (long long)rows, op->splits.out_rows);
    return status;
}

static acre_status exchange_body(struct work *work)
{
    const struct team *team = work->symm->team;
    struct plan *room = NULL;

    if (team->places && !(room = heap_array((size_t)team->count, sizeof *room)))
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = sync_begin(work);
    if (status == ACRE_OK) {
        status = exchange_steps((struct exchange_v *)work, room);
        sync_end(work);
    }
    heap_free(room);
    return status;
}

/* No row outside the input, whatever the numbers. */
static acre_status rows_check(const struct exchange_v *op)
{
    const acre_splits *s = &op->splits;
    int64_t rows = (int64_t)s->in_rows, sum = 0;

    for (size_t i = 0; i < cells_of(op); i++) {
        int64_t split = s->in_splits[i], begin = s->in_offsets ? s->in_offsets[i] : sum;
        if (split < 0 || begin < 0 || begin > rows || split > rows - begin)
            return status_fail(ACRE_ERR_INVALID,
                               "%s: split %zu is %lld rows from %lld on, of %zu "
                               "rows",
                               op->work.call, i, (long long)split, (long long)begin, s->in_rows);
        sum += split;
    }
    return ACRE_OK;
}

static acre_status splits_check(const struct exchange_v *op)
{
    const acre_splits *s = &op->splits;
    const char *call = op->work.call;

    if (!s->in_splits || !s->out_splits || !s->out_offsets || s->row_bytes == 0 ||
        (!op->out && s->out_rows))
        return status_fail(ACRE_ERR_INVALID, "%s: splits, out or row_bytes are missing", call);
    if (s->experts > CELLS_MAX || cells_of(op) > CELLS_MAX)
        return status_fail(ACRE_ERR_INVALID, "%s: %zu experts on %d rank%s are more than %u cells",
                           call, s->experts, op->work.symm->team->count,
                           text_plural((uint64_t)op->work.symm->team->count), CELLS_MAX);
    if (s->experts && !s->in_offsets && s->align < 1)
        return status_fail(ACRE_ERR_INVALID, "%s: align %lld is not positive", call,
                           (long long)s->align);
    if (s->in_rows > INT64_MAX || s->out_rows > SIZE_MAX / s->row_bytes)
        return status_fail(ACRE_ERR_INVALID, "%s: too many rows", call);
    acre_status status = work_range_check(&op->work, op->offset, s->in_rows, s->row_bytes);
    return status == ACRE_OK ? rows_check(op) : status;
}

ACRE_API acre_status acre_symm_all_to_all_v(acre_symm *symm, size_t offset,
                                            const acre_splits *splits, void *out,
                                            const acre_collective_options *options)
{
    struct exchange_v op = {.offset = offset, .out = out};
    struct place place;
    acre_status status = options_take("acre_symm_all_to_all_v", symm, options, 1, &op.work, &place);

    if (status == ACRE_OK)
        status = STRUCT_TAKE("acre_symm_all_to_all_v", acre_splits, splits, &op.splits);
    if (status == ACRE_OK)
        status = splits_check(&op);
    if (status != ACRE_OK)
        return status;
    op.work.body = exchange_body;
    return work_run(&op.work, sizeof op, &place);
}
