/* SPDX-License-Identifier: MIT */
/* Captures of the reference device: streams whose work becomes a graph. See
 * sim_capture.h. Order of locks: captures, event, stream. */
#include "sim/work/sim_capture.h"

#include "sim/work/sim_event.h"
#include "sim/work/sim_stream.h"
#include "base/heap.h"

#include <string.h>

/* Id of the latest capture of the process. */
static _Atomic uint64_t capture_last;

static acre_status sim_capture_refused(const struct capture *capture)
{
    return status_fail(ACRE_ERR_STATE,
                       "capture %llu was invalidated by %s; end it on the stream "
                       "that began it",
                       (unsigned long long)capture->id, capture->reason);
}

/* The first reason stays. */
static void sim_capture_invalidate(struct capture *capture, const char *reason)
{
    if (!capture->reason)
        capture->reason = reason;
}

static struct capture *find_locked(struct sim_streams *all, uint64_t id)
{
    LIST_FOR_EACH(link, &all->captures.list)
        if (CONTAINER_OF(link, struct capture, link)->id == id)
            return CONTAINER_OF(link, struct capture, link);
    return NULL;
}

/* ---- Streams that take part ------------------------------------------------------- */
/* Takes a stream in that does not capture yet. terminals is of the heap, may be NULL,
 * and becomes the stream's on success. */
static acre_status join_locked(struct sim_streams *all, struct capture *capture, int device,
                               void *handle, uint32_t *terminals, uint32_t count)
{
    struct sim_stream *stream;
    acre_status status = stream_lock(all, device, handle, &stream);

    if (status != ACRE_OK)
        return status;
    stream->capture = capture;
    stream->terminals = terminals;
    stream->terminal_count = count;
    list_push_back(&capture->streams, &stream->capture_link);
    lock_drop(&stream->slot.lock);
    return ACRE_OK;
}

/* Lets a stream go; its lock is not held. */
static void leave_locked(struct sim_stream *stream)
{
    list_remove(&stream->capture_link);
    lock_take(&stream->slot.lock);
    stream->capture = NULL;
    lock_drop(&stream->slot.lock);
    heap_free(stream->terminals);
    stream->terminals = NULL;
    stream->terminal_count = 0;
}

/* Ends a capture: its streams are free again, its graph loses this reference. */
static void end_locked(struct sim_streams *all, struct capture *capture)
{
    LIST_FOR_EACH_SAFE(link, after, &capture->streams)
        leave_locked(CONTAINER_OF(link, struct sim_stream, capture_link));
    list_remove(&capture->link);
    atomic_fetch_sub(&all->captures.count, 1);
    graph_unref(capture->graph);
    heap_free(capture);
}

/* The capture of a stream. The lock of the captures is held, so it stays one; *out is
 * NULL when the stream does not capture, and then it may be destroyed at any time. */
static acre_status capture_of_locked(struct sim_streams *all, int device, void *handle,
                                     struct sim_stream **out_stream, struct capture **out)
{
    acre_status status = stream_lock(all, device, handle, out_stream);

    if (status != ACRE_OK)
        return status;
    *out = (*out_stream)->capture;
    lock_drop(&(*out_stream)->slot.lock);
    return ACRE_OK;
}

/* Adds nodes to the terminals of a stream, each once. */
static acre_status merge_locked(struct sim_stream *stream, const uint32_t *nodes, uint32_t count)
{
    uint32_t have = stream->terminal_count;
    uint32_t *merged = heap_array(have + count + 1, sizeof *merged);

    if (!merged)
        return ACRE_ERR_HOST_MEMORY;
    if (have)
        memcpy(merged, stream->terminals, have * sizeof *merged);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = 0;

        while (j < have && merged[j] != nodes[i])
            j++;
        if (j == have)
            merged[have++] = nodes[i];
    }
    heap_free(stream->terminals);
    stream->terminals = merged;
    stream->terminal_count = have;
    return ACRE_OK;
}

/* ---- Work of capturing streams ------------------------------------------------------ */
/* Makes one node what comes last on a stream. */
static acre_status add_node_locked(struct sim_stream *stream, const struct op *op)
{
    struct sim_graph *graph = stream->capture->graph;
    acre_status status;

    if (!stream->terminals) {
        stream->terminals = heap_alloc(sizeof *stream->terminals);
        if (!stream->terminals)
            return ACRE_ERR_HOST_MEMORY;
    }
    status = graph_add(graph, op, stream->terminals, stream->terminal_count);
    if (status == ACRE_OK) {
        stream->terminals[0] = graph->count - 1;
        stream->terminal_count = 1;
    }
    return status;
}

/* One node of a graph that is launched inside a capture. base is the place of its
 * first node; nodes without needs follow the terminals of the stream. */
static acre_status add_inner_locked(struct sim_stream *stream, const struct node *node,
                                    uint32_t base)
{
    struct sim_graph *graph = stream->capture->graph;
    acre_status status;

    if (node->need_count == 0)
        return graph_add(graph, &node->op, stream->terminals, stream->terminal_count);
    status = graph_add(graph, &node->op, node->needs, node->need_count);
    for (uint32_t i = 0; status == ACRE_OK && i < node->need_count; i++)
        graph->nodes[graph->count - 1].needs[i] += base;
    return status;
}

/* Launching a graph inside a capture adds a copy of its nodes. */
static acre_status add_graph_locked(struct sim_stream *stream, const struct sim_graph *inner)
{
    struct sim_graph *graph = stream->capture->graph;
    uint32_t base = graph->count;
    uint32_t *terminals = heap_array(inner->terminal_count + 1, sizeof *terminals);
    acre_status status = terminals ? ACRE_OK : ACRE_ERR_HOST_MEMORY;

    for (uint32_t i = 0; status == ACRE_OK && i < inner->count; i++)
        status = add_inner_locked(stream, &inner->nodes[i], base);
    if (status != ACRE_OK) {
        graph_cut(graph, base);
        heap_free(terminals);
        return status;
    }
    for (uint32_t i = 0; i < inner->terminal_count; i++)
        terminals[i] = base + inner->terminals[i];
    heap_free(stream->terminals);
    stream->terminals = terminals;
    stream->terminal_count = inner->terminal_count;
    return ACRE_OK;
}

acre_status capture_add(struct sim_streams *all, void *handle, const struct op *op,
                        bool *is_captured)
{
    struct sim_stream *stream;
    struct capture *capture;
    acre_status status;

    lock_take(&all->captures.lock);
    status = capture_of_locked(all, -1, handle, &stream, &capture);
    *is_captured = status == ACRE_OK && capture;
    if (*is_captured && capture->reason)
        status = sim_capture_refused(capture);
    else if (*is_captured && op->type == OP_GRAPH)
        status = add_graph_locked(stream, op->graph.graph);
    else if (*is_captured)
        status = add_node_locked(stream, op);
    lock_drop(&all->captures.lock);
    return status;
}

/* ---- Events ------------------------------------------------------------------------- */
/* Marks a locked event with the terminals of a stream. */
static acre_status mark_locked(struct sim_event *event, const struct sim_stream *stream)
{
    uint32_t count = stream->terminal_count;
    struct capture_mark *mark = heap_alloc(sizeof *mark + count * sizeof mark->nodes[0]);

    if (!mark)
        return ACRE_ERR_HOST_MEMORY;
    mark->capture_id = stream->capture->id;
    mark->count = count;
    if (count)
        memcpy(mark->nodes, stream->terminals, count * sizeof mark->nodes[0]);
    heap_free(event->mark);
    event->mark = mark;
    return ACRE_OK;
}

acre_status capture_record(struct sim_streams *all, int device, void *event_handle,
                           void *stream_handle, bool *is_captured)
{
    struct sim_stream *stream;
    struct sim_event *event;
    struct capture *capture;
    acre_status status;

    *is_captured = true;
    lock_take(&all->captures.lock);
    status = event_lock(all, device, event_handle, &event);
    if (status == ACRE_OK) {
        status = capture_of_locked(all, device, stream_handle, &stream, &capture);
        if (status == ACRE_OK && !capture)
            *is_captured = false;
        else if (status == ACRE_OK)
            status = capture->reason ? sim_capture_refused(capture) : mark_locked(event, stream);
        lock_drop(&event->slot.lock);
    }
    lock_drop(&all->captures.lock);
    return status;
}

/* A stream that does not capture yet joins the capture of an event. */
static acre_status fork_locked(struct sim_streams *all, struct capture *capture, int device,
                               void *handle, const struct capture_mark *mark)
{
    uint32_t *terminals = heap_array(mark->count + 1, sizeof *terminals);
    acre_status status;

    if (!terminals)
        return ACRE_ERR_HOST_MEMORY;
    memcpy(terminals, mark->nodes, mark->count * sizeof *terminals);
    status = join_locked(all, capture, device, handle, terminals, mark->count);
    if (status != ACRE_OK)
        heap_free(terminals);
    return status;
}

/* Whether a stream of capture (NULL: of none) may wait for an event of from (NULL: of
 * a capture that has ended). */
static acre_status check_wait_locked(struct capture *capture, struct capture *from,
                                     const struct capture_mark *mark)
{
    if (from && (!capture || capture == from))
        return from->reason ? sim_capture_refused(from) : ACRE_OK;
    if (capture)
        sim_capture_invalidate(capture, "a wait for an event of another capture");
    if (from)
        sim_capture_invalidate(from, "a wait by a stream of another capture");
    return status_fail(ACRE_ERR_STATE,
                       "the event was recorded in capture %llu, which the "
                       "stream cannot join",
                       (unsigned long long)mark->capture_id);
}

acre_status capture_wait(struct sim_streams *all, int device, void *stream_handle,
                         void *event_handle, bool *is_captured)
{
    struct sim_stream *stream;
    struct sim_event *event;
    struct capture *capture, *from;
    acre_status status;

    *is_captured = true;
    lock_take(&all->captures.lock);
    status = event_lock(all, -1, event_handle, &event);
    if (status != ACRE_OK)
        goto drop_captures;
    status = capture_of_locked(all, device, stream_handle, &stream, &capture);
    if (status != ACRE_OK)
        goto drop_event;
    if (event->mark) {
        from = find_locked(all, event->mark->capture_id);
        status = check_wait_locked(capture, from, event->mark);
        if (status == ACRE_OK && !capture)
            status = fork_locked(all, from, device, stream_handle, event->mark);
        else if (status == ACRE_OK)
            status = merge_locked(stream, event->mark->nodes, event->mark->count);
    } else if (!capture) {
        *is_captured = false;
    } else if (capture->reason) {
        status = sim_capture_refused(capture);
    } else if (event->stream) {
        sim_capture_invalidate(capture, "a wait for an event that was recorded outside of it");
        status = sim_capture_refused(capture);
    }
drop_event:
    lock_drop(&event->slot.lock);
drop_captures:
    lock_drop(&all->captures.lock);
    return status;
}

/* ---- What a capture does not survive ---------------------------------------------- */
acre_status capture_refuse_stream(struct sim_streams *all, void *handle, const char *call)
{
    struct sim_stream *stream;
    struct capture *capture;
    acre_status status;

    lock_take(&all->captures.lock);
    status = capture_of_locked(all, -1, handle, &stream, &capture);
    if (status == ACRE_OK) {
        if (capture)
            sim_capture_invalidate(capture, call);
        status = status_fail(ACRE_ERR_STATE, "%s is not possible while stream %p captures", call,
                             handle);
    }
    lock_drop(&all->captures.lock);
    return status;
}

acre_status capture_refuse_event(struct sim_streams *all, uint64_t capture_id, const char *call)
{
    struct capture *capture;

    lock_take(&all->captures.lock);
    capture = find_locked(all, capture_id);
    if (capture)
        sim_capture_invalidate(capture, call);
    lock_drop(&all->captures.lock);
    return status_fail(ACRE_ERR_STATE,
                       "%s is not possible: the event was recorded in capture "
                       "%llu, not in a stream that runs",
                       call, (unsigned long long)capture_id);
}

acre_status capture_refuse_device(struct sim_streams *all, int device, const char *call)
{
    bool is_found = false;

    if (atomic_load(&all->captures.count) == 0)
        return ACRE_OK;
    lock_take(&all->captures.lock);
    LIST_FOR_EACH(it, &all->captures.list) {
        struct capture *capture = CONTAINER_OF(it, struct capture, link);

        LIST_FOR_EACH(link, &capture->streams) {
            if (CONTAINER_OF(link, struct sim_stream, capture_link)->device == device) {
                sim_capture_invalidate(capture, call);
                is_found = true;
            }
        }
    }
    lock_drop(&all->captures.lock);
    if (!is_found)
        return ACRE_OK;
    return status_fail(ACRE_ERR_STATE, "%s is not possible while a stream of device %d captures",
                       call, device);
}

void capture_leave(struct sim_streams *all, void *handle)
{
    struct sim_stream *stream;
    struct capture *capture;

    lock_take(&all->captures.lock);
    if (capture_of_locked(all, -1, handle, &stream, &capture) == ACRE_OK && capture) {
        sim_capture_invalidate(capture, "stream_destroy");
        if (capture->origin == stream)
            end_locked(all, capture);
        else
            leave_locked(stream);
    }
    lock_drop(&all->captures.lock);
}

void capture_drop_all(struct sim_streams *all)
{
    lock_take(&all->captures.lock);
    while (!list_empty(&all->captures.list))
        end_locked(all, CONTAINER_OF(all->captures.list.next, struct capture, link));
    lock_drop(&all->captures.lock);
}

/* ---- Entries of the table ------------------------------------------------------------ */
/* Makes a capture that has no stream yet. */
static struct capture *capture_create(int device)
{
    struct capture *capture = heap_zalloc(sizeof *capture);

    if (!capture)
        return NULL;
    list_init(&capture->streams);
    capture->id = atomic_fetch_add(&capture_last, 1) + 1;
    capture->graph = graph_create(device);
    if (capture->graph)
        return capture;
    heap_free(capture);
    return NULL;
}

acre_status sim_capture_begin(void *self, int device, void *handle)
{
    struct sim *sim = self;
    struct sim_streams *all = sim->streams;
    struct capture *capture, *present;
    acre_status status = sim_enter(sim, ACRE_SIM_CAPTURE, device, 0);

    if (status != ACRE_OK)
        return status;
    capture = capture_create(device);
    if (!capture)
        return ACRE_ERR_HOST_MEMORY;
    lock_take(&all->captures.lock);
    status = capture_of_locked(all, device, handle, &capture->origin, &present);
    if (status == ACRE_OK && present)
        status = status_fail(ACRE_ERR_STATE, "stream %p captures already, as part of capture %llu",
                             handle, (unsigned long long)present->id);
    if (status == ACRE_OK)
        status = join_locked(all, capture, device, handle, NULL, 0);
    if (status == ACRE_OK) {
        list_push_back(&all->captures.list, &capture->link);
        atomic_fetch_add(&all->captures.count, 1);
        capture = NULL;
    }
    lock_drop(&all->captures.lock);
    if (capture) {
        graph_unref(capture->graph);
        heap_free(capture);
    }
    return status;
}

/* How many nodes the end of the origin does not depend on: streams that were not
 * joined. Errors: ACRE_ERR_HOST_MEMORY. */
static acre_status count_unjoined(const struct capture *capture, uint32_t *out)
{
    const struct sim_graph *graph = capture->graph;
    const struct sim_stream *origin = capture->origin;
    unsigned char *is_joined = heap_zalloc(graph->count);

    if (!is_joined)
        return ACRE_ERR_HOST_MEMORY;
    *out = 0;
    for (uint32_t i = 0; i < origin->terminal_count; i++)
        is_joined[origin->terminals[i]] = 1;
    for (uint32_t i = graph->count; i-- > 0;) {
        const struct node *node = &graph->nodes[i];

        *out += !is_joined[i];
        for (uint32_t n = 0; is_joined[i] && n < node->need_count; n++)
            is_joined[node->needs[n]] = 1;
    }
    heap_free(is_joined);
    return ACRE_OK;
}

/* Ends a capture on its origin. When host memory is short, it goes on. */
static acre_status finish_locked(struct sim_streams *all, struct capture *capture, void **out_graph)
{
    struct sim_graph *graph = capture->graph;
    uint32_t unjoined;
    acre_status status;

    if (capture->reason) {
        status = status_fail(ACRE_ERR_STATE,
                             "capture %llu gives no graph: it was invalidated "
                             "by %s",
                             (unsigned long long)capture->id, capture->reason);
        end_locked(all, capture);
        return status;
    }
    status = count_unjoined(capture, &unjoined);
    if (status != ACRE_OK)
        return status;
    if (unjoined) {
        status = status_fail(ACRE_ERR_STATE,
                             "capture %llu gives no graph: the stream that began "
                             "it does not wait for %u of its %u nodes; join all streams by events",
                             (unsigned long long)capture->id, unjoined, graph->count);
        end_locked(all, capture);
        return status;
    }
    status = graph_publish(all, graph, out_graph);
    if (status != ACRE_OK)
        return status;
    graph->terminals = capture->origin->terminals;
    graph->terminal_count = capture->origin->terminal_count;
    capture->origin->terminals = NULL;
    capture->graph = NULL;
    end_locked(all, capture);
    return ACRE_OK;
}

acre_status sim_capture_end(void *self, int device, void *handle, void **out_graph)
{
    struct sim *sim = self;
    struct sim_streams *all = sim->streams;
    struct sim_stream *stream;
    struct capture *capture;
    acre_status status = sim_enter(sim, ACRE_SIM_CAPTURE, device, 0);

    if (status == ACRE_OK && !out_graph)
        status = status_fail(ACRE_ERR_INVALID, "capture_end: no place for the graph (NULL)");
    if (status != ACRE_OK)
        return status;
    lock_take(&all->captures.lock);
    status = capture_of_locked(all, device, handle, &stream, &capture);
    if (status == ACRE_OK && !capture) {
        status = status_fail(ACRE_ERR_STATE, "stream %p does not capture", handle);
    } else if (status == ACRE_OK && capture->origin != stream) {
        sim_capture_invalidate(capture, "capture_end on a stream that did not begin it");
        status = sim_capture_refused(capture);
    } else if (status == ACRE_OK) {
        status = finish_locked(all, capture, out_graph);
    }
    lock_drop(&all->captures.lock);
    return status;
}

acre_status sim_capture_info(void *self, int device, void *handle, acre_capture_info *out_info)
{
    struct sim *sim = self;
    struct sim_streams *all = sim->streams;
    struct sim_stream *stream;
    struct capture *capture;
    acre_capture_info info = {.struct_size = sizeof info, .status = ACRE_CAPTURE_NONE};
    acre_status status = sim_enter_plain(sim, device);

    if (status == ACRE_OK && !out_info)
        status = status_fail(ACRE_ERR_INVALID, "capture_info: no place for it (NULL)");
    if (status != ACRE_OK)
        return status;
    lock_take(&all->captures.lock);
    status = capture_of_locked(all, device, handle, &stream, &capture);
    if (status == ACRE_OK && capture) {
        info.status = capture->reason ? ACRE_CAPTURE_INVALIDATED : ACRE_CAPTURE_ACTIVE;
        info.id = capture->id;
        info.terminal_count = stream->terminal_count;
        for (uint32_t i = 0; i < stream->terminal_count && i < 16; i++)
            info.terminals[i] = capture->graph->nodes[stream->terminals[i]].id;
    }
    lock_drop(&all->captures.lock);
    if (status == ACRE_OK)
        *out_info = info;
    return status;
}

/* The node of an id, or NULL; ids grow along the array. */
static const struct node *find_node(const struct sim_graph *graph, uint64_t id)
{
    uint32_t low = 0, high = graph->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (graph->nodes[middle].id == id)
            return &graph->nodes[middle];
        if (graph->nodes[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

acre_status sim_capture_dependencies(void *self, int device, uint64_t capture_id, uint64_t id,
                                     uint64_t *out_nodes, uint32_t capacity, uint32_t *out_count)
{
    struct sim *sim = self;
    struct sim_streams *all = sim->streams;
    const struct capture *capture;
    const struct node *node;
    acre_status status = sim_enter_plain(sim, device);

    if (status == ACRE_OK && (!out_count || (!out_nodes && capacity)))
        status = status_fail(ACRE_ERR_INVALID, "capture_dependencies: no place for them (NULL)");
    if (status != ACRE_OK)
        return status;
    lock_take(&all->captures.lock);
    capture = find_locked(all, capture_id);
    node = capture ? find_node(capture->graph, id) : NULL;
    if (!node) {
        status = status_fail(ACRE_ERR_NOT_FOUND, "capture %llu is not running or has no node %llu",
                             (unsigned long long)capture_id, (unsigned long long)id);
    } else {
        *out_count = node->need_count;
        for (uint32_t i = 0; i < node->need_count && i < capacity; i++)
            out_nodes[i] = capture->graph->nodes[node->needs[i]].id;
    }
    lock_drop(&all->captures.lock);
    return status;
}
