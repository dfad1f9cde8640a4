/* SPDX-License-Identifier: MIT */
/* The stream half of the reference device, as sim.c sees it: its life, its
 * counts, and its entries of the backend table. self is a struct sim *.
 *
 * sim_handle.c  handles that are checked, never followed
 * sim_worker.c  threads that run streams, and the watcher
 * sim_queue.c   what a stream does with its tasks
 * sim_stream.c  entries about streams        sim_event.c  events
 * sim_copy.c    work that is queued          sim_graph.c  capture and graphs
 */
#ifndef SRC_BACKEND_SIM_STREAM_H
#define SRC_BACKEND_SIM_STREAM_H

#include "sim/sim.h"

/* Sets sim->streams. No thread starts before there is work. */
acre_status sim_streams_create(struct sim *sim);
/* Waits for all work, ends all threads. Waits for values that were never written
 * are given up. Accepts a sim without streams. */
void sim_streams_destroy(struct sim *sim);
/* Fills stream_count, event_count, graph_count and thread_count only. */
void sim_streams_usage(struct sim *sim, acre_sim_usage *out);

/* Entries of the table: see acre_backend_ops. */
acre_status sim_stream_create(void *self, int device, uint32_t flags, int priority,
                              void **out_stream);
acre_status sim_stream_destroy(void *self, int device, void *stream);
acre_status sim_stream_query(void *self, int device, void *stream);
acre_status sim_stream_synchronize(void *self, int device, void *stream);
acre_status sim_stream_wait_event(void *self, int device, void *stream, void *event);
acre_status sim_stream_priority(void *self, int device, void *stream, int *out_priority);
acre_status sim_device_synchronize(void *self, int device);

acre_status sim_event_create(void *self, int device, uint32_t flags, void **out_event);
acre_status sim_event_destroy(void *self, int device, void *event);
acre_status sim_event_record(void *self, int device, void *event, void *stream);
acre_status sim_event_query(void *self, int device, void *event);
acre_status sim_event_synchronize(void *self, int device, void *event);
acre_status sim_event_elapsed(void *self, int device, void *start, void *end, double *out_ms);

acre_status sim_copy(void *self, void *dst, const void *src, size_t bytes,
                     acre_copy_kind kind);
acre_status sim_copy_async(void *self, int device, void *dst, const void *src, size_t bytes,
                           acre_copy_kind kind, void *stream);
acre_status sim_copy_peer_async(void *self, void *dst, int dst_device, const void *src,
                                int src_device, size_t bytes, void *stream);
acre_status sim_fill_async(void *self, int device, void *dst, int value, size_t bytes,
                           void *stream);
acre_status sim_launch_host(void *self, int device, void *stream, void (*fn)(void *),
                            void *arg);
acre_status sim_launch_kernel(void *self, int device, void *stream, acre_kernel_fn fn,
                              const void *args, size_t args_bytes);
acre_status sim_write_value32(void *self, int device, void *stream, void *address,
                              uint32_t value);
acre_status sim_wait_value32(void *self, int device, void *stream, void *address,
                             uint32_t value, acre_wait_condition condition);
acre_status sim_multicast_write_async(void *self, int device, void *handle, size_t offset,
                                      const void *src, size_t bytes, void *stream);

acre_status sim_capture_begin(void *self, int device, void *stream);
acre_status sim_capture_end(void *self, int device, void *stream, void **out_graph);
acre_status sim_capture_info(void *self, int device, void *stream,
                             acre_capture_info *out_info);
acre_status sim_capture_dependencies(void *self, int device, uint64_t capture_id,
                                     uint64_t node, uint64_t *out_nodes, uint32_t capacity,
                                     uint32_t *out_count);
acre_status sim_graph_launch(void *self, int device, void *graph, void *stream);
acre_status sim_graph_destroy(void *self, int device, void *graph);

#endif
