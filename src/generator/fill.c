/* SPDX-License-Identifier: MIT */
/* Fills: checks, then one kernel on the stream, or the same loop on the host.
 *
 * The state's lock is held while the kernel is queued, so that a refused
 * launch draws nothing and launches of one generator are in offset order. A
 * kernel carries all it needs: (seed, offset) of Philox, the whole engine of
 * mt19937, which then skips the draws it gave away.
 */
#include "backend/backend.h"
#include "base/check.h"
#include "base/status.h"
#include "generator/capture.h"
#include "generator/numbers.h"

#include <float.h>
#include <math.h>

struct philox_args {
    struct numbers numbers;
    const struct capture_base *base; /* added to seed and offset, or NULL */
    uint64_t seed;
    uint64_t offset;
    uint64_t count;
    void *dst; /* device address */
};

struct mt_args {
    struct numbers numbers;
    uint64_t count;
    void *dst; /* device address */
    struct mt19937 engine;
};

/* A range that is gone when the kernel runs stays untouched; the device
 * itself reports that. */
static void philox_kernel(acre_kernel_context *context, void *args)
{
    struct philox_args *a = args;
    size_t bytes = a->count * numbers_element_bytes(a->numbers.type);
    void *dst = context->pointer(context, a->dst, bytes);
    uint64_t seed = a->base ? a->base->seed : a->seed;
    uint64_t offset = a->base ? a->base->offset + a->offset : a->offset;

    if (dst)
        numbers_philox(&a->numbers, seed, offset, a->count, dst);
}

static void mt_kernel(acre_kernel_context *context, void *args)
{
    struct mt_args *a = args;
    size_t bytes = a->count * numbers_element_bytes(a->numbers.type);
    void *dst = context->pointer(context, a->dst, bytes);

    if (dst)
        numbers_mt(&a->numbers, &a->engine, a->count, dst);
}

/* ---- Checks -------------------------------------------------------------------- */

static acre_status check_shape(const acre_fill *fill)
{
    size_t element;

    if (fill->type != ACRE_REAL_F32 && fill->type != ACRE_REAL_F64)
        return status_fail(ACRE_ERR_INVALID,
                           "generator fill: type %d is neither ACRE_REAL_F32 nor F64",
                           (int)fill->type);
    element = numbers_element_bytes(fill->type);
    if (!fill->dst || (uintptr_t)fill->dst % element != 0)
        return status_fail(ACRE_ERR_INVALID,
                           "generator fill: dst %p must be an address aligned to %zu bytes",
                           fill->dst, element);
    if (fill->count > SIZE_MAX / element ||
        fill->count * element > UINTPTR_MAX - (uintptr_t)fill->dst)
        return status_fail(ACRE_ERR_INVALID,
                           "generator fill: %zu elements do not fit the address space",
                           fill->count);
    return ACRE_OK;
}

static acre_status check_range(const struct numbers *numbers)
{
    double largest = numbers->type == ACRE_REAL_F32 ? (double)FLT_MAX : DBL_MAX;
    double first = numbers->first, second = numbers->second;
    bool is_number = fabs(first) <= largest && fabs(second) <= largest;

    if (numbers->is_normal && !(is_number && second >= 0))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_generator_normal: mean %g and deviation %g must be finite, "
                           "the deviation not negative",
                           first, second);
    if (!numbers->is_normal && !(is_number && first <= second && second - first <= DBL_MAX))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_generator_uniform: [%g, %g) must be finite and ordered", first,
                           second);
    return ACRE_OK;
}

/* Every byte of the range is device memory; it may span several mappings. */
static acre_status check_memory(const acre_fill *fill)
{
    acre_device *device = fill->device;
    uintptr_t at = (uintptr_t)fill->dst;
    uintptr_t end = at + fill->count * numbers_element_bytes(fill->type);

    while (device_has(device, ACRE_CAP_POINTERS) && at < end) {
        acre_pointer_info info = {.struct_size = sizeof info};
        acre_status status = device->ops->pointer_info(device->self, (void *)at, &info);

        if (status != ACRE_OK)
            return status;
        if (info.kind != ACRE_MEMORY_DEVICE || info.bytes == 0)
            return status_fail(ACRE_ERR_INVALID,
                               "generator fill: %p, %zu bytes into the range, is not device "
                               "memory",
                               (void *)at, (size_t)(at - (uintptr_t)fill->dst));
        at = (uintptr_t)info.base + info.bytes;
    }
    return ACRE_OK;
}

/* ---- Philox ------------------------------------------------------------------------ */

static acre_status fill_launch(const acre_fill *fill, acre_kernel_fn fn, const void *args,
                               size_t bytes)
{
    acre_device *device = fill->device;

    return device->ops->launch_kernel(device->self, device->index, fill->stream, fn, args, bytes);
}

/* Part of a capture: the offset counts inside it. */
static acre_status launch_captured_locked(struct generator_state *state, const acre_fill *fill,
                                          struct philox_args *args, uint64_t id)
{
    acre_generator_capture *capture = state->capture;
    uint64_t after;
    acre_status status;

    if (!capture || capture->id != id)
        return status_fail(ACRE_ERR_STATE,
                           "generator fill: the stream is in capture %llu and the generator is "
                           "no part of it; call acre_generator_capture_begin",
                           (unsigned long long)id);
    args->base = &capture->base;
    args->offset = capture->words;
    status =
        generator_offset_after(capture->words, numbers_words(&args->numbers, args->count), &after);
    if (status == ACRE_OK)
        status = fill_launch(fill, philox_kernel, args, sizeof *args);
    if (status == ACRE_OK)
        capture->words = after;
    return status;
}

static acre_status launch_philox_locked(struct generator_state *state, const acre_fill *fill,
                                        struct philox_args *args, uint64_t id)
{
    uint64_t after;
    acre_status status;

    if (id != 0)
        return launch_captured_locked(state, fill, args, id);
    args->seed = state->seed;
    args->offset = state->offset;
    status =
        generator_offset_after(state->offset, numbers_words(&args->numbers, args->count), &after);
    if (status == ACRE_OK)
        status = fill_launch(fill, philox_kernel, args, sizeof *args);
    if (status == ACRE_OK)
        state->offset = after;
    return status;
}

static acre_status fill_philox(struct generator_state *state, const acre_fill *fill,
                               const struct numbers *numbers, uint64_t id)
{
    struct philox_args args = {.numbers = *numbers, .count = fill->count, .dst = fill->dst};
    acre_status status;

    lock_take(&state->lock);
    status = launch_philox_locked(state, fill, &args, id);
    lock_drop(&state->lock);
    return status;
}

static acre_status host_philox(struct generator_state *state, const acre_fill *fill,
                               const struct numbers *numbers)
{
    uint64_t seed, offset;
    acre_status status;

    lock_take(&state->lock);
    seed = state->seed;
    offset = state->offset;
    status = generator_offset_after(offset, numbers_words(numbers, fill->count), &state->offset);
    lock_drop(&state->lock);
    if (status == ACRE_OK)
        numbers_philox(numbers, seed, offset, fill->count, fill->dst);
    return status;
}

/* ---- mt19937 ------------------------------------------------------------------------ */

static acre_status fill_mt(struct generator_state *state, const acre_fill *fill,
                           const struct numbers *numbers, uint64_t id)
{
    struct mt_args args = {.numbers = *numbers, .count = fill->count, .dst = fill->dst};
    acre_status status;

    if (id != 0)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "generator fill: an mt19937 fill cannot be captured; use Philox");
    lock_take(&state->lock);
    args.engine = state->mt;
    status = fill_launch(fill, mt_kernel, &args, sizeof args);
    if (status == ACRE_OK)
        numbers_mt(numbers, &state->mt, fill->count, NULL);
    lock_drop(&state->lock);
    return status;
}

static acre_status host_mt(struct generator_state *state, const acre_fill *fill,
                           const struct numbers *numbers)
{
    lock_take(&state->lock);
    numbers_mt(numbers, &state->mt, fill->count, fill->dst);
    lock_drop(&state->lock);
    return ACRE_OK;
}

/* ---- Both ---------------------------------------------------------------------------- */

static acre_status fill_host(struct generator_state *state, const acre_fill *fill,
                             const struct numbers *numbers)
{
    return state->kind == ACRE_GENERATOR_MT19937 ? host_mt(state, fill, numbers)
                                                 : host_philox(state, fill, numbers);
}

static acre_status fill_device(struct generator_state *state, const acre_fill *fill,
                               const struct numbers *numbers)
{
    uint64_t id;
    acre_status status = check_memory(fill);

    if (status == ACRE_OK)
        status = capture_id_of(fill->device, fill->stream, &id);
    if (status != ACRE_OK)
        return status;
    return state->kind == ACRE_GENERATOR_MT19937 ? fill_mt(state, fill, numbers, id)
                                                 : fill_philox(state, fill, numbers, id);
}

static acre_status fill_any(acre_generator *generator, const acre_fill *fill,
                            struct numbers *numbers)
{
    acre_status status;

    if (!generator || !fill)
        return status_fail(ACRE_ERR_INVALID, "generator fill: an argument is NULL");
    numbers->type = fill->type;
    status = check_shape(fill);
    if (status == ACRE_OK)
        status = check_range(numbers);
    if (status != ACRE_OK || fill->count == 0)
        return status;
    if (!fill->device)
        return fill_host(generator->state, fill, numbers);
    if (device_has(fill->device, ACRE_CAP_KERNELS))
        return fill_device(generator->state, fill, numbers);
    if (fill->device->type == ACRE_DEVICE_CPU)
        return fill_host(generator->state, fill, numbers);
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "generator fill: device %s runs no kernels; fill host memory (device "
                       "NULL) and copy",
                       fill->device->info.name);
}

acre_status acre_generator_uniform(acre_generator *generator, const acre_fill *fill, double low,
                                   double high)
{
    struct numbers numbers = {.first = low, .second = high};

    return fill_any(generator, fill, &numbers);
}

acre_status acre_generator_normal(acre_generator *generator, const acre_fill *fill, double mean,
                                  double deviation)
{
    struct numbers numbers = {.is_normal = true, .first = mean, .second = deviation};

    return fill_any(generator, fill, &numbers);
}
