/* SPDX-License-Identifier: MIT */
/* Host memory as a device: the backend "host", one device of type CPU.
 *
 * Device memory is plain host memory, zero when fresh. Page-locked memory is
 * the same, locked where the system allows it; where it does not, the memory is
 * handed out unlocked, a log line says so, and the name of the device tells the
 * limit. There are no streams: copies and fills are done when the call returns,
 * and the only stream they accept is NULL.
 *
 * Ranges never overlap, so the tree of ranges by base address finds the one
 * around any pointer.
 */
#include "backend/backend.h"

#include "backend/builtin.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/process/fork.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/rbtree.h"
#include "base/status.h"
#include "host/fresh_pages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Where a range came from; each is given back by its own call. */
enum origin { FROM_ALLOC, FROM_HOST_ALLOC, FROM_REGISTER };

struct host_range {
    struct rbnode node; /* in ranges, by base                                   */
    uintptr_t base;
    size_t bytes; /* as asked for; pages of the first two are rounded up  */
    enum origin origin;
    bool is_locked; /* mlock succeeded                                      */
};

static struct lock host_lock = LOCK_INITIALIZER(RANK_DEVICE, "host memory");
static struct rbtree ranges = RBTREE_INITIALIZER; /* host_lock */
static uint64_t bytes_used;                       /* of FROM_ALLOC; host_lock */

static inline bool range_less(const struct host_range *a, const struct host_range *b)
{
    return a->base < b->base;
}

/* Comes before a pointer: ends at or below it. */
static inline bool range_before(const struct host_range *range, const uintptr_t *pointer)
{
    return range->base + (range->bytes - 1) < *pointer;
}

RBTREE_DEFINE(range_set, struct host_range, node, uintptr_t, range_less, range_before);

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t total_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * page_bytes();
}

/* The range around a pointer, or NULL. */
static struct host_range *range_find_locked(const void *pointer)
{
    uintptr_t key = (uintptr_t)pointer;
    struct host_range *range = range_set_lower_bound(&ranges, &key);

    return range && range->base <= key ? range : NULL;
}

/* ---- Fork: the child finds the lock free ---------------------------------------- */

FORK_GUARD(host_lock);

/* ---- Required entries ------------------------------------------------------------ */

static acre_status host_device_count(void *self, int *out_count)
{
    (void)self;
    *out_count = 1;
    return ACRE_OK;
}

static void name_write(char *name, size_t bytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        snprintf(name, bytes, "host memory");
    else
        snprintf(name, bytes, "host memory (page-locking limited to %llu KiB)",
                 (unsigned long long)limit.rlim_cur / 1024);
}

static acre_status host_device_info(void *self, int device, acre_device_info *out_info)
{
    acre_device_info info = {.struct_size = sizeof info};

    (void)self;
    (void)device;
    name_write(info.name, sizeof info.name);
    info.total_bytes = total_bytes();
    info.alloc_granularity = page_bytes();
    info.compute_units = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    *out_info = info;
    return ACRE_OK;
}

/* Memory the system could give without swapping; 0 when it does not say. */
static uint64_t available_bytes(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}

static acre_status host_memory_info(void *self, int device, uint64_t *out_free, uint64_t *out_total)
{
    uint64_t total = total_bytes(), available = available_bytes(), rest;

    (void)self;
    (void)device;
    lock_take(&host_lock);
    rest = total - bytes_used;
    lock_drop(&host_lock);
    *out_free = available && available < rest ? available : rest;
    *out_total = total;
    return ACRE_OK;
}

static acre_status pages_map(size_t bytes, acre_status on_failure, uintptr_t *out_base)
{
    void *base = fresh_pages_map(bytes);

    if (base == MAP_FAILED)
        return status_fail_native(on_failure, errno, "%zu bytes of host memory: %s", bytes,
                                  strerror(errno));
    *out_base = (uintptr_t)base;
    return ACRE_OK;
}

/* Enters a new range; refuses one that overlaps another. */
static acre_status range_add_locked(struct host_range *range)
{
    uintptr_t key = range->base;
    struct host_range *next = range_set_lower_bound(&ranges, &key);

    if (next && next->base <= range->base + (range->bytes - 1))
        return status_fail(ACRE_ERR_EXISTS,
                           "host memory at %p of %zu bytes overlaps a range at %p of %zu bytes "
                           "that is already known",
                           (void *)range->base, range->bytes, (void *)next->base, next->bytes);
    range_set_insert(&ranges, range);
    return ACRE_OK;
}

/* Takes bytes of device memory off the total. */
static acre_status budget_take(size_t bytes)
{
    uint64_t total = total_bytes();
    acre_status status = ACRE_OK;

    lock_take(&host_lock);
    if (bytes > total - bytes_used)
        status = status_fail(ACRE_ERR_DEVICE_MEMORY,
                             "%zu bytes of host memory asked for; %llu of %llu are in use", bytes,
                             (unsigned long long)bytes_used, (unsigned long long)total);
    else
        bytes_used += bytes;
    lock_drop(&host_lock);
    return status;
}

static void budget_put(size_t bytes)
{
    lock_take(&host_lock);
    CHECK(bytes_used >= bytes);
    bytes_used -= bytes;
    lock_drop(&host_lock);
}

/* Maps fresh pages and enters them. They overlap a range only where the caller unmapped memory
 * that is still registered. */
static acre_status range_create(size_t bytes, enum origin origin, acre_status on_failure,
                                struct host_range **out)
{
    struct host_range *range = heap_zalloc(sizeof *range);
    acre_status status;

    if (!range)
        return ACRE_ERR_HOST_MEMORY;
    range->bytes = bytes;
    range->origin = origin;
    status = pages_map(bytes, on_failure, &range->base);
    if (status != ACRE_OK) {
        heap_free(range);
        return status;
    }
    lock_take(&host_lock);
    status = range_add_locked(range);
    lock_drop(&host_lock);
    if (status != ACRE_OK) {
        munmap((void *)range->base, bytes);
        heap_free(range);
        return status;
    }
    *out = range;
    return ACRE_OK;
}

static acre_status host_memory_alloc(void *self, int device, size_t bytes, void **out_base)
{
    struct host_range *range;
    acre_status status = budget_take(bytes);

    (void)self;
    (void)device;
    if (status != ACRE_OK)
        return status;
    status = range_create(bytes, FROM_ALLOC, ACRE_ERR_DEVICE_MEMORY, &range);
    if (status != ACRE_OK) {
        budget_put(bytes);
        return status;
    }
    *out_base = (void *)range->base;
    return ACRE_OK;
}

static const char *const origin_names[] = {"device allocations", "page-locked allocations",
                                           "registered ranges"};

/* Takes a range out by its exact base and origin. */
static acre_status range_take(void *base, enum origin origin, struct host_range **out)
{
    struct host_range *range;
    acre_status status = ACRE_OK;

    lock_take(&host_lock);
    range = range_find_locked(base);
    if (!range || range->base != (uintptr_t)base || range->origin != origin)
        status = status_fail(ACRE_ERR_INVALID, "%p is not the base of one of the %s of host memory",
                             base, origin_names[origin]);
    else
        range_set_remove(&ranges, range);
    lock_drop(&host_lock);
    if (status == ACRE_OK)
        *out = range;
    return status;
}

static acre_status host_memory_free(void *self, int device, void *base)
{
    struct host_range *range;
    acre_status status = range_take(base, FROM_ALLOC, &range);

    (void)self;
    (void)device;
    if (status != ACRE_OK)
        return status;
    munmap(base, range->bytes);
    budget_put(range->bytes);
    heap_free(range);
    return ACRE_OK;
}

/* ---- Page-locked memory ---------------------------------------------------------- */

/* Locks pages where the system lets us. */
static bool pages_lock(const void *base, size_t bytes)
{
    if (mlock(base, bytes) == 0)
        return true;
    log_line(ACRE_LOG_INFO, "%zu bytes of host memory stay unlocked: %s; raise RLIMIT_MEMLOCK",
             bytes, strerror(errno));
    return false;
}

static acre_status host_pinned_alloc(void *self, size_t bytes, void **out_base)
{
    struct host_range *range;
    acre_status status = range_create(bytes, FROM_HOST_ALLOC, ACRE_ERR_HOST_MEMORY, &range);

    (void)self;
    if (status != ACRE_OK)
        return status;
    range->is_locked = pages_lock((void *)range->base, bytes);
    *out_base = (void *)range->base;
    return ACRE_OK;
}

static acre_status host_pinned_free(void *self, void *base)
{
    struct host_range *range;
    acre_status status = range_take(base, FROM_HOST_ALLOC, &range);

    (void)self;
    if (status != ACRE_OK)
        return status;
    munmap(base, range->bytes);
    heap_free(range);
    return ACRE_OK;
}

static acre_status host_pinned_register(void *self, void *base, size_t bytes)
{
    struct host_range *range = heap_zalloc(sizeof *range);
    acre_status status;

    (void)self;
    if (!range)
        return ACRE_ERR_HOST_MEMORY;
    range->base = (uintptr_t)base;
    range->bytes = bytes;
    range->origin = FROM_REGISTER;
    lock_take(&host_lock);
    status = range_add_locked(range);
    lock_drop(&host_lock);
    if (status == ACRE_OK)
        range->is_locked = pages_lock(base, bytes);
    else
        heap_free(range);
    return status;
}

static acre_status host_pinned_unregister(void *self, void *base)
{
    struct host_range *range;
    acre_status status = range_take(base, FROM_REGISTER, &range);

    (void)self;
    if (status != ACRE_OK)
        return status;
    if (range->is_locked)
        munlock(base, range->bytes);
    heap_free(range);
    return ACRE_OK;
}

/* ---- Pointers -------------------------------------------------------------------- */

static acre_status host_pointer_info(void *self, const void *pointer, acre_pointer_info *out_info)
{
    acre_pointer_info info = {.struct_size = sizeof info,
                              .kind = ACRE_MEMORY_UNMANAGED,
                              .device = -1,
                              .base = (void *)(uintptr_t)pointer,
                              .bytes = 0};
    const struct host_range *range;

    (void)self;
    lock_take(&host_lock);
    range = range_find_locked(pointer);
    if (range) {
        bool is_device = range->origin == FROM_ALLOC;

        info.kind = is_device ? ACRE_MEMORY_DEVICE : ACRE_MEMORY_HOST;
        info.device = is_device ? 0 : -1;
        info.base = (void *)range->base;
        info.bytes = range->bytes;
    }
    lock_drop(&host_lock);
    *out_info = info;
    return ACRE_OK;
}

/* ---- Copies ---------------------------------------------------------------------- */

/* Whether a side is device memory, and long enough for the copy. */
static acre_status side_check(const char *side, const void *pointer, size_t bytes,
                              bool must_be_device)
{
    acre_pointer_info info = {.struct_size = sizeof info};
    bool is_device;

    host_pointer_info(NULL, pointer, &info);
    is_device = info.kind == ACRE_MEMORY_DEVICE;
    if (is_device != must_be_device)
        return status_fail(ACRE_ERR_INVALID, "copy: %s %p is %sdevice memory, against its kind",
                           side, pointer, is_device ? "" : "not ");
    if (info.kind != ACRE_MEMORY_UNMANAGED &&
        bytes > info.bytes - (size_t)((const char *)pointer - (const char *)info.base))
        return status_fail(ACRE_ERR_INVALID, "copy: %zu bytes at %s %p leave its block of %llu",
                           bytes, side, pointer, (unsigned long long)info.bytes);
    return ACRE_OK;
}

static acre_status host_copy(void *self, void *dst, const void *src, size_t bytes,
                             acre_copy_kind kind)
{
    acre_status status;

    (void)self;
    if (!dst || !src || bytes == 0 || (unsigned)kind > ACRE_COPY_DEVICE_TO_DEVICE)
        return status_fail(ACRE_ERR_INVALID, "copy: %zu bytes from %p to %p of kind %d", bytes, src,
                           dst, (int)kind);
    status = side_check("destination", dst, bytes,
                        kind == ACRE_COPY_HOST_TO_DEVICE || kind == ACRE_COPY_DEVICE_TO_DEVICE);
    if (status == ACRE_OK)
        status = side_check("source", src, bytes,
                            kind == ACRE_COPY_DEVICE_TO_HOST || kind == ACRE_COPY_DEVICE_TO_DEVICE);
    if (status == ACRE_OK)
        memmove(dst, src, bytes);
    return status;
}

static acre_status no_stream(const void *stream)
{
    if (stream)
        return status_fail(ACRE_ERR_INVALID, "host memory has no streams; %p must be NULL", stream);
    return ACRE_OK;
}

static acre_status host_copy_async(void *self, int device, void *dst, const void *src, size_t bytes,
                                   acre_copy_kind kind, void *stream)
{
    acre_status status = no_stream(stream);

    (void)device;
    return status != ACRE_OK ? status : host_copy(self, dst, src, bytes, kind);
}

static acre_status host_copy_peer_async(void *self, void *dst, int dst_device, const void *src,
                                        int src_device, size_t bytes, void *stream)
{
    acre_status status = no_stream(stream);

    (void)dst_device;
    (void)src_device;
    return status != ACRE_OK ? status
                             : host_copy(self, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE);
}

static acre_status host_fill_async(void *self, int device, void *dst, int value, size_t bytes,
                                   void *stream)
{
    acre_status status = no_stream(stream);

    (void)self;
    (void)device;
    if (status == ACRE_OK && (!dst || bytes == 0))
        status = status_fail(ACRE_ERR_INVALID, "fill: %zu bytes at %p", bytes, dst);
    if (status == ACRE_OK)
        status = side_check("destination", dst, bytes, true);
    if (status == ACRE_OK)
        memset(dst, value, bytes);
    return status;
}

/* ---- Starting -------------------------------------------------------------------- */

/* Gives back what users left behind, but for memory that is theirs. */
static void host_destroy(void *self)
{
    (void)self;
    lock_take(&host_lock);
    while (!rbtree_empty(&ranges)) {
        struct host_range *range = range_set_first(&ranges);

        range_set_remove(&ranges, range);
        if (range->origin == FROM_REGISTER && range->is_locked)
            munlock((void *)range->base, range->bytes);
        if (range->origin != FROM_REGISTER)
            munmap((void *)range->base, range->bytes);
        heap_free(range);
    }
    bytes_used = 0;
    lock_drop(&host_lock);
}

acre_status host_start(acre_backend **out)
{
    static const acre_backend_ops ops = {
        .struct_size = sizeof ops,
        .version = ACRE_BACKEND_VERSION,
        .device_count = host_device_count,
        .device_info = host_device_info,
        .memory_info = host_memory_info,
        .alloc = host_memory_alloc,
        .free = host_memory_free,
        .copy = host_copy,
        .copy_async = host_copy_async,
        .copy_peer_async = host_copy_peer_async,
        .fill_async = host_fill_async,
        .host_alloc = host_pinned_alloc,
        .host_free = host_pinned_free,
        .host_register = host_pinned_register,
        .host_unregister = host_pinned_unregister,
        .pointer_info = host_pointer_info,
    };
    const acre_backend_desc desc = {
        .struct_size = sizeof desc,
        .name = "host",
        .type = ACRE_DEVICE_CPU,
        .ops = &ops,
        .destroy = host_destroy,
        .flags = ACRE_BACKEND_FORK_SAFE,
    };

    return backend_register_own(&desc, out);
}
