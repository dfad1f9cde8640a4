/* SPDX-License-Identifier: MIT */
/* Streams of the reference device: the entries of the table, and the life of the
 * stream half as a whole. */
#include "sim/work/sim_stream.h"

#include "sim/work/sim_capture.h"
#include "sim/work/sim_event.h"
#include "sim/work/sim_queue.h"
#include "base/heap.h"
#include "base/log.h"

/* ---- Making and destroying streams ---------------------------------------------- */

acre_status stream_open(struct sim_streams *all, int device, int priority, void **out)
{
    struct sim_stream *stream;
    struct task *slab;
    struct slot *slot;
    acre_status status = workers_start(&all->workers);

    if (status != ACRE_OK)
        return status;
    slab = heap_array(TASK_SPARES, sizeof *slab);
    if (!slab)
        return ACRE_ERR_HOST_MEMORY;
    status = slots_take(&all->streams, &slot);
    if (status != ACRE_OK) {
        heap_free(slab);
        return status;
    }
    stream = (struct sim_stream *)slot;
    lock_take(&slot->lock);
    CHECK(!stream->is_active && !stream->first && list_empty(&stream->waiters));
    stream->device = device;
    stream->priority = priority;
    stream->failure.status = ACRE_OK;
    stream->slab = stream->spare = slab;
    for (int i = 0; i < TASK_SPARES; i++) {
        slab[i].is_spare = true;
        slab[i].next = i + 1 < TASK_SPARES ? &slab[i + 1] : NULL;
    }
    *out = slot_open(slot);
    lock_drop(&slot->lock);
    return ACRE_OK;
}

/* Frees what a drained stream holds and gives its slot back. */
static void stream_release(struct sim_streams *all, struct sim_stream *stream)
{
    struct failure failure = stream->failure;
    struct task *slab = stream->slab;

    stream->slab = stream->spare = NULL;
    stream->failure.status = ACRE_OK;
    lock_drop(&stream->slot.lock);
    heap_free(slab);
    slots_give(&all->streams, &stream->slot);
    if (failure.status != ACRE_OK)
        log_line(ACRE_LOG_WARN,
                 "a stream was destroyed without synchronizing; a task had "
                 "failed: %s",
                 failure.text);
}

acre_status stream_close(struct sim_streams *all, int device, void *handle)
{
    struct sim_stream *stream;
    acre_status status = stream_lock(all, device, handle, &stream);

    if (status != ACRE_OK)
        return status;
    if (stream_running() == stream) {
        lock_drop(&stream->slot.lock);
        return status_fail(ACRE_ERR_STATE, "a task of stream %p cannot destroy its own stream",
                           handle);
    }
    if (stream->capture) {
        lock_drop(&stream->slot.lock);
        capture_leave(all, handle);
        return stream_close(all, device, handle);
    }
    slot_close_locked(&stream->slot);
    stream_wait_locked(stream, atomic_load(&stream->submitted));
    stream_release(all, stream);
    return ACRE_OK;
}

acre_status sim_stream_create(void *self, int device, uint32_t flags, int priority,
                              void **out_stream)
{
    struct sim *sim = self;
    acre_status status = sim_enter(sim, ACRE_SIM_STREAM_CREATE, device, 0);

    (void)flags; /* all streams are non-blocking: the default stream is one of them */
    if (status != ACRE_OK)
        return status;
    if (!out_stream)
        return status_fail(ACRE_ERR_INVALID, "stream_create: no place for the stream (NULL)");
    if (priority < STREAM_PRIORITY_LEAST || priority > STREAM_PRIORITY_GREATEST)
        return status_fail(ACRE_ERR_RANGE, "stream priority %d is outside %d to %d", priority,
                           STREAM_PRIORITY_LEAST, STREAM_PRIORITY_GREATEST);
    return stream_open(sim->streams, device, priority, out_stream);
}

acre_status sim_stream_destroy(void *self, int device, void *stream)
{
    struct sim *sim = self;
    acre_status status = sim_enter_plain(sim, device);

    if (status != ACRE_OK)
        return status;
    if (!stream || (uintptr_t)stream == atomic_load(&sim->streams->defaults[device]))
        return status_fail(ACRE_ERR_INVALID, "the default stream of device %d cannot be destroyed",
                           device);
    return stream_close(sim->streams, device, stream);
}

/* ---- Asking and waiting ------------------------------------------------------------ */

/* Refuses an outcome that a capturing stream cannot have; its lock is held and is
 * dropped. */
static acre_status refuse_capturing(struct sim_streams *all, struct sim_stream *stream,
                                    const char *call)
{
    void *handle = (void *)atomic_load(&stream->slot.handle);

    lock_drop(&stream->slot.lock);
    return capture_refuse_stream(all, handle, call);
}

acre_status sim_stream_query(void *self, int device, void *handle)
{
    struct sim *sim = self;
    struct sim_stream *stream;
    bool is_done;
    acre_status status = sim_enter_plain(sim, device);

    if (status == ACRE_OK)
        status = stream_lock(sim->streams, device, handle, &stream);
    if (status != ACRE_OK)
        return status;
    if (stream->capture)
        return refuse_capturing(sim->streams, stream, "stream_query");
    is_done = stream_reached(stream, atomic_load(&stream->submitted));
    lock_drop(&stream->slot.lock);
    return is_done ? ACRE_OK : ACRE_ERR_NOT_READY;
}

acre_status sim_stream_synchronize(void *self, int device, void *handle)
{
    struct sim *sim = self;
    struct sim_stream *stream;
    uintptr_t live;
    acre_status status = sim_enter(sim, ACRE_SIM_STREAM_SYNC, device, 0);

    if (status == ACRE_OK)
        status = stream_lock(sim->streams, device, handle, &stream);
    if (status != ACRE_OK)
        return status;
    if (stream->capture)
        return refuse_capturing(sim->streams, stream, "stream_synchronize");
    live = atomic_load(&stream->slot.handle);
    if (stream_running() == stream) {
        lock_drop(&stream->slot.lock);
        return status_fail(ACRE_ERR_STATE, "a task of stream %p cannot wait for its own stream",
                           (void *)live);
    }
    stream_wait_locked(stream, atomic_load(&stream->submitted));
    if (atomic_load(&stream->slot.handle) == live)
        status = failure_take_locked(stream);
    lock_drop(&stream->slot.lock);
    return status;
}

acre_status sim_stream_priority(void *self, int device, void *handle, int *out_priority)
{
    struct sim *sim = self;
    struct sim_stream *stream;
    acre_status status = sim_enter_plain(sim, device);

    if (status == ACRE_OK && !out_priority)
        status = status_fail(ACRE_ERR_INVALID, "stream_priority: no place for it (NULL)");
    if (status == ACRE_OK)
        status = stream_lock(sim->streams, device, handle, &stream);
    if (status != ACRE_OK)
        return status;
    *out_priority = stream->priority;
    lock_drop(&stream->slot.lock);
    return ACRE_OK;
}

/* Whether the thread runs a task of a stream of this backend's device. */
static bool is_inside(struct sim_streams *all, int device)
{
    struct sim_stream *stream = stream_running();

    return stream && stream->device == device &&
           stream->slot.index < atomic_load(&all->streams.made) &&
           slots_at(&all->streams, stream->slot.index) == &stream->slot;
}

acre_status sim_device_synchronize(void *self, int device)
{
    struct sim *sim = self;
    struct sim_streams *all = sim->streams;
    acre_status status = sim_enter(sim, ACRE_SIM_STREAM_SYNC, device, 0);

    if (status == ACRE_OK)
        status = capture_refuse_device(all, device, "device_synchronize");
    if (status != ACRE_OK)
        return status;
    if (is_inside(all, device))
        return status_fail(ACRE_ERR_STATE, "a task of device %d cannot wait for its own device",
                           device);
    /* Slots outlive their streams, so a concurrent destroy does no harm: what it
     * still has to run is waited for as well. */
    for (uint32_t i = 0; i < atomic_load(&all->streams.made); i++) {
        struct sim_stream *stream = (struct sim_stream *)slots_at(&all->streams, i);

        lock_take(&stream->slot.lock);
        if (stream->device == device) {
            stream_wait_locked(stream, atomic_load(&stream->submitted));
            if (status == ACRE_OK && stream->device == device)
                status = failure_take_locked(stream);
        }
        lock_drop(&stream->slot.lock);
    }
    return status;
}

/* ---- Life of the stream half ------------------------------------------------------- */

acre_status sim_streams_create(struct sim *sim)
{
    struct sim_streams *all = heap_zalloc(sizeof *all);
    acre_status status;

    if (!all)
        return ACRE_ERR_HOST_MEMORY;
    all->sim = sim;
    status = slots_init(&all->streams, "stream", sizeof(struct sim_stream), RANK_STREAM,
                        stream_slot_init);
    if (status != ACRE_OK)
        goto free_all;
    status =
        slots_init(&all->events, "event", sizeof(struct sim_event), RANK_EVENT, event_slot_init);
    if (status != ACRE_OK)
        goto fini_streams;
    status =
        slots_init(&all->graphs, "graph", sizeof(struct graph_slot), RANK_EVENT, graph_slot_init);
    if (status != ACRE_OK)
        goto fini_events;
    lock_init(&all->captures.lock, RANK_GRAPH, "sim captures");
    list_init(&all->captures.list);
    workers_init(&all->workers);
    sim->streams = all;
    return ACRE_OK;

fini_events:
    slots_fini(&all->events);
fini_streams:
    slots_fini(&all->streams);
free_all:
    heap_free(all);
    return status;
}

/* Lets all streams run dry. Handles go first, so that nothing can be added. */
static void sim_stream_drain(struct sim_streams *all)
{
    uint32_t made = atomic_load(&all->streams.made);

    atomic_store(&all->is_closing, true);
    workers_value_written(&all->workers);
    for (uint32_t i = 0; i < made; i++) {
        struct slot *slot = slots_at(&all->streams, i);

        lock_take(&slot->lock);
        slot_close_locked(slot);
        lock_drop(&slot->lock);
    }
    for (uint32_t i = 0; i < made; i++) {
        struct sim_stream *stream = (struct sim_stream *)slots_at(&all->streams, i);

        lock_take(&stream->slot.lock);
        stream_wait_locked(stream, atomic_load(&stream->submitted));
        lock_drop(&stream->slot.lock);
    }
}

void sim_streams_destroy(struct sim *sim)
{
    struct sim_streams *all = sim->streams;

    if (!all || sim_enter_plain(sim, 0) == ACRE_ERR_FORKED)
        return; /* in a child of fork there are no threads to wait for */
    capture_drop_all(all);
    sim_stream_drain(all);
    workers_stop(&all->workers);
    for (uint32_t i = 0; i < atomic_load(&all->streams.made); i++)
        heap_free(((struct sim_stream *)slots_at(&all->streams, i))->slab);
    for (uint32_t i = 0; i < atomic_load(&all->events.made); i++)
        heap_free(((struct sim_event *)slots_at(&all->events, i))->mark);
    for (uint32_t i = 0; i < atomic_load(&all->graphs.made); i++)
        graph_unref(((struct graph_slot *)slots_at(&all->graphs, i))->graph);
    workers_fini(&all->workers);
    lock_fini(&all->captures.lock);
    slots_fini(&all->graphs);
    slots_fini(&all->events);
    slots_fini(&all->streams);
    heap_free(all);
    sim->streams = NULL;
}

void sim_streams_usage(struct sim *sim, acre_sim_usage *out)
{
    struct sim_streams *all = sim->streams;

    out->stream_count = atomic_load(&all->streams.live) - atomic_load(&all->default_count);
    out->event_count = atomic_load(&all->events.live);
    out->graph_count = atomic_load(&all->graphs.live);
    out->thread_count = workers_count(&all->workers);
}
