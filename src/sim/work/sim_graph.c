/* SPDX-License-Identifier: MIT */
/* Graphs of the reference device: arrays of nodes that run one after another on
 * the stream they are launched on. See sim_capture.h. */
#include "sim/work/sim_capture.h"
#include "sim/work/sim_stream.h"
#include "base/heap.h"

#include <string.h>

/* Id of the latest node of the process. */
static _Atomic uint64_t node_last;

void graph_slot_init(struct slot *slot)
{
    (void)slot;
}

struct sim_graph *graph_create(int device)
{
    struct sim_graph *graph = heap_zalloc(sizeof *graph);

    if (graph) {
        atomic_init(&graph->refs, 1);
        graph->device = device;
    }
    return graph;
}

void graph_ref(struct sim_graph *graph)
{
    atomic_fetch_add_explicit(&graph->refs, 1, memory_order_relaxed);
}

void graph_unref(struct sim_graph *graph)
{
    if (!graph || atomic_fetch_sub_explicit(&graph->refs, 1, memory_order_acq_rel) > 1)
        return;
    graph_cut(graph, 0);
    heap_free(graph->nodes);
    heap_free(graph->terminals);
    heap_free(graph);
}

void graph_cut(struct sim_graph *graph, uint32_t count)
{
    while (graph->count > count) {
        struct node *node = &graph->nodes[--graph->count];

        op_fini(&node->op, NULL);
        heap_free(node->needs);
    }
}

/* Makes room for one more node. */
static acre_status sim_graph_reserve(struct sim_graph *graph)
{
    uint32_t capacity = graph->capacity ? 2 * graph->capacity : 8;
    struct node *nodes;

    if (graph->count < graph->capacity)
        return ACRE_OK;
    nodes = heap_realloc(graph->nodes, capacity * sizeof *nodes);
    if (!nodes)
        return ACRE_ERR_HOST_MEMORY;
    graph->nodes = nodes;
    graph->capacity = capacity;
    return ACRE_OK;
}

acre_status graph_add(struct sim_graph *graph, const struct op *op, const uint32_t *needs,
                      uint32_t need_count)
{
    struct node node = {.op = *op, .need_count = need_count};

    if (sim_graph_reserve(graph) != ACRE_OK)
        return ACRE_ERR_HOST_MEMORY;
    if (need_count > 0) {
        node.needs = heap_alloc(need_count * sizeof *needs);
        if (!node.needs)
            return ACRE_ERR_HOST_MEMORY;
        memcpy(node.needs, needs, need_count * sizeof *needs);
    }
    if (op->type == OP_KERNEL && op->kernel.bytes > 0) {
        node.op.kernel.args = heap_alloc(op->kernel.bytes);
        if (!node.op.kernel.args) {
            heap_free(node.needs);
            return ACRE_ERR_HOST_MEMORY;
        }
        memcpy(node.op.kernel.args, op->kernel.args, op->kernel.bytes);
        node.op.kernel.is_shared = true;
    }
    node.id = atomic_fetch_add_explicit(&node_last, 1, memory_order_relaxed) + 1;
    graph->nodes[graph->count++] = node;
    return ACRE_OK;
}

acre_status graph_publish(struct sim_streams *all, struct sim_graph *graph, void **out)
{
    struct slot *slot;
    acre_status status = slots_take(&all->graphs, &slot);

    if (status != ACRE_OK)
        return status;
    lock_take(&slot->lock);
    ((struct graph_slot *)slot)->graph = graph;
    *out = slot_open(slot);
    lock_drop(&slot->lock);
    return ACRE_OK;
}

/* Finds a live graph of a device; its slot's lock is held then. */
static acre_status graph_lock(struct sim_streams *all, int device, void *handle,
                              struct graph_slot **out)
{
    struct graph_slot *slot = (struct graph_slot *)slots_lock(&all->graphs, handle);

    if (!slot)
        return status_fail(ACRE_ERR_INVALID, "%p is not a live graph of this backend", handle);
    if (slot->graph->device != device) {
        int actual = slot->graph->device;

        lock_drop(&slot->slot.lock);
        return status_fail(ACRE_ERR_INVALID, "graph %p belongs to device %d, not to %d", handle,
                           actual, device);
    }
    *out = slot;
    return ACRE_OK;
}

acre_status sim_graph_launch(void *self, int device, void *handle, void *stream)
{
    struct sim *sim = self;
    struct op op = {.type = OP_GRAPH, .device = device};
    struct graph_slot *slot;
    acre_status status = sim_enter(sim, ACRE_SIM_GRAPH_LAUNCH, device, 0);

    if (status == ACRE_OK)
        status = graph_lock(sim->streams, device, handle, &slot);
    if (status != ACRE_OK)
        return status;
    op.graph.graph = slot->graph;
    graph_ref(slot->graph);
    lock_drop(&slot->slot.lock);
    if (op.graph.graph->count > 0)
        status = stream_submit(sim->streams, device, stream, &op);
    else
        status = stream_check(sim->streams, device, stream); /* nothing to run */
    graph_unref(op.graph.graph);
    return status;
}

acre_status sim_graph_destroy(void *self, int device, void *handle)
{
    struct sim *sim = self;
    struct sim_graph *graph;
    struct graph_slot *slot;
    acre_status status = sim_enter_plain(sim, device);

    if (status == ACRE_OK)
        status = graph_lock(sim->streams, device, handle, &slot);
    if (status != ACRE_OK)
        return status;
    graph = slot->graph;
    slot->graph = NULL;
    slot_close_locked(&slot->slot);
    lock_drop(&slot->slot.lock);
    slots_give(&sim->streams->graphs, &slot->slot);
    graph_unref(graph);
    return ACRE_OK;
}
