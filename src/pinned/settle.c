/* SPDX-License-Identifier: MIT */
/* What becomes of pieces that were freed. */
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
static void retire_locked(acre_pinned *pinned, struct piece *piece)
{
    bool is_kept = piece->bytes <= pinned->conf.pinned_max_cached_bytes;
    struct extent *extent = piece->extent;

    level_down(&pinned->active_requests[piece->bucket], 1);
    level_down(&pinned->active_bytes[piece->bucket], piece->bytes);
    level_down(&pinned->requested_bytes, piece->requested);
    record_piece_locked(pinned, piece, ACRE_ACTION_FREE_COMPLETED);
    piece->is_from_capture = false;
    if (pinned_is_torch(pinned))
        bucket_put(piece);
    else if (is_kept)
        host_arena_keep(piece);
    else
        host_arena_put(piece);
    if (is_kept || list_empty(&extent->idle_link) || is_fixed(pinned, extent))
        return;
    host_arena_withdraw(extent);
    list_push_back(&pinned->doomed, &extent->link);
}

static void settle_done(void *arg, struct piece *piece)
{
    acre_pinned *pinned = arg;

    pinned->waiting_bytes -= piece->bytes;
    retire_locked(pinned, piece);
}

/* Lets a LIVE piece with uses wait for them. */
static acre_status wait_locked(acre_pinned *pinned, struct piece *piece)
{
    struct host_pool *pool = piece->pool;
    acre_status status = ACRE_OK;

    if (uses_are_in_capture(piece))
        list_push_back(&pool->postponed, &piece->link);
    else
        status = events_add(&pinned->store, &pool->events, piece);
    if (status != ACRE_OK)
        return status;
    piece->state = PIECE_WAITING;
    pinned->waiting_bytes += piece->bytes;
    poller_notify(&pinned->poller);
    return ACRE_OK;
}

/* Keeps a LIVE piece until no graph uses it. */
static void capture_locked(acre_pinned *pinned, struct piece *piece)
{
    piece->state = PIECE_CAPTURED;
    pinned->captured_bytes += piece->bytes;
    list_push_back(&piece->pool->captured, &piece->link);
}

acre_status settle_free_locked(acre_pinned *pinned, struct piece *piece)
{
    bool is_used = piece->uses != NULL;
    acre_status status = ACRE_OK;

    if (is_used && (piece->is_from_capture || uses_are_captured(piece)))
        capture_locked(pinned, piece);
    else if (is_used)
        status = wait_locked(pinned, piece);
    if (status != ACRE_OK && !pinned->conf.pinned_catches_all)
        return status;
    record_piece_locked(pinned, piece, ACRE_ACTION_FREE_REQUESTED);
    if (status != ACRE_OK) {
        uses_forget(piece, false);
        capture_locked(pinned, piece);
    } else if (!is_used) {
        retire_locked(pinned, piece);
    }
    return status;
}

/* Pieces whose streams were captured when they were freed wait for events now. */
static acre_status resume_locked(acre_pinned *pinned, struct host_pool *pool)
{
    acre_status first = ACRE_OK;

    LIST_FOR_EACH_SAFE(link, after, &pool->postponed) {
        struct piece *piece = CONTAINER_OF(link, struct piece, link);
        if (uses_are_in_capture(piece))
            continue;
        acre_status status = events_add(&pinned->store, &pool->events, piece);
        if (status == ACRE_OK)
            list_remove(&piece->link);
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
        struct piece *piece = CONTAINER_OF(link, struct piece, link);
        list_remove(link);
        uses_forget(piece, true);
        pinned->captured_bytes -= piece->bytes;
        piece->state = PIECE_LIVE;
        if (!piece->uses)
            retire_locked(pinned, piece);
        else if (wait_locked(pinned, piece) != ACRE_OK)
            capture_locked(pinned, piece); /* to be tried again */
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
