/* SPDX-License-Identifier: MIT */
/* Allocators without a cache: statistics, devices, frees of all kinds. */
#include <acre/allocator.h>

#include "base/heap.h"
#include "tests/support/t.h"
#include "tests/support/toy_backend.h"

static struct toy_backend toy;
static acre_allocator *allocator;

static void start(void)
{
    REQUIRE_OK(toy_backend_start(&toy, "toy", ACRE_DEVICE_CUDA, 2));
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_CUDA, 0));
    REQUIRE_OK(acre_plain_allocator_create(ACRE_DEVICE_CUDA, &allocator));
}

static void stop(void)
{
    acre_allocator_destroy(allocator);
    EXPECT_EQ(toy.live[0] + toy.live[1] + toy.live_host, 0);
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_CUDA, 0));
    toy_backend_stop(&toy);
}

static acre_allocator_stats stats_of(int device)
{
    acre_allocator_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_allocator_stats_get(allocator, device, &stats));
    return stats;
}

static void expect_stat(const acre_stat *stat, int64_t current, int64_t peak, int64_t allocated,
                        int64_t freed)
{
    EXPECT_EQ(stat->current, current);
    EXPECT_EQ(stat->peak, peak);
    EXPECT_EQ(stat->allocated, allocated);
    EXPECT_EQ(stat->freed, freed);
}

TEST(D72_statistics_count_requested_bytes)
{
    acre_data_ptr ptr;

    start();
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    acre_allocator_stats stats = stats_of(0);
    expect_stat(&stats.allocated_bytes, 100, 100, 100, 0);
    expect_stat(&stats.reserved_bytes, 100, 100, 100, 0);
    EXPECT_EQ(stats.num_device_alloc, 1);
    EXPECT_EQ(stats.num_device_free, 0);
    acre_data_ptr_clear(&ptr);
    stats = stats_of(0);
    expect_stat(&stats.allocated_bytes, 0, 100, 100, 100);
    expect_stat(&stats.reserved_bytes, 0, 100, 100, 100);
    EXPECT_EQ(stats.num_device_alloc, 1);
    EXPECT_EQ(stats.num_device_free, 1);
    REQUIRE_OK(acre_allocator_stats_reset_peak(allocator, 0));
    stats = stats_of(0);
    expect_stat(&stats.allocated_bytes, 0, 0, 100, 100);
    expect_stat(&stats.reserved_bytes, 0, 0, 100, 100);
    REQUIRE_OK(acre_allocator_stats_reset_accumulated(allocator, 0));
    stats = stats_of(0);
    expect_stat(&stats.allocated_bytes, 0, 0, 0, 0);
    EXPECT_EQ(stats.num_device_alloc, 0);
    EXPECT_EQ(stats.num_device_free, 0);
    stop();
}

TEST(D73_zero_bytes_give_null_with_the_current_device)
{
    acre_data_ptr ptr;

    start();
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_CUDA, 1));
    REQUIRE_OK(acre_allocator_allocate(allocator, 0, &ptr));
    EXPECT(!ptr.data && !ptr.context);
    EXPECT_EQ(ptr.device.type, ACRE_DEVICE_CUDA);
    EXPECT_EQ(ptr.device.index, 1);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(toy.alloc_calls, 0);
    EXPECT_EQ(toy.free_calls, 0);
    acre_allocator_stats stats = stats_of(1);
    EXPECT_EQ(stats.num_device_alloc, 0);
    stop();
}

TEST(D74_a_free_reaches_the_owning_device)
{
    acre_data_ptr ptr;

    start();
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_CUDA, 1));
    REQUIRE_OK(acre_allocator_allocate(allocator, 64, &ptr));
    EXPECT_EQ(ptr.device.index, 1);
    EXPECT_EQ(toy.live[1], 1);
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_CUDA, 0));
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(toy.live[1], 0);
    acre_allocator_stats stats = stats_of(1);
    expect_stat(&stats.allocated_bytes, 0, 64, 64, 64);
    stats = stats_of(0);
    expect_stat(&stats.allocated_bytes, 0, 0, 0, 0);
    stop();
}

TEST(D89_output_of_a_translating_masquerade_is_relabelled)
{
    struct toy_backend hip;
    acre_allocator *inner, *shown;
    acre_data_ptr ptr;

    REQUIRE_OK(toy_backend_start(&hip, "toy-hip", ACRE_DEVICE_HIP, 2));
    REQUIRE_OK(acre_plain_allocator_create(ACRE_DEVICE_HIP, &inner));
    REQUIRE_OK(acre_relabel_allocator_create(inner, ACRE_DEVICE_HIP, ACRE_DEVICE_CUDA, &shown));
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_HIP, 1));
    REQUIRE_OK(acre_allocator_allocate(shown, 100, &ptr));
    EXPECT_EQ(ptr.device.type, ACRE_DEVICE_CUDA);
    EXPECT_EQ(ptr.device.index, 1);
    EXPECT_PTR_EQ(ptr.data, hip.bases[0]);
    EXPECT(ptr.deleter == acre_allocator_raw_deleter(inner));
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(hip.live[1], 0);
    acre_allocator_destroy(shown);
    acre_allocator_destroy(inner);
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_HIP, 0));
    toy_backend_stop(&hip);
}

TEST(pointers_are_simple_and_the_raw_calls_work)
{
    void *pointer;
    acre_data_ptr ptr;

    start();
    EXPECT_STR_EQ(acre_allocator_name(allocator), "plain cuda");
    REQUIRE_OK(acre_allocator_raw_allocate(allocator, 1, &pointer));
    EXPECT_EQ(toy.live[0], 1);
    REQUIRE_OK(acre_allocator_raw_deallocate(allocator, pointer));
    EXPECT_EQ(toy.live[0], 0);
    REQUIRE_OK(acre_allocator_allocate(allocator, 1, &ptr));
    EXPECT(acre_data_ptr_is_simple(&ptr));
    EXPECT(ptr.deleter == acre_allocator_raw_deleter(allocator));
    acre_data_ptr_clear(&ptr);
    EXPECT(acre_allocator_is_initialized(allocator));
    REQUIRE_OK(acre_allocator_empty_cache(allocator));
    stop();
}

TEST(an_impossible_request_says_what_is_held)
{
    acre_data_ptr held, ptr = ACRE_DATA_PTR_EMPTY;

    start();
    REQUIRE_OK(acre_allocator_allocate(allocator, 1000, &held));
    EXPECT_EQ(acre_allocator_allocate(allocator, (size_t)2 << 30, &ptr),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "cuda:0: 2147483648 bytes of device memory");
    EXPECT_HAS(acre_last_error(), "1000 bytes are allocated, 1000 reserved");
    EXPECT_EQ(acre_allocator_allocate(allocator, (size_t)1 << 60, &ptr),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1EB");
    EXPECT_EQ(acre_allocator_allocate(allocator, SIZE_MAX, &ptr), ACRE_ERR_DEVICE_MEMORY);
    EXPECT(!acre_data_ptr_is_set(&ptr));
    acre_allocator_stats stats = stats_of(0);
    expect_stat(&stats.allocated_bytes, 1000, 1000, 1000, 0);
    EXPECT_EQ(stats.num_device_alloc, 1);
    acre_data_ptr_clear(&held);
    stop();
}

TEST(copies_stay_on_the_device_and_refuse_nothing_to_do)
{
    acre_data_ptr ptr;

    start();
    REQUIRE_OK(acre_allocator_clone(allocator, "abc", 4, &ptr));
    EXPECT_STR_EQ(ptr.data, "abc");
    EXPECT_EQ(acre_allocator_copy_data(allocator, ptr.data, "abc", 0), ACRE_ERR_INVALID);
    acre_data_ptr_clear(&ptr);
    stop();
}

TEST(addresses_of_others_go_straight_to_the_device)
{
    acre_device *device;
    void *foreign;

    start();
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CUDA, 1, &device));
    REQUIRE_OK(acre_device_alloc(device, 512, &foreign));
    REQUIRE_OK(acre_allocator_raw_deallocate(allocator, foreign));
    EXPECT_EQ(toy.live[1], 0);
    REQUIRE_OK(acre_allocator_raw_deallocate(allocator, &device));
    acre_allocator_stats stats = stats_of(1);
    EXPECT_EQ(stats.num_device_free, 0);
    stop();
}

static int warned;

static void note_warning(void *arg, acre_log_level level, const char *text)
{
    (void)arg;
    warned += level == ACRE_LOG_WARN && strstr(text, "stays allocated");
}

TEST(a_refused_free_warns_and_keeps_the_record)
{
    acre_data_ptr ptr;
    void *pointer;

    start();
    REQUIRE_OK(acre_allocator_allocate(allocator, 10, &ptr));
    pointer = ptr.data;
    toy.free_fails = 1;
    acre_log_set(note_warning, NULL, ACRE_LOG_WARN);
    acre_data_ptr_clear(&ptr);
    acre_log_set(NULL, NULL, ACRE_LOG_WARN);
    EXPECT_EQ(warned, 1);
    acre_allocator_stats stats = stats_of(0);
    expect_stat(&stats.allocated_bytes, 10, 10, 10, 0);
    EXPECT_EQ(stats.num_device_free, 0);
    toy.free_fails = 0;
    REQUIRE_OK(acre_allocator_raw_deallocate(allocator, pointer));
    stats = stats_of(0);
    expect_stat(&stats.allocated_bytes, 0, 10, 10, 10);
    stop();
}

TEST(statistics_refuse_devices_that_are_not_there)
{
    acre_allocator_stats stats = {.struct_size = sizeof stats};

    start();
    EXPECT_EQ(acre_allocator_stats_get(allocator, 2, &stats), ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "there is no device 2");
    EXPECT_EQ(acre_allocator_stats_get(allocator, -1, &stats), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_allocator_stats_reset_peak(allocator, 2), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_allocator_stats_reset_accumulated(allocator, 2), ACRE_ERR_RANGE);
    stop();
}

TEST(pointers_outlive_their_allocator)
{
    uint64_t live = heap_live_count();
    acre_data_ptr ptr;

    start();
    REQUIRE_OK(acre_allocator_allocate(allocator, 10, &ptr));
    acre_allocator_destroy(allocator);
    allocator = NULL;
    EXPECT_EQ(toy.live[0], 1);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(toy.live[0], 0);
    stop();
    EXPECT_EQ(heap_live_count(), live);
}

TEST(a_type_without_backend_is_refused)
{
    acre_allocator *none = NULL;

    EXPECT_EQ(acre_plain_allocator_create(ACRE_DEVICE_OPENCL, &none), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_plain_allocator_create(ACRE_DEVICE_CUDA, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_plain_host_allocator_create(ACRE_DEVICE_CUDA, NULL), ACRE_ERR_INVALID);
    EXPECT(!none);
}

TEST(host_memory_is_labelled_cpu)
{
    acre_allocator *host;
    acre_allocator_stats stats = {.struct_size = sizeof stats};
    acre_data_ptr ptr, copy;

    start();
    REQUIRE_OK(acre_plain_host_allocator_create(ACRE_DEVICE_CUDA, &host));
    REQUIRE_OK(acre_allocator_allocate(host, 0, &ptr));
    EXPECT(!ptr.data);
    REQUIRE_OK(acre_allocator_allocate(host, 33, &ptr));
    EXPECT_EQ(ptr.device.type, ACRE_DEVICE_CPU);
    EXPECT_EQ(toy.live_host, 1);
    strcpy(ptr.data, "pinned");
    REQUIRE_OK(acre_allocator_clone(host, ptr.data, 7, &copy));
    EXPECT_STR_EQ(copy.data, "pinned");
    REQUIRE_OK(acre_allocator_copy_data(host, copy.data, ptr.data, 0));
    REQUIRE_OK(acre_allocator_stats_get(host, 0, &stats));
    EXPECT_EQ(stats.allocated_bytes.current, 40);
    acre_data_ptr_clear(&copy);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(toy.live_host, 0);
    toy.alloc_fails = 1;
    EXPECT_EQ(acre_allocator_allocate(host, 5, &ptr), ACRE_ERR_HOST_MEMORY);
    EXPECT_HAS(acre_last_error(), "page-locked");
    acre_allocator_destroy(host);
    stop();
}

static acre_status scenario(void)
{
    acre_allocator *plain;
    acre_data_ptr ptr;
    acre_status status = acre_plain_allocator_create(ACRE_DEVICE_CUDA, &plain);

    if (status != ACRE_OK)
        return status;
    for (int i = 0; i < 3 && status == ACRE_OK; i++) {
        status = acre_allocator_allocate(plain, 100, &ptr);
        if (status == ACRE_OK)
            acre_data_ptr_clear(&ptr);
    }
    acre_allocator_destroy(plain);
    return status;
}

TEST(every_host_allocation_may_fail)
{
    start();
    for (unsigned nth = 1;; nth++) {
        uint64_t live = heap_live_count();
        heap_fail_nth(nth);
        acre_status status = scenario();
        int failed = heap_fail_disarm();
        EXPECT_EQ(heap_live_count(), live);
        EXPECT_EQ(toy.live[0], 0);
        EXPECT_EQ(status, failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        if (!failed)
            break;
    }
    stop();
}

T_MAIN()
