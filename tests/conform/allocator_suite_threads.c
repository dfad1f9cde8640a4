/* SPDX-License-Identifier: MIT */
/* Rules of allocators, many threads: pointers wander between threads, each
 * carries a pattern, and nobody else may have written over it. */
#include "tests/conform/allocator_suite.h"

#include <pthread.h>

#define THREADS 6
#define SLOTS 64

void suite_allocator_threads(void)
{
}

/* A pointer on the table for any thread to take. */
struct offer {
    pthread_mutex_t lock;
    acre_data_ptr ptr;
    size_t bytes;
    int pattern;
};

static struct offer offers[SLOTS];
static acre_allocator *shared;
static int damaged, refused;

static void take_and_check(struct offer *offer)
{
    acre_data_ptr ptr = ACRE_DATA_PTR_EMPTY;

    pthread_mutex_lock(&offer->lock);
    acre_data_ptr_move(&ptr, &offer->ptr);
    size_t bytes = offer->bytes;
    int pattern = offer->pattern;
    pthread_mutex_unlock(&offer->lock);
    if (ptr.data && !allocator_holds(&ptr, pattern, bytes))
        __atomic_fetch_add(&damaged, 1, __ATOMIC_RELAXED);
    acre_data_ptr_clear(&ptr);
}

static void put(struct offer *offer, uint64_t r)
{
    acre_data_ptr ptr = ACRE_DATA_PTR_EMPTY;
    size_t bytes = r % 5 ? (r >> 8) % 3000 + 1 : (r >> 8) % 300000 + 1;
    int pattern = (int)(r >> 40) & 0x7f;

    if (acre_allocator_allocate(shared, bytes, &ptr) != ACRE_OK) {
        __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
        return;
    }
    allocator_fill(&ptr, pattern, bytes);
    pthread_mutex_lock(&offer->lock);
    if (!acre_data_ptr_is_set(&offer->ptr)) {
        acre_data_ptr_move(&offer->ptr, &ptr);
        offer->bytes = bytes;
        offer->pattern = pattern;
    }
    pthread_mutex_unlock(&offer->lock);
    acre_data_ptr_clear(&ptr);
}

static void *work(void *arg)
{
    uint64_t state = t_seed() + (uint64_t)(uintptr_t)arg;
    int devices = acre_device_count(allocator_suite.type);

    for (uint64_t step = t_count(400, 20000); step; step--) {
        uint64_t r = t_random(&state);
        acre_device_set(allocator_suite.type, (int)((r >> 50) % (unsigned)devices));
        if (r >> 63)
            take_and_check(&offers[(r >> 32) % SLOTS]);
        else
            put(&offers[(r >> 32) % SLOTS], r);
    }
    return NULL;
}

TEST(threads_allocate_and_free_for_each_other)
{
    pthread_t threads[THREADS];

    shared = allocator_begin();
    int devices = acre_device_count(allocator_suite.type);
    damaged = refused = 0;
    for (int i = 0; i < SLOTS; i++) {
        pthread_mutex_init(&offers[i].lock, NULL);
        acre_data_ptr_init(&offers[i].ptr);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++) {
        take_and_check(&offers[i]);
        pthread_mutex_destroy(&offers[i].lock);
    }
    EXPECT_EQ(damaged, 0);
    EXPECT_EQ(refused, 0);
    for (int i = 0; acre_allocator_is_device(shared) && i < devices; i++) {
        acre_allocator_stats stats = {.struct_size = sizeof stats};
        REQUIRE_OK(acre_allocator_stats_get(shared, i, &stats));
        EXPECT_EQ(stats.allocated_bytes.current, 0);
        EXPECT_EQ(stats.allocated_bytes.allocated, stats.allocated_bytes.freed);
    }
    allocator_end(shared);
}
