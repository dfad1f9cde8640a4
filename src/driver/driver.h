/* SPDX-License-Identifier: MIT */
/* A driver backend: one vendor's library behind the table of a backend.
 *
 * Every call enters the device first: the thread's current context (CUDA) or
 * device (HIP) is ours while the driver is called and the caller's again when the
 * call returns. Contexts are the primary ones, retained when a device is first
 * used, so a process pays only for the devices it touches.
 */
#ifndef SRC_DRIVER_DRIVER_H
#define SRC_DRIVER_DRIVER_H

#include "driver/books.h"
#include "driver/vendor/library.h"

#include <stdatomic.h>

struct driver_unit {
    driver_device native;
    driver_handle_type handle_types; /* how its memory can be shared; constant           */
    _Atomic(driver_context) context; /* CUDA's, once retained                            */
    _Atomic(driver_pool) pool;       /* where stream-ordered memory comes from, once made */
    _Atomic uint64_t reached_by[2];  /* bit per device that was let reach its memory      */
};

struct driver {
    struct driver_library library;
    const struct vendor *vendor;
    struct books books;
    _Atomic uint32_t green_count;    /* green contexts that are alive              */
    struct ptrmap green_streams;     /* stream to struct green; the lock of the books */
    int priority_least, priority_greatest;
    int unit_count;
    unsigned fork_generation;        /* of the process that opened the library */
    struct driver_unit *units;       /* unit_count of them, one per device */
};

/* Where a thread was before a call of ours. */
struct driver_scope {
    acre_status status;        /* why it could not be entered              */
    driver_context context;    /* CUDA: wanted instead of the device's, or NULL */
    int index;                 /* HIP: the device that was current         */
    driver_capture_mode mode;  /* what the thread allowed during a capture */
    bool is_switched, is_relaxed;
};

/* What differs between CUDA and HIP beyond names. Results are the driver's. */
struct vendor {
    enum library_vendor vendor;
    const char *name;       /* of the backend */
    acre_device_type type;
    driver_result (*device)(struct driver *driver, int index, driver_device *out);
    void (*fini)(struct driver *driver); /* drops contexts */
    driver_result (*enter)(struct driver *driver, int device, struct driver_scope *scope);
    void (*leave)(struct driver *driver, struct driver_scope *scope);
    acre_status (*set_current)(void *self, int device);
    acre_status (*copy)(struct driver *driver, void *dst, const void *src, size_t bytes);
    acre_status (*copy_async)(struct driver *driver, void *dst, const void *src, size_t bytes,
                              driver_stream stream);
    acre_status (*copy_peer_async)(struct driver *driver, void *dst, int dst_device,
                                   const void *src, int src_device, size_t bytes,
                                   driver_stream stream);
    acre_status (*wait_value32)(struct driver *driver, driver_stream stream, void *address,
                                uint32_t value, unsigned condition);
    acre_status (*peer_enable)(struct driver *driver, int device, int other);
    acre_status (*capture_info)(struct driver *driver, driver_stream stream,
                                driver_capture_status *out_status, driver_capture_id *out_id,
                                const driver_node **out_nodes, size_t *out_count);
    acre_status (*node_dependencies)(struct driver *driver, driver_node node,
                                     driver_node *out_nodes, size_t *count);
    acre_memory_kind (*memory_kind)(const struct driver *driver, unsigned type);
};

/* ACRE_ERR_FORKED in a child of the process that opened the library: for entries that enter no
 * device. */
acre_status driver_check_fork(const struct driver *driver);

/* Makes a device the thread's own for a call, and undoes it. memory also lets the
 * driver be asked for memory while a stream is captured. leave returns status. */
acre_status driver_enter(struct driver *driver, int device, struct driver_scope *scope);
acre_status driver_enter_memory(struct driver *driver, int device, struct driver_scope *scope);
/* As driver_enter_memory, in the context of a stream, which may be that of a green context. */
acre_status driver_enter_stream_memory(struct driver *driver, int device, const void *stream,
                                       struct driver_scope *scope);
/* As driver_enter, for work on a stream: for one of a green context, in that context. */
acre_status driver_enter_stream(struct driver *driver, int device, const void *stream,
                                struct driver_scope *scope);
acre_status driver_leave(struct driver *driver, struct driver_scope *scope, acre_status status);

/* A device for calls that are about none, such as page-locked memory: one that is
 * in use, so that no context is made for it. */
int driver_any_device(const struct driver *driver);

/* Calls an entry and turns its result into a status. */
#define CALL(entry, ...)                                                       \
    library_check(&driver->library, ENTRY_##entry, driver->library.call.entry(__VA_ARGS__))

/* Evaluates call, a status, with a device entered; needs driver, device and scope
 * by these names. */
#define ON_DEVICE(call)                                                        \
    (driver_enter(driver, device, &scope) == ACRE_OK                           \
         ? driver_leave(driver, &scope, (call))                                \
         : scope.status)
#define ON_STREAM(stream, call)                                                \
    (driver_enter_stream(driver, device, stream, &scope) == ACRE_OK            \
         ? driver_leave(driver, &scope, (call))                                \
         : scope.status)
#define ON_STREAM_MEMORY(stream, call)                                         \
    (driver_enter_stream_memory(driver, device, stream, &scope) == ACRE_OK     \
         ? driver_leave(driver, &scope, (call))                                \
         : scope.status)
#define ON_DEVICE_MEMORY(call)                                                 \
    (driver_enter_memory(driver, device, &scope) == ACRE_OK                    \
         ? driver_leave(driver, &scope, (call))                                \
         : scope.status)

/* An attribute of a device, by its numbers in both APIs (DRIVER_ATTRIBUTE_MAP);
 * absent when the driver does not know it. */
struct driver_attribute {
    int cuda, hip;
};
#define DRIVER_ATTRIBUTE(name, cuda_value, cuda_name, hip_value, hip_name)     \
    static const struct driver_attribute attribute_##name __attribute__((unused)) = { \
        cuda_value, hip_value};
DRIVER_ATTRIBUTE_MAP(DRIVER_ATTRIBUTE)
#undef DRIVER_ATTRIBUTE
int driver_attribute_get(const struct driver *driver, int device,
                         struct driver_attribute attribute, int absent);

/* Opens a vendor's library and makes what the entries of the table work on. */
acre_status driver_create(const struct vendor *vendor, struct driver **out);
void driver_destroy(void *self);

/* The table of a backend without the groups that this driver lacks. */
void driver_table(const struct driver *driver, acre_backend_ops *out);

/* Opens a vendor's library and registers it under its name; see builtin.h. */
acre_status driver_start(const struct vendor *vendor, acre_backend **out);

/* The driver behind a device of ours. Errors: ACRE_ERR_INVALID names call. */
struct acre_device;
acre_status driver_of(const char *call, const struct acre_device *device, struct driver **out);

#endif
