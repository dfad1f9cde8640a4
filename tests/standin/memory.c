/* SPDX-License-Identifier: MIT */
/* Plain device memory, host memory, and what a pointer belongs to. */
#include "tests/standin/pool.h"

#include <string.h>

/* ---- Device memory ------------------------------------------------------------------ */

CUresult cuMemGetInfo_v2(size_t *out_free, size_t *out_total)
{
    uint64_t available = 0, total = 0;
    int device;

    ENTRY(cuMemGetInfo_v2);
    CUresult result = context_device(&device);
    if (!result)
        result = SIM(memory_info, device, &available, &total);
    if (result)
        return result;
    if (out_free)
        *out_free = available;
    if (out_total)
        *out_total = total;
    return CUDA_SUCCESS;
}

/* The device of the current context, where no capture forbids to change memory. */
static CUresult memory_allowed(int *out_device)
{
    CUresult result = context_device(out_device);

    return result ? result : capture_allows();
}

/* Notes what the device gave, or gives it back. */
static CUresult note(enum block_kind kind, void *base, size_t bytes, int device)
{
    books_lock();
    struct block *block = block_add(kind, (uintptr_t)base, bytes, device);
    books_unlock();
    if (block)
        return CUDA_SUCCESS;
    if (kind == BLOCK_PLAIN)
        standin.ops->free(standin.self, device, base);
    else
        standin.ops->host_free(standin.self, base);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    void *base = NULL;
    int device;

    ENTRY(cuMemAlloc_v2);
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = memory_allowed(&device);
    if (!result)
        result = SIM(alloc, device, bytes, &base);
    if (!result)
        result = note(BLOCK_PLAIN, base, bytes, device);
    if (!result)
        *out = (CUdeviceptr)(uintptr_t)base;
    return result;
}

/* Takes a block of one kind out of the books. */
static CUresult forget(enum block_kind kind, uintptr_t base, int *out_device)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    books_lock();
    struct block *block = block_at(base);
    if (block && block->kind == kind) {
        *out_device = block->device;
        block_remove(block);
        result = CUDA_SUCCESS;
    }
    books_unlock();
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr base)
{
    int device, owner = 0;

    ENTRY(cuMemFree_v2);
    CUresult result = memory_allowed(&device);
    if (result)
        return result;
    if (forget(BLOCK_PLAIN, base, &owner))
        return pool_free_now(base); /* memory of a pool may be freed this way too */
    return SIM(free, owner, (void *)(uintptr_t)base);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    CUresult result = CUDA_ERROR_NOT_FOUND;

    ENTRY(cuMemGetAddressRange_v2);
    books_lock();
    struct block *block = block_around(pointer);
    if (block && block->kind != BLOCK_RESERVED && block->kind != BLOCK_REGISTERED) {
        if (base)
            *base = block->base;
        if (bytes)
            *bytes = block->bytes;
        result = CUDA_SUCCESS;
    }
    books_unlock();
    return result;
}

/* ---- Host memory ------------------------------------------------------------------------- */

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    void *base = NULL;
    int device;

    ENTRY(cuMemHostAlloc);
    if (!out || bytes == 0 || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = memory_allowed(&device);
    if (!result)
        result = SIM(host_alloc, bytes, &base);
    if (!result)
        result = note(BLOCK_HOST, base, bytes, -1);
    if (!result)
        *out = base;
    return result;
}

CUresult cuMemFreeHost(void *base)
{
    int device;

    ENTRY(cuMemFreeHost);
    CUresult result = memory_allowed(&device);
    if (!result)
        result = forget(BLOCK_HOST, (uintptr_t)base, &device);
    return result ? result : SIM(host_free, base);
}

CUresult cuMemHostRegister_v2(void *base, size_t bytes, unsigned flags)
{
    int device;

    ENTRY(cuMemHostRegister_v2);
    if (!base || bytes == 0 || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = memory_allowed(&device);
    if (result)
        return result;
    acre_status status = standin.ops->host_register(standin.self, base, bytes);
    if (status == ACRE_ERR_EXISTS)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (status != ACRE_OK)
        return result_of(status);
    books_lock();
    struct block *block = block_add(BLOCK_REGISTERED, (uintptr_t)base, bytes, -1);
    if (block)
        block->flags = flags;
    books_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostUnregister(void *base)
{
    int device;

    ENTRY(cuMemHostUnregister);
    CUresult result = memory_allowed(&device);
    if (result)
        return result;
    if (forget(BLOCK_REGISTERED, (uintptr_t)base, &device))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    return SIM(host_unregister, base);
}

/* The host block around a pointer; the books are locked. */
static struct block *host_block(const void *pointer)
{
    struct block *block = block_around((uintptr_t)pointer);

    return block && (block->kind == BLOCK_HOST || block->kind == BLOCK_REGISTERED) ? block : NULL;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *base, unsigned flags)
{
    ENTRY(cuMemHostGetDevicePointer_v2);
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct block *block = host_block(base);
    books_unlock();
    if (!block)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)base;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *out, void *base)
{
    ENTRY(cuMemHostGetFlags);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct block *block = host_block(base);
    if (block)
        *out = block->flags;
    books_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Pointers ---------------------------------------------------------------------------- */

#define WRITE(type, value)                                                     \
    do {                                                                       \
        type value_ = (type)(value);                                           \
        memcpy(data, &value_, sizeof value_);                                  \
    } while (0)

/* One attribute; block is NULL for a pointer that nobody knows. */
static CUresult attribute_write(void *data, CUpointer_attribute attribute, uintptr_t pointer,
                                const struct block *block)
{
    int is_host = block && block->device < 0;

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        WRITE(void *, block && !is_host ? HANDLE(context_primary(block->device)) : NULL);
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        WRITE(unsigned, !block ? 0 : is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        WRITE(CUdeviceptr, block ? pointer : 0);
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        WRITE(void *, is_host ? pointer : 0);
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        WRITE(unsigned long long, block ? block->number : 0);
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        WRITE(unsigned char, 0);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        WRITE(int, block ? (is_host ? 0 : block->device) : -2);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        WRITE(CUdeviceptr, block ? block->base : 0);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        WRITE(size_t, block ? block->bytes : 0);
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        WRITE(unsigned char, block != NULL);
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* What a pointer lies in, addresses without memory excluded. */
static const struct block *known_locked(uintptr_t pointer)
{
    struct block *block = block_around(pointer);

    return block && block->kind != BLOCK_RESERVED ? block : NULL;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTRY(cuPointerGetAttribute);
    books_lock();
    const struct block *block = known_locked(pointer);
    if (data && block)
        result = attribute_write(data, attribute, pointer, block);
    books_unlock();
    return result;
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr pointer)
{
    CUresult result = CUDA_SUCCESS;

    ENTRY(cuPointerGetAttributes);
    if (count == 0 || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    const struct block *block = known_locked(pointer);
    for (unsigned i = 0; i < count && !result; i++)
        result = data[i] ? attribute_write(data[i], attributes[i], pointer, block)
                         : CUDA_ERROR_INVALID_VALUE;
    books_unlock();
    return result;
}
