/* SPDX-License-Identifier: MIT */
/* Plug-ins as allocators: what they are asked, the books about what they gave, and
 * plug-ins that misbehave in each way. */
#include "tests/support/plug_bed.h"

/* ---- Behaviour ------------------------------------------------------------------------ */

TEST(B153_free_gets_size_device_and_stream_of_the_allocation)
{
    acre_data_ptr ptr;

    start();
    acre_stream stream = some_stream(1);
    REQUIRE_OK(acre_device_set(TYPE, 1));
    REQUIRE_OK(acre_stream_set_current(stream));
    REQUIRE_OK(acre_allocator_allocate(allocator, 1000, &ptr));
    EXPECT_EQ(seen->allocated.bytes, 1000);
    EXPECT_EQ(seen->allocated.device, 1);
    EXPECT_PTR_EQ(seen->allocated.stream, native_of(stream));
    EXPECT_EQ(ptr.device.index, 1);
    EXPECT(acre_data_ptr_is_simple(&ptr));

    /* Whatever is current by then. */
    REQUIRE_OK(acre_stream_set_current(some_stream(1)));
    REQUIRE_OK(acre_device_set(TYPE, 0));
    void *pointer = ptr.data;
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(seen->free_count, 1);
    EXPECT_PTR_EQ(seen->freed.pointer, pointer);
    EXPECT_EQ(seen->freed.bytes, 1000);
    EXPECT_EQ(seen->freed.device, 1);
    EXPECT_PTR_EQ(seen->freed.stream, native_of(stream));
    stop();
}

TEST(B153_requests_for_nothing_reach_alloc)
{
    acre_data_ptr ptr;

    start();
    REQUIRE_OK(acre_allocator_allocate(allocator, 0, &ptr));
    EXPECT_EQ(seen->alloc_count, 1);
    EXPECT_EQ(seen->allocated.bytes, 0);
    EXPECT(!ptr.data && ptr.device.type == TYPE);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(seen->free_count, 0);
    stop();
}

static char nothing_there[64];

static void *alloc_for_nothing(size_t bytes, int device, void *stream)
{
    (void)device, (void)stream;
    return bytes ? NULL : nothing_there + 16 - (uintptr_t)nothing_there % 16;
}

static int freed_for_nothing;

static void free_for_nothing(void *pointer, size_t bytes, int device, void *stream)
{
    (void)pointer, (void)device, (void)stream;
    freed_for_nothing += bytes == 0;
}

TEST(B153_an_address_for_nothing_is_kept_and_freed)
{
    acre_allocator *other;
    void *a, *b;

    start();
    REQUIRE_OK(acre_pluggable_create(TYPE, alloc_for_nothing, free_for_nothing, NULL, &other));
    REQUIRE_OK(acre_pluggable_alloc(other, 0, 0, NULL, &a));
    EXPECT(a);
    EXPECT_EQ(acre_pluggable_alloc(other, 0, 0, NULL, &b), ACRE_ERR_DEVICE);
    EXPECT_HAS(acre_last_error(), "twice");
    REQUIRE_OK(acre_pluggable_free(other, a));
    EXPECT_EQ(freed_for_nothing, 1);
    REQUIRE_OK(acre_pluggable_close(other));
    stop();
}

TEST(B153_unknown_pointers_are_refused)
{
    void *pointer;
    char foreign;

    start();
    REQUIRE_OK(acre_pluggable_alloc(allocator, 4096, 0, NULL, &pointer));
    void *const wrong[] = {&foreign, (char *)pointer + 512};
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(acre_pluggable_free(allocator, wrong[i]), ACRE_ERR_INVALID);
        EXPECT_HAS(acre_last_error(), "Trying to free a pointer not allocated here");
    }
    REQUIRE_OK(acre_pluggable_free(allocator, pointer));
    EXPECT_EQ(acre_pluggable_free(allocator, pointer), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_pluggable_free(allocator, NULL));
    REQUIRE_OK(acre_allocator_raw_deallocate(allocator, &foreign)); /* said in the log */
    EXPECT_EQ(seen->free_count, 1);
    stop();
}

TEST(B153_a_swap_comes_first_and_once)
{
    acre_allocator *second, *plain;

    start();
    REQUIRE_OK(acre_pluggable_create(TYPE, alloc_for_nothing, free_for_nothing, NULL, &second));
    REQUIRE_OK(acre_plain_allocator_create(TYPE, &plain));
    REQUIRE_OK(acre_allocator_set(TYPE, plain, 0, NULL));
    EXPECT_EQ(acre_pluggable_make_current(allocator), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "Can't swap an already initialized allocator");
    EXPECT_PTR_EQ(acre_allocator_get(TYPE), plain);
    acre_allocator_destroy(plain);
    REQUIRE_OK(acre_pluggable_make_current(allocator));
    EXPECT_PTR_EQ(acre_allocator_get(TYPE), allocator);
    EXPECT_EQ(acre_pluggable_make_current(second), ACRE_ERR_STATE);
    EXPECT_PTR_EQ(acre_allocator_get(TYPE), allocator);
    REQUIRE_OK(acre_pluggable_close(second));
    stop();
    EXPECT(!acre_allocator_get(TYPE));
}

TEST(statistics_are_kept_per_device)
{
    void *a, *b;

    start();
    REQUIRE_OK(acre_pluggable_alloc(allocator, 1000, 0, NULL, &a));
    REQUIRE_OK(acre_pluggable_alloc(allocator, 500, 1, NULL, &b));
    REQUIRE_OK(acre_pluggable_free(allocator, a));
    acre_allocator_stats stats = stats_of(0);
    EXPECT_EQ(stats.allocated_bytes.current, 0);
    EXPECT_EQ(stats.allocated_bytes.peak, 1000);
    EXPECT_EQ(stats.num_device_free, 1);
    EXPECT_EQ(stats_of(1).reserved_bytes.current, 500);
    REQUIRE_OK(acre_allocator_stats_reset_peak(allocator, 0));
    REQUIRE_OK(acre_allocator_stats_reset_accumulated(allocator, 0));
    EXPECT_EQ(stats_of(0).allocated_bytes.peak, 0);
    EXPECT_EQ(stats_of(0).allocated_bytes.freed, 0);
    EXPECT_EQ(acre_pluggable_alloc(allocator, 1, 2, NULL, &a), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_pluggable_free(allocator, b));
    stop();
}

TEST(copies_and_clones_are_of_host_memory_when_so_told)
{
    acre_data_ptr ptr;

    start();
    REQUIRE_OK(acre_allocator_clone(allocator, "plugged", 8, &ptr));
    EXPECT_STR_EQ(ptr.data, "plugged");
    acre_data_ptr_clear(&ptr);
    stop();
}

/* ---- Misbehaviour ---------------------------------------------------------------------------- */

TEST(W19_null_is_out_of_memory)
{
    acre_data_ptr ptr = ACRE_DATA_PTR_EMPTY;

    start_with(PLUGIN("null"), "bad_alloc", "bad_free");
    EXPECT_EQ(acre_allocator_allocate(allocator, 100, &ptr), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "returned NULL");
    EXPECT(!acre_data_ptr_is_set(&ptr));
    EXPECT_EQ(stats_of(0).allocated_bytes.current, 0);
    EXPECT_EQ(*(int *)symbol("bad_free_count"), 0);
    stop();
}

/* The second allocation of 1024 bytes is refused, and the first is as before. */
static void expect_second_refused(const char *path, const char *says)
{
    void *first, *second;

    start_with(path, "bad_alloc", "bad_free");
    REQUIRE_OK(acre_pluggable_alloc(allocator, 1024, 0, NULL, &first));
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(acre_pluggable_alloc(allocator, 1024, 1, NULL, &second), ACRE_ERR_DEVICE);
        EXPECT_HAS(acre_last_error(), says);
        if (i == 0 && strcmp(says, "twice") != 0)
            break;
    }
    EXPECT_EQ(*(int *)symbol("bad_free_count"), 0);
    EXPECT_EQ(stats_of(0).allocated_bytes.current, 1024);
    EXPECT_EQ(stats_of(1).allocated_bytes.current, 0);
    REQUIRE_OK(acre_pluggable_free(allocator, first));
    EXPECT_EQ(*(int *)symbol("bad_free_count"), 1);
    stop();
}

TEST(W19_an_address_given_twice_is_refused)
{
    expect_second_refused(PLUGIN("twice"), "twice");
}

TEST(W19_overlapping_memory_is_refused)
{
    expect_second_refused(PLUGIN("overlap"), "overlaps 1024 live bytes");
}

TEST(W19_misaligned_memory_is_refused_and_returned)
{
    acre_pluggable_config bytewise = host_memory;
    acre_allocator *other;
    void *pointer;

    start_with(PLUGIN("misaligned"), "bad_alloc", "bad_free");
    EXPECT_EQ(acre_pluggable_alloc(allocator, 100, 0, NULL, &pointer), ACRE_ERR_DEVICE);
    EXPECT_HAS(acre_last_error(), "not a multiple of 16");
    EXPECT_EQ(*(int *)symbol("bad_free_count"), 1);
    bytewise.alignment = 1;
    REQUIRE_OK(acre_pluggable_open(TYPE, PLUGIN("misaligned"), "bad_alloc", "bad_free", &bytewise,
                                   &other));
    REQUIRE_OK(acre_pluggable_alloc(other, 100, 0, NULL, &pointer));
    REQUIRE_OK(acre_pluggable_free(other, pointer));
    REQUIRE_OK(acre_pluggable_close(other));
    stop();
}

TEST(W19_memory_beyond_the_last_address_is_refused)
{
    void *pointer;

    start_with(PLUGIN("beyond"), "bad_alloc", "bad_free");
    EXPECT_EQ(acre_pluggable_alloc(allocator, 1024, 0, NULL, &pointer), ACRE_ERR_DEVICE);
    EXPECT_HAS(acre_last_error(), "beyond the last address");
    stop();
}

TEST(W19_closing_with_live_pointers_is_refused)
{
    acre_data_ptr ptr;

    start();
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    EXPECT_EQ(acre_pluggable_close(allocator), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "1 allocation of this plug-in, 100 bytes, is live");
    acre_data_ptr_clear(&ptr);
    stop();
}

/* The deleter leads to its own plug-in, which stays loaded for it, though another
 * one serves the type by then and the allocator is gone. */
TEST(W19_pointers_outlive_their_allocator)
{
    acre_data_ptr ptr;

    start();
    REQUIRE_OK(acre_pluggable_make_current(allocator));
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    acre_allocator_destroy(allocator);
    EXPECT(!acre_allocator_get(TYPE));
    REQUIRE_OK(acre_pluggable_create(TYPE, alloc_for_nothing, free_for_nothing, NULL, &allocator));
    REQUIRE_OK(acre_pluggable_make_current(allocator));
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(seen->free_count, 1);
    EXPECT_EQ(seen->live_count, 0);
    stop();
}

TEST(W19_a_plugin_stays_loaded_for_its_pointers)
{
    acre_data_ptr ptr;

    start();
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    acre_allocator_destroy(allocator);
    dlclose(library);
    REQUIRE((library = dlopen(PLUGIN("good"), RTLD_NOW | RTLD_NOLOAD)));
    dlclose(library);
    acre_data_ptr_clear(&ptr);
    EXPECT(!dlopen(PLUGIN("good"), RTLD_NOW | RTLD_NOLOAD));
    acre_backend_unregister(backend);
    EXPECT_EQ(heap_live_count(), heap_before);
}

TEST(what_cannot_be_opened_is_named)
{
    acre_pluggable_config odd = host_memory;
    acre_allocator *other;
    acre_cache *cache;

    start();
    EXPECT_EQ(acre_pluggable_open(TYPE, "/nowhere/x.so", "a", "b", NULL, &other),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "/nowhere/x.so");
    EXPECT_EQ(acre_pluggable_open(TYPE, PLUGIN("good"), "good_alloc", "no_such", NULL, &other),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "no_such");
    EXPECT_EQ(acre_pluggable_open(TYPE, NULL, "a", "b", NULL, &other), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pluggable_create(TYPE, alloc_for_nothing, NULL, NULL, &other),
              ACRE_ERR_INVALID);
    odd.alignment = 24;
    EXPECT_EQ(acre_pluggable_create(TYPE, alloc_for_nothing, free_for_nothing, &odd, &other),
              ACRE_ERR_INVALID);
    REQUIRE_OK(acre_plain_allocator_create(TYPE, &other));
    EXPECT_EQ(acre_pluggable_close(other), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pluggable_cache(other, 0, NULL, &cache, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pluggable_make_current(NULL), ACRE_ERR_INVALID);
    acre_allocator_destroy(other);
    stop();
}

T_MAIN()
