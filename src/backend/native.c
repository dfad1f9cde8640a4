/* SPDX-License-Identifier: MIT */
/* Work on a device: native streams and events, copies, launches, values.
 *
 * Thin: see device.c for what a call checks. A NULL stream is passed on, since
 * it means something on some devices; the others refuse it themselves.
 */
#include "backend/device.h"
#include "base/status.h"

/* ---- Streams ------------------------------------------------------------------- */

acre_status acre_device_synchronize(acre_device *device)
{
    ENTER(0);
    /* Without streams everything is done when its call returns. */
    if (!device_has(device, ACRE_CAP_STREAMS))
        return ACRE_OK;
    return device->ops->device_synchronize(SELF);
}

acre_status acre_stream_native_create(acre_device *device, uint32_t flags, int priority, void **out)
{
    int low, high;

    ENTER(ACRE_CAP_STREAMS);
    NEED(out);
    low = device->info.priority_least;
    high = device->info.priority_greatest;
    if (low > high) {
        low = high;
        high = device->info.priority_least;
    }
    if (priority < low || priority > high)
        return status_fail(ACRE_ERR_RANGE, "stream priority %d is outside [%d, %d] of device %s:%d",
                           priority, low, high, device->backend->name, device->index);
    return device->ops->stream_create(SELF, flags, priority, out);
}

acre_status acre_stream_native_destroy(acre_device *device, void *stream)
{
    ENTER(ACRE_CAP_STREAMS);
    NEED(stream);
    return device->ops->stream_destroy(SELF, stream);
}

acre_status acre_stream_native_query(acre_device *device, void *stream)
{
    ENTER(ACRE_CAP_STREAMS);
    return device->ops->stream_query(SELF, stream);
}

acre_status acre_stream_native_synchronize(acre_device *device, void *stream)
{
    ENTER(ACRE_CAP_STREAMS);
    return device->ops->stream_synchronize(SELF, stream);
}

acre_status acre_stream_native_wait(acre_device *device, void *stream, void *event)
{
    ENTER(ACRE_CAP_STREAMS);
    NEED(event);
    return device->ops->stream_wait_event(SELF, stream, event);
}

acre_status acre_stream_native_priority(acre_device *device, void *stream, int *out)
{
    ENTER(ACRE_CAP_STREAMS);
    NEED(out);
    return device->ops->stream_priority(SELF, stream, out);
}

/* ---- Events -------------------------------------------------------------------- */

acre_status acre_event_native_create(acre_device *device, uint32_t flags, void **out)
{
    ENTER(ACRE_CAP_STREAMS);
    NEED(out);
    return device->ops->event_create(SELF, flags, out);
}

acre_status acre_event_native_destroy(acre_device *device, void *event)
{
    ENTER(ACRE_CAP_STREAMS);
    NEED(event);
    return device->ops->event_destroy(SELF, event);
}

acre_status acre_event_native_record(acre_device *device, void *event, void *stream)
{
    ENTER(ACRE_CAP_STREAMS);
    NEED(event);
    return device->ops->event_record(SELF, event, stream);
}

acre_status acre_event_native_query(acre_device *device, void *event)
{
    ENTER(ACRE_CAP_STREAMS);
    NEED(event);
    return device->ops->event_query(SELF, event);
}

acre_status acre_event_native_synchronize(acre_device *device, void *event)
{
    ENTER(ACRE_CAP_STREAMS);
    NEED(event);
    return device->ops->event_synchronize(SELF, event);
}

acre_status acre_event_native_elapsed(acre_device *device, void *start, void *end, double *out_ms)
{
    ENTER(ACRE_CAP_STREAMS);
    NEED(start);
    NEED(end);
    NEED(out_ms);
    return device->ops->event_elapsed(SELF, start, end, out_ms);
}

/* ---- Copies -------------------------------------------------------------------- */

acre_status acre_copy(acre_device *device, void *dst, const void *src, size_t bytes,
                      acre_copy_kind kind)
{
    ENTER(ACRE_CAP_COPY);
    NEED(dst);
    NEED(src);
    if (bytes == 0)
        return status_fail(ACRE_ERR_INVALID, "acre_copy: 0 bytes asked for");
    if ((int)kind < ACRE_COPY_HOST_TO_HOST || (int)kind > ACRE_COPY_DEVICE_TO_DEVICE)
        return status_fail(ACRE_ERR_INVALID, "acre_copy: kind %d is not one of 0 to 3", (int)kind);
    if (bytes > UINTPTR_MAX - (uintptr_t)dst || bytes > UINTPTR_MAX - (uintptr_t)src)
        return status_fail(ACRE_ERR_INVALID, "acre_copy: %zu bytes do not fit behind %p and %p",
                           bytes, dst, src);
    return device->ops->copy(device->self, dst, src, bytes, kind);
}

acre_status acre_copy_async(acre_device *device, void *dst, const void *src, size_t bytes,
                            acre_copy_kind kind, void *stream)
{
    ENTER(ACRE_CAP_COPY);
    return device->ops->copy_async(SELF, dst, src, bytes, kind, stream);
}

acre_status acre_copy_peer_async(acre_device *device, void *dst, acre_device *dst_device,
                                 const void *src, acre_device *src_device, size_t bytes,
                                 void *stream)
{
    ENTER(ACRE_CAP_COPY);
    NEED(dst_device);
    NEED(src_device);
    if (device->backend != dst_device->backend || device->backend != src_device->backend)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_copy_peer_async: devices of backends \"%s\", \"%s\" and \"%s\"; "
                           "all three must be of one",
                           device->backend->name, dst_device->backend->name,
                           src_device->backend->name);
    return device->ops->copy_peer_async(device->self, dst, dst_device->index, src,
                                        src_device->index, bytes, stream);
}

acre_status acre_memcpy_async(void *dst, acre_device *dst_device, const void *src,
                              acre_device *src_device, size_t bytes, void *stream, bool p2p)
{
    acre_device *device = src_device;

    ENTER(ACRE_CAP_COPY);
    NEED(dst_device);
    if (p2p || dst_device == src_device ||
        (!atomic_load_explicit(&dst_device->mapped_segments, memory_order_relaxed) &&
         !atomic_load_explicit(&src_device->mapped_segments, memory_order_relaxed)))
        return acre_copy_async(device, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE, stream);
    return acre_copy_peer_async(device, dst, dst_device, src, src_device, bytes, stream);
}

acre_status acre_fill_async(acre_device *device, void *dst, int value, size_t bytes, void *stream)
{
    ENTER(ACRE_CAP_COPY);
    return device->ops->fill_async(SELF, dst, value & 0xff, bytes, stream);
}

/* ---- Launches and values ------------------------------------------------------- */

acre_status acre_launch_host(acre_device *device, void *stream, void (*fn)(void *), void *arg)
{
    ENTER(ACRE_CAP_LAUNCH);
    NEED(fn);
    return device->ops->launch_host(SELF, stream, fn, arg);
}

acre_status acre_launch_kernel(acre_device *device, void *stream, acre_kernel_fn fn,
                               const void *args, size_t args_bytes)
{
    ENTER(ACRE_CAP_KERNELS);
    NEED(fn);
    if (!args && args_bytes)
        return status_fail(ACRE_ERR_INVALID, "acre_launch_kernel: args is NULL but has %zu bytes",
                           args_bytes);
    return device->ops->launch_kernel(SELF, stream, fn, args, args_bytes);
}

void *acre_kernel_pointer(acre_kernel_context *context, const void *device_pointer, size_t bytes)
{
    return context && device_pointer && bytes ? context->pointer(context, device_pointer, bytes)
                                              : NULL;
}

static acre_status check_value32(const char *call, const void *address)
{
    if (!address)
        return device_null(call, "address");
    if ((uintptr_t)address % 4)
        return status_fail(ACRE_ERR_INVALID, "%s: %p is not aligned to 4 bytes", call, address);
    return ACRE_OK;
}

acre_status acre_write_value32(acre_device *device, void *stream, void *address, uint32_t value)
{
    acre_status status;

    ENTER(ACRE_CAP_VALUES);
    status = check_value32(__func__, address);
    if (status != ACRE_OK)
        return status;
    return device->ops->write_value32(SELF, stream, address, value);
}

acre_status acre_wait_value32(acre_device *device, void *stream, void *address, uint32_t value,
                              acre_wait_condition condition)
{
    acre_status status;

    ENTER(ACRE_CAP_VALUES);
    status = check_value32(__func__, address);
    if (status != ACRE_OK)
        return status;
    if ((int)condition < ACRE_WAIT_GEQ || (int)condition > ACRE_WAIT_NOR)
        return status_fail(ACRE_ERR_INVALID, "acre_wait_value32: condition %d is not one of 0 to 3",
                           (int)condition);
    return device->ops->wait_value32(SELF, stream, address, value, condition);
}
