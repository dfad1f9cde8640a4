/* SPDX-License-Identifier: MIT */
/* Queues of the reference device: appending tasks, ending them, moving streams on.
 * See sim_queue.h for states and owners. */
#include "sim/work/sim_queue.h"

#include "sim/work/sim_capture.h"
#include "sim/work/sim_stream.h"
#include "backend/thread.h"
#include "base/heap.h"

#include <stdio.h>
#include <string.h>

static _Thread_local struct sim_stream *running;

struct sim_stream *stream_running(void)
{
    return running;
}

void stream_slot_init(struct slot *slot)
{
    struct sim_stream *stream = (struct sim_stream *)slot;

    stream->last = &stream->first;
    list_init(&stream->waiters);
    list_init(&stream->link);
    list_init(&stream->capture_link);
    list_init(&stream->waiter.link);
    stream->waiter.stream = stream;
}

/* ---- Finding ------------------------------------------------------------------ */

/* The default stream of a device, made at first use. */
static acre_status default_handle(struct sim_streams *all, int device, void **out)
{
    uintptr_t expected = 0;
    acre_status status;

    *out = (void *)atomic_load_explicit(&all->defaults[device], memory_order_acquire);
    if (*out)
        return ACRE_OK;
    status = stream_open(all, device, STREAM_PRIORITY_LEAST, out);
    if (status != ACRE_OK)
        return status;
    if (atomic_compare_exchange_strong(&all->defaults[device], &expected, (uintptr_t)*out)) {
        atomic_fetch_add(&all->default_count, 1);
    } else {
        stream_close(all, device, *out); /* another thread was first */
        *out = (void *)expected;
    }
    return ACRE_OK;
}

acre_status stream_lock(struct sim_streams *all, int device, void *handle, struct sim_stream **out)
{
    struct sim_stream *stream;

    if (UNLIKELY(!handle && device >= 0)) {
        acre_status status = default_handle(all, device, &handle);

        if (status != ACRE_OK)
            return status;
    }
    stream = (struct sim_stream *)slots_lock(&all->streams, handle);
    if (UNLIKELY(!stream))
        return status_fail(ACRE_ERR_INVALID, "%p is not a live stream of this backend", handle);
    if (UNLIKELY(device >= 0 && stream->device != device)) {
        int actual = stream->device;

        lock_drop(&stream->slot.lock);
        return status_fail(ACRE_ERR_INVALID, "stream %p belongs to device %d, not to %d", handle,
                           actual, device);
    }
    *out = stream;
    return ACRE_OK;
}

acre_status stream_check(struct sim_streams *all, int device, void *handle)
{
    struct sim_stream *stream;
    acre_status status = stream_lock(all, device, handle, &stream);

    if (status == ACRE_OK)
        lock_drop(&stream->slot.lock);
    return status;
}

/* ---- Tasks --------------------------------------------------------------------- */

static struct task *task_take_locked(struct sim_stream *stream)
{
    struct task *task = stream->spare;

    if (LIKELY(task != NULL)) {
        stream->spare = task->next;
        return task;
    }
    task = heap_alloc(sizeof *task);
    if (task)
        task->is_spare = false;
    return task;
}

static void task_give_locked(struct sim_stream *stream, struct task *task)
{
    if (LIKELY(task->is_spare)) {
        task->next = stream->spare;
        stream->spare = task;
    } else {
        heap_free(task);
    }
}

/* Gives a task its own arguments and references. */
static acre_status task_fill(struct task *task, const struct op *op)
{
    task->op = *op;
    if (op->type == OP_KERNEL && op->kernel.bytes > 0) {
        task->op.kernel.args = task->args;
        if (op->kernel.bytes > sizeof task->args)
            task->op.kernel.args = heap_alloc(op->kernel.bytes);
        if (!task->op.kernel.args)
            return ACRE_ERR_HOST_MEMORY;
        memcpy(task->op.kernel.args, op->kernel.args, op->kernel.bytes);
    } else if (op->type == OP_GRAPH) {
        graph_ref(op->graph.graph);
    }
    return ACRE_OK;
}

void op_fini(struct op *op, const struct task *task)
{
    if (op->type == OP_KERNEL && op->kernel.args != (task ? task->args : NULL))
        heap_free(op->kernel.args);
    else if (op->type == OP_GRAPH)
        graph_unref(op->graph.graph);
}

acre_status stream_append_locked(struct sim_stream *stream, const struct op *op, bool *is_owner)
{
    struct task *task = task_take_locked(stream);

    if (!task)
        return ACRE_ERR_HOST_MEMORY;
    if (task_fill(task, op) != ACRE_OK) {
        task_give_locked(stream, task);
        return ACRE_ERR_HOST_MEMORY;
    }
    task->next = NULL;
    *stream->last = task;
    stream->last = &task->next;
    atomic_store_explicit(&stream->submitted,
                          atomic_load_explicit(&stream->submitted, memory_order_relaxed) + 1,
                          memory_order_release);
    *is_owner = !stream->is_active;
    stream->is_active = true;
    return ACRE_OK;
}

acre_status stream_submit(struct sim_streams *all, int device, void *handle, const struct op *op)
{
    struct sim_stream *stream;
    bool is_owner = false;
    acre_status status;

    for (;;) {
        bool is_captured;

        status = stream_lock(all, device, handle, &stream);
        if (status != ACRE_OK)
            return status;
        if (LIKELY(!stream->capture))
            break;
        handle = (void *)atomic_load(&stream->slot.handle);
        lock_drop(&stream->slot.lock);
        status = capture_add(all, handle, op, &is_captured);
        if (is_captured || status != ACRE_OK)
            return status;
    }
    status = stream_append_locked(stream, op, &is_owner);
    lock_drop(&stream->slot.lock);
    if (is_owner)
        stream_drive_one(all, stream);
    return status;
}

/* ---- Failures ------------------------------------------------------------------ */

/* Keeps the first failure; its text is the last error of this thread. */
static void failure_note_locked(struct sim_stream *stream, acre_status status)
{
    struct failure *failure = &stream->failure;

    if (failure->status != ACRE_OK)
        return;
    failure->status = status;
    failure->native = acre_last_native();
    snprintf(failure->text, sizeof failure->text, "%s", acre_last_error());
}

acre_status failure_take_locked(struct sim_stream *stream)
{
    struct failure *failure = &stream->failure;
    acre_status status = failure->status;

    failure->status = ACRE_OK;
    if (status == ACRE_OK)
        return ACRE_OK;
    return status_fail_native(status, failure->native, "a task queued earlier failed: %s",
                              failure->text);
}

/* ---- Moving on ------------------------------------------------------------------- */

/* The operation at the head of an owned stream that is not idle. */
static const struct op *head_op(const struct sim_stream *stream)
{
    const struct op *op = &stream->first->op;

    return op->type == OP_GRAPH ? graph_op(op->graph.graph, op->graph.next) : op;
}

/* Tells those who wait for what the stream has reached; parked streams go to work. */
static void wake_locked(struct sim_stream *stream, uint64_t completed, struct list *work)
{
    while (!list_empty(&stream->waiters)) {
        struct waiter *waiter = CONTAINER_OF(stream->waiters.next, struct waiter, link);

        if (waiter->position > completed)
            return;
        list_remove(&waiter->link);
        if (waiter->stream) {
            list_push_back(work, &waiter->stream->link);
        } else {
            waiter->is_reached = true;
            pthread_cond_signal(&waiter->reached);
        }
    }
}

/* Ends the operation at the head. False: the stream is idle, no longer owned. */
static bool sim_queue_finish(struct sim_stream *stream, acre_status status, struct list *work)
{
    struct task *task = stream->first;
    bool has_more;
    uint64_t completed;

    if (task->op.type == OP_GRAPH && ++task->op.graph.next < graph_count(task->op.graph.graph)) {
        if (status != ACRE_OK) {
            lock_take(&stream->slot.lock);
            failure_note_locked(stream, status);
            lock_drop(&stream->slot.lock);
        }
        return true;
    }
    op_fini(&task->op, task);
    lock_take(&stream->slot.lock);
    if (UNLIKELY(status != ACRE_OK))
        failure_note_locked(stream, status);
    stream->first = task->next;
    has_more = stream->first != NULL;
    if (!has_more) {
        stream->last = &stream->first;
        stream->is_active = false;
    }
    task_give_locked(stream, task);
    completed = atomic_load_explicit(&stream->completed, memory_order_relaxed) + 1;
    atomic_store_explicit(&stream->completed, completed, memory_order_release);
    wake_locked(stream, completed, work);
    lock_drop(&stream->slot.lock);
    return has_more;
}

/* Adds a waiter in the order of positions; most come with the highest. */
static void waiter_insert_locked(struct sim_stream *stream, struct waiter *waiter)
{
    struct list *before = &stream->waiters;

    while (before->prev != &stream->waiters &&
           CONTAINER_OF(before->prev, struct waiter, link)->position > waiter->position)
        before = before->prev;
    list_insert(before, &waiter->link);
}

/* Parks an owned stream until another one has reached a position. False when it
 * has; true means that the stream is no longer owned. */
static bool sim_queue_park(struct sim_stream *stream, const struct op *op)
{
    struct sim_stream *target = op->point.stream;
    bool is_parked;

    CHECK(target != stream);
    lock_take(&target->slot.lock);
    is_parked = !stream_reached(target, op->point.position);
    if (is_parked) {
        stream->waiter.position = op->point.position;
        waiter_insert_locked(target, &stream->waiter);
    }
    lock_drop(&target->slot.lock);
    return is_parked;
}

/* Passes the waits at the head of an owned stream. True: what comes next can run.
 * False: the stream is parked or idle and no longer owned. */
static bool sim_queue_step(struct sim_streams *all, struct sim_stream *stream, struct list *work)
{
    for (;;) {
        const struct op *op = head_op(stream);
        acre_status status = ACRE_OK;
        bool is_met = true;

        if (op->type == OP_WAIT_POINT) {
            if (sim_queue_park(stream, op))
                return false;
        } else if (op->type == OP_WAIT_VALUE) {
            status = op_check_value(all, op, &is_met);
            if (status == ACRE_OK && !is_met) {
                workers_watch(&all->workers, stream);
                return false;
            }
        } else {
            return true;
        }
        if (!sim_queue_finish(stream, status, work))
            return false;
    }
}

bool stream_retry_value(struct sim_streams *all, struct sim_stream *stream, struct list *work)
{
    bool is_met = true;
    acre_status status = op_check_value(all, head_op(stream), &is_met);

    if (status == ACRE_OK && !is_met)
        return false;
    if (sim_queue_finish(stream, status, work))
        list_push_back(work, &stream->link);
    return true;
}

void stream_drive(struct sim_streams *all, struct list *work)
{
    while (!list_empty(work)) {
        struct sim_stream *stream = CONTAINER_OF(work->next, struct sim_stream, link);

        list_remove(&stream->link);
        if (sim_queue_step(all, stream, work))
            workers_ready(&all->workers, stream);
    }
}

void stream_drive_one(struct sim_streams *all, struct sim_stream *stream)
{
    struct list work = LIST_INITIALIZER(work);

    list_push_back(&work, &stream->link);
    stream_drive(all, &work);
}

/* Runs the operation at the head. What a function of the user chose for its thread
 * is not seen by the next one. */
static acre_status run_head(struct sim_streams *all, struct sim_stream *stream,
                            struct worker *worker)
{
    const struct op *op = head_op(stream);
    bool is_user = op->type == OP_HOST || op->type == OP_KERNEL;
    acre_status status;

    running = stream;
    if (is_user)
        atomic_store_explicit(&worker->is_in_user, true, memory_order_relaxed);
    status = op_run(all, op);
    if (is_user) {
        atomic_store_explicit(&worker->is_in_user, false, memory_order_relaxed);
        thread_reset();
    }
    running = NULL;
    return status;
}

void stream_run(struct sim_streams *all, struct sim_stream *stream, struct worker *worker)
{
    struct list work = LIST_INITIALIZER(work);

    for (unsigned done = 0; sim_queue_step(all, stream, &work); done++) {
        stream_drive(all, &work); /* before anything that may block */
        if (done && workers_wanted(&all->workers, stream->priority, done)) {
            workers_ready(&all->workers, stream);
            return;
        }
        if (!sim_queue_finish(stream, run_head(all, stream, worker), &work))
            break;
    }
    stream_drive(all, &work);
}

void stream_wait_locked(struct sim_stream *stream, uint64_t position)
{
    struct waiter waiter = {.position = position};

    if (stream_reached(stream, position))
        return;
    lock_condition_init(&waiter.reached);
    waiter_insert_locked(stream, &waiter);
    while (!waiter.is_reached)
        lock_wait(&stream->slot.lock, &waiter.reached);
    pthread_cond_destroy(&waiter.reached);
}
