/* SPDX-License-Identifier: MIT */
#include "driver/multicast.h"

#include "backend/backend.h"
#include "base/heap.h"
#include "base/status.h"
#include "driver/memory.h"

_Static_assert(BACKEND_DEVICES_MAX <= 128, "members fit their bits");

static bool is_member(const struct multicast *multicast, int device)
{
    return (multicast->members[device / 64] >> (device % 64)) & 1;
}

/* ---- Making and dropping ------------------------------------------------------------ */

/* The members, each valid and named once. */
static acre_status members_take(const struct driver *driver, const int *devices, int device_count,
                                struct multicast *multicast)
{
    if (!devices || device_count < 1)
        return status_fail(ACRE_ERR_INVALID, "multicast_create: %d devices", device_count);
    for (int i = 0; i < device_count; i++) {
        int device = devices[i];

        if (device < 0 || device >= driver->unit_count)
            return status_fail(ACRE_ERR_RANGE, "multicast_create: device %d is not in [0, %d)",
                               device, driver->unit_count);
        if (is_member(multicast, device))
            return status_fail(ACRE_ERR_INVALID, "multicast_create: device %d is named twice",
                               device);
        multicast->members[device / 64] |= (uint64_t)1 << (device % 64);
    }
    return ACRE_OK;
}

/* Drops bindings that users left behind. */
static void bindings_free(struct object *object)
{
    struct multicast *multicast = CONTAINER_OF(object, struct multicast, object);

    LIST_FOR_EACH_SAFE(it, after, &multicast->bindings)
        heap_free(CONTAINER_OF(it, struct binding, link));
}

/* The driver's side: the object and its members; nothing is left on failure. */
static acre_status native_create(struct driver *driver, const int *devices, int device_count,
                                 struct multicast *multicast)
{
    driver_multicast_prop prop = {.device_count = (unsigned)device_count,
                                  .bytes = multicast->bytes};
    size_t step = 0;
    acre_status status = CALL(multicast_granularity, &step, &prop, DRIVER_MULTICAST_MINIMUM);

    if (status == ACRE_OK && (step == 0 || multicast->bytes % step))
        status = status_fail(ACRE_ERR_INVALID,
                             "multicast_create: %zu bytes are no multiple of "
                             "%zu",
                             multicast->bytes, step);
    if (status == ACRE_OK)
        status = CALL(multicast_create, &multicast->native, &prop);
    if (status != ACRE_OK)
        return status;
    for (int i = 0; i < device_count && status == ACRE_OK; i++)
        status = CALL(multicast_add, multicast->native, driver->units[devices[i]].native);
    if (status == ACRE_OK)
        status = books_object_put(&driver->books, &multicast->object);
    if (status != ACRE_OK)
        driver->library.call.release(multicast->native);
    return status;
}

acre_status drv_multicast_create(void *self, const int *devices, int device_count, size_t bytes,
                                 void **out_handle)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct multicast *multicast = heap_zalloc(sizeof *multicast);
    int device;
    acre_status status;

    if (!multicast)
        return ACRE_ERR_HOST_MEMORY;
    multicast->object = (struct object){OBJECT_MULTICAST, bindings_free};
    multicast->bytes = bytes;
    list_init(&multicast->bindings);
    status = members_take(driver, devices, device_count, multicast);
    if (status == ACRE_OK) {
        device = devices[0];
        status = ON_DEVICE_MEMORY(native_create(driver, devices, device_count, multicast));
    }
    if (status != ACRE_OK) {
        heap_free(multicast);
        return status;
    }
    *out_handle = multicast;
    return ACRE_OK;
}

acre_status drv_multicast_release(void *self, void *handle)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct multicast *multicast = handle;
    int device = driver_any_device(driver);
    acre_status status = books_object_take(&driver->books, OBJECT_MULTICAST, handle);
    bool is_bound;

    if (status != ACRE_OK)
        return status;
    lock_take(&driver->books.lock);
    is_bound = !list_empty(&multicast->bindings);
    lock_drop(&driver->books.lock);
    if (is_bound)
        status = status_fail(ACRE_ERR_BUSY, "multicast_release: memory is still bound");
    else
        status = ON_DEVICE_MEMORY(CALL(release, multicast->native));
    return books_object_settle(&driver->books, &multicast->object, status);
}

/* ---- Binding ------------------------------------------------------------------------ */

/* A live handle, a member and a range inside it. */
static acre_status multicast_check(struct driver *driver, const char *call, void *handle,
                                   int device, size_t offset, size_t bytes)
{
    const struct multicast *multicast = handle;
    acre_status status = books_object_check(&driver->books, OBJECT_MULTICAST, handle);

    if (status != ACRE_OK)
        return status;
    if (device < 0 || device >= driver->unit_count || !is_member(multicast, device))
        return status_fail(ACRE_ERR_INVALID, "%s: device %d is not a member", call, device);
    if (bytes == 0 || offset > multicast->bytes || bytes > multicast->bytes - offset)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: %zu bytes at offset %zu of a handle of %zu "
                           "bytes",
                           call, bytes, offset, multicast->bytes);
    return ACRE_OK;
}

/* A binding of a device that shares a byte with a range. */
static struct binding *binding_find_locked(const struct multicast *multicast, int device,
                                           size_t offset, size_t bytes)
{
    LIST_FOR_EACH(it, &multicast->bindings) {
        struct binding *binding = CONTAINER_OF(it, struct binding, link);

        if (binding->device == device && offset < binding->offset + binding->bytes &&
            binding->offset < offset + bytes)
            return binding;
    }
    return NULL;
}

static acre_status binding_put(struct driver *driver, struct multicast *multicast,
                               struct binding *binding)
{
    acre_status status = ACRE_OK;

    lock_take(&driver->books.lock);
    if (binding_find_locked(multicast, binding->device, binding->offset, binding->bytes))
        status = status_fail(ACRE_ERR_EXISTS,
                             "multicast_bind: device %d has memory bound at "
                             "offset %zu already",
                             binding->device, binding->offset);
    else
        list_push_back(&multicast->bindings, &binding->link);
    lock_drop(&driver->books.lock);
    return status;
}

static void binding_drop(struct driver *driver, struct binding *binding)
{
    lock_take(&driver->books.lock);
    list_remove(&binding->link);
    lock_drop(&driver->books.lock);
    heap_free(binding);
}

acre_status drv_multicast_bind(void *self, void *handle, int device, size_t offset, void *memory,
                               size_t bytes)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct multicast *multicast = handle;
    struct binding *binding;
    acre_pointer_info info = {.struct_size = sizeof info};
    acre_status status = multicast_check(driver, "multicast_bind", handle, device, offset, bytes);

    if (status != ACRE_OK)
        return status;
    drv_memory_pointer_info(driver, memory, &info);
    if (info.kind != ACRE_MEMORY_DEVICE || info.device != device)
        return status_fail(ACRE_ERR_INVALID, "multicast_bind: %p is not memory of device %d",
                           memory, device);
    binding = heap_zalloc(sizeof *binding);
    if (!binding)
        return ACRE_ERR_HOST_MEMORY;
    *binding =
        (struct binding){.device = device, .offset = offset, .bytes = bytes, .memory = memory};
    status = binding_put(driver, multicast, binding);
    if (status != ACRE_OK) {
        heap_free(binding);
        return status;
    }
    status = ON_DEVICE_MEMORY(CALL(multicast_bind, multicast->native, offset, memory, bytes, 0));
    if (status != ACRE_OK)
        binding_drop(driver, binding);
    return status;
}

acre_status drv_multicast_unbind(void *self, void *handle, int device, size_t offset, size_t bytes)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct multicast *multicast = handle;
    struct binding *binding;
    acre_status status = multicast_check(driver, "multicast_unbind", handle, device, offset, bytes);

    if (status != ACRE_OK)
        return status;
    lock_take(&driver->books.lock);
    binding = binding_find_locked(multicast, device, offset, bytes);
    if (binding && (binding->offset != offset || binding->bytes != bytes))
        binding = NULL;
    lock_drop(&driver->books.lock);
    if (!binding)
        return status_fail(ACRE_ERR_INVALID,
                           "multicast_unbind: device %d has no binding of "
                           "exactly %zu bytes at offset %zu",
                           device, bytes, offset);
    status = ON_DEVICE_MEMORY(
        CALL(multicast_unbind, multicast->native, driver->units[device].native, offset, bytes));
    if (status == ACRE_OK)
        binding_drop(driver, binding);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------ */

/* The n-th binding that shares bytes with a range, copied; false when there are no more. */
static bool binding_at(struct driver *driver, const struct multicast *multicast, size_t offset,
                       size_t bytes, size_t number, struct binding *out)
{
    bool is_there = false;

    lock_take(&driver->books.lock);
    LIST_FOR_EACH(it, &multicast->bindings) {
        const struct binding *binding = CONTAINER_OF(it, struct binding, link);

        if (offset < binding->offset + binding->bytes && binding->offset < offset + bytes &&
            number-- == 0) {
            *out = *binding;
            is_there = true;
            break;
        }
    }
    lock_drop(&driver->books.lock);
    return is_there;
}

/* Who writes, and in which order. */
struct multicast_write {
    struct driver *driver;
    int device;
    driver_stream stream;
};

/* Writes a part of src to the memory of one member. That of another device may not be
 * reachable from this one, so that copy is one between devices. */
static acre_status write_one(const struct multicast_write *write, int member, void *dst,
                             const void *src, size_t bytes)
{
    struct driver *driver = write->driver;

    if (member == write->device)
        return driver->vendor->copy_async(driver, dst, src, bytes, write->stream);
    return driver->vendor->copy_peer_async(driver, dst, member, src, write->device, bytes,
                                           write->stream);
}

static acre_status write_all(const struct multicast_write *write, const struct multicast *multicast,
                             size_t offset, const char *src, size_t bytes)
{
    acre_status status = ACRE_OK;
    struct binding binding;

    for (size_t i = 0;
         status == ACRE_OK && binding_at(write->driver, multicast, offset, bytes, i, &binding);
         i++) {
        size_t begin = offset > binding.offset ? offset : binding.offset;
        size_t bound = binding.offset + binding.bytes;
        size_t end = offset + bytes < bound ? offset + bytes : bound;

        status = write_one(write, binding.device, binding.memory + (begin - binding.offset),
                           src + (begin - offset), end - begin);
    }
    return status;
}

acre_status drv_multicast_write(void *self, int device, void *handle, size_t offset,
                                const void *src, size_t bytes, void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;
    acre_status status = multicast_check(driver, "multicast_write", handle, device, offset, bytes);

    if (status != ACRE_OK)
        return status;
    struct multicast_write write = {driver, device, stream};
    return ON_STREAM(stream, write_all(&write, handle, offset, src, bytes));
}
