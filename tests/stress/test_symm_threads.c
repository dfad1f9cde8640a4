/* SPDX-License-Identifier: MIT */
/* Ranks that are threads of one process: rendezvous, barriers and collectives all at once, so
 * that a race detector sees them. */
#include "base/heap.h"

#include "tests/support/t.h"

#include <acre/acre.h>

#include <pthread.h>

enum { COUNT = 3 };

struct member {
    pthread_t thread;
    int rank;
    acre_store *store;
};

static void use(acre_symm *symm, float *base, int rank)
{
    float out[512];

    for (int round = 0; round < (int)t_count(80, 5000); round++) {
        for (int i = 0; i < 2000; i++)
            base[i] = (float)(rank + 1 + round);
        REQUIRE_OK(acre_symm_all_reduce(symm, 0, 512, ACRE_DTYPE_F32, out, NULL));
        EXPECT(out[511] == (float)(6 + 3 * round));
        REQUIRE_OK(acre_symm_all_reduce(symm, 0, 2000, ACRE_DTYPE_F32, NULL, NULL));
        EXPECT(base[1999] == (float)(6 + 3 * round));
        REQUIRE_OK(acre_symm_barrier(symm, round % 5, 0));
        REQUIRE_OK(acre_symm_put_signal(symm, (rank + 1) % COUNT, 7, 0));
        REQUIRE_OK(acre_symm_wait_signal(symm, (rank + COUNT - 1) % COUNT, 7, 0));
        REQUIRE_OK(acre_symm_broadcast(symm, 0, 8000, round % COUNT, NULL));
    }
}

static void *member_main(void *arg)
{
    struct member *member = arg;
    char name[16];
    acre_group *group;
    acre_symm *symm;
    float *base;

    snprintf(name, sizeof name, "thread %d", member->rank);
    acre_group_config config = {.struct_size = sizeof config, .rank = member->rank,
                                .world_size = COUNT, .name = name, .store_name = "threads",
                                .store = member->store, .timeout_ms = 60000};
    REQUIRE_OK(acre_group_create(&config, &group));
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(acre_symm_alloc(NULL, 8000, (void **)&base));
        REQUIRE_OK(acre_symm_rendezvous(base, name, &symm));
        use(symm, base, member->rank);
        acre_symm_release(symm);
        acre_symm_free(base);
    }
    acre_group_destroy(group);
    return NULL;
}

TEST(threads_are_ranks)
{
    struct member members[COUNT];
    acre_store *store;
    uint64_t live = heap_live_count();

    REQUIRE_OK(acre_store_create_local(&store));
    for (int i = 0; i < COUNT; i++) {
        members[i] = (struct member){.rank = i, .store = store};
        REQUIRE(pthread_create(&members[i].thread, NULL, member_main, &members[i]) == 0);
    }
    for (int i = 0; i < COUNT; i++)
        pthread_join(members[i].thread, NULL);
    acre_store_destroy(store);
    EXPECT_EQ(heap_live_count(), live);
}

T_MAIN()
