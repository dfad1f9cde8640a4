/* SPDX-License-Identifier: MIT */
/* Workspaces and topology: S71, S89, S90. */
#include "symm/symm.h"

#include "tests/support/ranks.h"

#include <acre/collective.h>

#include <pthread.h>
#include <unistd.h>

static void workspaces(struct rank *me)
{
    acre_symm *a, *b, *c, *d;
    acre_symm_info info = {.struct_size = sizeof info};

    (void)me;
    REQUIRE_OK(acre_symm_workspace("world", 1000, &a));
    REQUIRE_OK(acre_symm_workspace("world", 1000, &b));
    EXPECT_PTR_EQ(a->team, b->team);
    REQUIRE_OK(acre_symm_workspace("world", 5000, &c));
    EXPECT(a->team != c->team);
    REQUIRE_OK(acre_symm_workspace("world", 200, &d));
    EXPECT_PTR_EQ(c->team, d->team);
    REQUIRE_OK(acre_symm_info_get(d, &info));
    EXPECT_EQ(info.buffer_bytes, 5000);
    EXPECT_EQ(acre_symm_workspace("nobody", 200, &d), ACRE_ERR_NOT_FOUND);
    acre_symm_release(a);
    acre_symm_release(b);
    acre_symm_release(c);
    acre_symm_release(d);
}

TEST(S71_workspaces_grow_and_never_shrink)
{
    ranks_run(2, workspaces);
}

/* ---- Fork --------------------------------------------------------------------------- */

enum { GROUPS = 60 };

static char last_group[32];
static _Atomic int is_over;

/* Asks for the workspace that is found after all others. */
static void *ask_again(void *arg)
{
    acre_symm *symm;

    while (!is_over) {
        if (acre_symm_workspace(last_group, 100, &symm) != ACRE_OK)
            return arg;
        acre_symm_release(symm);
    }
    return NULL;
}

static void child_asks(void *arg)
{
    acre_symm *symm;

    (void)arg;
    alarm(20);
    EXPECT_EQ(acre_symm_workspace(last_group, 100, &symm), ACRE_ERR_FORKED);
}

TEST(a_child_is_refused_while_others_ask)
{
    acre_group_config config = {.struct_size = sizeof config, .world_size = 1,
                                .name = last_group};
    acre_group *groups[GROUPS];
    pthread_t threads[2];
    acre_symm *symm;
    void *failed;

    for (int i = 0; i < GROUPS; i++) {
        snprintf(last_group, sizeof last_group, "group %d", i);
        REQUIRE_OK(acre_group_create(&config, &groups[i]));
        REQUIRE_OK(acre_symm_workspace(last_group, 100, &symm));
        acre_symm_release(symm);
    }
    is_over = 0;
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, ask_again, last_group) == 0);
    for (uint64_t i = 0, hung = 0; i < t_count(100, 2000) && !hung; i++) {
        hung = t_child(child_asks, NULL) != 0;
        EXPECT(!hung);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &failed);
        EXPECT(!failed);
    }
    for (int i = 0; i < GROUPS; i++)
        acre_group_destroy(groups[i]);
}

TEST(S89_connectivity)
{
    int first[4], second[4];

    EXPECT_EQ(acre_symm_connectivity(ACRE_DEVICE_PRIVATE, "strings", 2, first),
              ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_symm_connectivity(ACRE_DEVICE_PRIVATE, "peer", 99, first), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_symm_connectivity(ACRE_DEVICE_PRIVATE, "peer", 2, first));
    REQUIRE_OK(acre_symm_connectivity(ACRE_DEVICE_PRIVATE, "peer", 2, second));
    EXPECT(memcmp(first, second, sizeof first) == 0);
    EXPECT(first[0] == 0 && first[3] == 0 && first[1] == 1 && first[2] == 1);
}

TEST(S90_the_older_choice)
{
    size_t limit = 256 << 10;

    EXPECT_EQ(acre_symm_algorithm_legacy(limit, ACRE_DTYPE_F32, 64), ACRE_ALGORITHM_ONE_SHOT);
    EXPECT_EQ(acre_symm_algorithm_legacy(limit + 4, ACRE_DTYPE_BF16, 64),
              ACRE_ALGORITHM_TWO_SHOT);
    EXPECT_EQ(acre_symm_algorithm_legacy(10 << 20, ACRE_DTYPE_F32, 64),
              ACRE_ALGORITHM_TWO_SHOT);
    EXPECT_EQ(acre_symm_algorithm_legacy((10 << 20) + 4, ACRE_DTYPE_F32, 64),
              ACRE_ALGORITHM_AUTO);
    EXPECT_EQ(acre_symm_algorithm_legacy(64, (acre_dtype)7, 64), ACRE_ALGORITHM_AUTO);
    EXPECT_EQ(acre_symm_algorithm_legacy(64, ACRE_DTYPE_BF16, 2), ACRE_ALGORITHM_AUTO);
}

T_MAIN()
