/* SPDX-License-Identifier: MIT */
#include "explain/growth.h"

#include "base/heap.h"
#include "base/ptrmap.h"
#include "explain/device_state.h"
#include "format/array.h"
#include "format/snapshot/facts.h"

#include <stdlib.h>
#include <string.h>

/* Growth below this is not worth a word. */
#define BYTES_MIN ((uint64_t)64 << 10)
/* Fewer iterations prove nothing. */
#define ITERATIONS_MIN 4
#define STARTS_MAX     4096

struct growth_level {
    uint64_t bytes, count;
};

struct growth_watch {
    const struct snapshot *snapshot;
    const struct snap_entry *entries;
    uint64_t device_states[GROWTH_MOMENTS]; /* events before which the levels are taken */
    size_t device_state_count;
    uint16_t free_action;      /* the event that ends a block                */
    bool has_marks;            /* they are marks of the program            */
    struct growth_level *now;  /* by stack                                 */
    struct growth_level *then; /* by moment, then stack                    */
};

/* ---- Moments ----------------------------------------------------------------------------- */

/* The name that most annotations begin an iteration with; SNAP_NONE: none. */
static uint32_t common_name(const struct snapshot *snapshot, uint32_t device,
                            uint32_t (*name_of)(const struct snapshot *, size_t))
{
    uint32_t best = SNAP_NONE;
    size_t best_count = 3;

    for (size_t i = 0; i < snapshot->annotation_count && i < 64; i++) {
        uint32_t name = name_of(snapshot, i);
        size_t count = 0;
        for (size_t k = 0; name != SNAP_NONE && k < snapshot->annotation_count; k++)
            count += snapshot->annotations[k].device == device && name_of(snapshot, k) == name;
        if (count > best_count && name != best) {
            best = name;
            best_count = count;
        }
    }
    return best;
}

/* The string "name" of an annotation that starts something; SNAP_NONE: it does not. */
static uint32_t start_name(const struct snapshot *snapshot, size_t annotation)
{
    uint32_t name = SNAP_NONE;
    bool is_start = false;

    for (uint32_t at = snapshot->annotations[annotation].values; at != SNAP_NONE;
         at = snapshot->values[at].next) {
        const struct snap_value *value = &snapshot->values[at];
        const char *key = snapshot_string(snapshot, value->key, NULL);
        if (value->kind != SNAP_STRING)
            continue;
        if (strcmp(key, "name") == 0)
            name = value->as.string;
        if (strcmp(key, "stage") == 0)
            is_start = strcmp(snapshot_string(snapshot, value->as.string, NULL), "START") == 0;
    }
    return is_start ? name : SNAP_NONE;
}

/* The first event that is not before a time. */
static uint64_t event_at(const struct growth_watch *watch, uint64_t end, int64_t time_us)
{
    uint64_t low = 0, high = end;

    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (watch->entries[middle].time_us < time_us)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How often and how evenly a stack allocates. */
struct rhythm {
    uint64_t first, last;      /* events                                    */
    uint64_t gap_min, gap_max; /* between two of its allocations            */
    uint64_t count;
};

/* Whether a stack allocates once in each iteration, as far as can be told: evenly, through
 * most of the history. What runs through one step of an optimizer alone does not count. */
static bool rhythm_marks(const struct growth_watch *watch, const struct rhythm *rhythm,
                         uint32_t stack, uint64_t end)
{
    if (rhythm->count < ITERATIONS_MIN || rhythm->count > STARTS_MAX)
        return false;
    if (rhythm->gap_max > 4 * rhythm->gap_min + 16 || rhythm->last - rhythm->first < end / 2)
        return false;
    return device_state_category(watch->snapshot, stack) != CATEGORY_OPTIMIZER;
}

/* The stack that marks iterations without help of the program: of those that allocate
 * evenly, the one that allocates least often. SNAP_NONE: there is none. */
static acre_status find_marker(const struct growth_watch *watch, uint64_t end, uint32_t *out)
{
    size_t count = watch->snapshot->stack_count;
    struct rhythm *rhythms = heap_array(count, sizeof *rhythms);
    uint64_t best = UINT64_MAX;

    *out = SNAP_NONE;
    if (!rhythms)
        return ACRE_ERR_HOST_MEMORY;
    for (uint64_t i = 0; i < end; i++) {
        if (watch->entries[i].action != SNAP_ALLOC || watch->entries[i].stack == SNAP_NONE)
            continue;
        struct rhythm *rhythm = &rhythms[watch->entries[i].stack];
        uint64_t gap = i - rhythm->last;
        if (rhythm->count == 0)
            *rhythm = (struct rhythm){.first = i, .gap_min = UINT64_MAX};
        else if (gap < rhythm->gap_min)
            rhythm->gap_min = gap;
        if (rhythm->count && gap > rhythm->gap_max)
            rhythm->gap_max = gap;
        rhythm->last = i;
        rhythm->count++;
    }
    for (uint32_t i = 0; i < count; i++)
        if (rhythms[i].count < best && rhythm_marks(watch, &rhythms[i], i, end)) {
            best = rhythms[i].count;
            *out = i;
        }
    heap_free(rhythms);
    return ACRE_OK;
}

/* Where iterations start: at marks of the program, else where a stack marks them. */
static acre_status find_starts(struct growth_watch *watch, uint32_t device, uint64_t end,
                               uint64_t starts[STARTS_MAX], size_t *out_count)
{
    const struct snapshot *snapshot = watch->snapshot;
    uint32_t name = common_name(snapshot, device, start_name), marker = SNAP_NONE;
    acre_status status = ACRE_OK;
    size_t count = 0;

    for (size_t i = 0; name != SNAP_NONE && i < snapshot->annotation_count && count < STARTS_MAX;
         i++)
        if (start_name(snapshot, i) == name && snapshot->annotations[i].device == device)
            starts[count++] = event_at(watch, end, snapshot->annotations[i].time_us);
    watch->has_marks = count >= ITERATIONS_MIN;
    if (!watch->has_marks) {
        count = 0;
        status = find_marker(watch, end, &marker);
    }
    for (uint64_t i = 0; marker != SNAP_NONE && i < end; i++)
        if (watch->entries[i].action == SNAP_ALLOC && watch->entries[i].stack == marker)
            starts[count++] = i;
    *out_count = count;
    return status;
}

static acre_status choose_moments(struct growth_watch *watch, uint32_t device, uint64_t end)
{
    uint64_t *starts = heap_array(STARTS_MAX, sizeof *starts);
    size_t count = 0;
    acre_status status =
        starts ? find_starts(watch, device, end, starts, &count) : ACRE_ERR_HOST_MEMORY;

    for (size_t i = 0; status == ACRE_OK && count >= ITERATIONS_MIN && i < GROWTH_MOMENTS; i++) {
        /* From a quarter on, evenly, the last one at the end. */
        uint64_t part = 4 + i * 12 / (GROWTH_MOMENTS - 1);
        uint64_t event = starts[(count - 1) * part / 16];
        if (watch->device_state_count == 0 ||
            event > watch->device_states[watch->device_state_count - 1])
            watch->device_states[watch->device_state_count++] = event;
    }
    heap_free(starts);
    return status;
}

/* ---- Levels ---------------------------------------------------------------------------------- */

static acre_status growth_walk(struct growth_watch *watch, uint64_t end)
{
    size_t stack_count = watch->snapshot->stack_count, device_state = 0;
    struct ptrmap live = PTRMAP_INITIALIZER; /* address + 1 to entry + 1 */
    acre_status status = ACRE_OK;
    for (uint64_t i = 0; i <= end && status == ACRE_OK; i++) {
        while (device_state < watch->device_state_count && watch->device_states[device_state] == i)
            memcpy(watch->then + device_state++ * stack_count, watch->now,
                   stack_count * sizeof *watch->now);
        if (i == end)
            break;
        const struct snap_entry *entry = &watch->entries[i];
        const void *key = (const void *)(uintptr_t)(entry->address + 1);
        if (entry->action == SNAP_ALLOC && entry->stack != SNAP_NONE) {
            watch->now[entry->stack].bytes += entry->bytes;
            watch->now[entry->stack].count++;
            status = ptrmap_put(&live, key, (void *)(size_t)(i + 1));
        } else if (entry->action == watch->free_action) {
            size_t from = (size_t)ptrmap_take(&live, key);
            if (from) {
                const struct snap_entry *alloc = &watch->entries[from - 1];
                watch->now[alloc->stack].bytes -= alloc->bytes;
                watch->now[alloc->stack].count--;
            }
        }
    }
    ptrmap_fini(&live);
    return status;
}

static bool growth_grows(const struct growth_watch *watch, size_t stack, struct growth *out)
{
    size_t stack_count = watch->snapshot->stack_count, last = watch->device_state_count - 1;
    const struct growth_level *levels = watch->then + stack;

    for (size_t i = 1; i <= last; i++)
        if (levels[i * stack_count].count <= levels[(i - 1) * stack_count].count)
            return false;
    *out = (struct growth){.stack = (uint32_t)stack,
                           .bytes_from = levels[0].bytes,
                           .bytes_to = levels[last * stack_count].bytes,
                           .count_from = levels[0].count,
                           .count_to = levels[last * stack_count].count};
    return out->bytes_to >= out->bytes_from + BYTES_MIN;
}

/* Keeps the fastest. */
static void growth_keep(struct growth *found, size_t *count, const struct growth *one)
{
    size_t at = *count < GROWTH_MAX ? (*count)++ : GROWTH_MAX - 1;

    if (at == GROWTH_MAX - 1 && *count == GROWTH_MAX && found[at].bytes_to &&
        found[at].bytes_to - found[at].bytes_from >= one->bytes_to - one->bytes_from)
        return;
    for (; at > 0 &&
           found[at - 1].bytes_to - found[at - 1].bytes_from < one->bytes_to - one->bytes_from;
         at--)
        found[at] = found[at - 1];
    found[at] = *one;
}

/* Whether nine in ten allocations are freed again between each two moments. */
static bool is_steady(const struct growth_watch *watch)
{
    for (size_t i = 1; i < watch->device_state_count; i++) {
        uint64_t allocs = 0, frees = 0;
        for (uint64_t k = watch->device_states[i - 1]; k < watch->device_states[i]; k++) {
            allocs += watch->entries[k].action == SNAP_ALLOC;
            frees += watch->entries[k].action == watch->free_action;
        }
        if (frees * 10 < allocs * 9)
            return false;
    }
    return true;
}

acre_status growth_find(const struct snapshot *snapshot, uint32_t device,
                        struct growth found[GROWTH_MAX], size_t *out_count)
{
    struct growth_watch watch = {.snapshot = snapshot};
    uint64_t end = snapshot->devices[device].entry_count;
    acre_status status = ACRE_OK;

    *out_count = 0;
    memset(found, 0, GROWTH_MAX * sizeof *found);
    if (snapshot->stack_count == 0 || end < 64)
        return ACRE_OK;
    watch.entries = snapshot_history(snapshot, device);
    watch.free_action = facts_free_action(snapshot, device);
    status = choose_moments(&watch, device, end);
    if (status != ACRE_OK || watch.device_state_count < ITERATIONS_MIN ||
        (!watch.has_marks && !is_steady(&watch)))
        return status;
    watch.now = heap_array(snapshot->stack_count, sizeof *watch.now);
    watch.then = heap_array(snapshot->stack_count * watch.device_state_count, sizeof *watch.then);
    status = watch.now && watch.then ? growth_walk(&watch, end) : ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < snapshot->stack_count && status == ACRE_OK; i++) {
        struct growth one;
        if (growth_grows(&watch, i, &one) &&
            device_state_category(snapshot, (uint32_t)i) != CATEGORY_OPTIMIZER)
            growth_keep(found, out_count, &one);
    }
    heap_free(watch.now);
    heap_free(watch.then);
    return status;
}
