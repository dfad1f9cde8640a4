/* SPDX-License-Identifier: MIT */
#include "driver/driver.h"

#include "backend/backend.h"
#include "backend/builtin.h"
#include "backend/ops_map.h"
#include "base/process/fork.h"
#include "base/heap.h"
#include "base/status.h"
#include "driver/copy.h"
#include "driver/graph.h"
#include "driver/green.h"
#include "driver/memory.h"
#include "driver/multicast.h"
#include "driver/pool.h"
#include "driver/stream.h"
#include "driver/virtual.h"

#include <pthread.h>
#include <string.h>

/* Plain allocations are asked for in multiples of this. */
#define ALLOC_GRANULARITY 512

/* ---- Fork --------------------------------------------------------------------------------- */

/* Whether this is a child of the process that opened the library: a driver does not
 * work there, not even for giving things back. */
static bool is_forked(const struct driver *driver)
{
    return driver->fork_generation != fork_generation();
}

acre_status driver_check_fork(const struct driver *driver)
{
    if (!is_forked(driver))
        return ACRE_OK;
    return status_fail(ACRE_ERR_FORKED, "the %s driver does not work in a child of fork",
                       library_title(driver->vendor->vendor));
}

/* ---- Entering a device ----------------------------------------------------------------- */

/* Enters the context that scope names, or the device's own. Giving things back
 * depends on it, so one failure is not the end. */
static acre_status enter_context(struct driver *driver, int device, struct driver_scope *scope)
{
    driver_result result;

    scope->status = driver_check_fork(driver);
    if (scope->status != ACRE_OK)
        return scope->status;
    result = driver->vendor->enter(driver, device, scope);
    if (result != DRIVER_SUCCESS)
        result = driver->vendor->enter(driver, device, scope);
    if (result != DRIVER_SUCCESS)
        scope->status = status_fail_native(
            library_status(result) == ACRE_ERR_DEVICE_MEMORY ? ACRE_ERR_DEVICE_MEMORY
                                                             : ACRE_ERR_DEVICE,
            (long)result, "device %s:%d cannot be used: %s (%s)", driver->vendor->name, device,
            library_error_text(&driver->library, result),
            library_error_name(&driver->library, result));
    return scope->status;
}

acre_status driver_enter(struct driver *driver, int device, struct driver_scope *scope)
{
    memset(scope, 0, sizeof *scope);
    return enter_context(driver, device, scope);
}

acre_status driver_enter_stream(struct driver *driver, int device, const void *stream,
                                struct driver_scope *scope)
{
    memset(scope, 0, sizeof *scope);
    scope->context = drv_green_context_of(driver, stream);
    return enter_context(driver, device, scope);
}

/* Lets calls about memory pass while a stream of this thread captures. */
static acre_status mode_relax(struct driver *driver, struct driver_scope *scope, acre_status status)
{
    if (status != ACRE_OK || !driver->library.call.capture_exchange_mode)
        return status;
    scope->mode = DRIVER_CAPTURE_RELAXED;
    scope->is_relaxed = driver->library.call.capture_exchange_mode(&scope->mode) == DRIVER_SUCCESS;
    return ACRE_OK;
}

acre_status driver_enter_memory(struct driver *driver, int device, struct driver_scope *scope)
{
    return mode_relax(driver, scope, driver_enter(driver, device, scope));
}

acre_status driver_enter_stream_memory(struct driver *driver, int device, const void *stream,
                                       struct driver_scope *scope)
{
    return mode_relax(driver, scope, driver_enter_stream(driver, device, stream, scope));
}

acre_status driver_leave(struct driver *driver, struct driver_scope *scope, acre_status status)
{
    if (scope->is_relaxed)
        driver->library.call.capture_exchange_mode(&scope->mode);
    driver->vendor->leave(driver, scope);
    return status;
}

int driver_any_device(const struct driver *driver)
{
    for (int i = 0; i < driver->unit_count; i++)
        if (atomic_load_explicit(&driver->units[i].context, memory_order_relaxed))
            return i;
    return 0;
}

/* ---- Devices ---------------------------------------------------------------------------- */

int driver_attribute_get(const struct driver *driver, int device, struct driver_attribute attribute,
                         int absent)
{
    int number = driver->vendor->vendor == VENDOR_CUDA ? attribute.cuda : attribute.hip;
    int value = 0;

    if (number < 0 ||
        driver->library.call.device_attribute(&value, (driver_device_attribute)number,
                                              driver->units[device].native) != DRIVER_SUCCESS)
        return absent;
    return value;
}

static acre_status driver_device_count(void *self, int *out_count)
{
    *out_count = ((struct driver *)self)->unit_count;
    return ACRE_OK;
}

/* The groups of the library less what this device cannot do. */
static uint32_t capabilities_of(const struct driver *driver, int device)
{
    uint32_t capabilities = driver->library.groups;

    if (!driver_attribute_get(driver, device, attribute_virtual_memory, 0))
        capabilities &= ~(uint32_t)(ACRE_CAP_VIRTUAL | ACRE_CAP_SHARE_FD | ACRE_CAP_MULTICAST |
                                    ACRE_CAP_FABRIC);
    if (!driver_attribute_get(driver, device, attribute_fabric_handles, 0))
        capabilities &= ~(uint32_t)ACRE_CAP_FABRIC;
    if (!driver_attribute_get(driver, device, attribute_pools, 0))
        capabilities &= ~(uint32_t)ACRE_CAP_ASYNC;
    if (!driver_attribute_get(driver, device, attribute_posix_handles, 1))
        capabilities &= ~(uint32_t)ACRE_CAP_SHARE_FD;
    if (!driver_attribute_get(driver, device, attribute_multicast, 0))
        capabilities &= ~(uint32_t)ACRE_CAP_MULTICAST;
    return capabilities;
}

static driver_handle_type handle_types_of(const struct driver *driver, int device)
{
    driver_handle_type types = DRIVER_HANDLE_NONE;

    if (driver_attribute_get(driver, device, attribute_posix_handles, 0))
        types |= DRIVER_HANDLE_POSIX;
    if (driver_attribute_get(driver, device, attribute_fabric_handles, 0))
        types |= DRIVER_HANDLE_FABRIC;
    return types;
}

static acre_status driver_device_info(void *self, int device, acre_device_info *out_info)
{
    struct driver *driver = self;
    acre_device_info info = {.struct_size = sizeof info, .alloc_granularity = ALLOC_GRANULARITY};
    driver_device native = driver->units[device].native;
    size_t total = 0;
    acre_status status = CALL(device_name, info.name, (int)sizeof info.name, native);

    if (status == ACRE_OK)
        status = CALL(device_total, &total, native);
    if (status != ACRE_OK)
        return status;
    info.total_bytes = total;
    info.capabilities = capabilities_of(driver, device);
    driver->units[device].handle_types = handle_types_of(driver, device);
    info.compute_units = driver_attribute_get(driver, device, attribute_units, 0);
    info.priority_least = driver->priority_least;
    info.priority_greatest = driver->priority_greatest;
    if (info.capabilities & ACRE_CAP_VIRTUAL)
        status = drv_virtual_page_bytes(driver, device, &info.page_bytes);
    if (status == ACRE_OK)
        *out_info = info;
    return status;
}

static acre_status driver_memory_info(void *self, int device, uint64_t *out_free,
                                      uint64_t *out_total)
{
    struct driver *driver = self;
    struct driver_scope scope;
    size_t free_bytes = 0, total = 0;
    acre_status status = ON_DEVICE_MEMORY(CALL(memory_info, &free_bytes, &total));

    if (status == ACRE_OK) {
        *out_free = free_bytes;
        *out_total = total;
    }
    return status;
}

/* ---- Peers ------------------------------------------------------------------------------- */

static acre_status driver_peer_query(void *self, int device, int other, bool *out_can)
{
    struct driver *driver = self;
    int can = 0;
    acre_status status;

    if (device == other) {
        *out_can = true;
        return ACRE_OK;
    }
    status = CALL(peer_query, &can, driver->units[device].native, driver->units[other].native);
    if (status == ACRE_OK)
        *out_can = can != 0;
    return status;
}

static acre_status driver_peer_enable(void *self, int device, int other)
{
    struct driver *driver = self;
    acre_status status =
        device == other ? ACRE_OK : driver->vendor->peer_enable(driver, device, other);

    if (status != ACRE_OK && status != ACRE_ERR_EXISTS)
        return status;
    return device == other ? ACRE_OK : drv_pool_share(driver, other, device);
}

/* ---- The table --------------------------------------------------------------------------- */

static const acre_backend_ops whole_table = {
    .struct_size = sizeof whole_table,
    .version = ACRE_BACKEND_VERSION,
    .device_count = driver_device_count,
    .device_info = driver_device_info,
    .memory_info = driver_memory_info,
    .alloc = drv_memory_alloc,
    .free = drv_memory_free,
    .stream_create = drv_stream_create,
    .stream_destroy = drv_stream_destroy,
    .stream_query = drv_stream_query,
    .stream_synchronize = drv_stream_synchronize,
    .stream_wait_event = drv_stream_wait_event,
    .stream_priority = drv_stream_priority,
    .device_synchronize = drv_stream_synchronize_all,
    .event_create = drv_event_create,
    .event_destroy = drv_event_destroy,
    .event_record = drv_event_record,
    .event_query = drv_event_query,
    .event_synchronize = drv_event_synchronize,
    .event_elapsed = drv_event_elapsed,
    .copy = drv_copy_now,
    .copy_async = drv_copy_queue,
    .copy_peer_async = drv_copy_queue_peer,
    .fill_async = drv_copy_queue_fill,
    .launch_host = drv_stream_launch_host,
    .write_value32 = drv_stream_write_value32,
    .wait_value32 = drv_stream_wait_value32,
    .reserve = drv_virtual_reserve,
    .unreserve = drv_virtual_unreserve,
    .create = drv_virtual_create,
    .release = drv_virtual_release,
    .map = drv_virtual_map,
    .unmap = drv_virtual_unmap,
    .set_access = drv_virtual_set_access,
    .export_fd = drv_virtual_export_fd,
    .import_fd = drv_virtual_import_fd,
    .multicast_create = drv_multicast_create,
    .multicast_bind = drv_multicast_bind,
    .multicast_unbind = drv_multicast_unbind,
    .multicast_write_async = drv_multicast_write,
    .multicast_release = drv_multicast_release,
    .capture_begin = drv_graph_capture_begin,
    .capture_end = drv_graph_capture_end,
    .capture_info = drv_graph_capture_info,
    .capture_dependencies = drv_graph_dependencies,
    .graph_launch = drv_graph_launch,
    .graph_destroy = drv_graph_destroy,
    .host_alloc = drv_memory_host_alloc,
    .host_free = drv_memory_host_free,
    .host_register = drv_memory_host_register,
    .host_unregister = drv_memory_host_unregister,
    .pointer_info = drv_memory_pointer_info,
    .peer_query = driver_peer_query,
    .peer_enable = driver_peer_enable,
    .ipc_export = drv_memory_ipc_export,
    .ipc_open = drv_memory_ipc_open,
    .ipc_close = drv_memory_ipc_close,
    .green_create = drv_green_create,
    .green_destroy = drv_green_destroy,
    .green_stream = drv_green_stream,
    .green_push = drv_green_push,
    .green_pop = drv_green_pop,
    .green_queues = drv_green_queues,
    .async_alloc = drv_pool_alloc,
    .async_free = drv_pool_free,
    .async_trim = drv_pool_trim,
    .async_usage = drv_pool_usage,
    .async_reset_peak = drv_pool_reset_peak,
    .export_fabric = drv_virtual_export_fabric,
    .import_fabric = drv_virtual_import_fabric,
    .ipc_event_export = drv_event_export,
    .ipc_event_open = drv_event_open,
};

/* Only the entries of these groups have bits; the others are required. */
#define ACRE_CAP_REQUIRED 0u

void driver_table(const struct driver *driver, acre_backend_ops *out)
{
    uint32_t groups = driver->library.groups;

    *out = whole_table;
    out->set_current = driver->vendor->set_current;
#define LEAVE_OUT(group, entry, parameters, arguments)                                             \
    if (ACRE_CAP_##group & ~groups)                                                                \
        out->entry = NULL;
    OPS_MAP(LEAVE_OUT)
#undef LEAVE_OUT
}

/* ---- Beginning and end -------------------------------------------------------------------- */

/* Asks for the range of priorities once, on the first device. The context this may
 * make is given back at once: which devices a process uses is not known yet. */
static acre_status priorities_ask(struct driver *driver)
{
    struct driver_scope scope;
    int device = 0, least = 0, greatest = 0;
    acre_status status;

    if (!(driver->library.groups & ACRE_CAP_STREAMS))
        return ACRE_OK;
    if (driver->library.call.priority_range(&least, &greatest) == DRIVER_SUCCESS) {
        status = ACRE_OK; /* somebody's context is current */
    } else {
        status = ON_DEVICE(CALL(priority_range, &least, &greatest));
        driver->vendor->fini(driver);
        for (int i = 0; i < driver->unit_count; i++)
            atomic_store(&driver->units[i].context, NULL);
    }
    /* HIP has a priority below the default one, which nobody expects. */
    driver->priority_least = least > 0 && greatest < 0 ? 0 : least;
    driver->priority_greatest = greatest;
    return status;
}

static acre_status units_find(struct driver *driver)
{
    int count = 0;
    acre_status status = CALL(device_count, &count);

    if (status != ACRE_OK)
        return status;
    if (count > BACKEND_DEVICES_MAX)
        count = BACKEND_DEVICES_MAX;
    driver->units = heap_array((size_t)count, sizeof *driver->units);
    if (!driver->units)
        return ACRE_ERR_HOST_MEMORY;
    driver->unit_count = count;
    for (int i = 0; i < count && status == ACRE_OK; i++)
        status = library_check(&driver->library, ENTRY_cuda_device,
                               driver->vendor->device(driver, i, &driver->units[i].native));
    return status;
}

acre_status driver_create(const struct vendor *vendor, struct driver **out)
{
    struct driver *driver = heap_zalloc(sizeof *driver);
    acre_status status;

    if (!driver)
        return ACRE_ERR_HOST_MEMORY;
    driver->vendor = vendor;
    driver->fork_generation = fork_generation();
    books_init(&driver->books);
    ptrmap_init(&driver->green_streams);
    status = library_open(vendor->vendor, &driver->library);
    if (status == ACRE_OK)
        status = units_find(driver);
    if (status == ACRE_OK)
        status = priorities_ask(driver);
    if (status != ACRE_OK) {
        driver_destroy(driver);
        return status;
    }
    *out = driver;
    return ACRE_OK;
}

/* Gives back what users left behind. What the driver refuses is lost, and nothing else. */
static void leftovers_free(struct driver *driver)
{
    struct book_range range;

    while (books_any(&driver->books, &range)) {
        void *base = (void *)range.base;
        acre_status status = ACRE_ERR_UNSUPPORTED;

        switch (range.origin) {
        case RANGE_ALLOC:
            status = drv_memory_free(driver, range.device, base);
            break;
        case RANGE_HOST:
            status = drv_memory_host_free(driver, base);
            break;
        case RANGE_REGISTERED:
            status = drv_memory_host_unregister(driver, base);
            break;
        case RANGE_OPENED:
            status = drv_memory_ipc_close(driver, range.device, base);
            break;
        case RANGE_RESERVED: /* what is mapped there is not known */
        case RANGE_POOLED:   /* goes with its pool */
            break;
        }
        if (status != ACRE_OK &&
            books_take(&driver->books, range.origin, range.device, base, &range) == ACRE_OK)
            books_range_settle(&driver->books, &range, ACRE_OK);
    }
}

void driver_destroy(void *self)
{
    struct driver *driver = self;

    /* What the parent of a fork has is its own. */
    if (driver->units && !is_forked(driver)) {
        leftovers_free(driver);
        drv_pool_fini(driver);
        driver->vendor->fini(driver);
    }
    ptrmap_fini(&driver->green_streams);
    books_fini(&driver->books);
    heap_free(driver->units);
    heap_free(driver);
}

acre_status driver_start(const struct vendor *vendor, acre_backend **out)
{
    acre_backend_ops ops;
    struct driver *driver;
    acre_backend_desc desc = {
        .struct_size = sizeof desc,
        .codec = ACRE_STREAM_CODEC_CUDA,
        .name = vendor->name,
        .type = vendor->type,
        .ops = &ops,
        .destroy = driver_destroy,
        .flags = ACRE_BACKEND_NULL_STREAM,
    };
    acre_status status = driver_create(vendor, &driver);

    if (status != ACRE_OK)
        return status;
    driver_table(driver, &ops);
    desc.self = driver;
    status = backend_register_own(&desc, out);
    if (status != ACRE_OK)
        driver_destroy(driver);
    return status;
}

acre_status driver_of(const char *call, const acre_device *device, struct driver **out)
{
    if (!device || device->backend->destroy != driver_destroy)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: the device is not one of the backends \"cuda\" "
                           "and \"hip\"",
                           call);
    *out = device->self;
    return backend_check_fork(device->backend);
}
