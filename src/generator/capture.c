/* SPDX-License-Identifier: MIT */
#include "generator/capture.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

acre_status capture_id_of(acre_device *device, void *stream, uint64_t *out_id)
{
    acre_capture_info info = {.struct_size = sizeof info, .status = ACRE_CAPTURE_NONE};
    acre_status status;

    *out_id = 0;
    if (!device_has(device, ACRE_CAP_CAPTURE))
        return ACRE_OK;
    status = device->ops->capture_info(device->self, device->index, stream, &info);
    if (status != ACRE_OK || info.status == ACRE_CAPTURE_NONE)
        return status;
    if (info.status == ACRE_CAPTURE_INVALIDATED)
        return status_fail(ACRE_ERR_STATE,
                           "generator: the capture of this stream has failed; end it first");
    *out_id = info.id;
    return ACRE_OK;
}

/* Takes the generator for the capture, unless another one has it. */
static acre_status capture_attach(acre_generator_capture *capture, struct generator_state *state)
{
    acre_status status = ACRE_OK;

    lock_take(&state->lock);
    if (state->capture)
        status = status_fail(ACRE_ERR_STATE,
                             "acre_generator_capture_begin: capture %llu draws from this "
                             "generator already; end it, or clone the generator before",
                             (unsigned long long)state->capture->id);
    else
        state->capture = capture;
    lock_drop(&state->lock);
    return status;
}

static acre_status begin_on(acre_generator *generator, uint64_t id, acre_generator_capture **out)
{
    acre_generator_capture *capture = heap_zalloc(sizeof *capture);
    acre_status status;

    if (!capture)
        return ACRE_ERR_HOST_MEMORY;
    capture->id = id;
    status = capture_attach(capture, generator->state);
    if (status != ACRE_OK) {
        heap_free(capture);
        return status;
    }
    capture->state = generator_state_hold(generator->state);
    *out = capture;
    return ACRE_OK;
}

acre_status acre_generator_capture_begin(acre_generator *generator, acre_device *device,
                                         void *stream, acre_generator_capture **out)
{
    uint64_t id;
    acre_status status;

    if (!generator || !device || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_generator_capture_begin: an argument is NULL");
    if (generator->state->kind != ACRE_GENERATOR_PHILOX)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "acre_generator_capture_begin: mt19937 draws cannot be replayed; "
                           "use a Philox generator");
    if (!device_has(device, ACRE_CAP_CAPTURE | ACRE_CAP_KERNELS))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "acre_generator_capture_begin: device %s cannot capture kernels",
                           device->info.name);
    status = capture_id_of(device, stream, &id);
    if (status != ACRE_OK)
        return status;
    if (id == 0)
        return status_fail(ACRE_ERR_STATE,
                           "acre_generator_capture_begin: the stream is not in capture; call "
                           "acre_capture_begin first");
    return begin_on(generator, id, out);
}

/* Whether the capture was still drawing. */
static bool capture_detach(acre_generator_capture *capture, uint64_t *out_words)
{
    struct generator_state *state = capture->state;
    bool was;

    lock_take(&state->lock);
    was = state->capture == capture;
    if (was)
        state->capture = NULL;
    *out_words = capture->words;
    lock_drop(&state->lock);
    return was;
}

acre_status acre_generator_capture_end(acre_generator_capture *capture, uint64_t *out_words)
{
    uint64_t words;

    if (!capture)
        return status_fail(ACRE_ERR_INVALID, "acre_generator_capture_end: capture is NULL");
    if (!capture_detach(capture, &words))
        return status_fail(ACRE_ERR_STATE, "acre_generator_capture_end: the capture ended before");
    if (out_words)
        *out_words = words;
    return ACRE_OK;
}

struct settle_args {
    struct capture_base *base;
    struct capture_base value;
};

/* Runs on the stream just before the graph. */
static void capture_do_settle(acre_kernel_context *context, void *args)
{
    struct settle_args *settling = args;

    (void)context;
    *settling->base = settling->value;
}

static acre_status replay_locked(acre_generator_capture *capture, acre_device *device, void *stream)
{
    struct generator_state *state = capture->state;
    struct settle_args args = {&capture->base, {state->seed, state->offset}};
    uint64_t after;
    acre_status status;

    if (state->capture == capture)
        return status_fail(ACRE_ERR_STATE,
                           "acre_generator_capture_replay: the capture is still drawing; call "
                           "acre_generator_capture_end first");
    status = generator_offset_after(state->offset, capture->words, &after);
    if (status != ACRE_OK)
        return status;
    status = device->ops->launch_kernel(device->self, device->index, stream, capture_do_settle,
                                        &args, sizeof args);
    if (status == ACRE_OK)
        state->offset = after;
    return status;
}

acre_status acre_generator_capture_replay(acre_generator_capture *capture, acre_device *device,
                                          void *stream)
{
    acre_status status;

    if (!capture || !device)
        return status_fail(ACRE_ERR_INVALID, "acre_generator_capture_replay: an argument is NULL");
    lock_take(&capture->state->lock);
    status = replay_locked(capture, device, stream);
    lock_drop(&capture->state->lock);
    return status;
}

void acre_generator_capture_destroy(acre_generator_capture *capture)
{
    uint64_t words;

    if (!capture)
        return;
    capture_detach(capture, &words);
    generator_state_drop(capture->state);
    heap_free(capture);
}
