/* SPDX-License-Identifier: MIT */
/* Capture and graphs: entries of the table; self is a struct driver. */
#ifndef SRC_DRIVER_GRAPH_H
#define SRC_DRIVER_GRAPH_H

#include "driver/driver.h"

/* What a capture became: as recorded, and ready to be launched. */
struct graph {
    struct object object;
    driver_graph native; /* NULL: given back; what is launched does not need it */
    driver_graph_exec exec;
};

acre_status drv_graph_capture_begin(void *self, int device, void *stream);
acre_status drv_graph_capture_end(void *self, int device, void *stream, void **out_graph);
acre_status drv_graph_capture_info(void *self, int device, void *stream,
                                   acre_capture_info *out_info);
acre_status drv_graph_dependencies(void *self, int device, uint64_t capture_id, uint64_t node,
                                   uint64_t *out_nodes, uint32_t capacity, uint32_t *out_count);
acre_status drv_graph_launch(void *self, int device, void *graph, void *stream);
acre_status drv_graph_destroy(void *self, int device, void *graph);

#endif
