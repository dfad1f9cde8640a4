/* SPDX-License-Identifier: MIT */
/* Slots of one size in 64 KiB, and the regions that slabs are cut from.
 *
 *   cache ──► region, 16 granules ──► slab, one granule ──► slots of 64 to 4096 bytes
 *
 * Whatever the heap notes about slots stands beside the slab, not in the slots, so that no
 * page is touched before the caller touches it. The slots from `fresh` on were never
 * handed out; the free ones below lie on a stack, the one freed last on top.
 *
 * A slot is free, or out: in a thread's magazine or live. is_live[] tells a live slot from
 * one in a magazine; the thread that allocates or frees writes it.
 *
 *   Guarded by the heap's lock: everything but is_live, and what never changes.
 */
#ifndef SRC_HOSTMEM_SLAB_H
#define SRC_HOSTMEM_SLAB_H

#include "base/list.h"
#include "hostmem/granule.h"

#include <acre/hostmem.h>

#include <stdbool.h>

enum {
    SLAB_CLASSES = 32,
    SLAB_REGION_GRANULES = 16,
    SLAB_SLOTS_MAX = GRANULE_BYTES / ACRE_HOSTMEM_ALIGNMENT,
};

/* A slot that is out, and where the slab notes that it is live. */
struct slab_slot {
    void *pointer;
    _Atomic uint8_t *is_live;
};

/* Granules of one block of the cache. */
struct region {
    struct list link;  /* in slabs.regions                        */
    char *block;       /* as the cache gave it                    */
    char *base;        /* its first multiple of GRANULE_BYTES     */
    uint32_t free_map; /* bit g set: granule g holds no slab      */
};

struct slab {
    struct list link;      /* in slabs.partial of its class, or alone */
    struct region *region; /* constant                                */
    acre_hostmem *heap;    /* constant                                */
    char *base;            /* constant                                */
    uint32_t slot_bytes;   /* constant                                */
    uint32_t slot_count;   /* constant                                */
    uint32_t inverse;      /* constant: 2^32 / slot_bytes, rounded up */
    uint16_t class_index;  /* constant                                */
    uint16_t fresh;        /* slots from here on were never out       */
    uint16_t free_count;   /* on the stack                            */
    uint16_t *stack;       /* free slots below fresh                  */
    _Atomic uint8_t is_live[];
};

/* All slabs of a heap. */
struct slabs {
    struct list partial[SLAB_CLASSES]; /* slabs with a free slot, best first */
    struct list regions;
    uint64_t region_count;
    uint64_t bytes;      /* of the blocks of regions                   */
    struct region *idle; /* out of the list, to be destroyed, or NULL  */
};

/* The classes of requests of 1 to 64 bytes, of 65 to 128, and so on. */
extern const uint8_t slab_classes[ACRE_HOSTMEM_SMALL_MAX / ACRE_HOSTMEM_ALIGNMENT];

/* The class of a request of 1 to ACRE_HOSTMEM_SMALL_MAX bytes. */
static inline unsigned slab_class(size_t bytes)
{
    return slab_classes[(bytes - 1) / ACRE_HOSTMEM_ALIGNMENT];
}

/* The size of the slots of a class. */
static inline uint32_t slab_class_bytes(unsigned class_index)
{
    if (class_index < 16)
        return (class_index + 1) * 64;
    if (class_index < 24)
        return 1024 + (class_index - 15) * 128;
    return 2048 + (class_index - 23) * 256;
}

/* The slot that begins at pointer, which lies in the slab; slot_count: none does. */
static inline uint32_t slab_slot(const struct slab *slab, const void *pointer)
{
    uint32_t offset = (uint32_t)((uintptr_t)pointer % GRANULE_BYTES);
    uint32_t slot = (uint32_t)(((uint64_t)offset * slab->inverse) >> 32);

    if (__builtin_expect(slot * slab->slot_bytes != offset || slot >= slab->slot_count, 0))
        return slab->slot_count;
    return slot;
}

void slabs_init(struct slabs *slabs);
/* Frees what is noted about slabs; their memory goes with the cache. */
void slabs_fini(struct slabs *slabs);

/* Makes a region, and ends one without slabs. Both call the cache: no lock is held. */
acre_status region_create(acre_hostmem *heap, struct region **out);
void region_destroy(acre_hostmem *heap, struct region *region);
/* Lets slabs be cut from a new region; takes one out that became idle, or gives NULL. */
void slabs_region_add_locked(struct slabs *slabs, struct region *region);
struct region *slabs_region_remove_locked(struct slabs *slabs);

/* Takes up to count slots of a class out, into items; gives how many. For 0, out_status
 * tells why: ACRE_ERR_NOT_FOUND when a region has to be added, ACRE_ERR_HOST_MEMORY. */
unsigned slabs_take_locked(acre_hostmem *heap, unsigned class_index, unsigned count,
                           struct slab_slot *items, acre_status *out_status);
/* Puts slots back. Slabs that become empty go, but for one of their class. */
void slabs_put_locked(acre_hostmem *heap, unsigned count, const struct slab_slot *items);

/* Whether everything noted about slabs agrees; names the fact that does not hold. */
bool slabs_check_locked(const struct slabs *slabs, const char **fact);

#endif
