/* SPDX-License-Identifier: MIT */
/* Memory: SVM allocations, page-locked host memory, and what a pointer is.
 *
 * SVMAlloc aligns to 128 bytes at most, so each allocation is 512 bytes longer
 * than asked for and starts at the first multiple of 512 in it. Drivers do not
 * keep to the size of a device (PoCL does not), the backend does.
 *
 * Host memory is plain pages with a buffer object around them in each context,
 * which is how OpenCL lets a driver lock memory of the caller.
 */
#include "opencl/opencl.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 512

static inline bool range_less(const struct opencl_range *a, const struct opencl_range *b)
{
    return a->base < b->base;
}

/* Ends at or below the key. */
static inline bool range_before(const struct opencl_range *range, const uintptr_t *key)
{
    return range->base + (range->bytes - 1) < *key;
}

RBTREE_DEFINE(range_set, struct opencl_range, node, uintptr_t, range_less, range_before);

static struct opencl_range *range_find_locked(struct opencl *cl, const void *pointer)
{
    uintptr_t key = (uintptr_t)pointer;
    struct opencl_range *range = range_set_lower_bound(&cl->ranges, &key);

    return range && range->base <= key ? range : NULL;
}

/* Enters a range that overlaps no other. */
static acre_status range_enter(struct opencl *cl, struct opencl_range *range)
{
    uintptr_t key = range->base;
    acre_status status = ACRE_OK;
    struct opencl_range *next;

    lock_take(&cl->lock);
    next = range_set_lower_bound(&cl->ranges, &key);
    if (next && next->base <= range->base + (range->bytes - 1))
        status = status_fail(ACRE_ERR_EXISTS,
                             "opencl: %zu bytes at %p overlap a range at %p of %zu bytes that is "
                             "already known",
                             range->bytes, (void *)range->base, (void *)next->base, next->bytes);
    else
        range_set_insert(&cl->ranges, range);
    lock_drop(&cl->lock);
    return status;
}

static const char *const origin_names[] = {"device allocations", "page-locked allocations",
                                           "registered ranges"};

/* Takes a range out by its exact base, origin and device. */
static acre_status range_take(struct opencl *cl, void *base, enum range_origin origin, int device,
                              struct opencl_range **out)
{
    acre_status status = ACRE_OK;
    struct opencl_range *range;

    lock_take(&cl->lock);
    range = range_find_locked(cl, base);
    if (!range || range->base != (uintptr_t)base || range->origin != origin ||
        range->device != device)
        status = status_fail(ACRE_ERR_INVALID, "opencl: %p is not the base of one of the %s here",
                             base, origin_names[origin]);
    else
        range_set_remove(&cl->ranges, range);
    lock_drop(&cl->lock);
    *out = status == ACRE_OK ? range : NULL;
    return status;
}

/* ---- Device memory ------------------------------------------------------------------- */

acre_status memory_info(void *self, int device, uint64_t *out_free, uint64_t *out_total)
{
    struct opencl *cl = self;
    struct opencl_device *d = &cl->devices[device];

    lock_take(&cl->lock);
    *out_free = d->bytes_total - d->bytes_used;
    lock_drop(&cl->lock);
    *out_total = d->bytes_total;
    return ACRE_OK;
}

static acre_status budget_take(struct opencl *cl, int device, size_t bytes)
{
    struct opencl_device *d = &cl->devices[device];
    acre_status status = ACRE_OK;

    if (bytes > d->bytes_alloc - ALIGNMENT)
        return status_fail(ACRE_ERR_DEVICE_MEMORY,
                           "opencl:%d (%s) gives at most %llu bytes at once; %zu were asked for",
                           device, d->name, (unsigned long long)d->bytes_alloc - ALIGNMENT, bytes);
    lock_take(&cl->lock);
    if (bytes > d->bytes_total - d->bytes_used)
        status = status_fail(ACRE_ERR_DEVICE_MEMORY,
                             "opencl:%d (%s): %zu bytes were asked for; %llu of %llu are in use",
                             device, d->name, bytes, (unsigned long long)d->bytes_used,
                             (unsigned long long)d->bytes_total);
    else
        d->bytes_used += bytes;
    lock_drop(&cl->lock);
    return status;
}

static void budget_put(struct opencl *cl, int device, size_t bytes)
{
    lock_take(&cl->lock);
    CHECK(cl->devices[device].bytes_used >= bytes);
    cl->devices[device].bytes_used -= bytes;
    lock_drop(&cl->lock);
}

/* SVM of a device; the range is not entered yet. */
static acre_status range_create(struct opencl *cl, int device, size_t bytes,
                                struct opencl_range **out)
{
    ocl_bits flags = OCL_MEM_READ_WRITE;
    struct opencl_range *range = heap_zalloc(sizeof *range);

    if (!range)
        return ACRE_ERR_HOST_MEMORY;
    if (cl->config.grain)
        flags |= OCL_MEM_SVM_FINE_GRAIN_BUFFER;
    range->memory = ocl.SVMAlloc(opencl_context(cl, device), flags, bytes + ALIGNMENT, 0);
    if (!range->memory) {
        heap_free(range);
        return status_fail(ACRE_ERR_DEVICE_MEMORY, "opencl:%d (%s): clSVMAlloc gives no %zu bytes",
                           device, cl->devices[device].name, bytes + ALIGNMENT);
    }
    range->base = round_up((uintptr_t)range->memory, ALIGNMENT);
    range->bytes = bytes;
    range->origin = RANGE_DEVICE;
    range->device = device;
    *out = range;
    return ACRE_OK;
}

acre_status memory_alloc(void *self, int device, size_t bytes, void **out_base)
{
    struct opencl *cl = self;
    struct opencl_range *range = NULL;
    acre_status status = budget_take(cl, device, bytes);

    if (status != ACRE_OK)
        return status;
    status = range_create(cl, device, bytes, &range);
    if (status != ACRE_OK)
        goto put_budget;
    status = range_enter(cl, range);
    if (status != ACRE_OK)
        goto free_range;
    *out_base = (void *)range->base;
    return ACRE_OK;

free_range:
    ocl.SVMFree(opencl_context(cl, device), range->memory);
    heap_free(range);
put_budget:
    budget_put(cl, device, bytes);
    return status;
}

/* Work that is queued may still use the memory, so that it ends first, as with
 * the calls of other drivers. */
acre_status memory_free(void *self, int device, void *base)
{
    struct opencl *cl = self;
    struct opencl_range *range = NULL;
    acre_status status = range_take(cl, base, RANGE_DEVICE, device, &range);

    if (status != ACRE_OK)
        return status;
    status = stream_platform_synchronize(cl, cl->devices[device].platform);
    if (status != ACRE_OK) {
        acre_status again = range_enter(cl, range);

        CHECK(again == ACRE_OK);
        (void)again;
        return status;
    }
    ocl.SVMFree(opencl_context(cl, device), range->memory);
    budget_put(cl, device, range->bytes);
    heap_free(range);
    return ACRE_OK;
}

bool memory_is_reached(struct opencl *cl, int device, const void *pointer, size_t bytes)
{
    const struct opencl_range *range;
    bool is_reached;

    lock_take(&cl->lock);
    range = range_find_locked(cl, pointer);
    is_reached = range && range->origin == RANGE_DEVICE &&
                 cl->devices[range->device].platform == cl->devices[device].platform &&
                 bytes <= range->bytes - ((uintptr_t)pointer - range->base);
    lock_drop(&cl->lock);
    return is_reached;
}

acre_status memory_pointer_info(void *self, const void *pointer, acre_pointer_info *out_info)
{
    acre_pointer_info info = {.struct_size = sizeof info,
                              .kind = ACRE_MEMORY_UNMANAGED,
                              .device = -1,
                              .base = (void *)(uintptr_t)pointer,
                              .bytes = 0};
    struct opencl *cl = self;
    const struct opencl_range *range;

    lock_take(&cl->lock);
    range = range_find_locked(cl, pointer);
    if (range) {
        info.kind = range->origin == RANGE_DEVICE ? ACRE_MEMORY_DEVICE : ACRE_MEMORY_HOST;
        info.device = range->device;
        info.base = (void *)range->base;
        info.bytes = range->bytes;
    }
    lock_drop(&cl->lock);
    *out_info = info;
    return ACRE_OK;
}

/* ---- Host memory ----------------------------------------------------------------------- */

static void buffers_release(struct opencl *cl, ocl_mem *buffers)
{
    for (int i = 0; buffers && i < cl->platform_count; i++)
        if (buffers[i])
            ocl.ReleaseMemObject(buffers[i]);
    heap_free(buffers);
}

/* Puts buffer objects around host memory and enters it. */
static acre_status host_range_create(struct opencl *cl, void *base, size_t bytes,
                                     enum range_origin origin)
{
    struct opencl_range *range = heap_zalloc(sizeof *range);
    ocl_mem *buffers = heap_array((size_t)cl->platform_count, sizeof *buffers);
    acre_status status = range && buffers ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
    ocl_int code = OCL_SUCCESS;

    for (int i = 0; status == ACRE_OK && i < cl->platform_count; i++) {
        buffers[i] =
            ocl.CreateBuffer(cl->platforms[i].context, OCL_MEM_READ_WRITE | OCL_MEM_USE_HOST_PTR,
                             bytes, base, &code);
        if (!buffers[i])
            status = status_fail_native(ACRE_ERR_HOST_MEMORY, code,
                                        "opencl: no buffer of %zu bytes around host memory at %p: "
                                        "%s",
                                        bytes, base, api_error_name(code));
    }
    if (status == ACRE_OK) {
        *range = (struct opencl_range){.base = (uintptr_t)base,
                                       .bytes = bytes,
                                       .origin = origin,
                                       .device = -1,
                                       .buffers = buffers};
        status = range_enter(cl, range);
    }
    if (status != ACRE_OK) {
        buffers_release(cl, buffers);
        heap_free(range);
    }
    return status;
}

static void range_destroy(struct opencl *cl, struct opencl_range *range)
{
    if (range->origin == RANGE_DEVICE)
        ocl.SVMFree(opencl_context(cl, range->device), range->memory);
    buffers_release(cl, range->buffers);
    if (range->origin == RANGE_HOST)
        munmap((void *)range->base, range->bytes);
    heap_free(range);
}

acre_status memory_host_alloc(void *self, size_t bytes, void **out_base)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    acre_status status;

    if (base == MAP_FAILED)
        return status_fail_native(ACRE_ERR_HOST_MEMORY, errno,
                                  "opencl: %zu bytes of host memory: "
                                  "%s",
                                  bytes, strerror(errno));
    status = host_range_create(self, base, bytes, RANGE_HOST);
    if (status == ACRE_OK)
        *out_base = base;
    else
        munmap(base, bytes);
    return status;
}

/* Takes host memory back, once no work uses it any more. */
static acre_status host_range_end(struct opencl *cl, void *base, enum range_origin origin)
{
    struct opencl_range *range = NULL;
    acre_status status = ACRE_OK;

    for (int i = 0; status == ACRE_OK && i < cl->platform_count; i++)
        status = stream_platform_synchronize(cl, i);
    if (status == ACRE_OK)
        status = range_take(cl, base, origin, -1, &range);
    if (status == ACRE_OK)
        range_destroy(cl, range);
    return status;
}

acre_status memory_host_free(void *self, void *base)
{
    return host_range_end(self, base, RANGE_HOST);
}

acre_status memory_host_register(void *self, void *base, size_t bytes)
{
    return host_range_create(self, base, bytes, RANGE_REGISTERED);
}

acre_status memory_host_unregister(void *self, void *base)
{
    return host_range_end(self, base, RANGE_REGISTERED);
}

void memory_fini(struct opencl *cl)
{
    struct opencl_range *range;

    while ((range = range_set_first(&cl->ranges))) {
        range_set_remove(&cl->ranges, range);
        range_destroy(cl, range);
    }
}
