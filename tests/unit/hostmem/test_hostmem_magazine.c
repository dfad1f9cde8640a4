/* SPDX-License-Identifier: MIT */
/* Threads and what they keep. */
#include "tests/unit/hostmem/heap_make.h"

#include "hostmem/magazine.h"
#include "tests/unit/hostmem/crowd.h"

TEST(threads_end_and_leave_nothing_behind)
{
    struct crowd crowd = {.heap = heap_make(0, 0), .seed = t_seed()};
    pthread_t threads[4];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            REQUIRE_EQ(pthread_create(&threads[i], NULL, member_run, &crowd), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
    EXPECT_EQ(crowd.failures, 0);
    EXPECT_EQ(stats_of(crowd.heap).small_count, 0);
    EXPECT_EQ(stats_of(crowd.heap).cache.allocated_bytes.all.current,
              stats_of(crowd.heap).slab_bytes);
    EXPECT(list_empty(&crowd.heap->threads));
    acre_hostmem_destroy(crowd.heap);
}

static void *free_elsewhere(void *arg)
{
    void **pair = arg;

    return (void *)(uintptr_t)acre_hostmem_free(pair[0], pair[1]);
}

TEST(a_block_may_be_freed_by_another_thread)
{
    acre_hostmem *heap = heap_make(0, 0);

    for (size_t bytes = 64; bytes <= 1 << 20; bytes *= 4) {
        void *pair[2] = {heap, NULL}, *result;
        pthread_t thread;
        REQUIRE_OK(acre_hostmem_alloc(heap, bytes, &pair[1]));
        REQUIRE_EQ(pthread_create(&thread, NULL, free_elsewhere, pair), 0);
        pthread_join(thread, &result);
        EXPECT_PTR_EQ(result, NULL);
    }
    EXPECT_EQ(stats_of(heap).small_count, 0);
    acre_hostmem_destroy(heap);
}

/* Keeps blocks at hand of a heap that ends meanwhile, then uses the next one. */
struct visit {
    acre_hostmem *heap;
    pthread_barrier_t barrier;
    acre_status status;
};

static void *visit_run(void *arg)
{
    struct visit *visit = arg;
    void *pointer = NULL;

    acre_hostmem_alloc(visit->heap, 64, &pointer);
    acre_hostmem_free(visit->heap, pointer);
    pthread_barrier_wait(&visit->barrier);
    pthread_barrier_wait(&visit->barrier);
    visit->status = acre_hostmem_alloc(visit->heap, 64, &pointer);
    if (visit->status == ACRE_OK)
        visit->status = acre_hostmem_free(visit->heap, pointer);
    return NULL;
}

TEST(a_thread_outlives_the_heap_it_kept_blocks_of)
{
    struct visit visit = {.heap = heap_make(0, 0)};
    pthread_t thread;

    pthread_barrier_init(&visit.barrier, NULL, 2);
    REQUIRE_EQ(pthread_create(&thread, NULL, visit_run, &visit), 0);
    pthread_barrier_wait(&visit.barrier);
    acre_hostmem_destroy(visit.heap);
    visit.heap = heap_make(0, 0);
    pthread_barrier_wait(&visit.barrier);
    pthread_join(thread, NULL);
    EXPECT_EQ(visit.status, ACRE_OK);
    EXPECT_EQ(stats_of(visit.heap).small_allocated, 1);
    pthread_barrier_destroy(&visit.barrier);
    acre_hostmem_destroy(visit.heap);
}
T_MAIN()
