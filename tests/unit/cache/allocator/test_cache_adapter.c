/* SPDX-License-Identifier: MIT */
/* Caches as allocators, beyond the rules that tests/conform tries (B15 to B17, B77,
 * B81, B133). */
#include "base/heap.h"
#include "tests/support/lab.h"

#include <acre/allocator.h>
#include <acre/sim.h>

#include <string.h>

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
    REQUIRE_OK(acre_allocator_allocate(second, 5 * MIB, &b));
    /* Even when two backends hand out the same address. */
    EXPECT_PTR_EQ(a.data, b.data);
    EXPECT(a.deleter != b.deleter);
    EXPECT_EQ(CURRENT(&two, allocation), 1);
    acre_data_ptr_clear(&b);
    EXPECT_EQ(CURRENT(&one, allocation), 1);
    EXPECT_EQ(CURRENT(&two, allocation), 0);
    acre_allocator_destroy(second);
    lab_close(&two);
    acre_data_ptr_clear(&a);
    EXPECT_EQ(CURRENT(&one, allocation), 0);
    acre_allocator_destroy(first);
    lab_close(&one);
}

TEST(an_address_is_enough_to_free)
{
    acre_sim_config config = {.struct_size = sizeof config, .devices = 3, .memory_bytes = 64 * MIB};
    acre_allocator *allocator, *plain;
    acre_backend *backend;
    acre_data_ptr pointers[3];

    REQUIRE_OK(acre_sim_create(&config, &backend));
    REQUIRE_OK(acre_cache_allocator_create(ACRE_DEVICE_PRIVATE, NULL, &allocator));
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, i));
        REQUIRE_OK(acre_allocator_allocate(allocator, 5000, &pointers[i]));
    }
    REQUIRE_OK(acre_cache_allocator_free(allocator, NULL));
    char *middle = pointers[1].data;
    EXPECT_EQ(acre_cache_allocator_free(allocator, middle + 512), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_allocator_free(allocator, &backend), ACRE_ERR_INVALID);
    EXPECT(strstr(acre_last_error(), "no cache of this allocator"));
    for (int i = 2; i >= 0; i--) { /* device 2 is current all the time */
        acre_cache_stats stats = {.struct_size = sizeof stats};
        REQUIRE_OK(acre_cache_allocator_free(allocator, pointers[i].data));
        EXPECT_EQ(acre_cache_allocator_free(allocator, pointers[i].data), ACRE_ERR_INVALID);
        REQUIRE_OK(acre_cache_stats_get(acre_cache_of_allocator(allocator, i), &stats));
        EXPECT_EQ(stats.allocation.all.current, 0);
        EXPECT_EQ(stats.allocation.all.freed, 1);
    }
    EXPECT_EQ(acre_cache_allocator_free(NULL, middle), ACRE_ERR_INVALID);
    plain = acre_allocator_get(ACRE_DEVICE_CPU);
    EXPECT_EQ(acre_cache_allocator_free(plain, middle), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 0));
    acre_allocator_destroy(allocator);
    acre_backend_unregister(backend);
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

/* An allocator of one cache on a fake of two devices, and a stream value. */
struct bench {
    struct lab lab;
    acre_allocator *allocator;
};

static void bench_open(struct bench *bench, acre_policy policy)
{
    acre_cache_config config = {.policy = policy};

    lab_open_with(&bench->lab, &(struct fake_config){.devices = 2}, &config);
    REQUIRE_OK(acre_cache_allocator(bench->lab.cache, &bench->allocator));
}

static void bench_close(struct bench *bench)
{
    acre_allocator_destroy(bench->allocator);
    lab_close(&bench->lab);
}

static acre_stream external(int device, int number)
{
    acre_stream stream = {0};

    REQUIRE_OK(acre_stream_external(ACRE_DEVICE_OPENCL, device, fake_stream(number), &stream));
    return stream;
}

static acre_data_ptr get(struct bench *bench, size_t bytes)
{
    acre_data_ptr ptr = ACRE_DATA_PTR_EMPTY;

    REQUIRE_OK(acre_allocator_allocate(bench->allocator, bytes, &ptr));
    return ptr;
}

TEST(B16_more_than_an_exabyte_is_said_to_be)
{
    struct bench bench;
    acre_data_ptr ptr = ACRE_DATA_PTR_EMPTY;

    bench_open(&bench, ACRE_POLICY_TORCH);
    EXPECT_EQ(acre_allocator_allocate(bench.allocator, (size_t)1 << 60, &ptr),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1EB");
    EXPECT_EQ(acre_allocator_allocate(bench.allocator, ((size_t)1 << 60) - 1, &ptr),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "1073741824.00 GiB");
    EXPECT(!acre_data_ptr_is_set(&ptr));
    EXPECT_EQ(COUNT(&bench.lab, num_ooms), 1);
    bench_close(&bench);
}

static void try_dead_pointers(acre_policy policy)
{
    struct bench bench;

    bench_open(&bench, policy);
    acre_data_ptr kept = get(&bench, 5000), gone = get(&bench, 5000);
    void *dead = gone.data;
    acre_data_ptr_clear(&gone);
    acre_deleter deleter = acre_allocator_raw_deleter(bench.allocator);
    deleter(dead);
    EXPECT_HAS(acre_last_error(), "invalid device pointer");
    deleter((char *)kept.data + 512);
    deleter(&bench);
    EXPECT_EQ(CURRENT(&bench.lab, allocation), 1);
    EXPECT_EQ(COUNT(&bench.lab, allocation.all.freed), 1);
    acre_data_ptr_clear(&kept);
    EXPECT_EQ(CURRENT(&bench.lab, allocation), 0);
    bench_close(&bench);
}

TEST(B17_dead_pointers_are_left_alone)
{
    try_dead_pointers(ACRE_POLICY_TORCH);
    try_dead_pointers(ACRE_POLICY_ACRE);
}

TEST(the_current_stream_of_the_thread_counts)
{
    struct bench bench;
    acre_cache_layout *layout;

    bench_open(&bench, ACRE_POLICY_TORCH);
    REQUIRE_OK(acre_stream_set_current(external(0, 3)));
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_OPENCL, 1)); /* does not matter */
    acre_data_ptr ptr = get(&bench, 100);
    EXPECT_EQ(ptr.device.index, 0);
    EXPECT(fake_owns(bench.lab.fake, 0, ptr.data, 100));
    REQUIRE_OK(acre_cache_layout_create(bench.lab.cache, &layout));
    REQUIRE_EQ(layout->segment_count, 1);
    EXPECT_PTR_EQ(layout->segments[0].stream, fake_stream(3));
    acre_cache_layout_destroy(layout);
    acre_data_ptr_clear(&ptr);
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_OPENCL, 0));
    bench_close(&bench);
}

TEST(a_free_waits_for_recorded_streams)
{
    struct bench bench;

    bench_open(&bench, ACRE_POLICY_TORCH);
    acre_data_ptr ptr = get(&bench, 3 * MIB), other;
    void *where = ptr.data;
    REQUIRE_OK(acre_allocator_record_stream(bench.allocator, &ptr, external(0, 4)));
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(CURRENT(&bench.lab, allocation), 0);
    EXPECT_EQ(CURRENT(&bench.lab, active), 1);
    other = get(&bench, 3 * MIB);
    EXPECT(other.data != where);
    acre_data_ptr_clear(&other);
    fake_finish(bench.lab.fake, fake_stream(4));
    other = get(&bench, 3 * MIB);
    EXPECT_PTR_EQ(other.data, where);
    acre_data_ptr_clear(&other);
    EXPECT_EQ(CURRENT(&bench.lab, active), 0);
    bench_close(&bench);
}

TEST(streams_of_other_devices_are_refused)
{
    struct bench bench;

    bench_open(&bench, ACRE_POLICY_TORCH);
    acre_data_ptr ptr = get(&bench, 100);
    EXPECT_EQ(acre_allocator_record_stream(bench.allocator, &ptr, external(1, 4)),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "device 1");
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(CURRENT(&bench.lab, active), 0);
    bench_close(&bench);
}

TEST(two_allocators_may_serve_one_cache)
{
    struct bench bench;
    acre_allocator *second;

    bench_open(&bench, ACRE_POLICY_TORCH);
    REQUIRE_OK(acre_cache_allocator(bench.lab.cache, &second));
    acre_data_ptr ptr = get(&bench, 100);
    REQUIRE_OK(acre_allocator_record_stream(second, &ptr, external(0, 4)));
    acre_allocator_destroy(second);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(CURRENT(&bench.lab, active), 1);
    REQUIRE_OK(acre_allocator_empty_cache(bench.allocator));
    EXPECT_EQ(CURRENT(&bench.lab, active), 0);
    bench_close(&bench);
}

TEST(B133_without_caching_the_device_is_asked_each_time)
{
    struct bench bench;
    acre_deleter deleter;

    bench_open(&bench, ACRE_POLICY_ACRE);
    deleter = acre_allocator_raw_deleter(bench.allocator);
    acre_data_ptr cached = get(&bench, 100);
    acre_cache_enable(bench.lab.cache, false);
    acre_data_ptr direct = get(&bench, 1000), none = get(&bench, 0);
    EXPECT(acre_data_ptr_is_simple(&direct));
    EXPECT(direct.deleter == deleter && acre_allocator_raw_deleter(bench.allocator) == deleter);
    EXPECT(!none.data);
    EXPECT_EQ(none.device.type, ACRE_DEVICE_OPENCL);
    EXPECT_EQ(CURRENT(&bench.lab, allocation), 1);
    EXPECT_EQ(COUNT(&bench.lab, allocation.all.allocated), 1);
    EXPECT_EQ(fake_alloc_count(bench.lab.fake), 2);
    REQUIRE_OK(acre_allocator_record_stream(bench.allocator, &direct, external(0, 4)));
    acre_data_ptr_clear(&cached); /* each goes the way it came */
    EXPECT_EQ(fake_alloc_count(bench.lab.fake), 2);
    acre_cache_enable(bench.lab.cache, true);
    acre_data_ptr_clear(&direct);
    EXPECT_EQ(fake_alloc_count(bench.lab.fake), 1);
    EXPECT_EQ(CURRENT(&bench.lab, allocation), 0);
    EXPECT_EQ(COUNT(&bench.lab, allocation.all.freed), 1);
    bench_close(&bench);
}

TEST(another_backend_of_the_type_is_not_served)
{
    struct fake *mine = fake_create(NULL);
    acre_allocator *allocator;
    acre_data_ptr ptr, refused = ACRE_DATA_PTR_EMPTY;

    REQUIRE_OK(acre_cache_allocator_create(ACRE_DEVICE_OPENCL, NULL, &allocator));
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    acre_sim_config config = {.struct_size = sizeof config, .type = ACRE_DEVICE_HIP, .dry = 1};
    acre_backend *sim;
    REQUIRE_OK(acre_sim_create(&config, &sim));
    REQUIRE_OK(acre_masquerade_register(sim, ACRE_DEVICE_OPENCL, ACRE_MASQUERADE_RENAME));
    for (int device = 0; device < 2; device++) {
        REQUIRE_OK(acre_device_set(ACRE_DEVICE_OPENCL, device));
        EXPECT_EQ(acre_allocator_allocate(allocator, 100, &refused), ACRE_ERR_STATE);
        EXPECT(!acre_data_ptr_is_set(&refused));
    }
    acre_data_ptr_clear(&ptr); /* goes where it came from all the same */
    acre_backend_unregister(sim);
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    acre_data_ptr_clear(&ptr);
    acre_allocator_destroy(allocator);
    EXPECT_EQ(fake_alloc_count(mine), 0);
    fake_destroy(mine);
}

/* Deleters cannot be told to come again. */
TEST(what_a_deleter_could_not_free_is_freed_later)
{
    static const acre_policy policies[] = {ACRE_POLICY_TORCH, ACRE_POLICY_ACRE};

    for (int i = 0; i < 4; i++) {
        acre_cache_config config = {.struct_size = sizeof config, .policy = policies[i % 2]};
        acre_allocator *allocator;
        struct lab lab;

        lab_open_with(&lab, NULL, &config);
        REQUIRE_OK(acre_cache_allocator(lab.cache, &allocator));
        void *used = lab_alloc(&lab, MIB), *other = lab_alloc(&lab, 3 * MIB);
        REQUIRE_OK(acre_cache_record_stream(lab.cache, used, fake_stream(1)));
        if (i < 2)
            fake_fail(lab.fake, FAKE_EVENT_RECORD, 1, ACRE_ERR_DEVICE);
        else
            fake_fail(lab.fake, FAKE_EVENT_CREATE, 1, ACRE_ERR_HOST_MEMORY);
        REQUIRE_OK(acre_allocator_raw_deallocate(allocator, used));
        EXPECT(fake_disarm(lab.fake));
        EXPECT_EQ(CURRENT(&lab, allocation), 2);
        REQUIRE_OK(acre_cache_empty(lab.cache));
        EXPECT_EQ(CURRENT(&lab, allocation), 1);
        EXPECT_EQ(acre_cache_free(lab.cache, used), ACRE_ERR_INVALID);
        lab_free(&lab, other);
        acre_allocator_destroy(allocator);
        lab_close(&lab);
    }
}

T_MAIN()
