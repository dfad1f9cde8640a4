/* SPDX-License-Identifier: MIT */
/* Size classes, slabs and regions. */
#include "tests/unit/hostmem/heap_make.h"

#include "hostmem/slab.h"

static void heap_check(acre_hostmem *heap)
{
    const char *fact = "";

    lock_take(&heap->lock);
    EXPECT(slabs_check_locked(&heap->slabs, &fact));
    lock_drop(&heap->lock);
}

TEST(each_size_has_the_smallest_class_that_holds_it)
{
    for (size_t bytes = 1; bytes <= ACRE_HOSTMEM_SMALL_MAX; bytes++) {
        unsigned class_index = slab_class(bytes);
        REQUIRE(class_index < SLAB_CLASSES);
        REQUIRE(slab_class_bytes(class_index) >= bytes);
        REQUIRE(class_index == 0 || slab_class_bytes(class_index - 1) < bytes);
        REQUIRE_EQ(slab_class_bytes(class_index) % ACRE_HOSTMEM_ALIGNMENT, 0);
    }
}

TEST(a_slot_is_found_by_its_first_byte_only)
{
    acre_hostmem *heap = heap_make(0, 0);

    for (unsigned i = 0; i < SLAB_CLASSES; i++) {
        void *pointer = NULL;
        REQUIRE_OK(acre_hostmem_alloc(heap, slab_class_bytes(i), &pointer));
        const struct slab *slab = granule_find(pointer);
        REQUIRE(slab);
        uint32_t own = slab_slot(slab, pointer);
        for (uint32_t offset = 0; offset < GRANULE_BYTES; offset++) {
            uint32_t slot = slab_slot(slab, slab->base + offset);
            bool is_first =
                offset % slab->slot_bytes == 0 && offset / slab->slot_bytes < slab->slot_count;
            REQUIRE_EQ(slot, is_first ? offset / slab->slot_bytes : slab->slot_count);
        }
        EXPECT_PTR_EQ(slab->base + (size_t)own * slab->slot_bytes, pointer);
    }
    heap_check(heap);
    acre_hostmem_destroy(heap);
}

TEST(regions_go_back_when_their_slabs_are_empty)
{
    enum { COUNT = 3000 };
    acre_hostmem *heap = heap_make(0, 0);
    static void *blocks[COUNT];

    for (int i = 0; i < COUNT; i++)
        REQUIRE_OK(acre_hostmem_alloc(heap, 4096, &blocks[i]));
    heap_check(heap);
    uint64_t most = heap->slabs.region_count;
    EXPECT(most >= COUNT / 256);
    for (int i = 0; i < COUNT; i++)
        REQUIRE_OK(acre_hostmem_free(heap, blocks[i]));
    heap_check(heap);
    EXPECT(heap->slabs.region_count <= 2);
    acre_hostmem_destroy(heap);
}
T_MAIN()
