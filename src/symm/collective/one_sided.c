/* SPDX-License-Identifier: MIT */
/* Operations in which only one rank takes part: put, get, values and signals of 64 bits. */
#include "base/status.h"
#include "base/text.h"
#include "symm/deadline.h"
#include "symm/far/reach.h"
#include "symm/collective/word.h"

#include <endian.h>
#include <string.h>

struct one_sided_transfer {
    struct work work;
    int rank;
    size_t offset, bytes;
    const void *in; /* put          */
    void *out;      /* get          */
    bool has_signal;
    size_t index; /* of the word  */
    uint64_t value;
};

/* A word of a rank's pad. */
static _Atomic uint64_t *one_sided_word64(struct work *work, int rank, size_t index)
{
    char *block = work_block(work, rank);

    return block ? (_Atomic uint64_t *)(void *)(block + work->symm->team->layout.pad_offset +
                                                8 * index)
                 : NULL;
}

/* The half of a word that is waited on. */
static struct spot low_half(struct work *work, int rank, _Atomic uint64_t *word)
{
    _Atomic uint32_t *halves = (_Atomic uint32_t *)(void *)word;

    return (struct spot){&halves[BYTE_ORDER == LITTLE_ENDIAN ? 0 : 1],
                         team_control(work->symm->team, rank)};
}

/* The user's memory may be a part of a block. */
static void transfer_bytes(char *to, const char *from, size_t bytes)
{
    if (to + bytes <= from || from + bytes <= to)
        copy_bytes(to, from, bytes);
    else
        memmove(to, from, bytes);
}

/* With a rank on another host: the data is there before the word is sent. */
static acre_status transfer_far(struct one_sided_transfer *op)
{
    struct work *work = &op->work;
    const struct team *team = work->symm->team;
    far_op data = reach_piece(work, op->out ? WIRE_GET : WIRE_PUT, op->rank, op->offset,
                              op->out ? op->out : op->in, op->bytes);
    far_op word = {.kind = WIRE_PUT,
                   .rank = data.rank,
                   .here = &op->value,
                   .address =
                       team->places[op->rank].block + team->layout.pad_offset + 8 * op->index,
                   .bytes = sizeof op->value};
    acre_status status = ACRE_OK;

    if (op->bytes)
        status = reach_run(work, &data, 1, work_deadline(work));
    if (status == ACRE_OK && op->has_signal)
        status = reach_run(work, &word, 1, work_deadline(work));
    return status;
}

static acre_status transfer_body(struct work *work)
{
    struct one_sided_transfer *op = (struct one_sided_transfer *)work;

    if (team_is_far(work->symm->team, op->rank))
        return transfer_far(op);
    char *block = work_block(work, op->rank);
    void *user = work_pointer(work, op->out ? op->out : op->in, op->bytes);

    if (!block || (op->bytes && !user))
        return ACRE_ERR_INVALID;
    block += work->symm->offset + op->offset;
    if (op->bytes)
        transfer_bytes(op->out ? user : block, op->out ? block : user, op->bytes);
    if (op->has_signal) {
        _Atomic uint64_t *word = one_sided_word64(work, op->rank, op->index);
        atomic_store_explicit(word, op->value, memory_order_release);
        word_wake(low_half(work, op->rank, word));
    }
    return ACRE_OK;
}

static acre_status index_check(const struct work *work, size_t index)
{
    size_t words = work->symm->team->layout.pad_bytes / 8;

    if (index < words)
        return ACRE_OK;
    return status_fail(ACRE_ERR_RANGE, "%s: word %zu is outside the %zu words of the pad",
                       work->call, index, words);
}

/* On a device that runs no kernels: a copy of the driver does it. */
static acre_status transfer_copy(struct one_sided_transfer *op, const struct place *place)
{
    const struct team *team = op->work.symm->team;
    char *block = work_block(&op->work, op->rank);

    if (!block)
        return ACRE_ERR_UNSUPPORTED;
    block += op->work.symm->offset + op->offset;
    acre_status status =
        acre_copy_async(team->device, op->out ? op->out : block, op->out ? block : op->in,
                        op->bytes, ACRE_COPY_DEVICE_TO_DEVICE, place->stream);
    if (status == ACRE_OK && !place->is_async)
        status = acre_stream_native_synchronize(team->device, place->stream);
    return status;
}

static acre_status transfer_run(const char *call, acre_symm *symm, struct one_sided_transfer *op,
                                const acre_collective_options *options)
{
    struct place place;
    acre_status status = options_take(call, symm, options, 1, &op->work, &place);

    if (status == ACRE_OK)
        status = rank_check(symm->team, call, op->rank);
    if (status == ACRE_OK && !op->in && !op->out && op->bytes)
        status = status_fail(ACRE_ERR_INVALID, "%s: the pointer is NULL", call);
    if (status == ACRE_OK)
        status = work_range_check(&op->work, op->offset, op->bytes, 1);
    if (status == ACRE_OK && op->has_signal)
        status = index_check(&op->work, op->index);
    if (status != ACRE_OK)
        return status;
    if (!symm->team->has_kernels && !op->has_signal && op->bytes)
        return transfer_copy(op, &place);
    op->work.body = transfer_body;
    return work_run(&op->work, sizeof *op, &place);
}

ACRE_API acre_status acre_symm_put(acre_symm *symm, int rank, size_t offset, const void *in,
                                   size_t bytes, const acre_collective_options *options)
{
    struct one_sided_transfer op = {.rank = rank, .offset = offset, .bytes = bytes, .in = in};

    return transfer_run("acre_symm_put", symm, &op, options);
}

ACRE_API acre_status acre_symm_get(acre_symm *symm, int rank, size_t offset, void *out,
                                   size_t bytes, const acre_collective_options *options)
{
    struct one_sided_transfer op = {.rank = rank, .offset = offset, .bytes = bytes, .out = out};

    return transfer_run("acre_symm_get", symm, &op, options);
}

ACRE_API acre_status acre_symm_put_with_signal(acre_symm *symm, int rank, size_t offset,
                                               const void *in, size_t bytes, size_t index,
                                               uint64_t value,
                                               const acre_collective_options *options)
{
    struct one_sided_transfer op = {.rank = rank,
                                    .offset = offset,
                                    .bytes = bytes,
                                    .in = in,
                                    .has_signal = true,
                                    .index = index,
                                    .value = value};

    return transfer_run("acre_symm_put_with_signal", symm, &op, options);
}

/* ---- Waiting for a value ---------------------------------------------------------- */

struct awaiting {
    struct work work;
    int rank;
    size_t index;
    uint64_t value;
    acre_wait_condition condition;
};

static acre_status await_body(struct work *work)
{
    struct awaiting *op = (struct awaiting *)work;
    struct team *team = work->symm->team;
    _Atomic uint64_t *word = one_sided_word64(work, team->rank, op->index);

    if (!word)
        return ACRE_ERR_INVALID;
    struct spot spot = low_half(work, team->rank, word);
    for (;;) {
        uint64_t seen = atomic_load_explicit(word, memory_order_acquire);
        if (op->condition == ACRE_WAIT_EQ ? seen == op->value : seen >= op->value)
            return ACRE_OK;
        /* Slices, since a change of the other half alone wakes nobody. */
        acre_status status = word_await(work, spot, (uint32_t)seen, op->rank, 200 * NS_PER_MS);
        if (status == ACRE_ERR_TIMEOUT && deadline_left_ns(work_deadline(work)) > 0)
            status = ACRE_OK;
        if (status != ACRE_OK)
            return work_fail_wait(work, status, op->rank, "set the value");
    }
}

ACRE_API acre_status acre_symm_wait_for_signal(acre_symm *symm, int rank, size_t index,
                                               uint64_t value, acre_wait_condition condition,
                                               const acre_collective_options *options)
{
    struct awaiting op = {.rank = rank, .index = index, .value = value, .condition = condition};
    struct place place;
    acre_status status =
        options_take("acre_symm_wait_for_signal", symm, options, 1, &op.work, &place);

    if (status == ACRE_OK)
        status = rank_check(symm->team, op.work.call, rank);
    if (status == ACRE_OK)
        status = index_check(&op.work, index);
    if (status == ACRE_OK && condition != ACRE_WAIT_GEQ && condition != ACRE_WAIT_EQ)
        status = status_fail(ACRE_ERR_INVALID,
                             "acre_symm_wait_for_signal: condition %d is not "
                             "offered",
                             (int)condition);
    if (status != ACRE_OK)
        return status;
    op.work.body = await_body;
    return work_run(&op.work, sizeof op, &place);
}

/* ---- Words ------------------------------------------------------------------------ */

struct filling {
    struct work work;
    void *words; /* the first to be written */
    uint32_t value;
    size_t count;
};

static acre_status filling_body(struct work *work)
{
    struct filling *op = (struct filling *)work;
    _Atomic uint32_t *words = work_pointer(work, op->words, 4 * op->count);

    if (!words)
        return ACRE_ERR_INVALID;
    for (size_t i = 0; i < op->count; i++)
        atomic_store_explicit(&words[i], op->value, memory_order_release);
    return ACRE_OK;
}

/* On a device that runs no kernels: its streams write one word, or fill with one byte. */
static acre_status filling_queue(struct filling *op, const struct place *place)
{
    acre_device *device = op->work.symm->team->device;
    acre_status status = op->count == 1
                             ? acre_write_value32(device, place->stream, op->words, op->value)
                             : acre_fill_async(device, op->words, (int)(op->value & 0xff),
                                               4 * op->count, place->stream);

    if (status == ACRE_OK && !place->is_async)
        status = acre_stream_native_synchronize(device, place->stream);
    return status;
}

/* Words to fill, as a caller gives them. */
struct words {
    void *words;
    size_t length;
    int64_t index, value, count;
};

static acre_status filling_check(const char *call, const struct words *given)
{
    const void *words = given->words;
    size_t length = given->length;
    int64_t index = given->index, value = given->value, count = given->count;

    if (!words || (uintptr_t)words % 4 != 0)
        return status_fail(ACRE_ERR_INVALID, "%s: words are NULL or not aligned to 4 bytes", call);
    if (index < 0)
        return status_fail(ACRE_ERR_INVALID, "%s: index %lld is negative", call, (long long)index);
    if (value < 0 || value > (int64_t)UINT32_MAX)
        return status_fail(ACRE_ERR_INVALID, "%s: value %lld does not fit 32 bits", call,
                           (long long)value);
    if (count <= 0)
        return status_fail(ACRE_ERR_INVALID, "%s: count %lld is not positive", call,
                           (long long)count);
    if ((uint64_t)index >= length)
        return status_fail(ACRE_ERR_INVALID, "%s: index %lld is outside %zu word%s", call,
                           (long long)index, length, text_plural(length));
    if ((uint64_t)count > length - (uint64_t)index)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: a count of %lld from word %lld on exceeds %zu word%s", call,
                           (long long)count, (long long)index, length, text_plural(length));
    return ACRE_OK;
}

static acre_status filling_run(const char *call, acre_symm *symm, const struct words *given,
                               const acre_collective_options *options)
{
    struct filling op = {.value = (uint32_t)given->value, .count = (size_t)given->count};
    struct place place;
    acre_status status = options_take(call, symm, options, 1, &op.work, &place);

    if (status == ACRE_OK)
        status = filling_check(call, given);
    if (status != ACRE_OK)
        return status;
    op.words = (char *)given->words + 4 * given->index;
    op.work.body = filling_body;
    bool is_byte = op.value == (op.value & 0xff) * 0x01010101u;
    if (!symm->team->has_kernels && (op.count == 1 || is_byte))
        return filling_queue(&op, &place);
    return work_run(&op.work, sizeof op, &place);
}

ACRE_API acre_status acre_symm_write_value32(acre_symm *symm, void *words, size_t length,
                                             int64_t index, int64_t value,
                                             const acre_collective_options *options)
{
    return filling_run("acre_symm_write_value32", symm,
                       &(struct words){words, length, index, value, 1}, options);
}

ACRE_API acre_status acre_symm_memset32(acre_symm *symm, void *words, size_t length, int64_t index,
                                        int64_t value, int64_t count,
                                        const acre_collective_options *options)
{
    return filling_run("acre_symm_memset32", symm,
                       &(struct words){words, length, index, value, count}, options);
}
