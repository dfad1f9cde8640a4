/* SPDX-License-Identifier: MIT */
/* Caches as allocators, beyond the rules that tests/conform tries (B15, B81). */
#include "base/heap.h"
#include "tests/support/lab.h"

#include <acre/allocator.h>

TEST(an_allocator_of_one_cache)
{
    struct lab lab;
    acre_allocator *allocator;
    acre_data_ptr ptr;

    lab_open(&lab, NULL);
    REQUIRE_OK(acre_cache_allocator(lab.cache, &allocator));
    EXPECT_PTR_EQ(acre_cache_of_allocator(allocator, 0), lab.cache);
    EXPECT(!acre_cache_of_allocator(allocator, 1));
    EXPECT(!acre_cache_of_allocator(NULL, 0));
    REQUIRE_OK(acre_allocator_allocate(allocator, 1000, &ptr));
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 1000);
    EXPECT_EQ(lab_block_bytes(&lab, ptr.data), 1024);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 0);
    acre_allocator_destroy(allocator);
    lab_close(&lab);
}

TEST(B15_zero_bytes_carry_the_device)
{
    struct lab lab;
    acre_allocator *allocator;
    acre_data_ptr ptr;

    lab_open(&lab, NULL);
    REQUIRE_OK(acre_cache_allocator(lab.cache, &allocator));
    REQUIRE_OK(acre_allocator_allocate(allocator, 0, &ptr));
    EXPECT(!ptr.data && !ptr.context);
    EXPECT_EQ(ptr.device.type, ACRE_DEVICE_OPENCL);
    EXPECT_EQ(ptr.device.index, 0);
    EXPECT(ptr.deleter == acre_allocator_raw_deleter(allocator));
    EXPECT_EQ(COUNT(&lab, num_device_alloc), 0);
    acre_data_ptr_clear(&ptr);
    acre_allocator_destroy(allocator);
    lab_close(&lab);
}

TEST(B81_foreign_deleters_and_null_are_ignored)
{
    struct lab lab;
    acre_allocator *allocator;
    acre_stream stream = {0};
    acre_data_ptr ptr = ACRE_DATA_PTR_EMPTY;

    lab_open(&lab, NULL);
    REQUIRE_OK(acre_cache_allocator(lab.cache, &allocator));
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, stream));
    ptr.data = &lab;
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, stream));
    ptr.deleter = acre_allocator_raw_deleter(allocator);
    EXPECT_EQ(acre_allocator_record_stream(allocator, &ptr, stream), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "invalid device pointer");
    acre_allocator_destroy(allocator);
    lab_close(&lab);
}

TEST(each_pointer_goes_to_its_own_cache)
{
    struct lab one, two;
    acre_allocator *first, *second;
    acre_data_ptr a, b;

    lab_open(&one, NULL);
    REQUIRE_OK(acre_cache_allocator(one.cache, &first));
    REQUIRE_OK(acre_allocator_allocate(first, 5 * MIB, &a));
    EXPECT_EQ(CURRENT(&one, allocation), 1);
    lab_open(&two, NULL);
    REQUIRE_OK(acre_cache_allocator(two.cache, &second));
    /* Fakes hand out equal addresses: move the second one on. */
    lab_alloc(&two, 100 * MIB);
    REQUIRE_OK(acre_allocator_allocate(second, 5 * MIB, &b));
    acre_data_ptr_clear(&b);
    EXPECT_EQ(CURRENT(&one, allocation), 1);
    EXPECT_EQ(CURRENT(&two, allocation), 1);
    acre_allocator_destroy(second);
    lab_close(&two);
    acre_data_ptr_clear(&a);
    EXPECT_EQ(CURRENT(&one, allocation), 0);
    acre_allocator_destroy(first);
    lab_close(&one);
}

TEST(every_host_allocation_of_creation_may_fail)
{
    uint64_t before = heap_live_count();
    bool has_failed = true;

    struct fake *fake = fake_create(&(struct fake_config){.devices = 2});
    uint64_t bare = heap_live_count();
    for (uint64_t nth = 1; has_failed; nth++) {
        acre_allocator *allocator = NULL;
        heap_fail_nth(nth);
        acre_status status = acre_cache_allocator_create(ACRE_DEVICE_OPENCL, NULL, &allocator);
        has_failed = heap_fail_disarm();
        EXPECT_EQ(status, has_failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        EXPECT_EQ(has_failed, allocator == NULL);
        EXPECT(has_failed || acre_cache_of_allocator(allocator, 1) != NULL);
        acre_allocator_destroy(allocator);
        EXPECT_EQ(heap_live_count(), bare);
    }
    fake_destroy(fake);
    EXPECT_EQ(heap_live_count(), before);
}

T_MAIN()
