/* SPDX-License-Identifier: MIT */
/* Signals between real processes: S47 to S56. */
#include "symm/collective/barrier.h"
#include "symm/collective/counters.h"
#include "symm/deadline.h"
#include "symm/collective/word.h"
#include "symm/collective/work.h"

#include "tests/support/ranks.h"

#include <acre/collective.h>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static uint32_t *pad_of(acre_symm *symm, int rank)
{
    void *pad;

    REQUIRE_OK(acre_symm_pad(symm, rank, 4, 0, 0, &pad, NULL));
    return pad;
}

static void expect_pad_zero(acre_symm *symm, int rank)
{
    uint32_t *pad = pad_of(symm, rank);

    for (size_t i = 0; i < 9216 / 4; i++)
        EXPECT_EQ(__atomic_load_n(&pad[i], __ATOMIC_SEQ_CST), 0);
}

static void one_word(struct rank *me)
{
    void *base;
    acre_symm *symm = ranks_symm(me, 64, &base);

    if (me->rank == 2) {
        REQUIRE_OK(acre_symm_put_signal(symm, 1, 5, 0));
        ranks_meet(me, 0);
        ranks_meet(me, 1);
    } else {
        ranks_meet(me, 0);
        if (me->rank == 1) {
            uint32_t *pad = pad_of(symm, 1);
            for (int i = 0; i < 9216 / 4; i++)
                EXPECT_EQ(pad[i], i == 5 * 3 + 2);
            REQUIRE_OK(acre_symm_wait_signal(symm, 2, 5, 0));
            expect_pad_zero(symm, 1);
        }
        ranks_meet(me, 1);
    }
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S47_put_sets_one_word_and_wait_resets_it)
{
    ranks_run(3, one_word);
}

static void timeouts(struct rank *me)
{
    void *base;
    acre_symm *symm = ranks_symm(me, 64, &base);
    int64_t begin = clock_ns();

    if (me->rank == 0) {
        REQUIRE_OK(acre_symm_put_signal(symm, 1, 0, 100));
        EXPECT_EQ(acre_symm_put_signal(symm, 1, 0, 100), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "rank 1");
        EXPECT_GE(clock_ns() - begin, 100 * NS_PER_MS);
        EXPECT_EQ(acre_symm_wait_signal(symm, 1, 1, 100), ACRE_ERR_TIMEOUT);
        EXPECT_EQ(acre_symm_barrier(symm, 2, 50), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "1");
        ranks_meet(me, 0);
    } else {
        ranks_meet(me, 0);
        expect_pad_zero(symm, 0);
        for (int i = 0; me->rank == 1 && i < 9216 / 4; i++) /* the barrier took its signal back */
            EXPECT_EQ(pad_of(symm, 1)[i], i == 0);
        if (me->rank == 1)
            REQUIRE_OK(acre_symm_wait_signal(symm, 0, 0, 0));
    }
    ranks_meet(me, 2);
    for (int i = 0; i < 10; i++) /* S50: everything still works */
        REQUIRE_OK(acre_symm_barrier(symm, 2, 0));
    if (me->rank == 1)
        REQUIRE_OK(acre_symm_put_signal(symm, 0, 1, 0));
    if (me->rank == 0)
        REQUIRE_OK(acre_symm_wait_signal(symm, 1, 1, 0));
    ranks_meet(me, 1);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S48_S49_S50_timeouts_are_errors_and_nothing_more)
{
    ranks_run(2, timeouts);
    ranks_run(3, timeouts);
}

/* Each round one rank writes a new value and signals; the other must see it. */
static void litmus(struct rank *me)
{
    uint64_t *base, *mine, *other, rounds = t_count(20000, 20000000);
    acre_symm *symm = ranks_symm(me, 4096, (void **)&base);

    REQUIRE_OK(acre_symm_buffer(symm, me->rank, 0, 8, (void **)&mine));
    REQUIRE_OK(acre_symm_buffer(symm, 1 - me->rank, 0, 8, (void **)&other));
    for (uint64_t i = 1; i <= rounds / t_slowness(); i++) {
        mine[i % 64 * 8] = i;
        REQUIRE_OK(acre_symm_put_signal(symm, 1 - me->rank, 0, 0));
        REQUIRE_OK(acre_symm_wait_signal(symm, 1 - me->rank, 0, 0));
        if (other[i % 64 * 8] != i) {
            EXPECT_EQ(other[i % 64 * 8], i);
            break;
        }
    }
    ranks_meet(me, 1);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S51_what_was_written_before_a_put_is_seen_after_the_wait)
{
    ranks_run(2, litmus);
}

/* Nobody may leave before the last has come; checked by counters that only grow. */
static void barriers(struct rank *me)
{
    uint64_t *base, *other, rounds = t_count(me->count > 2 ? 1000 : 10000, 100000);
    acre_symm *symm = ranks_symm(me, 64, (void **)&base);

    rounds /= t_slowness();
    for (uint64_t i = 1; i <= rounds; i++) {
        __atomic_store_n(base, i, __ATOMIC_RELEASE);
        REQUIRE_OK(acre_symm_barrier(symm, 3, 0));
        for (int r = 0; r < me->count; r++) {
            REQUIRE_OK(acre_symm_buffer(symm, r, 0, 8, (void **)&other));
            uint64_t seen = __atomic_load_n(other, __ATOMIC_ACQUIRE);
            if (seen < i || seen > i + 1)
                t_fail(__FILE__, __LINE__, "rank %d at %llu in round %llu", r,
                       (unsigned long long)seen, (unsigned long long)i);
        }
    }
    ranks_meet(me, 0);
    expect_pad_zero(symm, me->rank);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S52_barriers_hold_everybody)
{
    ranks_run(2, barriers);
    ranks_run(4, barriers);
}

struct lane {
    pthread_t thread;
    acre_symm *symm;
    int channel;
};

static void *lane_main(void *arg)
{
    struct lane *lane = arg;

    for (int i = 0; i < 200; i++)
        REQUIRE_OK(acre_symm_barrier(lane->symm, lane->channel, 0));
    return NULL;
}

static void channels(struct rank *me)
{
    void *base;
    struct lane lanes[2];
    acre_symm *symm = ranks_symm(me, 64, &base);

    for (int i = 0; i < 2; i++) { /* ranks start their threads in different orders */
        lanes[i] = (struct lane){.symm = symm, .channel = me->rank % 2 ? 1 - i : i};
        REQUIRE(pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]) == 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(lanes[i].thread, NULL);
    ranks_meet(me, 0);
    expect_pad_zero(symm, me->rank);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S53_channels_do_not_mix)
{
    ranks_run(2, channels);
    ranks_run(3, channels);
}

static void bounds(struct rank *me)
{
    void *base;
    acre_symm *symm = ranks_symm(me, 64, &base);
    int last = 9216 / 4 / me->count - 1;

    EXPECT_EQ(acre_symm_barrier(symm, -1, 10), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_symm_barrier(symm, last + 1, 10), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_symm_barrier(symm, last, 0));
    EXPECT_EQ(acre_symm_put_signal(symm, -1, 0, 10), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_symm_put_signal(symm, me->count, 0, 10), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_symm_wait_signal(symm, me->count, 0, 10), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_symm_wait_signal(symm, -1, 0, 10), ACRE_ERR_RANGE);
    ranks_meet(me, 0);
    expect_pad_zero(symm, me->rank);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S54_S55_channels_and_ranks_are_checked)
{
    ranks_run(2, bounds);
    ranks_run(4, bounds);
}

static void death(struct rank *me)
{
    void *base;
    acre_symm *symm = ranks_symm(me, 64, &base);

    REQUIRE_OK(acre_symm_barrier(symm, 0, 0));
    if (me->rank == 1) {
        usleep(20000); /* the others are asleep by now */
        raise(SIGKILL);
    }
    EXPECT_EQ(acre_symm_barrier(symm, 0, 0), ACRE_ERR_PEER);
    EXPECT_HAS(acre_last_error(), "rank 1");
    EXPECT_EQ(acre_symm_wait_signal(symm, 1, 3, 0), ACRE_ERR_PEER);
    EXPECT_HAS(acre_last_error(), "rank 1");
    ranks_meet_some(me, 9, me->count - 1);
}

TEST(S56_a_peer_that_dies_in_a_barrier_is_named)
{
    ranks_run_with(2, death, 60000, 2);
    ranks_run_with(4, death, 60000, 2);
}

/* Rank 2 completes the set of those who came, and is stopped before it opens the barrier. */
static void stopped_opener(struct rank *me)
{
    enum { CHANNEL = 3 };
    void *base;
    acre_symm *symm = ranks_symm(me, 64, &base);
    _Atomic uint64_t *state = &team_control(symm->team, 0)->barriers[CHANNEL].word;

    alarm(20);
    for (int round = 0; round < 3; round++) {
        ranks_meet(me, 2 * round);
        if (me->rank == 2 && round == 1) {
            while ((uint32_t)atomic_load(state) != 3)
                usleep(1000);
            atomic_fetch_or(state, 4);
        } else {
            EXPECT_EQ(acre_symm_barrier(symm, CHANNEL, 500), ACRE_OK);
        }
        ranks_meet(me, 2 * round + 1);
        EXPECT_EQ(atomic_load(state), (uint64_t)(round + 1) << 32);
    }
    ranks_meet(me, 6);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(a_barrier_to_which_all_came_opens_although_the_last_is_stopped)
{
    ranks_run(3, stopped_opener);
}

/* Rank 1 came, and gives up before rank 0 does: only rank 2 is late. */
static void gives_up_before(struct rank *me)
{
    enum { CHANNEL = 3 };
    void *base;
    acre_symm *symm = ranks_symm(me, 64, &base);
    _Atomic uint64_t *state = &team_control(symm->team, 0)->barriers[CHANNEL].word;

    ranks_meet(me, 0);
    while (me->rank == 0 && (uint32_t)atomic_load(state) != 2)
        usleep(1000);
    if (me->rank != 2) {
        EXPECT_EQ(acre_symm_barrier(symm, CHANNEL, me->rank == 1 ? 500 : 1500), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), me->rank == 1 ? "rank" : ": rank 2 did not come within");
    }
    ranks_meet(me, 1);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(who_gave_up_a_barrier_is_not_called_late)
{
    ranks_run(3, gives_up_before);
}

/* Rank 0 is alone, which neither a large nor a small reduction, nor a barrier keeps to itself. */
static void all_are_late(struct rank *me)
{
    acre_collective_options options = {.struct_size = sizeof options, .timeout_ms = 100};
    float out[8];
    void *base;
    acre_symm *large = ranks_symm(me, 65536, &base), *small = ranks_symm(me, 64, &base);

    ranks_meet(me, 0);
    if (me->rank == 0) {
        EXPECT_EQ(acre_symm_all_reduce(large, 0, 16384, ACRE_DTYPE_F32, NULL, &options),
                  ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "ranks 1, 2 did not take part");
        EXPECT_EQ(acre_symm_all_reduce(small, 0, 8, ACRE_DTYPE_F32, out, &options),
                  ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "ranks 1, 2 did not take part");
        EXPECT_EQ(acre_symm_barrier(small, 0, 100), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "ranks 1, 2 did not come");
    }
    ranks_meet(me, 1);
    acre_symm_release(large);
    acre_symm_release(small);
}

TEST(all_who_are_late_are_named)
{
    ranks_run(3, all_are_late);
}

T_MAIN()
