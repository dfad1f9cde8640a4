/* SPDX-License-Identifier: MIT */
#include "plan/place/greedy.h"

#include "base/heap.h"
#include "base/status.h"

#include <stdlib.h>

/* Bytes taken by a placed buffer that overlaps in time. */
struct greedy_span {
    int64_t start, end;
};

static int compare_spans(const void *left, const void *right)
{
    const struct greedy_span *a = left, *b = right;

    return a->start < b->start ? -1 : a->start > b->start;
}

/* Whether two buffers live at one moment. */
static bool is_meeting(const struct sections *sections, uint32_t a, uint32_t b)
{
    uint32_t p = sections->piece_start[a], q = sections->piece_start[b];

    while (p < sections->piece_start[a + 1] && q < sections->piece_start[b + 1]) {
        const struct piece *x = &sections->pieces[p], *y = &sections->pieces[q];
        if (x->first < y->last && y->first < x->last)
            return true;
        if (x->last <= y->last)
            p++;
        else
            q++;
    }
    return false;
}

/* The lowest offset at which a buffer fits between sorted spans. */
static int64_t greedy_fit(const struct sections *sections, uint32_t buffer,
                          const struct greedy_span *spans, uint32_t count)
{
    int64_t at = 0;

    for (uint32_t k = 0; k < count; k++) {
        if (at + sections->size[buffer] <= spans[k].start)
            break;
        if (spans[k].end > at)
            at = sections_align(sections, buffer, spans[k].end);
    }
    return at;
}

acre_status greedy_place(const struct sections *sections, const uint32_t *order, int64_t *offsets,
                         int64_t *out_height)
{
    uint32_t count = sections->buffer_count, placed_count = 0;
    struct greedy_span *spans = heap_array(count + 1u, sizeof *spans);
    uint32_t *placed = heap_array(count + 1u, sizeof *placed);
    acre_status status = spans && placed ? ACRE_OK : ACRE_ERR_HOST_MEMORY;

    *out_height = 0;
    for (uint64_t turn = 0; turn < 2 * (uint64_t)count && status == ACRE_OK; turn++) {
        uint32_t buffer = order[turn % count], span_count = 0;
        bool is_fixed = sections->fixed[buffer] >= 0;
        if (is_fixed != (turn < count))
            continue;
        offsets[buffer] = is_fixed ? sections->fixed[buffer] : 0;
        if (sections->size[buffer] == 0)
            continue;
        for (uint32_t k = 0; k < placed_count; k++)
            if (is_meeting(sections, buffer, placed[k]))
                spans[span_count++] = (struct greedy_span){
                    offsets[placed[k]], offsets[placed[k]] + sections->size[placed[k]]};
        if (!is_fixed) {
            qsort(spans, span_count, sizeof *spans, compare_spans);
            offsets[buffer] = greedy_fit(sections, buffer, spans, span_count);
        }
        int64_t top = offsets[buffer] + sections->size[buffer];
        for (uint32_t k = 0; k < span_count && is_fixed; k++)
            if (spans[k].start < top && offsets[buffer] < spans[k].end)
                status = status_fail(ACRE_ERR_INVALID,
                                     "plan: buffer %u is fixed at %lld, where another is fixed",
                                     buffer, (long long)offsets[buffer]);
        *out_height = top > *out_height ? top : *out_height;
        placed[placed_count++] = buffer;
    }
    heap_free(spans);
    heap_free(placed);
    return status;
}
