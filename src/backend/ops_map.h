/* SPDX-License-Identifier: MIT */
/* Every entry of acre_backend_ops, written once: name, parameters, arguments.
 *
 * The check of a table, the functions that fill its gaps, the capability bits,
 * and the wrapping backends of the tests are all expanded from this list, so a
 * new entry is added in <acre/backend.h> and here and nowhere else.
 *
 *   OPS_GROUP_MAP(G)   G(group, "name") for each optional group; its capability
 *                      bit is ACRE_CAP_group
 *   OPS_x_MAP(E)       E(group, entry, (parameters), (arguments)) for the entries
 *                      of one group; group is REQUIRED for those without a bit
 *   OPS_MAP(E)         all of them, in the order of the table
 */
#ifndef SRC_BACKEND_OPS_MAP_H
#define SRC_BACKEND_OPS_MAP_H

#define OPS_REQUIRED_MAP(E)                                                    \
    E(REQUIRED, device_count, (void *self, int *out_count), (self, out_count)) \
    E(REQUIRED, device_info, (void *self, int device, acre_device_info *out_info), \
      (self, device, out_info))                                                \
    E(REQUIRED, memory_info,                                                   \
      (void *self, int device, uint64_t *out_free, uint64_t *out_total),       \
      (self, device, out_free, out_total))                                     \
    E(REQUIRED, alloc, (void *self, int device, size_t bytes, void **out_base), \
      (self, device, bytes, out_base))                                         \
    E(REQUIRED, free, (void *self, int device, void *base), (self, device, base))

#define OPS_STREAMS_MAP(E)                                                     \
    E(STREAMS, stream_create,                                                  \
      (void *self, int device, uint32_t flags, int priority, void **out_stream), \
      (self, device, flags, priority, out_stream))                             \
    E(STREAMS, stream_destroy, (void *self, int device, void *stream), (self, device, stream)) \
    E(STREAMS, stream_query, (void *self, int device, void *stream), (self, device, stream)) \
    E(STREAMS, stream_synchronize, (void *self, int device, void *stream), (self, device, stream)) \
    E(STREAMS, stream_wait_event, (void *self, int device, void *stream, void *event), \
      (self, device, stream, event))                                           \
    E(STREAMS, stream_priority, (void *self, int device, void *stream, int *out_priority), \
      (self, device, stream, out_priority))                                    \
    E(STREAMS, device_synchronize, (void *self, int device), (self, device))   \
    E(STREAMS, event_create, (void *self, int device, uint32_t flags, void **out_event), \
      (self, device, flags, out_event))                                        \
    E(STREAMS, event_destroy, (void *self, int device, void *event), (self, device, event)) \
    E(STREAMS, event_record, (void *self, int device, void *event, void *stream), \
      (self, device, event, stream))                                           \
    E(STREAMS, event_query, (void *self, int device, void *event), (self, device, event)) \
    E(STREAMS, event_synchronize, (void *self, int device, void *event), (self, device, event)) \
    E(STREAMS, event_elapsed,                                                  \
      (void *self, int device, void *start, void *end, double *out_ms),        \
      (self, device, start, end, out_ms))

#define OPS_COPY_MAP(E)                                                        \
    E(COPY, copy, (void *self, void *dst, const void *src, size_t bytes, acre_copy_kind kind), \
      (self, dst, src, bytes, kind))                                           \
    E(COPY, copy_async,                                                        \
      (void *self, int device, void *dst, const void *src, size_t bytes,       \
       acre_copy_kind kind, void *stream),                                     \
      (self, device, dst, src, bytes, kind, stream))                           \
    E(COPY, copy_peer_async,                                                   \
      (void *self, void *dst, int dst_device, const void *src, int src_device, \
       size_t bytes, void *stream),                                            \
      (self, dst, dst_device, src, src_device, bytes, stream))                 \
    E(COPY, fill_async,                                                        \
      (void *self, int device, void *dst, int value, size_t bytes, void *stream), \
      (self, device, dst, value, bytes, stream))

#define OPS_LAUNCH_MAP(E)                                                      \
    E(LAUNCH, launch_host,                                                     \
      (void *self, int device, void *stream, void (*fn)(void *), void *arg),   \
      (self, device, stream, fn, arg))

#define OPS_KERNELS_MAP(E)                                                     \
    E(KERNELS, launch_kernel,                                                  \
      (void *self, int device, void *stream, acre_kernel_fn fn, const void *args, \
       size_t args_bytes),                                                     \
      (self, device, stream, fn, args, args_bytes))

#define OPS_VALUES_MAP(E)                                                      \
    E(VALUES, write_value32,                                                   \
      (void *self, int device, void *stream, void *address, uint32_t value),   \
      (self, device, stream, address, value))                                  \
    E(VALUES, wait_value32,                                                    \
      (void *self, int device, void *stream, void *address, uint32_t value,    \
       acre_wait_condition condition),                                         \
      (self, device, stream, address, value, condition))

#define OPS_VIRTUAL_MAP(E)                                                     \
    E(VIRTUAL, reserve, (void *self, int device, size_t bytes, void **out_base), \
      (self, device, bytes, out_base))                                         \
    E(VIRTUAL, unreserve, (void *self, int device, void *base, size_t bytes),  \
      (self, device, base, bytes))                                             \
    E(VIRTUAL, create,                                                         \
      (void *self, int device, size_t bytes, acre_handle_type type, void **out_handle), \
      (self, device, bytes, type, out_handle))                                 \
    E(VIRTUAL, release, (void *self, int device, void *handle), (self, device, handle)) \
    E(VIRTUAL, map,                                                            \
      (void *self, int device, void *base, size_t bytes, size_t offset, void *handle), \
      (self, device, base, bytes, offset, handle))                             \
    E(VIRTUAL, unmap, (void *self, int device, void *base, size_t bytes),      \
      (self, device, base, bytes))                                             \
    E(VIRTUAL, set_access,                                                     \
      (void *self, int device, void *base, size_t bytes, int accessor, acre_access access), \
      (self, device, base, bytes, accessor, access))

#define OPS_SHARE_FD_MAP(E)                                                    \
    E(SHARE_FD, export_fd, (void *self, int device, void *handle, int *out_fd), \
      (self, device, handle, out_fd))                                          \
    E(SHARE_FD, import_fd,                                                     \
      (void *self, int device, int fd, void **out_handle, uint64_t *out_bytes), \
      (self, device, fd, out_handle, out_bytes))

#define OPS_MULTICAST_MAP(E)                                                   \
    E(MULTICAST, multicast_create,                                             \
      (void *self, const int *devices, int device_count, size_t bytes, void **out_handle), \
      (self, devices, device_count, bytes, out_handle))                        \
    E(MULTICAST, multicast_bind,                                               \
      (void *self, void *handle, int device, size_t offset, void *memory, size_t bytes), \
      (self, handle, device, offset, memory, bytes))                           \
    E(MULTICAST, multicast_unbind,                                             \
      (void *self, void *handle, int device, size_t offset, size_t bytes),     \
      (self, handle, device, offset, bytes))                                   \
    E(MULTICAST, multicast_write_async,                                        \
      (void *self, int device, void *handle, size_t offset, const void *src,   \
       size_t bytes, void *stream),                                            \
      (self, device, handle, offset, src, bytes, stream))                      \
    E(MULTICAST, multicast_release, (void *self, void *handle), (self, handle))

#define OPS_CAPTURE_MAP(E)                                                     \
    E(CAPTURE, capture_begin, (void *self, int device, void *stream), (self, device, stream)) \
    E(CAPTURE, capture_end, (void *self, int device, void *stream, void **out_graph), \
      (self, device, stream, out_graph))                                       \
    E(CAPTURE, capture_info,                                                   \
      (void *self, int device, void *stream, acre_capture_info *out_info),     \
      (self, device, stream, out_info))                                        \
    E(CAPTURE, capture_dependencies,                                           \
      (void *self, int device, uint64_t capture_id, uint64_t node,             \
       uint64_t *out_nodes, uint32_t capacity, uint32_t *out_count),           \
      (self, device, capture_id, node, out_nodes, capacity, out_count))        \
    E(CAPTURE, graph_launch, (void *self, int device, void *graph, void *stream), \
      (self, device, graph, stream))                                           \
    E(CAPTURE, graph_destroy, (void *self, int device, void *graph), (self, device, graph))

#define OPS_HOST_MEMORY_MAP(E)                                                 \
    E(HOST_MEMORY, host_alloc, (void *self, size_t bytes, void **out_base),    \
      (self, bytes, out_base))                                                 \
    E(HOST_MEMORY, host_free, (void *self, void *base), (self, base))          \
    E(HOST_MEMORY, host_register, (void *self, void *base, size_t bytes), (self, base, bytes)) \
    E(HOST_MEMORY, host_unregister, (void *self, void *base), (self, base))

#define OPS_POINTERS_MAP(E)                                                    \
    E(POINTERS, pointer_info, (void *self, const void *pointer, acre_pointer_info *out_info), \
      (self, pointer, out_info))

#define OPS_PEERS_MAP(E)                                                       \
    E(PEERS, peer_query, (void *self, int device, int other, bool *out_can),   \
      (self, device, other, out_can))                                          \
    E(PEERS, peer_enable, (void *self, int device, int other), (self, device, other))

#define OPS_ACCESS_MAP(E)                                                      \
    E(ACCESS, access_open, (void *self, const void *pointer), (self, pointer)) \
    E(ACCESS, access_close, (void *self, const void *pointer), (self, pointer))

#define OPS_IPC_MAP(E)                                                         \
    E(IPC, ipc_export, (void *self, int device, void *base, uint8_t out_handle[64]), \
      (self, device, base, out_handle))                                        \
    E(IPC, ipc_open,                                                           \
      (void *self, int device, const uint8_t handle[64], void **out_base,      \
       uint64_t *out_bytes),                                                   \
      (self, device, handle, out_base, out_bytes))                             \
    E(IPC, ipc_close, (void *self, int device, void *base), (self, device, base))

#define OPS_CURRENT_MAP(E)                                                     \
    E(CURRENT, set_current, (void *self, int device), (self, device))

#define OPS_IPC_USERS_MAP(E)                                                   \
    E(IPC_USERS, ipc_users,                                                    \
      (void *self, int device, const uint8_t handle[64], uint64_t *out_count), \
      (self, device, handle, out_count))                                       \
    E(IPC_USERS, ipc_revoke,                                                   \
      (void *self, int device, const uint8_t handle[64], uint64_t *out_count), \
      (self, device, handle, out_count))

#define OPS_GREEN_MAP(E)                                                       \
    E(GREEN, green_create,                                                     \
      (void *self, int device, const acre_green_config *config, void **out_green, \
       uint32_t *out_units),                                                   \
      (self, device, config, out_green, out_units))                            \
    E(GREEN, green_destroy, (void *self, int device, void *green), (self, device, green)) \
    E(GREEN, green_stream,                                                     \
      (void *self, int device, void *green, uint32_t flags, int priority, void **out_stream), \
      (self, device, green, flags, priority, out_stream))                      \
    E(GREEN, green_push, (void *self, int device, void *green), (self, device, green)) \
    E(GREEN, green_pop, (void *self, int device, void *green), (self, device, green)) \
    E(GREEN, green_queues, (void *self, int device, uint32_t *out_count),      \
      (self, device, out_count))

#define OPS_ASYNC_MAP(E)                                                       \
    E(ASYNC, async_alloc,                                                      \
      (void *self, int device, size_t bytes, void *stream, void **out_base),   \
      (self, device, bytes, stream, out_base))                                 \
    E(ASYNC, async_free, (void *self, int device, void *base, void *stream),   \
      (self, device, base, stream))                                            \
    E(ASYNC, async_trim, (void *self, int device, uint64_t bytes), (self, device, bytes)) \
    E(ASYNC, async_usage, (void *self, int device, acre_async_usage *out_usage), \
      (self, device, out_usage))                                               \
    E(ASYNC, async_reset_peak, (void *self, int device), (self, device))

#define OPS_FABRIC_MAP(E)                                                      \
    E(FABRIC, export_fabric,                                                   \
      (void *self, int device, void *handle, uint8_t out_fabric[64]),          \
      (self, device, handle, out_fabric))                                      \
    E(FABRIC, import_fabric,                                                   \
      (void *self, int device, const uint8_t fabric[64], size_t bytes, void **out_handle), \
      (self, device, fabric, bytes, out_handle))

#define OPS_IPC_EVENTS_MAP(E)                                                  \
    E(IPC_EVENTS, ipc_event_export,                                            \
      (void *self, int device, void *event, uint8_t out_handle[64]),           \
      (self, device, event, out_handle))                                       \
    E(IPC_EVENTS, ipc_event_open,                                              \
      (void *self, int device, const uint8_t handle[64], void **out_event),    \
      (self, device, handle, out_event))

/* The optional groups and the words users read for them. */
#define OPS_GROUP_MAP(G)                                                       \
    G(STREAMS, "streams and events")                                           \
    G(COPY, "copies")                                                          \
    G(LAUNCH, "launch")                                                        \
    G(VALUES, "values")                                                        \
    G(VIRTUAL, "virtual memory")                                               \
    G(SHARE_FD, "sharing")                                                     \
    G(MULTICAST, "multicast")                                                  \
    G(CAPTURE, "capture")                                                      \
    G(HOST_MEMORY, "host memory")                                              \
    G(POINTERS, "pointers")                                                    \
    G(PEERS, "peers")                                                          \
    G(ACCESS, "access windows")                                                \
    G(IPC, "ipc")                                                              \
    G(CURRENT, "current device")                                               \
    G(IPC_USERS, "ipc users")                                                  \
    G(KERNELS, "kernels")                                                      \
    G(GREEN, "green contexts")                                                 \
    G(ASYNC, "stream-ordered memory")                                          \
    G(FABRIC, "fabric")                                                        \
    G(IPC_EVENTS, "shared events")

/* All groups but the required entries, streams, copies and launches. */
#define OPS_REST_MAP(E)                                                        \
    OPS_KERNELS_MAP(E)                                                         \
    OPS_VALUES_MAP(E)                                                          \
    OPS_VIRTUAL_MAP(E)                                                         \
    OPS_SHARE_FD_MAP(E)                                                        \
    OPS_MULTICAST_MAP(E)                                                       \
    OPS_CAPTURE_MAP(E)                                                         \
    OPS_HOST_MEMORY_MAP(E)                                                     \
    OPS_POINTERS_MAP(E)                                                        \
    OPS_PEERS_MAP(E)                                                           \
    OPS_ACCESS_MAP(E)                                                          \
    OPS_IPC_MAP(E)                                                             \
    OPS_CURRENT_MAP(E)                                                         \
    OPS_IPC_USERS_MAP(E)                                                       \
    OPS_GREEN_MAP(E)                                                           \
    OPS_ASYNC_MAP(E)                                                           \
    OPS_FABRIC_MAP(E)                                                          \
    OPS_IPC_EVENTS_MAP(E)

#define OPS_MAP(E)                                                             \
    OPS_REQUIRED_MAP(E)                                                        \
    OPS_STREAMS_MAP(E)                                                         \
    OPS_COPY_MAP(E)                                                            \
    OPS_LAUNCH_MAP(E)                                                          \
    OPS_REST_MAP(E)

#endif
