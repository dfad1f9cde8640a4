/* SPDX-License-Identifier: MIT */
#include "driver/virtual.h"

#include "base/heap.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Until then HIP took the address of a descriptor, since then itself, as CUDA. */
#define HIP_VERSION_FD_BY_VALUE 70100000

/* What memory of a device is described by. */
static driver_memory_prop prop_of(const struct driver *driver, int device, driver_handle_type type)
{
    return (driver_memory_prop){
        .type = DRIVER_MEMORY_PINNED,
        .handle_types = type,
        .location = {DRIVER_LOCATION_DEVICE, driver->units[device].native},
    };
}

acre_status drv_virtual_page_bytes(struct driver *driver, int device, uint64_t *out)
{
    driver_memory_prop prop = prop_of(driver, device, DRIVER_HANDLE_NONE);
    size_t bytes = 0;
    acre_status status = CALL(granularity, &bytes, &prop, DRIVER_GRANULARITY_MINIMUM);

    if (status == ACRE_OK)
        *out = bytes;
    return status;
}

/* ---- Addresses ---------------------------------------------------------------------- */

acre_status drv_virtual_reserve(void *self, int device, size_t bytes, void **out_base)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct book_range range = {.bytes = bytes, .device = device, .origin = RANGE_RESERVED};
    acre_status status = ON_DEVICE_MEMORY(CALL(reserve, &range.native, bytes, 0, NULL, 0));

    /* Addresses ran out, not memory. */
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return ACRE_ERR_LIMIT;
    if (status != ACRE_OK)
        return status;
    range.base = (uintptr_t)range.native;
    status = books_put(&driver->books, &range);
    if (status != ACRE_OK) {
        driver->library.call.unreserve(range.native, bytes);
        return status;
    }
    *out_base = range.native;
    return ACRE_OK;
}

acre_status drv_virtual_unreserve(void *self, int device, void *base, size_t bytes)
{
    struct driver *driver = self;
    struct book_range range;
    acre_status status = driver_check_fork(driver);

    if (status == ACRE_OK)
        status = books_take(&driver->books, RANGE_RESERVED, device, base, &range);
    if (status != ACRE_OK)
        return status;
    if (range.bytes != bytes)
        status = status_fail(ACRE_ERR_INVALID, "unreserve: %zu bytes at %p were reserved as %zu",
                             bytes, base, range.bytes);
    else
        status = CALL(unreserve, base, bytes);
    return books_range_settle(&driver->books, &range, status);
}

/* ---- Physical memory ---------------------------------------------------------------- */

/* Wraps a native handle and enters it; releases it on failure. */
static acre_status physical_create(struct driver *driver, int device, driver_handle native,
                                   size_t bytes, driver_handle_type type, void **out)
{
    struct physical *physical = heap_zalloc(sizeof *physical);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (physical) {
        *physical = (struct physical){{OBJECT_MEMORY, NULL}, native, bytes, device, type};
        status = books_object_put(&driver->books, &physical->object);
    }
    if (status != ACRE_OK) {
        heap_free(physical);
        driver->library.call.release(native);
        return status;
    }
    *out = physical;
    return ACRE_OK;
}

static acre_status native_type(acre_handle_type type, driver_handle_type *out)
{
    switch (type) {
    case ACRE_HANDLE_NONE:
        *out = DRIVER_HANDLE_NONE;
        return ACRE_OK;
    case ACRE_HANDLE_POSIX:
        *out = DRIVER_HANDLE_POSIX;
        return ACRE_OK;
    case ACRE_HANDLE_FABRIC:
        *out = DRIVER_HANDLE_FABRIC;
        return ACRE_OK;
    }
    return status_fail(ACRE_ERR_INVALID, "create: handle type %d does not exist", (int)type);
}

acre_status drv_virtual_create(void *self, int device, size_t bytes, acre_handle_type type,
                               void **out_handle)
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_memory_prop prop;
    driver_handle native = NULL;
    driver_handle_type handle_type = 0;
    acre_status status = native_type(type, &handle_type);

    if (status != ACRE_OK)
        return status;
    if (type == ACRE_HANDLE_FABRIC && !(driver->units[device].handle_types & DRIVER_HANDLE_FABRIC))
        return status_fail(ACRE_ERR_UNSUPPORTED, "create: device %s:%d has no fabric handles",
                           driver->vendor->name, device);
    /* What travels by fabric is to travel between processes of one machine as well. */
    if (type == ACRE_HANDLE_FABRIC)
        handle_type |= driver->units[device].handle_types;
    prop = prop_of(driver, device, handle_type);
    status = ON_DEVICE_MEMORY(CALL(create, &native, bytes, &prop, 0));
    if (status != ACRE_OK)
        return status;
    return physical_create(driver, device, native, bytes, handle_type, out_handle);
}

/* A handle of a device that is alive. */
static acre_status physical_find(struct driver *driver, int device, void *handle,
                                 struct physical **out)
{
    acre_status status = books_object_check(&driver->books, OBJECT_MEMORY, handle);
    struct physical *physical = handle;

    if (status == ACRE_OK && physical->device != device)
        status = status_fail(ACRE_ERR_INVALID, "handle %p is of device %d, not of %d", handle,
                             physical->device, device);
    if (status == ACRE_OK)
        *out = physical;
    return status;
}

acre_status drv_virtual_release(void *self, int device, void *handle)
{
    struct driver *driver = self;
    struct physical *physical;
    acre_status status = driver_check_fork(driver);

    if (status == ACRE_OK)
        status = physical_find(driver, device, handle, &physical);
    if (status == ACRE_OK)
        status = books_object_take(&driver->books, OBJECT_MEMORY, handle);
    if (status != ACRE_OK)
        return status;
    return books_object_settle(&driver->books, &physical->object, CALL(release, physical->native));
}

/* ---- Mapping ------------------------------------------------------------------------ */

acre_status drv_virtual_map(void *self, int device, void *base, size_t bytes, size_t offset,
                            void *handle)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct physical *physical;
    struct book_range range;
    acre_status status = physical_find(driver, device, handle, &physical);

    if (status != ACRE_OK)
        return status;
    if (offset != 0 || (physical->bytes && bytes != physical->bytes))
        return status_fail(ACRE_ERR_INVALID,
                           "map: %zu bytes at offset %zu of a handle of %zu; "
                           "only a whole handle can be mapped",
                           bytes, offset, physical->bytes);
    if (!books_find(&driver->books, base, &range) || range.origin != RANGE_RESERVED ||
        bytes > range.bytes - ((uintptr_t)base - range.base))
        return status_fail(ACRE_ERR_INVALID, "map: %zu bytes at %p are not all reserved", bytes,
                           base);
    return ON_DEVICE_MEMORY(CALL(map, base, bytes, 0, physical->native, 0));
}

acre_status drv_virtual_unmap(void *self, int device, void *base, size_t bytes)
{
    struct driver *driver = self;
    acre_status status = driver_check_fork(driver);

    (void)device; /* nothing else that can fail comes before what gives back */
    return status == ACRE_OK ? CALL(unmap, base, bytes) : status;
}

acre_status drv_virtual_set_access(void *self, int device, void *base, size_t bytes, int accessor,
                                   acre_access access)
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_access_desc desc = {{DRIVER_LOCATION_DEVICE, 0}, (unsigned)access};

    _Static_assert((int)ACRE_ACCESS_NONE == (int)DRIVER_ACCESS_NONE &&
                       (int)ACRE_ACCESS_READ == (int)DRIVER_ACCESS_READ &&
                       (int)ACRE_ACCESS_READ_WRITE == (int)DRIVER_ACCESS_READ_WRITE,
                   "rights have the drivers' numbers");
    if (accessor < 0 || accessor >= driver->unit_count)
        return status_fail(ACRE_ERR_RANGE, "set_access: device %d is not in [0, %d)", accessor,
                           driver->unit_count);
    if (access != ACRE_ACCESS_NONE && access != ACRE_ACCESS_READ &&
        access != ACRE_ACCESS_READ_WRITE)
        return status_fail(ACRE_ERR_INVALID, "set_access: access %d does not exist", (int)access);
    desc.location.id = driver->units[accessor].native;
    return ON_DEVICE_MEMORY(CALL(set_access, base, bytes, &desc, 1));
}

/* ---- Sharing ------------------------------------------------------------------------ */

static acre_status shareable_find(struct driver *driver, int device, void *handle,
                                  driver_handle_type type, struct physical **out)
{
    acre_status status = physical_find(driver, device, handle, out);

    if (status == ACRE_OK && !((*out)->type & type))
        status = status_fail(ACRE_ERR_INVALID, "handle %p was not created to be shared as %s",
                             handle, type == DRIVER_HANDLE_POSIX ? "a descriptor" : "fabric");
    return status;
}

acre_status drv_virtual_export_fd(void *self, int device, void *handle, int *out_fd)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct physical *physical = NULL;
    int fd = -1;
    acre_status status = shareable_find(driver, device, handle, DRIVER_HANDLE_POSIX, &physical);

    if (status == ACRE_OK)
        status = ON_DEVICE(CALL(export_handle, &fd, physical->native, DRIVER_HANDLE_POSIX, 0));
    if (status == ACRE_OK)
        *out_fd = fd;
    return status;
}

/* How large a descriptor says it is; 0 when it does not. */
static size_t fd_bytes(int fd)
{
    struct stat stat;
    off_t here, end;

    if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode))
        return stat.st_size > 0 ? (size_t)stat.st_size : 0;
    here = lseek(fd, 0, SEEK_CUR);
    end = here < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (here >= 0)
        lseek(fd, here, SEEK_SET);
    return end > 0 ? (size_t)end : 0;
}

acre_status drv_virtual_import_fd(void *self, int device, int fd, void **out_handle,
                                  uint64_t *out_bytes)
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_handle native = NULL;
    size_t bytes = fd_bytes(fd);
    bool by_address =
        driver->vendor->vendor == VENDOR_HIP && driver->library.version < HIP_VERSION_FD_BY_VALUE;
    acre_status status;

    if (fcntl(fd, F_GETFD) < 0)
        return status_fail_native(ACRE_ERR_INVALID, errno, "import_fd: descriptor %d: %s", fd,
                                  strerror(errno));
    status = ON_DEVICE_MEMORY(CALL(import_handle, &native,
                                   by_address ? (void *)&fd : (void *)(intptr_t)fd,
                                   DRIVER_HANDLE_POSIX));

    if (status == ACRE_OK)
        status = physical_create(driver, device, native, bytes, DRIVER_HANDLE_POSIX, out_handle);
    if (status == ACRE_OK)
        *out_bytes = bytes;
    return status;
}

acre_status drv_virtual_export_fabric(void *self, int device, void *handle, uint8_t out_fabric[64])
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct physical *physical = NULL;
    uint8_t fabric[64] = {0};
    acre_status status = shareable_find(driver, device, handle, DRIVER_HANDLE_FABRIC, &physical);

    if (status == ACRE_OK)
        status = ON_DEVICE(CALL(export_handle, fabric, physical->native, DRIVER_HANDLE_FABRIC, 0));
    if (status == ACRE_OK)
        memcpy(out_fabric, fabric, sizeof fabric);
    return status;
}

acre_status drv_virtual_import_fabric(void *self, int device, const uint8_t fabric[64],
                                      size_t bytes, void **out_handle)
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_handle native = NULL;
    uint8_t copy[64];
    acre_status status;

    memcpy(copy, fabric, sizeof copy);
    status = ON_DEVICE_MEMORY(CALL(import_handle, &native, copy, DRIVER_HANDLE_FABRIC));
    if (status != ACRE_OK)
        return status;
    return physical_create(driver, device, native, bytes, DRIVER_HANDLE_FABRIC, out_handle);
}

bool drv_virtual_has_fabric(struct driver *driver, int device)
{
    uint8_t fabric[64];
    uint64_t page = 0;
    void *made = NULL, *back = NULL;
    acre_status status = drv_virtual_page_bytes(driver, device, &page);

    if (status == ACRE_OK)
        status = drv_virtual_create(driver, device, page, ACRE_HANDLE_FABRIC, &made);
    if (status == ACRE_OK)
        status = drv_virtual_export_fabric(driver, device, made, fabric);
    if (status == ACRE_OK)
        status = drv_virtual_import_fabric(driver, device, fabric, page, &back);
    if (back)
        drv_virtual_release(driver, device, back);
    if (made)
        drv_virtual_release(driver, device, made);
    return status == ACRE_OK;
}
