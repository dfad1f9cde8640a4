/* SPDX-License-Identifier: MIT */
#include "pinned/events.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "pinned/host_block.h"

/* The events waited for in one order, oldest first. */
struct event_queue {
    struct list link;
    struct list entries;
    struct acre_device *device; /* NULL: of all streams */
    void *stream;
};

struct event_entry {
    struct list link; /* in a queue, in a list under construction, or spare */
    void *event;      /* of device; lives as long as the entry               */
    struct acre_device *device;
    struct host_block *host_block;
    struct event_queue *queue; /* where it goes or is                                 */
};

void event_store_init(struct event_store *store)
{
    list_init(&store->spares);
    store->query_count = 0;
}

void event_store_trim(struct event_store *store)
{
    LIST_FOR_EACH_SAFE(link, after, &store->spares) {
        struct event_entry *entry = CONTAINER_OF(link, struct event_entry, link);
        struct acre_device *device = entry->device;
        list_remove(link);
        device->ops->event_destroy(device->self, device->index, entry->event);
        heap_free(entry);
    }
}

void events_init(struct events *events, bool in_one_order)
{
    list_init(&events->queues);
    events->pending = 0;
    events->in_one_order = in_one_order;
}

/* ---- Uses ----------------------------------------------------------------------------- */

acre_status use_add(struct host_block *host_block, struct acre_device *device, void *stream,
                    bool is_captured)
{
    for (struct host_use *use = host_block->uses; use; use = use->next)
        if (use->device == device && use->stream == stream && use->is_captured == is_captured)
            return ACRE_OK;
    struct host_use *use = heap_alloc(sizeof *use);
    if (!use)
        return ACRE_ERR_HOST_MEMORY;
    *use = (struct host_use){
        .device = device, .stream = stream, .is_captured = is_captured, .next = host_block->uses};
    host_block->uses = use;
    host_block->state = PIECE_USED;
    return ACRE_OK;
}

void uses_forget(struct host_block *host_block, bool captured_only)
{
    for (struct host_use **link = &host_block->uses, *use = *link; use; use = *link) {
        if (captured_only && !use->is_captured) {
            link = &use->next;
            continue;
        }
        *link = use->next;
        heap_free(use);
    }
}

bool stream_is_captured(struct acre_device *device, void *stream)
{
    acre_capture_info info = {.struct_size = sizeof info, .status = ACRE_CAPTURE_NONE};

    if (!device_has(device, ACRE_CAP_CAPTURE))
        return false;
    return device->ops->capture_info(device->self, device->index, stream, &info) == ACRE_OK &&
           info.status != ACRE_CAPTURE_NONE;
}

bool uses_are_captured(const struct host_block *host_block)
{
    for (const struct host_use *use = host_block->uses; use; use = use->next)
        if (use->is_captured)
            return true;
    return false;
}

bool uses_are_in_capture(const struct host_block *host_block)
{
    for (const struct host_use *use = host_block->uses; use; use = use->next)
        if (stream_is_captured(use->device, use->stream))
            return true;
    return false;
}

/* ---- Adding --------------------------------------------------------------------------- */

static struct event_queue *queue_for(struct events *events, const struct host_use *use)
{
    struct acre_device *device = events->in_one_order ? NULL : use->device;
    void *stream = events->in_one_order ? NULL : use->stream;
    struct event_queue *queue;

    LIST_FOR_EACH(link, &events->queues) {
        queue = CONTAINER_OF(link, struct event_queue, link);
        if (queue->device == device && queue->stream == stream)
            return queue;
    }
    queue = heap_alloc(sizeof *queue);
    if (!queue)
        return NULL;
    queue->device = device;
    queue->stream = stream;
    list_init(&queue->entries);
    list_push_back(&events->queues, &queue->link);
    return queue;
}

static void queue_drop_if_empty(struct event_queue *queue)
{
    if (!list_empty(&queue->entries))
        return;
    list_remove(&queue->link);
    heap_free(queue);
}

/* An entry with an event of a device: a spare one, or new. */
static acre_status entry_take(struct event_store *store, struct acre_device *device,
                              struct event_entry **out)
{
    LIST_FOR_EACH(link, &store->spares) {
        struct event_entry *entry = CONTAINER_OF(link, struct event_entry, link);
        if (entry->device != device)
            continue;
        list_remove(&entry->link);
        *out = entry;
        return ACRE_OK;
    }
    struct event_entry *entry = heap_zalloc(sizeof *entry);
    if (!entry)
        return ACRE_ERR_HOST_MEMORY;
    list_init(&entry->link);
    entry->device = device;
    acre_status status = device->ops->event_create(device->self, device->index, 0, &entry->event);
    if (status != ACRE_OK)
        heap_free(entry);
    else
        *out = entry;
    return status;
}

/* Uses may share a queue, so that it goes only when it is known that none needs it. */
static void queues_drop_empty(struct events *events)
{
    LIST_FOR_EACH_SAFE(link, after, &events->queues)
        queue_drop_if_empty(CONTAINER_OF(link, struct event_queue, link));
}

/* Records an event for a use; the entry is in no list. A failure may leave an empty queue. */
static acre_status entry_make(struct event_store *store, struct events *events,
                              const struct host_use *use, struct event_entry **out)
{
    struct acre_device *device = use->device;
    struct event_entry *entry;
    acre_status status = entry_take(store, device, &entry);

    if (status != ACRE_OK)
        return status;
    entry->queue = queue_for(events, use);
    status = entry->queue
                 ? device->ops->event_record(device->self, device->index, entry->event, use->stream)
                 : ACRE_ERR_HOST_MEMORY;
    if (status != ACRE_OK)
        list_push_front(&store->spares, &entry->link);
    else
        *out = entry;
    return status;
}

acre_status events_add(struct event_store *store, struct events *events,
                       struct host_block *host_block)
{
    struct list made = LIST_INITIALIZER(made);
    acre_status status = ACRE_OK;

    CHECK(host_block->uses && !host_block->event_count);
    for (const struct host_use *use = host_block->uses; use && status == ACRE_OK; use = use->next) {
        struct event_entry *entry = NULL;
        status = entry_make(store, events, use, &entry);
        if (status == ACRE_OK)
            list_push_front(&made, &entry->link);
    }
    LIST_FOR_EACH_SAFE(link, after, &made) {
        struct event_entry *entry = CONTAINER_OF(link, struct event_entry, link);
        list_remove(link);
        if (status != ACRE_OK) {
            list_push_front(&store->spares, &entry->link);
            continue;
        }
        entry->host_block = host_block;
        list_push_back(&entry->queue->entries, &entry->link);
        events->pending++;
        host_block->event_count++;
    }
    if (status == ACRE_OK)
        uses_forget(host_block, false);
    else
        queues_drop_empty(events);
    return status;
}

/* ---- Collecting ----------------------------------------------------------------------- */

static acre_status entry_ask(struct event_store *store, const struct event_entry *entry,
                             bool is_waiting)
{
    struct acre_device *device = entry->device;

    store->query_count++;
    return is_waiting ? device->ops->event_synchronize(device->self, device->index, entry->event)
                      : device->ops->event_query(device->self, device->index, entry->event);
}

static acre_status queue_collect(struct event_store *store, struct events *events,
                                 struct event_queue *queue, bool is_waiting, events_done_fn done,
                                 void *arg)
{
    while (!list_empty(&queue->entries)) {
        struct event_entry *entry = CONTAINER_OF(queue->entries.next, struct event_entry, link);
        struct host_block *host_block = entry->host_block;
        acre_status status = entry_ask(store, entry, is_waiting);
        if (status != ACRE_OK)
            return status == ACRE_ERR_NOT_READY ? ACRE_OK : status;
        list_remove(&entry->link);
        list_push_front(&store->spares, &entry->link);
        events->pending--;
        if (--host_block->event_count == 0)
            done(arg, host_block);
    }
    return ACRE_OK;
}

acre_status events_collect(struct event_store *store, struct events *events, bool is_waiting,
                           events_done_fn done, void *arg)
{
    acre_status first = ACRE_OK;

    LIST_FOR_EACH_SAFE(link, after, &events->queues) {
        struct event_queue *queue = CONTAINER_OF(link, struct event_queue, link);
        acre_status status = queue_collect(store, events, queue, is_waiting, done, arg);
        if (first == ACRE_OK)
            first = status;
        queue_drop_if_empty(queue);
    }
    return first;
}

void events_fini(struct event_store *store, struct events *events)
{
    LIST_FOR_EACH_SAFE(link, after, &events->queues) {
        struct event_queue *queue = CONTAINER_OF(link, struct event_queue, link);
        while (!list_empty(&queue->entries)) {
            struct list *entry = queue->entries.next;
            list_remove(entry);
            list_push_front(&store->spares, entry);
        }
        queue_drop_if_empty(queue);
    }
    events->pending = 0;
}
