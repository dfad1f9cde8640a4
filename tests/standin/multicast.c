/* SPDX-License-Identifier: MIT */
/* Multicast objects: which devices of which processes take part, what they bound.
 *
 * Nothing can be written through them here: that takes instructions of a GPU. What
 * is kept and checked is everything that comes before.
 */
#include "tests/standin/virtual.h"

#include "base/process/service.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES 4096

static const char page_magic[16] = "standin-multica";

struct multicast_page {
    char magic[16];
    uint64_t bytes;
    uint32_t device_count;
    _Atomic uint32_t added; /* devices so far, of all processes */
};

struct binding {
    struct list link;
    int device;
    size_t offset, bytes;
};

static CUresult multicast_check(const CUmulticastObjectProp *prop)
{
    const unsigned long long all =
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;

    if (standin.lacks & (LACK_MULTICAST | LACK_VIRTUAL))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!prop || prop->flags || prop->numDevices == 0 || prop->handleTypes & ~all)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

struct multicast *multicast_find(CUmemGenericAllocationHandle handle)
{
    struct multicast *multicast = object_find(KIND_MULTICAST, (void *)(uintptr_t)handle);

    return multicast && multicast->refs > 0 ? multicast : NULL;
}

void multicast_settle(struct multicast *multicast)
{
    if (multicast->refs > 0 || multicast->map_count > 0)
        return;
    LIST_FOR_EACH_SAFE(it, after, &multicast->bindings)
        free(CONTAINER_OF(it, struct binding, link));
    offer_destroy(multicast->offer);
    munmap(multicast->page, PAGE_BYTES);
    close(multicast->fd);
    object_destroy(multicast);
}

/* Makes an object of a descriptor, which it takes over. */
static CUresult multicast_of(int fd, int types, CUmemGenericAllocationHandle *out)
{
    struct multicast_page *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                       0);

    books_lock();
    struct multicast *multicast =
        page == MAP_FAILED ? NULL : object_create(KIND_MULTICAST, sizeof *multicast, 0);
    if (multicast) {
        multicast->bytes = page->bytes;
        multicast->device_count = page->device_count;
        multicast->types = types;
        multicast->refs = 1;
        multicast->fd = fd;
        multicast->page = page;
        list_init(&multicast->bindings);
        *out = multicast->object.handle;
    }
    books_unlock();
    if (multicast)
        return CUDA_SUCCESS;
    if (page != MAP_FAILED)
        munmap(page, PAGE_BYTES);
    close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *out, const CUmulticastObjectProp *prop)
{
    struct multicast_page first = {.bytes = 0};

    ENTRY(cuMulticastCreate);
    CUresult result = out ? multicast_check(prop) : CUDA_ERROR_INVALID_VALUE;
    if (!result && (prop->size == 0 || prop->size % standin.page_bytes))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    memcpy(first.magic, page_magic, sizeof first.magic);
    first.bytes = prop->size;
    first.device_count = prop->numDevices;
    int fd = memfd_create("standin-multicast", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (ftruncate(fd, PAGE_BYTES) != 0 || pwrite(fd, &first, sizeof first, 0) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        close(fd);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    return multicast_of(fd, (int)prop->handleTypes, out);
}

int multicast_is_shared(int fd)
{
    struct multicast_page page;
    struct stat facts;

    return fstat(fd, &facts) == 0 && facts.st_size == PAGE_BYTES &&
           fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW) &&
           pread(fd, &page, sizeof page, 0) == sizeof page &&
           memcmp(page.magic, page_magic, sizeof page_magic) == 0;
}

CUresult multicast_import(int fd, int types, CUmemGenericAllocationHandle *out)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    return copy < 0 ? CUDA_ERROR_OPERATING_SYSTEM : multicast_of(copy, types, out);
}

CUresult cuMulticastGetGranularity(size_t *out, const CUmulticastObjectProp *prop,
                                   CUmulticastGranularity_flags kind)
{
    ENTRY(cuMulticastGetGranularity);
    CUresult result = !out || kind > 1 ? CUDA_ERROR_INVALID_VALUE : multicast_check(prop);
    if (!result)
        *out = standin.page_bytes;
    return result;
}

/* ---- Members and what they bind -------------------------------------------------------- */

static CUresult add_locked(CUmemGenericAllocationHandle handle, int device)
{
    struct multicast *multicast = multicast_find(handle);

    if (!multicast)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t bit = (uint64_t)1 << device;
    if (multicast->added & bit)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_fetch_add(&multicast->page->added, 1) >= multicast->device_count) {
        atomic_fetch_sub(&multicast->page->added, 1);
        return CUDA_ERROR_INVALID_VALUE;
    }
    multicast->added |= bit;
    return CUDA_SUCCESS;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
    ENTRY(cuMulticastAddDevice);
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    books_lock();
    CUresult result = add_locked(handle, device);
    books_unlock();
    return result;
}

static struct binding *overlap_locked(struct multicast *multicast, int device, size_t offset,
                                      size_t bytes)
{
    LIST_FOR_EACH(it, &multicast->bindings) {
        struct binding *binding = CONTAINER_OF(it, struct binding, link);

        if (binding->device == device && offset < binding->offset + binding->bytes &&
            binding->offset < offset + bytes)
            return binding;
    }
    return NULL;
}

/* All members must be known before anything is bound. */
static CUresult bind_locked(CUmemGenericAllocationHandle handle, size_t offset, int device,
                            size_t bytes)
{
    struct multicast *multicast = multicast_find(handle);

    if (!multicast || bytes == 0 || bytes % standin.page_bytes || offset % standin.page_bytes ||
        offset > multicast->bytes || bytes > multicast->bytes - offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (!(multicast->added >> device & 1) ||
        atomic_load(&multicast->page->added) != multicast->device_count)
        return CUDA_ERROR_INVALID_VALUE;
    if (overlap_locked(multicast, device, offset, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct binding *binding = calloc(1, sizeof *binding);
    if (!binding)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *binding = (struct binding){.device = device, .offset = offset, .bytes = bytes};
    list_push_back(&multicast->bindings, &binding->link);
    return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
                            CUmemGenericAllocationHandle memory_handle, size_t memory_offset,
                            size_t bytes, unsigned long long flags)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTRY(cuMulticastBindMem);
    books_lock();
    struct memory *memory = memory_find(memory_handle);
    if (memory && !flags && memory_offset % standin.page_bytes == 0 &&
        memory_offset <= memory->bytes && bytes <= memory->bytes - memory_offset)
        result = bind_locked(handle, offset, memory->object.device, bytes);
    books_unlock();
    return result;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset,
                             CUdeviceptr memory, size_t bytes, unsigned long long flags)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTRY(cuMulticastBindAddr);
    books_lock();
    struct block *block = block_around(memory);
    if (block && block->memory && !flags && bytes <= block->base + block->bytes - memory)
        result = bind_locked(handle, offset, block->device, bytes);
    books_unlock();
    return result;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                           size_t bytes)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTRY(cuMulticastUnbind);
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    books_lock();
    struct multicast *multicast = multicast_find(handle);
    struct binding *binding =
        multicast ? overlap_locked(multicast, device, offset, bytes) : NULL;
    if (binding && binding->offset == offset && binding->bytes == bytes) {
        list_remove(&binding->link);
        free(binding);
        result = CUDA_SUCCESS;
    }
    books_unlock();
    return result;
}
