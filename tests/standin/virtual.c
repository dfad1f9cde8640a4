/* SPDX-License-Identifier: MIT */
/* Virtual memory: reserved addresses, physical memory, and mappings. */
#include "tests/standin/virtual.h"

#include "base/process/service.h"

#include <string.h>
#include <unistd.h>

/* The device has one space of addresses; all are reserved on its first. */
#define RANGE_DEVICE 0

static int is_whole(size_t bytes)
{
    return bytes > 0 && bytes % standin.page_bytes == 0;
}

static CUresult virtual_check(void)
{
    return standin.lacks & LACK_VIRTUAL ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

/* ---- Addresses ---------------------------------------------------------------------- */

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment,
                             CUdeviceptr wished, unsigned long long flags)
{
    void *base = NULL;

    ENTRY(cuMemAddressReserve);
    (void)wished;
    if (!out || flags || !is_whole(bytes) || alignment & (alignment - 1) ||
        alignment > standin.page_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = virtual_check();
    if (!result)
        result = SIM(reserve, RANGE_DEVICE, bytes, &base);
    if (result)
        return result;
    books_lock();
    struct block *block = block_add(BLOCK_RESERVED, (uintptr_t)base, bytes, RANGE_DEVICE);
    books_unlock();
    if (!block) {
        standin.ops->unreserve(standin.self, RANGE_DEVICE, base, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUdeviceptr)(uintptr_t)base;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTRY(cuMemAddressFree);
    books_lock();
    struct block *block = block_at(base);
    if (block && block->kind == BLOCK_RESERVED && block->bytes == bytes &&
        !mapping_overlap(base, bytes)) {
        block_remove(block);
        result = CUDA_SUCCESS;
    }
    books_unlock();
    return result ? result : SIM(unreserve, RANGE_DEVICE, (void *)(uintptr_t)base, bytes);
}

/* ---- Physical memory ------------------------------------------------------------------ */

struct memory *memory_find(CUmemGenericAllocationHandle handle)
{
    struct memory *memory = object_find(KIND_MEMORY, (void *)(uintptr_t)handle);

    return memory && memory->refs > 0 ? memory : NULL;
}

void memory_settle(struct memory *memory)
{
    if (memory->refs > 0 || memory->map_count > 0)
        return;
    offer_destroy(memory->offer);
    if (memory->fd >= 0)
        close(memory->fd);
    standin.ops->release(standin.self, memory->object.device, memory->sim);
    object_destroy(memory);
}

static void live_memory(void *object, void *arg)
{
    ((struct standin_live *)arg)->handles += ((struct memory *)object)->refs > 0;
}

static void live_multicast(void *object, void *arg)
{
    ((struct standin_live *)arg)->multicasts += ((struct multicast *)object)->refs > 0;
}

void memory_live(struct standin_live *live)
{
    object_each(KIND_MEMORY, live_memory, live);
    object_each(KIND_MULTICAST, live_multicast, live);
}

static int types_are_possible(int types)
{
    int all = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;

    if (standin.lacks & LACK_POSIX)
        all &= ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (standin.lacks & LACK_FABRIC)
        all &= ~CU_MEM_HANDLE_TYPE_FABRIC;
    return (types & ~all) == 0;
}

CUresult prop_check(const CUmemAllocationProp *prop)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->win32HandleMetaData)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(prop->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    return types_are_possible(prop->requestedHandleTypes) ? virtual_check()
                                                          : CUDA_ERROR_NOT_SUPPORTED;
}

/* Publishes what the device made; takes it back on failure. */
static CUresult memory_publish(int device, void *sim, size_t bytes, int types,
                               CUmemGenericAllocationHandle *out)
{
    books_lock();
    struct memory *memory = object_create(KIND_MEMORY, sizeof *memory, device);
    if (memory) {
        memory->sim = sim;
        memory->bytes = bytes;
        memory->types = types;
        memory->refs = 1;
        memory->fd = -1;
        *out = memory->object.handle;
    }
    books_unlock();
    if (memory)
        return CUDA_SUCCESS;
    standin.ops->release(standin.self, device, sim);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    void *sim = NULL;

    ENTRY(cuMemCreate);
    if (!out || flags || !is_whole(bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = prop_check(prop);
    if (result)
        return result;
    int device = prop->location.id, types = prop->requestedHandleTypes;
    result = SIM(create, device, bytes, types ? ACRE_HANDLE_POSIX : ACRE_HANDLE_NONE, &sim);
    return result ? result : memory_publish(device, sim, bytes, types, out);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult result = CUDA_SUCCESS;

    ENTRY(cuMemRelease);
    books_lock();
    struct memory *memory = memory_find(handle);
    struct multicast *multicast = multicast_find(handle);
    if (memory) {
        memory->refs--;
        memory_settle(memory);
    } else if (multicast) {
        multicast->refs--;
        multicast_settle(multicast);
    } else {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    books_unlock();
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTRY(cuMemRetainAllocationHandle);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct block *block = block_around((uintptr_t)address);
    if (block && block->memory) {
        block->memory->refs++;
        *out = block->memory->object.handle;
        result = CUDA_SUCCESS;
    }
    books_unlock();
    return result;
}

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags kind)
{
    ENTRY(cuMemGetAllocationGranularity);
    CUresult result = !out || kind > 1 ? CUDA_ERROR_INVALID_VALUE : prop_check(prop);
    if (!result)
        *out = standin.page_bytes;
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *out,
                                                CUmemGenericAllocationHandle handle)
{
    ENTRY(cuMemGetAllocationPropertiesFromHandle);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct memory *memory = memory_find(handle);
    if (memory)
        *out = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .requestedHandleTypes = memory->types,
                                     .location = {CU_MEM_LOCATION_TYPE_DEVICE,
                                                  memory->object.device}};
    books_unlock();
    return memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Sharing --------------------------------------------------------------------------- */

/* A descriptor of the memory or multicast object behind a handle, if it may be had. */
static CUresult export_fd_locked(CUmemGenericAllocationHandle handle, unsigned type, int *out)
{
    struct memory *memory = memory_find(handle);
    struct multicast *multicast = multicast_find(handle);

    if (!(memory ? memory->types & (int)type : multicast && multicast->types & (int)type))
        return CUDA_ERROR_INVALID_VALUE;
    if (memory)
        return SIM(export_fd, memory->object.device, memory->sim, out);
    *out = dup(multicast->fd);
    return *out >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

/* Offers it under a ticket; the first time keeps the descriptor for that. */
static CUresult export_fabric_locked(CUmemGenericAllocationHandle handle, unsigned char out[64])
{
    struct memory *memory = memory_find(handle);
    struct multicast *multicast = multicast_find(handle);
    int fd = -1;
    CUresult result = export_fd_locked(handle, CU_MEM_HANDLE_TYPE_FABRIC, &fd);

    if (result)
        return result;
    if (!memory || memory->fd >= 0) {
        close(fd);
    } else {
        memory->fd = fd;
    }
    return memory ? share_ticket(&memory->offer, &memory->fd, out)
                  : share_ticket(&multicast->offer, &multicast->fd, out);
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTRY(cuMemExportToShareableHandle);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        result = export_fd_locked(handle, type, out);
    else if (type == CU_MEM_HANDLE_TYPE_FABRIC)
        result = export_fabric_locked(handle, ((CUmemFabricHandle *)out)->data);
    books_unlock();
    return result;
}

static CUresult import_fd(int fd, int type, CUmemGenericAllocationHandle *out)
{
    uint64_t bytes = 0;
    void *sim = NULL;
    int device = 0;

    if (multicast_is_shared(fd))
        return multicast_import(fd, type, out);
    if (context_device(&device))
        device = 0; /* needs no context */
    CUresult result = SIM(import_fd, device, fd, &sim, &bytes);
    return result ? result : memory_publish(device, sim, bytes, type, out);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shared,
                                        CUmemAllocationHandleType type)
{
    int fd = -1;

    ENTRY(cuMemImportFromShareableHandle);
    if (!out || !types_are_possible((int)type))
        return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return import_fd((int)(uintptr_t)shared, (int)type, out);
    if (type != CU_MEM_HANDLE_TYPE_FABRIC || !shared)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = share_open(((CUmemFabricHandle *)shared)->data, &fd);
    if (result)
        return result;
    result = import_fd(fd, (int)type, out);
    close(fd);
    return result;
}
