/* SPDX-License-Identifier: MIT */
/* Reductions of which each rank gets a part: reduce-scatter and tiles.
 *
 * Reduce-scatter pulls: meeting, rank r sums its columns of everybody's rows, meeting. From
 * ordinary memory it pushes: meeting, everybody stores slice r into slot "own rank" of rank
 * r's buffer, meeting, everybody sums the slots of its own buffer, meeting.
 */
#include "symm/far/reach.h"

#include "base/status.h"
#include "base/text.h"

#include <string.h>

#define RANKS_MAX    1024
#define ROWS_AT_ONCE 64 /* pieces for a far rank in one go */

struct scatter {
    struct work work;
    acre_dtype dtype;
    acre_reduce reduce;
    size_t offset, rows, columns, bytes; /* bytes: of the whole input */
    const void *in;                      /* NULL: the buffer          */
    void *out;
};

static void sum_row(const struct scatter *op, void *const *from, size_t at, void *to, size_t count)
{
    void *sources[RANKS_MAX];
    int ranks = op->work.symm->team->count;

    for (int i = 0; i < ranks; i++)
        sources[i] = (char *)from[i] + at;
    reduce_run(&(struct reduction){.dtype = op->dtype,
                                   .to = &to,
                                   .to_count = 1,
                                   .from = (const void *const *)sources,
                                   .from_count = ranks,
                                   .count = count});
}

/* Rows of count elements, pitch bytes apart, from offset on in every rank's buffer; their sum
 * goes to out. */
struct row_sum {
    size_t offset, rows, pitch, count;
    char *out;
    size_t out_pitch;
};

/* Sums rows where some ranks are far: as many at a time as there is room for, or a part of a
 * long one. */
static acre_status sum_rows_far(struct scatter *op, void *const *at, const struct row_sum *sum)
{
    struct work *work = &op->work;
    size_t rows = sum->rows, pitch = sum->pitch, width = sum->count * dtype_bytes(op->dtype);
    size_t element = dtype_bytes(op->dtype), part = width < REACH_CHUNK ? width : REACH_CHUNK;
    size_t group = REACH_CHUNK / part < ROWS_AT_ONCE ? REACH_CHUNK / part : ROWS_AT_ONCE;
    void *brought[RANKS_MAX], *from[RANKS_MAX];
    struct pulled pulled;
    acre_status status = pulled_init(work, group, REACH_CHUNK, &pulled);

    for (size_t row = 0; row < rows && status == ACRE_OK; row += group) {
        size_t some = rows - row < group ? rows - row : group;
        for (size_t begin = 0; begin < width && status == ACRE_OK; begin += part) {
            size_t bytes = width - begin < part ? width - begin : part;
            status = pulled_bring(
                work, &pulled,
                &(struct pulled_rows){sum->offset + row * pitch + begin, pitch, bytes, some},
                brought);
            for (size_t k = 0; k < some && status == ACRE_OK; k++) {
                for (int i = 0; i < work->symm->team->count; i++)
                    from[i] = at[i] ? (char *)at[i] + (row + k) * pitch + begin
                                    : (char *)brought[i] + k * bytes;
                sum_row(op, from, 0, sum->out + (row + k) * sum->out_pitch + begin,
                        bytes / element);
            }
        }
    }
    pulled_fini(&pulled);
    return status;
}

static acre_status sum_rows(struct scatter *op, const struct row_sum *sum)
{
    struct work *work = &op->work;
    void *at[RANKS_MAX], *from[RANKS_MAX];
    acre_status status = ranks_at(work, sum->offset, at);

    if (status == ACRE_OK && work->symm->team->places)
        return sum_rows_far(op, at, sum);
    for (size_t row = 0; row < sum->rows && status == ACRE_OK; row++) {
        for (int i = 0; i < work->symm->team->count; i++)
            from[i] = (char *)at[i] + row * sum->pitch;
        sum_row(op, from, 0, sum->out + row * sum->out_pitch, sum->count);
    }
    return status;
}

static acre_status scatter_pull(struct scatter *op, char *out)
{
    const struct team *team = op->work.symm->team;
    size_t element = dtype_bytes(op->dtype), width = op->columns / (size_t)team->count;
    acre_status status = sync_meet(&op->work);

    if (status == ACRE_OK)
        status = sum_rows(op, &(struct row_sum){op->offset + (size_t)team->rank * width * element,
                                                op->rows, op->columns * element, width, out,
                                                width * element});
    return status == ACRE_OK ? sync_meet(&op->work) : status;
}

/* Puts the slice of a far rank into its buffer. */
static acre_status push_far(struct scatter *op, int rank, const char *in, size_t pitch,
                            size_t width)
{
    far_op ops[ROWS_AT_ONCE];
    size_t slot = op->offset + (size_t)op->work.symm->team->rank * op->rows * width;
    acre_status status = ACRE_OK;

    for (size_t row = 0; row < op->rows && status == ACRE_OK;) {
        size_t count = 0;
        for (; count < ROWS_AT_ONCE && row < op->rows; count++, row++)
            ops[count] = reach_piece(&op->work, WIRE_PUT, rank, slot + row * width,
                                     in + row * pitch + (size_t)rank * width, width);
        status = reach_together(&op->work, ops, count);
    }
    return status;
}

static acre_status scatter_push(struct scatter *op, void *const *at, const char *in, char *out)
{
    const struct team *team = op->work.symm->team;
    size_t width = op->columns / (size_t)team->count * dtype_bytes(op->dtype);
    size_t pitch = op->columns * dtype_bytes(op->dtype), slot = op->rows * width;
    void *slots[RANKS_MAX];
    acre_status status = sync_meet(&op->work);

    for (int i = 0; i < team->count && status == ACRE_OK; i++) {
        int rank = (team->rank + i) % team->count;
        if (team_is_far(team, rank))
            status = push_far(op, rank, in, pitch, width);
        for (size_t row = 0; row < op->rows && at[rank]; row++)
            memcpy((char *)at[rank] + (size_t)team->rank * slot + row * width,
                   in + row * pitch + (size_t)rank * width, width);
        slots[i] = (char *)at[team->rank] + (size_t)i * slot;
    }
    if (status == ACRE_OK)
        status = sync_meet(&op->work);
    if (status != ACRE_OK)
        return status;
    sum_row(op, slots, 0, out, slot / dtype_bytes(op->dtype));
    return sync_meet(&op->work);
}

static acre_status scatter_body(struct work *work)
{
    struct scatter *op = (struct scatter *)work;
    size_t ranks = (size_t)work->symm->team->count;
    void *at[RANKS_MAX], *out = NULL;
    const void *in = NULL;
    acre_status status = sync_begin(work);

    if (status != ACRE_OK)
        return status;
    status = ranks_at(work, op->offset, at);
    if (status == ACRE_OK && (!(out = work_pointer(work, op->out, op->bytes / ranks)) ||
                              (op->in && !(in = work_pointer(work, op->in, op->bytes)))))
        status = ACRE_ERR_INVALID;
    if (status == ACRE_OK)
        status = in ? scatter_push(op, at, in, out) : scatter_pull(op, out);
    if (status == ACRE_OK && op->reduce == ACRE_REDUCE_AVG)
        reduce_scale(op->dtype, out, op->rows * op->columns / ranks, 1.0f / (float)ranks);
    sync_end(work);
    return status;
}

static acre_status scatter_check(struct scatter *op)
{
    const struct work *work = &op->work;
    size_t ranks = (size_t)work->symm->team->count, element = dtype_bytes(op->dtype);

    if (op->columns && op->rows > SIZE_MAX / op->columns)
        return status_fail(ACRE_ERR_INVALID, "%s: rows x columns overflows", work->call);
    acre_status status =
        elements_check(work, op->offset, op->rows * op->columns, op->dtype, &op->bytes);
    if (status != ACRE_OK)
        return status;
    if (op->columns % ranks != 0 || op->columns / ranks * element % 4 != 0)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: %zu columns of %zu bytes do not give each of "
                           "%zu ranks whole words of 4 bytes",
                           work->call, op->columns, element, ranks);
    if (op->bytes && (!op->out || (uintptr_t)op->out % 4 != 0))
        return status_fail(ACRE_ERR_INVALID, "%s: out is NULL or not aligned to 4 bytes",
                           work->call);
    if (op->reduce == ACRE_REDUCE_AVG && op->dtype > ACRE_DTYPE_BF16)
        return status_fail(ACRE_ERR_INVALID, "%s: averages are for floats", work->call);
    return ACRE_OK;
}

ACRE_API acre_status acre_symm_reduce_scatter(acre_symm *symm, size_t offset, const void *in,
                                              size_t rows, size_t columns, acre_dtype dtype,
                                              void *out, const acre_collective_options *options)
{
    struct scatter op = {
        .dtype = dtype, .offset = offset, .rows = rows, .columns = columns, .in = in, .out = out};
    struct place place;
    acre_status status =
        options_take("acre_symm_reduce_scatter", symm, options, 3, &op.work, &place);

    op.reduce = options ? options->reduce : ACRE_REDUCE_SUM;
    if (status == ACRE_OK)
        status = scatter_check(&op);
    if (status != ACRE_OK || op.bytes == 0)
        return status;
    op.work.body = scatter_body;
    return work_run(&op.work, sizeof op, &place);
}

/* ---- Tiles ------------------------------------------------------------------------ */

struct tiles {
    struct work work;
    acre_dtype dtype;
    acre_tile tile; /* the one that comes to this rank          */
    bool is_root;   /* whether one does                         */
    void *out;
};

static acre_status tile_check(const struct work *work, const acre_tile *tile, acre_dtype dtype)
{
    size_t element = dtype_bytes(dtype);

    if (element == 0 || dtype > ACRE_DTYPE_BF16)
        return status_fail(ACRE_ERR_INVALID, "%s: tiles are of floats", work->call);
    if (tile->rows == 0 || tile->columns == 0)
        return ACRE_OK;
    if (tile->stride < tile->columns || (tile->rows - 1) > SIZE_MAX / element / tile->stride - 1)
        return status_fail(ACRE_ERR_INVALID, "%s: a stride of %zu for %zu column%s makes no tile",
                           work->call, tile->stride, tile->columns, text_plural(tile->columns));
    if ((work->symm->offset + tile->offset) % element != 0)
        return status_fail(ACRE_ERR_INVALID, "%s: offset %zu is not a multiple of %zu", work->call,
                           tile->offset, element);
    return work_range_check(work, tile->offset, (tile->rows - 1) * tile->stride + tile->columns,
                            element);
}

static acre_status tiles_steps(struct tiles *op)
{
    struct work *work = &op->work;
    size_t element = dtype_bytes(op->dtype), pitch = op->tile.stride * element;
    size_t bytes = op->tile.rows ? (op->tile.rows - 1) * pitch + op->tile.columns * element : 0;
    struct scatter row = {.work = *work, .dtype = op->dtype};
    char *out = NULL;
    acre_status status = ACRE_OK;

    if (op->is_root && !(out = work_pointer(work, op->out, bytes)))
        status = ACRE_ERR_INVALID;
    if (status == ACRE_OK)
        status = sync_meet(work);
    if (status == ACRE_OK && op->is_root && bytes)
        status = sum_rows(&row, &(struct row_sum){op->tile.offset, op->tile.rows, pitch,
                                                  op->tile.columns, out, pitch});
    return status == ACRE_OK ? sync_meet(work) : status;
}

static acre_status tiles_body(struct work *work)
{
    acre_status status = sync_begin(work);

    if (status != ACRE_OK)
        return status;
    status = tiles_steps((struct tiles *)work);
    sync_end(work);
    return status;
}

/* Every rank looks at all roots, so that all refuse what one would. */
static acre_status roots_check(const struct work *work, const int *roots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        acre_status status = rank_check(work->symm->team, work->call, roots[i]);
        if (status != ACRE_OK)
            return status;
        for (size_t k = 0; k < i; k++)
            if (roots[i] == roots[k])
                return status_fail(ACRE_ERR_INVALID, "%s: rank %d is the root of two tiles",
                                   work->call, roots[i]);
    }
    return ACRE_OK;
}

ACRE_API acre_status acre_symm_tile_reduce_multi(acre_symm *symm, const acre_tile *tiles,
                                                 const int *roots, size_t tile_count,
                                                 size_t root_count, acre_dtype dtype, void *out,
                                                 const acre_collective_options *options)
{
    struct tiles op = {.dtype = dtype, .out = out};
    struct place place;
    acre_status status = options_take("acre_symm_tile_reduce", symm, options, 1, &op.work, &place);

    if (status == ACRE_OK && (!tiles || !roots || tile_count != root_count))
        status =
            status_fail(ACRE_ERR_INVALID, "acre_symm_tile_reduce: %zu tile%s for %zu root%s",
                        tile_count, text_plural(tile_count), root_count, text_plural(root_count));
    if (status == ACRE_OK)
        status = roots_check(&op.work, roots, root_count);
    for (size_t i = 0; i < tile_count && status == ACRE_OK; i++) {
        status = tile_check(&op.work, &tiles[i], dtype);
        if (roots[i] == symm->team->rank) {
            op.is_root = true;
            op.tile = tiles[i];
        }
    }
    if (status == ACRE_OK && op.is_root && !out)
        status = status_fail(ACRE_ERR_INVALID, "acre_symm_tile_reduce: out of a root is NULL");
    if (status != ACRE_OK)
        return status;
    op.work.body = tiles_body;
    return work_run(&op.work, sizeof op, &place);
}

ACRE_API acre_status acre_symm_tile_reduce(acre_symm *symm, const acre_tile *tile, acre_dtype dtype,
                                           int root, void *out,
                                           const acre_collective_options *options)
{
    return acre_symm_tile_reduce_multi(symm, tile, &root, 1, 1, dtype, out, options);
}
