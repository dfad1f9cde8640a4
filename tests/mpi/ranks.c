/* SPDX-License-Identifier: MIT */
/* A rank that an mpirun started: everything that must hold between hosts, over that MPI's
 * windows and with nothing but what users see. Run by hosts.sh.
 *
 *     ACRE_TEST_HOSTS=N   ranks are dealt out in turn to so many made-up hosts
 *     ACRE_TEST_STOP=1    one rank stops for a while and the others say so
 */
#include "tests/support/far_suite.h"

#include <signal.h>
#include <unistd.h>

static acre_group *group;
static int rank, count;

/* Before anything is joined. */
static void hosts_make_up(void)
{
    const char *hosts = getenv("ACRE_TEST_HOSTS"), *text = getenv("OMPI_COMM_WORLD_RANK");
    char name[16];

    if (!hosts)
        return;
    text = text ? text : getenv("PMI_RANK");
    snprintf(name, sizeof name, "host%d", atoi(text ? text : "0") % atoi(hosts));
    setenv("ACRE_SYMM_HOST", name, 1);
}

/* Whom this rank can reach directly, by asking. */
static void near_find(bool *is_near)
{
    acre_symm *symm;
    void *base, *at;

    REQUIRE_OK(acre_symm_alloc(NULL, 64, &base));
    REQUIRE_OK(acre_symm_rendezvous(base, "world", &symm));
    for (int i = 0; i < count; i++)
        is_near[i] = acre_symm_buffer(symm, i, 0, 64, &at) == ACRE_OK;
    REQUIRE_OK(acre_symm_barrier(symm, 0, 30000));
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(everything_works_over_windows)
{
    bool is_near[64];
    int near_count = 0;

    hosts_make_up();
    REQUIRE_OK(acre_group_create_env("world", &group));
    rank = acre_group_rank(group);
    count = acre_group_world_size(group);
    REQUIRE(count <= 64);
    near_find(is_near);
    for (int i = 0; i < count; i++)
        near_count += is_near[i];
    EXPECT(is_near[rank]);
    EXPECT_LT(near_count, count);
    far_suite(is_near);
    if (rank == 0)
        printf("%d ranks, %d on the first host\n", count, near_count);
}

/* While a rank stands still the others get errors, not a hang, in time. */
TEST(a_stopped_rank_is_named)
{
    acre_symm *symm;
    void *base;

    if (!getenv("ACRE_TEST_STOP"))
        T_SKIP("with ACRE_TEST_STOP=1: MPI's own calls may hold others up");
    REQUIRE_OK(acre_symm_alloc(NULL, 64, &base));
    REQUIRE_OK(acre_symm_rendezvous(base, "world", &symm));
    REQUIRE_OK(acre_symm_barrier(symm, 0, 30000));
    if (rank == 1) {
        pid_t helper = fork();
        if (helper == 0) {
            sleep(3);
            kill(getppid(), SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
    } else {
        usleep(300000);
        EXPECT_EQ(acre_symm_barrier(symm, 1, 500), ACRE_ERR_TIMEOUT);
        sleep(4);
    }
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(the_group_ends)
{
    acre_group_destroy(group);
}

T_MAIN()
