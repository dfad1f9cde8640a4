/* SPDX-License-Identifier: MIT */
/** @file backend.h
 *  @brief The table of functions that puts Acre on a kind of device.
 *
 * A backend author fills in one @ref acre_backend_ops and registers it. The
 * required entries are enough for the caching allocator; each optional group
 * adds what its comment says. docs/BACKENDS.md walks through it.
 */
#ifndef ACRE_BACKEND_H
#define ACRE_BACKEND_H

#include <acre/base.h>

#include <stdbool.h>

ACRE_BEGIN_DECLS

/** Version of @ref acre_backend_ops; grows when its meaning changes. */
#define ACRE_BACKEND_VERSION 1

/** Kinds of device. The numbers are those PyTorch uses, so that both agree. */
typedef enum acre_device_type {
    ACRE_DEVICE_CPU = 0,      /**< Host memory.                                  */
    ACRE_DEVICE_CUDA = 1,     /**< NVIDIA, or AMD shown as CUDA (masquerade).    */
    ACRE_DEVICE_OPENCL = 5,   /**< Any OpenCL device with shared virtual memory. */
    ACRE_DEVICE_HIP = 6,      /**< AMD under its own name.                       */
    ACRE_DEVICE_PRIVATE = 20, /**< The reference device, and other people's own. */
} acre_device_type;

/** One more than the largest device type. */
#define ACRE_DEVICE_TYPE_COUNT 22

/** What a device offers, as a set of bits; one per optional group of the table. */
typedef enum acre_capability {
    ACRE_CAP_STREAMS = 1u << 0,      /**< Streams and events.                         */
    ACRE_CAP_COPY = 1u << 1,         /**< Copies and fills.                           */
    ACRE_CAP_LAUNCH = 1u << 2,       /**< Host functions on streams.                  */
    ACRE_CAP_VALUES = 1u << 3,       /**< Streams write and wait for 32-bit values.   */
    ACRE_CAP_VIRTUAL = 1u << 4,      /**< Reserve, create, map: virtual memory.       */
    ACRE_CAP_SHARE_FD = 1u << 5,     /**< Physical memory travels as descriptors.     */
    ACRE_CAP_MULTICAST = 1u << 6,    /**< One write reaches several devices.          */
    ACRE_CAP_CAPTURE = 1u << 7,      /**< Streams can be captured into graphs.        */
    ACRE_CAP_HOST_MEMORY = 1u << 8,  /**< Page-locked host memory.                    */
    ACRE_CAP_POINTERS = 1u << 9,     /**< Knows what a pointer belongs to.            */
    ACRE_CAP_PEERS = 1u << 10,       /**< Devices may reach one another's memory.     */
    ACRE_CAP_ACCESS = 1u << 11,      /**< Host access through windows (protection).   */
    ACRE_CAP_IPC = 1u << 12,         /**< Plain allocations can be opened elsewhere.  */
    ACRE_CAP_CURRENT = 1u << 13,     /**< Has a current device per thread of its own. */
    ACRE_CAP_IPC_USERS = 1u << 14,   /**< Knows who has plain allocations open.       */
    ACRE_CAP_KERNELS = 1u << 15,     /**< Runs kernels that are C functions.          */
    ACRE_CAP_GREEN = 1u << 16,       /**< Green contexts: parts of a device.          */
    ACRE_CAP_ASYNC = 1u << 17,       /**< Memory in the order of streams.             */
    ACRE_CAP_FABRIC = 1u << 18,      /**< Physical memory travels over a fabric.      */
    ACRE_CAP_IPC_EVENTS = 1u << 19,  /**< Events can be opened by other processes.    */
} acre_capability;

/** Facts about one device. */
typedef struct acre_device_info {
    uint32_t struct_size;       /**< sizeof(acre_device_info), set by the caller.       */
    char name[64];              /**< Human-readable, zero-terminated.                   */
    uint64_t total_bytes;       /**< Capacity.                                          */
    uint64_t alloc_granularity; /**< Sizes given to alloc are multiples of it.          */
    uint64_t page_bytes;        /**< Granularity of virtual memory; 0 without.          */
    uint32_t capabilities;      /**< Bits of @ref acre_capability; filled by Acre too.  */
    int32_t priority_least;     /**< Lowest stream priority.                            */
    int32_t priority_greatest;  /**< Highest stream priority (may be smaller: CUDA).    */
    int32_t compute_units;      /**< Multiprocessors or the like; 0 when unknown.       */
} acre_device_info;

/** Directions of a copy. Values as in OpenReg. */
typedef enum acre_copy_kind {
    ACRE_COPY_HOST_TO_HOST = 0,     /**< Neither side is device memory. */
    ACRE_COPY_HOST_TO_DEVICE = 1,   /**< To the device.                 */
    ACRE_COPY_DEVICE_TO_HOST = 2,   /**< From the device.               */
    ACRE_COPY_DEVICE_TO_DEVICE = 3, /**< Both sides are device memory.  */
} acre_copy_kind;

/** What kind of memory a pointer names. */
typedef enum acre_memory_kind {
    ACRE_MEMORY_UNMANAGED = 0, /**< Nothing the backend handed out.     */
    ACRE_MEMORY_HOST = 1,      /**< Page-locked host memory.            */
    ACRE_MEMORY_DEVICE = 2,    /**< Device memory.                      */
} acre_memory_kind;

/** What a backend knows about a pointer. */
typedef struct acre_pointer_info {
    uint32_t struct_size;  /**< sizeof(acre_pointer_info), set by the caller.    */
    acre_memory_kind kind; /**< Unmanaged for unknown pointers.                  */
    int device;            /**< Owning device, -1 for host and unmanaged memory. */
    void *base;            /**< First byte of the allocation, or the pointer.    */
    uint64_t bytes;        /**< Extent of the allocation, 0 for unmanaged.       */
} acre_pointer_info;

/** Bits for stream_create. */
#define ACRE_STREAM_NON_BLOCKING 0x1u

/** Bits for event_create. */
#define ACRE_EVENT_TIMING 0x1u
/** The event can be opened by other processes; not together with timing, and only
 *  where there is ACRE_CAP_IPC_EVENTS. */
#define ACRE_EVENT_SHARED 0x2u

/** How physical memory is to be shareable. */
typedef enum acre_handle_type {
    ACRE_HANDLE_NONE = 0,   /**< Not shareable.                  */
    ACRE_HANDLE_POSIX = 1,  /**< As a file descriptor.           */
    ACRE_HANDLE_FABRIC = 2, /**< As 64 bytes known to a fabric.  */
} acre_handle_type;

/** Access that a device has to a mapped range. */
typedef enum acre_access {
    ACRE_ACCESS_NONE = 0,       /**< Nobody.         */
    ACRE_ACCESS_READ = 1,       /**< Read only.      */
    ACRE_ACCESS_READ_WRITE = 3, /**< Read and write. */
} acre_access;

/** Conditions of wait_value32. */
typedef enum acre_wait_condition {
    ACRE_WAIT_GEQ = 0, /**< (int32_t)(*address - value) >= 0 */
    ACRE_WAIT_EQ = 1,  /**< *address == value                */
    ACRE_WAIT_AND = 2, /**< (*address & value) != 0          */
    ACRE_WAIT_NOR = 3, /**< ~(*address | value) != 0         */
} acre_wait_condition;

/** Whether a stream is being captured. */
typedef enum acre_capture_status {
    ACRE_CAPTURE_NONE = 0,        /**< Not capturing.                              */
    ACRE_CAPTURE_ACTIVE = 1,      /**< Work is recorded, not run.                  */
    ACRE_CAPTURE_INVALIDATED = 2, /**< Capture failed; ending it reports an error. */
} acre_capture_status;

/** State of a capture as seen from one stream. */
typedef struct acre_capture_info {
    uint32_t struct_size;       /**< sizeof(acre_capture_info), set by the caller. */
    acre_capture_status status; /**< The rest is meaningful while active.        */
    uint64_t id;                /**< Unique per capture, never reused.           */
    uint64_t terminals[16];     /**< Nodes that the next node would depend on.   */
    uint32_t terminal_count;    /**< How many; above 16 the list is cut short.   */
} acre_capture_info;

/** What a running kernel may ask of its device. The backend fills it in. */
typedef struct acre_kernel_context {
    int device; /**< The device that runs the kernel. */
    /** See acre_kernel_pointer(). */
    void *(*pointer)(struct acre_kernel_context *context, const void *device_pointer,
                     size_t bytes);
} acre_kernel_context;

/** What stream-ordered memory of a device takes, in bytes. */
typedef struct acre_async_usage {
    uint32_t struct_size;   /**< sizeof(acre_async_usage), set by the caller. */
    uint64_t used;          /**< Allocated and not freed.     */
    uint64_t used_peak;     /**< Highest since the reset.     */
    uint64_t reserved;      /**< Held from the device.        */
    uint64_t reserved_peak; /**< Highest since the reset.     */
} acre_async_usage;

/** How the work queues of a green context are shared. */
typedef enum acre_green_scope {
    ACRE_GREEN_SCOPE_NONE = 0,     /**< Not asked for.                                  */
    ACRE_GREEN_SCOPE_DEVICE = 1,   /**< Queues of the device's context, "device_ctx".   */
    ACRE_GREEN_SCOPE_BALANCED = 2, /**< Queues of its own where possible, "balanced".   */
} acre_green_scope;

/** What part of a device a green context gets; zero means not asked for. */
typedef struct acre_green_config {
    uint32_t struct_size;   /**< sizeof(acre_green_config).                             */
    uint32_t units;         /**< Compute units, at most those of the device.            */
    acre_green_scope scope; /**< Work queues.                                           */
    uint32_t queue_limit;   /**< Most work queues in use at once; needs a scope.        */
} acre_green_config;

/** A kernel: a C function that the device runs with a copy of its arguments.
 *
 * Device pointers in the arguments are not readable as they are; the kernel
 * asks @p context through acre_kernel_pointer() for an address it can use.
 */
typedef void (*acre_kernel_fn)(acre_kernel_context *context, void *args);

/** The table a backend fills in.
 *
 * Common contract, so that no entry repeats it:
 *   - struct_size is sizeof(acre_backend_ops) as the backend was compiled;
 *     entries beyond it count as NULL, so old backends keep working;
 *   - self is what was given at registration; device is a valid index;
 *   - out parameters are non-NULL and written only on ACRE_OK;
 *   - sizes are non-zero multiples of the granularity of the call;
 *   - streams, events, handles and graphs are opaque non-NULL pointers, except
 *     that a NULL stream names the device's default stream where there is one;
 *   - calls may come from any thread and never re-enter Acre;
 *   - "out of memory" is ACRE_ERR_DEVICE_MEMORY and nothing else is.
 *
 * Groups are complete or absent: a table with half a group is refused. Absent
 * entries are filled with functions that answer ACRE_ERR_UNSUPPORTED.
 */
typedef struct acre_backend_ops {
    uint32_t struct_size; /**< sizeof(acre_backend_ops).  */
    uint32_t version;     /**< ACRE_BACKEND_VERSION.      */

    /* Required. */
    /** Number of devices; 0 is a valid answer. Constant once asked. */
    acre_status (*device_count)(void *self, int *out_count);
    /** Facts about a device. Capabilities that stay 0 become all groups of the
     * table; otherwise they must be a part of those. A granularity of 0 is 1. */
    acre_status (*device_info)(void *self, int device, acre_device_info *out_info);
    /** Free and total bytes at this moment. */
    acre_status (*memory_info)(void *self, int device, uint64_t *out_free,
                               uint64_t *out_total);
    /** Obtains device memory, aligned to at least 512 bytes. */
    acre_status (*alloc)(void *self, int device, size_t bytes, void **out_base);
    /** Returns memory of alloc; only an exact base is accepted. */
    acre_status (*free)(void *self, int device, void *base);

    /* Optional group "streams and events": ACRE_CAP_STREAMS. Without it the
     * cache treats all work as finished when a call returns. */
    /** Creates a stream; priority lies in the range of the device. */
    acre_status (*stream_create)(void *self, int device, uint32_t flags, int priority,
                                 void **out_stream);
    /** Waits for the work of the stream, then destroys it. */
    acre_status (*stream_destroy)(void *self, int device, void *stream);
    /** ACRE_OK when idle, ACRE_ERR_NOT_READY while anything is queued or running. */
    acre_status (*stream_query)(void *self, int device, void *stream);
    /** Waits for everything submitted before; reports a failed task once. */
    acre_status (*stream_synchronize)(void *self, int device, void *stream);
    /** Later work of the stream waits for what the event records now. */
    acre_status (*stream_wait_event)(void *self, int device, void *stream, void *event);
    /** The priority given at creation. */
    acre_status (*stream_priority)(void *self, int device, void *stream, int *out_priority);
    /** Waits for all streams of the device. */
    acre_status (*device_synchronize)(void *self, int device);
    /** Creates an event, complete until first recorded. */
    acre_status (*event_create)(void *self, int device, uint32_t flags, void **out_event);
    /** Destroys an event; pending records and waits stay safe. */
    acre_status (*event_destroy)(void *self, int device, void *event);
    /** The event completes when the stream reaches this point. */
    acre_status (*event_record)(void *self, int device, void *event, void *stream);
    /** ACRE_OK when the latest record completed, else ACRE_ERR_NOT_READY. */
    acre_status (*event_query)(void *self, int device, void *event);
    /** Waits for the latest record. */
    acre_status (*event_synchronize)(void *self, int device, void *event);
    /** Milliseconds between two completed timing events of one device. */
    acre_status (*event_elapsed)(void *self, int device, void *start, void *end,
                                 double *out_ms);

    /* Optional group "copies": ACRE_CAP_COPY. */
    /** Blocking copy; both sides are checked against kind. A copy that fails does not touch
     * host memory after it has returned, either. */
    acre_status (*copy)(void *self, void *dst, const void *src, size_t bytes,
                        acre_copy_kind kind);
    /** Queues a copy on a stream of device. */
    acre_status (*copy_async)(void *self, int device, void *dst, const void *src,
                              size_t bytes, acre_copy_kind kind, void *stream);
    /** Queues a copy between two devices that may not reach each other. A NULL stream is the
     * default stream of src_device. */
    acre_status (*copy_peer_async)(void *self, void *dst, int dst_device, const void *src,
                                   int src_device, size_t bytes, void *stream);
    /** Queues setting bytes to an 8-bit value. */
    acre_status (*fill_async)(void *self, int device, void *dst, int value, size_t bytes,
                              void *stream);

    /* Optional group "launch": ACRE_CAP_LAUNCH. */
    /** Queues a host function. */
    acre_status (*launch_host)(void *self, int device, void *stream, void (*fn)(void *),
                               void *arg);

    /* Optional group "kernels": ACRE_CAP_KERNELS. Devices that are not of the
     * machine's own kind cannot run C functions. */
    /** Queues a kernel with a private copy of args. */
    acre_status (*launch_kernel)(void *self, int device, void *stream, acre_kernel_fn fn,
                                 const void *args, size_t args_bytes);

    /* Optional group "values": ACRE_CAP_VALUES. */
    /** Queues a 32-bit store to aligned device memory, visible to waiters. */
    acre_status (*write_value32)(void *self, int device, void *stream, void *address,
                                 uint32_t value);
    /** Later work waits until the condition holds for the value at address. */
    acre_status (*wait_value32)(void *self, int device, void *stream, void *address,
                                uint32_t value, acre_wait_condition condition);

    /* Optional group "virtual memory": ACRE_CAP_VIRTUAL. Addresses and memory
     * are obtained apart and joined by map. Sizes are multiples of page_bytes.
     * Growing a segment in place and stitching need it. */
    /** Reserves addresses, no memory. */
    acre_status (*reserve)(void *self, int device, size_t bytes, void **out_base);
    /** Returns addresses; nothing may be mapped there. Exact range only. */
    acre_status (*unreserve)(void *self, int device, void *base, size_t bytes);
    /** Obtains physical memory without an address. */
    acre_status (*create)(void *self, int device, size_t bytes, acre_handle_type type,
                          void **out_handle);
    /** Drops a handle; the memory lives on while it is mapped. */
    acre_status (*release)(void *self, int device, void *handle);
    /** Maps a whole handle; offset must be 0 and bytes its size. One handle may
     * be mapped at several addresses. No access until set_access. */
    acre_status (*map)(void *self, int device, void *base, size_t bytes, size_t offset,
                       void *handle);
    /** Unmaps whole mappings that tile the range exactly. */
    acre_status (*unmap)(void *self, int device, void *base, size_t bytes);
    /** Grants accessor, a device index, access to a mapped range of device. */
    acre_status (*set_access)(void *self, int device, void *base, size_t bytes, int accessor,
                              acre_access access);

    /* Optional group "sharing": ACRE_CAP_SHARE_FD. */
    /** Gives a new descriptor of a handle that was created as ACRE_HANDLE_POSIX. */
    acre_status (*export_fd)(void *self, int device, void *handle, int *out_fd);
    /** Makes a handle of a descriptor, which stays the caller's to close. The size is 0
     *  where a driver does not tell; mapping another one than it has then fails. */
    acre_status (*import_fd)(void *self, int device, int fd, void **out_handle,
                             uint64_t *out_bytes);

    /* Optional group "multicast": ACRE_CAP_MULTICAST. */
    /** Makes a handle that stands for the same range of several devices. */
    acre_status (*multicast_create)(void *self, const int *devices, int device_count,
                                    size_t bytes, void **out_handle);
    /** Binds memory of one member device, given by its address, at an offset. */
    acre_status (*multicast_bind)(void *self, void *handle, int device, size_t offset,
                                  void *memory, size_t bytes);
    /** Takes back the binding of one member device. */
    acre_status (*multicast_unbind)(void *self, void *handle, int device, size_t offset,
                                    size_t bytes);
    /** Queues writing bytes of device memory src to every bound member. */
    acre_status (*multicast_write_async)(void *self, int device, void *handle, size_t offset,
                                         const void *src, size_t bytes, void *stream);
    /** Drops the handle; every binding must be gone. */
    acre_status (*multicast_release)(void *self, void *handle);

    /* Optional group "capture": ACRE_CAP_CAPTURE. */
    /** Puts a stream into capture: work is recorded, not run. */
    acre_status (*capture_begin)(void *self, int device, void *stream);
    /** Ends it on the stream that began it; other streams must have joined. */
    acre_status (*capture_end)(void *self, int device, void *stream, void **out_graph);
    /** Tells whether and how the stream is captured. */
    acre_status (*capture_info)(void *self, int device, void *stream,
                                acre_capture_info *out_info);
    /** The nodes that a node of a running capture directly depends on. At most
     * capacity are written; the count says how many there are. */
    acre_status (*capture_dependencies)(void *self, int device, uint64_t capture_id,
                                        uint64_t node, uint64_t *out_nodes,
                                        uint32_t capacity, uint32_t *out_count);
    /** Queues a whole graph; a graph may be launched many times. */
    acre_status (*graph_launch)(void *self, int device, void *graph, void *stream);
    /** Drops a graph; launches under way finish. */
    acre_status (*graph_destroy)(void *self, int device, void *graph);

    /* Optional group "host memory": ACRE_CAP_HOST_MEMORY. */
    /** Obtains page-locked host memory, page-aligned. */
    acre_status (*host_alloc)(void *self, size_t bytes, void **out_base);
    /** Returns it; exact base only. */
    acre_status (*host_free)(void *self, void *base);
    /** Page-locks memory of the caller. */
    acre_status (*host_register)(void *self, void *base, size_t bytes);
    /** Undoes host_register; exact base only. */
    acre_status (*host_unregister)(void *self, void *base);

    /* Optional group "pointers": ACRE_CAP_POINTERS. */
    /** Tells what a pointer, also an interior one, belongs to. */
    acre_status (*pointer_info)(void *self, const void *pointer, acre_pointer_info *out_info);

    /* Optional group "peers": ACRE_CAP_PEERS. */
    /** Whether device could reach memory of other. */
    acre_status (*peer_query)(void *self, int device, int other, bool *out_can);
    /** Lets device reach memory of other; repeating it is fine. */
    acre_status (*peer_enable)(void *self, int device, int other);

    /* Optional group "access windows": ACRE_CAP_ACCESS. Device memory is not
     * readable by the host except inside counted windows. */
    /** Opens the whole allocation around pointer to the host; counts. */
    acre_status (*access_open)(void *self, const void *pointer);
    /** Closes one window. */
    acre_status (*access_close)(void *self, const void *pointer);

    /* Optional group "ipc": ACRE_CAP_IPC, for memory of alloc. */
    /** Describes an allocation, by its exact base, in 64 bytes. */
    acre_status (*ipc_export)(void *self, int device, void *base, uint8_t out_handle[64]);
    /** Opens what another process exported. */
    acre_status (*ipc_open)(void *self, int device, const uint8_t handle[64],
                            void **out_base, uint64_t *out_bytes);
    /** Closes it again. */
    acre_status (*ipc_close)(void *self, int device, void *base);

    /* Optional group "current device": ACRE_CAP_CURRENT, for drivers that keep
     * one per thread; Acre tells them when its own changes. */
    /** Makes device current for the calling thread. */
    acre_status (*set_current)(void *self, int device);

    /* Optional group "ipc users": ACRE_CAP_IPC_USERS, beside "ipc". Each
     * ipc_export then gives a handle of its own, and the cache keeps exported
     * memory from being reused while somebody has it open. */
    /** How many processes have opened a handle that ipc_export gave here. */
    acre_status (*ipc_users)(void *self, int device, const uint8_t handle[64],
                             uint64_t *out_count);
    /** From now on nobody opens the handle. Who has it open keeps it and is
     * counted; when the count is 0 the handle is forgotten. */
    acre_status (*ipc_revoke)(void *self, int device, const uint8_t handle[64],
                              uint64_t *out_count);

    /* Optional group "green contexts": ACRE_CAP_GREEN, beside "streams and events".
     * <acre/green.h> has checked the configuration against the device. */
    /** Carves a part out of a device; out_units tells how many units it got. */
    acre_status (*green_create)(void *self, int device, const acre_green_config *config,
                                void **out_green, uint32_t *out_units);
    /** Gives the part back; its streams are destroyed before. */
    acre_status (*green_destroy)(void *self, int device, void *green);
    /** Creates a stream whose work runs in the part; stream_destroy ends it. */
    acre_status (*green_stream)(void *self, int device, void *green, uint32_t flags,
                                int priority, void **out_stream);
    /** Makes the part current for other users of the driver on this thread. */
    acre_status (*green_push)(void *self, int device, void *green);
    /** Undoes the latest push. Errors: ACRE_ERR_STATE (another one is current). */
    acre_status (*green_pop)(void *self, int device, void *green);
    /** How many work queues a part gets unless it asks for a limit. */
    acre_status (*green_queues)(void *self, int device, uint32_t *out_count);

    /* Optional group "stream-ordered memory": ACRE_CAP_ASYNC, beside "streams and
     * events". The backend keeps freed memory and hands it out again in the order
     * of streams; <acre/async.h> is what users see. */
    /** Obtains memory that work queued on the stream from now on may use. */
    acre_status (*async_alloc)(void *self, int device, size_t bytes, void *stream,
                               void **out_base);
    /** Returns memory of async_alloc when the stream gets there; exact base only. */
    acre_status (*async_free)(void *self, int device, void *base, void *stream);
    /** Gives idle memory back to the device until at most @p bytes are held. */
    acre_status (*async_trim)(void *self, int device, uint64_t bytes);
    /** How much memory is in use and held. */
    acre_status (*async_usage)(void *self, int device, acre_async_usage *out_usage);
    /** Sets the peaks to the present levels. */
    acre_status (*async_reset_peak)(void *self, int device);

    /* Optional group "fabric": ACRE_CAP_FABRIC, beside "virtual memory". */
    /** Describes a handle that was created as ACRE_HANDLE_FABRIC. */
    acre_status (*export_fabric)(void *self, int device, void *handle, uint8_t out_fabric[64]);
    /** Makes a handle from what export_fabric gave; the exporter tells how large it is. */
    acre_status (*import_fabric)(void *self, int device, const uint8_t fabric[64],
                                 size_t bytes, void **out_handle);

    /* Optional group "shared events": ACRE_CAP_IPC_EVENTS. */
    /** Describes an event that was created as ACRE_EVENT_SHARED. */
    acre_status (*ipc_event_export)(void *self, int device, void *event,
                                    uint8_t out_handle[64]);
    /** Opens what another process exported; event_destroy ends it. */
    acre_status (*ipc_event_open)(void *self, int device, const uint8_t handle[64],
                                  void **out_event);
} acre_backend_ops;

/** How the backend numbers the streams of its pools (docs/BACKENDS.md). */
typedef enum acre_stream_codec {
    ACRE_STREAM_CODEC_REFERENCE = 0, /**< Default 13; type in bits 1-3, slot in 4-8. */
    ACRE_STREAM_CODEC_CUDA = 1,      /**< Default 0; type in bits 1-4, slot in 5-9.  */
} acre_stream_codec;

/** Bit of acre_backend_desc.flags: the backend works in a child of fork.
 *
 * Without it a child that inherited the backend gets ACRE_ERR_FORKED from every call, and no
 * entry of the table is called there. */
#define ACRE_BACKEND_FORK_SAFE 0x1u
/** Bit of acre_backend_desc.flags: a NULL native stream is the default stream of
 *  its device. Stream id 0 of the CUDA codec means it; without the bit, and in
 *  the reference codec, the default stream is the first one of the pool. */
#define ACRE_BACKEND_NULL_STREAM 0x2u
/** Bit of acre_backend_desc.flags: the work of a call is finished when the call returns.
 *
 * The table then leaves out all entries of streams and events, and Acre has them: a stream is
 * a name, an event is complete. launch_host may be left out too, and of the copies all but
 * copy. Entries that are there and take a stream get one of Acre's names, and ignore it.
 * The capabilities are ACRE_CAP_STREAMS, ACRE_CAP_LAUNCH, with copy ACRE_CAP_COPY, and those
 * of the groups in the table. */
#define ACRE_BACKEND_SYNCHRONOUS 0x4u

/** A backend as registered. */
typedef struct acre_backend_desc {
    uint32_t struct_size;         /**< sizeof(acre_backend_desc).                        */
    acre_stream_codec codec;      /**< How stream ids are formed.                        */
    const char *name;             /**< Unique, letters, digits, '-' and '_'; copied.     */
    acre_device_type type;        /**< What its devices are.                             */
    const acre_backend_ops *ops;  /**< Copied.                                           */
    void *self;                   /**< Handed to every entry.                            */
    void (*destroy)(void *self);  /**< Called when the backend goes; may be NULL.        */
    uint32_t flags;               /**< ACRE_BACKEND_* bits, default none.                */
} acre_backend_desc;

/** A registered backend. */
typedef struct acre_backend acre_backend;

/** Checks a table, fills its gaps, asks for its devices and registers it.
 *
 * Until it is unregistered, its devices can be found by acre_device_get()
 * under its type, unless another backend of that type was there first. When
 * registration fails, destroy is not called and self stays the caller's.
 * Threads: any.
 * Errors:  ACRE_ERR_INVALID (a required entry is missing, a group is
 *          incomplete, a bad name), ACRE_ERR_EXISTS (the name is taken),
 *          ACRE_ERR_HOST_MEMORY, and what the backend answers.
 */
ACRE_API acre_status acre_backend_register(const acre_backend_desc *desc,
                                           acre_backend **out);

/** Unregisters a backend and calls its destroy. NULL is accepted.
 *
 * One that is not registered, or not any more, is left alone (and a log line).
 * Streams of its pools are destroyed before, a masquerade ends. The caller
 * makes sure that nothing uses its devices any more. A built-in backend starts
 * anew at its next use.
 */
ACRE_API void acre_backend_unregister(acre_backend *backend);

/** Finds a backend by name; built-in ones ("sim", "host", "cuda", "hip",
 *  "opencl") start at first use.
 *
 * The environment variable ACRE_BACKENDS, a list of names with commas between,
 * keeps all other built-in ones from being started.
 * Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_UNSUPPORTED (a built-in backend cannot be
 *         had here; the text says why), and what starting the backend answers.
 */
ACRE_API acre_status acre_backend_find(const char *name, acre_backend **out);

/** What a shared library with a backend exports under the name `acre_backend_describe`.
 *
 * Fills in @p out, whose struct_size is set and whose other fields are zero; what it points to
 * stays as long as the library. Anything but ACRE_OK means that there is no backend. */
typedef acre_status (*acre_backend_describe_fn)(acre_backend_desc *out);

/** Loads a shared library and registers the backend that it describes.
 *
 * @p path is a path or a name, as dlopen() takes it. The library stays loaded; loading it
 * again gives the backend that it registered before, as long as that is registered.
 * Errors: ACRE_ERR_UNSUPPORTED (the library cannot be loaded or has no
 *         acre_backend_describe; the text says which), ACRE_ERR_FORMAT (the file was cut short),
 *         ACRE_ERR_EXISTS (a name of a backend that comes with Acre), what that function answers,
 *         and those of acre_backend_register().
 */
ACRE_API acre_status acre_backend_load(const char *path, acre_backend **out);

/** Names the backends this build knows, registered or not, in a fixed order.
 *
 * index counts from 0; NULL ends the list.
 */
ACRE_API const char *acre_backend_name_at(int index);

/** The name of a backend. */
ACRE_API const char *acre_backend_name(const acre_backend *backend);

/** The type of its devices, not that of a masquerade. */
ACRE_API acre_device_type acre_backend_type(const acre_backend *backend);

/** How many devices it has. */
ACRE_API int acre_backend_device_count(const acre_backend *backend);

/** An address at which a kernel may touch @p bytes of device memory.
 *
 * @p context is what the kernel was called with. NULL when the range is not
 * memory that this device may reach.
 */
ACRE_API void *acre_kernel_pointer(acre_kernel_context *context, const void *device_pointer,
                                   size_t bytes);

ACRE_END_DECLS

#endif
