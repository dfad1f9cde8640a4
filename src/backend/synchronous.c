/* SPDX-License-Identifier: MIT */
/* Devices whose work is finished when its call returns (ACRE_BACKEND_SYNCHRONOUS).
 *
 * Such a backend leaves out streams, events, host functions and all copies but
 * one; this wrapper has them. A stream is a name: nothing is ever queued on it.
 * An event is complete and remembers when it was recorded. Queued copies and
 * fills are done at once.
 *
 *   Acre -> table of the wrapper -> entry of the backend, with its own self
 *                                -> default, where the backend has none
 *
 * Streams and events of all such backends are in one table, so that foreign and
 * destroyed ones are refused without being read.
 */
#include "backend/synchronous.h"

#include "backend/ops_map.h"
#include "backend/table.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/process/fork.h"
#include "base/ptrmap.h"
#include "base/status.h"

#include <string.h>
#include <time.h>

#define FILL_BYTES 16384 /* of one copy when a fill goes through copies */

enum handle_kind { HANDLE_STREAM, HANDLE_EVENT };

/* A stream or an event. */
struct handle {
    const struct synchronous *owner;
    enum handle_kind kind;
    int device;
    int priority;    /* of a stream                         */
    int is_timing;   /* of an event                         */
    int is_recorded; /* of an event, at time_ns             */
    int64_t time_ns; /* monotonic                           */
};

struct synchronous {
    acre_backend_ops given; /* what the backend brought; absent entries are NULL */
    void *self;             /* its first argument                                */
    uint32_t flags;         /* ACRE_BACKEND_* bits                               */
};

static struct lock handles_lock = LOCK_INITIALIZER(RANK_LEAF, "synchronous");
static struct ptrmap handles = PTRMAP_INITIALIZER; /* a handle to itself; handles_lock */

FORK_GUARD(handles_lock);

static acre_status handle_create(const struct handle *content, void **out)
{
    struct handle *handle = heap_alloc(sizeof *handle);
    acre_status status;

    if (!handle)
        return ACRE_ERR_HOST_MEMORY;
    *handle = *content;
    lock_take(&handles_lock);
    status = ptrmap_put(&handles, handle, handle);
    lock_drop(&handles_lock);
    if (status != ACRE_OK) {
        heap_free(handle);
        return status;
    }
    *out = handle;
    return ACRE_OK;
}

static acre_status handle_find_locked(const struct synchronous *wrapper, enum handle_kind kind,
                                      void *given, struct handle **out)
{
    struct handle *handle = given ? ptrmap_get(&handles, given) : NULL;

    if (!handle || handle->owner != wrapper || handle->kind != kind)
        return status_fail(ACRE_ERR_INVALID, "%p is no %s of this backend, or was destroyed", given,
                           kind == HANDLE_STREAM ? "stream" : "event");
    *out = handle;
    return ACRE_OK;
}

/* Copies what a handle is, so that nothing is read after the lock is dropped. */
static acre_status handle_read(const struct synchronous *wrapper, enum handle_kind kind,
                               void *given, struct handle *out)
{
    struct handle *handle;
    acre_status status;

    lock_take(&handles_lock);
    status = handle_find_locked(wrapper, kind, given, &handle);
    if (status == ACRE_OK)
        *out = *handle;
    lock_drop(&handles_lock);
    return status;
}

static acre_status handle_destroy(const struct synchronous *wrapper, enum handle_kind kind,
                                  void *given)
{
    struct handle *handle = NULL;
    acre_status status;

    lock_take(&handles_lock);
    status = handle_find_locked(wrapper, kind, given, &handle);
    if (status == ACRE_OK)
        ptrmap_take(&handles, given);
    lock_drop(&handles_lock);
    if (status == ACRE_OK)
        heap_free(handle);
    return status;
}

/* ---- Streams ------------------------------------------------------------------- */

/* A stream of the device, or the default stream where NULL is one. */
static acre_status stream_check(const struct synchronous *wrapper, int device, void *stream)
{
    struct handle handle = {.device = device};
    acre_status status = ACRE_OK;

    if (stream || !(wrapper->flags & ACRE_BACKEND_NULL_STREAM))
        status = handle_read(wrapper, HANDLE_STREAM, stream, &handle);
    if (status == ACRE_OK && handle.device != device)
        status = status_fail(ACRE_ERR_INVALID, "a stream of device %d was given for device %d",
                             handle.device, device);
    return status;
}

static acre_status default_stream_create(void *self, int device, uint32_t flags, int priority,
                                         void **out_stream)
{
    const struct handle stream = {
        .owner = self, .kind = HANDLE_STREAM, .device = device, .priority = priority};

    (void)flags;
    return handle_create(&stream, out_stream);
}

static acre_status default_stream_destroy(void *self, int device, void *stream)
{
    (void)device;
    return handle_destroy(self, HANDLE_STREAM, stream);
}

static acre_status default_stream_query(void *self, int device, void *stream)
{
    return stream_check(self, device, stream);
}

static acre_status default_stream_synchronize(void *self, int device, void *stream)
{
    return stream_check(self, device, stream);
}

static acre_status default_stream_wait_event(void *self, int device, void *stream, void *event)
{
    struct handle handle;
    acre_status status = stream_check(self, device, stream);

    return status == ACRE_OK ? handle_read(self, HANDLE_EVENT, event, &handle) : status;
}

static acre_status default_stream_priority(void *self, int device, void *stream, int *out_priority)
{
    struct handle handle = {0};
    acre_status status = stream_check(self, device, stream);

    if (status == ACRE_OK && stream)
        status = handle_read(self, HANDLE_STREAM, stream, &handle);
    if (status == ACRE_OK)
        *out_priority = handle.priority;
    return status;
}

static acre_status default_device_synchronize(void *self, int device)
{
    (void)self;
    (void)device;
    return ACRE_OK;
}

/* ---- Events -------------------------------------------------------------------- */

static acre_status default_event_create(void *self, int device, uint32_t flags, void **out_event)
{
    const struct handle event = {.owner = self,
                                 .kind = HANDLE_EVENT,
                                 .device = device,
                                 .is_timing = (flags & ACRE_EVENT_TIMING) != 0};

    if (flags & ACRE_EVENT_SHARED)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "events of this backend cannot be shared with other processes");
    return handle_create(&event, out_event);
}

static acre_status default_event_destroy(void *self, int device, void *event)
{
    (void)device;
    return handle_destroy(self, HANDLE_EVENT, event);
}

static acre_status default_event_record(void *self, int device, void *event, void *stream)
{
    struct handle *handle;
    struct timespec now;
    acre_status status = stream_check(self, device, stream);

    if (status != ACRE_OK)
        return status;
    clock_gettime(CLOCK_MONOTONIC, &now);
    lock_take(&handles_lock);
    status = handle_find_locked(self, HANDLE_EVENT, event, &handle);
    if (status == ACRE_OK && handle->device != device)
        status = status_fail(ACRE_ERR_INVALID, "an event of device %d was given for device %d",
                             handle->device, device);
    if (status == ACRE_OK) {
        handle->is_recorded = 1;
        handle->time_ns = now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
    }
    lock_drop(&handles_lock);
    return status;
}

static acre_status default_event_query(void *self, int device, void *event)
{
    struct handle handle;

    (void)device;
    return handle_read(self, HANDLE_EVENT, event, &handle);
}

static acre_status default_event_synchronize(void *self, int device, void *event)
{
    return default_event_query(self, device, event);
}

static acre_status default_event_elapsed(void *self, int device, void *start, void *end,
                                         double *out_ms)
{
    struct handle from, to;
    acre_status status = handle_read(self, HANDLE_EVENT, start, &from);

    (void)device;
    if (status == ACRE_OK)
        status = handle_read(self, HANDLE_EVENT, end, &to);
    if (status != ACRE_OK)
        return status;
    if (!from.is_timing || !to.is_timing || !from.is_recorded || !to.is_recorded)
        return status_fail(ACRE_ERR_INVALID,
                           "both events must be made with ACRE_EVENT_TIMING and be recorded");
    *out_ms = (double)(to.time_ns - from.time_ns) / 1e6;
    return ACRE_OK;
}

/* ---- Copies and launches ----------------------------------------------------------- */

static acre_status default_copy_async(void *self, int device, void *dst, const void *src,
                                      size_t bytes, acre_copy_kind kind, void *stream)
{
    const struct synchronous *wrapper = self;
    acre_status status = stream_check(wrapper, device, stream);

    return status == ACRE_OK ? wrapper->given.copy(wrapper->self, dst, src, bytes, kind) : status;
}

static acre_status default_copy_peer_async(void *self, void *dst, int dst_device, const void *src,
                                           int src_device, size_t bytes, void *stream)
{
    (void)dst_device;
    return default_copy_async(self, src_device, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE,
                              stream);
}

/* One piece of a fill, of at most FILL_BYTES. */
static acre_status piece_fill(const struct synchronous *wrapper, char *dst,
                              const unsigned char *pattern, size_t from, size_t bytes)
{
    size_t rest = bytes - from;

    return wrapper->given.copy(wrapper->self, dst + from, pattern,
                               rest < FILL_BYTES ? rest : FILL_BYTES, ACRE_COPY_HOST_TO_DEVICE);
}

/* The last piece goes first: a range that ends outside its memory is refused before anything
 * is set. */
static acre_status default_fill_async(void *self, int device, void *dst, int value, size_t bytes,
                                      void *stream)
{
    const struct synchronous *wrapper = self;
    acre_status status = stream_check(wrapper, device, stream);
    size_t last = bytes ? (bytes - 1) / FILL_BYTES * FILL_BYTES : 0;
    unsigned char pattern[FILL_BYTES];

    memset(pattern, value, sizeof pattern);
    if (status == ACRE_OK)
        status = piece_fill(wrapper, dst, pattern, last, bytes);
    for (size_t from = 0; from < last && status == ACRE_OK; from += FILL_BYTES)
        status = piece_fill(wrapper, dst, pattern, from, bytes);
    return status;
}

static acre_status default_launch_host(void *self, int device, void *stream, void (*fn)(void *),
                                       void *arg)
{
    acre_status status = stream_check(self, device, stream);

    if (status == ACRE_OK)
        fn(arg);
    return status;
}

/* ---- The table ------------------------------------------------------------------- */

/* Every entry that the backend has is called with its own self. */
#define FORWARD(group, entry, parameters, arguments)                                               \
    static acre_status forward_##entry parameters                                                  \
    {                                                                                              \
        const struct synchronous *wrapper = self;                                                  \
                                                                                                   \
        self = wrapper->self;                                                                      \
        return wrapper->given.entry arguments;                                                     \
    }
OPS_REQUIRED_MAP(FORWARD)
OPS_COPY_MAP(FORWARD)
OPS_LAUNCH_MAP(FORWARD)
OPS_REST_MAP(FORWARD)
#undef FORWARD

/* Streams are named or queued: a table with both would mix them. */
static acre_status streams_check(const char *name, const acre_backend_ops *given)
{
#define REFUSE(group, entry, parameters, arguments)                                                \
    if (given->entry)                                                                              \
        return status_fail(ACRE_ERR_INVALID,                                                       \
                           "backend \"%s\": ACRE_BACKEND_SYNCHRONOUS is set and \"%s\" too; "      \
                           "leave out the entries of streams and events, or the flag",             \
                           name, #entry);
    OPS_STREAMS_MAP(REFUSE)
#undef REFUSE
    return ACRE_OK;
}

static void table_fill(const acre_backend_ops *given, acre_backend_ops *out)
{
    memset(out, 0, sizeof *out);
    out->struct_size = sizeof *out;
    out->version = ACRE_BACKEND_VERSION;
#define FILL(group, entry, parameters, arguments)                                                  \
    if (given->entry)                                                                              \
        out->entry = forward_##entry;
    OPS_REQUIRED_MAP(FILL)
    OPS_COPY_MAP(FILL)
    OPS_LAUNCH_MAP(FILL)
    OPS_REST_MAP(FILL)
#undef FILL
#define DEFAULT(group, entry, parameters, arguments) out->entry = default_##entry;
    OPS_STREAMS_MAP(DEFAULT)
#undef DEFAULT
    if (!out->launch_host)
        out->launch_host = default_launch_host;
    if (given->copy) {
        if (!out->copy_async)
            out->copy_async = default_copy_async;
        if (!out->copy_peer_async)
            out->copy_peer_async = default_copy_peer_async;
        if (!out->fill_async)
            out->fill_async = default_fill_async;
    }
}

acre_status synchronous_create(const acre_backend_desc *desc, acre_backend_ops *out_ops,
                               struct synchronous **out)
{
    struct synchronous *wrapper = heap_zalloc(sizeof *wrapper);
    acre_status status;

    if (!wrapper)
        return ACRE_ERR_HOST_MEMORY;
    wrapper->self = desc->self;
    wrapper->flags = desc->flags;
    status = table_take(desc->name, desc->ops, &wrapper->given);
    if (status == ACRE_OK)
        status = streams_check(desc->name, &wrapper->given);
    if (status != ACRE_OK) {
        heap_free(wrapper);
        return status;
    }
    table_fill(&wrapper->given, out_ops);
    *out = wrapper;
    return ACRE_OK;
}

/* The first handle of a wrapper that is left, or NULL. */
static struct handle *left_locked(const struct synchronous *wrapper)
{
    struct ptrmap_entry *entry;
    size_t at = 0;

    while ((entry = ptrmap_next(&handles, &at))) {
        struct handle *handle = entry->value;

        if (handle->owner == wrapper)
            return handle;
    }
    return NULL;
}

void synchronous_destroy(struct synchronous *wrapper)
{
    struct handle *handle;

    if (!wrapper)
        return;
    lock_take(&handles_lock);
    while ((handle = left_locked(wrapper))) {
        ptrmap_take(&handles, handle);
        heap_free(handle);
    }
    if (handles.count == 0) {
        ptrmap_fini(&handles);
        ptrmap_init(&handles);
    }
    lock_drop(&handles_lock);
    heap_free(wrapper);
}
