/* SPDX-License-Identifier: MIT */
#include "driver/graph.h"

#include "base/heap.h"
#include "base/status.h"

/* Relaxed: other threads may ask the driver for memory meanwhile. */
acre_status drv_graph_capture_begin(void *self, int device, void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;

    return ON_STREAM(stream, CALL(capture_begin, stream, DRIVER_CAPTURE_RELAXED));
}

/* Ends the capture and makes the graph launchable; nothing is left on failure. */
static acre_status graph_finish(struct driver *driver, driver_stream stream, struct graph *graph)
{
    acre_status status = CALL(capture_end, stream, &graph->native);

    if (status == ACRE_OK && !graph->native)
        status = status_fail(ACRE_ERR_STATE, "the capture was spoiled and gave no graph");
    if (status == ACRE_OK)
        status = CALL(graph_instantiate, &graph->exec, graph->native, 0);
    if (status == ACRE_OK) {
        status = books_object_put(&driver->books, &graph->object);
        if (status != ACRE_OK)
            driver->library.call.graph_exec_destroy(graph->exec);
    }
    if (status != ACRE_OK && graph->native)
        driver->library.call.graph_destroy(graph->native);
    return status;
}

acre_status drv_graph_capture_end(void *self, int device, void *stream, void **out_graph)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct graph *graph = heap_zalloc(sizeof *graph);
    acre_status status;

    if (!graph)
        return ACRE_ERR_HOST_MEMORY;
    graph->object.kind = OBJECT_GRAPH;
    status = ON_STREAM(stream, graph_finish(driver, stream, graph));
    if (status != ACRE_OK) {
        heap_free(graph);
        return status;
    }
    *out_graph = graph;
    return ACRE_OK;
}

acre_status drv_graph_capture_info(void *self, int device, void *stream,
                                   acre_capture_info *out_info)
{
    struct driver *driver = self;
    struct driver_scope scope;
    acre_capture_info info = {.struct_size = sizeof info, .status = ACRE_CAPTURE_NONE};
    driver_capture_status capture = DRIVER_CAPTURE_NONE;
    driver_capture_id id = 0;
    const driver_node *nodes = NULL;
    size_t count = 0;
    acre_status status = ON_STREAM(
        stream, driver->vendor->capture_info(driver, stream, &capture, &id, &nodes, &count));

    if (status != ACRE_OK)
        return status;
    info.status = capture == DRIVER_CAPTURE_ACTIVE        ? ACRE_CAPTURE_ACTIVE
                  : capture == DRIVER_CAPTURE_INVALIDATED ? ACRE_CAPTURE_INVALIDATED
                                                          : ACRE_CAPTURE_NONE;
    if (info.status == ACRE_CAPTURE_ACTIVE) {
        info.id = id;
        info.terminal_count = (uint32_t)count;
        for (size_t i = 0; i < count && i < sizeof info.terminals / sizeof info.terminals[0]; i++)
            info.terminals[i] = (uintptr_t)nodes[i];
    }
    *out_info = info;
    return ACRE_OK;
}

acre_status drv_graph_dependencies(void *self, int device, uint64_t capture_id, uint64_t node,
                                   uint64_t *out_nodes, uint32_t capacity, uint32_t *out_count)
{
    struct driver *driver = self;
    driver_node of = (driver_node)(uintptr_t)node, *nodes;
    size_t count = 0;
    acre_status status;

    (void)device;
    (void)capture_id;
    if (!of)
        return status_fail(ACRE_ERR_INVALID, "capture_dependencies: node 0 does not exist");
    status = driver->vendor->node_dependencies(driver, of, NULL, &count);
    if (status != ACRE_OK || count == 0) {
        if (status == ACRE_OK)
            *out_count = 0;
        return status;
    }
    nodes = heap_array(count, sizeof *nodes);
    if (!nodes)
        return ACRE_ERR_HOST_MEMORY;
    status = driver->vendor->node_dependencies(driver, of, nodes, &count);
    if (status == ACRE_OK) {
        for (size_t i = 0; i < count && i < capacity; i++)
            out_nodes[i] = (uintptr_t)nodes[i];
        *out_count = (uint32_t)count;
    }
    heap_free(nodes);
    return status;
}

acre_status drv_graph_launch(void *self, int device, void *graph, void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;
    acre_status status = books_object_check(&driver->books, OBJECT_GRAPH, graph);

    if (status != ACRE_OK)
        return status;
    return ON_STREAM(stream, CALL(graph_launch, ((struct graph *)graph)->exec, stream));
}

acre_status drv_graph_destroy(void *self, int device, void *handle)
{
    struct driver *driver = self;
    struct graph *graph = handle;
    acre_status status = driver_check_fork(driver);

    (void)device;
    if (status == ACRE_OK)
        status = books_object_take(&driver->books, OBJECT_GRAPH, graph);
    if (status != ACRE_OK)
        return status;
    if (graph->native)
        status = CALL(graph_destroy, graph->native);
    if (status == ACRE_OK) {
        graph->native = NULL;
        status = CALL(graph_exec_destroy, graph->exec);
    }
    return books_object_settle(&driver->books, &graph->object, status);
}
