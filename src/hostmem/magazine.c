/* SPDX-License-Identifier: MIT */
/* See magazine.h. */
#include "hostmem/magazine.h"

#include "base/heap.h"
#include "base/status.h"
#include "hostmem/heap.h"

#include <pthread.h>

_Thread_local struct magazines *magazines_own[ACRE_HOSTMEM_HEAPS_MAX];

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* ---- Slots between magazines and slabs ------------------------------------------- */

/* The place before the first slot of a class. */
static struct slab_slot *magazine_bottom(struct magazines *magazines, unsigned class_index)
{
    return magazines->slots[class_index];
}

/* Slots that a magazine keeps. */
static int64_t magazine_count(struct magazines *magazines, unsigned class_index)
{
    return atomic_load_explicit(&magazines->of[class_index].top, memory_order_relaxed) -
           magazine_bottom(magazines, class_index);
}

/* Gives the first count slots of a magazine back to the slabs: the coldest. */
static void magazine_return_locked(acre_hostmem *heap, struct magazines *magazines,
                                   unsigned class_index, int64_t count)
{
    struct slab_slot *bottom = magazine_bottom(magazines, class_index);
    int64_t kept = magazine_count(magazines, class_index) - count;

    slabs_put_locked(heap, (unsigned)count, bottom + 1);
    for (int64_t i = 1; i <= kept; i++)
        bottom[i] = bottom[i + count];
    atomic_store_explicit(&magazines->of[class_index].top, bottom + kept, memory_order_relaxed);
    magazines->of[class_index].taken -= count;
}

/* Adds up what happened to blocks of a class. */
static void magazine_count_add(struct magazines *magazines, unsigned class_index,
                               int64_t *allocated, int64_t *freed)
{
    struct magazine *magazine = &magazines->of[class_index];
    int64_t freed_here = atomic_load_explicit(&magazine->freed, memory_order_relaxed);

    *allocated += magazine->taken + freed_here - magazine_count(magazines, class_index);
    *freed += freed_here;
}

/* Gives everything back, adds the counts to those of the heap and frees the magazines.
 * A region that becomes idle waits for the next flush. */
static void magazines_end(acre_hostmem *heap, struct magazines *magazines)
{
    lock_take(&heap->lock);
    for (unsigned i = 0; i < SLAB_CLASSES; i++) {
        magazine_return_locked(heap, magazines, i, magazine_count(magazines, i));
        magazine_count_add(magazines, i, &heap->retired.allocated[i], &heap->retired.freed[i]);
    }
    list_remove(&magazines->link);
    lock_drop(&heap->lock);
    heap_free(magazines);
}

/* ---- Threads ------------------------------------------------------------------------ */

static void thread_end(void *arg)
{
    (void)arg;
    lock_take(&heaps_lock);
    for (unsigned i = 0; i < ACRE_HOSTMEM_HEAPS_MAX; i++) {
        struct magazines *magazines = magazines_own[i];
        acre_hostmem *heap = magazines ? atomic_load(&magazines->heap) : NULL;
        magazines_own[i] = NULL;
        if (heap)
            magazines_end(heap, magazines);
        else
            heap_free(magazines);
    }
    lock_drop(&heaps_lock);
}

static void key_make(void)
{
    has_key = pthread_key_create(&key, thread_end) == 0;
}

/* The magazines of the calling thread; NULL when there is no memory for them. */
static struct magazines *magazines_get(acre_hostmem *heap)
{
    struct magazines *own = magazines_own[heap->index];

    if (own && atomic_load(&own->heap) == heap)
        return own;
    magazines_own[heap->index] = NULL;
    heap_free(own); /* of a heap that has ended */
    pthread_once(&key_once, key_make);
    if (!has_key || pthread_setspecific(key, magazines_own) != 0)
        return NULL;
    own = heap_zalloc(sizeof *own);
    if (!own)
        return NULL;
    atomic_init(&own->heap, heap);
    for (unsigned i = 0; i < SLAB_CLASSES; i++) {
        uint32_t fitting = MAGAZINE_BYTES / slab_class_bytes(i);
        own->of[i].full = magazine_bottom(own, i) + (fitting > MAGAZINE_MAX   ? MAGAZINE_MAX
                                                     : fitting < MAGAZINE_MIN ? MAGAZINE_MIN
                                                                              : fitting);
        atomic_init(&own->of[i].top, magazine_bottom(own, i));
    }
    lock_take(&heap->lock);
    list_push_back(&heap->threads, &own->link);
    lock_drop(&heap->lock);
    magazines_own[heap->index] = own;
    return own;
}

acre_status magazine_refill(acre_hostmem *heap, unsigned class_index, void **out)
{
    struct magazines *own = magazines_get(heap);
    struct region *region = NULL;
    acre_status status;

    if (!own)
        return ACRE_ERR_HOST_MEMORY;
    struct magazine *magazine = &own->of[class_index];
    struct slab_slot *bottom = magazine_bottom(own, class_index);
    do {
        lock_take(&heap->lock);
        if (region)
            slabs_region_add_locked(&heap->slabs, region);
        unsigned count = slabs_take_locked(
            heap, class_index, (unsigned)(magazine->full - bottom) / 2, bottom + 1, &status);
        atomic_store_explicit(&magazine->top, bottom + count, memory_order_relaxed);
        magazine->taken += count;
        lock_drop(&heap->lock);
        if (status == ACRE_ERR_NOT_FOUND) {
            status = region_create(heap, &region);
            if (status == ACRE_OK)
                status = ACRE_ERR_NOT_FOUND;
        }
    } while (status == ACRE_ERR_NOT_FOUND);
    if (status != ACRE_OK)
        return status;
    *out = magazine_take(heap, own, class_index);
    return ACRE_OK;
}

acre_status magazine_flush(acre_hostmem *heap, unsigned class_index, struct slab_slot slot)
{
    struct magazines *own = magazines_get(heap);
    struct region *idle;

    lock_take(&heap->lock);
    if (own) {
        magazine_return_locked(heap, own, class_index, magazine_count(own, class_index) / 2);
    } else {
        slabs_put_locked(heap, 1, &slot);
        heap->retired.freed[class_index]++;
    }
    idle = slabs_region_remove_locked(&heap->slabs);
    lock_drop(&heap->lock);
    if (idle)
        region_destroy(heap, idle);
    if (own && !magazine_put(heap, own, class_index, slot))
        CHECK(false);
    return ACRE_OK;
}

void magazines_adopt(acre_hostmem *heap)
{
    LIST_FOR_EACH_SAFE(link, after, &heap->threads) {
        struct magazines *magazines = CONTAINER_OF(link, struct magazines, link);
        if (magazines != magazines_own[heap->index])
            magazines_end(heap, magazines);
    }
}

void magazines_fini(acre_hostmem *heap)
{
    LIST_FOR_EACH_SAFE(link, after, &heap->threads) {
        struct magazines *magazines = CONTAINER_OF(link, struct magazines, link);
        if (magazines == magazines_own[heap->index]) {
            magazines_own[heap->index] = NULL;
            heap_free(magazines);
        } else {
            atomic_store(&magazines->heap, NULL);
        }
    }
}

void magazines_count_locked(acre_hostmem *heap, int64_t *allocated, int64_t *freed)
{
    for (unsigned i = 0; i < SLAB_CLASSES; i++) {
        allocated[i] = heap->retired.allocated[i];
        freed[i] = heap->retired.freed[i];
    }
    LIST_FOR_EACH(link, &heap->threads) {
        struct magazines *magazines = CONTAINER_OF(link, struct magazines, link);
        for (unsigned i = 0; i < SLAB_CLASSES; i++)
            magazine_count_add(magazines, i, &allocated[i], &freed[i]);
    }
}
