/* SPDX-License-Identifier: MIT */
#include "cache/threads/account.h"

void front_collect_locked(struct front *front)
{
    LIST_FOR_EACH(link, &front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        int64_t units = lane_units(lane);
        credit_collect(&front->credit, &lane->thread_budget);
        lane_units_set(lane, units);
    }
}

/* Allocations since the sums began. */
static int64_t spent_count(const struct credit *credit)
{
    return credit->spent[CREDIT_SMALL].of[CREDIT_COUNT] +
           credit->spent[CREDIT_LARGE].of[CREDIT_COUNT];
}

void front_store_locked(struct front *front, acre_cache_stats *stats)
{
    front->spent_seen -= spent_count(&front->credit);
    credit_store(&front->credit, stats);
}

/* Threads were stopped for credit that they kept, and all of it is collected: lets them go on,
 * or rest when that has happened soon after the last time. */
static void account_go(struct front *front)
{
    int64_t count = spent_count(&front->credit), since = count - front->spent_seen;

    front->spent_seen = count;
    if (since < 0 || since >= ACCOUNT_SOON) { /* long ago, or a rest ended early */
        front->rest_next = ACCOUNT_REST_MIN;
        front_go_locked(front);
        return;
    }
    uint32_t rest = front->rest_next ? front->rest_next : ACCOUNT_REST_MIN;
    front_rest_locked(front, rest);
    front->spent_seen += rest;
    front->rest_next = rest < ACCOUNT_REST_MAX ? 2 * rest : ACCOUNT_REST_MAX;
}

/* Accounts for a block when neither the thread budget at hand nor what nobody holds suffices. */
static void account_stop(struct front *front, struct lane *lane, enum credit_class class,
                         const struct amounts *amounts, bool is_shared)
{
    struct thread_budget *thread_budget = lane ? &lane->thread_budget : NULL;

    front->stop_count += !front_is_resting(front) && front->lane_count > 1;
    front_stop_locked(front);
    front_collect_locked(front);
    if (credit_spend(&front->credit, thread_budget, class, amounts, is_shared)) {
        account_go(front);
        return;
    }
    credit_raise(&front->credit, thread_budget, class, amounts, is_shared);
    front_go_locked(front);
}

/* Accounts for a block when the thread budget at hand does not suffice. */
static void account_slow(struct front *front, struct lane *lane, enum credit_class class,
                         const struct amounts *amounts)
{
    struct thread_budget *thread_budget = lane ? &lane->thread_budget : NULL;
    int64_t units = lane ? lane_units(lane) : 0;
    bool is_shared = front->lane_count > 1;

    if (!credit_spend(&front->credit, thread_budget, class, amounts, is_shared)) {
        if (lane)
            lane_units_set(lane, units);
        account_stop(front, lane, class, amounts, is_shared);
    }
    if (lane)
        lane_units_set(lane, units);
}

/* Counts an allocation while lanes rest; the last one opens them. */
static void account_rest(struct front *front)
{
    uint32_t rest = atomic_load_explicit(&front->rest, memory_order_relaxed);

    if (rest == 1)
        front_rest_locked(front, 0);
    else
        atomic_store_explicit(&front->rest, rest - 1, memory_order_relaxed);
}

void front_account_locked(struct front *front, struct lane *lane, const struct block *block)
{
    enum credit_class class = lane_class(block);
    struct amounts amounts = credit_amounts(block->units, block->requested);

    if (UNLIKELY(front_is_resting(front))) {
        account_rest(front);
        lane = NULL; /* nobody keeps credit */
    }
    if (lane && thread_budget_balance(&lane->thread_budget, class, &amounts)) {
        class_budget_spend(&lane->thread_budget.class_budgets[class], &amounts);
        lane->units_base -= amounts.of[CREDIT_UNITS];
    } else {
        account_slow(front, lane, class, &amounts);
    }
}

bool account_free_resting(acre_cache *cache, struct lane *lane, struct block *block,
                          const void *pointer)
{
    struct front *front = cache->front;
    bool is_done = false;

    if (LIKELY(!front_is_resting(front)))
        return false;
    quick_lock_take(&cache->lock);
    if (front_is_resting(front) && !front->is_off && !cache->history.is_armed &&
        block_tag_claim(block, pointer)) {
        struct amounts amounts = credit_amounts(block->units, block->requested);
        credit_drop(&front->credit, lane_class(block), &amounts);
        lane_put(lane, block);
        lane->units_base -= (int64_t)block->units;
        is_done = true;
    }
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return is_done;
}
