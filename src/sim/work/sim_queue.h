/* SPDX-License-Identifier: MIT */
/* Streams of the reference device from inside: queues of tasks, and who runs them.
 *
 * Positions. Every task of a stream has a position, counted from 1 and never
 * reset, not even when the slot of a destroyed stream serves a new one. A stream
 * has done everything up to `completed`. So "the work that was queued when the
 * event was recorded" is a pair (stream, position), it is done as soon as
 * completed >= position, and nothing needs to be kept for it. Events, waits and
 * synchronisation are all built on positions.
 *
 * States of a stream, and who may take tasks off its queue:
 *
 *            submit           step: can run              worker picks it
 *   IDLE ───────────► DRIVEN ───────────────► READY ───────────────► RUNNING
 *    ▲                 │  ▲                     ▲                     │ │
 *    │   step: a wait  │  │ position reached,   └──── worker yields ──┘ │
 *    │  that must wait ▼  │ value seen                                  │
 *    │                PARKED ◄─────────── step: a wait ─────────────────┤
 *    └───────────────────────────────── queue empty ◄───────────────────┘
 *
 *   IDLE     is_active is false, the queue is empty
 *   DRIVEN   the thread in stream_drive() owns it; its link is in that call's list
 *   READY    sim_workers owns it; its link is in a ready list
 *   RUNNING  a worker owns it; its link is in no list
 *   PARKED   the stream or value it waits for owns it: its waiter is in the list of
 *            a stream, or its link is in the list of the watcher
 *
 * Exactly one owner at a time; only the owner reads `first`, ends tasks and moves
 * the stream on. Everyone may append, under the stream's lock. Parked streams
 * occupy no thread.
 *
 * Locks: a stream's lock is held for appending and for ending a task, never while
 * a task runs. No thread holds the locks of two streams.
 */
#ifndef SRC_BACKEND_SIM_QUEUE_H
#define SRC_BACKEND_SIM_QUEUE_H

#include "sim/sim.h"
#include "sim/sim_handle.h"
#include "sim/work/sim_worker.h"

#define STREAM_PRIORITY_LEAST 0
#define STREAM_PRIORITY_GREATEST 1

struct sim_stream;
struct sim_event;
struct sim_graph;
struct capture;

enum op_type {
    OP_HOST,
    OP_KERNEL,
    OP_COPY,
    OP_COPY_PEER,
    OP_FILL,
    OP_WRITE_VALUE,
    OP_WAIT_VALUE,  /* parks the stream                                        */
    OP_WAIT_POINT,  /* parks the stream; never part of a graph                 */
    OP_STAMP,       /* writes the time into an event; never part of a graph    */
    OP_MULTICAST,
    OP_GRAPH,       /* the nodes of a graph, one after another                 */
};

/* What a task does, by value. */
struct op {
    enum op_type type;
    int device; /* of the stream it was given to: whose rights it has */
    union {
        struct {
            void (*fn)(void *);
            void *arg;
        } host;
        struct {
            acre_kernel_fn fn;
            void *args; /* private copy: inside the task, or of the heap */
            size_t bytes;
            bool is_shared; /* args are a graph's: each run gets a copy of its own */
        } kernel;
        struct {
            void *dst;
            const void *src;
            size_t bytes;
            int kind;                   /* OP_COPY: an acre_copy_kind, unchecked */
            int dst_device, src_device; /* OP_COPY_PEER                          */
        } copy;
        struct {
            void *dst;
            size_t bytes;
            int value;
        } fill;
        struct {
            void *address;
            uint32_t value;
            int condition; /* an acre_wait_condition */
        } value;
        struct {
            void *handle;
            const void *src;
            size_t offset, bytes;
        } multicast;
        struct {
            struct sim_stream *stream;
            uint64_t position;
        } point;
        struct {
            struct sim_event *event;
            uintptr_t handle;  /* of the event, which may be destroyed meanwhile */
            uint64_t position; /* of this task                                   */
        } stamp;
        struct {
            struct sim_graph *graph; /* holds a reference */
            uint32_t next;           /* node to run       */
        } graph;
    };
};

#define TASK_ARGS_BYTES 64 /* arguments up to this size need no second allocation */
#define TASK_SPARES 16     /* tasks that a stream has without the heap            */

struct task {
    struct task *next; /* in the queue, or among the spare ones */
    bool is_spare;     /* part of stream->slab                  */
    struct op op;
    _Alignas(16) unsigned char args[TASK_ARGS_BYTES];
};

/* Somebody who waits for a stream to reach a position: a parked stream or, when
 * stream is NULL, a thread. */
struct waiter {
    struct list link; /* in stream.waiters of the stream waited for, by position */
    uint64_t position;
    struct sim_stream *stream; /* its owner is this waiter */
    bool is_reached;           /* for threads              */
    pthread_cond_t reached;    /* for threads              */
};

/* The first task that failed since somebody last asked. */
struct failure {
    acre_status status; /* ACRE_OK: none */
    long native;
    char text[240];
};

/* Guarded by slot.lock unless said otherwise. */
struct sim_stream {
    struct slot slot;
    int device;             /* constant while live                                  */
    int priority;           /* constant while live                                  */
    bool is_active;         /* anything but IDLE                                    */
    struct task *first;     /* the one that runs or is next; read by the owner      */
    struct task **last;     /* where the next task is linked in                     */
    struct task *spare;     /* unused tasks of slab                                 */
    struct task *slab;      /* TASK_SPARES tasks; NULL while the slot is unused     */
    _Atomic uint64_t submitted; /* position of the last task; written under lock    */
    _Atomic uint64_t completed; /* written under lock                               */
    struct list waiters;    /* struct waiter, lowest position first                 */
    struct waiter waiter;   /* of this stream, while parked at a position           */
    struct list link;       /* belongs to the owner                                 */
    struct failure failure;
    struct capture *capture; /* also needs captures.lock to change                  */
    struct list capture_link;    /* in capture->streams; under captures.lock        */
    uint32_t *terminals;         /* node indices; under captures.lock               */
    uint32_t terminal_count;
};

/* Running captures. */
struct captures {
    struct lock lock; /* RANK_GRAPH */
    struct list list; /* struct capture */
    _Atomic uint32_t count;
};

/* Everything the stream half holds. */
struct sim_streams {
    struct sim *sim;
    struct slots streams, events, graphs;
    _Atomic uintptr_t defaults[SIM_DEVICES_MAX]; /* default streams, 0: not yet made */
    _Atomic uint32_t default_count;
    atomic_bool is_closing; /* value waits are given up */
    struct captures captures;
    struct sim_workers workers;
};

/* Prepares a fresh slot. */
void stream_slot_init(struct slot *slot);

/* Makes a stream. Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_LIMIT. */
acre_status stream_open(struct sim_streams *all, int device, int priority, void **out);
/* Runs what is queued, then destroys it. Errors: ACRE_ERR_INVALID, ACRE_ERR_STATE
 * when called by a task of the stream itself. */
acre_status stream_close(struct sim_streams *all, int device, void *handle);

/* Finds a live stream and takes its lock. NULL is the default stream of device,
 * made at first use. device -1 accepts a stream of any device, but not NULL.
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY. */
acre_status stream_lock(struct sim_streams *all, int device, void *handle,
                        struct sim_stream **out);

/* Whether a handle is that of a stream; the stream is not kept. */
acre_status stream_check(struct sim_streams *all, int device, void *handle);

/* Queues an operation, or adds it to the running capture. Kernel arguments are
 * copied; a graph gets a reference of its own. */
acre_status stream_submit(struct sim_streams *all, int device, void *handle,
                          const struct op *op);
/* Submits to a locked stream that is not capturing. *is_owner tells that the
 * stream was idle: the caller drops the lock and calls stream_drive_one. */
acre_status stream_append_locked(struct sim_stream *stream, const struct op *op,
                                 bool *is_owner);

/* Moves streams on that nobody else owns, until each is ready, parked or idle.
 * No lock may be held. */
void stream_drive(struct sim_streams *all, struct list *work);
void stream_drive_one(struct sim_streams *all, struct sim_stream *stream);
/* Runs a stream on a worker thread until it is parked, idle or handed on. */
void stream_run(struct sim_streams *all, struct sim_stream *stream, struct worker *worker);
/* Looks again at the value a parked stream waits for. Whether the wait is over;
 * then the stream may have gone to work. */
bool stream_retry_value(struct sim_streams *all, struct sim_stream *stream,
                        struct list *work);

/* Whether a position was reached. */
static inline bool stream_reached(struct sim_stream *stream, uint64_t position)
{
    return atomic_load_explicit(&stream->completed, memory_order_acquire) >= position;
}

/* Waits on this thread, with the stream's lock held before and after. The stream
 * may be destroyed and its slot be another stream afterwards. */
void stream_wait_locked(struct sim_stream *stream, uint64_t position);

/* The stream whose task runs on this thread, or NULL. */
struct sim_stream *stream_running(void);

/* Reports a failure once: takes it, records its text and returns its status. */
acre_status failure_take_locked(struct sim_stream *stream);

/* Frees what an operation owns. */
void op_fini(struct op *op, const struct task *task);
/* Does what an operation says; no lock is held (sim_copy.c). */
acre_status op_run(struct sim_streams *all, const struct op *op);
/* Whether the condition of an OP_WAIT_VALUE holds (sim_copy.c). */
acre_status op_check_value(struct sim_streams *all, const struct op *op, bool *out_met);

#endif
