/* SPDX-License-Identifier: MIT */
/* Running work directly, on a stream, or both. */
#include "symm/collective/work.h"

#include "base/heap.h"
#include "base/status.h"
#include "symm/deadline.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Result of work that a caller waits for. Caller and work each hold it: a caller
 * whose wait fails leaves, and the work that is still queued has a place to write to. */
struct outcome {
    atomic_int holders;
    acre_status status;
    char text[512];
};

static void outcome_drop(struct outcome *outcome)
{
    if (atomic_fetch_sub_explicit(&outcome->holders, 1, memory_order_acq_rel) == 1)
        heap_free(outcome);
}

int64_t work_deadline(struct work *work)
{
    if (work->deadline == 0)
        work->deadline = deadline_in_ms(work->timeout_ms);
    return work->deadline;
}

/* On a stream: the result goes to who waits, or stays with the handle. */
static void body_run_on_stream(struct work *work)
{
    struct outcome *outcome = work->outcome;
    acre_symm *symm = work->symm;
    acre_status status = work->body(work);
    int none = ACRE_OK;

    if (outcome) {
        outcome->status = status;
        if (status != ACRE_OK)
            snprintf(outcome->text, sizeof outcome->text, "%s", acre_last_error());
        outcome_drop(outcome);
    } else if (status != ACRE_OK &&
               atomic_load_explicit(&symm->failed, memory_order_acquire) == ACRE_OK) {
        snprintf(symm->failure, sizeof symm->failure, "%s", acre_last_error());
        atomic_compare_exchange_strong(&symm->failed, &none, (int)status);
    }
}

static void work_kernel(acre_kernel_context *context, void *args)
{
    struct work *work = args;

    work->context = context;
    body_run_on_stream(work);
}

/* Host memory in the order of somebody's stream: work is a copy to be freed. */
static void work_host(void *arg)
{
    body_run_on_stream(arg);
    heap_free(arg);
}

static acre_status work_launch(struct work *work, size_t bytes, const struct place *place)
{
    acre_device *own = work->symm->team->device;

    if (own && work->symm->team->has_kernels)
        return acre_launch_kernel(own, place->stream, work_kernel, work, bytes);
    if (own && !work->is_on_host)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "%s: needs a kernel, and device %s:%d runs none "
                           "of this library; use its own on the addresses of acre_symm_buffer",
                           work->call, acre_device_type_name(acre_device_id_of(own).type),
                           acre_device_id_of(own).index);
    struct work *copy = heap_alloc(bytes);
    if (!copy)
        return ACRE_ERR_HOST_MEMORY;
    memcpy(copy, work, bytes);
    acre_status status =
        acre_launch_host(own ? own : place->device, place->stream, work_host, copy);
    if (status != ACRE_OK)
        heap_free(copy);
    return status;
}

/* A result for work that the caller will wait for, which no captured stream allows.
 * Work of a graph would run, and report to its caller, again at each launch. */
static acre_status outcome_create(acre_device *device, const struct work *work, void *stream,
                                  struct outcome **out)
{
    acre_capture_info info = {.struct_size = sizeof info};

    if (acre_capture_info_get(device, stream, &info) == ACRE_OK && info.status != ACRE_CAPTURE_NONE)
        return status_fail(ACRE_ERR_STATE,
                           "%s: the stream captures, so its work cannot be waited for; set "
                           "is_async in the options",
                           work->call);
    *out = heap_zalloc(sizeof **out);
    if (!*out)
        return ACRE_ERR_HOST_MEMORY;
    atomic_init(&(*out)->holders, 2);
    return ACRE_OK;
}

/* On a stream of a device, waiting for the outcome or not. */
static acre_status run_queued(acre_device *device, struct work *work, size_t bytes,
                              const struct place *place)
{
    struct outcome *outcome = NULL;

    if (!place->is_async) {
        acre_status status = outcome_create(device, work, place->stream, &outcome);
        if (status != ACRE_OK)
            return status;
    }
    work->outcome = outcome;
    acre_status status = work_launch(work, bytes, place);
    if (status != ACRE_OK || !outcome) {
        heap_free(outcome); /* nothing was queued */
        return status;
    }
    status = acre_stream_native_synchronize(device, place->stream);
    if (status == ACRE_OK && outcome->status != ACRE_OK)
        status = status_fail(outcome->status, "%s", outcome->text);
    outcome_drop(outcome);
    return status;
}

acre_status work_run(struct work *work, size_t bytes, const struct place *place)
{
    acre_device *device = work->symm->team->device ? work->symm->team->device : place->device;

    if (group_is_inherited(work->symm->team->group))
        return group_fail_forked(work->symm->team->group);
    return device ? run_queued(device, work, bytes, place) : work->body(work);
}

char *work_block(struct work *work, int rank)
{
    const struct team *team = work->symm->team;

    if (team_is_far(team, rank)) {
        status_fail(ACRE_ERR_UNSUPPORTED, "%s: rank %d is on another host", work->call, rank);
        return NULL;
    }
    if (!work->context)
        return team->memories[rank]->base;
    return work_pointer(work, team->memories[rank]->base, team->memories[rank]->bytes);
}

void *work_pointer(struct work *work, const void *pointer, size_t bytes)
{
    if (!work->context || bytes == 0)
        return (void *)(uintptr_t)pointer;
    void *address = acre_kernel_pointer(work->context, pointer, bytes);
    if (!address)
        status_fail(ACRE_ERR_INVALID, "%s: %zu bytes at %p are not memory of the device",
                    work->call, bytes, pointer);
    return address;
}

acre_status work_fail_wait(const struct work *work, acre_status status, int rank,
                           const char *for_what)
{
    const struct team *team = work->symm->team;

    if (status == ACRE_ERR_PEER)
        return status_fail(status, "%s: rank %d (process %d) is gone", work->call, rank,
                           (int)team->group->peers->peers[rank].pid);
    return status_fail(status, "%s: rank %d did not %s within %llu ms", work->call, rank, for_what,
                       (unsigned long long)work->timeout_ms);
}

acre_status work_fail_late(const struct work *work, const bool *is_late, const char *for_what)
{
    char list[256];

    ranks_text(list, sizeof list, is_late, work->symm->team->count);
    return status_fail(ACRE_ERR_TIMEOUT, "%s: %s did not %s within %llu ms", work->call, list,
                       for_what, (unsigned long long)work->timeout_ms);
}
