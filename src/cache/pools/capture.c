/* SPDX-License-Identifier: MIT */
/* Captures as a cache sees them.
 *
 * While a stream captures, work is recorded for later, and calls that look at
 * what runs would break the capture. So, in a *capture context*, memory comes
 * from free blocks and from the device only: no event is recorded or looked at,
 * nothing is waited for, nothing is given back to the device. A call is in a
 * capture context while the cache knows of a running capture (a mark) and the
 * stream it is about takes part in one, or its thread began one.
 *
 * A user who has only the calls of a plug-in cannot tell the cache of a capture. So
 * streams are asked while a scope is open, too, and a capture that is found that way
 * gets a mark, until it is found to be over.
 *
 * Threads outside may do all that, with streams that do not capture. What was
 * freed in a capture is not set free by them before that capture has ended. */
#include "cache/pools/capture.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "cache/acre/arena.h"
#include "cache/cache.h"
#include "cache/engine.h"
#include "cache/fork.h"

/* ---- What streams do ------------------------------------------------------------- */

/* What a stream takes part in; nothing, on devices without captures. */
static acre_status capture_look(const acre_cache *cache, void *stream, acre_capture_info *out)
{
    const struct acre_device *device = cache->device;

    *out = (acre_capture_info){.struct_size = sizeof *out, .status = ACRE_CAPTURE_NONE};
    if (!device_has(device, ACRE_CAP_CAPTURE))
        return ACRE_OK;
    return device->ops->capture_info(device->self, device->index, stream, out);
}

acre_status capture_has_locked(acre_cache *cache, uint64_t capture_id, void *stream, bool *out_has)
{
    acre_capture_info info = {.struct_size = sizeof info};
    acre_status status = capture_look(cache, stream, &info);

    *out_has = info.status == ACRE_CAPTURE_ACTIVE && info.id == capture_id;
    return status;
}

bool capture_runs_on_locked(const acre_cache *cache, void *stream)
{
    acre_capture_info info = {.struct_size = sizeof info};

    if (!capture_may_run_locked(cache))
        return false;
    return capture_look(cache, stream, &info) != ACRE_OK || info.status != ACRE_CAPTURE_NONE;
}

/* The mark of a capture that the calling thread began, or NULL. */
static const struct running_capture *own_mark(const acre_cache *cache)
{
    LIST_FOR_EACH(link, &cache->marks) {
        const struct running_capture *mark = CONTAINER_OF(link, struct running_capture, link);
        if (mark->thread == thread_number())
            return mark;
    }
    return NULL;
}

bool capture_is_own_locked(const acre_cache *cache)
{
    return cache->capture_count && own_mark(cache);
}

acre_status capture_context_locked(const acre_cache *cache, void *stream, bool *out)
{
    acre_capture_info info = {.struct_size = sizeof info};

    *out = false;
    if (!capture_may_run_locked(cache))
        return ACRE_OK;
    acre_status status = capture_look(cache, stream, &info);
    *out = info.status != ACRE_CAPTURE_NONE || own_mark(cache);
    return status;
}

acre_status capture_of_use_slow_locked(const acre_cache *cache, void *stream, uint64_t *out_id)
{
    acre_capture_info info = {.struct_size = sizeof info};
    acre_status status = capture_look(cache, stream, &info);

    if (info.status == ACRE_CAPTURE_ACTIVE)
        *out_id = info.id;
    return status;
}

/* ---- Marks ------------------------------------------------------------------------- */

static struct running_capture *mark_find(const acre_cache *cache, uint64_t capture_id)
{
    LIST_FOR_EACH(link, &cache->marks) {
        struct running_capture *mark = CONTAINER_OF(link, struct running_capture, link);
        if (mark->capture_id == capture_id)
            return mark;
    }
    return NULL;
}

static acre_status mark_create(acre_cache *cache, const struct running_capture *what)
{
    struct running_capture *mark = heap_alloc(sizeof *mark);

    if (!mark)
        return ACRE_ERR_HOST_MEMORY;
    *mark = *what;
    list_push_front(&cache->marks, &mark->link);
    cache->capture_count++;
    cache->found_count += mark->is_found;
    return ACRE_OK;
}

static void mark_destroy(acre_cache *cache, struct running_capture *mark)
{
    views_drop(&cache->capture_waits, mark->capture_id);
    list_remove(&mark->link);
    cache->capture_count--;
    cache->found_count -= mark->is_found;
    heap_free(mark);
}

acre_status mark_begin_locked(acre_cache *cache, void *stream, uint64_t *out_id)
{
    acre_capture_info info = {.struct_size = sizeof info};
    acre_status status = capture_look(cache, stream, &info);

    if (status != ACRE_OK)
        return status;
    if (info.status != ACRE_CAPTURE_ACTIVE)
        return status_fail(ACRE_ERR_STATE,
                           "stream %p does not capture: begin its capture before "
                           "the cache is told",
                           stream);
    struct running_capture told = {
        .stream = stream, .capture_id = info.id, .thread = thread_number()};
    struct running_capture *found = mark_find(cache, info.id);
    if (found && found->is_found) { /* from now on it is one that was told */
        cache->found_count--;
        found->stream = told.stream;
        found->thread = told.thread;
        found->is_found = false;
    } else {
        status = mark_create(cache, &told);
    }
    if (status == ACRE_OK)
        *out_id = info.id;
    return status;
}

acre_status mark_end_locked(acre_cache *cache, void *stream)
{
    LIST_FOR_EACH(link, &cache->marks) {
        struct running_capture *mark = CONTAINER_OF(link, struct running_capture, link);
        if (mark->stream != stream || mark->is_found)
            continue;
        mark_destroy(cache, mark);
        return ACRE_OK;
    }
    return status_fail(ACRE_ERR_STATE,
                       "the cache was not told that stream %p captures: "
                       "acre_capture_mark_begin() comes first",
                       stream);
}

acre_status capture_notice_locked(acre_cache *cache, void *stream, bool is_own)
{
    acre_capture_info info = {.struct_size = sizeof info};
    acre_status status = capture_look(cache, stream, &info);

    if (status != ACRE_OK || info.status != ACRE_CAPTURE_ACTIVE)
        return status == ACRE_ERR_INVALID ? ACRE_OK : status; /* a stream that is no more */
    struct running_capture *known = mark_find(cache, info.id);
    if (!known)
        return mark_create(cache, &(struct running_capture){.stream = stream,
                                                            .capture_id = info.id,
                                                            .thread = is_own ? thread_number() : 0,
                                                            .is_found = true});
    if (known->is_found && is_own && !known->thread)
        known->thread = thread_number();
    return ACRE_OK;
}

acre_status capture_search_locked(acre_cache *cache)
{
    const struct block *last = NULL;
    acre_status status = ACRE_OK;

    if (list_empty(&cache->scopes) || !device_has(cache->device, ACRE_CAP_CAPTURE))
        return status;
    LIST_FOR_EACH(link, &cache->segments)
        for (struct block *block = CONTAINER_OF(link, struct segment, link)->first;
             block && status == ACRE_OK; block = block->next) {
            /* What has no pages here, and what is nobody's, may have a stream that is none. */
            if (block->state == BLOCK_UNMAPPED || block->state == BLOCK_LENT ||
                block_is_common(block))
                continue;
            if (!last || last->stream != block->stream)
                status = capture_notice_locked(cache, block->stream, false);
            for (const struct use *use = block->uses; use && status == ACRE_OK; use = use->next)
                if (!use->hold)
                    status = capture_notice_locked(cache, use->stream, false);
            last = block;
        }
    return status;
}

void capture_sweep_locked(acre_cache *cache)
{
    if (!cache->found_count)
        return;
    LIST_FOR_EACH_SAFE(link, after, &cache->marks) {
        struct running_capture *mark = CONTAINER_OF(link, struct running_capture, link);
        acre_capture_info info = {.struct_size = sizeof info};
        if (!mark->is_found)
            continue;
        acre_status status = capture_look(cache, mark->stream, &info);
        bool is_active = info.status == ACRE_CAPTURE_ACTIVE && info.id == mark->capture_id;
        bool is_broken = info.status == ACRE_CAPTURE_INVALIDATED;
        if (status == ACRE_ERR_INVALID || (status == ACRE_OK && !is_active && !is_broken))
            mark_destroy(cache, mark);
    }
}

acre_status acre_capture_mark_begin(acre_cache *cache, void *stream)
{
    uint64_t id;

    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "acre_capture_mark_begin: a cache is needed");
    REFUSE_FORKED(cache);
    quick_lock_take(&cache->lock);
    acre_status status = mark_begin_locked(cache, stream, &id);
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_capture_mark_end(acre_cache *cache, void *stream)
{
    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "acre_capture_mark_end: a cache is needed");
    REFUSE_FORKED(cache);
    quick_lock_take(&cache->lock);
    acre_status status = mark_end_locked(cache, stream);
    quick_lock_drop(&cache->lock);
    return status;
}

void capture_fini(acre_cache *cache)
{
    LIST_FOR_EACH_SAFE(link, after, &cache->marks) {
        list_remove(link);
        heap_free(CONTAINER_OF(link, struct running_capture, link));
    }
    capture_waits_fini(&cache->capture_waits, &cache->deferred);
}

/* ---- Freeing in a capture ------------------------------------------------------------ */

/* What is known about a block that is being freed. */
struct free_plan {
    uint64_t capture_id; /* to wait for                                    */
    void *stream;        /* that takes part in it                          */
    bool is_captured;    /* there is such a capture                        */
    bool is_marked;      /* every stream of the block is in it, by markers */
    uint32_t marker_count;
    uint64_t *markers; /* 16 for each stream                             */
};

/* Looks at one stream of a block. */
static acre_status plan_stream(const acre_cache *cache, struct free_plan *plan, void *stream)
{
    acre_capture_info info = {.struct_size = sizeof info};
    acre_status status = capture_look(cache, stream, &info);

    if (status != ACRE_OK)
        return status;
    if (info.status != ACRE_CAPTURE_NONE && !plan->is_captured) {
        plan->is_captured = true;
        plan->capture_id = info.id;
        plan->stream = stream;
    }
    if (info.status != ACRE_CAPTURE_ACTIVE || info.id != plan->capture_id ||
        info.terminal_count > 16)
        plan->is_marked = false;
    for (uint32_t i = 0; plan->is_marked && i < info.terminal_count; i++)
        plan->markers[plan->marker_count++] = info.terminals[i];
    return ACRE_OK;
}

acre_status capture_free_locked(acre_cache *cache, struct block *block)
{
    const struct running_capture *mark = own_mark(cache);
    struct free_plan plan = {.is_marked = cache->conf.reuses_in_capture};
    uint32_t stream_count = 1;

    for (const struct use *use = block->uses; use; use = use->next) {
        stream_count++;
        if (!use->hold)
            capture_notice_locked(cache, use->stream, false);
    }
    struct capture_wait *capture_wait = capture_wait_create(16 * stream_count);
    if (!capture_wait)
        return ACRE_ERR_HOST_MEMORY;
    plan.markers = capture_wait->markers;
    acre_status status = plan_stream(cache, &plan, block->stream);
    for (const struct use *use = block->uses; use && status == ACRE_OK; use = use->next) {
        if (use->hold)
            continue;
        /* Work from before the capture is no part of its graph. */
        plan.is_marked &= use->capture_id == plan.capture_id;
        status = plan_stream(cache, &plan, use->stream);
    }
    if (status == ACRE_OK && !plan.is_captured && !mark)
        status = deferred_add(&cache->deferred, block, false);
    if (status == ACRE_OK && block->state == BLOCK_LIVE) /* nothing can fail from here on */
        deferred_settle_holds(&cache->deferred, block);
    if (status != ACRE_OK || block->state != BLOCK_LIVE || !block->uses) {
        heap_free(capture_wait);
        return status;
    }
    for (const struct use *use = block->uses; use; use = use->next)
        plan.is_marked &= !use->hold; /* a hold is no part of a graph either */
    capture_wait->capture_id = plan.is_captured ? plan.capture_id : mark->capture_id;
    capture_wait->stream = plan.is_captured ? plan.stream : mark->stream;
    capture_wait->marker_count = plan.is_marked ? plan.marker_count : 0;
    capture_wait_begin(&cache->capture_waits, &cache->deferred, capture_wait, block);
    return ACRE_OK;
}

/* ---- Setting free -------------------------------------------------------------------- */

/* Whether the capture that a block waits for has ended. */
static acre_status is_over(const acre_cache *cache, const struct capture_wait *capture_wait,
                           bool *out)
{
    acre_capture_info info = {.struct_size = sizeof info};

    *out = false;
    LIST_FOR_EACH(link, &cache->marks)
        if (CONTAINER_OF(link, struct running_capture, link)->capture_id ==
            capture_wait->capture_id)
            return ACRE_OK;
    acre_status status = capture_look(cache, capture_wait->stream, &info);
    if (status == ACRE_ERR_INVALID) /* the stream is no more */
        info.status = ACRE_CAPTURE_NONE;
    else if (status != ACRE_OK)
        return status;
    *out = info.status == ACRE_CAPTURE_NONE ||
           (info.status == ACRE_CAPTURE_ACTIVE && info.id != capture_wait->capture_id);
    return ACRE_OK;
}

/* Nobody uses a block that was held any more. */
static void set_free(acre_cache *cache, struct capture_wait *capture_wait)
{
    struct block *block = capture_wait_lift(capture_wait);

    deferred_forget_uses(&cache->deferred, block);
    capture_wait_destroy(&cache->deferred, capture_wait);
    block->state = BLOCK_WAITING; /* as its statistics say */
    engine_done_locked(cache, block);
}

/* Whether a stream that used a block before its capture takes part in another one
 * by now, which the block then waits for. */
static acre_status is_taken_over(acre_cache *cache, struct capture_wait *capture_wait, bool *out)
{
    acre_capture_info info = {.struct_size = sizeof info};

    *out = false;
    for (const struct use *use = capture_wait->uses; use; use = use->next) {
        if (use->capture_id || use->hold)
            continue;
        acre_status status = capture_look(cache, use->stream, &info);
        if (status != ACRE_OK)
            return status;
        if (info.status == ACRE_CAPTURE_NONE)
            continue;
        *out = true;
        capture_wait->capture_id = info.id;
        capture_wait->stream = use->stream;
        capture_wait->marker_count = 0;
    }
    return ACRE_OK;
}

/* Its capture has ended: sets a block free, or lets it wait for the streams that
 * used it outside. */
static acre_status capture_settle(acre_cache *cache, struct capture_wait *capture_wait)
{
    bool is_elsewhere, is_used = false;
    acre_status status = is_taken_over(cache, capture_wait, &is_elsewhere);

    if (status != ACRE_OK || is_elsewhere)
        return status;
    for (const struct use *use = capture_wait->uses; use; use = use->next)
        is_used |= !use->capture_id;
    if (!is_used) {
        set_free(cache, capture_wait);
        return ACRE_OK;
    }
    struct block *block = capture_wait_lift(capture_wait);
    deferred_forget_captured(&cache->deferred, block);
    status = deferred_add(&cache->deferred, block, false);
    if (status == ACRE_OK)
        capture_wait_destroy(&cache->deferred, capture_wait);
    else
        capture_wait_lower(capture_wait);
    return status;
}

acre_status capture_flush_locked(acre_cache *cache, const struct private_pool *pool)
{
    acre_status first = ACRE_OK;

    LIST_FOR_EACH_SAFE(link, after, &cache->capture_waits.list) {
        struct capture_wait *capture_wait = CONTAINER_OF(link, struct capture_wait, link);
        bool over = false;
        if (pool && capture_wait->block->pool->owner != pool)
            continue;
        acre_status status = is_over(cache, capture_wait, &over);
        if (status == ACRE_OK && over)
            status = capture_settle(cache, capture_wait);
        if (first == ACRE_OK)
            first = status;
    }
    return first;
}

/* In a capture, for a request on stream: sets blocks free that nothing captured
 * there from now on can meet in use. */
static acre_status capture_reuse(acre_cache *cache, void *stream)
{
    acre_capture_info info = {.struct_size = sizeof info};
    struct view *view = NULL;
    acre_status status = capture_look(cache, stream, &info);

    if (status != ACRE_OK || info.status != ACRE_CAPTURE_ACTIVE || !info.terminal_count)
        return status;
    LIST_FOR_EACH_SAFE(link, after, &cache->capture_waits.list) {
        struct capture_wait *capture_wait = CONTAINER_OF(link, struct capture_wait, link);
        if (capture_wait->capture_id != info.id || capture_wait->block->stream != stream ||
            !capture_wait->marker_count)
            continue;
        if (!view) {
            view = view_get(&cache->capture_waits, info.id, stream);
            status = view ? view_extend(view, cache->device, &info) : ACRE_ERR_HOST_MEMORY;
            if (status != ACRE_OK)
                return status;
        }
        if (!view_covers(view, capture_wait))
            continue;
        set_free(cache, capture_wait);
    }
    return ACRE_OK;
}

acre_status capture_collect_locked(acre_cache *cache, void *stream)
{
    struct status_saved before;
    bool is_inside;

    capture_sweep_locked(cache);
    acre_status status = capture_context_locked(cache, stream, &is_inside);
    if (status != ACRE_OK)
        return status;
    if (is_inside)
        return cache->conf.reuses_in_capture ? capture_reuse(cache, stream) : ACRE_OK;
    /* What cannot be settled waits on, and is no reason to refuse this request. */
    status_save(&before);
    if (capture_flush_locked(cache, NULL) != ACRE_OK)
        status_restore(&before);
    deferred_collect_slow(&cache->deferred, engine_done_locked, cache);
    return ACRE_OK;
}
