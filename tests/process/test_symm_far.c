/* SPDX-License-Identifier: MIT */
/* Ranks on several hosts, over the wire of tests: everything works, and who is dead, late or
 * different is named. */
#include "symm/collective/counters.h"
#include "symm/deadline.h"
#include "symm/far/far.h"
#include "symm/team/group.h"
#include "symm/far/mail.h"
#include "symm/link/member.h"
#include "symm/far/plug.h"
#include "symm/link/post.h"
#include "symm/far/reach.h"

#include "tests/support/far_suite.h"
#include "tests/support/wire.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* Two hosts, ranks dealt out in turn; is_near as this rank sees it. */
static void hosts_begin(struct rank *me, bool *is_near)
{
    wire_begin(me, me->rank % 2);
    for (int i = 0; i < me->count; i++)
        is_near[i] = i % 2 == me->rank % 2;
}

static void everything(struct rank *me)
{
    bool is_near[RANKS_MAX];

    hosts_begin(me, is_near);
    far_suite(is_near);
    REQUIRE_OK(acre_group_barrier(me->group));
    mail_sweep();
    ranks_meet(me, 0);
}

TEST(all_operations_reach_ranks_on_other_hosts)
{
    ranks_run(2, everything);
    ranks_run(3, everything);
    ranks_run(4, everything);
}

/* Who lets go first keeps its memory until the other is done with it. */
static void teardown(struct rank *me)
{
    int before = t_map_count();
    void *base;

    wire_begin(me, me->rank);
    acre_symm *symm = ranks_symm(me, 4096, &base);
    acre_symm *again = ranks_symm(me, 64, NULL); /* stays, so that counts are settled */
    int between = t_map_count();
    if (me->rank == 0) {
        acre_symm_release(symm);
        acre_symm_free(base);
    }
    ranks_meet(me, 0);
    if (me->rank == 1) {
        REQUIRE_OK(acre_symm_put(symm, 0, 0, "late", 5, NULL));
        acre_symm_release(symm);
        acre_symm_free(base);
    }
    ranks_meet(me, 1);
    mail_sweep();
    EXPECT_EQ(t_map_count(), between - 2); /* block and control page */
    EXPECT_LT(before, between);
    ranks_meet(me, 2);
    acre_symm_release(again);
}

TEST(memory_stays_until_all_hosts_are_done_with_it)
{
    ranks_run(2, teardown);
}

/* A rank dies where nobody else can see its process. */
static void dies(struct rank *me)
{
    wire_begin(me, me->rank / 2);
    acre_symm *symm = ranks_symm(me, 65536, NULL);
    float out[16];
    int64_t begin = clock_ns();

    REQUIRE_OK(acre_symm_barrier(symm, 0, 0));
    ranks_meet(me, 0);
    if (me->rank == 3)
        raise(SIGKILL);
    if (me->rank == 0) {
        EXPECT_EQ(acre_symm_barrier(symm, 0, 0), ACRE_ERR_PEER);
        EXPECT_HAS(acre_last_error(), "rank 3");
        EXPECT_EQ(acre_symm_get(symm, 3, 0, out, 64, NULL), ACRE_ERR_PEER);
        EXPECT_HAS(acre_last_error(), "rank 3");
    }
    if (me->rank == 1) {
        EXPECT_EQ(acre_symm_wait_signal(symm, 3, 0, 0), ACRE_ERR_PEER);
        EXPECT_HAS(acre_last_error(), "rank 3");
    }
    if (me->rank == 2) { /* on the same host */
        EXPECT_EQ(acre_symm_wait_signal(symm, 3, 0, 0), ACRE_ERR_PEER);
        EXPECT_HAS(acre_last_error(), "rank 3");
    }
    ranks_meet_some(me, 1, 3);
    EXPECT_EQ(acre_symm_all_reduce(symm, 0, 1000, ACRE_DTYPE_F32, NULL, NULL), ACRE_ERR_PEER);
    EXPECT_HAS(acre_last_error(), "rank 3");
    EXPECT_EQ(acre_group_barrier(me->group), ACRE_ERR_PEER);
    EXPECT_HAS(acre_last_error(), "rank 3");
    EXPECT_LT(clock_ns() - begin, 20000 * NS_PER_MS);
    ranks_meet_some(me, 2, 3);
}

TEST(S56_a_dead_rank_on_another_host_is_named)
{
    ranks_run_with(4, dies, 60000, 1u << 3);
}

/* A stopped rank answers nothing; every operation comes back in time and names it. */
static void stops(struct rank *me)
{
    acre_collective_options options = {.struct_size = sizeof options, .timeout_ms = 100};
    char byte = 1;

    wire_begin(me, me->rank);
    acre_symm *symm = ranks_symm(me, 4096, NULL);
    if (me->rank == 1) {
        atomic_store(&me->shared[0], (uint64_t)getpid());
        ranks_meet(me, 0);
        raise(SIGSTOP);
        atomic_store(&me->shared[1], 1);
    } else {
        ranks_meet(me, 0);
        char path[64], line[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int)atomic_load(&me->shared[0]));
        while (!strstr(line, ") T")) {
            FILE *file = fopen(path, "r");
            REQUIRE(file && fgets(line, sizeof line, file));
            fclose(file);
            usleep(1000);
        }
        EXPECT_EQ(acre_symm_put(symm, 1, 0, &byte, 1, &options), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "rank 1");
        EXPECT_EQ(acre_symm_get(symm, 1, 0, &byte, 1, &options), ACRE_ERR_TIMEOUT);
        EXPECT_EQ(acre_symm_barrier(symm, 0, 100), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "rank 1");
        EXPECT_EQ(acre_symm_put_signal(symm, 1, 0, 100), ACRE_ERR_TIMEOUT);
        EXPECT_EQ(acre_symm_all_reduce(symm, 0, 4, ACRE_DTYPE_F32, NULL, &options),
                  ACRE_ERR_TIMEOUT);
        EXPECT_EQ(byte, 1); /* nothing comes late */
        while (!atomic_load(&me->shared[1])) {
            kill((pid_t)atomic_load(&me->shared[0]), SIGCONT);
            usleep(1000);
        }
    }
    ranks_meet(me, 1);
}

TEST(a_stopped_rank_on_another_host_is_named_in_time)
{
    ranks_run(2, stops);
}

static void differs(struct rank *me)
{
    acre_symm *symm = NULL;
    void *base;

    wire_begin(me, me->rank);
    REQUIRE_OK(acre_symm_alloc(NULL, me->rank == 1 ? 100 : 200, &base));
    EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "buffer sizes differ");
    acre_symm_free(base);
    ranks_meet(me, 0);
    symm = ranks_symm(me, 300, &base); /* the group is as good as before */
    REQUIRE_OK(acre_symm_barrier(symm, 0, 0));
    ranks_meet(me, 1);
}

TEST(S22_differences_are_found_across_hosts)
{
    ranks_run(3, differs);
}

static void stays_away(struct rank *me)
{
    acre_symm *symm = NULL;
    void *base;

    wire_begin(me, me->rank);
    symm = ranks_symm(me, 64, &base);
    me->group->timeout_ms = 300;
    ranks_meet(me, 0);
    if (me->rank != 2) {
        REQUIRE_OK(acre_symm_alloc(NULL, 100, &base));
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "2 did not come");
    }
    ranks_meet(me, 1);
}

TEST(S34_a_rank_that_stays_away_is_named_across_hosts)
{
    ranks_run(3, stays_away);
}

/* Without a wire, and with device memory, the answer is no. */
static void no_wire(struct rank *me)
{
    acre_symm *symm = NULL;
    void *base;

    setenv("ACRE_SYMM_HOST", me->rank ? "one" : "two", 1);
    REQUIRE_OK(acre_symm_alloc(NULL, 100, &base));
    EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "different hosts");
    ranks_meet(me, 0);
    acre_symm_free(base);
}

TEST(hosts_without_a_wire_are_refused)
{
    ranks_run(2, no_wire);
}

TEST(a_wire_that_is_not_there_is_named)
{
    const struct wire_ops *ops;

    setenv("ACRE_SYMM_WIRE", "nothing", 1);
    EXPECT_EQ(plug_find(&ops), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "nothing");
    setenv("ACRE_SYMM_WIRE", "none", 1);
    REQUIRE_OK(plug_find(&ops));
    EXPECT(ops == NULL);
    unsetenv("ACRE_SYMM_WIRE");
    setenv("PMI_SIZE", "4", 1);
    setenv("MPI_LOCALNRANKS", "4", 1);
    EXPECT(!plug_has_hosts());
    setenv("MPI_LOCALNRANKS", "2", 1);
    EXPECT(plug_has_hosts());
    unsetenv("PMI_SIZE");
    unsetenv("MPI_LOCALNRANKS");
}

static _Atomic int is_over;

/* What every rendezvous does first. */
static void *look_again(void *arg)
{
    while (!is_over) {
        mail_sweep();
        far_use(NULL, NULL);
    }
    return arg;
}

static void child_looks(void *arg)
{
    (void)arg;
    alarm(20);
    mail_sweep();
    far_use(NULL, NULL);
}

/* A child that makes a group of its own looks as well. */
TEST(a_child_of_fork_finds_the_wire_free)
{
    pthread_t threads[2];

    is_over = 0;
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, look_again, NULL) == 0);
    for (uint64_t i = 0, hung = 0; i < t_count(100, 2000) && !hung; i++) {
        hung = t_child(child_looks, NULL) != 0;
        EXPECT(!hung);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

T_MAIN()
