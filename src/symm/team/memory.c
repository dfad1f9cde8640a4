/* SPDX-License-Identifier: MIT */
/* Shared memory on the host and on devices. */
#include "symm/team/memory.h"

#include "backend/device.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/status.h"
#include "symm/far/far.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

acre_status memory_granularity(acre_device *device, size_t *out)
{
    acre_device_info info = {.struct_size = sizeof info};

    if (!device) {
        *out = (size_t)sysconf(_SC_PAGESIZE);
        return ACRE_OK;
    }
    acre_status status = acre_device_info_get(device, &info);
    if (status == ACRE_OK && !(info.capabilities & (ACRE_CAP_SHARE_FD | ACRE_CAP_FABRIC)))
        status = status_fail(ACRE_ERR_UNSUPPORTED,
                             "symmetric memory: device \"%s\" cannot share "
                             "its memory with other processes",
                             info.name);
    if (status == ACRE_OK)
        *out = info.page_bytes;
    return status;
}

static acre_status fail_errno(acre_status status, const char *what, size_t bytes)
{
    return status_fail_native(status, errno, "symmetric memory: %s of %zu bytes: %s", what, bytes,
                              strerror(errno));
}

/* ---- Host ------------------------------------------------------------------------- */

static acre_status host_map(struct memory *memory, int fd)
{
    void *base = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (base == MAP_FAILED)
        return fail_errno(ACRE_ERR_HOST_MEMORY, "mapping", memory->bytes);
    memory->base = base;
    return ACRE_OK;
}

static acre_status host_create(struct memory *memory)
{
    memory->fd = memfd_create("acre-symm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory->fd < 0)
        return fail_errno(ACRE_ERR_HOST_MEMORY, "memfd", memory->bytes);
    if (ftruncate(memory->fd, (off_t)memory->bytes) != 0 ||
        fcntl(memory->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return fail_errno(ACRE_ERR_HOST_MEMORY, "sizing", memory->bytes);
    return host_map(memory, memory->fd);
}

/* A memory file of exactly that size that can never become smaller. */
static acre_status host_check(int fd, size_t bytes)
{
    struct stat stat;
    int seals = fcntl(fd, F_GET_SEALS);

    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode) || seals < 0)
        return status_fail(ACRE_ERR_REJECTED, "rendezvous: the object received is not shared "
                                              "memory");
    if (stat.st_size < 0 || (uint64_t)stat.st_size != bytes)
        return status_fail(ACRE_ERR_REJECTED,
                           "rendezvous: the memory received has %lld bytes "
                           "instead of %zu",
                           (long long)stat.st_size, bytes);
    if (!(seals & F_SEAL_SHRINK))
        return status_fail(ACRE_ERR_REJECTED, "rendezvous: the memory received is not sealed "
                                              "against shrinking");
    return ACRE_OK;
}

/* ---- Device ----------------------------------------------------------------------- */

/* Gives a handle an address that the device may read and write. */
static acre_status device_map(struct memory *memory)
{
    acre_device *device = memory->device;
    int index = acre_device_id_of(device).index;
    void *base;
    acre_status status = acre_virtual_reserve(device, memory->bytes, &base);

    if (status != ACRE_OK)
        return status;
    status = acre_virtual_map(device, base, memory->bytes, 0, memory->handle);
    if (status != ACRE_OK)
        goto unreserve;
    status = acre_virtual_set_access(device, base, memory->bytes, index, ACRE_ACCESS_READ_WRITE);
    if (status != ACRE_OK)
        goto unmap;
    memory->base = base;
    return ACRE_OK;

unmap:
    acre_virtual_unmap(device, base, memory->bytes);
unreserve:
    acre_virtual_unreserve(device, base, memory->bytes);
    return status;
}

static acre_status device_create(struct memory *memory)
{
    acre_device *device = memory->device;
    acre_device_info info = {.struct_size = sizeof info};
    acre_status status = acre_device_info_get(device, &info);

    if (status != ACRE_OK)
        return status;
    memory->is_fabric = !(info.capabilities & ACRE_CAP_SHARE_FD);
    status = acre_virtual_create(device, memory->bytes,
                                 memory->is_fabric ? ACRE_HANDLE_FABRIC : ACRE_HANDLE_POSIX,
                                 &memory->handle);
    if (status == ACRE_OK)
        status = device_map(memory);
    if (status == ACRE_OK)
        status = acre_fill_async(device, memory->base, 0, memory->bytes, NULL);
    if (status == ACRE_OK)
        status = acre_device_synchronize(device);
    return status;
}

static acre_status device_import(struct memory *memory, int fd)
{
    uint64_t bytes = 0;
    acre_status status = acre_handle_import_fd(memory->device, fd, &memory->handle, &bytes);

    /* A driver may not tell; then mapping it does. */
    if (status == ACRE_OK && bytes && bytes != memory->bytes)
        status = status_fail(ACRE_ERR_REJECTED,
                             "rendezvous: the memory received has %llu bytes "
                             "instead of %zu",
                             (unsigned long long)bytes, memory->bytes);
    return status == ACRE_OK ? device_map(memory) : status;
}

static void device_destroy(struct memory *memory)
{
    if (memory->base) {
        acre_device_synchronize(memory->device);
        acre_virtual_unmap(memory->device, memory->base, memory->bytes);
        acre_virtual_unreserve(memory->device, memory->base, memory->bytes);
    }
    if (memory->handle)
        acre_virtual_release(memory->device, memory->handle);
}

/* ---- Either ----------------------------------------------------------------------- */

static struct memory *memory_new(acre_device *device, size_t bytes)
{
    struct memory *memory = heap_zalloc(sizeof *memory);

    if (!memory)
        return NULL;
    atomic_init(&memory->refs, 1);
    memory->device = device;
    memory->bytes = bytes;
    memory->fd = -1;
    return memory;
}

acre_status memory_create(acre_device *device, size_t bytes, struct memory **out)
{
    struct memory *memory = memory_new(device, bytes);

    if (!memory)
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = device ? device_create(memory) : host_create(memory);
    if (status != ACRE_OK)
        memory_put(memory);
    else
        *out = memory;
    return status;
}

acre_status memory_export(struct memory *memory, int *out_fd)
{
    if (memory->device)
        return acre_handle_export_fd(memory->device, memory->handle, out_fd);
    int fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return fail_errno(ACRE_ERR_IO, "descriptor", memory->bytes);
    *out_fd = fd;
    return ACRE_OK;
}

acre_status memory_import(acre_device *device, int fd, size_t bytes, struct memory **out)
{
    acre_status status = ACRE_OK;

    if (fd < 0)
        return status_fail(ACRE_ERR_REJECTED, "rendezvous: a message came without its memory");
    if (!device)
        status = host_check(fd, bytes);
    if (status != ACRE_OK)
        return status;
    struct memory *memory = memory_new(device, bytes);
    if (!memory)
        return ACRE_ERR_HOST_MEMORY;
    status = device ? device_import(memory, fd) : host_map(memory, fd);
    if (status != ACRE_OK)
        memory_put(memory);
    else
        *out = memory;
    return status;
}

bool memory_is_fabric(const struct memory *memory)
{
    return memory->is_fabric;
}

acre_status memory_export_fabric(struct memory *memory, uint8_t out[64])
{
    return handle_export_fabric(memory->device, memory->handle, out);
}

acre_status memory_import_fabric(acre_device *device, const uint8_t fabric[64], size_t bytes,
                                 struct memory **out)
{
    struct memory *memory = memory_new(device, bytes);

    if (!memory)
        return ACRE_ERR_HOST_MEMORY;
    memory->is_fabric = true;
    acre_status status = handle_import_fabric(device, fabric, bytes, &memory->handle);
    if (status == ACRE_OK)
        status = device_map(memory);
    if (status != ACRE_OK)
        memory_put(memory);
    else
        *out = memory;
    return status;
}

acre_status memory_attach(struct memory *memory, uint64_t *out_address)
{
    static struct lock lock = LOCK_INITIALIZER(RANK_ALLOCATOR, "attaching");
    acre_status status = ACRE_OK;

    if (memory->device)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "symmetric memory: memory of a device does not "
                           "travel to ranks on other hosts; allocate host memory");
    lock_take(&lock);
    if (!memory->is_attached)
        status = far_attach(memory->base, memory->bytes, &memory->address);
    memory->is_attached = status == ACRE_OK;
    lock_drop(&lock);
    *out_address = memory->address;
    return status;
}

void memory_get(struct memory *memory)
{
    atomic_fetch_add_explicit(&memory->refs, 1, memory_order_relaxed);
}

void memory_put(struct memory *memory)
{
    if (!memory || atomic_fetch_sub_explicit(&memory->refs, 1, memory_order_acq_rel) > 1)
        return;
    bool is_free = !memory->is_attached || far_detach(memory->base);
    if (memory->device)
        device_destroy(memory);
    else if (memory->base && is_free)
        munmap(memory->base, memory->bytes);
    if (memory->fd >= 0)
        close(memory->fd);
    heap_free(memory);
}
