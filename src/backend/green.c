/* SPDX-License-Identifier: MIT */
/* Green contexts as values: checks, streams, and the order on entering and leaving.
 *
 *            acre_green_push, by one thread
 *   IDLE ─────────────────────────────────────► PUSHED by that thread
 *     ▲                                            │
 *     └────────────────────────────────────────────┘ acre_green_pop, by the same
 */
#include "backend/device.h"
#include "backend/stream.h"
#include "backend/thread.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/process/fork.h"
#include "base/status.h"
#include "base/struct_size.h"

#include <acre/green.h>

#include <pthread.h>
#include <stddef.h>
#include <string.h>

struct acre_green {
    acre_device *device;
    void *native;
    uint32_t units;
    void *stream;                        /* the default one                       */
    struct lock lock;                    /* guards what follows                   */
    struct fork_guard fork_guard;        /* of the lock                           */
    void *sides[ACRE_GREEN_STREAMS_MAX]; /* side_count of them are made           */
    uint32_t side_count, side_next;
    bool is_pushed;
    pthread_t owner; /* who pushed it                         */
    int64_t parent;  /* id of the stream that was current     */
};

/* ---- Creating -------------------------------------------------------------------------- */

static acre_status config_take(const acre_device *device, const acre_green_config *given,
                               acre_green_config *config)
{
    acre_status status = STRUCT_TAKE("acre_green_create", acre_green_config, given, config);

    if (status != ACRE_OK)
        return status;
    if ((unsigned)config->scope > ACRE_GREEN_SCOPE_BALANCED)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_green_create: scope %d does not exist; use "
                           "ACRE_GREEN_SCOPE_DEVICE or ACRE_GREEN_SCOPE_BALANCED",
                           (int)config->scope);
    if (config->units == 0 && config->scope == ACRE_GREEN_SCOPE_NONE)
        return status_fail(ACRE_ERR_INVALID, "acre_green_create: neither units nor a scope of "
                                             "work queues is given");
    if (config->queue_limit && config->scope == ACRE_GREEN_SCOPE_NONE)
        return status_fail(ACRE_ERR_INVALID, "acre_green_create: queue_limit %u needs a scope",
                           config->queue_limit);
    if ((int64_t)config->units > device->info.compute_units)
        return status_fail(ACRE_ERR_RANGE,
                           "acre_green_create: %u units are asked for, device %s "
                           "has %d",
                           config->units, device->info.name, device->info.compute_units);
    return ACRE_OK;
}

acre_status acre_green_create(acre_device *device, const acre_green_config *given, acre_green **out)
{
    acre_green_config config;
    acre_green *green;
    acre_status status;

    ENTER(ACRE_CAP_GREEN);
    NEED(given);
    NEED(out);
    status = config_take(device, given, &config);
    if (status != ACRE_OK)
        return status;
    green = heap_zalloc(sizeof *green);
    if (!green)
        return ACRE_ERR_HOST_MEMORY;
    green->device = device;
    status = device->ops->green_create(SELF, &config, &green->native, &green->units);
    if (status != ACRE_OK)
        goto free_green;
    status = device->ops->green_stream(SELF, green->native, ACRE_STREAM_NON_BLOCKING,
                                       device->info.priority_least, &green->stream);
    if (status != ACRE_OK)
        goto destroy_native;
    lock_init(&green->lock, RANK_RUNTIME, "green context");
    fork_guard_lock(&green->fork_guard, &green->lock);
    *out = green;
    return ACRE_OK;

destroy_native:
    device->ops->green_destroy(SELF, green->native);
free_green:
    heap_free(green);
    return status;
}

void acre_green_destroy(acre_green *green)
{
    acre_device *device;

    if (!green)
        return;
    device = green->device;
    if (green->is_pushed) {
        log_line(ACRE_LOG_WARN, "a green context that is pushed is not destroyed; pop it before");
        return;
    }
    for (uint32_t i = 0; i < green->side_count; i++)
        device->ops->stream_destroy(SELF, green->sides[i]);
    device->ops->stream_destroy(SELF, green->stream);
    if (device->ops->green_destroy(SELF, green->native) != ACRE_OK)
        log_line(ACRE_LOG_WARN, "a green context could not be destroyed: %s", acre_last_error());
    fork_guard_end(&green->fork_guard);
    lock_fini(&green->lock);
    heap_free(green);
}

/* ---- What it has -------------------------------------------------------------------------- */

uint32_t acre_green_units(const acre_green *green)
{
    return green ? green->units : 0;
}

void *acre_green_default_stream(const acre_green *green)
{
    return green ? green->stream : NULL;
}

acre_status acre_green_stream(acre_green *green, void **out_stream)
{
    acre_device *device;
    acre_status status = ACRE_OK;

    NEED(green);
    NEED(out_stream);
    device = green->device;
    ENTER(ACRE_CAP_GREEN);
    lock_take(&green->lock);
    if (green->side_count < ACRE_GREEN_STREAMS_MAX) {
        status = device->ops->green_stream(SELF, green->native, ACRE_STREAM_NON_BLOCKING,
                                           device->info.priority_least,
                                           &green->sides[green->side_count]);
        if (status == ACRE_OK)
            *out_stream = green->sides[green->side_count++];
    } else {
        *out_stream = green->sides[green->side_next++ % ACRE_GREEN_STREAMS_MAX];
    }
    lock_drop(&green->lock);
    return status;
}

acre_status acre_green_queue_limit(acre_device *device, uint32_t *out_count)
{
    ENTER(ACRE_CAP_GREEN);
    NEED(out_count);
    return device->ops->green_queues(SELF, out_count);
}

/* ---- Entering and leaving -------------------------------------------------------------------- */

/* Records an event on the thread's current stream. */
static acre_status green_mark(acre_device *device, void **out_event)
{
    void *stream, *event;
    acre_status status = stream_current_native(device, &stream);

    if (status == ACRE_OK)
        status = device->ops->event_create(SELF, 0, &event);
    if (status != ACRE_OK)
        return status;
    status = device->ops->event_record(SELF, event, stream);
    if (status != ACRE_OK)
        device->ops->event_destroy(SELF, event);
    else
        *out_event = event;
    return status;
}

/* Claims the green context for this thread. */
static acre_status green_claim(acre_green *green)
{
    acre_status status = ACRE_OK;

    lock_take(&green->lock);
    if (green->is_pushed) {
        status =
            status_fail(ACRE_ERR_STATE, "acre_green_push: it is pushed already%s",
                        pthread_equal(green->owner, pthread_self()) ? "" : ", by another thread");
    } else {
        green->is_pushed = true;
        green->owner = pthread_self();
    }
    lock_drop(&green->lock);
    return status;
}

static void green_unclaim(acre_green *green)
{
    lock_take(&green->lock);
    green->is_pushed = false;
    lock_drop(&green->lock);
}

static acre_status green_do_push(acre_green *green)
{
    acre_device *device = green->device;
    void *event = NULL;
    acre_status status = green_mark(device, &event);

    if (status != ACRE_OK)
        return status;
    status = device->ops->stream_wait_event(SELF, green->stream, event);
    device->ops->event_destroy(SELF, event);
    if (status == ACRE_OK)
        status = device->ops->green_push(SELF, green->native);
    if (status != ACRE_OK)
        return status;
    green->parent = thread_stream(device->backend, device->index);
    status = thread_set_stream(device->backend, device->index, (int64_t)(intptr_t)green->stream);
    if (status != ACRE_OK)
        device->ops->green_pop(SELF, green->native);
    return status;
}

acre_status acre_green_push(acre_green *green)
{
    acre_device *device;
    acre_status status;

    NEED(green);
    device = green->device;
    ENTER(ACRE_CAP_GREEN);
    status = green_claim(green);
    if (status != ACRE_OK)
        return status;
    status = green_do_push(green);
    if (status != ACRE_OK)
        green_unclaim(green);
    return status;
}

acre_status acre_green_pop(acre_green *green)
{
    acre_device *device;
    void *event = NULL, *stream = NULL;
    bool is_mine;
    acre_status status;

    NEED(green);
    device = green->device;
    ENTER(ACRE_CAP_GREEN);
    lock_take(&green->lock);
    is_mine = green->is_pushed && pthread_equal(green->owner, pthread_self());
    lock_drop(&green->lock);
    if (!is_mine)
        return status_fail(ACRE_ERR_STATE, "acre_green_pop: this thread has not pushed it");
    status = green_mark(device, &event);
    if (status == ACRE_OK)
        status = device->ops->green_pop(SELF, green->native);
    if (status != ACRE_OK) {
        if (event)
            device->ops->event_destroy(SELF, event);
        return status;
    }
    status = thread_set_stream(device->backend, device->index, green->parent);
    if (status == ACRE_OK)
        status = stream_current_native(device, &stream);
    if (status == ACRE_OK)
        status = device->ops->stream_wait_event(SELF, stream, event);
    device->ops->event_destroy(SELF, event);
    green_unclaim(green);
    return status;
}
