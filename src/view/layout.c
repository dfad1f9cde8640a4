/* SPDX-License-Identifier: MIT */
#include "view/layout.h"

#include "base/heap.h"
#include "base/status.h"
#include "view/view.h"

void ranges_fini(struct ranges *ranges)
{
    heap_free(ranges->items);
    *ranges = (struct ranges){0};
}

static acre_status add_range(struct ranges *ranges, const struct view_range *range)
{
    struct view_range *last = ranges->count ? &ranges->items[ranges->count - 1] : NULL;

    if (last && last->address + last->bytes == range->address && last->stream == range->stream &&
        (range->flags & ACRE_VIEW_EXPANDABLE) && last->flags == range->flags) {
        last->bytes += range->bytes;
        return ACRE_OK;
    }
    if (ranges->count == ranges->capacity) {
        size_t capacity = ranges->capacity ? ranges->capacity * 2 : 64;
        struct view_range *items = heap_realloc(ranges->items, capacity * sizeof *items);
        if (!items)
            return ACRE_ERR_HOST_MEMORY;
        ranges->items = items;
        ranges->capacity = capacity;
    }
    ranges->items[ranges->count++] = *range;
    return ACRE_OK;
}

/* Adds what of a segment has memory: all of it, or the mapped part of its blocks. */
static acre_status add_segment(struct ranges *ranges, const acre_cache_layout *layout,
                               const acre_segment_info *segment)
{
    struct view_range range = {.address = (uint64_t)(uintptr_t)segment->base,
                               .bytes = segment->bytes,
                               .stream = (uint64_t)(uintptr_t)segment->stream,
                               .pool = {segment->pool[0], segment->pool[1]},
                               .flags = (segment->is_expandable ? ACRE_VIEW_EXPANDABLE : 0) |
                                        (segment->is_small ? ACRE_VIEW_SMALL : 0)};
    acre_status status = ACRE_OK;

    if (!segment->is_expandable)
        return add_range(ranges, &range);
    for (uint64_t i = 0; i < segment->block_count && status == ACRE_OK; i++) {
        const acre_block_info *block = &layout->blocks[segment->first_block + i];
        range.address = (uint64_t)(uintptr_t)block->base;
        range.bytes = block->bytes;
        if (block->state != ACRE_BLOCK_UNMAPPED)
            status = add_range(ranges, &range);
    }
    return status;
}

/* Tells that [low, high) of a range came or went. */
static acre_status tell_range(acre_view *view, int32_t device, const struct view_range *range,
                              uint64_t low, uint64_t high, uint32_t action)
{
    acre_view_event event = {.action = action,
                             .device = device,
                             .address = low,
                             .bytes = high - low,
                             .stream = range->stream,
                             .flags = range->flags,
                             .pool = {range->pool[0], range->pool[1]}};

    return low < high ? acre_view_event_add(view, &event) : ACRE_OK;
}

/* Whether memory of one range may be memory of the other, seen later: pages of
 * the same kind, or the same segment. */
static bool is_kin(const struct view_range *a, const struct view_range *b)
{
    if (a->stream != b->stream || a->flags != b->flags)
        return false;
    return (a->flags & ACRE_VIEW_EXPANDABLE) || (a->address == b->address && a->bytes == b->bytes);
}

/* Tells what the ranges of one list have and those of the other have not; both
 * are in order of address. */
static acre_status tell_missing(acre_view *view, int32_t device, const struct ranges *list,
                                const struct ranges *other, uint32_t action)
{
    acre_status status = ACRE_OK;
    size_t first = 0;

    for (size_t i = 0; i < list->count && status == ACRE_OK; i++) {
        const struct view_range *range = &list->items[i];
        uint64_t at = range->address, end = at + range->bytes;
        while (first < other->count &&
               other->items[first].address + other->items[first].bytes <= at)
            first++;
        for (size_t k = first;
             k < other->count && other->items[k].address < end && status == ACRE_OK; k++) {
            const struct view_range *match = &other->items[k];
            if (!is_kin(range, match))
                continue;
            status = tell_range(view, device, range, at, match->address, action);
            if (match->address + match->bytes > at)
                at = match->address + match->bytes;
        }
        if (status == ACRE_OK)
            status = tell_range(view, device, range, at, end, action);
    }
    return status;
}

acre_status acre_view_layout_add(acre_view *view, int device, const acre_cache_layout *layout)
{
    struct ranges seen = {0};
    acre_status status = ACRE_OK;

    if (!view || !layout || device < 0 || device > ACRE_VIEW_DEVICE_MAX)
        return status_fail(ACRE_ERR_INVALID, "acre_view_layout_add: %s",
                           view && layout ? "there is no such device" : "an argument is NULL");
    if (!view_device(view, (size_t)device))
        return ACRE_ERR_HOST_MEMORY;
    for (uint64_t i = 0; status == ACRE_OK && i < layout->segment_count; i++)
        status = add_segment(&seen, layout, &layout->segments[i]);
    struct ranges *known = &view->devices[device].known;
    if (status == ACRE_OK)
        status = tell_missing(view, device, known, &seen, ACRE_VIEW_SEGMENT_FREE);
    if (status == ACRE_OK)
        status = tell_missing(view, device, &seen, known, ACRE_VIEW_SEGMENT_ALLOC);
    struct ranges *gone = status == ACRE_OK ? known : &seen;
    ranges_fini(gone);
    if (status == ACRE_OK)
        *known = seen;
    return status;
}
