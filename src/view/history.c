/* SPDX-License-Identifier: MIT */
#include "view/history.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

#include <string.h>

#define NEVER       UINT32_MAX
#define BLOCK_ROUND 511

/* A live range, found by address. */
struct held {
    struct rbnode node;
    uint64_t address, end; /* as in the range, so that finding needs no lookup */
    uint32_t range;        /* its number                                       */
};

static inline bool held_less(const struct held *a, const struct held *b)
{
    return a->address < b->address;
}

/* Whether a range ends at or before an address. */
static inline bool held_before(const struct held *held, const uint64_t *address)
{
    return held->end <= *address;
}

RBTREE_DEFINE(held_set, struct held, node, uint64_t, held_less, held_before);

void history_init(struct view_history *history)
{
    memset(history, 0, sizeof *history);
    ptrmap_init(&history->live);
    rbtree_init(&history->held);
}

void history_fini(struct view_history *history)
{
    struct held *held;

    while ((held = held_set_first(&history->held))) {
        held_set_remove(&history->held, held);
        heap_free(held);
    }
    ptrmap_fini(&history->live);
    ranges_fini(&history->known);
    for (size_t i = 0; i < history->mark_count; i++)
        heap_free(history->marks[i].text);
    heap_free(history->marks);
    heap_free(history->label);
    heap_free(history->times);
    heap_free(history->blocks.items);
    heap_free(history->ranges.items);
    memset(history, 0, sizeof *history);
}

uint32_t history_moments(const struct view_history *history)
{
    return history->event_count ? history->event_count : 1;
}

/* ---- Room ------------------------------------------------------------------------- */

/* Makes room for one more item of an array that doubles. */
static acre_status history_reserve(void *items, size_t count, size_t *capacity, size_t bytes)
{
    void **array = items;

    if (count < *capacity)
        return ACRE_OK;
    size_t wider = *capacity ? *capacity * 2 : 64;
    void *grown = heap_realloc(*array, wider * bytes);
    if (!grown)
        return ACRE_ERR_HOST_MEMORY;
    *array = grown;
    *capacity = wider;
    return ACRE_OK;
}

static acre_status spans_reserve(struct spans *spans)
{
    return history_reserve(&spans->items, spans->count, &spans->capacity, sizeof *spans->items);
}

static uint32_t spans_add(struct spans *spans, const struct span *span)
{
    spans->items[spans->count] = *span;
    return (uint32_t)spans->count++;
}

acre_status spans_order(const struct spans *spans, uint32_t **out)
{
    uint32_t *order = heap_array(spans->count + 1, sizeof *order);
    size_t at = 0;

    if (!order)
        return ACRE_ERR_HOST_MEMORY;
    /* All others were added when they began, so they are in order already. */
    for (size_t i = 0; i < spans->count; i++)
        if (spans->items[i].flags & SPAN_EARLY)
            order[at++] = (uint32_t)i;
    for (size_t i = 0; i < spans->count; i++)
        if (!(spans->items[i].flags & SPAN_EARLY))
            order[at++] = (uint32_t)i;
    *out = order;
    return ACRE_OK;
}

/* ---- Blocks ------------------------------------------------------------------------- */

static const void *key_of(uint64_t address)
{
    return (const void *)(uintptr_t)(address + 1);
}

static struct span *live_block(struct view_history *history, uint64_t address)
{
    uintptr_t found = (uintptr_t)ptrmap_get(&history->live, key_of(address));

    return found ? &history->blocks.items[found - 1] : NULL;
}

static uint64_t history_rounded(uint64_t bytes)
{
    if (bytes > UINT64_MAX - BLOCK_ROUND)
        return bytes;
    return (bytes + BLOCK_ROUND) & ~(uint64_t)BLOCK_ROUND;
}

static struct span span_of(const acre_view_event *event, uint32_t stream, uint32_t pool)
{
    uint64_t taken = event->block_bytes ? event->block_bytes : history_rounded(event->bytes);

    /* The last address of all cannot be a key of the map. */
    return (struct span){.address = event->address < UINT64_MAX ? event->address : UINT64_MAX - 1,
                         .bytes = event->bytes,
                         .block_bytes = taken > event->bytes ? taken : event->bytes,
                         .end = NEVER,
                         .asked = NEVER,
                         .stack = event->stack,
                         .stream = stream,
                         .pool = pool,
                         .flags =
                             (uint8_t)(event->flags & (ACRE_VIEW_EXPANDABLE | ACRE_VIEW_SMALL))};
}

static acre_status begin_block(struct view_history *history, const struct span *span)
{
    acre_status status = spans_reserve(&history->blocks);
    struct span *former = live_block(history, span->address);

    if (status == ACRE_OK && !former)
        status = ptrmap_reserve(&history->live, 1);
    if (status != ACRE_OK)
        return status;
    if (former)
        former->end = history->event_count;
    uintptr_t number = (uintptr_t)spans_add(&history->blocks, span) + 1;
    return ptrmap_put(&history->live, key_of(span->address), (void *)number);
}

static acre_status end_block(struct view_history *history, const struct span *span,
                             bool is_complete)
{
    struct span *block = live_block(history, span->address);
    acre_status status = ACRE_OK;

    if (!block) { /* from before the first event; who made it is not known */
        struct span early = *span;
        early.flags = SPAN_EARLY;
        early.begin = 0;
        early.stack = 0;
        status = begin_block(history, &early);
        if (status != ACRE_OK)
            return status;
        block = live_block(history, span->address);
    }
    if (block->asked == NEVER)
        block->asked = history->event_count;
    if (!is_complete)
        return ACRE_OK;
    history->has_completed = true;
    block->end = history->event_count;
    ptrmap_take(&history->live, key_of(span->address));
    return ACRE_OK;
}

void history_settle(struct view_history *history)
{
    for (size_t i = 0; !history->has_completed && i < history->blocks.count; i++) {
        struct span *block = &history->blocks.items[i];
        if (block->end == NEVER && block->asked != NEVER)
            block->end = block->asked;
    }
}

/* ---- Ranges ------------------------------------------------------------------------- */

/* First byte behind a range; hostile ones end with the address space. */
static uint64_t end_of(const struct span *span)
{
    return span->bytes > UINT64_MAX - span->address ? UINT64_MAX : span->address + span->bytes;
}

/* Adds a live range that touches no other live one. */
static acre_status begin_range(struct view_history *history, const struct span *span)
{
    acre_status status = spans_reserve(&history->ranges);
    struct held *held = status == ACRE_OK ? heap_zalloc(sizeof *held) : NULL;

    if (!held)
        return ACRE_ERR_HOST_MEMORY;
    held->address = span->address;
    held->end = end_of(span);
    held->range = spans_add(&history->ranges, span);
    held_set_insert(&history->held, held);
    return ACRE_OK;
}

/* Adds what of [span) no live range covers. */
static acre_status fill_range(struct view_history *history, const struct span *span)
{
    uint64_t at = span->address, end = end_of(span);
    struct held *held = held_set_lower_bound(&history->held, &at);

    while (at < end) {
        uint64_t stop = held && held->address < end ? held->address : end;
        if (stop > at) {
            struct span part = *span;
            part.address = at;
            part.bytes = part.block_bytes = stop - at;
            acre_status status = begin_range(history, &part);
            if (status != ACRE_OK)
                return status;
        }
        if (!held || held->address >= end)
            break;
        at = held->end;
        held = held_set_next(held);
    }
    return ACRE_OK;
}

/* Gives the part of a live range outside [low, high) a range of its own. */
static acre_status keep_outside(struct view_history *history, const struct span *whole,
                                uint64_t low, uint64_t high)
{
    struct span part = *whole;
    acre_status status = ACRE_OK;

    part.begin = history->event_count;
    part.flags &= (uint8_t)~SPAN_EARLY;
    part.end = NEVER;
    if (whole->address < low) {
        part.bytes = part.block_bytes = low - whole->address;
        status = begin_range(history, &part);
    }
    if (status == ACRE_OK && end_of(whole) > high) {
        part.address = high;
        part.bytes = part.block_bytes = end_of(whole) - high;
        status = begin_range(history, &part);
    }
    return status;
}

static acre_status end_range(struct view_history *history, const struct span *span)
{
    uint64_t low = span->address, high = end_of(span);
    struct span early = *span;
    struct held *held;

    early.flags |= SPAN_EARLY;
    early.begin = 0;
    early.stack = 0;
    acre_status status = fill_range(history, &early);
    while (status == ACRE_OK && (held = held_set_lower_bound(&history->held, &low)) &&
           held->address < high) {
        struct span *range = &history->ranges.items[held->range];
        struct span whole = *range;
        range->end = history->event_count;
        held_set_remove(&history->held, held);
        heap_free(held);
        status = keep_outside(history, &whole, low, high);
    }
    return status;
}

/* ---- Events ------------------------------------------------------------------------- */

static acre_status add_mark(struct view_history *history, const acre_view_event *event)
{
    struct view_mark mark = {.moment = history->event_count,
                             .action = event->action,
                             .bytes = event->bytes,
                             .free_bytes = event->address,
                             .stack = event->stack};
    acre_status status = history_reserve(&history->marks, history->mark_count,
                                         &history->mark_capacity, sizeof *history->marks);

    if (status != ACRE_OK)
        return status;
    if (event->text && !(mark.text = heap_strdup(event->text)))
        return ACRE_ERR_HOST_MEMORY;
    history->marks[history->mark_count++] = mark;
    return ACRE_OK;
}

acre_status history_mark(struct view_history *history, uint64_t time_us, const char *text)
{
    acre_view_event event = {.action = ACRE_VIEW_MARK, .text = text};
    uint32_t low = 0, high = history->event_count;

    while (low < high) { /* the first event at that time or later */
        uint32_t middle = low + (high - low) / 2;
        if (history->times[middle] < time_us)
            low = middle + 1;
        else
            high = middle;
    }
    acre_status status = add_mark(history, &event);
    if (status == ACRE_OK)
        history->marks[history->mark_count - 1].moment =
            low < history_moments(history) ? low : history_moments(history) - 1;
    return status;
}

static acre_status history_apply(struct view_history *history, const acre_view_event *event,
                                 const struct span *span)
{
    switch ((acre_view_action)event->action) {
    case ACRE_VIEW_ALLOC:
        return begin_block(history, span);
    case ACRE_VIEW_FREE_REQUESTED:
    case ACRE_VIEW_FREE_COMPLETED:
        return end_block(history, span, event->action == ACRE_VIEW_FREE_COMPLETED);
    case ACRE_VIEW_SEGMENT_ALLOC:
        return fill_range(history, span);
    case ACRE_VIEW_SEGMENT_FREE:
        return end_range(history, span);
    case ACRE_VIEW_OOM:
    case ACRE_VIEW_MARK:
        return add_mark(history, event);
    }
    return status_fail(ACRE_ERR_INVALID, "event %u: action %u is not one of acre_view_action",
                       history->event_count, event->action);
}

acre_status history_event(struct view_history *history, const acre_view_event *event,
                          uint32_t stream, uint32_t pool)
{
    struct span span = span_of(event, stream, pool);
    acre_status status = history_reserve(&history->times, history->event_count,
                                         &history->times_capacity, sizeof *history->times);

    if (status != ACRE_OK)
        return status;
    if (history->event_count >= HISTORY_EVENTS_MAX)
        return status_fail(ACRE_ERR_LIMIT, "a view holds at most 2^31 events of one device");
    span.begin = history->event_count;
    if (event->action == ACRE_VIEW_SEGMENT_ALLOC || event->action == ACRE_VIEW_SEGMENT_FREE)
        span.block_bytes = span.bytes;
    status = history_apply(history, event, &span);
    if (status != ACRE_OK)
        return status;
    uint64_t before = history->event_count ? history->times[history->event_count - 1] : 0;
    history->times[history->event_count++] = event->time_us > before ? event->time_us : before;
    return ACRE_OK;
}

acre_status history_last_block(struct view_history *history, const struct span *block)
{
    struct span *live = live_block(history, block->address);
    struct span early = *block;

    if (live) {
        if (block->block_bytes >= live->bytes)
            live->block_bytes = block->block_bytes;
        return ACRE_OK;
    }
    early.begin = 0;
    early.end = early.asked = NEVER;
    early.flags = SPAN_EARLY;
    return begin_block(history, &early);
}

acre_status history_last_range(struct view_history *history, const struct span *range)
{
    struct span early = *range;

    early.begin = 0;
    early.end = early.asked = NEVER;
    early.flags |= SPAN_EARLY;
    early.block_bytes = early.bytes;
    return fill_range(history, &early);
}
