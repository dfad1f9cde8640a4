/* SPDX-License-Identifier: MIT */
/* Where HIP is shaped otherwise than CUDA: a current device instead of contexts,
 * copies with a direction, a mask for waits, kinds of memory renumbered in HIP 6. */
#include "driver/vendor/hip.h"

#include "backend/builtin.h"

static driver_result hip_device(struct driver *driver, int index, driver_device *out)
{
    (void)driver;
    *out = index;
    return DRIVER_SUCCESS;
}

static void hip_fini(struct driver *driver)
{
    (void)driver;
}

static driver_result hip_enter(struct driver *driver, int device, struct driver_scope *scope)
{
    driver_result result = driver->library.call.hip_device_get(&scope->index);

    if (result != DRIVER_SUCCESS || scope->index == device)
        return result;
    result = driver->library.call.hip_device_set(device);
    scope->is_switched = result == DRIVER_SUCCESS;
    return result;
}

static void hip_leave(struct driver *driver, struct driver_scope *scope)
{
    if (scope->is_switched)
        driver->library.call.hip_device_set(scope->index);
}

static acre_status hip_set_current(void *self, int device)
{
    struct driver *driver = self;

    return CALL(hip_device_set, device);
}

static acre_status hip_copy(struct driver *driver, void *dst, const void *src, size_t bytes)
{
    return CALL(hip_copy, dst, src, bytes, DRIVER_HIP_COPY_DEFAULT);
}

static acre_status hip_copy_async(struct driver *driver, void *dst, const void *src, size_t bytes,
                                  driver_stream stream)
{
    return CALL(hip_copy_async, dst, src, bytes, DRIVER_HIP_COPY_DEFAULT, stream);
}

static acre_status hip_copy_peer_async(struct driver *driver, void *dst, int dst_device,
                                       const void *src, int src_device, size_t bytes,
                                       driver_stream stream)
{
    return CALL(hip_copy_peer_async, dst, dst_device, src, src_device, bytes, stream);
}

static acre_status hip_wait_value32(struct driver *driver, driver_stream stream, void *address,
                                    uint32_t value, unsigned condition)
{
    return CALL(hip_wait_value32, stream, address, value, condition, UINT32_MAX);
}

static acre_status hip_peer_enable(struct driver *driver, int device, int other)
{
    struct driver_scope scope;

    return ON_DEVICE(CALL(hip_peer_enable, other, 0));
}

static acre_status hip_capture_info(struct driver *driver, driver_stream stream,
                                    driver_capture_status *out_status, driver_capture_id *out_id,
                                    const driver_node **out_nodes, size_t *out_count)
{
    driver_graph graph = NULL;

    return CALL(capture_info, stream, out_status, out_id, &graph, out_nodes, out_count);
}

static acre_status hip_node_dependencies(struct driver *driver, driver_node node,
                                         driver_node *out_nodes, size_t *count)
{
    return CALL(node_dependencies, node, out_nodes, count);
}

/* Host 0, device 1 before HIP 6; host 1, device 2 since. */
static acre_memory_kind hip_memory_kind(const struct driver *driver, unsigned type)
{
    unsigned host = driver->library.version >= 60000000;

    return type == host + 1 ? ACRE_MEMORY_DEVICE
           : type == host   ? ACRE_MEMORY_HOST
                            : ACRE_MEMORY_UNMANAGED;
}

const struct vendor vendor_hip = {
    .vendor = VENDOR_HIP,
    .name = "hip",
    .type = ACRE_DEVICE_HIP,
    .device = hip_device,
    .fini = hip_fini,
    .enter = hip_enter,
    .leave = hip_leave,
    .set_current = hip_set_current,
    .copy = hip_copy,
    .copy_async = hip_copy_async,
    .copy_peer_async = hip_copy_peer_async,
    .wait_value32 = hip_wait_value32,
    .peer_enable = hip_peer_enable,
    .capture_info = hip_capture_info,
    .node_dependencies = hip_node_dependencies,
    .memory_kind = hip_memory_kind,
};

acre_status hip_start(acre_backend **out)
{
    return driver_start(&vendor_hip, out);
}
