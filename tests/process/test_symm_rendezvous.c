/* SPDX-License-Identifier: MIT */
/* Rendezvous with real processes: S15 to S34. */
#include "base/heap.h"
#include "symm/link/exchange.h"
#include "symm/link/record.h"
#include "symm/symm.h"

#include "tests/support/ranks.h"

#include <acre/collective.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static void *alloc(size_t bytes)
{
    void *base;

    REQUIRE_OK(acre_symm_alloc(NULL, bytes, &base));
    return base;
}

/* A world of one. */
static acre_group *alone(const char *name)
{
    acre_group *group;
    acre_group_config config = {.struct_size = sizeof config, .world_size = 1, .name = name};

    REQUIRE_OK(acre_group_create(&config, &group));
    return group;
}

/* ---- Rendezvous ------------------------------------------------------------------- */

static void see_each_other(struct rank *me)
{
    char *base, *other, *pad;
    acre_symm *symm = ranks_symm(me, 10000, (void **)&base);
    acre_symm_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_symm_info_get(symm, &info));
    EXPECT_EQ(info.rank, me->rank);
    EXPECT_EQ(info.world_size, me->count);
    for (int i = 0; i < 10000; i++)
        base[i] = (char)(i * 7 + me->rank);
    ranks_meet(me, 0);
    for (int r = 0; r < me->count; r++) {
        REQUIRE_OK(acre_symm_buffer(symm, r, 0, 10000, (void **)&other));
        for (int i = 0; i < 10000; i++)
            EXPECT(other[i] == (char)(i * 7 + r));
        REQUIRE_OK(acre_symm_pad(symm, r, 4, 0, 0, (void **)&pad, NULL));
        EXPECT_EQ(pad - other, info.pad_offset);
        if (r == me->rank)
            EXPECT_PTR_EQ(other, base);
    }
    ranks_meet(me, 1);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S15_S16_every_rank_sees_every_block)
{
    ranks_run(2, see_each_other);
    ranks_run(5, see_each_other);
}

static void subgroups(struct rank *me)
{
    acre_group *group = ranks_subgroup(me, "odd", 0xa); /* ranks 1 and 3 */
    acre_symm *symm = NULL, *world;
    acre_symm_info info = {.struct_size = sizeof info};
    int *base = alloc(64), *other;

    *base = 100 + me->rank;
    REQUIRE_OK(acre_symm_rendezvous(base, "world", &world));
    if (group) {
        REQUIRE_OK(acre_symm_rendezvous(base, "odd", &symm));
        REQUIRE_OK(acre_symm_info_get(symm, &info));
        EXPECT_EQ(info.rank, me->rank / 2);
        EXPECT_EQ(info.world_size, 2);
        REQUIRE_OK(acre_symm_buffer(symm, 1 - info.rank, 0, 4, (void **)&other));
        EXPECT_EQ(*other, 100 + 4 - me->rank);
    }
    REQUIRE_OK(acre_symm_buffer(world, (me->rank + 1) % 4, 0, 4, (void **)&other));
    EXPECT_EQ(*other, 100 + (me->rank + 1) % 4);
    ranks_meet(me, 0);
    acre_symm_release(symm);
    acre_symm_release(world);
    acre_symm_free(base);
    acre_group_destroy(group);
}

TEST(S17_S19_one_block_in_two_groups)
{
    ranks_run(4, subgroups);
}

static void cached(struct rank *me)
{
    char *base, *a, *b;
    acre_symm *first = ranks_symm(me, 4096, (void **)&base), *second, *inner;
    acre_symm_info info = {.struct_size = sizeof info};
    uint64_t epoch = me->group->epoch;

    ranks_meet(me, 0);
    if (me->rank == 0) { /* nobody else takes part */
        REQUIRE_OK(acre_symm_rendezvous(base, "world", &second));
        EXPECT(second != first);
        for (int r = 0; r < me->count; r++) {
            REQUIRE_OK(acre_symm_buffer(first, r, 0, 1, (void **)&a));
            REQUIRE_OK(acre_symm_buffer(second, r, 0, 1, (void **)&b));
            EXPECT_PTR_EQ(a, b);
        }
        REQUIRE_OK(acre_symm_rendezvous(base + 100, "world", &inner));
        REQUIRE_OK(acre_symm_info_get(inner, &info));
        EXPECT_EQ(info.offset, 100);
        REQUIRE_OK(acre_symm_remote(inner, 1, 10, (void **)&b));
        REQUIRE_OK(acre_symm_buffer(inner, 1, 0, 10, (void **)&a));
        EXPECT_EQ(b - a, 100);
        acre_symm_release(second);
        acre_symm_release(inner);
    }
    EXPECT_EQ(me->group->epoch, epoch);
    ranks_meet(me, 1);
    acre_symm_release(first);
    acre_symm_free(base);
}

TEST(S18_S20_a_second_rendezvous_is_local)
{
    ranks_run(2, cached);
}

static void inner_first(struct rank *me)
{
    char *base = alloc(4096), *own;
    acre_symm *symm;

    REQUIRE_OK(acre_symm_rendezvous(base + 64, "world", &symm));
    REQUIRE_OK(acre_symm_buffer(symm, me->rank, 0, 1, (void **)&own));
    EXPECT_PTR_EQ(own, base);
    REQUIRE_OK(acre_symm_remote(symm, me->rank, 1, (void **)&own));
    EXPECT_PTR_EQ(own, base + 64);
    EXPECT_EQ(acre_symm_remote(symm, me->rank, 4096, (void **)&own), ACRE_ERR_INVALID);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S21_the_first_rendezvous_may_be_at_an_offset)
{
    ranks_run(2, inner_first);
}

static void sizes_differ(struct rank *me)
{
    void *base = alloc(me->rank == 2 ? 200000 : 100000);
    acre_symm *symm;

    EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "rank 0 has 100000");
    EXPECT_HAS(acre_last_error(), "rank 2 has 200000");
    acre_symm_free(base);
    symm = ranks_symm(me, 512, &base); /* the group goes on */
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S22_different_sizes_fail_everywhere)
{
    ranks_run(3, sizes_differ);
}

static void pads_differ(struct rank *me)
{
    acre_symm *symm;

    REQUIRE_OK(acre_symm_set_pad_bytes(me->rank ? 9216 : 9200));
    void *base = alloc(100);
    EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "pad");
    acre_symm_free(base);
}

TEST(S23_different_pads_fail_even_in_equal_blocks)
{
    ranks_run(2, pads_differ);
}

static void offers_make(struct record *offers, int count)
{
    for (int i = 0; i < count; i++)
        offers[i] = (struct record){.type = RECORD_CARD, .rank = (uint32_t)i,
                                   .kind = KIND_DEVICE, .device_type = 20, .device_index = i,
                                   .clique = -1, .block_bytes = 8192, .buffer_bytes = 16,
                                   .pad_offset = 16, .pad_bytes = 1024};
}

TEST(S24_overlapping_devices)
{
    struct record offers[3];

    offers_make(offers, 3);
    REQUIRE_OK(record_check(offers, 3));
    offers[2].device_index = 0;
    EXPECT_EQ(record_check(offers, 3), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "ranks 0 and 2 overlap");
    offers[1].flags = ACRE_GROUP_ALLOW_OVERLAP;
    EXPECT_EQ(record_check(offers, 3), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "agree");
    offers[0].flags = offers[2].flags = ACRE_GROUP_ALLOW_OVERLAP;
    REQUIRE_OK(record_check(offers, 3));
    offers[0].flags = offers[1].flags = offers[2].flags = 0;
    offers[0].device_type = 1;
    REQUIRE_OK(record_check(offers, 3));
}

TEST(S25_cliques)
{
    struct record offers[3];

    offers_make(offers, 3);
    offers[0].clique = 4;
    offers[2].clique = 4;
    REQUIRE_OK(record_check(offers, 3));
    offers[2].clique = 5;
    EXPECT_EQ(record_check(offers, 3), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "rank 0 device 0 clique 4");
    EXPECT_HAS(acre_last_error(), "rank 1 device 1 clique -1");
    EXPECT_HAS(acre_last_error(), "rank 2 device 2 clique 5");
}

static void leaves_no_keys(struct rank *me)
{
    uint64_t count;
    void *base;
    acre_symm *symm = ranks_symm(me, 64, &base);

    ranks_meet(me, 0);
    REQUIRE_OK(acre_store_count(me->store, &count));
    EXPECT_EQ(count, 0);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S26_keys_are_removed)
{
    ranks_run(3, leaves_no_keys);
}

static void overlapping(struct rank *me)
{
    acre_group *low = ranks_subgroup(me, "low", 0x3), *high = ranks_subgroup(me, "high", 0x6);
    void *a = alloc(64), *b = alloc(64);
    acre_symm *in_low = NULL, *in_high = NULL;

    if (low)
        REQUIRE_OK(acre_symm_rendezvous(a, "low", &in_low));
    if (high)
        REQUIRE_OK(acre_symm_rendezvous(b, "high", &in_high));
    acre_symm_release(in_low);
    acre_symm_release(in_high);
    acre_symm_free(a);
    acre_symm_free(b);
    acre_group_destroy(low);
    acre_group_destroy(high);
}

TEST(S27_overlapping_groups_in_any_order)
{
    ranks_run(3, overlapping);
}

struct thread {
    pthread_t thread;
    const char *group;
    int rounds;
};

static void *meet_often(void *arg)
{
    struct thread *thread = arg;

    for (int i = 0; i < thread->rounds; i++) {
        void *base = alloc(1024);
        acre_symm *symm;
        REQUIRE_OK(acre_symm_rendezvous(base, thread->group, &symm));
        REQUIRE_OK(acre_symm_barrier(symm, 0, 0));
        acre_symm_release(symm);
        acre_symm_free(base);
    }
    return NULL;
}

static void two_threads(struct rank *me)
{
    struct thread threads[2] = {{.group = "first"}, {.group = "second"}};
    acre_group *groups[2];

    for (int i = 0; i < 2; i++) {
        groups[i] = ranks_subgroup(me, threads[i].group, 3);
        threads[i].rounds = 10;
        REQUIRE(pthread_create(&threads[i].thread, NULL, meet_often, &threads[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i].thread, NULL);
        acre_group_destroy(groups[i]);
    }
}

TEST(S28_two_threads_rendezvous_at_once)
{
    ranks_run(2, two_threads);
}

TEST(S29_a_world_of_one)
{
    acre_group *group = alone("one");
    void *base = alloc(64);
    acre_symm *symm;
    int before = t_fd_count();

    REQUIRE_OK(acre_symm_rendezvous(base, "one", &symm));
    REQUIRE_OK(acre_symm_barrier(symm, 0, 1));
    REQUIRE_OK(acre_group_barrier(group));
    EXPECT_EQ(t_fd_count(), before + 1); /* the control page */
    acre_symm_release(symm);
    acre_symm_free(base);
    acre_group_destroy(group);
    EXPECT_EQ(heap_live_count(), 0);
}

static void count_fds(struct rank *me)
{
    void *base[3];
    acre_symm *symm[3];
    int maps = t_map_count(), before = t_fd_count();

    symm[0] = ranks_symm(me, 64, &base[0]);
    /* Block, control page, and for each other rank a connection and a pidfd. */
    EXPECT_EQ(t_fd_count(), before + 2 + 2 * (me->count - 1));
    for (int i = 1; i < 3; i++)
        symm[i] = ranks_symm(me, 64, &base[i]);
    EXPECT_EQ(t_fd_count(), before + 6 + 2 * (me->count - 1));
    ranks_meet(me, 0);
    acre_symm_free(base[0]); /* before its handle */
    acre_symm_release(symm[0]);
    acre_symm_release(symm[1]); /* before its block */
    acre_symm_free(base[1]);
    acre_symm_free(base[2]);
    acre_symm_release(symm[2]);
    EXPECT_EQ(t_fd_count(), before + 2 * (me->count - 1));
    if (t_slowness() == 1) /* sanitizers map as they like; the heap may have grown */
        EXPECT_LE(t_map_count(), maps + 2);
}

TEST(S30_S33_descriptors_and_mappings_go)
{
    ranks_run(3, count_fds);
}

static int inheritable_before;

/* How many descriptors a program that is started here would get. */
static int inheritable_count(void)
{
    int count = 0;

    for (int fd = 0; fd < 4096; fd++) {
        int flags = fcntl(fd, F_GETFD);
        count += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    return count;
}

static void keep_from_programs(struct rank *me)
{
    int fds = t_fd_count();
    void *base;
    acre_symm *symm = ranks_symm(me, 64, &base);

    EXPECT_EQ(t_fd_count(), fds + 2 + 2 * (me->count - 1)); /* now all are open */
    EXPECT_EQ(inheritable_count(), inheritable_before);
    acre_symm_free(base);
    acre_symm_release(symm);
}

TEST(S36_no_descriptor_of_a_group_reaches_a_program_that_is_started)
{
    inheritable_before = inheritable_count();
    ranks_run(3, keep_from_programs);
}

static void owner_leaves(struct rank *me)
{
    int *base, *other;
    acre_symm *symm = ranks_symm(me, 64, (void **)&base);

    *base = 4711 + me->rank;
    REQUIRE_OK(acre_symm_barrier(symm, 0, 0));
    if (me->rank == 1)
        _exit(0);
    REQUIRE_OK(acre_symm_buffer(symm, 1, 0, 4, (void **)&other));
    while (!link_is_dead(me->group->peers, 1))
        usleep(1000);
    EXPECT_EQ(*other, 4712);
    acre_symm_free(base);
    *base = 1; /* S32: the handle keeps it */
    EXPECT_EQ(*base, 1);
    acre_symm_release(symm);
}

TEST(S31_S32_memory_outlives_owners_and_blocks)
{
    ranks_run(2, owner_leaves);
}

static void dies_before_its_card(struct rank *me)
{
    void *base;
    acre_symm *symm = ranks_symm(me, 64, &base);

    if (me->rank == 1)
        raise(SIGKILL);
    void *second = alloc(64);
    EXPECT_EQ(acre_symm_rendezvous(second, "world", &symm), ACRE_ERR_PEER);
    EXPECT_HAS(acre_last_error(), "rank 1");
    ranks_meet_some(me, 9, me->count - 1);
}

TEST(S34_a_dead_rank_is_named)
{
    ranks_run_with(3, dies_before_its_card, 60000, 2);
}

static void never_comes(struct rank *me)
{
    void *base = alloc(64);
    acre_symm *symm;

    if (me->rank == 2) {
        ranks_meet(me, 0);
    } else {
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "2 did not come");
        ranks_meet(me, 0);
    }
    acre_symm_free(base);
}

TEST(a_rank_that_never_comes_is_named)
{
    ranks_run_with(3, never_comes, 500, 0);
}

static void comes_late(struct rank *me)
{
    void *first, *base = alloc(64);
    acre_symm *symm, *keep = ranks_symm(me, 64, &first);

    if (me->rank == 2)
        ranks_meet(me, 0); /* all others gave up before it comes */
    me->group->timeout_ms = 300;
    EXPECT(acre_symm_rendezvous(base, "world", &symm) != ACRE_OK);
    EXPECT_HAS(acre_last_error(), "2 did not come");
    me->group->timeout_ms = 60000;
    if (me->rank != 2)
        ranks_meet(me, 0);
    REQUIRE_OK(acre_symm_rendezvous(base, "world", &symm));
    acre_symm_release(symm);
    acre_symm_release(keep);
    acre_symm_free(base);
    acre_symm_free(first);
}

TEST(who_comes_late_fails_too_and_all_may_try_again)
{
    ranks_run(3, comes_late);
}

static void many(struct rank *me)
{
    void *bases[100];
    acre_symm *symms[100];

    for (int i = 0; i < 100; i++)
        symms[i] = ranks_symm(me, 4096, &bases[i]);
    for (int i = 0; i < 100; i++) {
        acre_symm_release(symms[i]);
        acre_symm_free(bases[i]);
    }
}

TEST(a_hundred_blocks)
{
    ranks_run(2, many);
}

/* What a child finds: its parent's group, block and handle. */
struct inherited {
    acre_group *group;
    acre_symm *symm;
    void *base, *fresh;
};

static void use_inherited(void *arg)
{
    const struct inherited *parents = arg;
    acre_symm *symm;
    uint64_t word = 7;
    float sum;

    EXPECT_EQ(acre_group_barrier(parents->group), ACRE_ERR_FORKED);
    EXPECT_HAS(acre_last_error(), "group \"world\" was made before fork");
    EXPECT_EQ(acre_symm_rendezvous(parents->base, "world", &symm), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_symm_rendezvous(parents->fresh, "world", &symm), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_symm_all_reduce(parents->symm, 0, 1, ACRE_DTYPE_F32, &sum, NULL),
              ACRE_ERR_FORKED);
    EXPECT_EQ(acre_symm_barrier(parents->symm, 0, 100), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_symm_put_signal(parents->symm, 1, 0, 100), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_symm_put(parents->symm, 1, 0, &word, 8, NULL), ACRE_ERR_FORKED);
    acre_symm_release(parents->symm);
    acre_symm_free(parents->base);
    acre_group_destroy(parents->group);
}

static void with_a_child(struct rank *me)
{
    struct inherited own = {.group = me->group};
    float sum = 0;

    own.symm = ranks_symm(me, 1024, &own.base);
    own.fresh = alloc(1024);
    *(float *)own.base = (float)me->rank + 1;
    if (me->rank == 0)
        EXPECT_EQ(t_child(use_inherited, &own), 0);
    REQUIRE_OK(acre_symm_all_reduce(own.symm, 0, 1, ACRE_DTYPE_F32, &sum, NULL));
    EXPECT_EQ(sum, me->count == 2 ? 3 : 6);
    REQUIRE_OK(acre_symm_barrier(own.symm, 0, 0));
    REQUIRE_OK(acre_group_barrier(me->group));
    acre_symm_release(own.symm);
    acre_symm_free(own.base);
    acre_symm_free(own.fresh);
}

TEST(a_child_does_not_act_for_its_parent)
{
    ranks_run(2, with_a_child);
    ranks_run(3, with_a_child);
}

T_MAIN()
