/* SPDX-License-Identifier: MIT */
/* Captures and graphs of the reference device.
 *
 * A graph is an array of nodes; a node depends only on nodes before it, so the order
 * of the array is an order to run them in. While a stream captures, its work becomes
 * nodes. Each capturing stream has terminals: the nodes its next node depends on.
 * An event recorded there is marked with them; a stream that waits for such an event
 * joins the capture, or adds them to its own terminals.
 *
 *          capture_begin               anything that cannot be captured
 *   NONE ─────────────────► ACTIVE ──────────────────────────────► INVALIDATED
 *    ▲                        │                                        │
 *    └── capture_end, graph ──┘◄── capture_end: ACRE_ERR_STATE ─────────┘
 *
 * Always: a capture has an origin, the stream that began it, which is one of its
 * streams; destroying the origin ends the capture.
 *
 * captures.lock guards everything here except finished graphs, which are constant
 * and counted.
 */
#ifndef SRC_BACKEND_SIM_CAPTURE_H
#define SRC_BACKEND_SIM_CAPTURE_H

#include "sim/work/sim_queue.h"

struct node {
    uint64_t id;         /* unique in the process, grows within a graph */
    struct op op;        /* owns kernel arguments                       */
    uint32_t *needs;     /* indices of nodes before; NULL when none     */
    uint32_t need_count;
};

struct sim_graph {
    _Atomic uint32_t refs;
    int device;         /* of the origin                              */
    uint32_t count;     /* nodes                                      */
    uint32_t capacity;
    struct node *nodes;
    uint32_t *terminals; /* what a node after the graph depends on    */
    uint32_t terminal_count;
};

/* What a handle of a graph names. */
struct graph_slot {
    struct slot slot;
    struct sim_graph *graph;
};

struct capture {
    struct list link;          /* in captures.list                     */
    uint64_t id;               /* unique in the process                */
    struct sim_stream *origin;
    struct list streams;       /* sim_stream.capture_link              */
    struct sim_graph *graph;   /* grows                                */
    const char *reason;        /* why it is invalidated; NULL: it is not */
};

/* What a captured event stands for. */
struct capture_mark {
    uint64_t capture_id;
    uint32_t count;
    uint32_t nodes[];
};

/* ---- Graphs (sim_graph.c) ------------------------------------------------------ */

struct sim_graph *graph_create(int device);
void graph_ref(struct sim_graph *graph);
void graph_unref(struct sim_graph *graph);
static inline uint32_t graph_count(const struct sim_graph *graph)
{
    return graph->count;
}
static inline const struct op *graph_op(const struct sim_graph *graph, uint32_t index)
{
    return &graph->nodes[index].op;
}
/* Appends a node. needs is copied. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status graph_add(struct sim_graph *graph, const struct op *op, const uint32_t *needs,
                      uint32_t need_count);
/* Takes back nodes from the end until count are left. */
void graph_cut(struct sim_graph *graph, uint32_t count);
/* Makes a finished graph known under a handle, which then owns the reference. */
acre_status graph_publish(struct sim_streams *all, struct sim_graph *graph, void **out);
/* Prepares a fresh slot. */
void graph_slot_init(struct slot *slot);

/* ---- Captures (sim_capture.c) ---------------------------------------------------- */

/* Adds an operation to the capture a stream takes part in. *is_captured is false
 * when the stream no longer captures. */
acre_status capture_add(struct sim_streams *all, void *handle, const struct op *op,
                        bool *is_captured);
/* Records an event on a capturing stream, and makes a stream wait for an event when
 * one of them is captured. *is_captured is false when neither is. */
acre_status capture_record(struct sim_streams *all, int device, void *event, void *stream,
                           bool *is_captured);
acre_status capture_wait(struct sim_streams *all, int device, void *stream, void *event,
                         bool *is_captured);
/* A call that no capture survives was made on a capturing stream, on a captured
 * event (0: unknown to any running capture), or on a whole device. Invalidates and
 * answers ACRE_ERR_STATE; the device form answers ACRE_OK when nothing captures. */
acre_status capture_refuse_stream(struct sim_streams *all, void *handle, const char *call);
acre_status capture_refuse_event(struct sim_streams *all, uint64_t capture_id,
                                 const char *call);
acre_status capture_refuse_device(struct sim_streams *all, int device, const char *call);
/* A capturing stream is about to be destroyed: takes it out of its capture. */
void capture_leave(struct sim_streams *all, void *handle);
/* Ends all captures without graphs. */
void capture_drop_all(struct sim_streams *all);

#endif
