/* SPDX-License-Identifier: MIT */
/* What becomes of blocks that were freed. */
#include "base/log.h"
#include "base/status.h"
#include "pinned/record.h"

/* Whether memory stays although nobody uses it: policy torch forgets its part of the
 * reserve, policy acre goes on using it. */
static bool is_fixed(const acre_pinned *pinned, const struct extent *extent)
{
    return extent->method == SOURCE_RESERVE && !pinned_is_torch(pinned);
}

/* Nobody uses a piece any more: it becomes free, or goes back at once. */
static void retire_locked(acre_pinned *pinned, struct host_block *host_block)
{
    bool is_kept = host_block->bytes <= pinned->conf.pinned_max_cached_bytes;
    struct extent *extent = host_block->extent;

    level_down(&pinned->active_requests[host_block->bucket], 1);
    level_down(&pinned->active_bytes[host_block->bucket], host_block->bytes);
    level_down(&pinned->requested_bytes, host_block->requested);
    record_block_locked(pinned, host_block, ACRE_ACTION_FREE_COMPLETED);
    host_block->is_from_capture = false;
    if (pinned_is_torch(pinned))
        bucket_put(host_block);
    else if (is_kept)
        host_arena_keep(host_block);
    else
        host_arena_put(host_block);
    if (is_kept || list_empty(&extent->idle_link) || is_fixed(pinned, extent))
        return;
    host_arena_withdraw(extent);
    list_push_back(&pinned->doomed, &extent->link);
}

static void settle_done(void *arg, struct host_block *host_block)
{
    acre_pinned *pinned = arg;

    pinned->waiting_bytes -= host_block->bytes;
    retire_locked(pinned, host_block);
}

/* Lets a LIVE piece with uses wait for them. */
static acre_status wait_locked(acre_pinned *pinned, struct host_block *host_block)
{
    struct host_pool *pool = host_block->pool;
    acre_status status = ACRE_OK;

    if (uses_are_in_capture(host_block))
        list_push_back(&pool->postponed, &host_block->link);
    else
        status = events_add(&pinned->store, &pool->events, host_block);
    if (status != ACRE_OK)
        return status;
    host_block->state = PIECE_WAITING;
    pinned->waiting_bytes += host_block->bytes;
    poller_notify(&pinned->poller);
    return ACRE_OK;
}

void settle_postpone_locked(acre_pinned *pinned, struct host_block *host_block)
{
    record_block_locked(pinned, host_block, ACRE_ACTION_FREE_REQUESTED);
    list_push_back(&host_block->pool->postponed, &host_block->link);
    host_block->state = PIECE_WAITING;
    pinned->waiting_bytes += host_block->bytes;
    poller_notify(&pinned->poller);
}

/* Keeps a LIVE piece until no graph uses it. */
static void capture_locked(acre_pinned *pinned, struct host_block *host_block)
{
    host_block->state = PIECE_CAPTURED;
    pinned->captured_bytes += host_block->bytes;
    list_push_back(&host_block->pool->captured, &host_block->link);
}

acre_status settle_free_locked(acre_pinned *pinned, struct host_block *host_block)
{
    bool is_used = host_block->uses != NULL;
    acre_status status = ACRE_OK;

    if (is_used && (host_block->is_from_capture || uses_are_captured(host_block)))
        capture_locked(pinned, host_block);
    else if (is_used)
        status = wait_locked(pinned, host_block);
    if (status != ACRE_OK && !pinned->conf.pinned_catches_all)
        return status;
    record_block_locked(pinned, host_block, ACRE_ACTION_FREE_REQUESTED);
    if (status != ACRE_OK)
        capture_locked(pinned, host_block); /* with its uses, which are still to be waited for */
    else if (!is_used)
        retire_locked(pinned, host_block);
    return status;
}

/* Pieces whose streams were captured when they were freed wait for events now. */
static acre_status resume_locked(acre_pinned *pinned, struct host_pool *pool)
{
    acre_status first = ACRE_OK;

    LIST_FOR_EACH_SAFE(link, after, &pool->postponed) {
        struct host_block *host_block = CONTAINER_OF(link, struct host_block, link);
        if (uses_are_in_capture(host_block))
            continue;
        acre_status status = events_add(&pinned->store, &pool->events, host_block);
        if (status == ACRE_OK)
            list_remove(&host_block->link);
        else if (first == ACRE_OK)
            first = status;
    }
    return first;
}

acre_status settle_collect_locked(acre_pinned *pinned, struct host_pool *pool, bool is_waiting)
{
    acre_status first = resume_locked(pinned, pool);
    acre_status status =
        events_collect(&pinned->store, &pool->events, is_waiting, settle_done, pinned);

    return first != ACRE_OK ? first : status;
}

void settle_captured_locked(acre_pinned *pinned, struct host_pool *pool)
{
    struct list kept = LIST_INITIALIZER(kept);

    list_insert(&pool->captured, &kept); /* takes the place of the head */
    list_remove(&pool->captured);
    LIST_FOR_EACH_SAFE(link, after, &kept) {
        struct host_block *host_block = CONTAINER_OF(link, struct host_block, link);
        list_remove(link);
        uses_forget(host_block, true);
        pinned->captured_bytes -= host_block->bytes;
        host_block->state = PIECE_LIVE;
        if (!host_block->uses)
            retire_locked(pinned, host_block);
        else if (wait_locked(pinned, host_block) != ACRE_OK)
            capture_locked(pinned, host_block); /* to be tried again */
    }
}

uint64_t settle_release_locked(acre_pinned *pinned, struct host_pool *pool, uint64_t keep)
{
    uint64_t idle = 0, released = 0;

    LIST_FOR_EACH(link, &pool->idle)
        idle += CONTAINER_OF(link, struct extent, idle_link)->bytes;
    LIST_FOR_EACH_SAFE(link, after, &pool->idle) {
        struct extent *extent = CONTAINER_OF(link, struct extent, idle_link);
        if (idle <= keep)
            break;
        if (is_fixed(pinned, extent))
            continue;
        idle -= extent->bytes;
        released += extent->bytes;
        host_arena_withdraw(extent);
        list_push_back(&pinned->doomed, &extent->link);
    }
    return released;
}
