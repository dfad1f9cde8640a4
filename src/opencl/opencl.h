/* SPDX-License-Identifier: MIT */
/* The backend "opencl": devices with shared virtual memory, of all platforms.
 *
 * Memory is coarse-grained SVM, or fine-grained when ACRE_OPENCL asks for it;
 * addresses are the same on host and devices. A stream is an in-order command
 * queue. All devices of a platform share one context, so that their queues wait
 * for each other's events and reach each other's memory; devices of different
 * platforms share nothing, and what concerns two of them is unsupported.
 *
 * OpenCL itself knows nothing about a pointer, so that the backend keeps books:
 * ranges by address (memory.c), streams and events by handle.
 *
 * Locks: opencl.lock guards the books and is never held around a call that may
 * wait; stream.lock keeps what is enqueued and the stream's tail in step.
 */
#ifndef SRC_OPENCL_OPENCL_H
#define SRC_OPENCL_OPENCL_H

#include "backend/backend.h"
#include "base/lock.h"
#include "base/ptrmap.h"
#include "base/rbtree.h"
#include "opencl/api.h"

#include <acre/opencl.h>

/* What ACRE_OPENCL says. */
struct opencl_config {
    uint64_t memory_bytes; /* most that Acre takes of a device; 0: all it has */
    uint32_t grain;        /* 0 coarse, 1 fine                                */
    uint32_t kind;         /* index into all, cpu, gpu, accelerator           */
};

/* One platform. */
struct opencl_platform {
    ocl_platform id;
    ocl_context context;
};

struct opencl_device {
    ocl_device id;
    int platform;          /* index into platforms                         */
    ocl_queue copies;      /* of blocking copies                           */
    char name[64];
    uint64_t bytes_total;
    uint64_t bytes_alloc;  /* most in one allocation                       */
    uint64_t bytes_used;   /* opencl.lock                                  */
    int32_t compute_units;
    bool runs_functions;   /* has native kernels                           */
};

/* The backend: self of every entry. */
struct opencl {
    struct opencl_config config;
    struct opencl_platform *platforms;
    int platform_count;
    struct opencl_device *devices;
    int device_count;
    struct lock lock;
    struct rbtree ranges;   /* all memory, by address; lock */
    struct ptrmap streams;  /* struct stream; lock          */
    struct ptrmap events;   /* struct opencl_event; lock           */
    unsigned fork_generation; /* of the process that started it    */
};

/* The backend behind a device, or ACRE_ERR_INVALID. */
acre_status opencl_of(acre_device *device, struct opencl **out);

static inline ocl_context opencl_context(const struct opencl *self, int device)
{
    return self->platforms[self->devices[device].platform].context;
}

/* Makes an in-order queue that keeps times. */
acre_status opencl_queue_create(struct opencl *self, int device, ocl_queue *out);

/* ---- Memory ------------------------------------------------------------------------ */

enum range_origin { RANGE_DEVICE, RANGE_HOST, RANGE_REGISTERED };

struct opencl_range {
    struct rbnode node;
    uintptr_t base;
    size_t bytes;
    enum range_origin origin;
    int device;        /* of RANGE_DEVICE, else -1                              */
    void *memory;      /* what SVMAlloc gave                                    */
    ocl_mem *buffers;  /* of host memory: one per platform, so that drivers may
                          lock the pages                                        */
};

acre_status memory_info(void *self, int device, uint64_t *out_free, uint64_t *out_total);
acre_status memory_alloc(void *self, int device, size_t bytes, void **out_base);
acre_status memory_free(void *self, int device, void *base);
acre_status memory_host_alloc(void *self, size_t bytes, void **out_base);
acre_status memory_host_free(void *self, void *base);
acre_status memory_host_register(void *self, void *base, size_t bytes);
acre_status memory_host_unregister(void *self, void *base);
acre_status memory_pointer_info(void *self, const void *pointer, acre_pointer_info *out_info);
/* Whether device may reach all of a range of device memory. */
bool memory_is_reached(struct opencl *self, int device, const void *pointer, size_t bytes);
/* Gives back everything. */
void memory_fini(struct opencl *self);

/* ---- Copies ------------------------------------------------------------------------ */

acre_status copy_now(void *self, void *dst, const void *src, size_t bytes, acre_copy_kind kind);
acre_status copy_queued(void *self, int device, void *dst, const void *src, size_t bytes,
                        acre_copy_kind kind, void *stream);
acre_status copy_peer(void *self, void *dst, int dst_device, const void *src, int src_device,
                      size_t bytes, void *stream);
acre_status copy_fill(void *self, int device, void *dst, int value, size_t bytes, void *stream);

/* ---- Streams ----------------------------------------------------------------------- */

struct stream {
    int device;
    int priority;
    bool is_leaving;     /* being destroyed: waited for, but not found; opencl.lock */
    ocl_queue queue;
    struct lock lock;
    ocl_event tail;      /* of what was enqueued last; NULL: known to be idle; lock */
    bool is_lent;        /* others may enqueue too; lock                            */
    bool tail_is_probe;  /* a query put the tail there; lock                        */
    ocl_int failure;     /* of a host function's turn, until reported; lock         */
    /* Host functions run on a thread of the stream, made for the first one. */
    bool has_thread;
    bool is_ending;          /* lock */
    pthread_t thread;
    pthread_cond_t wake;
    struct list functions;   /* struct function, oldest first; lock */
};

acre_status stream_create(void *self, int device, uint32_t flags, int priority, void **out);
acre_status stream_destroy(void *self, int device, void *stream);
acre_status stream_query(void *self, int device, void *stream);
acre_status stream_synchronize(void *self, int device, void *stream);
acre_status stream_wait_event(void *self, int device, void *stream, void *event);
acre_status stream_priority(void *self, int device, void *stream, int *out_priority);
acre_status stream_device_synchronize(void *self, int device);

/* Waits for all streams of a platform that may have work. */
acre_status stream_platform_synchronize(struct opencl *self, int platform);
/* Finds a stream of a device and takes its lock. */
acre_status stream_enter(struct opencl *self, int device, void *handle, struct stream **out);
/* Ends what stream_enter began, after a call that enqueued one command, whose
 * event becomes the stream's tail; or failed with a code. */
acre_status stream_leave(struct stream *stream, const char *call, ocl_int code, ocl_event event);
/* Destroys all streams. */
void stream_fini(struct opencl *self);

/* ---- Functions of the host, and of devices that run them ----------------------------- */

acre_status function_launch_host(void *self, int device, void *stream, void (*fn)(void *),
                                 void *arg);
acre_status function_launch_kernel(void *self, int device, void *stream, acre_kernel_fn fn,
                                   const void *args, size_t args_bytes);
/* Runs what is left and ends the thread of a stream. */
void function_thread_end(struct stream *stream);

/* ---- Events ------------------------------------------------------------------------ */

struct opencl_event {
    int device;
    uint32_t flags;    /* ACRE_EVENT_* bits                                   */
    ocl_event latest;  /* of the latest record, NULL before; opencl.lock      */
};

acre_status event_create(void *self, int device, uint32_t flags, void **out_event);
acre_status event_destroy(void *self, int device, void *event);
acre_status event_record(void *self, int device, void *event, void *stream);
acre_status event_query(void *self, int device, void *event);
acre_status event_synchronize(void *self, int device, void *event);
acre_status event_elapsed(void *self, int device, void *start, void *end, double *out_ms);
/* The latest record of an event, retained, or NULL; and the device of the event. */
acre_status event_latest(struct opencl *self, void *handle, int *out_device, ocl_event *out);
/* ACRE_OK, ACRE_ERR_NOT_READY, or how the command failed. */
acre_status event_status(ocl_event event);
/* Destroys all events. */
void event_fini(struct opencl *self);

#endif
