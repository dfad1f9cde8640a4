/* SPDX-License-Identifier: MIT */
/* Mappings: which handle lies at which reserved address, and who may touch it. */
#include "tests/standin/virtual.h"

#define RANGE_DEVICE 0

/* The reservation around a whole range. */
static int is_reserved_locked(uintptr_t base, size_t bytes)
{
    struct block *block = block_around(base);

    while (block && block->kind == BLOCK_MAPPING && block->base + block->bytes < base + bytes)
        block = block_around(block->base + block->bytes);
    if (block && block->kind == BLOCK_MAPPING)
        return 1;
    return block && block->kind == BLOCK_RESERVED && bytes <= block->base + block->bytes - base;
}

/* Notes a mapping; refuses what is not free, not reserved, not the whole handle. */
static CUresult map_note_locked(uintptr_t base, size_t bytes,
                                CUmemGenericAllocationHandle handle, struct block **out,
                                void **out_sim)
{
    struct memory *memory = memory_find(handle);
    struct multicast *multicast = multicast_find(handle);

    if (!memory && !multicast)
        return CUDA_ERROR_INVALID_VALUE;
    if (mapping_overlap(base, bytes) || !is_reserved_locked(base, bytes) ||
        bytes != (memory ? memory->bytes : multicast->bytes))
        return CUDA_ERROR_INVALID_VALUE;
    int device = memory ? memory->object.device : multicast->object.device;
    struct block *mapping = block_add(BLOCK_MAPPING, base, bytes, device);
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapping->memory = memory;
    mapping->multicast = multicast;
    *(memory ? &memory->map_count : &multicast->map_count) += 1;
    *out = mapping;
    *out_sim = memory ? memory->sim : NULL;
    return CUDA_SUCCESS;
}

/* Takes a mapping out of the books. */
static void map_forget_locked(struct block *mapping)
{
    struct memory *memory = mapping->memory;
    struct multicast *multicast = mapping->multicast;

    block_remove(mapping);
    if (memory) {
        memory->map_count--;
        memory_settle(memory);
    } else {
        multicast->map_count--;
        multicast_settle(multicast);
    }
}

CUresult cuMemMap(CUdeviceptr base, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct block *mapping;
    void *sim;

    ENTRY(cuMemMap);
    if (!base || offset || flags || bytes == 0 || bytes % standin.page_bytes ||
        base % standin.page_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    CUresult result = map_note_locked(base, bytes, handle, &mapping, &sim);
    books_unlock();
    if (result || !sim)
        return result;
    result = SIM(map, RANGE_DEVICE, (void *)(uintptr_t)base, bytes, 0, sim);
    if (result) {
        books_lock();
        map_forget_locked(mapping);
        books_unlock();
    }
    return result;
}

/* The first of the mappings that tile a range exactly. */
static struct block *tiles_locked(uintptr_t base, size_t bytes)
{
    struct block *first = mapping_at(base), *it = first;
    uintptr_t at = base;

    while (it && it->base == at && at < base + bytes) {
        at += it->bytes;
        it = mapping_next(it);
    }
    return at == base + bytes ? first : NULL;
}

static int has_multicast_locked(struct block *first, uintptr_t end)
{
    for (struct block *it = first; it && it->base < end; it = mapping_next(it))
        if (it->multicast)
            return 1;
    return 0;
}

CUresult cuMemUnmap(CUdeviceptr base, size_t bytes)
{
    ENTRY(cuMemUnmap);
    books_lock();
    struct block *first = bytes ? tiles_locked(base, bytes) : NULL;
    int is_virtual = first && has_multicast_locked(first, base + bytes);
    books_unlock();
    if (!first || (is_virtual && first->bytes != bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = is_virtual ? CUDA_SUCCESS
                                 : SIM(unmap, RANGE_DEVICE, (void *)(uintptr_t)base, bytes);
    if (result)
        return result;
    books_lock();
    for (struct block *it = mapping_at(base), *next; it && it->base < base + bytes; it = next) {
        next = mapping_next(it);
        map_forget_locked(it);
    }
    books_unlock();
    return CUDA_SUCCESS;
}

/* ---- Access ------------------------------------------------------------------------------ */

static CUresult desc_check(const CUmemAccessDesc *desc)
{
    if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
         desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
         desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        return CUDA_ERROR_INVALID_VALUE;
    return device_is_valid(desc->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static void access_note_locked(uintptr_t base, size_t bytes, const CUmemAccessDesc *desc)
{
    for (struct block *it = mapping_at(base); it && it->base < base + bytes;
         it = mapping_next(it))
        it->accesses[desc->location.id] = (uint8_t)desc->flags;
}

CUresult cuMemSetAccess(CUdeviceptr base, size_t bytes, const CUmemAccessDesc *desc,
                        size_t count)
{
    CUresult result = CUDA_SUCCESS;

    ENTRY(cuMemSetAccess);
    if (!desc || count == 0 || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !result; i++)
        result = desc_check(&desc[i]);
    if (result)
        return result;
    books_lock();
    struct block *first = tiles_locked(base, bytes);
    int is_virtual = first && has_multicast_locked(first, base + bytes);
    books_unlock();
    if (!first)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !result; i++) {
        if (!is_virtual)
            result = SIM(set_access, RANGE_DEVICE, (void *)(uintptr_t)base, bytes,
                         desc[i].location.id, (acre_access)desc[i].flags);
        books_lock();
        if (!result)
            access_note_locked(base, bytes, &desc[i]);
        books_unlock();
    }
    return result;
}

CUresult cuMemGetAccess(unsigned long long *out, const CUmemLocation *location,
                        CUdeviceptr pointer)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTRY(cuMemGetAccess);
    if (!out || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !device_is_valid(location->id))
        return CUDA_ERROR_INVALID_VALUE;
    books_lock();
    struct block *block = block_around(pointer);
    if (block && block->kind == BLOCK_MAPPING) {
        *out = block->accesses[location->id];
        result = CUDA_SUCCESS;
    }
    books_unlock();
    return result;
}
