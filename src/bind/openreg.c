/* SPDX-License-Identifier: MIT */
/* The calls of openreg.h over a reference device of their own.
 *
 * The backend is called "openreg" and starts with the first call that needs a
 * device; OPENREG_SIM configures it. It is never taken down: handles may be
 * used until the process ends. Every call looks its handle up (openreg_table),
 * which gives the device, and hands the rest to Acre.
 *
 * The current device is kept here, per thread. Streams share worker threads, so
 * a task starts with device 0 and leaves none behind: run_task sees to that.
 */
#include <openreg.h>

#include "bind/openreg_table.h"

#include <acre/acre.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- The devices ------------------------------------------------------------------ */

enum { DEVICES_MAX = 64 };

static struct {
    pthread_mutex_t mutex; /* guards starting                           */
    atomic_bool is_ready;  /* what follows is complete and constant     */
    atomic_bool is_forked; /* a child of fork: nothing is usable        */
    int count;
    acre_device *devices[DEVICES_MAX];
    int priority_least, priority_greatest;
} reg = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int current; /* device of the calling thread */

static orError_t error_of(acre_status status)
{
    if (status == ACRE_OK)
        return orSuccess;
    return status == ACRE_ERR_NOT_READY ? orErrorNotReady : orErrorUnknown;
}

static void after_fork(void)
{
    atomic_store_explicit(&reg.is_forked, true, memory_order_relaxed);
}

static acre_status read_devices(acre_backend *backend)
{
    acre_device_info info = {.struct_size = sizeof info};
    acre_status status = ACRE_OK;

    reg.count = acre_backend_device_count(backend);
    if (reg.count < 1 || reg.count > DEVICES_MAX)
        return ACRE_ERR_RANGE;
    for (int i = 0; i < reg.count && status == ACRE_OK; i++)
        status = acre_backend_device(backend, i, &reg.devices[i]);
    if (status == ACRE_OK)
        status = acre_device_info_get(reg.devices[0], &info);
    if (status == ACRE_OK) {
        reg.priority_least = info.priority_least;
        reg.priority_greatest = info.priority_greatest;
    }
    return status;
}

static acre_status start_locked(void)
{
    acre_sim_config config = {.struct_size = sizeof config, .name = "openreg"};
    const char *text = getenv("OPENREG_SIM");
    acre_backend *backend;
    acre_status status = text ? acre_sim_parse(text, &config) : ACRE_OK;

    if (status != ACRE_OK)
        return status;
    config.name = "openreg";
    status = acre_sim_create(&config, &backend);
    if (status != ACRE_OK)
        return status;
    status = read_devices(backend);
    if (status == ACRE_OK && pthread_atfork(NULL, NULL, after_fork) != 0)
        status = ACRE_ERR_HOST_MEMORY;
    if (status != ACRE_OK)
        acre_backend_unregister(backend);
    return status;
}

/* Whether the devices are there; tries again after a failure. */
static bool openreg_ready(void)
{
    acre_status status = ACRE_OK;

    if (atomic_load_explicit(&reg.is_forked, memory_order_relaxed))
        return false;
    if (atomic_load_explicit(&reg.is_ready, memory_order_acquire))
        return true;
    pthread_mutex_lock(&reg.mutex);
    if (!atomic_load_explicit(&reg.is_ready, memory_order_relaxed))
        status = start_locked();
    if (status == ACRE_OK)
        atomic_store_explicit(&reg.is_ready, true, memory_order_release);
    pthread_mutex_unlock(&reg.mutex);
    return status == ACRE_OK;
}

/* The device of a live stream or event, or NULL. */
static acre_device *device_of(const void *handle, enum table_kind kind)
{
    int index = handle && openreg_ready() ? table_find(handle, kind) : -1;

    return index < 0 ? NULL : reg.devices[index];
}

static acre_device *stream_device(orStream_t stream)
{
    return device_of(stream, TABLE_STREAM);
}

static acre_device *event_device(orEvent_t event)
{
    return device_of(event, TABLE_EVENT);
}

/* ---- Devices ------------------------------------------------------------------------ */

orError_t orGetDeviceCount(int *count)
{
    if (!count || !openreg_ready())
        return orErrorUnknown;
    *count = reg.count;
    return orSuccess;
}

orError_t orGetDevice(int *device)
{
    if (!device)
        return orErrorUnknown;
    *device = current;
    return orSuccess;
}

orError_t orSetDevice(int device)
{
    if (!openreg_ready() || device < 0 || device >= reg.count)
        return orErrorUnknown;
    current = device;
    return orSuccess;
}

orError_t orDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    if (!leastPriority || !greatestPriority || !openreg_ready())
        return orErrorUnknown;
    *leastPriority = reg.priority_least;
    *greatestPriority = reg.priority_greatest;
    return orSuccess;
}

orError_t orDeviceSynchronize(void)
{
    return openreg_ready() ? error_of(acre_device_synchronize(reg.devices[current]))
                           : orErrorUnknown;
}

/* ---- Memory -------------------------------------------------------------------------- */

orError_t orMalloc(void **devPtr, size_t size)
{
    if (!devPtr || size == 0 || !openreg_ready())
        return orErrorUnknown;
    return error_of(acre_device_alloc(reg.devices[current], size, devPtr));
}

orError_t orMallocHost(void **hostPtr, size_t size)
{
    if (!hostPtr || size == 0 || !openreg_ready())
        return orErrorUnknown;
    return error_of(acre_host_alloc(reg.devices[current], size, hostPtr));
}

/* What a pointer belongs to; unmanaged when that cannot be told. */
static acre_pointer_info info_of(const void *pointer)
{
    acre_pointer_info info = {.struct_size = sizeof info};

    if (!openreg_ready() || acre_pointer_info_get(reg.devices[0], pointer, &info) != ACRE_OK)
        info = (acre_pointer_info){.kind = ACRE_MEMORY_UNMANAGED, .device = -1};
    return info;
}

orError_t orFree(void *devPtr)
{
    acre_pointer_info info = {.struct_size = sizeof info};

    if (!devPtr)
        return orSuccess;
    info = info_of(devPtr);
    if (info.kind != ACRE_MEMORY_DEVICE || info.base != devPtr)
        return orErrorUnknown;
    return error_of(acre_device_free(reg.devices[info.device], devPtr));
}

orError_t orFreeHost(void *hostPtr)
{
    acre_pointer_info info = {.struct_size = sizeof info};

    if (!hostPtr)
        return orSuccess;
    info = info_of(hostPtr);
    if (info.kind != ACRE_MEMORY_HOST || info.base != hostPtr)
        return orErrorUnknown;
    return error_of(acre_host_free(reg.devices[0], hostPtr));
}

orError_t orMemcpy(void *dst, const void *src, size_t count, orMemcpyKind kind)
{
    if (!dst || !src || count == 0 || !openreg_ready())
        return orErrorUnknown;
    return error_of(acre_copy(reg.devices[0], dst, src, count, (acre_copy_kind)kind));
}

orError_t orMemcpyAsync(void *dst, const void *src, size_t count, orMemcpyKind kind,
                        orStream_t stream)
{
    acre_device *device = stream_device(stream);

    if (!device)
        return orErrorUnknown;
    return error_of(acre_copy_async(device, dst, src, count, (acre_copy_kind)kind, stream));
}

orError_t orPointerGetAttributes(orPointerAttributes *attributes, const void *ptr)
{
    acre_pointer_info info = {.struct_size = sizeof info};

    if (!attributes || !ptr || !openreg_ready() ||
        acre_pointer_info_get(reg.devices[0], ptr, &info) != ACRE_OK)
        return orErrorUnknown;
    attributes->type = (orMemoryType)info.kind;
    attributes->device = info.device;
    attributes->pointer = info.base;
    return orSuccess;
}

orError_t orMemoryUnprotect(void *devPtr)
{
    if (!devPtr || info_of(devPtr).kind != ACRE_MEMORY_DEVICE)
        return orSuccess;
    return error_of(acre_access_open(reg.devices[0], devPtr));
}

orError_t orMemoryProtect(void *devPtr)
{
    if (!devPtr || info_of(devPtr).kind != ACRE_MEMORY_DEVICE)
        return orSuccess;
    return error_of(acre_access_close(reg.devices[0], devPtr));
}

/* ---- Streams ---------------------------------------------------------------------------- */

orError_t orStreamCreateWithPriority(orStream_t *stream, unsigned int flags, int priority)
{
    struct table_entry *entry;
    void *native;
    acre_status status;

    (void)flags;
    if (!stream || !openreg_ready())
        return orErrorUnknown;
    entry = table_prepare();
    if (!entry)
        return orErrorUnknown;
    status = acre_stream_native_create(reg.devices[current], 0, priority, &native);
    if (status != ACRE_OK) {
        table_cancel(entry);
        return error_of(status);
    }
    table_put(entry, native, TABLE_STREAM, current);
    *stream = native;
    return orSuccess;
}

orError_t orStreamCreate(orStream_t *stream)
{
    return orStreamCreateWithPriority(stream, 0, 0);
}

orError_t orStreamGetPriority(orStream_t stream, int *priority)
{
    acre_device *device = stream_device(stream);

    if (!device || !priority)
        return orErrorUnknown;
    return error_of(acre_stream_native_priority(device, stream, priority));
}

/* A handle whose destruction was refused stays known. */
orError_t orStreamDestroy(orStream_t stream)
{
    acre_device *device = stream_device(stream);
    orError_t error;

    if (!device)
        return orErrorUnknown;
    error = error_of(acre_stream_native_destroy(device, stream));
    if (error == orSuccess)
        table_remove(stream);
    return error;
}

orError_t orStreamQuery(orStream_t stream)
{
    acre_device *device = stream_device(stream);

    return device ? error_of(acre_stream_native_query(device, stream)) : orErrorUnknown;
}

orError_t orStreamSynchronize(orStream_t stream)
{
    acre_device *device = stream_device(stream);

    return device ? error_of(acre_stream_native_synchronize(device, stream)) : orErrorUnknown;
}

orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event, unsigned int flags)
{
    acre_device *device = stream_device(stream);

    (void)flags;
    if (!device || !event_device(event))
        return orErrorUnknown;
    return error_of(acre_stream_native_wait(device, stream, event));
}

struct openreg_task {
    void (*fn)(void *);
    void *arg;
};

/* Runs on a worker thread, which other streams use too. */
static void run_task(void *arg)
{
    struct openreg_task task = *(struct openreg_task *)arg;
    int before = current;

    free(arg);
    current = 0;
    task.fn(task.arg);
    current = before;
}

orError_t orLaunchHostFunc(orStream_t stream, void (*fn)(void *), void *arg)
{
    acre_device *device = stream_device(stream);
    struct openreg_task *task;
    acre_status status;

    if (!device || !fn)
        return orErrorUnknown;
    task = malloc(sizeof *task);
    if (!task)
        return orErrorUnknown;
    *task = (struct openreg_task){fn, arg};
    status = acre_launch_host(device, stream, run_task, task);
    if (status != ACRE_OK)
        free(task);
    return error_of(status);
}

/* ---- Events ------------------------------------------------------------------------------- */

orError_t orEventCreateWithFlags(orEvent_t *event, unsigned int flags)
{
    struct table_entry *entry;
    void *native;
    acre_status status;

    if (!event || !openreg_ready())
        return orErrorUnknown;
    entry = table_prepare();
    if (!entry)
        return orErrorUnknown;
    status = acre_event_native_create(reg.devices[current],
                                      flags & orEventEnableTiming ? ACRE_EVENT_TIMING : 0, &native);
    if (status != ACRE_OK) {
        table_cancel(entry);
        return error_of(status);
    }
    table_put(entry, native, TABLE_EVENT, current);
    *event = native;
    return orSuccess;
}

orError_t orEventCreate(orEvent_t *event)
{
    return orEventCreateWithFlags(event, orEventDisableTiming);
}

orError_t orEventDestroy(orEvent_t event)
{
    acre_device *device = event_device(event);
    orError_t error;

    if (!device)
        return orErrorUnknown;
    error = error_of(acre_event_native_destroy(device, event));
    if (error == orSuccess)
        table_remove(event);
    return error;
}

orError_t orEventRecord(orEvent_t event, orStream_t stream)
{
    acre_device *device = event_device(event);

    if (!device || device != stream_device(stream))
        return orErrorUnknown;
    return error_of(acre_event_native_record(device, event, stream));
}

orError_t orEventSynchronize(orEvent_t event)
{
    acre_device *device = event_device(event);

    return device ? error_of(acre_event_native_synchronize(device, event)) : orErrorUnknown;
}

orError_t orEventQuery(orEvent_t event)
{
    acre_device *device = event_device(event);

    return device ? error_of(acre_event_native_query(device, event)) : orErrorUnknown;
}

/* A pending event is an error here, not "not ready". */
orError_t orEventElapsedTime(float *ms, orEvent_t start, orEvent_t end)
{
    acre_device *device = event_device(start);
    double elapsed;

    if (!ms || !device || device != event_device(end) ||
        acre_event_native_elapsed(device, start, end, &elapsed) != ACRE_OK)
        return orErrorUnknown;
    *ms = (float)elapsed;
    return orSuccess;
}
