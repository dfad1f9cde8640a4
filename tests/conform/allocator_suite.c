/* SPDX-License-Identifier: MIT */
/* Rules of allocators, one thread. */
#include "tests/conform/allocator_suite.h"

#include "base/heap.h"

void suite_allocator(void)
{
}

acre_allocator *allocator_begin(void)
{
    acre_allocator *allocator = NULL;

    REQUIRE_OK(allocator_suite.open(&allocator));
    REQUIRE_OK(acre_device_set(allocator_suite.type, 0));
    return allocator;
}

void allocator_end(acre_allocator *allocator)
{
    REQUIRE_OK(acre_device_set(allocator_suite.type, 0));
    allocator_suite.close(allocator);
}

static acre_device *current_device(void)
{
    acre_device *device = NULL;

    REQUIRE_OK(acre_device_get(allocator_suite.type, -1, &device));
    return device;
}

void allocator_fill(const acre_data_ptr *ptr, int value, size_t bytes)
{
    char *copy = malloc(bytes);

    memset(copy, value, bytes);
    if (allocator_suite.is_host)
        memcpy(ptr->data, copy, bytes);
    else if (acre_copy(current_device(), ptr->data, copy, bytes, ACRE_COPY_HOST_TO_DEVICE))
        t_fail(__FILE__, __LINE__, "copy to the device: %s", acre_last_error());
    free(copy);
}

bool allocator_holds(const acre_data_ptr *ptr, int value, size_t bytes)
{
    char *copy = malloc(bytes);
    bool holds = true;

    memset(copy, ~value, bytes);
    if (allocator_suite.is_host)
        memcpy(copy, ptr->data, bytes);
    else if (acre_copy(current_device(), copy, ptr->data, bytes, ACRE_COPY_DEVICE_TO_HOST))
        t_fail(__FILE__, __LINE__, "copy from the device: %s", acre_last_error());
    for (size_t i = 0; i < bytes; i++)
        holds = holds && copy[i] == (char)value;
    free(copy);
    return holds;
}

static int64_t bytes_now(acre_allocator *allocator, int device)
{
    acre_allocator_stats stats = {.struct_size = sizeof stats};

    if (!acre_allocator_is_device(allocator))
        return 0;
    REQUIRE_OK(acre_allocator_stats_get(allocator, device, &stats));
    EXPECT_EQ(stats.allocated_bytes.current,
              stats.allocated_bytes.allocated - stats.allocated_bytes.freed);
    EXPECT_LE(stats.allocated_bytes.current, stats.allocated_bytes.peak);
    EXPECT_LE(stats.allocated_bytes.current, stats.reserved_bytes.current);
    return stats.allocated_bytes.current;
}

TEST(memory_is_distinct_usable_and_labelled)
{
    acre_allocator *allocator = allocator_begin();
    const size_t sizes[] = {1, 511, 512, 513, 4096, 100000, 3 << 20};
    acre_data_ptr ptrs[7];

    for (int i = 0; i < 7; i++) {
        REQUIRE_OK(acre_allocator_allocate(allocator, sizes[i], &ptrs[i]));
        EXPECT(ptrs[i].data != NULL);
        EXPECT_EQ(ptrs[i].device.type, allocator_suite.label);
        EXPECT_EQ(ptrs[i].device.index, allocator_suite.is_indexless ? -1 : 0);
        EXPECT_EQ((uintptr_t)ptrs[i].data % 16, 0);
        allocator_fill(&ptrs[i], 'A' + i, sizes[i]);
    }
    for (int i = 0; i < 7; i++)
        EXPECT(allocator_holds(&ptrs[i], 'A' + i, sizes[i]));
    for (int i = 0; i < 7; i++)
        acre_data_ptr_clear(&ptrs[i]);
    EXPECT_EQ(bytes_now(allocator, 0), 0);
    allocator_end(allocator);
}

TEST(nothing_is_a_request_like_any_other)
{
    acre_allocator *allocator = allocator_begin();
    acre_data_ptr ptr;
    void *pointer = allocator;

    REQUIRE_OK(acre_allocator_allocate(allocator, 0, &ptr));
    EXPECT(!ptr.data && !ptr.context && ptr.deleter);
    EXPECT_EQ(ptr.device.type, allocator_suite.label);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(bytes_now(allocator, 0), 0);
    if (acre_allocator_raw_deleter(allocator)) {
        REQUIRE_OK(acre_allocator_raw_allocate(allocator, 0, &pointer));
        EXPECT(!pointer);
        REQUIRE_OK(acre_allocator_raw_deallocate(allocator, NULL));
    }
    allocator_end(allocator);
}

TEST(impossible_sizes_are_refused)
{
    acre_allocator *allocator = allocator_begin();
    const size_t sizes[] = {(size_t)1 << 60, ((size_t)1 << 60) - 1, SIZE_MAX, SIZE_MAX - 511,
                            (size_t)1 << 63};

    for (int i = 0; i < 5; i++) {
        acre_data_ptr ptr = ACRE_DATA_PTR_EMPTY;
        acre_status status = acre_allocator_allocate(allocator, sizes[i], &ptr);
        EXPECT(status == ACRE_ERR_DEVICE_MEMORY || status == ACRE_ERR_HOST_MEMORY);
        EXPECT(*acre_last_error());
        EXPECT(!acre_data_ptr_is_set(&ptr));
    }
    EXPECT_EQ(bytes_now(allocator, 0), 0);
    allocator_end(allocator);
}

TEST(raw_pointers_are_simple_and_their_deleter_is_stable)
{
    acre_allocator *allocator = allocator_begin();
    acre_deleter deleter = acre_allocator_raw_deleter(allocator);
    acre_data_ptr ptr;
    void *pointer;

    if (!deleter) {
        EXPECT_EQ(acre_allocator_raw_deallocate(allocator, &ptr), ACRE_ERR_UNSUPPORTED);
        allocator_end(allocator);
        T_SKIP("this allocator has no raw deleter");
    }
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    EXPECT(acre_data_ptr_is_simple(&ptr));
    EXPECT(ptr.deleter == deleter);
    REQUIRE_OK(acre_allocator_raw_allocate(allocator, 100, &pointer));
    EXPECT(pointer && pointer != ptr.data);
    EXPECT(acre_allocator_raw_deleter(allocator) == deleter);
    REQUIRE_OK(acre_allocator_raw_deallocate(allocator, pointer));
    REQUIRE_OK(acre_allocator_raw_deallocate(allocator, acre_data_ptr_release_context(&ptr)));
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(bytes_now(allocator, 0), 0);
    allocator_end(allocator);
}

TEST(foreign_and_dead_pointers_do_no_harm)
{
    acre_allocator *allocator = allocator_begin();
    acre_deleter deleter = acre_allocator_raw_deleter(allocator);
    acre_data_ptr ptr;
    int local = 7;
    void *pointer;

    if (!deleter) {
        allocator_end(allocator);
        T_SKIP("this allocator has no raw deleter");
    }
    REQUIRE_OK(acre_allocator_allocate(allocator, 5000, &ptr));
    int64_t before = bytes_now(allocator, 0);
    REQUIRE_OK(acre_allocator_raw_allocate(allocator, 100, &pointer));
    deleter(pointer);
    deleter(pointer);
    deleter(&local);
    deleter((char *)ptr.data + 8);
    EXPECT_EQ(bytes_now(allocator, 0), before);
    EXPECT_EQ(local, 7);
    allocator_fill(&ptr, 'x', 5000);
    EXPECT(allocator_holds(&ptr, 'x', 5000));
    acre_data_ptr_clear(&ptr);
    allocator_end(allocator);
}

TEST(contents_can_be_copied_and_cloned)
{
    acre_allocator *allocator = allocator_begin();
    acre_data_ptr a, b;

    REQUIRE_OK(acre_allocator_allocate(allocator, 70000, &a));
    allocator_fill(&a, 'c', 70000);
    REQUIRE_OK(acre_allocator_clone(allocator, a.data, 70000, &b));
    EXPECT(b.data != a.data);
    EXPECT(allocator_holds(&b, 'c', 70000));
    allocator_fill(&a, 'd', 70000);
    EXPECT(allocator_holds(&b, 'c', 70000));
    REQUIRE_OK(acre_allocator_copy_data(allocator, b.data, a.data, 70000));
    EXPECT(allocator_holds(&b, 'd', 70000));
    acre_data_ptr_clear(&a);
    acre_data_ptr_clear(&b);
    allocator_end(allocator);
}

TEST(the_current_device_decides_and_any_may_free)
{
    acre_allocator *allocator = allocator_begin();
    acre_data_ptr ptr;

    if (acre_device_count(allocator_suite.type) < 2) {
        allocator_end(allocator);
        T_SKIP("there is one device only");
    }
    REQUIRE_OK(acre_device_set(allocator_suite.type, 1));
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    EXPECT_EQ(ptr.device.index, allocator_suite.is_indexless ? -1 : 1);
    if (acre_allocator_is_device(allocator)) {
        EXPECT_GT(bytes_now(allocator, 1), 0);
        EXPECT_EQ(bytes_now(allocator, 0) > 0, allocator_suite.has_one_account);
    }
    REQUIRE_OK(acre_device_set(allocator_suite.type, 0));
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(bytes_now(allocator, 1), 0);
    int current = -1;
    REQUIRE_OK(acre_device_current(allocator_suite.type, &current));
    EXPECT_EQ(current, 0);
    allocator_end(allocator);
}

TEST(statistics_move_and_reset)
{
    acre_allocator *allocator = allocator_begin();
    acre_allocator_stats stats = {.struct_size = sizeof stats};
    acre_data_ptr a, b;

    if (!acre_allocator_is_device(allocator)) {
        allocator_end(allocator);
        T_SKIP("this allocator keeps no statistics");
    }
    REQUIRE_OK(acre_allocator_allocate(allocator, 1000, &a));
    int64_t one = bytes_now(allocator, 0);
    EXPECT_GE(one, 1000);
    REQUIRE_OK(acre_allocator_allocate(allocator, 2000000, &b));
    int64_t both = bytes_now(allocator, 0);
    EXPECT_GE(both, one + 2000000);
    acre_data_ptr_clear(&b);
    EXPECT_EQ(bytes_now(allocator, 0), one);
    REQUIRE_OK(acre_allocator_stats_get(allocator, 0, &stats));
    EXPECT_EQ(stats.allocated_bytes.peak, both);
    REQUIRE_OK(acre_allocator_stats_reset_peak(allocator, 0));
    REQUIRE_OK(acre_allocator_stats_get(allocator, 0, &stats));
    EXPECT_EQ(stats.allocated_bytes.peak, one);
    EXPECT_EQ(stats.allocated_bytes.allocated, both);
    acre_data_ptr_clear(&a);
    REQUIRE_OK(acre_allocator_stats_reset_accumulated(allocator, 0));
    REQUIRE_OK(acre_allocator_stats_get(allocator, 0, &stats));
    EXPECT_EQ(stats.allocated_bytes.allocated, 0);
    EXPECT_EQ(stats.allocated_bytes.freed, 0);
    EXPECT_EQ(stats.num_device_alloc, 0);
    int past = acre_device_count(allocator_suite.type);
    EXPECT_EQ(acre_allocator_stats_get(allocator, past, &stats), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_allocator_stats_get(allocator, -1, &stats), ACRE_ERR_RANGE);
    allocator_end(allocator);
}

TEST(streams_and_idle_memory_may_be_mentioned)
{
    acre_allocator *allocator = allocator_begin();
    acre_data_ptr ptr, foreign;
    acre_stream stream;
    int local;

    if (!acre_allocator_is_device(allocator)) {
        allocator_end(allocator);
        T_SKIP("this is not a device allocator");
    }
    EXPECT(acre_allocator_is_initialized(allocator));
    REQUIRE_OK(acre_stream_default(allocator_suite.type, 0, &stream));
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    acre_data_ptr_make(&foreign, &local, &local, acre_delete_nothing, ptr.device);
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, stream));
    REQUIRE_OK(acre_allocator_record_stream(allocator, &foreign, stream));
    acre_data_ptr_clear(&ptr);
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, stream));
    REQUIRE_OK(acre_device_synchronize(current_device()));
    REQUIRE_OK(acre_allocator_empty_cache(allocator));
    EXPECT_EQ(bytes_now(allocator, 0), 0);
    allocator_end(allocator);
}

TEST(every_host_allocation_may_fail)
{
    acre_allocator *allocator = allocator_begin();

    for (unsigned nth = 1;; nth++) {
        acre_data_ptr a = ACRE_DATA_PTR_EMPTY, b = ACRE_DATA_PTR_EMPTY;
        heap_fail_nth(nth);
        acre_status status = acre_allocator_allocate(allocator, 1000, &a);
        if (status == ACRE_OK)
            status = acre_allocator_clone(allocator, a.data, 1000, &b);
        acre_data_ptr_clear(&a);
        acre_data_ptr_clear(&b);
        int failed = heap_fail_disarm();
        EXPECT_EQ(bytes_now(allocator, 0), 0);
        if (status != ACRE_ERR_HOST_MEMORY &&
            !(allocator_suite.is_mute && status == ACRE_ERR_DEVICE_MEMORY))
            EXPECT_EQ(status, ACRE_OK);
        if (!failed)
            break;
    }
    allocator_end(allocator);
}
