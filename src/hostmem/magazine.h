/* SPDX-License-Identifier: MIT */
/* What one thread keeps of the slabs of one heap: free slots of each class at hand.
 *
 *   thread ──► magazines (heap) ──► of[class] ──► slot, slot, ...
 *
 * Allocating takes the last slot, freeing adds one: no lock, no atomic instruction but
 * plain loads and stores, and no access to the memory itself. An empty magazine is filled
 * half from the slabs, a full one gives half back, under the heap's lock.
 *
 * The counts are written by the thread alone and read by anybody. A thread that ends gives
 * its slots back; after fork, the child gives back those of the threads it has lost.
 */
#ifndef SRC_HOSTMEM_MAGAZINE_H
#define SRC_HOSTMEM_MAGAZINE_H

#include "base/check.h"
#include "hostmem/slab.h"

enum {
    MAGAZINE_MAX = 64,      /* slots of one class that a thread keeps   */
    MAGAZINE_BYTES = 65536, /* and their bytes, unless below 8 slots    */
    MAGAZINE_MIN = 8,
};

/* What happened to small blocks of threads that ended. */
struct small_counts {
    int64_t allocated[SLAB_CLASSES];
    int64_t freed[SLAB_CLASSES];
};

/* The free slots of a class. Those allocated are not counted: what came in and is neither
 * here nor went out again is live. */
struct magazine {
    _Atomic(struct slab_slot *) top; /* the last one; before the first one when there is none */
    struct slab_slot *full;          /* constant: top when there is no room                   */
    _Atomic int64_t freed;           /* ever, by this thread                                  */
    int64_t taken;                   /* from the slabs less given back; the heap's lock       */
};

struct magazines {
    struct list link;             /* in heap.threads                     */
    _Atomic(acre_hostmem *) heap; /* NULL once it has ended    */
    struct magazine of[SLAB_CLASSES];
    /* The first of each class stays empty: it stands before all others. */
    struct slab_slot slots[SLAB_CLASSES][MAGAZINE_MAX + 1];
};

/* The calling thread's, by the index of the heap; NULL where it has none yet. */
extern _Thread_local struct magazines *magazines_own[ACRE_HOSTMEM_HEAPS_MAX];

/* A slot of a class when the magazine has none. Errors: as acre_cache_alloc. */
acre_status magazine_refill(acre_hostmem *heap, unsigned class_index, void **out);
/* Frees a slot when the magazine is full or missing. */
acre_status magazine_flush(acre_hostmem *heap, unsigned class_index, struct slab_slot slot);
/* Gives back what other threads kept. In the child of a fork, which has lost them. */
void magazines_adopt(acre_hostmem *heap);
/* The heap ends: frees the calling thread's magazines; other threads free theirs when they
 * notice. heaps_lock is held. */
void magazines_fini(acre_hostmem *heap);
/* Sums up. The heap's lock is held. */
void magazines_count_locked(acre_hostmem *heap, int64_t *allocated, int64_t *freed);

static inline void count_up(_Atomic int64_t *count)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Hands out a slot of the calling thread's magazine, or NULL when it has none. */
static inline void *magazine_take(const acre_hostmem *heap, struct magazines *own,
                                  unsigned class_index)
{
    struct slab_slot *top;
    void *pointer;

    if (UNLIKELY(!own || atomic_load_explicit(&own->heap, memory_order_relaxed) != heap))
        return NULL;
    top = atomic_load_explicit(&own->of[class_index].top, memory_order_relaxed);
    pointer = top->pointer;
    if (UNLIKELY(!pointer))
        return NULL;
    atomic_store_explicit(top->is_live, 1, memory_order_relaxed);
    atomic_store_explicit(&own->of[class_index].top, top - 1, memory_order_relaxed);
    return pointer;
}

/* Takes a slot back that is not live any more; false when there is no room. */
static inline bool magazine_put(const acre_hostmem *heap, struct magazines *own,
                                unsigned class_index, struct slab_slot slot)
{
    struct magazine *magazine;
    struct slab_slot *top;

    if (UNLIKELY(!own || atomic_load_explicit(&own->heap, memory_order_relaxed) != heap))
        return false;
    magazine = &own->of[class_index];
    top = atomic_load_explicit(&magazine->top, memory_order_relaxed);
    if (UNLIKELY(top == magazine->full))
        return false;
    *++top = slot;
    atomic_store_explicit(&magazine->top, top, memory_order_relaxed);
    count_up(&magazine->freed);
    return true;
}

#endif
