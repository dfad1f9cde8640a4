/* SPDX-License-Identifier: MIT */
#include <acre/acre.h>

#include "tests/support/t.h"

#include <pthread.h>
#include <string.h>

TEST(a_library_brings_its_backend)
{
    acre_backend *backend = NULL, *again = NULL;
    acre_device *device;
    void *memory;

    REQUIRE_OK(acre_backend_load(ACRE_TEST_TOY, &backend));
    EXPECT_STR_EQ(acre_backend_name(backend), "toy");
    REQUIRE_OK(acre_backend_load(ACRE_TEST_TOY, &again));
    EXPECT(again == backend);
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_device_alloc(device, 4096, &memory));
    REQUIRE_OK(acre_device_free(device, memory));
    acre_backend_unregister(backend);
}

struct loading {
    pthread_barrier_t barrier;
    acre_backend *backends[2];
    _Atomic int count; /* who has begun */
    uint64_t rounds;
};

/* Loads in each round at the same moment as the other thread; one of them unregisters. */
static void *load_again(void *arg)
{
    struct loading *loading = arg;
    int own = loading->count++;

    for (uint64_t i = 0; i < loading->rounds; i++) {
        loading->backends[own] = NULL;
        pthread_barrier_wait(&loading->barrier);
        EXPECT_EQ(acre_backend_load(ACRE_TEST_TOY, &loading->backends[own]), ACRE_OK);
        pthread_barrier_wait(&loading->barrier);
        if (own == 0) {
            EXPECT(loading->backends[0] == loading->backends[1]);
            acre_backend_unregister(loading->backends[0]);
        }
        pthread_barrier_wait(&loading->barrier);
    }
    return NULL;
}

TEST(threads_that_load_together_get_the_one_backend)
{
    struct loading loading = {.rounds = t_count(2000, 20000)};
    pthread_t thread;

    pthread_barrier_init(&loading.barrier, NULL, 2);
    REQUIRE_EQ(pthread_create(&thread, NULL, load_again, &loading), 0);
    load_again(&loading);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&loading.barrier);
}

TEST(what_is_no_backend_is_refused)
{
    acre_backend *backend = NULL;

    EXPECT_EQ(acre_backend_load("libnowhere-at-all.so", &backend), ACRE_ERR_UNSUPPORTED);
    EXPECT(strstr(acre_last_error(), "libnowhere-at-all.so") != NULL);
    EXPECT_EQ(acre_backend_load("libm.so.6", &backend), ACRE_ERR_UNSUPPORTED);
    EXPECT(strstr(acre_last_error(), "acre_backend_describe") != NULL);
    EXPECT_EQ(acre_backend_load(NULL, &backend), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_backend_load("libm.so.6", NULL), ACRE_ERR_INVALID);
    EXPECT(backend == NULL);
}

T_MAIN()
