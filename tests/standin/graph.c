/* SPDX-License-Identifier: MIT */
/* Stream capture and graphs.
 *
 * Calls that could upset a capture are refused while one runs, unless the thread
 * says that it knows what it does (cuThreadExchangeStreamCaptureMode).
 */
#include "tests/standin/graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NODE_BASE 0x5d0000000000

/* What a graph and its executable forms share. */
struct body {
    int refs;
    int device;
    void *sim;
};

struct graph {
    struct object object;
    struct body *body; /* NULL while it is captured */
};

struct exec {
    struct object object;
    struct body *body;
};

/* A capture under way. */
struct capture {
    struct list link;
    uint64_t id;
    int device;
    unsigned mode;
    pthread_t thread;
    void *stream; /* handle of the one that began it */
};

static struct list captures = LIST_INITIALIZER(captures);
static _Thread_local unsigned thread_mode; /* CU_STREAM_CAPTURE_MODE_* */

static int forbids(const struct capture *capture)
{
    int is_mine = pthread_equal(capture->thread, pthread_self());

    if (thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
        return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
               (is_mine && capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    return is_mine && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult capture_allows(void)
{
    CUresult result = CUDA_SUCCESS;

    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    books_lock();
    LIST_FOR_EACH(it, &captures)
        if (forbids(CONTAINER_OF(it, struct capture, link)))
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    books_unlock();
    return result;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTRY(cuThreadExchangeStreamCaptureMode);
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* ---- Captures ------------------------------------------------------------------------- */

static struct capture *capture_of_locked(const void *stream)
{
    LIST_FOR_EACH(it, &captures) {
        struct capture *capture = CONTAINER_OF(it, struct capture, link);

        if (capture->stream == stream)
            return capture;
    }
    return NULL;
}

void capture_forget_locked(const void *stream)
{
    struct capture *capture = capture_of_locked(stream);

    if (!capture)
        return;
    list_remove(&capture->link);
    free(capture);
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    struct capture *capture;
    acre_capture_info info = {.struct_size = sizeof info};
    struct place at;

    ENTRY(cuStreamBeginCapture_v2);
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if ((uintptr_t)handle < 3)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* the default stream */
    CUresult result = stream_place(handle, &at);
    if (result)
        return result;
    capture = calloc(1, sizeof *capture);
    if (!capture)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (standin.ops->capture_begin(standin.self, at.device, at.sim) != ACRE_OK ||
        standin.ops->capture_info(standin.self, at.device, at.sim, &info) != ACRE_OK) {
        free(capture);
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    *capture = (struct capture){.id = info.id, .device = at.device, .mode = mode,
                                .thread = pthread_self(), .stream = handle};
    books_lock();
    list_push_back(&captures, &capture->link);
    books_unlock();
    return CUDA_SUCCESS;
}

/* Who may end a capture. */
static CUresult end_check(CUstream handle)
{
    CUresult result = CUDA_SUCCESS;

    books_lock();
    struct capture *capture = capture_of_locked(handle);
    if (capture && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self()))
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    else if (!capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    books_unlock();
    return result;
}

/* Gives a graph of the device a handle. */
static CUresult graph_publish(int device, void *sim, CUgraph *out)
{
    struct body *body = malloc(sizeof *body);

    books_lock();
    struct graph *graph = body ? object_create(KIND_GRAPH, sizeof *graph, device) : NULL;
    if (graph) {
        *body = (struct body){1, device, sim};
        graph->body = body;
        *out = HANDLE(graph);
    }
    books_unlock();
    if (graph)
        return CUDA_SUCCESS;
    free(body);
    standin.ops->graph_destroy(standin.self, device, sim);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    acre_capture_info info = {.struct_size = sizeof info, .status = ACRE_CAPTURE_NONE};
    struct place at;
    void *sim = NULL;

    ENTRY(cuStreamEndCapture);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = stream_place(handle, &at);
    if (result)
        return result;
    result = SIM(capture_info, at.device, at.sim, &info);
    if (!result && info.status != ACRE_CAPTURE_NONE)
        result = end_check(handle) == CUDA_ERROR_ILLEGAL_STATE
                     ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
                     : end_check(handle);
    else if (!result)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result)
        return result;
    acre_status status = standin.ops->capture_end(standin.self, at.device, at.sim, &sim);
    books_lock();
    capture_forget_locked(handle);
    books_unlock();
    *out = NULL;
    return status == ACRE_OK ? graph_publish(at.device, sim, out)
                             : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

/* ---- Asking about captures ---------------------------------------------------------------- */

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *out)
{
    acre_capture_info info = {.struct_size = sizeof info};
    struct place at;

    ENTRY(cuStreamIsCapturing);
    CUresult result = out ? stream_place(handle, &at) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = SIM(capture_info, at.device, at.sim, &info);
    if (!result)
        *out = info.status;
    return result;
}

static CUgraphNode node_handle(uint64_t node)
{
    return (CUgraphNode)(NODE_BASE + node * 16);
}

/* Keeps the nodes with the stream, where they stay until it is asked again. */
static const CUgraphNode *nodes_keep(CUstream handle, const acre_capture_info *info)
{
    books_lock();
    struct stream *stream = object_find(KIND_STREAM, handle);
    for (uint32_t i = 0; stream && i < info->terminal_count; i++)
        stream->nodes[i] = node_handle(info->terminals[i]);
    books_unlock();
    return stream ? stream->nodes : NULL;
}

static CUresult capture_tell(CUstream handle, CUstreamCaptureStatus *out_status,
                             cuuint64_t *out_id, const CUgraphNode **out_nodes,
                             size_t *out_count)
{
    acre_capture_info info = {.struct_size = sizeof info, .status = ACRE_CAPTURE_NONE};
    struct place at;
    CUresult result = out_status ? stream_place(handle, &at) : CUDA_ERROR_INVALID_VALUE;

    if (!result)
        result = SIM(capture_info, at.device, at.sim, &info);
    if (result)
        return result;
    *out_status = info.status;
    if (info.status != ACRE_CAPTURE_ACTIVE)
        return CUDA_SUCCESS;
    if (out_id)
        *out_id = info.id;
    if (info.terminal_count > 16)
        info.terminal_count = 16;
    if (out_nodes)
        *out_nodes = nodes_keep(handle, &info);
    if (out_count)
        *out_count = info.terminal_count;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *out_status,
                                   cuuint64_t *out_id, CUgraph *out_graph,
                                   const CUgraphNode **out_nodes,
                                   const CUgraphEdgeData **out_edges, size_t *out_count)
{
    static const CUgraphEdgeData edges[16];

    ENTRY(cuStreamGetCaptureInfo_v3);
    if (out_graph)
        *out_graph = NULL; /* graphs cannot be looked into here */
    if (out_edges)
        *out_edges = edges;
    return capture_tell(handle, out_status, out_id, out_nodes, out_count);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *out_status,
                                   cuuint64_t *out_id, CUgraph *out_graph,
                                   const CUgraphNode **out_nodes, size_t *out_count)
{
    ENTRY(cuStreamGetCaptureInfo_v2);
    if (out_graph)
        *out_graph = NULL;
    return capture_tell(handle, out_status, out_id, out_nodes, out_count);
}

/* The capture that knows a node answers. */
static CUresult needs_of(uint64_t node, uint64_t *out, uint32_t capacity, uint32_t *out_count)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    books_lock();
    LIST_FOR_EACH(it, &captures) {
        struct capture *capture = CONTAINER_OF(it, struct capture, link);

        if (result)
            result = SIM(capture_dependencies, capture->device, capture->id, node, out, capacity,
                         out_count);
    }
    books_unlock();
    return result;
}

static CUresult dependencies(CUgraphNode node, CUgraphNode *out_nodes, size_t *count)
{
    uint64_t needs[256];
    uint32_t need_count = 0;

    if (!count || (uintptr_t)node < NODE_BASE || (uintptr_t)node % 16)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = needs_of(((uintptr_t)node - NODE_BASE) / 16, needs, 256, &need_count);
    if (result)
        return result;
    for (size_t i = 0; out_nodes && i < *count; i++)
        out_nodes[i] = i < need_count && i < 256 ? node_handle(needs[i]) : NULL;
    *count = out_nodes && *count < need_count ? *count : need_count;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *out_nodes,
                                       CUgraphEdgeData *out_edges, size_t *count)
{
    ENTRY(cuGraphNodeGetDependencies_v2);
    CUresult result = dependencies(node, out_nodes, count);
    if (!result && out_nodes && out_edges)
        memset(out_edges, 0, *count * sizeof *out_edges);
    return result;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out_nodes, size_t *count)
{
    ENTRY(cuGraphNodeGetDependencies);
    return dependencies(node, out_nodes, count);
}

/* ---- Graphs --------------------------------------------------------------------------------- */

static void body_unref_locked(struct body *body)
{
    if (--body->refs > 0)
        return;
    standin.ops->graph_destroy(standin.self, body->device, body->sim);
    free(body);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph handle, unsigned long long flags)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTRY(cuGraphInstantiateWithFlags);
    if (!out || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct graph *graph = object_find(KIND_GRAPH, handle);
    struct exec *exec = graph ? object_create(KIND_EXEC, sizeof *exec, graph->body->device) : NULL;
    if (exec) {
        exec->body = graph->body;
        exec->body->refs++;
        *out = HANDLE(exec);
        result = CUDA_SUCCESS;
    }
    books_unlock();
    return result;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream)
{
    struct body body = {0, 0, NULL};
    struct place at;

    ENTRY(cuGraphLaunch);
    CUresult result = stream_place(stream, &at);
    if (result)
        return result;
    books_lock();
    struct exec *exec = object_find(KIND_EXEC, handle);
    if (exec)
        body = *exec->body;
    books_unlock();
    if (!body.sim || body.device != at.device)
        return CUDA_ERROR_INVALID_VALUE;
    return SIM(graph_launch, at.device, body.sim, at.sim);
}

CUresult cuGraphExecDestroy(CUgraphExec handle)
{
    ENTRY(cuGraphExecDestroy);
    books_lock();
    struct exec *exec = object_find(KIND_EXEC, handle);
    if (exec) {
        body_unref_locked(exec->body);
        object_destroy(exec);
    }
    books_unlock();
    return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroy(CUgraph handle)
{
    ENTRY(cuGraphDestroy);
    books_lock();
    struct graph *graph = object_find(KIND_GRAPH, handle);
    if (graph) {
        body_unref_locked(graph->body);
        object_destroy(graph);
    }
    books_unlock();
    return graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
