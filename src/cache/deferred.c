/* SPDX-License-Identifier: MIT */
#include "cache/deferred.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "cache/torch/pool.h"

/* The events waited for on one stream, oldest first. */
struct deferred_queue {
    struct list link;                  /* in deferred.queues     */
    struct deferred_queue *spare_next; /* while no entry is in it */
    struct list entries;
    void *stream;
};

struct deferred_entry {
    struct list link;  /* in a queue, held, bad, in a list under construction, or spare */
    void *event;       /* NULL when hold is set                              */
    struct hold *hold; /* NULL for a stream                                  */
    struct block *block;
    struct deferred_queue *queue; /* where it will go; only while under construction    */
    void *stream;                 /* that of the event                                  */
};

void deferred_init(struct deferred *deferred, struct acre_device *device)
{
    *deferred = (struct deferred){.device = device, .prompt_in = 1, .prompt_pause = 1};
    list_init(&deferred->queues);
    list_init(&deferred->held);
    list_init(&deferred->bad);
    list_init(&deferred->spare_entries);
}

static void event_destroy(struct deferred *deferred, void *event)
{
    struct acre_device *device = deferred->device;

    device->ops->event_destroy(device->self, device->index, event);
    deferred->event_count--;
}

void deferred_trim(struct deferred *deferred)
{
    while (deferred->idle_count > 0)
        event_destroy(deferred, deferred->idle_events[--deferred->idle_count]);
}

static void free_entries(struct list *entries)
{
    LIST_FOR_EACH_SAFE(link, after, entries) {
        list_remove(link);
        heap_free(CONTAINER_OF(link, struct deferred_entry, link));
    }
}

void deferred_fini(struct deferred *deferred)
{
    LIST_FOR_EACH_SAFE(link, after, &deferred->queues) {
        struct deferred_queue *queue = CONTAINER_OF(link, struct deferred_queue, link);
        LIST_FOR_EACH(at, &queue->entries)
            event_destroy(deferred, CONTAINER_OF(at, struct deferred_entry, link)->event);
        free_entries(&queue->entries);
        list_remove(&queue->link);
        heap_free(queue);
    }
    LIST_FOR_EACH(link, &deferred->held) {
        struct hold *hold = CONTAINER_OF(link, struct deferred_entry, link)->hold;
        hold->end(hold);
    }
    LIST_FOR_EACH(link, &deferred->bad)
        event_destroy(deferred, CONTAINER_OF(link, struct deferred_entry, link)->event);
    free_entries(&deferred->held);
    free_entries(&deferred->bad);
    deferred_trim(deferred);
    free_entries(&deferred->spare_entries);
    for (struct deferred_queue *queue = deferred->spare_queues, *next; queue; queue = next) {
        next = queue->spare_next;
        heap_free(queue);
    }
    for (struct use *use = deferred->spare_uses, *next; use; use = next) {
        next = use->next;
        heap_free(use);
    }
    heap_free(deferred->idle_events);
}

/* Puts a use in front of those of a block. */
static acre_status use_add(struct deferred *deferred, struct block *block, const struct use *what)
{
    struct use *use = deferred->spare_uses;

    if (use)
        deferred->spare_uses = use->next;
    else
        use = heap_alloc(sizeof *use);
    if (!use)
        return ACRE_ERR_HOST_MEMORY;
    *use = *what;
    use->next = block->uses;
    block->uses = use;
    return ACRE_OK;
}

/* Takes out the use that a link points at, and ends its hold. */
static void use_drop(struct deferred *deferred, struct use **link)
{
    struct use *use = *link;

    *link = use->next;
    if (use->hold)
        use->hold->end(use->hold);
    use->next = deferred->spare_uses;
    deferred->spare_uses = use;
}

acre_status deferred_use(struct deferred *deferred, struct block *block, void *stream,
                         uint64_t capture_id)
{
    CHECK(block->state == BLOCK_LIVE);
    for (struct use *use = block->uses; use; use = use->next) {
        if (use->hold || use->stream != stream)
            continue;
        if (use->capture_id) /* work that runs stays to be waited for */
            use->capture_id = capture_id;
        return ACRE_OK;
    }
    return use_add(deferred, block, &(struct use){.stream = stream, .capture_id = capture_id});
}

acre_status deferred_hold(struct deferred *deferred, struct block *block, struct hold *hold)
{
    CHECK(block->state == BLOCK_LIVE);
    return use_add(deferred, block, &(struct use){.hold = hold});
}

void deferred_settle_holds(struct deferred *deferred, struct block *block)
{
    for (struct use **link = &block->uses; *link;) {
        struct hold *hold = (*link)->hold;

        if (hold && hold->is_over(hold))
            use_drop(deferred, link);
        else
            link = &(*link)->next;
    }
}

void deferred_forget_uses(struct deferred *deferred, struct block *block)
{
    while (block->uses)
        use_drop(deferred, &block->uses);
}

void deferred_forget_captured(struct deferred *deferred, struct block *block)
{
    for (struct use **at = &block->uses, *use = *at; use; use = *at) {
        if (!use->capture_id) {
            at = &use->next;
            continue;
        }
        use_drop(deferred, at);
    }
}

/* Gives an idle event, or a new one for which the stack has room. */
static acre_status event_take(struct deferred *deferred, void **out)
{
    struct acre_device *device = deferred->device;

    if (deferred->idle_count > 0) {
        *out = deferred->idle_events[--deferred->idle_count];
        return ACRE_OK;
    }
    if (deferred->event_count == deferred->idle_capacity) {
        size_t capacity = deferred->idle_capacity ? 2 * deferred->idle_capacity : 16;
        void **grown = heap_realloc(deferred->idle_events, capacity * sizeof *grown);
        if (!grown)
            return ACRE_ERR_HOST_MEMORY;
        deferred->idle_events = grown;
        deferred->idle_capacity = capacity;
    }
    acre_status status = device->ops->event_create(device->self, device->index, 0, out);
    if (status == ACRE_OK)
        deferred->event_count++;
    return status;
}

static void event_put(struct deferred *deferred, void *event)
{
    CHECK(deferred->idle_count < deferred->idle_capacity);
    deferred->idle_events[deferred->idle_count++] = event;
}

/* The queue of a stream that has entries, or NULL. */
static inline struct deferred_queue *queue_find(const struct deferred *deferred, const void *stream)
{
    LIST_FOR_EACH(link, &deferred->queues) {
        struct deferred_queue *queue = CONTAINER_OF(link, struct deferred_queue, link);
        if (queue->stream == stream)
            return queue;
    }
    return NULL;
}

/* Makes a spare queue that of a stream; an entry comes next. */
static inline struct deferred_queue *queue_begin(struct deferred *deferred, void *stream)
{
    struct deferred_queue *queue = deferred->spare_queues;

    deferred->spare_queues = queue->spare_next;
    queue->stream = stream;
    list_push_back(&deferred->queues, &queue->link);
    return queue;
}

static struct deferred_queue *queue_for(struct deferred *deferred, void *stream)
{
    struct deferred_queue *queue = queue_find(deferred, stream);

    if (queue)
        return queue;
    if (!deferred->spare_queues) {
        queue = heap_alloc(sizeof *queue);
        if (!queue)
            return NULL;
        list_init(&queue->entries);
        queue->spare_next = NULL;
        deferred->spare_queues = queue;
    }
    return queue_begin(deferred, stream);
}

static inline void queue_drop_if_empty(struct deferred *deferred, struct deferred_queue *queue)
{
    if (!list_empty(&queue->entries))
        return;
    list_remove(&queue->link);
    queue->spare_next = deferred->spare_queues;
    deferred->spare_queues = queue;
}

static struct deferred_entry *entry_take(struct deferred *deferred)
{
    if (list_empty(&deferred->spare_entries))
        return heap_alloc(sizeof(struct deferred_entry));
    struct list *link = deferred->spare_entries.next;
    list_remove(link);
    return CONTAINER_OF(link, struct deferred_entry, link);
}

/* Records an event on the stream of a use and gives an entry for it, in no list;
 * a hold needs no event. */
static acre_status entry_make(struct deferred *deferred, struct block *block, const struct use *use,
                              struct deferred_entry **out)
{
    struct acre_device *device = deferred->device;
    struct deferred_entry *entry = entry_take(deferred);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!entry)
        return status;
    entry->block = block;
    entry->hold = use->hold;
    entry->stream = use->stream;
    if (use->hold) {
        entry->event = entry->queue = NULL;
        *out = entry;
        return ACRE_OK;
    }
    entry->queue = queue_for(deferred, use->stream);
    if (!entry->queue)
        goto put_entry;
    status = event_take(deferred, &entry->event);
    if (status != ACRE_OK)
        goto drop_queue;
    status = device->ops->event_record(device->self, device->index, entry->event, use->stream);
    if (status != ACRE_OK)
        goto put_event;
    *out = entry;
    return ACRE_OK;

put_event:
    event_put(deferred, entry->event);
drop_queue:
    queue_drop_if_empty(deferred, entry->queue);
put_entry:
    list_push_front(&deferred->spare_entries, &entry->link);
    return status;
}

/* Lets a block wait for an entry that was made. */
static void entry_queue(struct deferred *deferred, struct deferred_entry *entry)
{
    if (entry->hold) {
        list_push_back(&deferred->held, &entry->link);
        deferred->held_count++;
    } else {
        list_push_back(&entry->queue->entries, &entry->link);
    }
    deferred->pending_count++;
    entry->block->event_count++;
}

/* Takes back an entry that is in no list. */
static void entry_undo(struct deferred *deferred, struct deferred_entry *entry)
{
    if (!entry->hold) {
        event_put(deferred, entry->event);
        queue_drop_if_empty(deferred, entry->queue);
    }
    list_push_front(&deferred->spare_entries, &entry->link);
}

/* Lets a block wait for all that uses it, or changes nothing. */
static acre_status add_several(struct deferred *deferred, struct block *block)
{
    struct list made;
    acre_status status = ACRE_OK;

    list_init(&made);
    for (struct use *use = block->uses; use && status == ACRE_OK; use = use->next) {
        struct deferred_entry *entry = NULL;
        status = entry_make(deferred, block, use, &entry);
        if (status == ACRE_OK)
            list_push_front(&made, &entry->link);
    }
    LIST_FOR_EACH_SAFE(link, after, &made) {
        struct deferred_entry *entry = CONTAINER_OF(link, struct deferred_entry, link);
        list_remove(&entry->link);
        if (status == ACRE_OK)
            entry_queue(deferred, entry);
        else
            entry_undo(deferred, entry);
    }
    if (status != ACRE_OK)
        return status;
    for (struct use *use = block->uses; use; use = use->next)
        use->hold = NULL; /* its entry has it now */
    deferred_forget_uses(deferred, block);
    block->state = BLOCK_WAITING;
    return ACRE_OK;
}

/* Asks for an event that was recorded just now. A try in vain makes the next one come later. */
static inline bool event_is_complete(struct deferred *deferred, void *event)
{
    struct acre_device *device = deferred->device;

    if (device->ops->event_query(device->self, device->index, event) == ACRE_OK)
        return true;
    deferred->is_prompt = false;
    deferred->prompt_in = deferred->prompt_pause;
    deferred->prompt_pause +=
        deferred->prompt_pause < DEFERRED_PAUSE_MAX ? deferred->prompt_pause : 0;
    return false;
}

/* Lets a block that one stream uses wait for an event: the one on top of the idle ones. */
static inline void add_entry(struct deferred *deferred, struct block *block,
                             struct deferred_queue *queue, void *stream)
{
    struct deferred_entry *entry =
        CONTAINER_OF(deferred->spare_entries.next, struct deferred_entry, link);

    if (!queue)
        queue = queue_begin(deferred, stream);
    entry->block = block;
    entry->hold = NULL;
    entry->stream = stream;
    entry->event = deferred->idle_events[--deferred->idle_count];
    entry->link.prev->next = entry->link.next;
    entry->link.next->prev = entry->link.prev;
    list_push_back(&queue->entries, &entry->link);
    deferred->pending_count++;
    block->event_count = 1;
    block->state = BLOCK_WAITING;
}

/* The usual case: one stream uses the block, and nothing has to be made. Looks before it takes,
 * so that there is nothing to take back. False: it is not the usual case. */
static inline bool add_one(struct deferred *deferred, struct block *block, bool is_prompt,
                           acre_status *status)
{
    struct acre_device *device = deferred->device;
    struct use *use = block->uses;

    if (UNLIKELY(use->next || use->hold || list_empty(&deferred->spare_entries) ||
                 !deferred->idle_count))
        return false;
    struct deferred_queue *queue = queue_find(deferred, use->stream);
    if (UNLIKELY(!queue && !deferred->spare_queues))
        return false;
    void *event = deferred->idle_events[deferred->idle_count - 1];
    *status = device->ops->event_record(device->self, device->index, event, use->stream);
    if (UNLIKELY(*status != ACRE_OK))
        return true;
    if (!is_prompt || queue || !event_is_complete(deferred, event))
        add_entry(deferred, block, queue, use->stream);
    block->uses = NULL;
    use->next = deferred->spare_uses;
    deferred->spare_uses = use;
    return true;
}

acre_status deferred_add(struct deferred *deferred, struct block *block, bool may_be_done)
{
    acre_status status;

    CHECK(block->state == BLOCK_LIVE && block->uses);
    if (LIKELY(add_one(deferred, block, may_be_done && deferred->is_prompt, &status)))
        return status;
    return add_several(deferred, block);
}

/* An event has completed. */
static inline void entry_finish(struct deferred *deferred, struct deferred_entry *entry,
                                deferred_done_fn done, void *arg)
{
    struct block *block = entry->block;

    list_move_front(&deferred->spare_entries, &entry->link);
    if (entry->hold) {
        entry->hold->end(entry->hold);
        deferred->held_count--;
    } else {
        event_put(deferred, entry->event);
    }
    deferred->pending_count--;
    CHECK(block->state == BLOCK_WAITING && block->event_count > 0);
    if (--block->event_count == 0)
        done(arg, block);
}

/* Asks every hold whether it is over. */
void deferred_collect_holds(struct deferred *deferred, deferred_done_fn done, void *arg)
{
    LIST_FOR_EACH_SAFE(link, after, &deferred->held) {
        struct deferred_entry *entry = CONTAINER_OF(link, struct deferred_entry, link);
        if (entry->hold->is_over(entry->hold))
            entry_finish(deferred, entry, done, arg);
    }
}

/* Takes an entry whose event the device no longer answers for out of its queue, so that it is
 * in nobody's way. Its block is kept back. */
static void entry_set_aside(struct deferred *deferred, struct deferred_entry *entry,
                            acre_status status)
{
    list_remove(&entry->link);
    list_push_back(&deferred->bad, &entry->link);
    deferred->bad_count++;
    log_line(ACRE_LOG_WARN,
             "an event recorded on stream %p answers %s, so the block of %zu bytes at %p, freed "
             "before, is kept back: %s",
             entry->stream, acre_status_name(status), entry->block->bytes,
             (void *)entry->block->base, acre_last_error());
}

/* Asks the events that could not be asked before. */
static void bad_collect(struct deferred *deferred, deferred_done_fn done, void *arg)
{
    struct acre_device *device = deferred->device;

    LIST_FOR_EACH_SAFE(link, after, &deferred->bad) {
        struct deferred_entry *entry = CONTAINER_OF(link, struct deferred_entry, link);
        if (device->ops->event_query(device->self, device->index, entry->event) != ACRE_OK)
            continue;
        deferred->bad_count--;
        entry_finish(deferred, entry, done, arg);
    }
}

/* Waits for a stream by an event that could not be asked: a new record takes the place of the
 * old one, and comes after all that the old one stood for. */
static acre_status bad_wait(struct deferred *deferred, struct deferred_entry *entry)
{
    struct acre_device *device = deferred->device;
    const acre_backend_ops *ops = device->ops;
    acre_capture_info info = {.struct_size = sizeof info};
    acre_status status = ops->event_synchronize(device->self, device->index, entry->event);

    if (status == ACRE_OK)
        return status;
    if (device_has(device, ACRE_CAP_CAPTURE) &&
        (ops->capture_info(device->self, device->index, entry->stream, &info) != ACRE_OK ||
         info.status != ACRE_CAPTURE_NONE))
        return status;
    if (ops->event_record(device->self, device->index, entry->event, entry->stream) != ACRE_OK)
        return status;
    return ops->event_synchronize(device->self, device->index, entry->event);
}

void deferred_collect_slow(struct deferred *deferred, deferred_done_fn done, void *arg)
{
    struct acre_device *device = deferred->device;

    if (UNLIKELY(deferred->held_count))
        deferred_collect_holds(deferred, done, arg);
    if (UNLIKELY(deferred->bad_count))
        bad_collect(deferred, done, arg);
    LIST_FOR_EACH_SAFE(link, after, &deferred->queues) {
        struct deferred_queue *queue = CONTAINER_OF(link, struct deferred_queue, link);
        while (!list_empty(&queue->entries)) {
            struct deferred_entry *entry =
                CONTAINER_OF(queue->entries.next, struct deferred_entry, link);
            acre_status status =
                device->ops->event_query(device->self, device->index, entry->event);
            if (status == ACRE_ERR_NOT_READY)
                break;
            if (LIKELY(status == ACRE_OK))
                entry_finish(deferred, entry, done, arg);
            else
                entry_set_aside(deferred, entry, status);
            if (!deferred->is_prompt && --deferred->prompt_in == 0)
                deferred->is_prompt = true;
        }
        queue_drop_if_empty(deferred, queue);
    }
}

acre_status deferred_synchronize(struct deferred *deferred, const struct private_pool *pool,
                                 deferred_done_fn done, void *arg)
{
    struct acre_device *device = deferred->device;
    acre_status first = ACRE_OK;

    deferred_collect_holds(deferred, done, arg);
    LIST_FOR_EACH_SAFE(link, after, &deferred->queues) {
        struct deferred_queue *queue = CONTAINER_OF(link, struct deferred_queue, link);
        LIST_FOR_EACH_SAFE(at, behind, &queue->entries) {
            struct deferred_entry *entry = CONTAINER_OF(at, struct deferred_entry, link);
            if (pool && entry->block->pool->owner != pool)
                continue;
            acre_status status =
                device->ops->event_synchronize(device->self, device->index, entry->event);
            if (status == ACRE_OK)
                entry_finish(deferred, entry, done, arg);
            else if (first == ACRE_OK)
                first = status;
        }
        queue_drop_if_empty(deferred, queue);
    }
    LIST_FOR_EACH_SAFE(link, after, &deferred->bad) {
        struct deferred_entry *entry = CONTAINER_OF(link, struct deferred_entry, link);
        if (pool && entry->block->pool->owner != pool)
            continue;
        acre_status status = bad_wait(deferred, entry);
        if (status == ACRE_OK) {
            deferred->bad_count--;
            entry_finish(deferred, entry, done, arg);
        } else if (first == ACRE_OK) {
            first = status;
        }
    }
    return first;
}

bool deferred_check(const struct deferred *deferred, const char **fact)
{
    uint64_t count = 0;

    LIST_FOR_EACH(link, &deferred->queues) {
        const struct deferred_queue *queue = CONTAINER_OF(link, struct deferred_queue, link);
        LIST_FOR_EACH(at, &queue->entries) {
            const struct deferred_entry *entry = CONTAINER_OF(at, struct deferred_entry, link);
            *fact = "deferred: a queued block waits";
            if (entry->block->state != BLOCK_WAITING)
                return false;
            count++;
        }
        *fact = "deferred: no queue is empty";
        if (list_empty(&queue->entries))
            return false;
    }
    uint64_t held = 0;
    LIST_FOR_EACH(link, &deferred->held) {
        *fact = "deferred: a held block waits";
        if (CONTAINER_OF(link, struct deferred_entry, link)->block->state != BLOCK_WAITING)
            return false;
        held++;
    }
    uint64_t bad = 0;
    LIST_FOR_EACH(link, &deferred->bad) {
        *fact = "deferred: a block with a bad event waits";
        if (CONTAINER_OF(link, struct deferred_entry, link)->block->state != BLOCK_WAITING)
            return false;
        bad++;
    }
    *fact = "deferred: the count is that of the queues and of what is held, bad or parked";
    if (held != deferred->held_count || bad != deferred->bad_count ||
        count + held + bad + deferred->capture_waiting_count != deferred->pending_count)
        return false;
    *fact = "deferred: every event is idle or queued";
    return deferred->idle_count + count + bad == deferred->event_count;
}
