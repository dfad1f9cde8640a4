/* SPDX-License-Identifier: MIT */
/* Current device of a thread, and guards that put things back.
 *
 * A guard is a plain struct on the caller's stack:
 *
 *   RUNNING   device_original >= 0     acre_guard_device, acre_guard_stream
 *   ENDED     device_original == -1    acre_guard_end, or a begin that failed
 *
 * Restoring needs no memory: what a thread chose is kept from its first choice
 * on (thread.c), so ending a guard fails only when a driver refuses, which is
 * logged.
 */
#include "backend/backend.h"

#include "backend/device.h"
#include "backend/stream.h"
#include "backend/thread.h"
#include "base/log.h"
#include "base/status.h"

/* ---- Current device ------------------------------------------------------------ */

static acre_status range_error(acre_device_type type, int index, const acre_backend *backend)
{
    return status_fail(ACRE_ERR_RANGE, "device index %d of type %s is outside [0, %d)", index,
                       acre_device_type_name(type), backend->device_count);
}

static int index_is_valid(const acre_backend *backend, int index)
{
    return index >= 0 && index < backend->device_count;
}

acre_status acre_device_current(acre_device_type type, int *out_index)
{
    acre_backend *backend;
    acre_status status;

    NEED(out_index);
    status = backend_of_type(type, &backend);
    if (status == ACRE_OK)
        *out_index = thread_device(backend);
    return status;
}

acre_status acre_device_set(acre_device_type type, int index)
{
    acre_backend *backend;
    acre_status status = backend_of_type(type, &backend);

    if (status != ACRE_OK)
        return status;
    if (!index_is_valid(backend, index))
        return range_error(type, index, backend);
    return thread_set_device(backend, index);
}

acre_status acre_device_exchange(acre_device_type type, int index, int *out_previous)
{
    acre_backend *backend;
    acre_status status;
    int previous;

    NEED(out_previous);
    status = backend_of_type(type, &backend);
    if (status != ACRE_OK)
        return status;
    previous = thread_device(backend);
    if (index_is_valid(backend, index))
        status = thread_set_device(backend, index);
    if (status == ACRE_OK)
        *out_previous = previous;
    return status;
}

acre_status acre_device_maybe_exchange(acre_device_type type, int index, int *out_previous)
{
    acre_backend *backend;
    acre_status status;

    NEED(out_previous);
    status = backend_of_type(type, &backend);
    if (status != ACRE_OK)
        return status;
    if (index != -1 && !index_is_valid(backend, index))
        return range_error(type, index, backend);
    return acre_device_exchange(type, index, out_previous);
}

/* ---- What a backend's own guards do --------------------------------------------- */

acre_status backend_current(acre_backend *backend, acre_device_id *out)
{
    NEED(backend);
    NEED(out);
    out->type = (acre_device_type)backend->shown;
    out->index = thread_device(backend);
    return ACRE_OK;
}

static acre_status check_shown(const acre_backend *backend, acre_device_id device)
{
    if ((int)device.type != backend->shown)
        return status_fail(ACRE_ERR_INVALID,
                           "backend \"%s\" guards devices of type %s and refuses %s:%d",
                           backend->name, acre_device_type_name((acre_device_type)backend->shown),
                           acre_device_type_name(device.type), device.index);
    return ACRE_OK;
}

acre_status backend_set_current(acre_backend *backend, acre_device_id device)
{
    acre_status status;

    NEED(backend);
    status = backend_check_fork(backend);
    if (status == ACRE_OK)
        status = check_shown(backend, device);
    if (status != ACRE_OK)
        return status;
    if (!index_is_valid(backend, device.index))
        return range_error(device.type, device.index, backend);
    return thread_set_device(backend, device.index);
}

acre_status backend_exchange_current(acre_backend *backend, acre_device_id device,
                                     acre_device_id *out_previous)
{
    acre_device_id previous;
    acre_status status;

    NEED(backend);
    NEED(out_previous);
    status = backend_current(backend, &previous);
    if (status == ACRE_OK)
        status = backend_set_current(backend, device);
    if (status == ACRE_OK)
        *out_previous = previous;
    return status;
}

/* ---- Guards -------------------------------------------------------------------- */

static const acre_guard ended = {.device_original = -1, .device_now = -1};

static void restore_device(const acre_guard *guard)
{
    if (acre_device_set(guard->type, guard->device_original) != ACRE_OK)
        log_line(ACRE_LOG_WARN, "a guard could not restore device %s:%d: %s",
                 acre_device_type_name(guard->type), guard->device_original, acre_last_error());
}

static void restore_stream(acre_stream stream)
{
    if (acre_stream_set_current(stream) != ACRE_OK)
        log_line(ACRE_LOG_WARN, "a guard could not restore stream %lld of %s:%d: %s",
                 (long long)stream.id, acre_device_type_name((acre_device_type)stream.type),
                 stream.index, acre_last_error());
}

acre_status acre_guard_device(acre_guard *guard, acre_device_id device)
{
    acre_status status;
    int previous;

    NEED(guard);
    *guard = ended;
    status = acre_device_maybe_exchange(device.type, device.index, &previous);
    if (status != ACRE_OK)
        return status;
    guard->type = device.type;
    guard->device_original = previous;
    guard->device_now = device.index == -1 ? previous : device.index;
    return ACRE_OK;
}

acre_status acre_guard_device_of(acre_guard *guard, acre_device_type type, acre_device_id device)
{
    NEED(guard);
    *guard = ended;
    /* Code written for HIP meets devices that are shown as CUDA. */
    if (device.type != type && !(type == ACRE_DEVICE_HIP && device.type == ACRE_DEVICE_CUDA))
        return status_fail(ACRE_ERR_INVALID, "a guard for devices of type %s refuses %s:%d",
                           acre_device_type_name(type), acre_device_type_name(device.type),
                           device.index);
    return acre_guard_device(guard, device);
}

acre_status acre_guard_reset_device(acre_guard *guard, acre_device_id device)
{
    acre_device *checked;
    acre_status status;
    int previous;

    NEED(guard);
    if (guard->device_original < 0)
        return status_fail(ACRE_ERR_STATE, "acre_guard_reset_device: the guard is not running");
    status = acre_device_get(device.type, device.index, &checked);
    if (status != ACRE_OK)
        return status;
    if (guard->type != device.type) {
        acre_guard_end(guard);
        return acre_guard_device(guard, device);
    }
    if (guard->has_stream)
        restore_stream(guard->stream_original);
    guard->has_stream = 0;
    status = acre_device_maybe_exchange(device.type, device.index, &previous);
    if (status == ACRE_OK && device.index != -1)
        guard->device_now = device.index;
    return status;
}

acre_status acre_guard_stream(acre_guard *guard, acre_stream stream)
{
    acre_device_id device = {(acre_device_type)stream.type, stream.index};
    acre_device *checked;
    acre_status status;

    NEED(guard);
    *guard = ended;
    status = stream_device(stream, &checked);
    if (status == ACRE_OK)
        status = acre_guard_device(guard, device);
    if (status != ACRE_OK)
        return status;
    status = acre_stream_current(device.type, device.index, &guard->stream_original);
    if (status == ACRE_OK)
        status = acre_stream_set_current(stream);
    if (status != ACRE_OK) {
        struct status_saved saved;

        status_save(&saved);
        acre_guard_end(guard);
        status_restore(&saved);
        return status;
    }
    guard->has_stream = 1;
    return ACRE_OK;
}

acre_status acre_guard_reset_stream(acre_guard *guard, acre_stream stream)
{
    acre_device *checked;
    acre_status status;
    int original;

    NEED(guard);
    if (guard->device_original < 0)
        return status_fail(ACRE_ERR_STATE, "acre_guard_reset_stream: the guard is not running");
    status = stream_device(stream, &checked);
    if (status != ACRE_OK)
        return status;
    if (guard->type != (acre_device_type)stream.type) {
        acre_guard_end(guard);
        return acre_guard_stream(guard, stream);
    }
    if (guard->has_stream)
        restore_stream(guard->stream_original);
    guard->has_stream = 0;
    original = guard->device_original;
    status = acre_guard_stream(guard, stream);
    guard->device_original = original;
    if (status != ACRE_OK)
        guard->type = (acre_device_type)stream.type;
    return status;
}

void acre_guard_end(acre_guard *guard)
{
    if (!guard || guard->device_original < 0)
        return;
    if (guard->has_stream)
        restore_stream(guard->stream_original);
    restore_device(guard);
    *guard = ended;
}

/* ---- Several streams ----------------------------------------------------------- */

static acre_status check_one_type(const acre_stream *streams, int count)
{
    for (int i = 1; i < count; i++)
        if (streams[i].type != streams[0].type)
            return status_fail(
                ACRE_ERR_INVALID,
                "streams of devices %s:%d and %s:%d cannot be guarded together; "
                "all must have one device type",
                acre_device_type_name((acre_device_type)streams[0].type), streams[0].index,
                acre_device_type_name((acre_device_type)streams[i].type), streams[i].index);
    return ACRE_OK;
}

acre_status acre_guard_multi_begin(const acre_stream *streams, int count,
                                   acre_stream *out_originals)
{
    acre_status status;
    int done;

    if (count < 0)
        return status_fail(ACRE_ERR_RANGE, "acre_guard_multi_begin: count is %d", count);
    if (count == 0)
        return ACRE_OK;
    NEED(streams);
    NEED(out_originals);
    status = check_one_type(streams, count);
    for (done = 0; done < count && status == ACRE_OK; done++) {
        status = acre_stream_current((acre_device_type)streams[done].type, streams[done].index,
                                     &out_originals[done]);
        if (status == ACRE_OK)
            status = acre_stream_set_current(streams[done]);
        if (status != ACRE_OK)
            break;
    }
    if (status != ACRE_OK) {
        struct status_saved saved;

        status_save(&saved);
        acre_guard_multi_end(out_originals, done);
        status_restore(&saved);
    }
    return status;
}

void acre_guard_multi_end(const acre_stream *originals, int count)
{
    for (int i = count - 1; originals && i >= 0; i--)
        restore_stream(originals[i]);
}
