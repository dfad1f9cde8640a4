/* SPDX-License-Identifier: MIT */
#include "driver/stream.h"

#include "base/status.h"
#include "driver/green.h"

#include <string.h>

/* ---- Streams ---------------------------------------------------------------------------- */

acre_status drv_stream_create(void *self, int device, uint32_t flags, int priority,
                              void **out_stream)
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_stream stream = NULL;
    unsigned native = flags & ACRE_STREAM_NON_BLOCKING ? DRIVER_STREAM_NON_BLOCKING : 0;
    acre_status status = ON_DEVICE(CALL(stream_create, &stream, native, priority));

    if (status == ACRE_OK)
        *out_stream = stream;
    return status;
}

/* Drivers destroy a stream at once and finish its work later; the table waits. */
acre_status drv_stream_destroy(void *self, int device, void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;
    acre_status status = ON_STREAM(stream, CALL(stream_synchronize, stream));

    if (status == ACRE_ERR_INVALID || status == ACRE_ERR_STATE || status == ACRE_ERR_FORKED)
        return status;
    /* Work that failed must not keep the stream alive. */
    status = CALL(stream_destroy, stream);
    if (status == ACRE_OK)
        drv_green_stream_forget(driver, stream);
    return status;
}

acre_status drv_stream_query(void *self, int device, void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;

    return ON_STREAM(stream, CALL(stream_query, stream));
}

acre_status drv_stream_synchronize(void *self, int device, void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;

    return ON_STREAM(stream, CALL(stream_synchronize, stream));
}

acre_status drv_stream_wait_event(void *self, int device, void *stream, void *event)
{
    struct driver *driver = self;
    struct driver_scope scope;

    return ON_STREAM(stream, CALL(stream_wait_event, stream, event, 0));
}

acre_status drv_stream_priority(void *self, int device, void *stream, int *out_priority)
{
    struct driver *driver = self;
    struct driver_scope scope;
    int priority = 0;
    acre_status status = ON_STREAM(stream, CALL(stream_priority, stream, &priority));

    if (status == ACRE_OK)
        *out_priority = priority;
    return status;
}

acre_status drv_stream_synchronize_all(void *self, int device)
{
    struct driver *driver = self;
    struct driver_scope scope;

    return ON_DEVICE(CALL(device_synchronize));
}

/* ---- Events ------------------------------------------------------------------------------ */

/* An event belongs to the context it is made in, and is recorded only there: while
 * the thread is inside a green context, that is the one. */
acre_status drv_event_create(void *self, int device, uint32_t flags, void **out_event)
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_event event = NULL;
    unsigned native = (flags & ACRE_EVENT_TIMING ? 0 : DRIVER_EVENT_NO_TIMING) |
                      (flags & ACRE_EVENT_SHARED ? DRIVER_EVENT_SHARED : 0);
    acre_status status = drv_green_is_current(driver, device)
                             ? CALL(event_create, &event, native)
                             : ON_DEVICE(CALL(event_create, &event, native));

    if (status == ACRE_OK)
        *out_event = event;
    return status;
}

acre_status drv_event_destroy(void *self, int device, void *event)
{
    struct driver *driver = self;
    acre_status status = driver_check_fork(driver);

    (void)device; /* nothing else that can fail comes before what gives back */
    return status == ACRE_OK ? CALL(event_destroy, event) : status;
}

acre_status drv_event_record(void *self, int device, void *event, void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;

    return ON_STREAM(stream, CALL(event_record, event, stream));
}

acre_status drv_event_query(void *self, int device, void *event)
{
    struct driver *driver = self;
    struct driver_scope scope;

    return ON_DEVICE_MEMORY(CALL(event_query, event));
}

acre_status drv_event_synchronize(void *self, int device, void *event)
{
    struct driver *driver = self;
    struct driver_scope scope;

    return ON_DEVICE(CALL(event_synchronize, event));
}

acre_status drv_event_elapsed(void *self, int device, void *start, void *end, double *out_ms)
{
    struct driver *driver = self;
    struct driver_scope scope;
    float ms = 0;
    acre_status status = ON_DEVICE(CALL(event_elapsed, &ms, start, end));

    if (status == ACRE_OK)
        *out_ms = (double)ms;
    return status;
}

acre_status drv_event_export(void *self, int device, void *event, uint8_t out_handle[64])
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_ipc_event handle;
    acre_status status = ON_DEVICE(CALL(ipc_event_export, &handle, event));

    if (status == ACRE_OK)
        memcpy(out_handle, &handle, sizeof handle);
    return status;
}

acre_status drv_event_open(void *self, int device, const uint8_t handle[64], void **out_event)
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_ipc_event native;
    driver_event event = NULL;
    acre_status status;

    memcpy(&native, handle, sizeof native);
    status = ON_DEVICE(CALL(ipc_event_open, &event, native));
    if (status == ACRE_OK)
        *out_event = event;
    return status;
}

/* ---- Host functions and values ------------------------------------------------------------- */

acre_status drv_stream_launch_host(void *self, int device, void *stream, void (*fn)(void *),
                                   void *arg)
{
    struct driver *driver = self;
    struct driver_scope scope;

    return ON_STREAM(stream, CALL(launch_host, stream, fn, arg));
}

acre_status drv_stream_write_value32(void *self, int device, void *stream, void *address,
                                     uint32_t value)
{
    struct driver *driver = self;
    struct driver_scope scope;

    if (!address || (uintptr_t)address % sizeof value)
        return status_fail(ACRE_ERR_INVALID, "write_value32: %p is not aligned to 4", address);
    return ON_STREAM(stream, CALL(write_value32, stream, address, value, 0));
}

acre_status drv_stream_wait_value32(void *self, int device, void *stream, void *address,
                                    uint32_t value, acre_wait_condition condition)
{
    static const unsigned conditions[] = {
        [ACRE_WAIT_GEQ] = DRIVER_WAIT_GEQ,
        [ACRE_WAIT_EQ] = DRIVER_WAIT_EQ,
        [ACRE_WAIT_AND] = DRIVER_WAIT_AND,
        [ACRE_WAIT_NOR] = DRIVER_WAIT_NOR,
    };
    struct driver *driver = self;
    struct driver_scope scope;

    if (!address || (uintptr_t)address % sizeof value || (unsigned)condition > ACRE_WAIT_NOR)
        return status_fail(ACRE_ERR_INVALID, "wait_value32: %p, condition %d", address,
                           (int)condition);
    return ON_STREAM(stream, driver->vendor->wait_value32(driver, stream, address, value,
                                                          conditions[condition]));
}
