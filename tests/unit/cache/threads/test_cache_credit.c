/* SPDX-License-Identifier: MIT */
/* Credit gives the same five statistics, peaks included, as counters that every
 * thread would share: random work of several thread budgets against a plain oracle. */
#include "cache/threads/credit.h"

#include "cache/observe/stats.h"
#include "tests/support/t.h"

enum { PURSES = 4, LIVE_MAX = 400 };

struct piece {
    uint64_t bytes, requested;
};

struct world {
    struct credit credit;
    struct thread_budget thread_budgets[PURSES];
    acre_cache_stats stats;  /* what credit stores                */
    acre_cache_stats oracle; /* what shared counters would hold   */
    struct piece live[LIVE_MAX], waiting[LIVE_MAX];
    size_t live_count, waiting_count;
    uint64_t asked, raised;  /* allocations that needed credit, and a new peak */
};

static enum credit_class class_of(const struct piece *p)
{
    return credit_class_of(p->bytes / CREDIT_UNIT);
}

static struct amounts amounts_of(const struct piece *p)
{
    return credit_amounts(p->bytes / CREDIT_UNIT, p->requested);
}

static void oracle_alloc(struct world *w, const struct piece *p)
{
    stats_live_add(&w->oracle, class_of(p) == CREDIT_SMALL, p->bytes, p->requested);
}

static void collect_all(struct world *w)
{
    for (int i = 0; i < PURSES; i++)
        credit_collect(&w->credit, &w->thread_budgets[i]);
}

/* As the front does it: from the thread budget, else from the center, else a new peak. */
static void spend(struct world *w, int who, const struct piece *p)
{
    enum credit_class class = class_of(p);
    struct amounts amounts = amounts_of(p);
    struct thread_budget *thread_budget = &w->thread_budgets[who];

    if (class_budget_spend(&thread_budget->class_budgets[class], &amounts))
        return;
    if (thread_budget_balance(thread_budget, class, &amounts)) {
        REQUIRE(class_budget_spend(&thread_budget->class_budgets[class], &amounts));
        return;
    }
    w->asked++;
    if (credit_spend(&w->credit, thread_budget, class, &amounts, true))
        return;
    collect_all(w);
    w->raised++;
    credit_raise(&w->credit, thread_budget, class, &amounts, true);
}

static void alloc(struct world *w, int who, uint64_t bytes, uint64_t requested)
{
    struct piece piece = {bytes, requested};

    spend(w, who, &piece);
    oracle_alloc(w, &piece);
    w->live[w->live_count++] = piece;
}

/* Frees into the class budget of who, or at the center when who is -1. */
static void drop(struct world *w, int who, size_t index)
{
    struct piece p = w->live[index];
    enum credit_class class = class_of(&p);
    struct amounts amounts = amounts_of(&p);

    w->live[index] = w->live[--w->live_count];
    if (who < 0)
        credit_drop(&w->credit, class, &amounts);
    for (int m = 0; who >= 0 && m < CREDIT_MEASURES; m++)
        w->thread_budgets[who].class_budgets[class].credit[m] += amounts.of[m];
    stats_live_drop(&w->oracle, class == CREDIT_SMALL, p.bytes);
    stats_live_retire(&w->oracle, class == CREDIT_SMALL, p.bytes, p.requested);
}

static void wait(struct world *w, size_t index)
{
    struct piece p = w->live[index];
    enum credit_class class = class_of(&p);
    struct amounts amounts = amounts_of(&p);

    w->live[index] = w->live[--w->live_count];
    w->waiting[w->waiting_count++] = p;
    credit_wait(&w->credit, class, &amounts);
    stats_live_drop(&w->oracle, class == CREDIT_SMALL, p.bytes);
}

static void retire(struct world *w, size_t index)
{
    struct piece p = w->waiting[index];
    enum credit_class class = class_of(&p);
    struct amounts amounts = amounts_of(&p);

    w->waiting[index] = w->waiting[--w->waiting_count];
    credit_retire(&w->credit, class, &amounts);
    stats_live_retire(&w->oracle, class == CREDIT_SMALL, p.bytes, p.requested);
}

static int same(const acre_stat_array *a, const acre_stat_array *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void compare(struct world *w)
{
    const char *fact = "";

    collect_all(w);
    credit_store(&w->credit, &w->stats);
    if (!credit_check(&w->credit, &fact))
        t_fail(__FILE__, __LINE__, "%s", fact);
    REQUIRE(same(&w->stats.allocation, &w->oracle.allocation));
    REQUIRE(same(&w->stats.allocated_bytes, &w->oracle.allocated_bytes));
    REQUIRE(same(&w->stats.active, &w->oracle.active));
    REQUIRE(same(&w->stats.active_bytes, &w->oracle.active_bytes));
    REQUIRE(same(&w->stats.requested_bytes, &w->oracle.requested_bytes));
}

TEST(first_allocation_is_the_peak)
{
    static struct world w;

    memset(&w, 0, sizeof w);
    alloc(&w, 0, 1024, 1000);
    compare(&w);
    EXPECT_EQ(w.stats.allocated_bytes.all.peak, 1024);
    EXPECT_EQ(w.stats.requested_bytes.small_pool.peak, 1000);
    EXPECT_EQ(w.stats.allocation.large_pool.peak, 0);
}

TEST(below_the_peak_nobody_is_asked)
{
    static struct world w;

    memset(&w, 0, sizeof w);
    for (int i = 0; i < 1000; i++) {
        alloc(&w, 0, 20 << 20, 20 << 20);
        drop(&w, 0, 0);
    }
    EXPECT_EQ(w.asked, 1);
    compare(&w);
    EXPECT_EQ(w.stats.allocated_bytes.large_pool.allocated, 1000ll * (20 << 20));
}

TEST(two_threads_take_turns_without_raising_the_peak)
{
    static struct world w;

    memset(&w, 0, sizeof w);
    for (int i = 0; i < 100; i++) {
        alloc(&w, i & 1, 512, 1);
        drop(&w, i & 1, 0);
    }
    compare(&w);
    EXPECT_EQ(w.stats.allocation.all.peak, 1);
    alloc(&w, 0, 512, 1);
    alloc(&w, 1, 512, 1);
    compare(&w);
    EXPECT_EQ(w.stats.allocation.all.peak, 2);
}

TEST(waiting_blocks_raise_active_peaks_only)
{
    static struct world w;

    memset(&w, 0, sizeof w);
    alloc(&w, 0, 4096, 4096);
    wait(&w, 0);
    alloc(&w, 0, 4096, 4000);
    compare(&w);
    EXPECT_EQ(w.stats.allocated_bytes.all.peak, 4096);
    EXPECT_EQ(w.stats.active_bytes.all.peak, 8192);
    EXPECT_EQ(w.stats.requested_bytes.all.peak, 8096);
    retire(&w, 0);
    compare(&w);
    EXPECT_EQ(w.stats.active_bytes.all.current, 4096);
}

static void random_step(struct world *w, uint64_t *seed)
{
    uint64_t r = t_random(seed), kind = r % 100;
    int who = (int)((r >> 8) % PURSES);
    uint64_t bytes = 512 * (1 + (r >> 16) % (kind & 1 ? 8 : 6000));

    if (kind < 48 && w->live_count + w->waiting_count < LIVE_MAX)
        alloc(w, who, bytes, bytes - (r >> 40) % 512);
    else if (kind < 88 && w->live_count)
        drop(w, kind & 2 ? who : -1, (r >> 32) % w->live_count);
    else if (kind < 93 && w->live_count)
        wait(w, (r >> 32) % w->live_count);
    else if (w->waiting_count)
        retire(w, (r >> 32) % w->waiting_count);
}

TEST(random_work_agrees_with_shared_counters)
{
    static struct world w;
    uint64_t seed = t_seed(), count = t_count(200000, 10000000);

    memset(&w, 0, sizeof w);
    for (uint64_t i = 0; i < count; i++) {
        random_step(&w, &seed);
        uint64_t r = t_random(&seed);
        if (r % 64 == 0)
            compare(&w);
        if (r % 4096 == 1) {
            compare(&w);
            stats_reset_peak(&w.oracle);
            stats_reset_peak(&w.stats);
            credit_load(&w.credit, &w.stats);
        }
        if (r % 4096 == 2) {
            compare(&w);
            stats_reset_accumulated(&w.oracle);
            stats_reset_accumulated(&w.stats);
        }
    }
    compare(&w);
    EXPECT_GT(w.asked, 0);
    EXPECT_GT(w.asked, w.raised);
}

T_MAIN()
