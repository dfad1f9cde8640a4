/* SPDX-License-Identifier: MIT */
/* Events as frameworks use them: made when first recorded.
 *
 *            acre_event_record
 *   EMPTY ─────────────────────► RECORDED on one device, for good
 *   device NULL, native NULL     device and native set
 *
 * An empty event is complete: waiting for it is no work.
 */
#include "backend/backend.h"

#include "backend/device.h"
#include "backend/stream.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"

struct acre_event {
    acre_device_type type;
    uint32_t flags;
    void *native;                  /* written before device; NULL while EMPTY    */
    _Atomic(acre_device *) device; /* NULL while EMPTY, then constant            */
};

/* The device of a recorded event, NULL otherwise. */
static acre_device *event_device(const acre_event *event)
{
    return atomic_load_explicit(&event->device, memory_order_acquire);
}

acre_status acre_event_create(acre_device_type type, uint32_t flags, acre_event **out)
{
    acre_event *event;

    NEED(out);
    if (!device_type_is_valid((int)type))
        return status_fail(ACRE_ERR_INVALID, "acre_event_create: device type %d does not exist",
                           (int)type);
    if (flags & ~ACRE_EVENT_TIMING)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_event_create: flags 0x%x hold more than ACRE_EVENT_TIMING", flags);
    event = heap_zalloc(sizeof *event);
    if (!event)
        return ACRE_ERR_HOST_MEMORY;
    event->type = type;
    event->flags = flags;
    *out = event;
    return ACRE_OK;
}

void acre_event_destroy(acre_event *event)
{
    acre_device *device = event ? event_device(event) : NULL;

    if (device && acre_event_native_destroy(device, event->native) != ACRE_OK)
        log_line(ACRE_LOG_WARN, "an event of device %s:%d could not be destroyed: %s",
                 device->backend->name, device->index, acre_last_error());
    heap_free(event);
}

/* Finds the device and the native stream of a stream that event may meet. */
static acre_status event_resolve(const acre_event *event, acre_stream stream, const char *call,
                                 acre_device **out_device, void **out_native)
{
    if ((int)event->type != stream.type)
        return status_fail(ACRE_ERR_INVALID, "%s: the event is of type %s, the stream of %s", call,
                           acre_device_type_name(event->type),
                           acre_device_type_name((acre_device_type)stream.type));
    return stream_resolve(stream, out_device, out_native);
}

/* The first record makes the native event; it stays only if recording works. */
static acre_status record_first(acre_event *event, acre_device *device, void *native_stream)
{
    struct status_saved saved;
    acre_status status;
    void *native;

    status = acre_event_native_create(device, event->flags, &native);
    if (status != ACRE_OK)
        return status;
    status = acre_event_native_record(device, native, native_stream);
    if (status != ACRE_OK) {
        status_save(&saved);
        acre_event_native_destroy(device, native);
        status_restore(&saved);
        return status;
    }
    event->native = native;
    atomic_store_explicit(&event->device, device, memory_order_release);
    return ACRE_OK;
}

acre_status acre_event_record(acre_event *event, acre_stream stream)
{
    acre_device *device, *mine;
    void *native_stream;
    acre_status status;

    NEED(event);
    status = event_resolve(event, stream, __func__, &device, &native_stream);
    if (status != ACRE_OK)
        return status;
    mine = event_device(event);
    if (!mine)
        return record_first(event, device, native_stream);
    if (mine != device)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_event_record: the event belongs to device %d and cannot be "
                           "recorded on a stream of device %d",
                           mine->index, device->index);
    return acre_event_native_record(device, event->native, native_stream);
}

acre_status acre_event_record_once(acre_event *event, acre_stream stream)
{
    NEED(event);
    return event_device(event) ? ACRE_OK : acre_event_record(event, stream);
}

acre_status acre_event_block(acre_event *event, acre_stream stream)
{
    acre_device *device;
    void *native_stream;
    acre_status status;

    NEED(event);
    if (!event_device(event))
        return ACRE_OK;
    status = event_resolve(event, stream, __func__, &device, &native_stream);
    return status != ACRE_OK ? status
                             : acre_stream_native_wait(device, native_stream, event->native);
}

bool acre_event_query(acre_event *event)
{
    acre_device *device = event ? event_device(event) : NULL;

    return event && (!device || acre_event_native_query(device, event->native) == ACRE_OK);
}

acre_status acre_event_synchronize(acre_event *event)
{
    acre_device *device;

    NEED(event);
    device = event_device(event);
    return device ? acre_event_native_synchronize(device, event->native) : ACRE_OK;
}

/* The checks of acre_event_elapsed, in their order, but for completeness. */
static acre_status check_elapsed(const acre_event *start, const acre_event *end)
{
    if (start->type != end->type)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_event_elapsed: the events are of types %s and %s",
                           acre_device_type_name(start->type), acre_device_type_name(end->type));
    if (!(start->flags & end->flags & ACRE_EVENT_TIMING))
        return status_fail(ACRE_ERR_INVALID, "acre_event_elapsed: both events must be created with "
                                             "ACRE_EVENT_TIMING");
    if (!event_device(start) || !event_device(end))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_event_elapsed: both events must be recorded first; the %s one "
                           "was not",
                           event_device(start) ? "end" : "start");
    return ACRE_OK;
}

acre_status acre_event_elapsed(acre_event *start, acre_event *end, double *out_ms)
{
    acre_status status;

    NEED(start);
    NEED(end);
    NEED(out_ms);
    status = check_elapsed(start, end);
    if (status != ACRE_OK)
        return status;
    if (!acre_event_query(start) || !acre_event_query(end))
        return status_fail(ACRE_ERR_NOT_READY,
                           "acre_event_elapsed: both events must be complete; synchronize first");
    if (event_device(start) != event_device(end))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_event_elapsed: the events are of devices %d and %d",
                           event_device(start)->index, event_device(end)->index);
    return acre_event_native_elapsed(event_device(start), start->native, end->native, out_ms);
}

int acre_event_device_index(const acre_event *event)
{
    acre_device *device = event ? event_device(event) : NULL;

    return device ? device->index : -1;
}

uint64_t acre_event_id(const acre_event *event)
{
    return event && event_device(event) ? (uint64_t)(uintptr_t)event->native : 0;
}
