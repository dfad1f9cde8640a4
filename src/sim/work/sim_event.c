/* SPDX-License-Identifier: MIT */
/* Events of the reference device. See sim_event.h. */
#include "sim/work/sim_event.h"

#include "sim/work/sim_capture.h"
#include "sim/work/sim_stream.h"
#include "base/heap.h"

#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void event_slot_init(struct slot *slot)
{
    (void)slot;
}

acre_status event_lock(struct sim_streams *all, int device, void *handle, struct sim_event **out)
{
    struct sim_event *event = (struct sim_event *)slots_lock(&all->events, handle);

    if (!event)
        return status_fail(ACRE_ERR_INVALID, "%p is not a live event of this backend", handle);
    if (device >= 0 && event->device != device) {
        int actual = event->device;

        lock_drop(&event->slot.lock);
        return status_fail(ACRE_ERR_INVALID, "event %p belongs to device %d, not to %d", handle,
                           actual, device);
    }
    *out = event;
    return ACRE_OK;
}

acre_status sim_event_create(void *self, int device, uint32_t flags, void **out_event)
{
    struct sim *sim = self;
    struct sim_event *event;
    struct slot *slot;
    acre_status status = sim_enter(sim, ACRE_SIM_EVENT_CREATE, device, 0);

    if (status == ACRE_OK && !out_event)
        status = status_fail(ACRE_ERR_INVALID, "event_create: no place for the event (NULL)");
    if (status == ACRE_OK)
        status = slots_take(&sim->streams->events, &slot);
    if (status != ACRE_OK)
        return status;
    event = (struct sim_event *)slot;
    lock_take(&slot->lock);
    event->device = device;
    event->has_timing = (flags & ACRE_EVENT_TIMING) != 0;
    event->is_stamped = false;
    event->stream = NULL;
    event->position = 0;
    CHECK(!event->mark);
    *out_event = slot_open(slot);
    lock_drop(&slot->lock);
    return ACRE_OK;
}

acre_status sim_event_destroy(void *self, int device, void *handle)
{
    struct sim *sim = self;
    struct sim_event *event;
    acre_status status = sim_enter_plain(sim, device);

    if (status == ACRE_OK)
        status = event_lock(sim->streams, device, handle, &event);
    if (status != ACRE_OK)
        return status;
    slot_close_locked(&event->slot);
    heap_free(event->mark);
    event->mark = NULL;
    lock_drop(&event->slot.lock);
    slots_give(&sim->streams->events, &event->slot);
    return ACRE_OK;
}

/* ---- Recording ------------------------------------------------------------------- */

void event_stamp(const struct op *op, struct sim_stream *stream)
{
    struct sim_event *event = op->stamp.event;

    lock_take(&event->slot.lock);
    if (atomic_load(&event->slot.handle) == op->stamp.handle && event->stream == stream &&
        event->position == op->stamp.position && !event->mark) {
        event->stamp_ns = now_ns();
        event->is_stamped = true;
    }
    lock_drop(&event->slot.lock);
}

/* Records on a stream that does not capture; both locks are held. Only an event
 * with timing on a busy stream needs a task. */
static acre_status record_locked(struct sim_event *event, struct sim_stream *stream, bool *is_owner)
{
    uint64_t position = atomic_load_explicit(&stream->submitted, memory_order_relaxed);
    bool is_idle = stream_reached(stream, position);

    if (event->has_timing && !is_idle) {
        struct op op = {.type = OP_STAMP, .device = stream->device};
        acre_status status;

        position++;
        op.stamp.event = event;
        op.stamp.handle = atomic_load(&event->slot.handle);
        op.stamp.position = position;
        status = stream_append_locked(stream, &op, is_owner);
        if (status != ACRE_OK)
            return status;
    }
    event->stream = stream;
    event->position = position;
    event->is_stamped = event->has_timing && is_idle;
    if (event->is_stamped)
        event->stamp_ns = now_ns();
    heap_free(event->mark);
    event->mark = NULL;
    return ACRE_OK;
}

acre_status sim_event_record(void *self, int device, void *event_handle, void *stream_handle)
{
    struct sim *sim = self;
    struct sim_streams *all = sim->streams;
    struct sim_stream *stream = NULL;
    struct sim_event *event = NULL;
    bool is_owner = false, is_captured = true;
    acre_status status = sim_enter(sim, ACRE_SIM_EVENT_RECORD, device, 0);

    while (status == ACRE_OK) {
        status = event_lock(all, device, event_handle, &event);
        if (status != ACRE_OK)
            return status;
        status = stream_lock(all, device, stream_handle, &stream);
        if (status != ACRE_OK) {
            lock_drop(&event->slot.lock);
            return status;
        }
        if (!stream->capture)
            break;
        stream_handle = (void *)atomic_load(&stream->slot.handle);
        lock_drop(&stream->slot.lock);
        lock_drop(&event->slot.lock);
        status = capture_record(all, device, event_handle, stream_handle, &is_captured);
        if (is_captured)
            return status;
    }
    if (status != ACRE_OK)
        return status;
    status = record_locked(event, stream, &is_owner);
    lock_drop(&stream->slot.lock);
    lock_drop(&event->slot.lock);
    CHECK(!is_owner); /* a task is only added to a busy stream */
    return status;
}

/* ---- Waiting and asking ------------------------------------------------------------ */

acre_status sim_stream_wait_event(void *self, int device, void *stream_handle, void *event_handle)
{
    struct sim *sim = self;
    struct sim_streams *all = sim->streams;
    struct op op = {.type = OP_WAIT_POINT, .device = device};
    struct sim_stream *stream = NULL;
    struct sim_event *event = NULL;
    bool is_owner = false, is_captured, is_marked;
    acre_status status = sim_enter(sim, ACRE_SIM_STREAM_WAIT, device, 0);

    while (status == ACRE_OK) {
        status = event_lock(all, -1, event_handle, &event);
        if (status != ACRE_OK)
            return status;
        is_marked = event->mark != NULL;
        op.point.stream = event->stream;
        op.point.position = event->position;
        lock_drop(&event->slot.lock);
        status = stream_lock(all, device, stream_handle, &stream);
        if (status != ACRE_OK)
            return status;
        if (!stream->capture && !is_marked)
            break;
        stream_handle = (void *)atomic_load(&stream->slot.handle);
        lock_drop(&stream->slot.lock);
        status = capture_wait(all, device, stream_handle, event_handle, &is_captured);
        if (is_captured)
            return status;
    }
    if (status != ACRE_OK)
        return status;
    /* A stream is always behind what was recorded on itself. */
    if (op.point.stream && op.point.stream != stream &&
        !stream_reached(op.point.stream, op.point.position))
        status = stream_append_locked(stream, &op, &is_owner);
    lock_drop(&stream->slot.lock);
    if (is_owner)
        stream_drive_one(all, stream);
    return status;
}

/* Finds an event whose state may be asked for; its lock is held then. */
static acre_status lock_uncaptured(struct sim_streams *all, int device, void *handle,
                                   const char *call, struct sim_event **out)
{
    acre_status status = event_lock(all, device, handle, out);

    if (status == ACRE_OK && (*out)->mark) {
        uint64_t capture_id = (*out)->mark->capture_id;

        lock_drop(&(*out)->slot.lock);
        return capture_refuse_event(all, capture_id, call);
    }
    return status;
}

acre_status sim_event_query(void *self, int device, void *handle)
{
    struct sim *sim = self;
    struct sim_event *event;
    bool is_done;
    acre_status status = sim_enter(sim, ACRE_SIM_EVENT_QUERY, device, 0);

    if (status == ACRE_OK)
        status = lock_uncaptured(sim->streams, device, handle, "event_query", &event);
    if (status != ACRE_OK)
        return status;
    is_done = !event->stream || stream_reached(event->stream, event->position);
    lock_drop(&event->slot.lock);
    return is_done ? ACRE_OK : ACRE_ERR_NOT_READY;
}

acre_status sim_event_synchronize(void *self, int device, void *handle)
{
    struct sim *sim = self;
    struct sim_event *event;
    struct sim_stream *stream;
    uint64_t position;
    acre_status status = sim_enter(sim, ACRE_SIM_EVENT_SYNC, device, 0);

    if (status == ACRE_OK)
        status = lock_uncaptured(sim->streams, device, handle, "event_synchronize", &event);
    if (status != ACRE_OK)
        return status;
    stream = event->stream;
    position = event->position;
    lock_drop(&event->slot.lock);
    if (!stream || stream_reached(stream, position))
        return ACRE_OK;
    if (stream == stream_running())
        return status_fail(ACRE_ERR_STATE,
                           "a task cannot wait for event %p, which its own stream "
                           "reaches only later",
                           handle);
    lock_take(&stream->slot.lock);
    stream_wait_locked(stream, position);
    lock_drop(&stream->slot.lock);
    return ACRE_OK;
}

/* Reads the time of a completed event with timing. */
static acre_status read_stamp(struct sim_streams *all, int device, void *handle, bool check_done,
                              uint64_t *out_ns)
{
    struct sim_event *event;
    acre_status status = lock_uncaptured(all, device, handle, "event_elapsed", &event);

    if (status != ACRE_OK)
        return status;
    if (!event->has_timing)
        status =
            status_fail(ACRE_ERR_INVALID, "event %p was created without ACRE_EVENT_TIMING", handle);
    else if (!event->stream)
        status = status_fail(ACRE_ERR_INVALID, "event %p was never recorded", handle);
    else if (check_done && !stream_reached(event->stream, event->position))
        status = status_fail(ACRE_ERR_NOT_READY, "event %p is not complete yet", handle);
    else
        *out_ns = event->stamp_ns;
    CHECK(status != ACRE_OK || !check_done || event->is_stamped);
    lock_drop(&event->slot.lock);
    return status;
}

acre_status sim_event_elapsed(void *self, int device, void *start, void *end, double *out_ms)
{
    struct sim *sim = self;
    struct sim_streams *all = sim->streams;
    uint64_t start_ns = 0, end_ns = 0;
    acre_status status = sim_enter_plain(sim, device);

    if (status == ACRE_OK && !out_ms)
        status = status_fail(ACRE_ERR_INVALID, "event_elapsed: no place for the time (NULL)");
    /* What is wrong with either for good comes before what is not ready yet. */
    if (status == ACRE_OK)
        status = read_stamp(all, device, start, false, &start_ns);
    if (status == ACRE_OK)
        status = read_stamp(all, device, end, false, &end_ns);
    if (status == ACRE_OK)
        status = read_stamp(all, device, start, true, &start_ns);
    if (status == ACRE_OK)
        status = read_stamp(all, device, end, true, &end_ns);
    if (status == ACRE_OK)
        *out_ms = ((double)end_ns - (double)start_ns) / 1e6;
    return status;
}
