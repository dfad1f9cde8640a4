/* SPDX-License-Identifier: MIT */
#include "plan/place/sweep_axis.h"

#include "base/heap.h"

/* Sorts buffers by a time, those of one time as they stand; counts has a place for every
 * section and two more, all zero. */
static void sort_by_time(const uint32_t *buffers, uint32_t count, const uint32_t *times,
                         uint32_t section_count, uint32_t *counts, uint32_t *out)
{
    for (uint32_t k = 0; k < count; k++)
        counts[times[buffers[k]] + 1]++;
    for (uint32_t s = 0; s <= section_count; s++)
        counts[s + 1] += counts[s];
    for (uint32_t k = 0; k < count; k++)
        out[counts[times[buffers[k]]]++] = buffers[k];
}

/* Fills a list of buffers by time. */
static acre_status list_by_time(uint32_t **out, const struct sections *sections,
                                const uint32_t *buffers, uint32_t count, const uint32_t *times)
{
    uint32_t *counts = heap_array(sections->section_count + (size_t)2, sizeof *counts);

    *out = heap_array(count + (size_t)1, sizeof **out);
    if (*out && counts)
        sort_by_time(buffers, count, times, sections->section_count, counts, *out);
    bool is_done = *out && counts;
    heap_free(counts);
    return is_done ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

acre_status sweep_axis_init(struct sweep_axis *axis, const struct sections *sections,
                            bool is_backward, const uint32_t *buffers, uint32_t count)
{
    axis->count = count;
    axis->birth = heap_array(sections->buffer_count + (size_t)1, sizeof *axis->birth);
    axis->death = heap_array(sections->buffer_count + (size_t)1, sizeof *axis->death);
    if (!axis->birth || !axis->death)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = buffers[k];
        uint32_t first = sections_first(sections, i), last = sections_last(sections, i);
        axis->birth[i] = is_backward ? sections->section_count - last : first;
        axis->death[i] = is_backward ? sections->section_count - first : last;
    }
    acre_status status = list_by_time(&axis->by_birth, sections, buffers, count, axis->birth);
    if (status != ACRE_OK)
        return status;
    return list_by_time(&axis->by_death, sections, buffers, count, axis->death);
}

void sweep_axis_fini(struct sweep_axis *axis)
{
    heap_free(axis->birth);
    heap_free(axis->death);
    heap_free(axis->by_birth);
    heap_free(axis->by_death);
}

/* How many of some buffers, which are sorted, have a time up to a section. */
static uint32_t count_up_to(const uint32_t *buffers, uint32_t count, const uint32_t *times,
                            uint32_t section)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (times[buffers[middle]] > section)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint32_t sweep_axis_born(const struct sweep_axis *axis, uint32_t section)
{
    return count_up_to(axis->by_birth, axis->count, axis->birth, section);
}

uint32_t sweep_axis_dead(const struct sweep_axis *axis, uint32_t section)
{
    return count_up_to(axis->by_death, axis->count, axis->death, section);
}
