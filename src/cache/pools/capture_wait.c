/* SPDX-License-Identifier: MIT */
#include "cache/pools/capture_wait.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"

void capture_waits_init(struct capture_waits *capture_waits)
{
    list_init(&capture_waits->list);
    list_init(&capture_waits->views);
}

/* ---- Waits -------------------------------------------------------------------------- */

struct capture_wait *capture_wait_create(uint32_t marker_capacity)
{
    struct capture_wait *capture_wait =
        heap_zalloc(sizeof *capture_wait + marker_capacity * sizeof capture_wait->markers[0]);

    if (capture_wait)
        list_init(&capture_wait->link);
    return capture_wait;
}

void capture_wait_begin(struct capture_waits *capture_waits, struct deferred *deferred,
                        struct capture_wait *capture_wait, struct block *block)
{
    CHECK(block->state == BLOCK_LIVE && block->uses);
    capture_wait->block = block;
    capture_wait_lower(capture_wait);
    deferred->pending_count++;
    deferred->capture_waiting_count++;
    list_push_back(&capture_waits->list, &capture_wait->link);
}

void capture_wait_lower(struct capture_wait *capture_wait)
{
    struct block *block = capture_wait->block;

    capture_wait->uses = block->uses;
    block->uses = NULL;
    block->event_count = 1;
    block->state = BLOCK_WAITING;
}

struct block *capture_wait_lift(struct capture_wait *capture_wait)
{
    struct block *block = capture_wait->block;

    CHECK(block->state == BLOCK_WAITING && block->event_count == 1 && !block->uses);
    block->uses = capture_wait->uses;
    block->event_count = 0;
    block->state = BLOCK_LIVE;
    return block;
}

void capture_wait_destroy(struct deferred *deferred, struct capture_wait *capture_wait)
{
    deferred->pending_count--;
    deferred->capture_waiting_count--;
    list_remove(&capture_wait->link);
    heap_free(capture_wait);
}

/* ---- Views -------------------------------------------------------------------------- */

static const void *key_of(uint64_t node)
{
    return (const void *)(uintptr_t)(node + 1); /* never NULL */
}

struct view *view_get(struct capture_waits *capture_waits, uint64_t capture_id, void *stream)
{
    struct view *view;

    LIST_FOR_EACH(link, &capture_waits->views) {
        view = CONTAINER_OF(link, struct view, link);
        if (view->capture_id == capture_id && view->stream == stream)
            return view;
    }
    view = heap_zalloc(sizeof *view);
    if (!view)
        return NULL;
    view->capture_id = capture_id;
    view->stream = stream;
    ptrmap_init(&view->nodes);
    list_push_back(&capture_waits->views, &view->link);
    return view;
}

static void view_destroy(struct view *view)
{
    list_remove(&view->link);
    ptrmap_fini(&view->nodes);
    heap_free(view);
}

/* Nodes still to visit. */
struct stack {
    uint64_t *nodes;
    size_t count, capacity;
};

static bool stack_reserve(struct stack *stack, size_t more)
{
    size_t capacity = stack->capacity ? stack->capacity : 64;

    while (capacity < stack->count + more)
        capacity *= 2;
    if (capacity == stack->capacity)
        return true;
    uint64_t *grown = heap_realloc(stack->nodes, capacity * sizeof *grown);
    if (!grown)
        return false;
    stack->nodes = grown;
    stack->capacity = capacity;
    return true;
}

/* Pushes what a node directly depends on. */
static acre_status push_dependencies(struct stack *stack, struct acre_device *device,
                                     uint64_t capture_id, uint64_t node)
{
    uint32_t count = 0, room;

    do {
        if (!stack_reserve(stack, count + 1))
            return ACRE_ERR_HOST_MEMORY;
        size_t left = stack->capacity - stack->count;
        room = left > UINT32_MAX ? UINT32_MAX : (uint32_t)left;
        acre_status status =
            device->ops->capture_dependencies(device->self, device->index, capture_id, node,
                                              stack->nodes + stack->count, room, &count);
        if (status != ACRE_OK)
            return status;
    } while (count > room);
    stack->count += count;
    return ACRE_OK;
}

/* Visits a node. It is in view only once all it depends on is, or is on the stack;
 * when that fails, the whole view is given up (view_extend). */
static acre_status capture_wait_visit(struct view *view, struct stack *stack,
                                      struct acre_device *device, uint64_t node)
{
    if (ptrmap_has(&view->nodes, key_of(node)))
        return ACRE_OK;
    acre_status status = ptrmap_put(&view->nodes, key_of(node), view);
    if (status != ACRE_OK)
        return status;
    return push_dependencies(stack, device, view->capture_id, node);
}

acre_status view_extend(struct view *view, struct acre_device *device,
                        const acre_capture_info *info)
{
    struct stack stack = {.nodes = NULL};
    acre_status status = ACRE_OK;
    uint32_t count = info->terminal_count < 16 ? info->terminal_count : 16;

    for (uint32_t i = 0; i < count && status == ACRE_OK; i++)
        status = capture_wait_visit(view, &stack, device, info->terminals[i]);
    while (stack.count && status == ACRE_OK)
        status = capture_wait_visit(view, &stack, device, stack.nodes[--stack.count]);
    heap_free(stack.nodes);
    if (status != ACRE_OK) {
        /* Nodes in view whose ancestors are not would hide these from later calls. */
        ptrmap_fini(&view->nodes);
        ptrmap_init(&view->nodes);
    }
    return status;
}

bool view_covers(const struct view *view, const struct capture_wait *capture_wait)
{
    for (uint32_t i = 0; i < capture_wait->marker_count; i++)
        if (!ptrmap_has(&view->nodes, key_of(capture_wait->markers[i])))
            return false;
    return capture_wait->marker_count > 0;
}

void views_drop(struct capture_waits *capture_waits, uint64_t capture_id)
{
    LIST_FOR_EACH_SAFE(link, after, &capture_waits->views)
        if (CONTAINER_OF(link, struct view, link)->capture_id == capture_id)
            view_destroy(CONTAINER_OF(link, struct view, link));
}

void capture_waits_fini(struct capture_waits *capture_waits, struct deferred *deferred)
{
    LIST_FOR_EACH_SAFE(link, after, &capture_waits->list) {
        struct capture_wait *capture_wait = CONTAINER_OF(link, struct capture_wait, link);
        deferred_forget_uses(deferred, capture_wait_lift(capture_wait));
        capture_wait_destroy(deferred, capture_wait);
    }
    LIST_FOR_EACH_SAFE(link, after, &capture_waits->views)
        view_destroy(CONTAINER_OF(link, struct view, link));
}
