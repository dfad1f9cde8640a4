/* SPDX-License-Identifier: MIT */
/* See slab.h. */
#include "hostmem/slab.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/heap.h"
#include "hostmem/heap.h"

#define REGION_BYTES    ((size_t)(SLAB_REGION_GRANULES + 1) * GRANULE_BYTES - HEAP_PAGE)
#define REGION_ALL_FREE ((1u << SLAB_REGION_GRANULES) - 1)

#define TWICE(n) n, n
#define FOUR(n)  n, n, n, n

const uint8_t slab_classes[ACRE_HOSTMEM_SMALL_MAX / ACRE_HOSTMEM_ALIGNMENT] = {
    0,         1,         2,         3,         4,         5,         6,         7,
    8,         9,         10,        11,        12,        13,        14,        15,
    TWICE(16), TWICE(17), TWICE(18), TWICE(19), TWICE(20), TWICE(21), TWICE(22), TWICE(23),
    FOUR(24),  FOUR(25),  FOUR(26),  FOUR(27),  FOUR(28),  FOUR(29),  FOUR(30),  FOUR(31)};

void slabs_init(struct slabs *slabs)
{
    for (unsigned i = 0; i < SLAB_CLASSES; i++)
        list_init(&slabs->partial[i]);
    list_init(&slabs->regions);
}

/* ---- Regions ------------------------------------------------------------------------ */

acre_status region_create(acre_hostmem *heap, struct region **out)
{
    struct region *region = heap_zalloc(sizeof *region);
    void *block;
    acre_status status;

    if (!region)
        return ACRE_ERR_HOST_MEMORY;
    status = acre_cache_alloc(heap->cache, REGION_BYTES, NULL, &block);
    if (status != ACRE_OK)
        goto free_region;
    region->block = block;
    region->base = (char *)(((uintptr_t)block + GRANULE_BYTES - 1) & -(uintptr_t)GRANULE_BYTES);
    region->free_map = REGION_ALL_FREE;
    for (unsigned i = 0; i < SLAB_REGION_GRANULES && status == ACRE_OK; i++)
        status = granule_reserve(region->base + (size_t)i * GRANULE_BYTES);
    if (status != ACRE_OK)
        goto free_block;
    *out = region;
    return ACRE_OK;

free_block:
    acre_cache_free(heap->cache, block);
free_region:
    heap_free(region);
    return status;
}

void region_destroy(acre_hostmem *heap, struct region *region)
{
    acre_status status;

    CHECK(region->free_map == REGION_ALL_FREE);
    status = acre_cache_free(heap->cache, region->block);
    CHECK(status == ACRE_OK);
    (void)status;
    heap_free(region);
}

void slabs_region_add_locked(struct slabs *slabs, struct region *region)
{
    list_push_front(&slabs->regions, &region->link);
    slabs->region_count++;
    slabs->bytes += REGION_BYTES;
}

struct region *slabs_region_remove_locked(struct slabs *slabs)
{
    struct region *region = slabs->idle;

    if (region)
        slabs->bytes -= REGION_BYTES;
    slabs->idle = NULL;
    return region;
}

/* Puts a region without slabs aside, for slabs_region_remove_locked. One stays. */
static void region_retire(struct slabs *slabs, struct region *region)
{
    if (region->free_map != REGION_ALL_FREE || slabs->region_count == 1 || slabs->idle)
        return;
    list_remove(&region->link);
    slabs->region_count--;
    slabs->idle = region;
}

/* A region with a free granule; the one with the fewest, so that others become empty. */
static struct region *region_find(const struct slabs *slabs)
{
    struct region *best = NULL;

    LIST_FOR_EACH(link, &slabs->regions) {
        struct region *region = CONTAINER_OF(link, struct region, link);
        if (region->free_map &&
            (!best || __builtin_popcount(region->free_map) < __builtin_popcount(best->free_map)))
            best = region;
    }
    return best;
}

/* ---- Slabs -------------------------------------------------------------------------- */

static acre_status slab_create(acre_hostmem *heap, unsigned class_index, struct slab **out)
{
    uint32_t slot_bytes = slab_class_bytes(class_index), count = GRANULE_BYTES / slot_bytes;
    struct region *region = region_find(&heap->slabs);
    size_t live_bytes = ((size_t)count + 1) / 2 * 2;
    struct slab *slab;

    if (!region)
        return ACRE_ERR_NOT_FOUND;
    slab = heap_zalloc(sizeof *slab + live_bytes + count * sizeof *slab->stack);
    if (!slab)
        return ACRE_ERR_HOST_MEMORY;
    unsigned granule = (unsigned)__builtin_ctz(region->free_map);
    region->free_map &= ~(1u << granule);
    slab->region = region;
    slab->heap = heap;
    slab->base = region->base + (size_t)granule * GRANULE_BYTES;
    slab->slot_bytes = slot_bytes;
    slab->slot_count = count;
    slab->inverse = (uint32_t)((((uint64_t)1 << 32) + slot_bytes - 1) / slot_bytes);
    slab->class_index = (uint16_t)class_index;
    slab->stack = (uint16_t *)(void *)((char *)slab->is_live + live_bytes);
    list_push_front(&heap->slabs.partial[class_index], &slab->link);
    granule_set(slab->base, slab);
    *out = slab;
    return ACRE_OK;
}

/* Ends a slab of which no slot is out; its region too when it has no other. */
static void slab_destroy(acre_hostmem *heap, struct slab *slab)
{
    struct region *region = slab->region;

    granule_set(slab->base, NULL);
    list_remove(&slab->link);
    region->free_map |= 1u << ((size_t)(slab->base - region->base) >> GRANULE_SHIFT);
    region_retire(&heap->slabs, region);
    heap_free(slab);
}

static bool slab_is_full(const struct slab *slab)
{
    return slab->free_count == 0 && slab->fresh == slab->slot_count;
}

static bool slab_is_empty(const struct slab *slab)
{
    return slab->free_count == slab->fresh;
}

unsigned slabs_take_locked(acre_hostmem *heap, unsigned class_index, unsigned count,
                           struct slab_slot *items, acre_status *out_status)
{
    struct list *partial = &heap->slabs.partial[class_index];
    unsigned taken = 0;

    while (taken < count) {
        struct slab *slab = NULL;
        if (!list_empty(partial))
            slab = CONTAINER_OF(partial->next, struct slab, link);
        else if (taken)
            break;
        else if ((*out_status = slab_create(heap, class_index, &slab)) != ACRE_OK)
            return 0;
        for (; taken < count && !slab_is_full(slab); taken++) {
            unsigned slot = slab->free_count ? slab->stack[--slab->free_count] : slab->fresh++;
            items[taken] = (struct slab_slot){slab->base + (size_t)slot * slab->slot_bytes,
                                              &slab->is_live[slot]};
        }
        if (slab_is_full(slab)) {
            list_remove(&slab->link);
            list_init(&slab->link);
        }
    }
    *out_status = ACRE_OK;
    return taken;
}

void slabs_put_locked(acre_hostmem *heap, unsigned count, const struct slab_slot *items)
{
    for (unsigned i = 0; i < count; i++) {
        struct slab *slab = granule_find(items[i].pointer);
        uint32_t slot = slab_slot(slab, items[i].pointer);
        struct list *partial = &heap->slabs.partial[slab->class_index];

        CHECK(slot < slab->slot_count && slab->free_count < slab->fresh);
        if (slab_is_full(slab))
            list_push_front(partial, &slab->link);
        slab->stack[slab->free_count++] = (uint16_t)slot;
        /* Alone in its list, an empty slab stays for the next request. */
        if (slab_is_empty(slab) && partial->next != partial->prev)
            slab_destroy(heap, slab);
    }
}

void slabs_fini(struct slabs *slabs)
{
    heap_free(slabs->idle);
    LIST_FOR_EACH_SAFE(link, after, &slabs->regions) {
        struct region *region = CONTAINER_OF(link, struct region, link);
        for (unsigned i = 0; i < SLAB_REGION_GRANULES; i++) {
            char *base = region->base + (size_t)i * GRANULE_BYTES;
            heap_free(granule_find(base));
            granule_set(base, NULL);
        }
        heap_free(region);
    }
}

/* ---- Checking ------------------------------------------------------------------------ */

static bool slab_check(const struct slab *slab, const char **fact)
{
    bool seen[SLAB_SLOTS_MAX] = {false};

    *fact = "a slab's stack holds each free slot below fresh once";
    if (slab->fresh > slab->slot_count || slab->free_count > slab->fresh)
        return false;
    for (unsigned i = 0; i < slab->free_count; i++) {
        unsigned slot = slab->stack[i];
        if (slot >= slab->fresh || seen[slot] || atomic_load(&slab->is_live[slot]))
            return false;
        seen[slot] = true;
    }
    *fact = "a slab is in the list of its class unless it is full";
    return (slab->link.next == &slab->link) == slab_is_full(slab);
}

bool slabs_check_locked(const struct slabs *slabs, const char **fact)
{
    uint64_t count = 0;

    LIST_FOR_EACH(link, &slabs->regions) {
        const struct region *region = CONTAINER_OF(link, struct region, link);
        count++;
        for (unsigned i = 0; i < SLAB_REGION_GRANULES; i++) {
            const struct slab *slab = granule_find(region->base + (size_t)i * GRANULE_BYTES);
            *fact = "a granule holds a slab unless it is marked free";
            if ((slab == NULL) != ((region->free_map >> i & 1) == 1))
                return false;
            if (slab && !slab_check(slab, fact))
                return false;
        }
    }
    *fact = "regions are counted";
    return count == slabs->region_count &&
           slabs->bytes == (count + (slabs->idle ? 1 : 0)) * REGION_BYTES;
}
