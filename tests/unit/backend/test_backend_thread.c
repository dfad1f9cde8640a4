/* SPDX-License-Identifier: MIT */
/* What threads choose lives as long as they do, and no backend confuses them. */
#include "backend/thread.h"

#include "base/heap.h"
#include "tests/support/sim_pair.h"
#include "tests/support/small_backend.h"

#include <pthread.h>

#define TYPE ACRE_DEVICE_OPENCL

static struct small small = SMALL_INITIALIZER;

static void *choose(void *unused)
{
    (void)unused;
    EXPECT_EQ(acre_device_set(TYPE, 1), ACRE_OK);
    EXPECT_EQ(acre_stream_set_current((acre_stream){2, 0, TYPE}), ACRE_OK);
    return NULL;
}

TEST(choices_go_with_their_thread)
{
    acre_backend *backend;
    pthread_t thread;
    uint64_t live;

    REQUIRE_OK(small_register("mine", TYPE, &small, &backend));
    live = heap_live_count();
    REQUIRE_EQ(pthread_create(&thread, NULL, choose, NULL), 0);
    pthread_join(thread, NULL);
    EXPECT_EQ(heap_live_count(), live);
    acre_backend_unregister(backend);
}

TEST(reading_costs_nothing_and_choices_go_with_their_backend)
{
    uint64_t live = heap_live_count();
    acre_backend *backend;
    acre_stream stream;
    int index;

    REQUIRE_OK(small_register("mine", TYPE, &small, &backend));
    uint64_t registered = heap_live_count();
    REQUIRE_OK(acre_device_current(TYPE, &index));
    REQUIRE_OK(acre_stream_current(TYPE, 1, &stream));
    REQUIRE_OK(acre_device_set(TYPE, 0));
    EXPECT_EQ(heap_live_count(), registered);
    REQUIRE_OK(acre_device_set(TYPE, 1));
    EXPECT_EQ(heap_live_count(), registered + 1);
    acre_backend_unregister(backend);
    EXPECT_EQ(heap_live_count(), live);
    /* The next backend of the type, maybe at the same address, starts afresh. */
    REQUIRE_OK(small_register("mine", TYPE, &small, &backend));
    REQUIRE_OK(acre_device_current(TYPE, &index));
    EXPECT_EQ(index, 0);
    acre_backend_unregister(backend);
}

struct relay {
    pthread_barrier_t barrier;
};

/* Chooses, lets the backend go elsewhere, then chooses of another: the useless
 * record is swept. */
static void *outlive(void *arg)
{
    struct relay *relay = arg;
    int index;

    EXPECT_EQ(acre_device_set(TYPE, 1), ACRE_OK);
    pthread_barrier_wait(&relay->barrier);
    pthread_barrier_wait(&relay->barrier);
    EXPECT_EQ(acre_device_current(TYPE, &index), ACRE_OK);
    EXPECT_EQ(index, 0);
    EXPECT_EQ(acre_device_set(TYPE, 1), ACRE_OK);
    EXPECT_EQ(acre_device_current(TYPE, &index), ACRE_OK);
    EXPECT_EQ(index, 1);
    pthread_barrier_wait(&relay->barrier);
    pthread_barrier_wait(&relay->barrier);
    return NULL;
}

TEST(records_of_backends_gone_are_swept)
{
    struct relay relay;
    acre_backend *backend;
    pthread_t thread;
    uint64_t live;

    pthread_barrier_init(&relay.barrier, NULL, 2);
    REQUIRE_OK(small_register("first", TYPE, &small, &backend));
    live = heap_live_count();
    REQUIRE_EQ(pthread_create(&thread, NULL, outlive, &relay), 0);
    pthread_barrier_wait(&relay.barrier);
    acre_backend_unregister(backend);
    REQUIRE_OK(small_register("second", TYPE, &small, &backend));
    pthread_barrier_wait(&relay.barrier);
    pthread_barrier_wait(&relay.barrier);
    EXPECT_EQ(heap_live_count(), live + 1);
    pthread_barrier_wait(&relay.barrier);
    pthread_join(thread, NULL);
    EXPECT_EQ(heap_live_count(), live);
    acre_backend_unregister(backend);
    pthread_barrier_destroy(&relay.barrier);
}

/* Each host allocation of choosing fails in turn; the choice stays as it was. */
TEST(a_choice_that_fails_changes_nothing)
{
    acre_backend *backend;

    REQUIRE_OK(small_register("mine", TYPE, &small, &backend));
    for (uint64_t nth = 1;; nth++) {
        acre_guard guard;
        acre_status status;
        int index;

        heap_fail_nth(nth);
        status = acre_guard_stream(&guard, (acre_stream){2, 1, TYPE});
        if (!heap_fail_disarm()) {
            REQUIRE_OK(status);
            EXPECT_EQ(nth, 2);
            acre_guard_end(&guard);
            break;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        acre_guard_end(&guard);
        REQUIRE_OK(acre_device_current(TYPE, &index));
        EXPECT_EQ(index, 0);
    }
    acre_backend_unregister(backend);
}

static void *guard_often(void *arg)
{
    uint64_t random = t_seed() + (uint64_t)(intptr_t)arg;

    for (int i = 0; i < 2000; i++) {
        int want = (int)(t_random(&random) & 1), index = -1;
        acre_stream stream = {.id = (int64_t)(2 + 2 * (t_random(&random) % 50)),
                              .index = (int)(t_random(&random) & 1), .type = TYPE};
        acre_guard outer, inner;

        EXPECT_EQ(acre_guard_device(&outer, (acre_device_id){TYPE, want}), ACRE_OK);
        EXPECT_EQ(acre_guard_stream(&inner, stream), ACRE_OK);
        EXPECT_EQ(acre_device_current(TYPE, &index), ACRE_OK);
        EXPECT_EQ(index, stream.index);
        acre_guard_end(&inner);
        EXPECT_EQ(acre_device_current(TYPE, &index), ACRE_OK);
        EXPECT_EQ(index, want);
        acre_guard_end(&outer);
    }
    return NULL;
}

TEST(threads_guard_without_seeing_each_other)
{
    acre_backend *backend;
    pthread_t threads[4];

    REQUIRE_OK(small_register("mine", TYPE, &small, &backend));
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, guard_often, (void *)(intptr_t)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    acre_backend_unregister(backend);
}

static void *first_use(void *arg)
{
    acre_device **devices = arg;

    EXPECT_EQ(acre_device_get(ACRE_DEVICE_CPU, 0, &devices[0]), ACRE_OK);
    EXPECT_EQ(acre_device_get(ACRE_DEVICE_PRIVATE, 0, &devices[1]), ACRE_OK);
    return NULL;
}

TEST(builtins_start_once_however_many_ask)
{
    acre_device *devices[4][2];
    pthread_t threads[4];
    acre_backend *backend;

    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 4; i++)
            REQUIRE_EQ(pthread_create(&threads[i], NULL, first_use, devices[i]), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        for (int i = 1; i < 4; i++) {
            EXPECT_PTR_EQ(devices[i][0], devices[0][0]);
            EXPECT_PTR_EQ(devices[i][1], devices[0][1]);
        }
        REQUIRE_OK(acre_backend_find("host", &backend));
        acre_backend_unregister(backend);
        REQUIRE_OK(acre_backend_find("sim", &backend));
        acre_backend_unregister(backend);
    }
}

T_MAIN()
