/* SPDX-License-Identifier: MIT */
/* Which allocator serves a type: priorities, both registries, threads. */
#include <acre/allocator.h>

#include "tests/support/t.h"

#include <pthread.h>

static acre_status no_memory(void *self, size_t bytes, acre_data_ptr *out)
{
    (void)self, (void)bytes, (void)out;
    return ACRE_ERR_DEVICE_MEMORY;
}

static acre_allocator *simple(const char *name)
{
    acre_allocator_ops ops = {.struct_size = sizeof ops, .version = ACRE_ALLOCATOR_VERSION,
                              .allocate = no_memory, .copy_data = acre_copy_memory};
    acre_allocator_desc desc = {.struct_size = sizeof desc, .name = name, .ops = &ops};
    acre_allocator *allocator = NULL;

    REQUIRE_OK(acre_allocator_create(&desc, &allocator));
    return allocator;
}

TEST(a_slot_is_replaced_by_an_equal_or_higher_priority)
{
    acre_allocator *a = simple("a"), *b = simple("b");
    bool replaced = false;

    EXPECT(!acre_allocator_get(ACRE_DEVICE_CUDA));
    REQUIRE_OK(acre_allocator_set(ACRE_DEVICE_CUDA, a, 0, &replaced));
    EXPECT(replaced);
    EXPECT_PTR_EQ(acre_allocator_get(ACRE_DEVICE_CUDA), a);
    REQUIRE_OK(acre_allocator_set(ACRE_DEVICE_CUDA, b, 0, &replaced));
    EXPECT(replaced);
    EXPECT_PTR_EQ(acre_allocator_get(ACRE_DEVICE_CUDA), b);
    REQUIRE_OK(acre_allocator_set(ACRE_DEVICE_CUDA, a, 255, NULL));
    REQUIRE_OK(acre_allocator_set(ACRE_DEVICE_CUDA, b, 254, &replaced));
    EXPECT(!replaced);
    EXPECT_PTR_EQ(acre_allocator_get(ACRE_DEVICE_CUDA), a);
    REQUIRE_OK(acre_allocator_set(ACRE_DEVICE_CUDA, NULL, 254, &replaced));
    EXPECT(!replaced);
    REQUIRE_OK(acre_allocator_set(ACRE_DEVICE_CUDA, b, 255, &replaced));
    EXPECT_PTR_EQ(acre_allocator_get(ACRE_DEVICE_CUDA), b);
    EXPECT(!acre_allocator_get(ACRE_DEVICE_HIP));
    acre_allocator_destroy(a);
    acre_allocator_destroy(b);
}

TEST(a_destroyed_allocator_leaves_its_slots)
{
    acre_allocator *a = simple("a"), *b = simple("b");

    REQUIRE_OK(acre_allocator_set(ACRE_DEVICE_CUDA, a, 9, NULL));
    REQUIRE_OK(acre_host_allocator_set(ACRE_DEVICE_CUDA, a, 9, NULL));
    acre_allocator_destroy(a);
    EXPECT(!acre_allocator_get(ACRE_DEVICE_CUDA));
    EXPECT(!acre_host_allocator_get(ACRE_DEVICE_CUDA));
    REQUIRE_OK(acre_allocator_set(ACRE_DEVICE_CUDA, b, 0, NULL));
    EXPECT_PTR_EQ(acre_allocator_get(ACRE_DEVICE_CUDA), b);
    acre_allocator_destroy(b);
}

TEST(host_memory_has_a_registry_of_its_own)
{
    acre_allocator *a = simple("a"), *b = simple("b");
    bool replaced = true;

    REQUIRE_OK(acre_allocator_set(ACRE_DEVICE_CUDA, a, 7, NULL));
    EXPECT(!acre_host_allocator_get(ACRE_DEVICE_CUDA));
    REQUIRE_OK(acre_host_allocator_set(ACRE_DEVICE_CUDA, b, 3, NULL));
    REQUIRE_OK(acre_host_allocator_set(ACRE_DEVICE_CUDA, a, 2, &replaced));
    EXPECT(!replaced);
    EXPECT_PTR_EQ(acre_host_allocator_get(ACRE_DEVICE_CUDA), b);
    EXPECT_PTR_EQ(acre_allocator_get(ACRE_DEVICE_CUDA), a);
    acre_allocator_destroy(a);
    acre_allocator_destroy(b);
}

TEST(types_that_do_not_exist_are_refused)
{
    acre_allocator *a = simple("a");

    EXPECT_EQ(acre_allocator_set((acre_device_type)-1, a, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_allocator_set((acre_device_type)ACRE_DEVICE_TYPE_COUNT, a, 0, NULL),
              ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "22");
    EXPECT_EQ(acre_host_allocator_set((acre_device_type)99, a, 0, NULL), ACRE_ERR_INVALID);
    EXPECT(!acre_allocator_get((acre_device_type)-1));
    EXPECT(!acre_host_allocator_get((acre_device_type)99));
    acre_allocator_destroy(a);
}

TEST(a_device_allocator_must_be_one)
{
    acre_allocator *a = simple("a"), *got = NULL;

    EXPECT_EQ(acre_allocator_get_device(ACRE_DEVICE_CPU, &got), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_allocator_get_device((acre_device_type)99, &got), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_allocator_get_device(ACRE_DEVICE_HIP, &got), ACRE_ERR_NOT_FOUND);
    REQUIRE_OK(acre_allocator_set(ACRE_DEVICE_HIP, a, 0, NULL));
    EXPECT_EQ(acre_allocator_get_device(ACRE_DEVICE_HIP, &got), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "\"a\"");
    EXPECT(!got);
    acre_allocator_destroy(a);
}

static void *set_often(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        acre_allocator_set(ACRE_DEVICE_OPENCL, arg, (uint8_t)(i / 8), NULL);
        if (!acre_allocator_get(ACRE_DEVICE_OPENCL))
            return arg;
    }
    return NULL;
}

TEST(threads_may_set_and_get_at_once)
{
    acre_allocator *allocators[4] = {simple("0"), simple("1"), simple("2"), simple("3")};
    pthread_t threads[4];
    void *failed;

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, set_often, allocators[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &failed);
        EXPECT(!failed);
    }
    for (int i = 0; i < 4; i++)
        acre_allocator_destroy(allocators[i]);
    EXPECT(!acre_allocator_get(ACRE_DEVICE_OPENCL));
}

T_MAIN()
