/* SPDX-License-Identifier: MIT */
/* Reductions over all ranks.
 *
 *   staged    copy into the own stage, everybody sums all stages as their lines come
 *             (stage.h); no meeting at all
 *   one shot  meeting, everybody sums all buffers into out, meeting
 *   two shot  meeting, rank r sums part r and stores it everywhere, meeting; into out: stores
 *             it in its own buffer, meeting, everybody collects the parts, meeting
 *   multicast two shot with the arithmetic of the hardware: 16-bit floats are summed in 32
 *
 * Where some ranks are on other hosts, what they have is brought here in chunks, and what they
 * are to have is sent; nothing is staged.
 */
#include "symm/far/reach.h"

#include "base/status.h"
#include "symm/collective/stage.h"

#include <string.h>

#define RANKS_MAX      1024
#define STAGED_RANKS   8            /* more would need much room on the stack            */
#define ONE_SHOT_BYTES (256u << 10) /* above, every rank reading everything costs more */

struct all_reduce {
    struct work work;
    acre_algorithm algorithm;
    acre_dtype dtype;
    size_t offset, count, bytes;
    const void *in; /* copied into the own buffer first; NULL: it is there */
    void *out;      /* NULL: in place                                      */
};

/* Elements [begin, end) of an array. */
struct elements {
    size_t begin, end;
};

/* One array summed from all ranks' into one or more. Far ranks have no array among from,
 * unless brought says where theirs from begin on is, and none among to. */
static void sum_near(const struct all_reduce *op, void *const *from, void *const *brought,
                     void *const *to, int to_count, struct elements part)
{
    int from_count = op->work.symm->team->count;
    size_t element = dtype_bytes(op->dtype), at = part.begin * element;
    void *sources[RANKS_MAX], *targets[RANKS_MAX];
    int near_count = 0;

    for (int i = 0; i < from_count; i++)
        sources[i] = from[i] ? (char *)from[i] + at : brought[i];
    for (int i = 0; i < to_count; i++)
        if (to[i])
            targets[near_count++] = (char *)to[i] + at;
    reduce_run(&(struct reduction){.dtype = op->dtype,
                                   .is_wide = op->algorithm == ACRE_ALGORITHM_MULTICAST,
                                   .to = targets,
                                   .to_count = near_count,
                                   .from = (const void *const *)sources,
                                   .from_count = from_count,
                                   .count = part.end - part.begin});
}

/* Sends a part of the own array to all ranks on other hosts. */
static acre_status spread_far(struct all_reduce *op, struct pulled *pulled, const void *own,
                              size_t at, size_t bytes)
{
    const struct team *team = op->work.symm->team;
    size_t count = 0;

    for (int i = 0; i < team->count; i++)
        if (team_is_far(team, i))
            pulled->ops[count++] =
                reach_piece(&op->work, WIRE_PUT, i, op->offset + at, (const char *)own + at, bytes);
    return reach_together(&op->work, pulled->ops, count);
}

/* Sums chunk by chunk where some ranks are far. */
static acre_status sum_far(struct all_reduce *op, void *const *from, void *const *to, int to_count,
                           size_t begin, size_t end)
{
    struct team *team = op->work.symm->team;
    size_t element = dtype_bytes(op->dtype), chunk = REACH_CHUNK / element;
    void *brought[RANKS_MAX] = {NULL};
    struct pulled pulled;
    acre_status status = pulled_init(&op->work, 1, REACH_CHUNK, &pulled);

    for (; begin < end && status == ACRE_OK; begin += chunk) {
        size_t next = end - begin < chunk ? end : begin + chunk;
        size_t at = begin * element, bytes = (next - begin) * element;
        status = pulled_bring(&op->work, &pulled,
                              &(struct pulled_rows){op->offset + at, 0, bytes, 1}, brought);
        if (status == ACRE_OK)
            sum_near(op, from, brought, to, to_count, (struct elements){begin, next});
        if (status == ACRE_OK && to_count == team->count && to_count > 1)
            status = spread_far(op, &pulled, to[team->rank], at, bytes);
    }
    pulled_fini(&pulled);
    return status;
}

static acre_status collective_sum(struct all_reduce *op, void *const *from, void *const *to,
                                  int to_count, size_t begin, size_t end)
{
    if (begin >= end)
        return ACRE_OK;
    if (op->work.symm->team->places)
        return sum_far(op, from, to, to_count, begin, end);
    sum_near(op, from, NULL, to, to_count, (struct elements){begin, end});
    return ACRE_OK;
}

static acre_status run_staged(struct all_reduce *op, void *const *at, void *out)
{
    struct team *team = op->work.symm->team;
    uint32_t step = sync_skip(&op->work);
    _Alignas(64) char copies[STAGED_RANKS][STAGE_DATA];
    void *from[STAGED_RANKS], *own = at[team->rank];
    acre_status status = ACRE_OK;

    stage_write(&op->work, step, own, op->bytes);
    for (int i = 1; i < team->count && status == ACRE_OK; i++) {
        int rank = (team->rank + i) % team->count;
        from[rank] = copies[rank];
        status = stage_read(&op->work, rank, step, copies[rank], op->bytes);
    }
    if (status != ACRE_OK) {
        atomic_store_explicit(&team->is_broken, true, memory_order_relaxed);
        return status;
    }
    from[team->rank] = own;
    if (!out)
        out = own;
    return collective_sum(op, from, &out, 1, 0, op->count);
}

static acre_status run_one_shot(struct all_reduce *op, void *const *at, void *out)
{
    acre_status status = sync_meet(&op->work);

    if (status != ACRE_OK)
        return status;
    status = collective_sum(op, at, &out, 1, 0, op->count);
    return status == ACRE_OK ? sync_meet(&op->work) : status;
}

/* Elements of each part: whole cache lines, so that no line has two writers. */
static size_t part_of(const struct all_reduce *op)
{
    size_t count = (size_t)op->work.symm->team->count, lane = 64 / dtype_bytes(op->dtype);

    return ((op->count + count - 1) / count + lane - 1) / lane * lane;
}

static size_t collective_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static acre_status run_two_shot(struct all_reduce *op, void *const *at)
{
    const struct team *team = op->work.symm->team;
    size_t part = part_of(op), begin = collective_smaller((size_t)team->rank * part, op->count);
    acre_status status = sync_meet(&op->work);

    if (status != ACRE_OK)
        return status;
    status =
        collective_sum(op, at, at, team->count, begin, collective_smaller(begin + part, op->count));
    return status == ACRE_OK ? sync_meet(&op->work) : status;
}

static acre_status run_two_shot_out(struct all_reduce *op, void *const *at, char *out)
{
    const struct team *team = op->work.symm->team;
    size_t part = part_of(op), element = dtype_bytes(op->dtype);
    size_t begin = collective_smaller((size_t)team->rank * part, op->count);
    acre_status status = sync_meet(&op->work);

    if (status != ACRE_OK)
        return status;
    status = collective_sum(op, at, &at[team->rank], 1, begin,
                            collective_smaller(begin + part, op->count));
    if (status == ACRE_OK)
        status = sync_meet(&op->work);
    for (int i = 0; i < team->count && status == ACRE_OK; i++) {
        int rank = (team->rank + i) % team->count;
        begin = collective_smaller((size_t)rank * part, op->count);
        size_t bytes = (collective_smaller(begin + part, op->count) - begin) * element;
        begin *= element;
        if (at[rank]) {
            memcpy(out + begin, (char *)at[rank] + begin, bytes);
        } else {
            far_op piece =
                reach_piece(&op->work, WIRE_GET, rank, op->offset + begin, out + begin, bytes);
            status = reach_together(&op->work, &piece, bytes != 0);
        }
    }
    return status == ACRE_OK ? sync_meet(&op->work) : status;
}

static acre_status all_reduce_steps(struct all_reduce *op)
{
    void *at[RANKS_MAX], *out = NULL;
    const void *in = NULL;
    acre_status status = ranks_at(&op->work, op->offset, at);

    if (status == ACRE_OK && op->out && !(out = work_pointer(&op->work, op->out, op->bytes)))
        status = ACRE_ERR_INVALID;
    if (status == ACRE_OK && op->in && !(in = work_pointer(&op->work, op->in, op->bytes)))
        status = ACRE_ERR_INVALID;
    if (status != ACRE_OK)
        return status;
    if (in)
        memcpy(at[op->work.symm->team->rank], in, op->bytes);
    if (op->algorithm == ACRE_ALGORITHM_STAGED)
        return run_staged(op, at, out);
    if (op->algorithm == ACRE_ALGORITHM_ONE_SHOT ||
        (op->algorithm == ACRE_ALGORITHM_MULTICAST && out))
        return run_one_shot(op, at, out);
    return out ? run_two_shot_out(op, at, out) : run_two_shot(op, at);
}

static acre_status all_reduce_body(struct work *work)
{
    acre_status status = sync_begin(work);

    if (status != ACRE_OK)
        return status;
    status = all_reduce_steps((struct all_reduce *)work);
    sync_end(work);
    return status;
}

static acre_algorithm collective_choose(const struct all_reduce *op)
{
    int count = op->work.symm->team->count;
    bool is_power = count == 2 || count == 4 || count == 8;

    if (op->bytes <= STAGE_DATA && count <= STAGED_RANKS && !op->work.symm->team->places)
        return ACRE_ALGORITHM_STAGED;
    if (!op->out)
        return ACRE_ALGORITHM_TWO_SHOT;
    return op->bytes <= ONE_SHOT_BYTES || !is_power || count == 2 ? ACRE_ALGORITHM_ONE_SHOT
                                                                  : ACRE_ALGORITHM_TWO_SHOT;
}

/* Whether the algorithm can do what is asked. */
static acre_status algorithm_check(const struct all_reduce *op)
{
    const struct team *team = op->work.symm->team;
    int count = team->count;
    const char *call = op->work.call;

    if ((unsigned)op->algorithm > ACRE_ALGORITHM_STAGED)
        return status_fail(ACRE_ERR_INVALID, "%s: algorithm %d is not known", call,
                           (int)op->algorithm);
    if (op->algorithm == ACRE_ALGORITHM_STAGED && (op->bytes > STAGE_DATA || count > STAGED_RANKS))
        return status_fail(ACRE_ERR_INVALID,
                           "%s: the staged form takes up to %u bytes of %d "
                           "ranks, not %zu of %d",
                           call, STAGE_DATA, STAGED_RANKS, op->bytes, count);
    if (op->algorithm == ACRE_ALGORITHM_STAGED && team->places)
        return status_fail(ACRE_ERR_UNSUPPORTED, "%s: the staged form is for ranks of one host",
                           call);
    if (op->algorithm == ACRE_ALGORITHM_ONE_SHOT && !op->out)
        return status_fail(ACRE_ERR_INVALID, "%s: the one-shot form needs out", call);
    if (op->algorithm == ACRE_ALGORITHM_TWO_SHOT && op->out && count != 2 && count != 4 &&
        count != 8)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: the two-shot form with out is for 2, 4 or 8 "
                           "ranks, not %d",
                           call, count);
    if (op->algorithm == ACRE_ALGORITHM_MULTICAST && !team->has_multicast)
        return status_fail(ACRE_ERR_UNSUPPORTED, "%s: not all ranks offer multicast", call);
    return ACRE_OK;
}

static acre_status all_reduce_run(struct all_reduce *op, const struct place *place)
{
    acre_status status = elements_check(&op->work, op->offset, op->count, op->dtype, &op->bytes);

    if (status == ACRE_OK)
        status = algorithm_check(op);
    if (status == ACRE_OK && op->out && (uintptr_t)op->out % 4 != 0)
        status = status_fail(ACRE_ERR_INVALID, "%s: out is not aligned to 4 bytes", op->work.call);
    if (status != ACRE_OK || op->count == 0)
        return status;
    if (op->algorithm == ACRE_ALGORITHM_AUTO)
        op->algorithm = collective_choose(op);
    op->work.body = all_reduce_body;
    return work_run(&op->work, sizeof *op, place);
}

ACRE_API acre_status acre_symm_all_reduce(acre_symm *symm, size_t offset, size_t count,
                                          acre_dtype dtype, void *out,
                                          const acre_collective_options *options)
{
    struct all_reduce op = {.dtype = dtype, .offset = offset, .count = count, .out = out};
    struct place place;
    acre_status status = options_take("acre_symm_all_reduce", symm, options, 1, &op.work, &place);

    op.algorithm = options ? options->algorithm : ACRE_ALGORITHM_AUTO;
    return status == ACRE_OK ? all_reduce_run(&op, &place) : status;
}

ACRE_API acre_status acre_symm_all_reduce_copy(acre_symm *symm, size_t offset, const void *in,
                                               size_t in_count, size_t count, acre_dtype dtype,
                                               void *out, const acre_collective_options *options)
{
    struct all_reduce op = {.dtype = dtype, .offset = offset, .count = count, .in = in, .out = out};
    struct place place;
    acre_status status =
        options_take("acre_symm_all_reduce_copy", symm, options, 1, &op.work, &place);

    if (status != ACRE_OK)
        return status;
    if (!in || !out || in_count < count)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_symm_all_reduce_copy: in or out is NULL, or in "
                           "has %zu elements instead of %zu",
                           in_count, count);
    op.algorithm = options && options->algorithm ? options->algorithm : ACRE_ALGORITHM_ONE_SHOT;
    return all_reduce_run(&op, &place);
}

/* ---- To one rank ------------------------------------------------------------------ */

struct reduce_to {
    struct all_reduce op;
    int root;
};

static acre_status reduce_body(struct work *work)
{
    struct reduce_to *to = (struct reduce_to *)work;
    void *at[RANKS_MAX], *out = NULL;
    bool is_root = work->symm->team->rank == to->root;
    acre_status status = sync_begin(work);

    if (status != ACRE_OK)
        return status;
    status = ranks_at(work, to->op.offset, at);
    if (status == ACRE_OK && is_root && !(out = work_pointer(work, to->op.out, to->op.bytes)))
        status = ACRE_ERR_INVALID;
    if (status == ACRE_OK)
        status = sync_meet(work);
    if (status == ACRE_OK && is_root)
        status = collective_sum(&to->op, at, &out, 1, 0, to->op.count);
    if (status == ACRE_OK)
        status = sync_meet(work);
    sync_end(work);
    return status;
}

ACRE_API acre_status acre_symm_reduce(acre_symm *symm, size_t offset, size_t count,
                                      acre_dtype dtype, int root, void *out,
                                      const acre_collective_options *options)
{
    struct reduce_to to = {.op = {.dtype = dtype,
                                  .offset = offset,
                                  .count = count,
                                  .out = out,
                                  .algorithm = ACRE_ALGORITHM_MULTICAST},
                           .root = root};
    struct work *work = &to.op.work;
    struct place place;
    acre_status status = options_take("acre_symm_reduce", symm, options, 1, work, &place);

    if (status == ACRE_OK)
        status = rank_check(symm->team, work->call, root);
    if (status == ACRE_OK)
        status = elements_check(work, offset, count, dtype, &to.op.bytes);
    if (status == ACRE_OK)
        status = algorithm_check(&to.op);
    if (status == ACRE_OK && symm->team->rank == root && (!out || (uintptr_t)out % 4 != 0))
        status = status_fail(ACRE_ERR_INVALID, "acre_symm_reduce: out of the root is NULL or not "
                                               "aligned to 4 bytes");
    if (status != ACRE_OK || count == 0)
        return status;
    work->body = reduce_body;
    return work_run(work, sizeof to, &place);
}

/* ---- What queued work came to ----------------------------------------------------- */

ACRE_API acre_status acre_symm_status(acre_symm *symm)
{
    if (!symm)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_status: symm is NULL");
    acre_status status = (acre_status)atomic_load_explicit(&symm->failed, memory_order_acquire);
    if (status == ACRE_OK)
        return ACRE_OK;
    status_fail(status, "%s", symm->failure);
    atomic_store_explicit(&symm->failed, ACRE_OK, memory_order_release);
    return status;
}
