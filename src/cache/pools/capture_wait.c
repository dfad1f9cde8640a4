/* SPDX-License-Identifier: MIT */
#include "cache/pools/capture_wait.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"

void parks_init(struct parks *parks)
{
    list_init(&parks->list);
    list_init(&parks->views);
}

/* ---- Holds -------------------------------------------------------------------------- */

struct park *park_create(uint32_t marker_capacity)
{
    struct park *park = heap_zalloc(sizeof *park + marker_capacity * sizeof park->markers[0]);

    if (park)
        list_init(&park->link);
    return park;
}

void park_begin(struct parks *parks, struct deferred *deferred, struct park *park,
                struct block *block)
{
    CHECK(block->state == BLOCK_LIVE && block->uses);
    park->block = block;
    park_lower(park);
    deferred->pending_count++;
    deferred->parked_count++;
    list_push_back(&parks->list, &park->link);
}

void park_lower(struct park *park)
{
    struct block *block = park->block;

    park->uses = block->uses;
    block->uses = NULL;
    block->event_count = 1;
    block->state = BLOCK_WAITING;
}

struct block *park_lift(struct park *park)
{
    struct block *block = park->block;

    CHECK(block->state == BLOCK_WAITING && block->event_count == 1 && !block->uses);
    block->uses = park->uses;
    block->event_count = 0;
    block->state = BLOCK_LIVE;
    return block;
}

void park_destroy(struct deferred *deferred, struct park *park)
{
    deferred->pending_count--;
    deferred->parked_count--;
    list_remove(&park->link);
    heap_free(park);
}

/* ---- Views -------------------------------------------------------------------------- */

static const void *key_of(uint64_t node)
{
    return (const void *)(uintptr_t)(node + 1); /* never NULL */
}

struct view *view_get(struct parks *parks, uint64_t capture_id, void *stream)
{
    struct view *view;

    LIST_FOR_EACH(link, &parks->views) {
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
    list_push_back(&parks->views, &view->link);
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
        acre_status status = device->ops->capture_dependencies(
            device->self, device->index, capture_id, node, stack->nodes + stack->count, room,
            &count);
        if (status != ACRE_OK)
            return status;
    } while (count > room);
    stack->count += count;
    return ACRE_OK;
}

/* Visits a node. It is in view only once all it depends on is, or is on the stack;
 * when that fails, the whole view is given up (view_extend). */
static acre_status visit(struct view *view, struct stack *stack, struct acre_device *device,
                         uint64_t node)
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
        status = visit(view, &stack, device, info->terminals[i]);
    while (stack.count && status == ACRE_OK)
        status = visit(view, &stack, device, stack.nodes[--stack.count]);
    heap_free(stack.nodes);
    if (status != ACRE_OK) {
        /* Nodes in view whose ancestors are not would hide these from later calls. */
        ptrmap_fini(&view->nodes);
        ptrmap_init(&view->nodes);
    }
    return status;
}

bool view_covers(const struct view *view, const struct park *park)
{
    for (uint32_t i = 0; i < park->marker_count; i++)
        if (!ptrmap_has(&view->nodes, key_of(park->markers[i])))
            return false;
    return park->marker_count > 0;
}

void views_drop(struct parks *parks, uint64_t capture_id)
{
    LIST_FOR_EACH_SAFE(link, after, &parks->views)
        if (CONTAINER_OF(link, struct view, link)->capture_id == capture_id)
            view_destroy(CONTAINER_OF(link, struct view, link));
}

void parks_fini(struct parks *parks, struct deferred *deferred)
{
    LIST_FOR_EACH_SAFE(link, after, &parks->list) {
        struct park *park = CONTAINER_OF(link, struct park, link);
        deferred_forget_uses(deferred, park_lift(park));
        park_destroy(deferred, park);
    }
    LIST_FOR_EACH_SAFE(link, after, &parks->views)
        view_destroy(CONTAINER_OF(link, struct view, link));
}
