/* SPDX-License-Identifier: MIT */
/* From what happens to entries, and the public calls on history. */
#include "cache/observe/record.h"

#include "base/status.h"
#include "cache/engine.h"
#include "cache/threads/front.h"
#include "cache/observe/pending_stack.h"

#include <string.h>

static bool level_is(const acre_cache *cache, acre_context_level level)
{
    return atomic_load_explicit(&cache->history.level, memory_order_relaxed) >= level;
}

void record_gather_slow(acre_cache *cache)
{
    acre_context_source source;
    acre_context_objects objects;

    quick_lock_take(&cache->lock);
    source = cache->history.source;
    objects = cache->history.stacks.objects;
    bool is_on = cache->history.is_on;
    quick_lock_drop(&cache->lock);
    if (!is_on)
        return;
    pending_stack_take(cache, &source, &objects);
}

void record_gather_end_slow(void)
{
    pending_stack_end();
}

/* The object that the thread took last, as a number; 0 when it is not of this history, which
 * may have been started anew meanwhile. */
static uint32_t object_add_locked(acre_cache *cache)
{
    struct stacks *stacks = &cache->history.stacks;

    if (stacks->objects.take != pending_stack.objects.take ||
        stacks->objects.arg != pending_stack.objects.arg)
        return 0;
    return stacks_object_add(stacks, pending_stack.object);
}

uint32_t record_stack_locked(acre_cache *cache)
{
    struct status_saved before;

    if (pending_stack.owner != cache || !level_is(cache, ACRE_CONTEXT_STATE))
        return 0;
    status_save(&before);
    uint32_t stack =
        pending_stack.object
            ? object_add_locked(cache)
            : stacks_intern(&cache->history.stacks, pending_stack.frames, pending_stack.count);
    status_restore(&before);
    return stack;
}

/* Keeps an event and tells the trackers. */
static void record_record(acre_cache *cache, struct history_event *event)
{
    event->ticks = ticks_now();
    event->label = label_current();
    history_append(&cache->history, event);
    if (!cache->trackers)
        return;
    struct ticks_mark now = ticks_mark();
    acre_history_entry entry = {.action = (acre_action)event->action,
                                .address = event->address,
                                .bytes = event->bytes,
                                .stream = event->stream,
                                .pool = {event->pool[0], event->pool[1]},
                                .time_us = now.real_ns / 1000,
                                .compile_context = label_compile(event->label.compile),
                                .user_metadata = label_metadata(event->label.metadata)};
    for (size_t i = 0; i < cache->trackers->count; i++) {
        const struct observer *tracker = &cache->trackers->items[i];
        ((acre_tracker_fn)tracker->fn)(tracker->arg, &entry);
    }
}

static struct history_event event_of(acre_action action, const void *address, uint64_t bytes,
                                     void *stream, const struct pool *pool)
{
    return (struct history_event){.action = (uint32_t)action,
                                  .address = (uintptr_t)address,
                                  .bytes = bytes,
                                  .stream = stream,
                                  .pool = {pool->id[0], pool->id[1]}};
}

void record_alloc_slow(acre_cache *cache, struct block *block)
{
    struct history_event event =
        event_of(ACRE_ACTION_ALLOC, block->base, block->requested, block->stream, block->pool);

    block->stack = record_stack_locked(cache);
    pending_stack_end();
    if (level_is(cache, ACRE_CONTEXT_ALLOC))
        event.stack = block->stack;
    record_record(cache, &event);
}

void record_free_slow(acre_cache *cache, struct block *block, acre_action action)
{
    struct history_event event =
        event_of(action, block->base, block->requested, block->stream, block->pool);
    uint32_t own = level_is(cache, ACRE_CONTEXT_ALL) ? record_stack_locked(cache) : 0;

    event.stack = own;
    if (level_is(cache, ACRE_CONTEXT_ALLOC) && !own)
        event.stack = block->stack;
    record_record(cache, &event);
    stacks_drop(&cache->history.stacks, own);
    if (action == ACRE_ACTION_FREE_COMPLETED) {
        stacks_drop(&cache->history.stacks, block->stack);
        block->stack = 0;
    }
}

void record_segment_slow(acre_cache *cache, acre_action action, const void *base, uint64_t bytes,
                         const struct segment *segment)
{
    struct history_event event = event_of(action, base, bytes, segment->stream, segment->pool);
    bool is_end = action == ACRE_ACTION_SEGMENT_FREE || action == ACRE_ACTION_SEGMENT_UNMAP;
    uint32_t own = 0;

    if (is_end && level_is(cache, ACRE_CONTEXT_ALL) && pending_stack.owner == cache)
        own = record_stack_locked(cache);
    if (level_is(cache, ACRE_CONTEXT_ALLOC))
        event.stack = own ? own : segment->stack;
    record_record(cache, &event);
    stacks_drop(&cache->history.stacks, own);
    if (action == ACRE_ACTION_SEGMENT_FREE)
        stacks_drop(&cache->history.stacks, segment->stack); /* the segment ends */
}

void record_oom_slow(acre_cache *cache, const struct attempt *attempt)
{
    const struct request *request = &attempt->request;
    struct history_event event =
        event_of(ACRE_ACTION_OOM, (void *)(uintptr_t)attempt->shortage.device_free,
                 request->rounded, request->stream, request->pool);

    if (level_is(cache, ACRE_CONTEXT_ALLOC))
        event.stack = record_stack_locked(cache);
    pending_stack_end();
    record_record(cache, &event);
    stacks_drop(&cache->history.stacks, event.stack);
}

void record_snapshot_locked(acre_cache *cache, uint64_t active_bytes, const uint64_t pool[2])
{
    struct history_event event = {
        .action = ACRE_ACTION_SNAPSHOT, .bytes = active_bytes, .pool = {pool[0], pool[1]}};

    if (cache->history.is_armed)
        record_record(cache, &event);
}

/* ---- Switching --------------------------------------------------------------- */

/* After history or trackers were switched: lanes write notes, or stay closed
 * where every event needs the lock. */
static void rearm_locked(acre_cache *cache)
{
    struct history *history = &cache->history;
    bool needs_lock = level_is(cache, ACRE_CONTEXT_STATE) || cache->trackers ||
                      (history->is_on && !history_takes_notes(history));

    history->is_armed = history->is_on || cache->trackers;
    if (cache->facts.has_lanes)
        front_record_locked(cache, history->is_on, needs_lock);
}

/* No stack is known any more: of blocks, segments and entries to come. */
static void forget_stacks_locked(acre_cache *cache)
{
    LIST_FOR_EACH(link, &cache->segments) {
        struct segment *segment = CONTAINER_OF(link, struct segment, link);
        stacks_drop(&cache->history.stacks, segment->stack);
        segment->stack = 0;
        for (struct block *block = segment->first; block; block = block->next) {
            stacks_drop(&cache->history.stacks, block->stack);
            block->stack = 0;
        }
    }
}

acre_status acre_cache_history_start(acre_cache *cache, const acre_history_config *config)
{
    acre_history_config copy;
    uint32_t skip;

    if (!cache)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_history_start: a cache is needed");
    acre_status status = history_config_read("acre_cache_history_start", config, &copy, &skip);
    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    status = history_start(&cache->history, &copy, skip);
    if (status == ACRE_OK) {
        if (copy.level == ACRE_CONTEXT_NEVER)
            forget_stacks_locked(cache);
        rearm_locked(cache);
    }
    quick_lock_drop(&cache->lock);
    return status;
}

void record_stop_locked(acre_cache *cache)
{
    if (!cache->history.is_on)
        return;
    forget_stacks_locked(cache);
    history_clear(&cache->history);
    rearm_locked(cache);
    if (pending_stack.owner == cache)
        pending_stack_end();
}

void acre_cache_history_stop(acre_cache *cache)
{
    if (!cache)
        return;
    quick_lock_take(&cache->lock);
    record_stop_locked(cache);
    quick_lock_drop(&cache->lock);
}

bool acre_cache_history_is_on(const acre_cache *cache)
{
    if (!cache)
        return false;
    quick_lock_take((struct quick_lock *)&cache->lock);
    bool is_on = cache->history.is_on;
    quick_lock_drop((struct quick_lock *)&cache->lock);
    return is_on;
}

acre_status acre_cache_history_create(acre_cache *cache, acre_history **out)
{
    if (!cache || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_history_create: an argument is NULL");
    quick_lock_take(&cache->lock);
    if (cache->facts.has_lanes) {
        front_stop_locked(cache->front);
        front_notes_take_locked(cache);
        front_go_locked(cache->front);
    }
    acre_history *copy = history_copy(&cache->history);
    quick_lock_drop(&cache->lock);
    if (!copy)
        return ACRE_ERR_HOST_MEMORY;
    *out = copy;
    return ACRE_OK;
}

size_t acre_cache_stack_of(acre_cache *cache, const void *pointer, uint64_t *frames,
                           size_t capacity)
{
    size_t count = 0;

    if (!cache || !pointer)
        return 0;
    quick_lock_take(&cache->lock);
    const struct block *block = engine_find_locked(cache, pointer);
    if (block) {
        const uint64_t *from = stacks_frames(&cache->history.stacks, block->stack, &count);
        size_t copied = count < capacity ? count : capacity;
        if (frames && copied)
            memcpy(frames, from, copied * sizeof *frames);
    }
    quick_lock_drop(&cache->lock);
    return count;
}

acre_status acre_cache_annotate(acre_cache *cache, const char *const *pairs, uint64_t pair_count)
{
    bool is_whole = cache && (pairs || !pair_count) && pair_count < 1 << 20;

    for (uint64_t i = 0; is_whole && i < pair_count * 2; i++)
        is_whole = pairs[i] != NULL;
    if (!is_whole)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_annotate: a cache and pairs of keys and "
                                             "values are needed");
    quick_lock_take(&cache->lock);
    acre_status status = history_annotate(&cache->history, pairs, pair_count);
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_cache_tracker_add(acre_cache *cache, acre_tracker_fn fn, void *arg)
{
    if (!cache || !fn)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_tracker_add: an argument is NULL");
    quick_lock_take(&cache->lock);
    acre_status status = observers_add(&cache->trackers, (void (*)(void))fn, arg);
    rearm_locked(cache);
    quick_lock_drop(&cache->lock);
    return status;
}

void acre_cache_tracker_remove(acre_cache *cache, acre_tracker_fn fn, void *arg)
{
    if (!cache || !fn)
        return;
    quick_lock_take(&cache->lock);
    observers_remove(&cache->trackers, (void (*)(void))fn, arg);
    rearm_locked(cache);
    quick_lock_drop(&cache->lock);
}

/* ---- Labels of the thread ------------------------------------------------------ */

acre_status acre_history_metadata_set(const char *text)
{
    acre_status status = label_metadata_set(text);

    lane_relabel();
    return status;
}

const char *acre_history_metadata_get(void)
{
    return label_metadata(label_current().metadata);
}

acre_status acre_history_compile_push(const char *text)
{
    if (!text)
        return status_fail(ACRE_ERR_INVALID, "acre_history_compile_push: a text is needed");
    if (!history_any_is_on())
        return ACRE_OK;
    acre_status status = label_compile_push(text);
    lane_relabel();
    return status;
}

void acre_history_compile_pop(void)
{
    label_compile_pop();
    lane_relabel();
}
