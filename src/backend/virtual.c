/* SPDX-License-Identifier: MIT */
/* Virtual memory, sharing, multicast, capture, ipc: public calls over the table.
 *
 * Thin: see device.c for what a call checks.
 */
#include "backend/device.h"
#include "base/status.h"
#include "base/struct_size.h"

/* ---- Virtual memory ------------------------------------------------------------ */

static acre_status check_pages(const acre_device *device, size_t bytes, const char *call)
{
    if (bytes == 0 || bytes % device->info.page_bytes)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: %zu bytes are not a positive multiple of the page size %llu of "
                           "device %s:%d",
                           call, bytes, (unsigned long long)device->info.page_bytes,
                           device->backend->name, device->index);
    return ACRE_OK;
}

/* A range of whole pages that does not wrap around. */
static acre_status check_range(const acre_device *device, const void *base, size_t bytes,
                               const char *call)
{
    acre_status status = check_pages(device, bytes, call);

    if (status != ACRE_OK)
        return status;
    if (!base)
        return device_null(call, "base");
    if ((uintptr_t)base % device->info.page_bytes || bytes > UINTPTR_MAX - (uintptr_t)base)
        return status_fail(ACRE_ERR_INVALID, "%s: %zu bytes at %p are not whole pages of %llu",
                           call, bytes, base, (unsigned long long)device->info.page_bytes);
    return ACRE_OK;
}

acre_status acre_virtual_reserve(acre_device *device, size_t bytes, void **out)
{
    acre_status status;

    ENTER(ACRE_CAP_VIRTUAL);
    NEED(out);
    status = check_pages(device, bytes, __func__);
    return status != ACRE_OK ? status : device->ops->reserve(SELF, bytes, out);
}

acre_status acre_virtual_unreserve(acre_device *device, void *base, size_t bytes)
{
    acre_status status;

    ENTER(ACRE_CAP_VIRTUAL);
    status = check_range(device, base, bytes, __func__);
    return status != ACRE_OK ? status : device->ops->unreserve(SELF, base, bytes);
}

acre_status acre_virtual_create(acre_device *device, size_t bytes, acre_handle_type type,
                                void **out_handle)
{
    acre_status status;

    ENTER(ACRE_CAP_VIRTUAL);
    NEED(out_handle);
    if ((int)type < ACRE_HANDLE_NONE || (int)type > ACRE_HANDLE_FABRIC)
        return status_fail(ACRE_ERR_INVALID, "acre_virtual_create: handle type %d does not exist",
                           (int)type);
    status = check_pages(device, bytes, __func__);
    return status != ACRE_OK ? status : device->ops->create(SELF, bytes, type, out_handle);
}

acre_status acre_virtual_release(acre_device *device, void *handle)
{
    ENTER(ACRE_CAP_VIRTUAL);
    NEED(handle);
    return device->ops->release(SELF, handle);
}

acre_status acre_virtual_map(acre_device *device, void *base, size_t bytes, size_t offset,
                             void *handle)
{
    acre_status status;

    ENTER(ACRE_CAP_VIRTUAL);
    NEED(handle);
    if (offset != 0)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_virtual_map: offset %zu; only whole handles can be mapped, so it "
                           "must be 0",
                           offset);
    status = check_range(device, base, bytes, __func__);
    return status != ACRE_OK ? status : device->ops->map(SELF, base, bytes, offset, handle);
}

acre_status acre_virtual_unmap(acre_device *device, void *base, size_t bytes)
{
    acre_status status;

    ENTER(ACRE_CAP_VIRTUAL);
    status = check_range(device, base, bytes, __func__);
    return status != ACRE_OK ? status : device->ops->unmap(SELF, base, bytes);
}

acre_status acre_virtual_set_access(acre_device *device, void *base, size_t bytes, int accessor,
                                    acre_access access)
{
    acre_status status;

    ENTER(ACRE_CAP_VIRTUAL);
    if (accessor < 0 || accessor >= device->backend->device_count)
        return status_fail(ACRE_ERR_RANGE,
                           "acre_virtual_set_access: accessor %d is outside [0, %d) of backend "
                           "\"%s\"",
                           accessor, device->backend->device_count, device->backend->name);
    if (access != ACRE_ACCESS_NONE && access != ACRE_ACCESS_READ &&
        access != ACRE_ACCESS_READ_WRITE)
        return status_fail(ACRE_ERR_INVALID, "acre_virtual_set_access: access %d does not exist",
                           (int)access);
    status = check_range(device, base, bytes, __func__);
    return status != ACRE_OK ? status
                             : device->ops->set_access(SELF, base, bytes, accessor, access);
}

/* ---- Sharing ------------------------------------------------------------------- */

acre_status acre_handle_export_fd(acre_device *device, void *handle, int *out_fd)
{
    ENTER(ACRE_CAP_SHARE_FD);
    NEED(handle);
    NEED(out_fd);
    return device->ops->export_fd(SELF, handle, out_fd);
}

acre_status acre_handle_import_fd(acre_device *device, int fd, void **out_handle,
                                  uint64_t *out_bytes)
{
    ENTER(ACRE_CAP_SHARE_FD);
    NEED(out_handle);
    NEED(out_bytes);
    if (fd < 0)
        return status_fail(ACRE_ERR_INVALID, "acre_handle_import_fd: descriptor %d", fd);
    return device->ops->import_fd(SELF, fd, out_handle, out_bytes);
}

acre_status handle_export_fabric(acre_device *device, void *handle, uint8_t out_fabric[64])
{
    ENTER(ACRE_CAP_FABRIC);
    NEED(handle);
    NEED(out_fabric);
    return device->ops->export_fabric(SELF, handle, out_fabric);
}

acre_status handle_import_fabric(acre_device *device, const uint8_t fabric[64], size_t bytes,
                                 void **out_handle)
{
    ENTER(ACRE_CAP_FABRIC);
    NEED(fabric);
    NEED(out_handle);
    if (bytes == 0 || bytes % device->info.page_bytes)
        return status_fail(ACRE_ERR_INVALID,
                           "handle_import_fabric: %zu bytes are no whole "
                           "pages of %llu",
                           bytes, (unsigned long long)device->info.page_bytes);
    return device->ops->import_fabric(SELF, fabric, bytes, out_handle);
}

acre_status acre_ipc_event_export(acre_device *device, void *event, uint8_t out_handle[64])
{
    ENTER(ACRE_CAP_IPC_EVENTS);
    NEED(event);
    NEED(out_handle);
    return device->ops->ipc_event_export(SELF, event, out_handle);
}

acre_status acre_ipc_event_open(acre_device *device, const uint8_t handle[64], void **out_event)
{
    ENTER(ACRE_CAP_IPC_EVENTS);
    NEED(handle);
    NEED(out_event);
    return device->ops->ipc_event_open(SELF, handle, out_event);
}

acre_status acre_ipc_export(acre_device *device, void *base, uint8_t out_handle[64])
{
    ENTER(ACRE_CAP_IPC);
    NEED(base);
    NEED(out_handle);
    return device->ops->ipc_export(SELF, base, out_handle);
}

acre_status acre_ipc_open(acre_device *device, const uint8_t handle[64], void **out_base,
                          uint64_t *out_bytes)
{
    ENTER(ACRE_CAP_IPC);
    NEED(handle);
    NEED(out_base);
    NEED(out_bytes);
    return device->ops->ipc_open(SELF, handle, out_base, out_bytes);
}

acre_status acre_ipc_close(acre_device *device, void *base)
{
    ENTER(ACRE_CAP_IPC);
    NEED(base);
    return device->ops->ipc_close(SELF, base);
}

/* ---- Multicast ----------------------------------------------------------------- */

/* Member devices: all there, of one backend, none twice. */
static acre_status check_members(acre_device *const *devices, int device_count, int *indices)
{
    for (int i = 0; i < device_count; i++) {
        acre_device *device = devices[i];

        ENTER(ACRE_CAP_MULTICAST);
        if (device->backend != devices[0]->backend)
            return status_fail(ACRE_ERR_INVALID,
                               "acre_multicast_create: devices of backends \"%s\" and \"%s\"",
                               devices[0]->backend->name, device->backend->name);
        for (int j = 0; j < i; j++)
            if (devices[j] == device)
                return status_fail(ACRE_ERR_INVALID,
                                   "acre_multicast_create: device %d is named twice",
                                   device->index);
        indices[i] = device->index;
    }
    return ACRE_OK;
}

acre_status acre_multicast_create(acre_device *const *devices, int device_count, size_t bytes,
                                  void **out_handle)
{
    int indices[BACKEND_DEVICES_MAX];
    acre_status status;

    NEED(devices);
    NEED(out_handle);
    if (device_count < 1 || device_count > BACKEND_DEVICES_MAX)
        return status_fail(ACRE_ERR_RANGE, "acre_multicast_create: %d devices; valid are 1 to %d",
                           device_count, BACKEND_DEVICES_MAX);
    status = check_members(devices, device_count, indices);
    if (status != ACRE_OK)
        return status;
    if (devices[0]->info.page_bytes) {
        status = check_pages(devices[0], bytes, __func__);
        if (status != ACRE_OK)
            return status;
    }
    return devices[0]->ops->multicast_create(devices[0]->self, indices, device_count, bytes,
                                             out_handle);
}

acre_status acre_multicast_bind(acre_device *device, void *handle, size_t offset, void *memory,
                                size_t bytes)
{
    ENTER(ACRE_CAP_MULTICAST);
    NEED(handle);
    NEED(memory);
    return device->ops->multicast_bind(device->self, handle, device->index, offset, memory, bytes);
}

acre_status acre_multicast_unbind(acre_device *device, void *handle, size_t offset, size_t bytes)
{
    ENTER(ACRE_CAP_MULTICAST);
    NEED(handle);
    return device->ops->multicast_unbind(device->self, handle, device->index, offset, bytes);
}

acre_status acre_multicast_write_async(acre_device *device, void *handle, size_t offset,
                                       const void *src, size_t bytes, void *stream)
{
    ENTER(ACRE_CAP_MULTICAST);
    NEED(handle);
    NEED(src);
    return device->ops->multicast_write_async(SELF, handle, offset, src, bytes, stream);
}

acre_status acre_multicast_release(acre_device *device, void *handle)
{
    ENTER(ACRE_CAP_MULTICAST);
    NEED(handle);
    return device->ops->multicast_release(device->self, handle);
}

/* ---- Capture ------------------------------------------------------------------- */

acre_status acre_capture_begin(acre_device *device, void *stream)
{
    ENTER(ACRE_CAP_CAPTURE);
    return device->ops->capture_begin(SELF, stream);
}

acre_status acre_capture_end(acre_device *device, void *stream, void **out_graph)
{
    ENTER(ACRE_CAP_CAPTURE);
    NEED(out_graph);
    return device->ops->capture_end(SELF, stream, out_graph);
}

acre_status acre_capture_info_get(acre_device *device, void *stream, acre_capture_info *out)
{
    ENTER(ACRE_CAP_CAPTURE);
    acre_capture_info info = {.struct_size = sizeof info};
    acre_status status = STRUCT_CHECK("acre_capture_info_get", acre_capture_info, out);
    if (status == ACRE_OK)
        status = device->ops->capture_info(SELF, stream, &info);
    if (status == ACRE_OK)
        STRUCT_GIVE(acre_capture_info, out, &info);
    return status;
}

acre_status acre_capture_dependencies(acre_device *device, uint64_t capture_id, uint64_t node,
                                      uint64_t *out_nodes, uint32_t capacity, uint32_t *out_count)
{
    ENTER(ACRE_CAP_CAPTURE);
    NEED(out_count);
    if (!out_nodes && capacity)
        return device_null(__func__, "out_nodes");
    return device->ops->capture_dependencies(SELF, capture_id, node, out_nodes, capacity,
                                             out_count);
}

acre_status acre_graph_launch(acre_device *device, void *graph, void *stream)
{
    ENTER(ACRE_CAP_CAPTURE);
    NEED(graph);
    return device->ops->graph_launch(SELF, graph, stream);
}

acre_status acre_graph_destroy(acre_device *device, void *graph)
{
    ENTER(ACRE_CAP_CAPTURE);
    NEED(graph);
    return device->ops->graph_destroy(SELF, graph);
}
