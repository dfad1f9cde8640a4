/* SPDX-License-Identifier: MIT */
/* Life of a heap, allocating and freeing. See heap.h for the two ways of a block. */
#include "hostmem/heap.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "host/fresh_pages.h"
#include "hostmem/chunk.h"
#include "hostmem/inside.h"

#include <acre/device.h>

#include <pthread.h>
#include <sys/mman.h>

#define FLAGS_KNOWN (ACRE_HOSTMEM_HUGE_PAGES | ACRE_HOSTMEM_NO_THREAD | ACRE_HOSTMEM_INTERLEAVE)

struct lock heaps_lock = LOCK_INITIALIZER(RANK_HEAPS, "heaps of host memory");
acre_hostmem *heaps[ACRE_HOSTMEM_HEAPS_MAX];

/* ---- Life ----------------------------------------------------------------------------- */

static acre_status config_read(const acre_hostmem_config *config, acre_hostmem_config *out)
{
    acre_status status = ACRE_OK;

    *out = (acre_hostmem_config){.struct_size = sizeof *out};
    if (config)
        status = STRUCT_TAKE("acre_hostmem_create", acre_hostmem_config, config, out);
    if (status != ACRE_OK)
        return status;
    if (out->flags & ~(uint32_t)FLAGS_KNOWN)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_hostmem_config: flags 0x%x hold unknown bits; "
                           "known are 0x%x",
                           out->flags, (unsigned)FLAGS_KNOWN);
    if (out->keep_percent > 1000)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_hostmem_config: keep_percent is %u; give at "
                           "most 1000",
                           out->keep_percent);
    return ACRE_OK;
}

static struct numa nodes;
static pthread_once_t nodes_once = PTHREAD_ONCE_INIT;

static void nodes_load(void)
{
    numa_load(&nodes, NUMA_ROOT);
}

/* Gives the heap a place among all heaps. */
static acre_status heap_enter(acre_hostmem *heap)
{
    acre_status status = ACRE_ERR_LIMIT;

    lock_take(&heaps_lock);
    for (unsigned i = 0; i < ACRE_HOSTMEM_HEAPS_MAX && status != ACRE_OK; i++) {
        if (heaps[i])
            continue;
        heap->index = i;
        heaps[i] = heap;
        status = ACRE_OK;
    }
    lock_drop(&heaps_lock);
    if (status != ACRE_OK)
        status_fail(status, "a process has at most %d heaps of host memory; destroy one first",
                    ACRE_HOSTMEM_HEAPS_MAX);
    return status;
}

acre_status acre_hostmem_create(const acre_hostmem_config *config, acre_hostmem **out)
{
    acre_cache_config cache_config = {.struct_size = sizeof cache_config,
                                      .flags = ACRE_CACHE_NO_ENVIRONMENT,
                                      .policy = ACRE_POLICY_ACRE};
    acre_hostmem_config chosen;
    acre_device *device;
    acre_hostmem *heap;
    acre_status status = config_read(config, &chosen);

    if (status == ACRE_OK)
        status = acre_device_get(ACRE_DEVICE_CPU, 0, &device);
    if (status != ACRE_OK)
        return status;
    heap = heap_zalloc(sizeof *heap);
    if (!heap)
        return ACRE_ERR_HOST_MEMORY;
    cache_config.limit_bytes = chosen.limit_bytes;
    status = acre_cache_create(device, &cache_config, &heap->cache);
    if (status != ACRE_OK)
        goto free_heap;
    inside_fit_best(heap->cache);
    pthread_once(&nodes_once, nodes_load);
    heap->numa = &nodes;
    heap->flags = chosen.flags;
    atomic_init(&heap->small_max, ACRE_HOSTMEM_SMALL_MAX);
    lock_init(&heap->lock, RANK_HEAP, "heap of host memory");
    fork_guard_lock(&heap->fork_guard, &heap->lock);
    slabs_init(&heap->slabs);
    list_init(&heap->threads);
    idle_init(&heap->idle, &chosen);
    fresh_pages_spread((chosen.flags & ACRE_HOSTMEM_INTERLEAVE) != 0);
    status = heap_enter(heap);
    if (status != ACRE_OK)
        goto end_parts;
    *out = heap;
    return ACRE_OK;

end_parts:
    idle_fini(&heap->idle);
    fork_guard_end(&heap->fork_guard);
    lock_fini(&heap->lock);
    acre_cache_destroy(heap->cache);
free_heap:
    heap_free(heap);
    return status;
}

/* The addresses of a heap that ends may be those of the next. */
static void chunks_forget_all(acre_hostmem *heap)
{
    acre_cache_layout *layout;

    if (acre_cache_layout_create(heap->cache, &layout) != ACRE_OK)
        return;
    for (uint64_t i = 0; i < layout->segment_count; i++)
        chunks_forget(layout->segments[i].base, layout->segments[i].bytes);
    acre_cache_layout_destroy(layout);
}

void acre_hostmem_destroy(acre_hostmem *heap)
{
    if (!heap)
        return;
    idle_fini(&heap->idle);
    lock_take(&heaps_lock);
    heaps[heap->index] = NULL;
    magazines_fini(heap);
    lock_drop(&heaps_lock);
    slabs_fini(&heap->slabs);
    chunks_forget_all(heap);
    acre_cache_destroy(heap->cache);
    fork_guard_end(&heap->fork_guard);
    lock_fini(&heap->lock);
    heap_free(heap->numpy);
    heap_free(heap);
}

acre_cache *acre_hostmem_cache(acre_hostmem *heap)
{
    return heap->cache;
}

/* ---- Allocating ------------------------------------------------------------------------ */

/* Asks for huge pages where a block fills them. Once said, the kernel knows: then the call ends
 * after a look at the mapping. */
static void block_advise(char *base, size_t bytes)
{
    uintptr_t first = round_up((uintptr_t)base, CHUNK_BYTES),
              end = round_down((uintptr_t)base + bytes, CHUNK_BYTES);

    madvise((void *)first, end - first, MADV_HUGEPAGE);
}

/* A block of whole pages from the cache. */
static acre_status large_alloc(acre_hostmem *heap, size_t bytes, bool may_move, void **out)
{
    acre_status status;

    idle_wish(heap, &heap->idle);
    if (LIKELY(bytes <= SIZE_MAX - GRAIN_BYTES))
        bytes = round_up(bytes, bytes >= CHUNK_TAKE_MIN ? GRAIN_BYTES : HEAP_PAGE);
    status = acre_cache_alloc(heap->cache, bytes, NULL, out);
    if (LIKELY(status == ACRE_OK)) {
        if (bytes >= HEAP_HUGE_MIN && (heap->flags & ACRE_HOSTMEM_HUGE_PAGES))
            block_advise(*out, bytes);
        atomic_fetch_add_explicit(&heap->large_bytes, (int64_t)bytes, memory_order_relaxed);
        chunks_admit(heap, *out, bytes, may_move);
    }
    return status;
}

/* A block from the cache, or NULL for no bytes. */
static __attribute__((noinline)) acre_status cache_take(acre_hostmem *heap, size_t bytes,
                                                        bool may_move, void **out)
{
    if (bytes >= HEAP_LARGE_MIN)
        return large_alloc(heap, bytes, may_move, out);
    return acre_cache_alloc(heap->cache, bytes, NULL, out);
}

/* The hot path has no call but at its end, so that it saves no registers. */
static inline acre_status block_take(acre_hostmem *heap, size_t bytes, bool may_move, void **out)
{
    unsigned class_index;
    void *pointer;

    if (UNLIKELY(bytes - 1 >= atomic_load_explicit(&heap->small_max, memory_order_relaxed)))
        return cache_take(heap, bytes, may_move, out);
    class_index = slab_class(bytes);
    pointer = magazine_take(heap, magazines_own[heap->index], class_index);
    if (UNLIKELY(!pointer))
        return magazine_refill(heap, class_index, out);
    *out = pointer;
    return ACRE_OK;
}

acre_status heap_take(acre_hostmem *heap, size_t bytes, bool may_move, void **out)
{
    return block_take(heap, bytes, may_move, out);
}

acre_status acre_hostmem_alloc(acre_hostmem *heap, size_t bytes, void **out)
{
    return block_take(heap, bytes, true, out);
}

/* Frees a block of the cache. */
static __attribute__((noinline)) acre_status large_free(acre_hostmem *heap, void *pointer)
{
    size_t bytes = inside_block_bytes(heap->cache, pointer);
    acre_status status = acre_cache_free(heap->cache, pointer);

    if (LIKELY(status == ACRE_OK) && bytes >= HEAP_LARGE_MIN)
        atomic_fetch_sub_explicit(&heap->large_bytes, (int64_t)bytes, memory_order_relaxed);
    return status;
}

static __attribute__((noinline)) acre_status free_refuse(const void *pointer)
{
    return status_fail(ACRE_ERR_INVALID,
                       "%p is not the first byte of a live block of this heap: "
                       "it was freed before, lies inside a block, or came from elsewhere",
                       pointer);
}

acre_status acre_hostmem_free(acre_hostmem *heap, void *pointer)
{
    struct slab *slab = granule_find(pointer);
    struct slab_slot out = {.pointer = pointer};
    uint32_t slot;

    if (!slab)
        return pointer ? large_free(heap, pointer) : ACRE_OK;
    slot = slab_slot(slab, pointer);
    out.is_live = &slab->is_live[slot];
    if (UNLIKELY(slab->heap != heap || slot == slab->slot_count ||
                 !atomic_load_explicit(out.is_live, memory_order_relaxed)))
        return free_refuse(pointer);
    atomic_store_explicit(out.is_live, 0, memory_order_relaxed);
    if (UNLIKELY(!magazine_put(heap, magazines_own[heap->index], slab->class_index, out)))
        return magazine_flush(heap, slab->class_index, out);
    return ACRE_OK;
}

size_t acre_hostmem_usable_bytes(const acre_hostmem *heap, const void *pointer)
{
    const struct slab *slab = granule_find(pointer);
    uint32_t slot;

    if (!slab)
        return inside_block_bytes(heap->cache, pointer);
    slot = slab_slot(slab, pointer);
    if (slab->heap != heap || slot == slab->slot_count ||
        !atomic_load_explicit(&slab->is_live[slot], memory_order_relaxed))
        return 0;
    return slab->slot_bytes;
}

/* ---- Statistics, history ----------------------------------------------------------------- */

acre_status acre_hostmem_stats_get(acre_hostmem *heap, acre_hostmem_stats *stats)
{
    acre_hostmem_stats all = {.struct_size = sizeof all};
    int64_t allocated[SLAB_CLASSES], freed[SLAB_CLASSES];
    acre_status status = STRUCT_CHECK("acre_hostmem_stats_get", acre_hostmem_stats, stats);

    if (status != ACRE_OK)
        return status;
    lock_take(&heap->lock);
    magazines_count_locked(heap, allocated, freed);
    all.slab_bytes = (int64_t)heap->slabs.bytes;
    lock_drop(&heap->lock);
    for (unsigned i = 0; i < SLAB_CLASSES; i++) {
        all.small_count += allocated[i] - freed[i];
        all.small_bytes += (allocated[i] - freed[i]) * (int64_t)slab_class_bytes(i);
        all.small_allocated += allocated[i];
    }
    all.trimmed_bytes = atomic_load(&heap->idle.trimmed_bytes);
    all.trim_count = atomic_load(&heap->idle.trim_count);
    all.remap_count = atomic_load(&heap->remap_count);
    idle_stats(heap, &all.cache);
    STRUCT_GIVE(acre_hostmem_stats, stats, &all);
    return ACRE_OK;
}

void acre_hostmem_stats_reset_peak(acre_hostmem *heap)
{
    idle_reset_peak(heap);
}

void acre_hostmem_trim(acre_hostmem *heap, uint64_t keep_bytes, uint64_t *out_bytes)
{
    uint64_t bytes = idle_trim(heap, keep_bytes);

    if (out_bytes)
        *out_bytes = bytes;
}

acre_status acre_hostmem_history_start(acre_hostmem *heap, const acre_history_config *config)
{
    acre_status status = acre_cache_history_start(heap->cache, config);

    if (status == ACRE_OK)
        atomic_store(&heap->small_max, 0);
    return status;
}

void acre_hostmem_history_stop(acre_hostmem *heap)
{
    atomic_store(&heap->small_max, ACRE_HOSTMEM_SMALL_MAX);
    acre_cache_history_stop(heap->cache);
}
