/* SPDX-License-Identifier: MIT */
/* Allocating and freeing without a lock: the hot path of policy acre.
 *
 * Why each access is safe:
 *
 *   lane_current          thread-local.
 *   lane->stream          constant. lane_none's is that of no call.
 *   lane->cache, ->free_cache  atomic keys. Looked at after is_busy was set: equal
 *                         means that nobody has stopped the lane, and nobody
 *                         will go on to touch it before is_busy is 0 (lane.h).
 *   bins, class budgets         touched only inside such a pair, or under the cache's
 *                         lock with the lane stopped or its thread's own.
 *   cache->map            read without a lock; leaves stay (map.h). What it gives
 *                         is a block object, and these are kept until the cache
 *                         ends, so it may be read even if it is out of date.
 *   block->tag            the word that decides who frees. It is the base while
 *                         the block is live and used on its own stream only, and
 *                         something else otherwise:
 *
 *                                hand out                    record_stream
 *                         0 ─────────────────► base ──────────────────► base | USED
 *                         ▲   free, any thread  │                           │
 *                         └─────────────────────┴───────────────────────────┘
 *
 *                         A free exchanges base for 0 atomically. It fails for a
 *                         block freed before or at the same time by another
 *                         thread, for interior pointers (their address is not
 *                         base) and for objects that meanwhile serve another
 *                         address. Whoever succeeds owns the block.
 *   the rest of a block   units, base, bin, class budget and key are constant from
 *                         being handed out until the owner of the tag gives it
 *                         back; key is atomic, read before that is known, and
 *                         only compared (a stale one leads to the exchange,
 *                         which then fails). requested and cached_next belong to the
 *                         owner.
 *
 * Everything else takes the cache's lock. */
#include "cache/threads/front.h"

#include "cache/cache.h"
#include "cache/fork.h"

#include "base/status.h"
#include "cache/acre/ladder.h"
#include "cache/acre/reuse.h"
#include "cache/observe/record.h"
#include "cache/observe/report.h"
#include "cache/pools/pools.h"
#include "cache/size.h"
#include "cache/threads/account.h"
#include "cache/torch/quick.h"

/* ---- Under the lock --------------------------------------------------------- */

/* Accounts for a block that goes through a lane, quickly. */
static inline void account_locked(struct front *front, struct lane *lane, struct block *block,
                                  int64_t units, int64_t requested)
{
    struct class_budget *class_budget = lane_budget(lane, block);

    block->requested = (size_t)requested;
    if (UNLIKELY((class_budget->credit[CREDIT_COUNT] < 1 &&
                  !thread_budget_cover_count(&lane->thread_budget, class_budget)) ||
                 class_budget->credit[CREDIT_UNITS] < units ||
                 class_budget->credit[CREDIT_REQUESTED] < requested)) {
        front_account_locked(front, lane, block);
        return;
    }
    class_budget->credit[CREDIT_COUNT] -= 1;
    class_budget->credit[CREDIT_UNITS] -= units;
    class_budget->credit[CREDIT_REQUESTED] -= requested;
    class_budget->spent[CREDIT_COUNT] += 1;
    class_budget->spent[CREDIT_UNITS] += units;
    class_budget->spent[CREDIT_REQUESTED] += requested;
    lane->units_base -= units;
}

/* Gives the blocks of a bin back; gives their units. */
static inline __attribute__((always_inline)) int64_t drain_bin(acre_cache *cache,
                                                               struct block **top)
{
    struct block *block = *top, *next;
    int64_t units = 0;

    *top = &lane_end;
    for (; block != &lane_end; block = next) {
        next = block->cached_next;
        units += (int64_t)block->units;
        arena_put(&cache->blocks, block);
    }
    return units;
}

/* Drains every bin from this one on. */
static __attribute__((noinline)) int64_t drain_from(acre_cache *cache, struct lane *lane, int first)
{
    int64_t units = 0;

    for (int i = first; i < LANE_BINS; i++)
        if (lane->bins[i] != &lane_end)
            units += drain_bin(cache, &lane->bins[i]);
    return units;
}

/* Gives blocks of a lane back, all or large and borrowed ones; whether there were any. */
static bool drain_locked(acre_cache *cache, struct lane *lane, bool large_only)
{
    int64_t given = drain_bin(cache, &lane->bins[LANE_LARGE_BIN]);

    if (UNLIKELY(!large_only || lane->bins[LANE_BORROWED_BIN] != &lane_end))
        given += drain_from(cache, lane, large_only ? LANE_BORROWED_BIN : 0);
    lane->units_base += given;
    return given != 0;
}

bool front_relieve_locked(acre_cache *cache)
{
    return front_drain_locked(cache, false);
}

void front_drain_own_locked(acre_cache *cache)
{
    LIST_FOR_EACH(link, &cache->front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        if (lane_is_own(lane))
            drain_locked(cache, lane, true);
    }
}

/* Gives back what the lanes keep, which are stopped; whether there was any. */
static bool drain_all_locked(acre_cache *cache, bool large_only)
{
    bool had_any = false;

    LIST_FOR_EACH(link, &cache->front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        if (lane_units(lane))
            had_any |= drain_locked(cache, lane, large_only);
    }
    return had_any;
}

bool front_drain_locked(acre_cache *cache, bool large_only)
{
    front_stop_locked(cache->front);
    bool had_any = drain_all_locked(cache, large_only);
    front_go_locked(cache->front);
    return had_any;
}

void front_halt_locked(acre_cache *cache)
{
    front_stop_locked(cache->front);
    drain_all_locked(cache, false);
}

void front_detach_locked(acre_cache *cache, struct lane *lane)
{
    drain_locked(cache, lane, false);
    lane_notes_collect_locked(cache, lane);
    credit_collect(&cache->front->credit, &lane->thread_budget);
    list_remove(&lane->cache_link);
    cache->front->lane_count--;
}

/* ---- Slow paths -------------------------------------------------------------- */

/* From the arena of a stream or, when that has none, wherever policy acre looks;
 * lane may be NULL. */
static acre_status alloc_further(acre_cache *cache, struct lane *lane, size_t bytes, void *stream,
                                 void **out)
{
    struct attempt attempt;
    enum credit_class class = credit_class_of(lane_units_of(bytes));
    struct arena *arena = lane ? lane->arenas[class] : reuse_arena_locked(cache, class, stream);

    attempt_init(&attempt, bytes, stream);
    attempt.request.rounded = round_up(bytes, BLOCK_UNIT);
    acre_status status = ladder_climb_locked(cache, arena, &attempt);
    if (status == ACRE_OK) {
        struct block *block = attempt.block;
        /* A private pool that helps out may give more, and wants it back. */
        lane_prepare(block, block->bytes / BLOCK_UNIT, lane_class(block), block->arena->key);
        block->requested = bytes;
        front_account_locked(cache->front, lane, block);
        block_tag_live(block);
        record_alloc_locked(cache, block);
        *out = block->base;
    }
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return status == ACRE_OK ? status : attempt_failed(cache, &attempt, status);
}

/* Gives back what a lane keeps beyond its share of what the cache holds. */
static __attribute__((noinline)) void trim_locked(acre_cache *cache, struct lane *lane)
{
    uint64_t share = cache->held_bytes / (LANE_SHARE * cache->front->lane_count);

    lane->looks_in = LANE_LOOK_EVERY;
    if ((uint64_t)lane_units(lane) * BLOCK_UNIT <= share)
        return;
    drain_locked(cache, lane, true);
    if ((uint64_t)lane_units(lane) * BLOCK_UNIT > share / 2)
        drain_locked(cache, lane, false);
}

/* Under the lock, for the lane's thread: from the lane, after all, or the arena. */
static inline acre_status alloc_central(acre_cache *cache, struct lane *lane, struct block **top,
                                        size_t bytes, size_t units, void **out)
{
    struct block *block;

    quick_lock_take(&cache->lock);
    bool is_collected = LIKELY(!cache->deferred.pending_count) || lane_collect_locked(cache, lane);
    if (UNLIKELY(lane->bins[LANE_BORROWED_BIN]->units == units))
        top = &lane->bins[LANE_BORROWED_BIN];
    block = *top;
    if (UNLIKELY(block->units == units)) { /* there was not enough credit, or borrowed */
        *top = block->cached_next;
        lane->units_base += (int64_t)units;
    } else {
        if (UNLIKELY(--lane->looks_in == 0))
            trim_locked(cache, lane);
        if (UNLIKELY(!is_collected || !block_store_reserve(&cache->blocks, 1)))
            return alloc_further(cache, lane, bytes, lane->stream, out);
        enum credit_class class = credit_class_of(units);
        struct arena *arena = lane->arenas[class];
        if (UNLIKELY(arena->shared_arena && !arena->is_first))
            return alloc_further(cache, lane, bytes, lane->stream, out);
        if (arena->care_bytes != SIZE_MAX) /* the best fit of all that is free */
            drain_locked(cache, lane, true);
        block = arena_take(arena, &cache->blocks, &cache->map, units * BLOCK_UNIT);
        if (UNLIKELY(!block))
            return alloc_further(cache, lane, bytes, lane->stream, out);
        lane_prepare(block, units, class, lane->key);
    }
    account_locked(cache->front, lane, block, (int64_t)units, (int64_t)bytes);
    *out = block->base;
    block_tag_live(block);
    record_alloc_locked(cache, block);
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return ACRE_OK;
}

/* The lane at hand is the right one and has no such block. Parameters here and
 * below stand where acre_cache_alloc has them anyway. */
static __attribute__((noinline)) acre_status alloc_miss(struct block **top, size_t bytes,
                                                        size_t units, void **out, struct lane *lane)
{
    acre_cache *cache = atomic_load_explicit(&lane->owner, memory_order_relaxed);

    lane_leave(lane);
    /* Requests of zero bytes and of 2^60 bytes or more take the general way. */
    if (UNLIKELY((units - 1) / (SIZE_REQUEST_END / BLOCK_UNIT)))
        return cache_alloc(cache, bytes, lane->stream, out);
    return alloc_central(cache, lane, top, bytes, units, out);
}

/* The hot path in full, inside the lane: hands out a block if there is one and
 * the thread budget suffices. */
static inline bool front_serve(struct lane *lane, size_t bytes, void **out)
{
    size_t units = lane_units_of(bytes);
    struct block **top = &lane->bins[lane_bin(units)], *block = *top;
    struct amounts amounts = credit_amounts(units, bytes);

    if (block->units != units)
        return false;
    struct class_budget *class_budget = lane_budget(lane, block);
    if (!class_budget_spend(class_budget, &amounts)) {
        if (!thread_budget_balance(&lane->thread_budget, lane_class(block), &amounts))
            return false;
        class_budget_spend(class_budget, &amounts);
    }
    *top = block->cached_next;
    block->requested = bytes;
    *out = block->base;
    if (UNLIKELY(lane->page))
        lane_note(lane, lane->note, block->base, bytes, false);
    block_tag_live(block);
    return true;
}

/* Whether a key read from a lane lets the ordinary or the noting path go on. */
static bool may_go_on(const struct lane *lane, const void *seen, const void *key)
{
    return seen == key || (lane_is_noting(seen, key) && lane->note != lane->notes_end);
}

/* Empties the page of notes of a lane of this thread when it is full. Stopped
 * lanes are not looked into: whoever stopped them empties them, too. */
static void make_room(acre_cache *cache, struct lane *lane)
{
    lane_enter(lane);
    acre_cache *seen = atomic_load_explicit(&lane->free_cache, memory_order_acquire);
    bool is_full = lane_is_noting(seen, cache) && lane->note == lane->notes_end;
    lane_leave(lane);
    if (LIKELY(!is_full))
        return;
    quick_lock_take(&cache->lock);
    lane_notes_collect_locked(cache, lane);
    quick_lock_drop(&cache->lock);
}

/* A class budget does not suffice, and is as it was: looks for credit. The lane is still
 * entered. */
static __attribute__((noinline)) acre_status alloc_poor(size_t bytes, size_t units, void **out,
                                                        struct lane *lane)
{
    if (!front_serve(lane, bytes, out))
        return alloc_miss(&lane->bins[lane_bin(units)], bytes, units, out, lane);
    lane_leave(lane);
    return ACRE_OK;
}

/* Takes the block at the top of its bin, of that size, for which the class budget has been
 * charged. */
static inline void hand_out(struct lane *lane, struct class_budget *class_budget, size_t bytes,
                            size_t units, void **out)
{
    struct block **top = &lane->bins[lane_bin(units)], *block = *top;

    class_budget->spent[CREDIT_COUNT] += 1;
    class_budget->spent[CREDIT_UNITS] += (int64_t)units;
    class_budget->spent[CREDIT_REQUESTED] += (int64_t)bytes;
    *top = block->cached_next;
    block->requested = bytes;
    *out = block->base;
    if (UNLIKELY(lane->page))
        lane_note(lane, lane->note, block->base, bytes, false);
    block_tag_live(block);
}

/* A class budget is overdrawn by what was last taken from it: looks for credit, or puts that
 * back first. The lane is still entered. */
static __attribute__((noinline)) acre_status alloc_overdrawn(struct block **top, size_t bytes,
                                                             size_t units, void **out,
                                                             struct lane *lane)
{
    struct class_budget *class_budget = lane_budget(lane, *top);

    if (class_budget->credit[CREDIT_COUNT] >= 0) {
        if (class_budget->credit[CREDIT_UNITS] >= 0)
            class_budget->credit[CREDIT_REQUESTED] += (int64_t)bytes;
        class_budget->credit[CREDIT_UNITS] += (int64_t)units;
    } else if (LIKELY(class_budget->credit[CREDIT_UNITS] >= (int64_t)units &&
                      class_budget->credit[CREDIT_REQUESTED] >= (int64_t)bytes &&
                      thread_budget_cover_count(&lane->thread_budget, class_budget))) {
        class_budget->credit[CREDIT_UNITS] -= (int64_t)units;
        class_budget->credit[CREDIT_REQUESTED] -= (int64_t)bytes;
        hand_out(lane, class_budget, bytes, units, out);
        lane_leave(lane);
        return ACRE_OK;
    }
    class_budget->credit[CREDIT_COUNT] += 1;
    return alloc_poor(bytes, units, out, lane);
}

/* Scopes are open: from the private pool of one, or the shared one. */
static __attribute__((noinline)) acre_status alloc_scoped(acre_cache *cache, size_t bytes,
                                                          void *stream, void **out)
{
    struct attempt attempt;

    attempt_init(&attempt, bytes, stream);
    attempt.request.rounded = round_up(bytes, BLOCK_UNIT);
    quick_lock_take(&cache->lock);
    acre_status status = attempt_other_failure(pools_route_locked(cache, &attempt.request));
    struct pool *pool = attempt.request.pool;
    if (status == ACRE_OK && !pool->owner)
        return alloc_further(cache, NULL, bytes, stream, out);
    if (status == ACRE_OK)
        status = ladder_climb_locked(cache, arena_get(pool, stream, NULL), &attempt);
    if (status == ACRE_OK) {
        attempt.block->requested = bytes;
        cache->policy->admit(cache, attempt.block);
        record_alloc_locked(cache, attempt.block);
        *out = attempt.block->base;
    }
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return status == ACRE_OK ? status : attempt_failed(cache, &attempt, status);
}

/* The lane at hand is another's. */
static __attribute__((noinline)) acre_status alloc_other(acre_cache *cache, size_t bytes,
                                                         void *stream, void **out)
{
    if (UNLIKELY(!cache || !out || bytes - 1 >= SIZE_REQUEST_END - 1 ||
                 !acre_cache_is_enabled(cache) || cache_check_fork(cache) != ACRE_OK))
        return cache_alloc(cache, bytes, stream, out);
    record_gather(cache, ACRE_CONTEXT_STATE);
    if (UNLIKELY(atomic_load_explicit(&cache->scope_count, memory_order_relaxed)))
        return alloc_scoped(cache, bytes, stream, out);
    struct lane *lane = lane_get(cache, stream);
    if (UNLIKELY(!lane)) {
        quick_lock_take(&cache->lock);
        return alloc_further(cache, NULL, bytes, stream, out);
    }
    size_t units = lane_units_of(bytes);
    lane_current = lane;
    make_room(cache, lane);
    lane_enter(lane);
    acre_cache *seen = atomic_load_explicit(&lane->cache, memory_order_acquire);
    if (!may_go_on(lane, seen, cache) || !front_serve(lane, bytes, out))
        return alloc_miss(&lane->bins[lane_bin(units)], bytes, units, out, lane);
    lane_leave(lane);
    return ACRE_OK;
}

/* Frees into a lane of this thread that is not at hand, or closed; false: there is none, or
 * the block cannot be claimed so. */
static bool free_other(acre_cache *cache, struct block *block, const void *pointer)
{
    struct arena *key = atomic_load_explicit(&block->key, memory_order_relaxed);
    struct lane *lane = key ? lane_peek(cache, key) : NULL;
    bool is_done = false;

    if (!lane)
        return false;
    make_room(cache, lane);
    lane_enter(lane);
    if (may_go_on(lane, atomic_load_explicit(&lane->free_cache, memory_order_acquire), cache) &&
        block_tag_claim(block, pointer)) {
        if (UNLIKELY(lane->page))
            lane_note(lane, lane->note, pointer, block->requested, true);
        lane_push(lane, block);
        is_done = true;
    }
    lane_leave(lane);
    return is_done || account_free_resting(cache, lane, block, pointer);
}

/* The block is not known, of another stream, used on others, or not live; or the
 * lane at hand does not serve it. Claiming is done inside a lane or under the
 * lock, so that whoever holds the lock and has stopped the lanes sees statistics
 * and tags agree. */
static __attribute__((noinline)) acre_status free_slow(acre_cache *cache, void *pointer)
{
    if (LIKELY(cache && pointer)) {
        struct block *block = map_find(&cache->map, pointer);
        if (LIKELY(block && block_tag_is_used(block)))
            return front_free_used(cache, block, pointer);
        if (LIKELY(block && free_other(cache, block, pointer)))
            return ACRE_OK;
    }
    return cache_free(cache, pointer);
}

/* The same where threads may keep nothing, which is seen before any register is saved. */
static inline acre_status alloc_elsewhere(acre_cache *cache, size_t bytes, void *stream, void **out)
{
    if (cache && !cache->facts.has_lanes)
        return quick_alloc(cache, bytes, stream, out);
    return alloc_other(cache, bytes, stream, out);
}

static inline acre_status free_elsewhere(acre_cache *cache, void *pointer)
{
    if (cache && !cache->facts.has_lanes)
        return quick_free(cache, pointer);
    return free_slow(cache, pointer);
}

/* ---- The hot path -------------------------------------------------------------- */

/* Takes the block at the top of a bin, if it is of that size and there is credit for
 * it; the lane is entered. With is_noting there is room for a note. */
static inline __attribute__((always_inline)) acre_status alloc_hot(struct lane *lane, size_t bytes,
                                                                   void **out, bool is_large,
                                                                   bool is_noting)
{
    lane_go_on();
    /* Zero bytes and sizes that wrap round to 0 find no block of that size. */
    size_t units = lane_units_of(bytes);
    struct block **top = &lane->bins[is_large ? LANE_LARGE_BIN : units], *block = *top;
    if (UNLIKELY(block->units != units))
        return alloc_miss(top, bytes, units, out, lane);

    struct class_budget *class_budget =
        &lane->thread_budget.class_budgets[is_large ? CREDIT_LARGE : CREDIT_SMALL];
    if (UNLIKELY((class_budget->credit[CREDIT_COUNT] -= 1) < 0))
        return alloc_overdrawn(top, bytes, units, out, lane);
    if (UNLIKELY((class_budget->credit[CREDIT_UNITS] -= (int64_t)units) < 0))
        return alloc_overdrawn(top, bytes, units, out, lane);
    if (UNLIKELY((class_budget->credit[CREDIT_REQUESTED] -= (int64_t)bytes) < 0))
        return alloc_overdrawn(top, bytes, units, out, lane);
    class_budget->spent[CREDIT_COUNT] += 1;
    class_budget->spent[CREDIT_UNITS] += (int64_t)units;
    class_budget->spent[CREDIT_REQUESTED] += (int64_t)bytes;

    *top = block->cached_next;
    block->requested = bytes;
    char *base = block->base;
    *out = base;
    if (is_noting)
        lane_note(lane, lane->note, base, bytes, false);
    atomic_store_explicit(&block->tag, (uintptr_t)base, memory_order_release);
    lane_leave(lane);
    return ACRE_OK;
}

/* Serves a request of any size. */
static inline __attribute__((always_inline)) acre_status alloc_any(struct lane *lane, size_t bytes,
                                                                   void **out, bool is_noting)
{
    if (bytes > (LANE_EXACT_BINS - 1) * BLOCK_UNIT)
        return alloc_hot(lane, bytes, out, true, is_noting);
    return alloc_hot(lane, bytes, out, false, is_noting);
}

/* The lane's key is not the cache: it writes notes, is stopped or another's. */
static __attribute__((noinline)) acre_status alloc_marked(acre_cache *cache, size_t bytes,
                                                          void *stream, void **out,
                                                          struct lane *lane)
{
    if (lane_key_is(&lane->cache, cache, LANE_NOTES) && LIKELY(lane->note != lane->notes_end))
        return alloc_any(lane, bytes, out, true);
    if (lane_key_is(&lane->cache, NULL, LANE_STOPPED) && cache && cache->front)
        front_prepare(cache);
    lane_leave(lane);
    return alloc_elsewhere(cache, bytes, stream, out);
}

acre_status acre_cache_alloc(acre_cache *cache, size_t bytes, void *stream, void **out)
{
    struct lane *lane = lane_current;

    if (UNLIKELY(lane->stream != stream || !out))
        return alloc_elsewhere(cache, bytes, stream, out);
    lane_enter(lane);
    if (UNLIKELY(!lane_key_is(&lane->cache, cache, 0)))
        return alloc_marked(cache, bytes, stream, out, lane);
    return alloc_any(lane, bytes, out, false);
}

/* Nothing was found at an address near; the lane at hand is left. Then: something that it may not
 * free. */
static __attribute__((noinline)) acre_status free_unknown(acre_cache *cache, void *pointer,
                                                          struct lane *lane)
{
    lane_leave(lane);
    return free_slow(cache, pointer);
}
static __attribute__((noinline)) acre_status free_refused(acre_cache *cache, void *pointer,
                                                          struct block *block, struct lane *lane)
{
    if (UNLIKELY(!block_tag_is_used(block)))
        return free_unknown(cache, pointer, lane);
    lane_leave(lane);
    return front_free_used(cache, block, pointer);
}

/* Frees into the lane, which is entered and open for the cache. */
static inline __attribute__((always_inline)) acre_status free_hot(acre_cache *cache,
                                                                  struct lane *lane, void *pointer,
                                                                  bool is_noting)
{
    lane_go_on();
    struct block *block = map_find_near(&cache->map, pointer);

    if (UNLIKELY(!block))
        return free_unknown(cache, pointer, lane);
    if (UNLIKELY(atomic_load_explicit(&block->key, memory_order_relaxed) != lane->key) ||
        UNLIKELY(!block_tag_claim(block, pointer)))
        return free_refused(cache, pointer, block, lane);
    if (is_noting)
        lane_note(lane, lane->note, pointer, block->requested, true);
    lane_push(lane, block);
    lane_leave(lane);
    return ACRE_OK;
}

/* The lane's key is not the cache: it writes notes, is stopped or another's. */
static __attribute__((noinline)) acre_status free_marked(acre_cache *cache, void *pointer,
                                                         struct lane *lane)
{
    if (lane_key_is(&lane->free_cache, cache, LANE_NOTES) && LIKELY(lane->note != lane->notes_end))
        return free_hot(cache, lane, pointer, true);
    lane_leave(lane);
    return free_elsewhere(cache, pointer);
}

acre_status acre_cache_free(acre_cache *cache, void *pointer)
{
    struct lane *lane = lane_current;

    lane_enter(lane);
    if (UNLIKELY(!lane_key_is(&lane->free_cache, cache, 0)))
        return free_marked(cache, pointer, lane);
    return free_hot(cache, lane, pointer, false);
}
