/* SPDX-License-Identifier: MIT */
#include "cache/threads/credit.h"

#include "base/check.h"

static inline int64_t credit_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Adds amounts to a class and to the total, factor times. */
static inline void credit_add(struct amounts sums[CREDIT_CLASSES + 1], enum credit_class class,
                              const struct amounts *amounts, int64_t factor)
{
    for (int m = 0; m < CREDIT_MEASURES; m++) {
        sums[class].of[m] += factor * amounts->of[m];
        sums[CREDIT_ALL].of[m] += factor * amounts->of[m];
    }
}

/* Recomputes the limits after peaks or waiting blocks changed. */
static void credit_narrow(struct credit *credit)
{
    for (int class = 0; class <= CREDIT_ALL; class ++) {
        for (int m = 0; m < CREDIT_MEASURES; m++) {
            int64_t limit = credit->peak_active[class].of[m] - credit->waiting[class].of[m];
            if (m != CREDIT_REQUESTED)
                limit = credit_least(limit, credit->peak_live[class].of[m]);
            credit->limit[class].of[m] = limit;
        }
    }
    credit->is_limit_old = false;
}

/* ---- One thread budget ------------------------------------------------------------- */

/* Pools what there is, then halves what is not needed so that neither class
 * comes back soon. */
static bool credit_balance(struct thread_budget *thread_budget, int class, int m, int64_t need)
{
    int other = CREDIT_CLASSES - 1 - class;
    int64_t *credit = &thread_budget->class_budgets[class].credit[m];
    int64_t *credit_other = &thread_budget->class_budgets[other].credit[m];
    int64_t room = thread_budget->reserve[class].of[m] + *credit;
    int64_t room_other = thread_budget->reserve[other].of[m] + *credit_other;
    int64_t all = thread_budget->reserve[CREDIT_ALL].of[m] + *credit + *credit_other;

    if (need > room || need > all)
        return false;
    *credit = need + credit_least(room - need, (all - need + 1) / 2);
    *credit_other = credit_least(room_other, all - *credit);
    thread_budget->reserve[class].of[m] = room - *credit;
    thread_budget->reserve[other].of[m] = room_other - *credit_other;
    thread_budget->reserve[CREDIT_ALL].of[m] = all - *credit - *credit_other;
    return true;
}

bool thread_budget_balance(struct thread_budget *thread_budget, enum credit_class class,
                           const struct amounts *amounts)
{
    for (int m = 0; m < CREDIT_MEASURES; m++)
        if (thread_budget->class_budgets[class].credit[m] < amounts->of[m] &&
            !credit_balance(thread_budget, class, m, amounts->of[m]))
            return false;
    return true;
}

void credit_collect(struct credit *credit, struct thread_budget *thread_budget)
{
    for (int m = 0; m < CREDIT_MEASURES; m++) {
        credit->granted[CREDIT_ALL].of[m] -= thread_budget_sum(thread_budget, m);
        thread_budget->reserve[CREDIT_ALL].of[m] = 0;
        for (int class = 0; class < CREDIT_CLASSES; class ++) {
            struct class_budget *class_budget = &thread_budget->class_budgets[class];
            credit->granted[class].of[m] -=
                class_budget->credit[m] + thread_budget->reserve[class].of[m];
            credit->spent[class].of[m] += class_budget->spent[m];
            thread_budget->reserve[class].of[m] = 0;
            class_budget->credit[m] = 0;
            class_budget->spent[m] = 0;
        }
    }
}

/* Gives a thread budget that holds nothing what is left below the limits, or half. */
static void credit_grant(struct credit *credit, struct thread_budget *thread_budget, bool is_shared)
{
    for (int class = 0; class <= CREDIT_ALL; class ++) {
        for (int m = 0; m < CREDIT_MEASURES; m++) {
            int64_t room = credit->limit[class].of[m] - credit->granted[class].of[m];
            if (is_shared)
                room -= room / 2;
            thread_budget->reserve[class].of[m] = room;
            credit->granted[class].of[m] += room;
        }
    }
}

static void credit_commit(struct credit *credit, struct thread_budget *thread_budget,
                          enum credit_class class, const struct amounts *amounts, bool is_shared)
{
    credit_add(credit->granted, class, amounts, 1);
    for (int m = 0; m < CREDIT_MEASURES; m++)
        credit->spent[class].of[m] += amounts->of[m];
    if (thread_budget)
        credit_grant(credit, thread_budget, is_shared);
}

bool credit_spend(struct credit *credit, struct thread_budget *thread_budget,
                  enum credit_class class, const struct amounts *amounts, bool is_shared)
{
    if (thread_budget)
        credit_collect(credit, thread_budget);
    if (UNLIKELY(credit->is_limit_old))
        credit_narrow(credit);
    for (int m = 0; m < CREDIT_MEASURES; m++)
        if (credit->granted[class].of[m] + amounts->of[m] > credit->limit[class].of[m] ||
            credit->granted[CREDIT_ALL].of[m] + amounts->of[m] > credit->limit[CREDIT_ALL].of[m])
            return false;
    credit_commit(credit, thread_budget, class, amounts, is_shared);
    return true;
}

static inline void credit_lift(int64_t *peak, int64_t level)
{
    if (*peak < level)
        *peak = level;
}

void credit_raise(struct credit *credit, struct thread_budget *thread_budget,
                  enum credit_class class, const struct amounts *amounts, bool is_shared)
{
    const int classes[] = {class, CREDIT_ALL};

    for (int i = 0; i < 2; i++) {
        for (int m = 0; m < CREDIT_MEASURES; m++) {
            int64_t live = credit->granted[classes[i]].of[m] + amounts->of[m];
            credit_lift(&credit->peak_live[classes[i]].of[m], live);
            credit_lift(&credit->peak_active[classes[i]].of[m],
                        live + credit->waiting[classes[i]].of[m]);
        }
    }
    credit_narrow(credit);
    credit_commit(credit, thread_budget, class, amounts, is_shared);
}

void credit_drop(struct credit *credit, enum credit_class class, const struct amounts *amounts)
{
    credit_add(credit->granted, class, amounts, -1);
    CHECK(credit->granted[class].of[CREDIT_COUNT] >= 0);
}

/* ---- The public statistics --------------------------------------------------- */

/* Bytes or pieces per unit of a measure. */
static const int64_t factors[CREDIT_MEASURES] = {
    [CREDIT_UNITS] = CREDIT_UNIT, [CREDIT_REQUESTED] = 1, [CREDIT_COUNT] = 1};

static acre_stat *stat_of(acre_stat_array *array, int class)
{
    acre_stat *stats[] = {&array->small_pool, &array->large_pool, &array->all};

    return stats[class];
}

/* Moves one statistic to a new level after a number of increases. */
static void credit_move(acre_stat *stat, int m, int64_t spent, int64_t level, int64_t peak)
{
    spent *= factors[m];
    level *= factors[m];
    stat->allocated += spent;
    stat->freed += stat->current + spent - level;
    stat->current = level;
    stat->peak = peak * factors[m];
}

void credit_store(struct credit *credit, acre_cache_stats *stats)
{
    acre_stat_array *live[] = {&stats->allocated_bytes, NULL, &stats->allocation};
    acre_stat_array *active[] = {&stats->active_bytes, &stats->requested_bytes, &stats->active};

    for (int class = 0; class <= CREDIT_ALL; class ++) {
        for (int m = 0; m < CREDIT_MEASURES; m++) {
            int64_t spent = class < CREDIT_CLASSES
                                ? credit->spent[class].of[m]
                                : credit->spent[0].of[m] + credit->spent[1].of[m];
            int64_t level = credit->granted[class].of[m];
            if (live[m])
                credit_move(stat_of(live[m], class), m, spent, level,
                            credit->peak_live[class].of[m]);
            credit_move(stat_of(active[m], class), m, spent, level + credit->waiting[class].of[m],
                        credit->peak_active[class].of[m]);
        }
    }
    for (int class = 0; class < CREDIT_CLASSES; class ++)
        credit->spent[class] = (struct amounts){{0}};
}

void credit_load(struct credit *credit, const acre_cache_stats *stats)
{
    acre_cache_stats *from = (acre_cache_stats *)stats;
    acre_stat_array *live[] = {&from->allocated_bytes, NULL, &from->allocation};
    acre_stat_array *active[] = {&from->active_bytes, &from->requested_bytes, &from->active};

    for (int class = 0; class <= CREDIT_ALL; class ++) {
        for (int m = 0; m < CREDIT_MEASURES; m++) {
            if (live[m])
                credit->peak_live[class].of[m] = stat_of(live[m], class)->peak / factors[m];
            credit->peak_active[class].of[m] = stat_of(active[m], class)->peak / factors[m];
        }
    }
    credit_narrow(credit);
}

bool credit_check(const struct credit *credit, const char **fact)
{
    for (int class = 0; class <= CREDIT_ALL; class ++) {
        for (int m = 0; m < CREDIT_MEASURES; m++) {
            int64_t granted = credit->granted[class].of[m];
            int64_t waiting = credit->waiting[class].of[m];
            *fact = "credit: nothing is negative";
            if (granted < 0 || waiting < 0)
                return false;
            *fact = "credit: granted stays below the peak of live blocks";
            if (m != CREDIT_REQUESTED && granted > credit->peak_live[class].of[m])
                return false;
            *fact = "credit: granted and waiting stay below the peak of active blocks";
            if (granted + waiting > credit->peak_active[class].of[m])
                return false;
        }
    }
    return true;
}
