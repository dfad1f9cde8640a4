/* SPDX-License-Identifier: MIT */
/* Hooks of plug-ins, and what is done without them. */
#include "alloc/plug_wait.h"
#include "tests/support/plug_bed.h"

static acre_pluggable_hooks all_hooks(void)
{
    acre_pluggable_hooks hooks = {.struct_size = sizeof hooks};

    *(void **)&hooks.init = symbol("good_init");
    *(void **)&hooks.reset = symbol("good_reset");
    *(void **)&hooks.memory_fraction = symbol("good_memory_fraction");
    *(void **)&hooks.base_alloc = symbol("good_base_alloc");
    *(void **)&hooks.record_stream = symbol("good_record_stream");
    *(void **)&hooks.end_allocate_to_pool = symbol("good_pool_end");
    *(void **)&hooks.release_pool = symbol("good_pool_release");
    return hooks;
}

TEST(every_hook_is_called_with_what_was_said)
{
    const acre_pool_id id = {3, 4};
    acre_data_ptr ptr;
    size_t bytes;
    double fraction;
    void *base;

    start();
    acre_pluggable_hooks hooks = all_hooks();
    REQUIRE_OK(acre_pluggable_hooks_set(allocator, &hooks));
    REQUIRE_OK(acre_pluggable_hooks_set(allocator, &hooks));
    EXPECT_EQ(seen->init_count, 1);
    EXPECT_EQ(seen->device_count, 2);
    REQUIRE_OK(acre_allocator_empty_cache(allocator));
    EXPECT_EQ(seen->reset_count, 1);
    REQUIRE_OK(acre_pluggable_memory_fraction_set(allocator, 1, 0.25));
    EXPECT(seen->fraction == 0.25 && seen->fraction_device == 1);
    REQUIRE_OK(acre_pluggable_memory_fraction_get(allocator, 1, &fraction));
    EXPECT(fraction == 0.25);
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    REQUIRE_OK(acre_pluggable_base(allocator, ptr.data, &base, &bytes));
    EXPECT_PTR_EQ(base, (char *)ptr.data - 64);
    EXPECT_EQ(bytes, 12345);
    acre_stream stream = some_stream(0);
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, stream));
    EXPECT_PTR_EQ(seen->recorded.pointer, ptr.data);
    EXPECT_PTR_EQ(seen->recorded.stream, native_of(stream));
    acre_data_ptr_clear(&ptr);
    REQUIRE_OK(acre_pluggable_pool_end(allocator, 1, id));
    EXPECT(seen->ended.graph == 3 && seen->ended.user == 4 && seen->pool_device == 1);
    REQUIRE_OK(acre_pluggable_pool_release(allocator, 0, id));
    EXPECT(seen->released.graph == 3 && seen->released.user == 4 && seen->pool_device == 0);
    EXPECT_EQ(acre_pluggable_pool_begin(allocator, 0, id, NULL, NULL), ACRE_ERR_UNSUPPORTED);
    stop();
}

static bool is_wanted(void *arg, void *stream)
{
    return stream == arg;
}

TEST(a_filter_arrives_as_a_function_of_cxx)
{
    bool (*ask)(int, unsigned long long, unsigned long long, void *);
    void (*forget)(void);
    char wanted, other;

    void *cxx = dlopen(PLUGIN("cxx"), RTLD_NOW | RTLD_LOCAL);
    if (!cxx)
        T_SKIP("there is no plug-in in C++: %s", dlerror());
    start();
    acre_pluggable_hooks hooks = {.struct_size = sizeof hooks};
    *(void **)&hooks.begin_allocate_to_pool = dlsym(cxx, "cxx_begin");
    *(void **)&ask = dlsym(cxx, "cxx_ask");
    *(void **)&forget = dlsym(cxx, "cxx_forget");
    REQUIRE_OK(acre_pluggable_hooks_set(allocator, &hooks));
    acre_pool_id id = {0, 77};
    REQUIRE_OK(acre_pluggable_pool_begin(allocator, 1, id, is_wanted, &wanted));
    EXPECT(ask(1, 0, 77, &wanted));
    EXPECT(!ask(1, 0, 77, &other));
    EXPECT(!ask(0, 0, 77, &wanted));
    forget();
    stop();
    dlclose(cxx);
}

TEST(without_hooks_the_books_answer)
{
    void *a, *b, *base;
    size_t bytes;

    start();
    REQUIRE_OK(acre_pluggable_alloc(allocator, 5000, 0, NULL, &a));
    REQUIRE_OK(acre_pluggable_base(allocator, (char *)a + 4999, &base, &bytes));
    EXPECT_PTR_EQ(base, a);
    EXPECT_EQ(bytes, 5000);
    EXPECT_EQ(acre_pluggable_base(allocator, (char *)a + 5000, &base, &bytes), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_allocator_empty_cache(allocator));

    uint64_t free_bytes, total;
    acre_device *device;
    REQUIRE_OK(acre_device_get(TYPE, 0, &device));
    REQUIRE_OK(acre_device_memory(device, &free_bytes, &total));
    REQUIRE_OK(acre_pluggable_memory_fraction_set(allocator, 0, 8000.5 / (double)total));
    EXPECT_EQ(acre_pluggable_alloc(allocator, 3001, 0, NULL, &b), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "would exceed allowed memory");
    EXPECT_EQ(seen->alloc_count, 1);
    REQUIRE_OK(acre_pluggable_alloc(allocator, 3000, 0, NULL, &b));
    EXPECT_EQ(acre_pluggable_memory_fraction_set(allocator, 0, 1.5), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_pluggable_memory_fraction_set(allocator, 0, 1));
    REQUIRE_OK(acre_pluggable_free(allocator, a));
    REQUIRE_OK(acre_pluggable_free(allocator, b));
    stop();
}

static _Atomic int passed;

static void pass(void *arg)
{
    (void)arg;
    EXPECT_EQ(seen->free_count, 0);
    passed = 1;
}

TEST(without_a_hook_a_free_waits_for_recorded_streams)
{
    acre_data_ptr ptr;
    acre_device *device;

    start();
    REQUIRE_OK(acre_device_get(TYPE, 0, &device));
    acre_stream own = some_stream(0), side = some_stream(0);
    REQUIRE(native_of(own) != native_of(side));
    REQUIRE_OK(acre_stream_set_current(own));
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, side));
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, side));
    EXPECT_EQ(acre_allocator_record_stream(allocator, &ptr, some_stream(1)),
              ACRE_ERR_UNSUPPORTED);
    passed = 0;
    REQUIRE_OK(acre_launch_host(device, native_of(side), pass, NULL));
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(passed, 1);
    EXPECT_EQ(seen->free_count, 1);
    stop();
}

/* Waiting for a stream that is captured would end the capture. */
TEST(memory_that_a_captured_stream_uses_is_freed_after_the_capture)
{
    acre_data_ptr ptr, next;
    acre_device *device;
    void *graph = NULL;

    start();
    REQUIRE_OK(acre_device_get(TYPE, 0, &device));
    acre_stream own = some_stream(0), side = some_stream(0);
    REQUIRE(native_of(own) != native_of(side));
    REQUIRE_OK(acre_stream_set_current(own));
    REQUIRE_OK(acre_allocator_allocate(allocator, 1000, &ptr));
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, side));
    void *pointer = ptr.data;
    REQUIRE_OK(acre_capture_begin(device, native_of(side)));
    EXPECT_EQ(acre_pluggable_free(allocator, pointer), ACRE_ERR_STATE);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(seen->free_count, 0);
    REQUIRE_OK(acre_allocator_allocate(allocator, 500, &next)); /* not yet */
    EXPECT_EQ(seen->free_count, 0);
    REQUIRE_OK(acre_capture_end(device, native_of(side), &graph)); /* it is whole */
    acre_data_ptr_clear(&next);
    REQUIRE_OK(acre_allocator_allocate(allocator, 500, &next));
    EXPECT_EQ(seen->free_count, 2);
    EXPECT_EQ(acre_pluggable_free(allocator, pointer), ACRE_ERR_INVALID);
    acre_data_ptr_clear(&next);
    EXPECT_EQ(stats_of(0).allocated_bytes.current, 0);
    REQUIRE_OK(acre_graph_destroy(device, graph));
    stop();
}

T_MAIN()
