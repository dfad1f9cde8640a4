/* SPDX-License-Identifier: MIT */
#include "pinned/record.h"

#include "base/status.h"
#include "cache/observe/pending_stack.h"

static bool level_is(const acre_pinned *pinned, acre_context_level level)
{
    return atomic_load_explicit(&pinned->history.level, memory_order_relaxed) >= level;
}

void host_gather_slow(acre_pinned *pinned)
{
    quick_lock_take(&pinned->lock);
    acre_context_source source = pinned->history.source;
    bool is_on = pinned->history.is_on;
    quick_lock_drop(&pinned->lock);
    if (!is_on)
        return;
    pending_stack_take(pinned, &source, NULL);
}

/* The number of the stack gathered last, which is used up unless it is kept. */
static uint32_t stack_take(acre_pinned *pinned, bool is_kept)
{
    struct status_saved before;
    uint32_t stack = 0;

    if (pending_stack.owner == pinned && level_is(pinned, ACRE_CONTEXT_STATE)) {
        status_save(&before);
        stack = stacks_intern(&pinned->history.stacks, pending_stack.frames, pending_stack.count);
        status_restore(&before);
    }
    if (!is_kept)
        pending_stack_end();
    return stack;
}

static void record_append(acre_pinned *pinned, acre_action action, uint64_t address, uint64_t bytes,
                          acre_pool_id id, uint32_t stack)
{
    struct history_event event = {.ticks = ticks_now(),
                                  .address = address,
                                  .bytes = bytes,
                                  .pool = {id.graph, id.user},
                                  .stack = stack,
                                  .action = (uint32_t)action,
                                  .label = label_current()};

    history_append(&pinned->history, &event);
}

void host_record_piece(acre_pinned *pinned, struct host_block *host_block, acre_action action)
{
    uint32_t stack = 0;

    if (action == ACRE_ACTION_ALLOC)
        host_block->history_stack = stack_take(pinned, false);
    if (action != ACRE_ACTION_ALLOC && level_is(pinned, ACRE_CONTEXT_ALL))
        stack = stack_take(pinned, action == ACRE_ACTION_FREE_REQUESTED);
    if (level_is(pinned, ACRE_CONTEXT_ALLOC) && !stack)
        stack = host_block->history_stack;
    record_append(pinned, action, (uintptr_t)host_block->base, host_block->requested,
                  host_block->pool->id, stack);
    if (action == ACRE_ACTION_FREE_COMPLETED)
        host_block->history_stack = 0;
}

void host_record_extent(acre_pinned *pinned, struct extent *extent, acre_action action)
{
    if (action == ACRE_ACTION_SEGMENT_ALLOC)
        extent->history_stack = stack_take(pinned, true);
    record_append(pinned, action, (uintptr_t)extent->base, extent->bytes, extent->pool->id,
                  level_is(pinned, ACRE_CONTEXT_ALLOC) ? extent->history_stack : 0);
}

void host_record_oom(acre_pinned *pinned, const struct host_request *request)
{
    if (pinned->history.is_on)
        record_append(pinned, ACRE_ACTION_OOM, 0, request->rounded, request->pool->id,
                      level_is(pinned, ACRE_CONTEXT_ALLOC) ? stack_take(pinned, false) : 0);
}

void host_record_snapshot(acre_pinned *pinned, uint64_t active_bytes, const uint64_t pool[2])
{
    if (pinned->history.is_on)
        record_append(pinned, ACRE_ACTION_SNAPSHOT, 0, active_bytes,
                      (acre_pool_id){pool[0], pool[1]}, 0);
}

/* ---- Switching ------------------------------------------------------------------------ */

/* No stack is known any more. */
static void forget_stacks_locked(const struct host_pool *pool)
{
    LIST_FOR_EACH(link, &pool->extents) {
        struct extent *extent = CONTAINER_OF(link, struct extent, link);
        extent->history_stack = 0;
        for (struct host_block *host_block = extent->first; host_block;
             host_block = host_block->next) {
            host_block->history_stack = 0;
            for (uint32_t i = 0; host_block->slab && i < host_block->slab->slot_count; i++)
                host_block->slab->slots[i].history_stack = 0;
        }
    }
}

static void forget_all_stacks_locked(acre_pinned *pinned)
{
    forget_stacks_locked(&pinned->shared);
    LIST_FOR_EACH(link, &pinned->pools)
        forget_stacks_locked(CONTAINER_OF(link, struct host_pool, link));
}

acre_status acre_pinned_history_start(acre_pinned *pinned, const acre_history_config *config)
{
    acre_history_config copy;
    uint32_t skip;

    if (!pinned)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_history_start: a cache is needed");
    acre_status status = history_config_read("acre_pinned_history_start", config, &copy, &skip);
    if (status == ACRE_OK)
        status = history_objects_refuse("acre_pinned_history_start", &copy);
    if (status != ACRE_OK)
        return status;
    quick_lock_take(&pinned->lock);
    status = history_start(&pinned->history, &copy, skip);
    if (status == ACRE_OK && copy.level == ACRE_CONTEXT_NEVER)
        forget_all_stacks_locked(pinned);
    pinned_update_plain_locked(pinned);
    quick_lock_drop(&pinned->lock);
    return status;
}

void acre_pinned_history_stop(acre_pinned *pinned)
{
    if (!pinned)
        return;
    quick_lock_take(&pinned->lock);
    if (pinned->history.is_on) {
        forget_all_stacks_locked(pinned);
        history_clear(&pinned->history);
        pinned_update_plain_locked(pinned);
    }
    quick_lock_drop(&pinned->lock);
}

bool acre_pinned_history_is_on(acre_pinned *pinned)
{
    if (!pinned)
        return false;
    quick_lock_take(&pinned->lock);
    bool is_on = pinned->history.is_on;
    quick_lock_drop(&pinned->lock);
    return is_on;
}

acre_status acre_pinned_history_create(acre_pinned *pinned, acre_history **out)
{
    if (!pinned || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_history_create: an argument is NULL");
    quick_lock_take(&pinned->lock);
    acre_history *copy = history_copy(&pinned->history);
    quick_lock_drop(&pinned->lock);
    if (!copy)
        return ACRE_ERR_HOST_MEMORY;
    *out = copy;
    return ACRE_OK;
}
