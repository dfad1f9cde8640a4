/* SPDX-License-Identifier: MIT */
/* Where CUDA is shaped otherwise than HIP: contexts, copies without a direction,
 * capture as of 12.3. */
#include "driver/vendor/cuda.h"

#include "backend/builtin.h"
#include "base/heap.h"

/* ---- Contexts ------------------------------------------------------------------------ */

static driver_result cuda_device(struct driver *driver, int index, driver_device *out)
{
    return driver->library.call.cuda_device(out, index);
}

/* The primary context of a device, retained once. */
static driver_result context_of(struct driver *driver, int device, driver_context *out)
{
    struct driver_unit *unit = &driver->units[device];
    driver_context context = atomic_load_explicit(&unit->context, memory_order_acquire);
    driver_context none = NULL;
    driver_result result;

    if (!context) {
        result = driver->library.call.cuda_primary_retain(&context, unit->native);
        if (result != DRIVER_SUCCESS)
            return result;
        if (!atomic_compare_exchange_strong(&unit->context, &none, context)) {
            /* Another thread was first; the driver counts, and it is the same one. */
            driver->library.call.cuda_primary_release(unit->native);
            context = none;
        }
    }
    *out = context;
    return DRIVER_SUCCESS;
}

static void cuda_fini(struct driver *driver)
{
    for (int i = 0; i < driver->unit_count; i++)
        if (driver->units[i].context)
            driver->library.call.cuda_primary_release(driver->units[i].native);
}

static driver_result cuda_enter(struct driver *driver, int device, struct driver_scope *scope)
{
    driver_context mine = scope->context, current = NULL;
    driver_result result = mine ? DRIVER_SUCCESS : context_of(driver, device, &mine);

    if (result != DRIVER_SUCCESS)
        return result;
    result = driver->library.call.cuda_context_get(&current);
    if (result != DRIVER_SUCCESS || current == mine)
        return result;
    result = driver->library.call.cuda_context_push(mine);
    scope->is_switched = result == DRIVER_SUCCESS;
    return result;
}

static void cuda_leave(struct driver *driver, struct driver_scope *scope)
{
    driver_context mine;

    if (scope->is_switched)
        driver->library.call.cuda_context_pop(&mine);
}

static acre_status cuda_set_current(void *self, int device)
{
    struct driver *driver = self;
    driver_context mine;
    driver_result result = context_of(driver, device, &mine);

    if (result != DRIVER_SUCCESS)
        return library_check(&driver->library, ENTRY_cuda_primary_retain, result);
    return CALL(cuda_context_set, mine);
}

/* ---- Copies and values ------------------------------------------------------------------ */

static acre_status cuda_copy(struct driver *driver, void *dst, const void *src, size_t bytes)
{
    return CALL(cuda_copy, dst, (void *)(uintptr_t)src, bytes);
}

static acre_status cuda_copy_async(struct driver *driver, void *dst, const void *src, size_t bytes,
                                   driver_stream stream)
{
    return CALL(cuda_copy_async, dst, (void *)(uintptr_t)src, bytes, stream);
}

static acre_status cuda_copy_peer_async(struct driver *driver, void *dst, int dst_device,
                                        const void *src, int src_device, size_t bytes,
                                        driver_stream stream)
{
    driver_context to = NULL, from = NULL;
    driver_result result = context_of(driver, dst_device, &to);

    if (result == DRIVER_SUCCESS)
        result = context_of(driver, src_device, &from);
    if (result != DRIVER_SUCCESS)
        return library_check(&driver->library, ENTRY_cuda_primary_retain, result);
    return CALL(cuda_copy_peer_async, dst, to, (void *)(uintptr_t)src, from, bytes, stream);
}

static acre_status cuda_wait_value32(struct driver *driver, driver_stream stream, void *address,
                                     uint32_t value, unsigned condition)
{
    return CALL(cuda_wait_value32, stream, address, value, condition);
}

static acre_status cuda_peer_enable(struct driver *driver, int device, int other)
{
    struct driver_scope scope;
    driver_context peer;
    driver_result result = context_of(driver, other, &peer);

    if (result != DRIVER_SUCCESS)
        return library_check(&driver->library, ENTRY_cuda_primary_retain, result);
    return ON_DEVICE(CALL(cuda_peer_enable, peer, 0));
}

/* ---- Capture ---------------------------------------------------------------------------- */

static acre_status cuda_capture_info(struct driver *driver, driver_stream stream,
                                     driver_capture_status *out_status, driver_capture_id *out_id,
                                     const driver_node **out_nodes, size_t *out_count)
{
    const driver_edge *edges = NULL;
    driver_graph graph = NULL;

    if (!driver->library.call.cuda_capture_info_v3)
        return CALL(capture_info, stream, out_status, out_id, &graph, out_nodes, out_count);
    return CALL(cuda_capture_info_v3, stream, out_status, out_id, &graph, out_nodes, &edges,
                out_count);
}

static acre_status cuda_node_dependencies(struct driver *driver, driver_node node,
                                          driver_node *out_nodes, size_t *count)
{
    driver_edge *edges = NULL;
    acre_status status;

    if (!driver->library.call.cuda_node_dependencies_v2)
        return CALL(node_dependencies, node, out_nodes, count);
    /* Without room for the edges the driver refuses those that carry data. */
    if (out_nodes) {
        edges = heap_array(*count ? *count : 1, sizeof *edges);
        if (!edges)
            return ACRE_ERR_HOST_MEMORY;
    }
    status = CALL(cuda_node_dependencies_v2, node, out_nodes, edges, count);
    heap_free(edges);
    return status;
}

static acre_memory_kind cuda_memory_kind(const struct driver *driver, unsigned type)
{
    (void)driver;
    return type == 2 || type == 4 ? ACRE_MEMORY_DEVICE
           : type == 1            ? ACRE_MEMORY_HOST
                                  : ACRE_MEMORY_UNMANAGED;
}

const struct vendor vendor_cuda = {
    .vendor = VENDOR_CUDA,
    .name = "cuda",
    .type = ACRE_DEVICE_CUDA,
    .device = cuda_device,
    .fini = cuda_fini,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .set_current = cuda_set_current,
    .copy = cuda_copy,
    .copy_async = cuda_copy_async,
    .copy_peer_async = cuda_copy_peer_async,
    .wait_value32 = cuda_wait_value32,
    .peer_enable = cuda_peer_enable,
    .capture_info = cuda_capture_info,
    .node_dependencies = cuda_node_dependencies,
    .memory_kind = cuda_memory_kind,
};

acre_status cuda_start(acre_backend **out)
{
    return driver_start(&vendor_cuda, out);
}
