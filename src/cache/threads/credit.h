/* SPDX-License-Identifier: MIT */
/* Live statistics of many threads, exact, without shared counters.
 *
 * Five statistics move with every allocation and free: allocation,
 * allocated_bytes, active, active_bytes and requested_bytes. Three measures
 * make them up: the count of blocks, their size in units of 512 bytes, and the
 * bytes asked for. Each thread has a thread budget:
 *
 *   class budgets[class]   credit to allocate in one size class: an allocation spends
 *                    it, a free gives it back, nobody else is asked
 *   reserve[class]   what the class may have beyond, but the total may not
 *   reserve[ALL]     what the total may have beyond, in either class
 *
 * thread_budget_balance moves between these, within the thread. What all thread budgets hold
 * and what is live was granted here:
 *
 *   granted[class] = live in the class + credit and reserve of the class
 *   granted[ALL]   = live              + credit of both classes and reserve[ALL]
 *
 *   Always: granted <= peak, for each class and for both together.
 *
 * So a thread with credit cannot reach a new peak and need not tell anybody.
 * One without credit asks here; when nothing is left below the peak, the owner
 * stops the other threads, collects all thread budgets, whereupon granted is what is
 * live, and raises the peak to exactly what the allocation makes it.
 *
 * Blocks that were freed but wait for streams count as active, not as
 * allocated; they are kept here (waiting) and narrow the room below the peaks of
 * active blocks.
 *
 * Not thread-safe: the owner's lock is held around every call; a thread budget is
 * touched by its thread alone, or by the owner while that thread is stopped.
 */
#ifndef SRC_CACHE_CREDIT_H
#define SRC_CACHE_CREDIT_H

#include "base/check.h"

#include <acre/cache.h>

#include <stdbool.h>
#include <stdint.h>

enum credit_measure { CREDIT_UNITS, CREDIT_REQUESTED, CREDIT_COUNT, CREDIT_MEASURES };
enum credit_class { CREDIT_SMALL, CREDIT_LARGE, CREDIT_CLASSES, CREDIT_ALL = 2 };

/* Bytes per unit of CREDIT_UNITS, and units of the smallest large block. */
#define CREDIT_UNIT        512
#define CREDIT_LARGE_UNITS 128

/* Amounts, by measure. */
struct amounts {
    int64_t of[CREDIT_MEASURES];
};

/* What one thread may still allocate in one class before it has to ask, and the
 * sum of its allocations since it was last collected. */
struct class_budget {
    _Alignas(16) int64_t credit[CREDIT_MEASURES]; /* never negative, except for a moment
                                                     in front.c                          */
    int64_t spent[CREDIT_MEASURES];
};

struct thread_budget {
    struct class_budget class_budgets[CREDIT_CLASSES];
    struct amounts reserve[CREDIT_CLASSES + 1];
};

struct credit {
    struct amounts granted[CREDIT_CLASSES + 1]; /* live, and what thread budgets hold    */
    struct amounts spent[CREDIT_CLASSES];       /* sum of allocations since the last
                                               credit_store; thread budgets excluded     */
    struct amounts waiting[CREDIT_CLASSES + 1]; /* freed, but in use by streams  */
    /* Peaks. The statistics have no peak of requested bytes without waiting
     * ones: that entry of peak_live is unused. */
    struct amounts peak_live[CREDIT_CLASSES + 1];
    struct amounts peak_active[CREDIT_CLASSES + 1];
    /* Highest granted that reaches no new peak; follows from the rest, and is computed
     * anew before it is used when is_limit_old. */
    struct amounts limit[CREDIT_CLASSES + 1];
    bool is_limit_old;
};

static inline enum credit_class credit_class_of(uint64_t units)
{
    return units >= CREDIT_LARGE_UNITS ? CREDIT_LARGE : CREDIT_SMALL;
}

static inline struct amounts credit_amounts(uint64_t units, uint64_t requested)
{
    return (struct amounts){.of = {[CREDIT_UNITS] = (int64_t)units,
                                   [CREDIT_REQUESTED] = (int64_t)requested,
                                   [CREDIT_COUNT] = 1}};
}

/* Spends from a class budget; false, and nothing is spent, when it does not suffice. */
static inline bool class_budget_spend(struct class_budget *class_budget,
                                      const struct amounts *amounts)
{
    if (class_budget->credit[CREDIT_COUNT] < amounts->of[CREDIT_COUNT] ||
        class_budget->credit[CREDIT_UNITS] < amounts->of[CREDIT_UNITS] ||
        class_budget->credit[CREDIT_REQUESTED] < amounts->of[CREDIT_REQUESTED])
        return false;
    class_budget->credit[CREDIT_COUNT] -= amounts->of[CREDIT_COUNT];
    class_budget->credit[CREDIT_UNITS] -= amounts->of[CREDIT_UNITS];
    class_budget->credit[CREDIT_REQUESTED] -= amounts->of[CREDIT_REQUESTED];
    class_budget->spent[CREDIT_COUNT] += amounts->of[CREDIT_COUNT];
    class_budget->spent[CREDIT_UNITS] += amounts->of[CREDIT_UNITS];
    class_budget->spent[CREDIT_REQUESTED] += amounts->of[CREDIT_REQUESTED];
    return true;
}

/* Moves credit within a thread budget so that the class budget of class has the amounts; false
 * when there is not enough. Needs no lock: the thread budget's thread calls it. */
bool thread_budget_balance(struct thread_budget *thread_budget, enum credit_class class,
                           const struct amounts *amounts);

/* What a thread budget holds of a measure for both classes together. */
static inline int64_t thread_budget_sum(const struct thread_budget *thread_budget,
                                        enum credit_measure m)
{
    return thread_budget->class_budgets[CREDIT_SMALL].credit[m] +
           thread_budget->class_budgets[CREDIT_LARGE].credit[m] +
           thread_budget->reserve[CREDIT_ALL].of[m];
}

/* Moves credit for one block from one class to the other. */
static inline __attribute__((always_inline)) bool thread_budget_move_count(
    struct thread_budget *thread_budget, enum credit_class from, enum credit_class to)
{
    if (thread_budget->class_budgets[from].credit[CREDIT_COUNT] < 1 ||
        thread_budget->reserve[to].of[CREDIT_COUNT] < 1)
        return false;
    thread_budget->class_budgets[to].credit[CREDIT_COUNT] += 1;
    thread_budget->reserve[to].of[CREDIT_COUNT] -= 1;
    thread_budget->class_budgets[from].credit[CREDIT_COUNT] -= 1;
    thread_budget->reserve[from].of[CREDIT_COUNT] += 1;
    return true;
}

/* Makes sure of credit for one block when the other class has given back what
 * this one needs, which is usual when blocks are replaced. */
static inline bool thread_budget_cover_count(struct thread_budget *thread_budget,
                                             const struct class_budget *class_budget)
{
    if (class_budget == &thread_budget->class_budgets[CREDIT_LARGE])
        return thread_budget_move_count(thread_budget, CREDIT_SMALL, CREDIT_LARGE);
    return thread_budget_move_count(thread_budget, CREDIT_LARGE, CREDIT_SMALL);
}

/* Takes back all that a thread budget holds. */
void credit_collect(struct credit *credit, struct thread_budget *thread_budget);

/* Accounts for an allocation. The thread budget of the thread, when there is one (NULL:
 * none), is collected and gets new reserves; with is_shared, half of what there
 * is stays for other threads. False: a peak may be reached, nothing was accounted
 * for; collect the thread budgets of all threads and call credit_raise. */
bool credit_spend(struct credit *credit, struct thread_budget *thread_budget,
                  enum credit_class class, const struct amounts *amounts, bool is_shared);

/* Accounts for an allocation once all thread budgets are collected: raises peaks as needed. */
void credit_raise(struct credit *credit, struct thread_budget *thread_budget,
                  enum credit_class class, const struct amounts *amounts, bool is_shared);

/* A live block was freed; the credit it took comes back here. */
void credit_drop(struct credit *credit, enum credit_class class, const struct amounts *amounts);

/* Adds amounts to a class and to the total, or takes them off. */
static inline void credit_plus(struct amounts sums[CREDIT_CLASSES + 1], enum credit_class class,
                               const struct amounts *amounts)
{
    sums[class].of[CREDIT_UNITS] += amounts->of[CREDIT_UNITS];
    sums[class].of[CREDIT_REQUESTED] += amounts->of[CREDIT_REQUESTED];
    sums[class].of[CREDIT_COUNT] += amounts->of[CREDIT_COUNT];
    sums[CREDIT_ALL].of[CREDIT_UNITS] += amounts->of[CREDIT_UNITS];
    sums[CREDIT_ALL].of[CREDIT_REQUESTED] += amounts->of[CREDIT_REQUESTED];
    sums[CREDIT_ALL].of[CREDIT_COUNT] += amounts->of[CREDIT_COUNT];
}
static inline void credit_minus(struct amounts sums[CREDIT_CLASSES + 1], enum credit_class class,
                                const struct amounts *amounts)
{
    sums[class].of[CREDIT_UNITS] -= amounts->of[CREDIT_UNITS];
    sums[class].of[CREDIT_REQUESTED] -= amounts->of[CREDIT_REQUESTED];
    sums[class].of[CREDIT_COUNT] -= amounts->of[CREDIT_COUNT];
    sums[CREDIT_ALL].of[CREDIT_UNITS] -= amounts->of[CREDIT_UNITS];
    sums[CREDIT_ALL].of[CREDIT_REQUESTED] -= amounts->of[CREDIT_REQUESTED];
    sums[CREDIT_ALL].of[CREDIT_COUNT] -= amounts->of[CREDIT_COUNT];
}

/* A live block was freed and waits for streams; then waits no more. */
static inline void credit_wait(struct credit *credit, enum credit_class class,
                               const struct amounts *amounts)
{
    credit_minus(credit->granted, class, amounts);
    credit_plus(credit->waiting, class, amounts);
    credit->is_limit_old = true;
    CHECK(credit->granted[class].of[CREDIT_COUNT] >= 0);
}
static inline void credit_retire(struct credit *credit, enum credit_class class,
                                 const struct amounts *amounts)
{
    credit_minus(credit->waiting, class, amounts);
    credit->is_limit_old = true;
    CHECK(credit->waiting[class].of[CREDIT_COUNT] >= 0);
}

/* Whether so much may be live in a class, or in all, without a new peak. */
static inline bool credit_is_below_peak(const struct credit *credit, int class,
                                        const struct amounts *amounts)
{
    const int64_t *granted = credit->granted[class].of, *peak = credit->peak_live[class].of;

    return granted[CREDIT_UNITS] + amounts->of[CREDIT_UNITS] <= peak[CREDIT_UNITS] &&
           granted[CREDIT_COUNT] + amounts->of[CREDIT_COUNT] <= peak[CREDIT_COUNT];
}

/* As credit_retire, where the thread budget of a thread gets the amounts as credit. False: live
 * blocks are so near their peak that it may not have them, and nothing has changed. */
static inline bool credit_regrant(struct credit *credit, enum credit_class class,
                                  const struct amounts *amounts)
{
    if (UNLIKELY(!credit_is_below_peak(credit, class, amounts) ||
                 !credit_is_below_peak(credit, CREDIT_ALL, amounts)))
        return false;
    credit_retire(credit, class, amounts);
    credit_plus(credit->granted, class, amounts);
    return true;
}

/* Brings the five statistics up to date; all thread budgets are collected. */
void credit_store(struct credit *credit, acre_cache_stats *stats);
/* Goes on from the peaks in stats, which the owner may have reset. */
void credit_load(struct credit *credit, const acre_cache_stats *stats);

/* Whether the facts above hold for the sums kept here. */
bool credit_check(const struct credit *credit, const char **fact);

#endif
