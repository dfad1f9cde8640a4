/* SPDX-License-Identifier: MIT */
/** @file device.h
 *  @brief Devices, current device and stream of a thread, streams, events, copies.
 *
 * Two levels. A @ref acre_device with native handles (void *stream, void
 * *event) is what allocators use. The value types @ref acre_stream and @ref
 * acre_event are what frameworks pass around: a stream value is an id, a type
 * and an index that decode to a native stream.
 *
 * Fork: see acre/base.h. In a child, calls on a device that the parent had started answer
 * ACRE_ERR_FORKED, unless the device works there (ACRE_BACKEND_FORK_SAFE).
 */
#ifndef ACRE_DEVICE_H
#define ACRE_DEVICE_H

#include <acre/backend.h>

ACRE_BEGIN_DECLS

/** One device of a backend. Lives as long as its backend. */
typedef struct acre_device acre_device;

/** Which device: a type and an index. Index -1 means "the current one". */
typedef struct acre_device_id {
    acre_device_type type; /**< As shown to the outside. */
    int index;             /**< From 0.                  */
} acre_device_id;

/* ---- Finding devices -------------------------------------------------------------- */

/** Finds a device by type and index; index -1 is the thread's current one.
 *
 * A built-in backend of that type is started at first use.
 * Errors: ACRE_ERR_UNSUPPORTED (no backend of that type; the text names it),
 *         ACRE_ERR_RANGE (the text gives the index and the valid range).
 */
ACRE_API acre_status acre_device_get(acre_device_type type, int index, acre_device **out);

/** Device index of a backend, whatever type it is shown under. */
ACRE_API acre_status acre_backend_device(acre_backend *backend, int index, acre_device **out);

/** Number of devices of a type; 0 (and a log line) when there is no backend. */
ACRE_API int acre_device_count(acre_device_type type);

/** Facts about a device, capabilities included. */
ACRE_API acre_status acre_device_info_get(acre_device *device, acre_device_info *out);

/** The type and index under which a device is shown. */
ACRE_API acre_device_id acre_device_id_of(const acre_device *device);

/** "cpu", "cuda", "opencl", "hip", "openreg" (see acre_device_type_rename). */
ACRE_API const char *acre_device_type_name(acre_device_type type);

/** Names ACRE_DEVICE_PRIVATE, once per process; the same name again is fine.
 *
 * Errors: ACRE_ERR_INVALID (another type or a bad name), ACRE_ERR_STATE.
 */
ACRE_API acre_status acre_device_type_rename(acre_device_type type, const char *name);

/* ---- Current device of the calling thread ----------------------------------------- */

/** Index of the current device of a type on this thread; starts at 0. */
ACRE_API acre_status acre_device_current(acre_device_type type, int *out_index);

/** Makes a device current. Errors: ACRE_ERR_RANGE names value and range. */
ACRE_API acre_status acre_device_set(acre_device_type type, int index);

/** Makes a device current and gives the one before; an index outside the range
 *  changes nothing and still gives the current one. */
ACRE_API acre_status acre_device_exchange(acre_device_type type, int index, int *out_previous);

/** Like acre_device_exchange, but refuses an index outside the range, and -1
 *  leaves the device alone. Errors: ACRE_ERR_RANGE. */
ACRE_API acre_status acre_device_maybe_exchange(acre_device_type type, int index,
                                                int *out_previous);

/* ---- Hooks: what a framework asks of a device type -------------------------------- */

/** Whether this build can have devices of a type: a backend is registered for it
 *  or built in. Starts nothing. */
ACRE_API bool acre_hook_is_built(acre_device_type type);
/** Whether there is at least one device of a type. */
ACRE_API bool acre_hook_is_available(acre_device_type type);
/** Whether a device is ready without further set-up; true for every device that
 *  exists. */
ACRE_API bool acre_hook_has_primary_context(acre_device_type type, int index);
/** Like acre_device_maybe_exchange(), but an index outside the range changes
 *  nothing and gives the current one, as frameworks' hooks do. */
ACRE_API acre_status acre_hook_maybe_exchange_device(acre_device_type type, int index,
                                                     int *out_previous);
/** Whether a pointer, also an interior one, is page-locked memory of a backend of
 *  that type; false for NULL. */
ACRE_API bool acre_hook_is_pinned(acre_device_type type, const void *pointer);
/** The device whose memory a pointer is.
 *
 * Errors: ACRE_ERR_INVALID (host or foreign memory), ACRE_ERR_UNSUPPORTED. */
ACRE_API acre_status acre_hook_device_of_pointer(acre_device_type type, const void *pointer,
                                                 acre_device_id *out);

/* ---- Native work on a device ------------------------------------------------------ */

/** Free and total bytes of a device at this moment. */
ACRE_API acre_status acre_device_memory(acre_device *device, uint64_t *out_free,
                                        uint64_t *out_total);

/** Memory straight from the device, uncached; sizes are rounded up to its
 *  granularity. Errors: ACRE_ERR_INVALID (0), ACRE_ERR_DEVICE_MEMORY. */
ACRE_API acre_status acre_device_alloc(acre_device *device, size_t bytes, void **out);

/** Returns memory of acre_device_alloc. NULL is accepted.
 *  Errors: ACRE_ERR_INVALID for anything but a live base. */
ACRE_API acre_status acre_device_free(acre_device *device, void *base);

/** Waits for all streams of that device. */
ACRE_API acre_status acre_device_synchronize(acre_device *device);

/** Creates a native stream. Errors: ACRE_ERR_RANGE (priority). */
ACRE_API acre_status acre_stream_native_create(acre_device *device, uint32_t flags,
                                               int priority, void **out);
/** Runs what is queued, then destroys a native stream. NULL is refused. */
ACRE_API acre_status acre_stream_native_destroy(acre_device *device, void *stream);
/** ACRE_OK when idle, ACRE_ERR_NOT_READY otherwise. */
ACRE_API acre_status acre_stream_native_query(acre_device *device, void *stream);
/** Waits; reports the first failed task since the last time. */
ACRE_API acre_status acre_stream_native_synchronize(acre_device *device, void *stream);
/** Later work on stream waits for the event's latest record. */
ACRE_API acre_status acre_stream_native_wait(acre_device *device, void *stream, void *event);
/** Priority of a native stream. */
ACRE_API acre_status acre_stream_native_priority(acre_device *device, void *stream, int *out);

/** Creates a native event; flags: ACRE_EVENT_TIMING. */
ACRE_API acre_status acre_event_native_create(acre_device *device, uint32_t flags, void **out);
/** Destroys a native event. */
ACRE_API acre_status acre_event_native_destroy(acre_device *device, void *event);
/** Records it on a stream of the same device. */
ACRE_API acre_status acre_event_native_record(acre_device *device, void *event, void *stream);
/** ACRE_OK when done, ACRE_ERR_NOT_READY otherwise. */
ACRE_API acre_status acre_event_native_query(acre_device *device, void *event);
/** Waits for the latest record. */
ACRE_API acre_status acre_event_native_synchronize(acre_device *device, void *event);
/** Milliseconds from start to end. */
ACRE_API acre_status acre_event_native_elapsed(acre_device *device, void *start, void *end,
                                               double *out_ms);

/** Blocking copy. Whatever it answers, host memory is not touched after it has returned.
 *  Errors: ACRE_ERR_INVALID (kind does not fit the sides, a side is too short, zero
 *  bytes). Overlapping ranges behave as through a temporary. */
ACRE_API acre_status acre_copy(acre_device *device, void *dst, const void *src, size_t bytes,
                               acre_copy_kind kind);
/** Queues a copy. A bad argument found later is reported at synchronize. */
ACRE_API acre_status acre_copy_async(acre_device *device, void *dst, const void *src,
                                     size_t bytes, acre_copy_kind kind, void *stream);
/** Queues a copy on a stream of device between two devices of its backend that
 *  may not reach each other. A NULL stream is the default stream of src_device.
 *  Errors: ACRE_ERR_INVALID (several backends). */
ACRE_API acre_status acre_copy_peer_async(acre_device *device, void *dst,
                                          acre_device *dst_device, const void *src,
                                          acre_device *src_device, size_t bytes, void *stream);
/** Queues a fill with a byte. */
ACRE_API acre_status acre_fill_async(acre_device *device, void *dst, int value, size_t bytes,
                                     void *stream);
/** Queues a host function. */
ACRE_API acre_status acre_launch_host(acre_device *device, void *stream, void (*fn)(void *),
                                      void *arg);
/** Queues a kernel; args are copied. */
ACRE_API acre_status acre_launch_kernel(acre_device *device, void *stream, acre_kernel_fn fn,
                                        const void *args, size_t args_bytes);
/** Queues a 32-bit store. */
ACRE_API acre_status acre_write_value32(acre_device *device, void *stream, void *address,
                                        uint32_t value);
/** Queues a wait for a 32-bit value. */
ACRE_API acre_status acre_wait_value32(acre_device *device, void *stream, void *address,
                                       uint32_t value, acre_wait_condition condition);

/** What a pointer belongs to; unmanaged when nobody knows it. */
ACRE_API acre_status acre_pointer_info_get(acre_device *device, const void *pointer,
                                           acre_pointer_info *out);
/** Opens the allocation around pointer to the host; calls nest. */
ACRE_API acre_status acre_access_open(acre_device *device, const void *pointer);
/** Closes one window. Errors: ACRE_ERR_STATE when none is open. */
ACRE_API acre_status acre_access_close(acre_device *device, const void *pointer);

/** Page-locked host memory. */
ACRE_API acre_status acre_host_alloc(acre_device *device, size_t bytes, void **out);
/** Returns it. NULL is accepted. */
ACRE_API acre_status acre_host_free(acre_device *device, void *base);
/** Page-locks memory of the caller, which must not be freed before
 *  acre_host_unregister(). */
ACRE_API acre_status acre_host_register(acre_device *device, void *base, size_t bytes);
/** Undoes acre_host_register(); exact base only. */
ACRE_API acre_status acre_host_unregister(acre_device *device, void *base);
/** Whether pointer lies in page-locked memory of the device's backend. */
ACRE_API bool acre_host_is_pinned(acre_device *device, const void *pointer);

/* ---- Virtual memory, sharing, multicast, capture: see acre_backend_ops ------------ */

/** See acre_backend_ops.reserve; bytes is a multiple of the page size. */
ACRE_API acre_status acre_virtual_reserve(acre_device *device, size_t bytes, void **out);
/** See acre_backend_ops.unreserve. */
ACRE_API acre_status acre_virtual_unreserve(acre_device *device, void *base, size_t bytes);
/** See acre_backend_ops.create. */
ACRE_API acre_status acre_virtual_create(acre_device *device, size_t bytes,
                                         acre_handle_type type, void **out_handle);
/** See acre_backend_ops.release. */
ACRE_API acre_status acre_virtual_release(acre_device *device, void *handle);
/** See acre_backend_ops.map. */
ACRE_API acre_status acre_virtual_map(acre_device *device, void *base, size_t bytes,
                                      size_t offset, void *handle);
/** See acre_backend_ops.unmap. */
ACRE_API acre_status acre_virtual_unmap(acre_device *device, void *base, size_t bytes);
/** See acre_backend_ops.set_access. */
ACRE_API acre_status acre_virtual_set_access(acre_device *device, void *base, size_t bytes,
                                             int accessor, acre_access access);
/** See acre_backend_ops.export_fd. */
ACRE_API acre_status acre_handle_export_fd(acre_device *device, void *handle, int *out_fd);
/** See acre_backend_ops.import_fd. */
ACRE_API acre_status acre_handle_import_fd(acre_device *device, int fd, void **out_handle,
                                           uint64_t *out_bytes);

/** See acre_backend_ops.ipc_event_export. */
ACRE_API acre_status acre_ipc_event_export(acre_device *device, void *event,
                                           uint8_t out_handle[64]);
/** See acre_backend_ops.ipc_event_open. */
ACRE_API acre_status acre_ipc_event_open(acre_device *device, const uint8_t handle[64],
                                         void **out_event);

/** See acre_backend_ops.ipc_export. */
ACRE_API acre_status acre_ipc_export(acre_device *device, void *base, uint8_t out_handle[64]);
/** See acre_backend_ops.ipc_open. */
ACRE_API acre_status acre_ipc_open(acre_device *device, const uint8_t handle[64],
                                   void **out_base, uint64_t *out_bytes);
/** See acre_backend_ops.ipc_close. */
ACRE_API acre_status acre_ipc_close(acre_device *device, void *base);

/** Makes a multicast handle over devices of one backend. */
ACRE_API acre_status acre_multicast_create(acre_device *const *devices, int device_count,
                                           size_t bytes, void **out_handle);
/** Binds memory of a member device. */
ACRE_API acre_status acre_multicast_bind(acre_device *device, void *handle, size_t offset,
                                         void *memory, size_t bytes);
/** Undoes a binding. */
ACRE_API acre_status acre_multicast_unbind(acre_device *device, void *handle, size_t offset,
                                           size_t bytes);
/** Queues a write to every member. */
ACRE_API acre_status acre_multicast_write_async(acre_device *device, void *handle,
                                                size_t offset, const void *src, size_t bytes,
                                                void *stream);
/** Drops the handle. */
ACRE_API acre_status acre_multicast_release(acre_device *device, void *handle);

/** Puts a stream into capture. */
ACRE_API acre_status acre_capture_begin(acre_device *device, void *stream);
/** Ends a capture and gives its graph. */
ACRE_API acre_status acre_capture_end(acre_device *device, void *stream, void **out_graph);
/** Whether and how a stream is captured. */
ACRE_API acre_status acre_capture_info_get(acre_device *device, void *stream,
                                           acre_capture_info *out);
/** See acre_backend_ops.capture_dependencies. */
ACRE_API acre_status acre_capture_dependencies(acre_device *device, uint64_t capture_id,
                                               uint64_t node, uint64_t *out_nodes,
                                               uint32_t capacity, uint32_t *out_count);
/** Queues a graph. */
ACRE_API acre_status acre_graph_launch(acre_device *device, void *graph, void *stream);
/** Drops a graph. */
ACRE_API acre_status acre_graph_destroy(acre_device *device, void *graph);

/* ---- Peers ------------------------------------------------------------------------ */

/** Whether device reaches memory of other; asks the driver once per pair and
 *  enables access when the answer is yes. A device always reaches itself.
 *  Errors: ACRE_ERR_RANGE, ACRE_ERR_INVALID (different backends). */
ACRE_API acre_status acre_device_can_access_peer(acre_device *device, acre_device *other,
                                                 bool *out);
/** Whether one device reaches another, given by type and indices. Errors: ACRE_ERR_RANGE names the
 *  range. */
ACRE_API acre_status acre_peer_access(acre_device_type type, int index, int other, bool *out);

/** Queues a copy between memory of two devices, or of one, in the right way.
 *
 * @p stream is one of @p src_device; NULL is the default stream of @p src_device, whichever way
 * the copy goes. The copy comes after what was queued on that stream, and later work of that
 * stream comes after the copy; streams of the destination do not wait for it. So wait for the
 * stream, or for the source device, before the destination is read elsewhere.
 *
 * @p p2p says that the source reaches memory of the destination
 * (acre_device_can_access_peer()). Then, on one device, and as long as no cache of
 * either maps pages into reserved addresses, it is a plain copy, which drivers do
 * best; otherwise a copy between peers: a driver cannot tell by itself how to reach
 * mapped pages of a device without access to them.
 * Errors: ACRE_ERR_INVALID (several backends), those of acre_copy_async() and
 *         acre_copy_peer_async().
 */
ACRE_API acre_status acre_memcpy_async(void *dst, acre_device *dst_device, const void *src,
                                       acre_device *src_device, size_t bytes, void *stream,
                                       bool p2p);

/* ---- Stream values ---------------------------------------------------------------- */

/** A stream as a value: compare member-wise, copy freely. */
typedef struct acre_stream {
    int64_t id;  /**< Decoded by the codec of its backend; even ids are external. */
    int32_t index; /**< Device index.                                              */
    int32_t type;  /**< acre_device_type.                                          */
} acre_stream;

/** The default stream of a device (index -1: current). Errors: ACRE_ERR_RANGE. */
ACRE_API acre_status acre_stream_default(acre_device_type type, int index, acre_stream *out);
/** The calling thread's current stream on a device; starts as the default one. */
ACRE_API acre_status acre_stream_current(acre_device_type type, int index, acre_stream *out);
/** Makes a stream current on its device, for this thread only; the current
 *  device does not move. Errors: ACRE_ERR_RANGE, ACRE_ERR_INVALID. */
ACRE_API acre_status acre_stream_set_current(acre_stream stream);
/** Takes the next stream of a pool of 32, round robin; priority is clamped into
 *  the range of the device. Errors: ACRE_ERR_RANGE (device). */
ACRE_API acre_status acre_stream_from_pool(acre_device_type type, int index, int priority,
                                           acre_stream *out);
/** A stream of the pool with the highest priority (high) or the default one. */
ACRE_API acre_status acre_stream_from_pool_high(acre_device_type type, int index, bool high,
                                                acre_stream *out);
/** Wraps a native stream; its id is the pointer. */
ACRE_API acre_status acre_stream_external(acre_device_type type, int index, void *native,
                                          acre_stream *out);
/** The native stream behind a value. Errors: ACRE_ERR_INVALID (a type field that
 *  names nothing), ACRE_ERR_RANGE. */
ACRE_API acre_status acre_stream_native(acre_stream stream, void **out);
/** Whether all work is done; false for streams that cannot be decoded. */
ACRE_API bool acre_stream_query(acre_stream stream);
/** Waits for a stream. */
ACRE_API acre_status acre_stream_synchronize(acre_stream stream);
/** Priority of a stream. */
ACRE_API acre_status acre_stream_priority(acre_stream stream, int *out);
/** type<<56 | index<<48 | low 48 bits of the id. */
ACRE_API uint64_t acre_stream_hash(acre_stream stream);
/** Writes "stream ID on device NAME:INDEX" and returns the length as snprintf; a NULL
 *  buffer is measured only. */
ACRE_API int acre_stream_text(acre_stream stream, char *buffer, size_t bytes);

/* ---- Guards ----------------------------------------------------------------------- */

/** Remembers a device and, for stream guards, a stream to restore. */
typedef struct acre_guard {
    acre_device_type type; /**< Whose current device is guarded.      */
    int device_original;   /**< Restored at the end; -1 once ended.   */
    int device_now;        /**< What the guard set.                   */
    int has_stream;        /**< Whether a stream is to be restored.   */
    acre_stream stream_original; /**< Restored at the end.            */
} acre_guard;

/** Makes a device current until acre_guard_end(); index -1 changes nothing.
 *  Errors: ACRE_ERR_RANGE; then nothing is to be ended. */
ACRE_API acre_status acre_guard_device(acre_guard *guard, acre_device_id device);
/** A guard for code written for one type: refuses devices of other types, but
 *  takes CUDA devices where HIP is meant. Errors: ACRE_ERR_INVALID names the device. */
ACRE_API acre_status acre_guard_device_of(acre_guard *guard, acre_device_type type,
                                          acre_device_id device);
/** Moves a running guard to another device. The one to restore stays. A guard
 *  of another type first restores, then starts over with the new type. */
ACRE_API acre_status acre_guard_reset_device(acre_guard *guard, acre_device_id device);
/** Makes a stream and its device current until acre_guard_end(). */
ACRE_API acre_status acre_guard_stream(acre_guard *guard, acre_stream stream);
/** Moves a running stream guard to another stream, restoring the one it leaves. */
ACRE_API acre_status acre_guard_reset_stream(acre_guard *guard, acre_stream stream);
/** Restores what the guard remembers. NULL and ended guards are fine. */
ACRE_API void acre_guard_end(acre_guard *guard);

/** Makes several streams current, one per device; gives the ones before.
 *
 * All must have one device type; the current device does not move. Restore by
 * acre_stream_set_current() on what came out, in reverse order.
 * Errors: ACRE_ERR_INVALID names both types.
 */
ACRE_API acre_status acre_guard_multi_begin(const acre_stream *streams, int count,
                                            acre_stream *out_originals);
/** Restores the streams that acre_guard_multi_begin() gave. */
ACRE_API void acre_guard_multi_end(const acre_stream *originals, int count);

/* ---- Events as frameworks use them ------------------------------------------------ */

/** An event that comes into being when first recorded.
 *
 * Threads: query and synchronize from any; record, block and destroy need the
 * caller's order among themselves. */
typedef struct acre_event acre_event;

/** Creates an event of a device type; flags: ACRE_EVENT_TIMING. Holds nothing
 *  native yet: it is complete, its index is -1 and its id 0. */
ACRE_API acre_status acre_event_create(acre_device_type type, uint32_t flags, acre_event **out);
/** Destroys it; pending work stays safe. NULL is accepted. */
ACRE_API void acre_event_destroy(acre_event *event);
/** Records it; from then on it belongs to that device.
 *  Errors: ACRE_ERR_INVALID (other type; other device than before, both named). */
ACRE_API acre_status acre_event_record(acre_event *event, acre_stream stream);
/** Records it only if it never was. */
ACRE_API acre_status acre_event_record_once(acre_event *event, acre_stream stream);
/** Makes stream wait for it; nothing to do when never recorded. */
ACRE_API acre_status acre_event_block(acre_event *event, acre_stream stream);
/** Whether it is complete. */
ACRE_API bool acre_event_query(acre_event *event);
/** Waits for it. */
ACRE_API acre_status acre_event_synchronize(acre_event *event);
/** Milliseconds from start to end. Checked in this order: one device type
 *  (INVALID), both with timing (INVALID), both recorded (INVALID), both
 *  complete (ACRE_ERR_NOT_READY). */
ACRE_API acre_status acre_event_elapsed(acre_event *start, acre_event *end, double *out_ms);
/** Device index, -1 before the first record. */
ACRE_API int acre_event_device_index(const acre_event *event);
/** The native event as a number, 0 before the first record. */
ACRE_API uint64_t acre_event_id(const acre_event *event);

/* ---- Masquerade ------------------------------------------------------------------- */

/** How a backend shows itself under another type (docs/BACKENDS.md). */
typedef enum acre_masquerade_form {
    ACRE_MASQUERADE_TRANSLATE = 1, /**< Inner values keep their type, outer ones show the other. */
    ACRE_MASQUERADE_RENAME = 2,    /**< The inner type is never seen by anybody.                 */
} acre_masquerade_form;

/** Shows the devices of backend under another type from now on.
 *
 * It takes the place of a backend of that type that was there before; of two
 * masquerades the later one is seen. Current device and streams are shared by
 * both types. Do it before devices are in use.
 * Errors: ACRE_ERR_INVALID (its own type, a type or form that does not exist),
 *         ACRE_ERR_STATE (it masquerades already).
 */
ACRE_API acre_status acre_masquerade_register(acre_backend *backend, acre_device_type shown,
                                              acre_masquerade_form form);
/** Undoes it; the backend displaced comes back. */
ACRE_API void acre_masquerade_unregister(acre_backend *backend);
/** Inner stream of a shown one. Refuses a stream that has not the shown type;
 *  unchecked relabels whatever it gets. Errors: ACRE_ERR_INVALID, ACRE_ERR_STATE
 *  (the backend does not masquerade). */
ACRE_API acre_status acre_masquerade_wrap(acre_backend *backend, acre_stream shown,
                                          bool unchecked, acre_stream *out_inner);
/** Shown stream of an inner one. */
ACRE_API acre_status acre_masquerade_unwrap(acre_backend *backend, acre_stream inner,
                                            acre_stream *out_shown);
/** Text of a shown stream: acre_stream_text() of the inner one and a suffix. */
ACRE_API int acre_masquerade_text(acre_backend *backend, acre_stream shown, char *buffer,
                                  size_t bytes);

ACRE_END_DECLS

#endif
