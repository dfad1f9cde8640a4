/* SPDX-License-Identifier: MIT */
#include "cache/observe/plug_history.h"

#include "base/heap.h"
#include "base/list.h"
#include "base/status.h"
#include "cache/observe/history.h"
#include "cache/observer.h"

struct plug_history {
    struct plug_watch watch;
    struct plug *plug;
    struct observers *oom_observers; /* plug->lock                 */
    struct history histories[];      /* one per device; plug->lock */
};

static struct plug_history *history_of(struct plug_watch *watch)
{
    return CONTAINER_OF(watch, struct plug_history, watch);
}

/* ---- What the plug-in tells ---------------------------------------------------------- */

static bool level_is(const struct history *history, acre_context_level level)
{
    return atomic_load_explicit(&history->level, memory_order_relaxed) >= level;
}

/* Who asks for a stack, or NULL. A free does not know its device yet: the first that asks
 * for stacks of frees will do. */
static const struct history *asks_for_stack(const struct plug_history *self, int device,
                                            bool is_free)
{
    if (!is_free)
        return level_is(&self->histories[device], ACRE_CONTEXT_STATE) ? &self->histories[device]
                                                                      : NULL;
    for (int i = 0; i < self->plug->table.device_count; i++)
        if (level_is(&self->histories[i], ACRE_CONTEXT_ALL))
            return &self->histories[i];
    return NULL;
}

static void watch_gather(struct plug_watch *watch, int device, bool is_free,
                         struct plug_frames *out)
{
    struct plug_history *self = history_of(watch);

    const struct history *asking = asks_for_stack(self, device, is_free);

    if (!asking)
        return;
    lock_take(&self->plug->lock);
    acre_context_source source = asking->source;
    lock_drop(&self->plug->lock);
    if (!source.gather)
        return;
    out->count = source.gather(source.arg, out->frames, ACRE_STACK_MAX);
    if (out->count > ACRE_STACK_MAX)
        out->count = ACRE_STACK_MAX;
}

/* The number of a stack; 0: none, or not wanted. */
static uint32_t stack_locked(struct history *history, const struct plug_frames *frames,
                             acre_context_level level)
{
    struct status_saved saved;

    if (!frames->count || !level_is(history, level))
        return 0;
    status_save(&saved);
    uint32_t stack = stacks_intern(&history->stacks, frames->frames, frames->count);
    status_restore(&saved);
    return stack;
}

static void plug_history_append(struct history *history, acre_action action,
                                const struct plug_record *record, uint32_t stack)
{
    const struct history_event event = {.ticks = ticks_now(),
                                        .address = record->base,
                                        .bytes = record->bytes,
                                        .stream = record->stream,
                                        .action = (uint32_t)action,
                                        .label = label_current(),
                                        .stack = level_is(history, ACRE_CONTEXT_ALLOC) ? stack : 0};

    history_append(history, &event);
}

static void watch_tell(struct plug_watch *watch, enum plug_event event, struct plug_record *record,
                       const struct plug_frames *frames)
{
    struct history *history = &history_of(watch)->histories[record->device];

    if (!history->is_on || !record->bytes)
        return;
    if (event == PLUG_ALLOCATED) {
        record->stack = stack_locked(history, frames, ACRE_CONTEXT_STATE);
        plug_history_append(history, ACRE_ACTION_SEGMENT_ALLOC, record, record->stack);
        plug_history_append(history, ACRE_ACTION_ALLOC, record, record->stack);
        return;
    }
    uint32_t own = stack_locked(history, frames, ACRE_CONTEXT_ALL);
    uint32_t stack = own ? own : record->stack;
    if (event == PLUG_FREE_REQUESTED) {
        plug_history_append(history, ACRE_ACTION_FREE_REQUESTED, record, stack);
        return;
    }
    plug_history_append(history, ACRE_ACTION_FREE_COMPLETED, record, stack);
    plug_history_append(history, ACRE_ACTION_SEGMENT_FREE, record, stack);
}

static void observers_tell(const struct observers *list, int device, uint64_t bytes, uint64_t limit,
                           uint64_t free)
{
    for (size_t i = 0; list && i < list->count; i++)
        ((acre_cache_oom_fn)list->items[i].fn)(list->items[i].arg, device, bytes, limit, free);
}

static void watch_fail(struct plug_watch *watch, const struct plug_record *asked,
                       const struct plug_frames *frames)
{
    struct plug_history *self = history_of(watch);
    struct plug *plug = self->plug;
    struct plug_record event = *asked; /* its address is what the device had free */
    uint64_t free = 0, total = 0;
    acre_device *at;

    if (acre_device_get(plug->type, asked->device, &at) == ACRE_OK &&
        acre_device_memory(at, &free, &total) != ACRE_OK)
        free = total = 0;
    event.base = free;
    lock_take(&plug->lock);
    struct history *history = &self->histories[asked->device];
    plug_history_append(history, ACRE_ACTION_OOM, &event,
                        stack_locked(history, frames, ACRE_CONTEXT_ALLOC));
    uint64_t limit = plug->table.accounts[asked->device].limit;
    struct observers *list = observers_hold(self->oom_observers);
    lock_drop(&plug->lock);
    observers_tell(list, asked->device, asked->bytes, limit < total ? limit : total, free);
    observers_drop(list);
}

static void watch_end(struct plug_watch *watch)
{
    struct plug_history *self = history_of(watch);

    for (int i = 0; i < self->plug->table.device_count; i++)
        history_clear(&self->histories[i]);
    observers_drop(self->oom_observers);
    heap_free(self);
}

/* ---- Calls --------------------------------------------------------------------------- */

/* The histories of a plug-in, made when there are none yet; NULL: no host memory. */
static struct plug_history *history_get_locked(struct plug *plug)
{
    struct plug_watch *watch = plug->watch;

    if (watch)
        return history_of(watch);
    size_t count = (size_t)plug->table.device_count;
    struct plug_history *self = heap_zalloc(sizeof *self + count * sizeof self->histories[0]);
    if (!self)
        return NULL;
    self->watch = (struct plug_watch){watch_gather, watch_tell, watch_fail, watch_end};
    self->plug = plug;
    plug->watch = &self->watch;
    return self;
}

/* A plug-in and one of its devices, or NULL with the status. */
static struct plug *plug_with_device(acre_allocator *allocator, int device, acre_status *out)
{
    struct plug *plug = plug_of(allocator);

    *out = plug ? plug_check_device(plug, device) : ACRE_ERR_INVALID;
    return *out == ACRE_OK ? plug : NULL;
}

/* No stack is known any more. */
static void forget_stacks_locked(struct plug *plug, int device)
{
    struct plug_record *record = NULL;

    while ((record = plug_table_next(&plug->table, record)))
        if (record->device == device)
            record->stack = 0;
}

acre_status acre_pluggable_history_start(acre_allocator *allocator, int device,
                                         const acre_history_config *config)
{
    acre_history_config full;
    uint32_t skip;
    acre_status status;
    struct plug *plug = plug_with_device(allocator, device, &status);

    if (!plug)
        return status;
    status = history_config_read("acre_pluggable_history_start", config, &full, &skip);
    if (status == ACRE_OK)
        status = history_objects_refuse("acre_pluggable_history_start", &full);
    if (status != ACRE_OK)
        return status;
    lock_take(&plug->lock);
    struct plug_history *self = history_get_locked(plug);
    status = self ? history_start(&self->histories[device], &full, skip) : ACRE_ERR_HOST_MEMORY;
    lock_drop(&plug->lock);
    return status;
}

acre_status acre_pluggable_history_stop(acre_allocator *allocator, int device)
{
    acre_status status;
    struct plug *plug = plug_with_device(allocator, device, &status);

    if (!plug)
        return status;
    lock_take(&plug->lock);
    struct plug_watch *watch = plug->watch;
    if (watch) {
        forget_stacks_locked(plug, device);
        history_clear(&history_of(watch)->histories[device]);
    }
    lock_drop(&plug->lock);
    return ACRE_OK;
}

/* A copy of the history of a device; an empty one when nothing was ever recorded. */
static acre_history *copy_locked(struct plug *plug, int device)
{
    const struct history empty = {.is_on = false};
    struct plug_watch *watch = plug->watch;

    return history_copy(watch ? &history_of(watch)->histories[device] : &empty);
}

acre_status acre_pluggable_history_create(acre_allocator *allocator, int device, acre_history **out)
{
    acre_status status;
    struct plug *plug = plug_with_device(allocator, device, &status);

    if (!plug)
        return status;
    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_history_create: out is NULL");
    lock_take(&plug->lock);
    acre_history *copy = copy_locked(plug, device);
    lock_drop(&plug->lock);
    if (!copy)
        return ACRE_ERR_HOST_MEMORY;
    *out = copy;
    return ACRE_OK;
}

static acre_cache_layout *layout_locked(struct plug *plug, int device)
{
    acre_cache_layout *layout = heap_zalloc(sizeof *layout);
    struct plug_record *record = NULL;

    if (!layout)
        return NULL;
    layout->segments = heap_array(plug->table.count + 1, sizeof *layout->segments);
    layout->blocks = heap_array(plug->table.count + 1, sizeof *layout->blocks);
    if (!layout->segments || !layout->blocks) {
        acre_cache_layout_destroy(layout);
        return NULL;
    }
    while ((record = plug_table_next(&plug->table, record))) {
        if (record->device != device || !record->bytes)
            continue;
        uint64_t at = layout->block_count++;
        layout->segments[layout->segment_count++] =
            (acre_segment_info){.base = (void *)record->base,
                                .bytes = record->bytes,
                                .stream = record->stream,
                                .order = at,
                                .first_block = at,
                                .block_count = 1,
                                .stack = record->stack};
        layout->blocks[at] =
            (acre_block_info){.base = (void *)record->base,
                              .bytes = record->bytes,
                              .requested_bytes = record->bytes,
                              .stack = record->stack,
                              .state = record->is_leaving ? ACRE_BLOCK_WAITING : ACRE_BLOCK_LIVE};
    }
    return layout;
}

acre_status plug_history_moment(struct plug *plug, int device, acre_cache_layout **out_layout,
                                acre_history **out_history)
{
    lock_take(&plug->lock);
    acre_cache_layout *layout = layout_locked(plug, device);
    acre_history *history = copy_locked(plug, device);
    lock_drop(&plug->lock);
    if (!layout || !history) {
        acre_cache_layout_destroy(layout);
        acre_history_destroy(history);
        return ACRE_ERR_HOST_MEMORY;
    }
    *out_layout = layout;
    *out_history = history;
    return ACRE_OK;
}

acre_status acre_pluggable_oom_observer_add(acre_allocator *allocator, acre_cache_oom_fn fn,
                                            void *arg)
{
    struct plug *plug = plug_of(allocator);

    if (!plug)
        return ACRE_ERR_INVALID;
    if (!fn)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_oom_observer_add: fn is NULL");
    lock_take(&plug->lock);
    struct plug_history *self = history_get_locked(plug);
    acre_status status =
        self ? observers_add(&self->oom_observers, (void (*)(void))fn, arg) : ACRE_ERR_HOST_MEMORY;
    lock_drop(&plug->lock);
    return status;
}

void acre_pluggable_oom_observer_remove(acre_allocator *allocator, acre_cache_oom_fn fn, void *arg)
{
    struct plug *plug = plug_of(allocator);

    if (!plug || !fn)
        return;
    lock_take(&plug->lock);
    if (plug->watch)
        observers_remove(&history_of(plug->watch)->oom_observers, (void (*)(void))fn, arg);
    lock_drop(&plug->lock);
}
