/* SPDX-License-Identifier: MIT */
#include "plan/search/rank.h"

#include "base/heap.h"
#include "plan/place/mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIFT_KEPT 0.95 /* of what was learned, after each descent */

acre_status ranks_init(struct ranks *ranks, const struct sections *sections)
{
    size_t count = sections->buffer_count + (size_t)1;

    ranks->sections = sections;
    ranks->rank = heap_array(count, sizeof *ranks->rank);
    ranks->by_rank = heap_array(count, sizeof *ranks->by_rank);
    ranks->base = heap_array(count, sizeof *ranks->base);
    ranks->lift = heap_array(count, sizeof *ranks->lift);
    ranks->blame = heap_array(count, sizeof *ranks->blame);
    ranks->ranked = heap_array(count, sizeof *ranks->ranked);
    return ranks->rank && ranks->by_rank && ranks->base && ranks->lift && ranks->blame &&
                   ranks->ranked
               ? ACRE_OK
               : ACRE_ERR_HOST_MEMORY;
}

void ranks_fini(struct ranks *ranks)
{
    heap_free(ranks->rank);
    heap_free(ranks->by_rank);
    heap_free(ranks->base);
    heap_free(ranks->lift);
    heap_free(ranks->blame);
    heap_free(ranks->ranked);
}

/* ---- Drawing --------------------------------------------------------------------- */

void ranks_seed(struct ranks *ranks, uint64_t seed)
{
    ranks->random = seed;
}

double ranks_unit(struct ranks *ranks)
{
    return (double)(mix_next(&ranks->random) >> 11) * 0x1p-53;
}

/* Between -noise / 2 and noise / 2. */
static double draw_noise(struct ranks *ranks, double noise)
{
    return noise > 0 ? noise * (ranks_unit(ranks) - 0.5) : 0;
}

void ranks_draw(struct ranks *ranks, double life, double size, double noise)
{
    const struct sections *sections = ranks->sections;

    for (uint32_t n = 0; n < sections->buffer_count; n++) { /* whatever the order of rows */
        uint32_t i = sections->order[n];
        int64_t width = 1;
        for (uint32_t p = sections->piece_start[i]; p < sections->piece_start[i + 1]; p++)
            width += sections->pieces[p].last - sections->pieces[p].first;
        ranks->base[i] = life * log((double)width) + size * log((double)sections->size[i] + 1) +
                         draw_noise(ranks, noise);
        ranks->lift[i] = 0;
        ranks->blame[i] = 0;
    }
}

/* ---- Ordering -------------------------------------------------------------------- */

static int compare_values(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;

    if (a->value != b->value)
        return a->value > b->value ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

void ranks_sort(struct ranks *ranks, double noise)
{
    const uint32_t *order = ranks->sections->order;
    uint32_t count = ranks->sections->buffer_count;

    for (uint32_t n = 0; n < count; n++) {
        double value = ranks->base[order[n]] + ranks->lift[order[n]] + draw_noise(ranks, noise);
        ranks->ranked[n] = (struct ranked){value, n};
    }
    qsort(ranks->ranked, count, sizeof *ranks->ranked, compare_values);
    for (uint32_t n = 0; n < count; n++) {
        ranks->by_rank[n] = order[ranks->ranked[n].place];
        ranks->rank[ranks->by_rank[n]] = n;
    }
}

void ranks_learn(struct ranks *ranks)
{
    uint32_t count = ranks->sections->buffer_count, most = 1;

    for (uint32_t i = 0; i < count; i++)
        most = ranks->blame[i] > most ? ranks->blame[i] : most;
    for (uint32_t i = 0; i < count; i++)
        ranks->lift[i] = ranks->lift[i] * LIFT_KEPT + (double)ranks->blame[i] / most;
    memset(ranks->blame, 0, count * sizeof *ranks->blame);
}
