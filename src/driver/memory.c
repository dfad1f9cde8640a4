/* SPDX-License-Identifier: MIT */
#include "driver/memory.h"

#include "base/bits.h"
#include "base/status.h"

#include <string.h>

/* What the table promises; drivers promise 256 and give 512. */
#define ALIGNMENT 512

/* ---- Plain memory ------------------------------------------------------------------- */

/* Gives memory back that was never handed out, or is no longer in the books. */
static acre_status native_free(struct driver *driver, int device, void *native)
{
    struct driver_scope scope;

    return ON_DEVICE_MEMORY(CALL(free, native));
}

static acre_status native_alloc(struct driver *driver, int device, size_t bytes, void **out)
{
    struct driver_scope scope;

    return ON_DEVICE_MEMORY(CALL(alloc, out, bytes));
}

acre_status drv_memory_alloc(void *self, int device, size_t bytes, void **out_base)
{
    struct driver *driver = self;
    struct book_range range = {.bytes = bytes, .device = device, .origin = RANGE_ALLOC};
    acre_status status = native_alloc(driver, device, bytes, &range.native);

    if (status == ACRE_OK && (uintptr_t)range.native % ALIGNMENT) {
        native_free(driver, device, range.native);
        status = native_alloc(driver, device, bytes + ALIGNMENT, &range.native);
    }
    if (status != ACRE_OK)
        return status;
    range.base = round_up((uintptr_t)range.native, ALIGNMENT);
    status = books_put(&driver->books, &range);
    if (status != ACRE_OK) {
        native_free(driver, device, range.native);
        return status;
    }
    *out_base = (void *)range.base;
    return ACRE_OK;
}

acre_status drv_memory_free(void *self, int device, void *base)
{
    struct driver *driver = self;
    struct book_range range;
    acre_status status = books_take(&driver->books, RANGE_ALLOC, device, base, &range);

    if (status != ACRE_OK)
        return status;
    return books_range_settle(&driver->books, &range, native_free(driver, device, range.native));
}

/* ---- Page-locked memory ------------------------------------------------------------- */

acre_status drv_memory_host_alloc(void *self, size_t bytes, void **out_base)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct book_range range = {.bytes = bytes, .device = -1, .origin = RANGE_HOST};
    int device = driver_any_device(driver);
    acre_status status = ON_DEVICE_MEMORY(
        CALL(host_alloc, &range.native, bytes, DRIVER_HOST_PORTABLE | DRIVER_HOST_MAPPED));

    if (status == ACRE_ERR_DEVICE_MEMORY)
        return ACRE_ERR_HOST_MEMORY;
    if (status != ACRE_OK)
        return status;
    range.base = (uintptr_t)range.native;
    status = books_put(&driver->books, &range);
    if (status != ACRE_OK) {
        ON_DEVICE_MEMORY(CALL(host_free, range.native));
        return status;
    }
    *out_base = range.native;
    return ACRE_OK;
}

acre_status drv_memory_host_free(void *self, void *base)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct book_range range;
    int device = driver_any_device(driver);
    acre_status status = books_take(&driver->books, RANGE_HOST, device, base, &range);

    if (status != ACRE_OK)
        return status;
    return books_range_settle(&driver->books, &range, ON_DEVICE_MEMORY(CALL(host_free, base)));
}

acre_status drv_memory_host_register(void *self, void *base, size_t bytes)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct book_range range = {.base = (uintptr_t)base,
                               .bytes = bytes,
                               .native = base,
                               .device = -1,
                               .origin = RANGE_REGISTERED};
    int device = driver_any_device(driver);
    acre_status status;

    if (bytes == 0 || bytes > UINTPTR_MAX - range.base)
        return status_fail(ACRE_ERR_INVALID, "registering %zu bytes at %p", bytes, base);
    status = books_put(&driver->books, &range);
    if (status != ACRE_OK)
        return status;
    status = ON_DEVICE_MEMORY(
        CALL(host_register, base, bytes, DRIVER_REGISTER_PORTABLE | DRIVER_REGISTER_MAPPED));
    if (status != ACRE_OK &&
        books_take(&driver->books, RANGE_REGISTERED, device, base, &range) == ACRE_OK)
        books_range_settle(&driver->books, &range, ACRE_OK);
    return status == ACRE_ERR_DEVICE_MEMORY ? ACRE_ERR_HOST_MEMORY : status;
}

acre_status drv_memory_host_unregister(void *self, void *base)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct book_range range;
    int device = driver_any_device(driver);
    acre_status status = books_take(&driver->books, RANGE_REGISTERED, device, base, &range);

    if (status != ACRE_OK)
        return status;
    return books_range_settle(&driver->books, &range,
                              ON_DEVICE_MEMORY(CALL(host_unregister, base)));
}

/* ---- Pointers ----------------------------------------------------------------------- */

/* Memory of the same driver that others asked for. Addresses are the same in all
 * contexts, so none is entered: asking about a pointer makes none. */
static bool foreign_info(struct driver *driver, const void *pointer, acre_pointer_info *info)
{
    driver_pointer_attribute wanted[] = {DRIVER_POINTER_MEMORY_TYPE, DRIVER_POINTER_DEVICE,
                                         DRIVER_POINTER_BASE, DRIVER_POINTER_BYTES};
    unsigned type = UINT32_MAX;
    int device = -1;
    void *base = NULL;
    size_t bytes = 0;
    void *data[] = {&type, &device, &base, &bytes};
    driver_result result =
        driver->library.call.pointer_attributes(4, wanted, data, (void *)(uintptr_t)pointer);

    /* An unknown address is no failure: the driver leaves nothing or zeros. */
    if (result != DRIVER_SUCCESS || !base || bytes == 0)
        return false;
    info->kind = driver->vendor->memory_kind(driver, type);
    if (info->kind == ACRE_MEMORY_UNMANAGED)
        return false;
    info->device = info->kind == ACRE_MEMORY_DEVICE ? device : -1;
    info->base = base;
    info->bytes = bytes;
    return true;
}

acre_status drv_memory_pointer_info(void *self, const void *pointer, acre_pointer_info *out_info)
{
    struct driver *driver = self;
    acre_pointer_info info = {.struct_size = sizeof info,
                              .kind = ACRE_MEMORY_UNMANAGED,
                              .device = -1,
                              .base = (void *)(uintptr_t)pointer,
                              .bytes = 0};
    acre_pointer_info foreign = {.struct_size = sizeof foreign};
    struct book_range range;

    if (books_find(&driver->books, pointer, &range)) {
        bool is_host = range.device < 0;

        info = (acre_pointer_info){.kind = is_host ? ACRE_MEMORY_HOST : ACRE_MEMORY_DEVICE,
                                   .device = range.device,
                                   .base = (void *)range.base,
                                   .bytes = range.bytes};
    } else if (driver->library.groups & ACRE_CAP_POINTERS &&
               foreign_info(driver, pointer, &foreign)) {
        info = foreign;
    }
    *out_info = info;
    return ACRE_OK;
}

/* ---- Memory of other processes ------------------------------------------------------ */

acre_status drv_memory_ipc_export(void *self, int device, void *base, uint8_t out_handle[64])
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_ipc_memory handle;
    struct book_range range;
    acre_status status;

    if (!books_find(&driver->books, base, &range) || range.base != (uintptr_t)base ||
        range.origin != RANGE_ALLOC || range.device != device)
        return status_fail(ACRE_ERR_INVALID,
                           "%p is not the base of a device allocation of device "
                           "%d",
                           base, device);
    if ((uintptr_t)range.native != range.base)
        return status_fail(ACRE_ERR_UNSUPPORTED, "%p was aligned by Acre and cannot be exported",
                           base);
    status = ON_DEVICE(CALL(ipc_export, &handle, base));
    if (status == ACRE_OK)
        memcpy(out_handle, &handle, sizeof handle);
    return status;
}

/* Opens a handle and asks for its extent; nothing stays open on failure. */
static acre_status native_open(struct driver *driver, const driver_ipc_memory *handle,
                               struct book_range *range)
{
    bool is_old = driver->vendor->vendor == VENDOR_HIP && driver->library.version < 60000000;
    acre_status status =
        CALL(ipc_open, &range->native, *handle, is_old ? 0 : DRIVER_IPC_LAZY_PEERS);
    driver_ptr base = NULL;

    if (status != ACRE_OK)
        return status;
    range->base = (uintptr_t)range->native;
    status = CALL(address_range, &base, &range->bytes, range->native);
    if (status == ACRE_OK && range->bytes == 0)
        status = status_fail(ACRE_ERR_DEVICE, "the driver opened memory of no size");
    if (status == ACRE_OK)
        status = books_put(&driver->books, range);
    if (status != ACRE_OK)
        driver->library.call.ipc_close(range->native);
    return status;
}

acre_status drv_memory_ipc_open(void *self, int device, const uint8_t handle[64], void **out_base,
                                uint64_t *out_bytes)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct book_range range = {.device = device, .origin = RANGE_OPENED};
    driver_ipc_memory native;
    acre_status status;

    memcpy(&native, handle, sizeof native);
    status = ON_DEVICE_MEMORY(native_open(driver, &native, &range));
    if (status == ACRE_OK) {
        *out_base = range.native;
        *out_bytes = range.bytes;
    }
    return status;
}

acre_status drv_memory_ipc_close(void *self, int device, void *base)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct book_range range;
    acre_status status = books_take(&driver->books, RANGE_OPENED, device, base, &range);

    if (status != ACRE_OK)
        return status;
    return books_range_settle(&driver->books, &range, ON_DEVICE_MEMORY(CALL(ipc_close, base)));
}
