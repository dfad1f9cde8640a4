/* SPDX-License-Identifier: MIT */
/* The memory handler for NumPy, with a fallback that counts. */
#include "tests/unit/hostmem/heap_make.h"

/* As NumPy declares it. */
struct numpy_like {
    char name[127];
    uint8_t version;
    void *context;
    void *(*malloc)(void *context, size_t bytes);
    void *(*calloc)(void *context, size_t count, size_t bytes);
    void *(*realloc)(void *context, void *pointer, size_t bytes);
    void (*free)(void *context, void *pointer, size_t bytes);
};

static int calls[4];

static void *plain_malloc(void *context, size_t bytes)
{
    (void)context;
    calls[0]++;
    return malloc(bytes);
}

static void *plain_calloc(void *context, size_t count, size_t bytes)
{
    (void)context;
    calls[1]++;
    return calloc(count, bytes);
}

static void *plain_realloc(void *context, void *pointer, size_t bytes)
{
    (void)context;
    calls[2]++;
    return realloc(pointer, bytes);
}

static void plain_free(void *context, void *pointer, size_t bytes)
{
    (void)context;
    (void)bytes;
    calls[3]++;
    free(pointer);
}

TEST(small_and_foreign_blocks_stay_with_numpy)
{
    struct numpy_like own = {.version = 1,
                             .malloc = plain_malloc,
                             .calloc = plain_calloc,
                             .realloc = plain_realloc,
                             .free = plain_free};
    acre_hostmem *heap = heap_make(64 << 20, 0);
    struct numpy_like *made, *again;
    char *small, *large, *foreign = malloc(5000);

    REQUIRE_OK(acre_hostmem_numpy_handler(heap, &own, (void **)&made));
    REQUIRE_OK(acre_hostmem_numpy_handler(heap, &own, (void **)&again));
    EXPECT_PTR_EQ(made, again);
    EXPECT_STR_EQ(made->name, "acre");
    small = made->malloc(made->context, 1000);
    large = made->calloc(made->context, 1000, 1000);
    EXPECT_EQ(calls[0], 1);
    EXPECT_EQ(acre_hostmem_usable_bytes(heap, small), 0);
    EXPECT(acre_hostmem_usable_bytes(heap, large) >= 1000000);
    EXPECT_EQ(large[999999], 0);
    large[0] = 5;
    large = made->realloc(made->context, large, 4000000);
    EXPECT_EQ(large[0], 5);
    foreign = made->realloc(made->context, foreign, 6000);
    EXPECT_EQ(calls[2], 1);
    EXPECT_PTR_EQ(made->malloc(made->context, 100 << 20), NULL);
    EXPECT_PTR_EQ(made->realloc(made->context, large, 100 << 20), NULL);
    EXPECT_EQ(large[0], 5);
    made->free(made->context, small, 1000);
    made->free(made->context, foreign, 6000);
    EXPECT_EQ(calls[3], 2);
    made->free(made->context, large, 4000000);
    EXPECT_EQ(stats_of(heap).cache.allocated_bytes.all.current, 0);
    acre_hostmem_destroy(heap);
}

TEST(a_fallback_of_another_version_is_refused)
{
    struct numpy_like own = {.version = 2};
    acre_hostmem *heap = heap_make(0, 0);
    void *made = NULL;

    EXPECT_EQ(acre_hostmem_numpy_handler(heap, &own, &made), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_hostmem_numpy_handler(heap, NULL, &made), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(made, NULL);
    acre_hostmem_destroy(heap);
}
T_MAIN()
