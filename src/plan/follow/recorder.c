/* SPDX-License-Identifier: MIT */
#include "plan/follow/recorder.h"

#include "base/heap.h"

#include <string.h>

#define LATEST       8u /* events by which a distance is found         */
#define CLOSED_SHARE 8u /* 1/8 of them may outlive the next round      */

void recorder_init(struct recorder *recorder, uint32_t period_min, uint32_t period_max)
{
    memset(recorder, 0, sizeof *recorder);
    recorder->period_min = period_min;
    recorder->period_max = period_max;
    ptrmap_init(&recorder->live);
    ptrmap_init(&recorder->seen);
}

void recorder_fini(struct recorder *recorder)
{
    heap_free(recorder->log);
    ptrmap_fini(&recorder->live);
    ptrmap_fini(&recorder->seen);
}

void recorder_reset(struct recorder *recorder)
{
    uint32_t period_min = recorder->period_min, period_max = recorder->period_max;
    bool has_steps = recorder->has_steps;

    recorder_fini(recorder);
    recorder_init(recorder, period_min, period_max);
    recorder->has_steps = has_steps;
}

/* ---- Repetition ------------------------------------------------------------------ */

/* The latest symbols as a key of the map. */
static const void *latest_key(const struct recorder *recorder)
{
    uint64_t hash = 0;

    for (uint32_t i = recorder->count - LATEST; i < recorder->count; i++)
        hash = mix_bits(hash ^ recorder->log[i].symbol);
    return (const void *)(uintptr_t)(hash | 1);
}

/* Follows the distance, or looks for another. */
static void follow_distance(struct recorder *recorder)
{
    uint32_t last = recorder->count - 1, distance = recorder->distance;

    if (distance && recorder->log[last].symbol == recorder->log[last - distance].symbol)
        recorder->run++;
    else
        recorder->distance = recorder->run = 0;
    if (recorder->count < LATEST)
        return;
    const void *key = latest_key(recorder);
    if (!recorder->distance) {
        uintptr_t before = (uintptr_t)ptrmap_get(&recorder->seen, key);
        if (before) {
            recorder->distance = last - (uint32_t)(before - 1);
            recorder->run = LATEST;
            recorder->run_next = recorder->distance;
        }
    }
    if (ptrmap_put(&recorder->seen, key, (void *)(uintptr_t)(last + (uintptr_t)1)) != ACRE_OK)
        recorder_reset(recorder);
}

static void recorder_append(struct recorder *recorder, struct log_entry entry)
{
    if (recorder->count == recorder->capacity) {
        uint32_t capacity = recorder->capacity ? 2 * recorder->capacity : 1024;
        struct log_entry *log = NULL;
        if (recorder->count < 4 * (uint64_t)recorder->period_max)
            log = heap_realloc(recorder->log, capacity * sizeof *log);
        if (!log) {
            recorder_reset(recorder);
            return;
        }
        recorder->log = log;
        recorder->capacity = capacity;
    }
    recorder->log[recorder->count++] = entry;
    follow_distance(recorder);
}

void recorder_alloc(struct recorder *recorder, void *pointer, size_t bytes, void *stream)
{
    uint64_t symbol = mix_bits(request_hash(bytes, stream) + ACRE_TRACE_ALLOC);
    uintptr_t number = recorder->count + (uintptr_t)1;

    if (ptrmap_put(&recorder->live, pointer, (void *)number) != ACRE_OK) {
        recorder_reset(recorder);
        return;
    }
    recorder_append(recorder, (struct log_entry){symbol, bytes, stream, 0, ACRE_TRACE_ALLOC});
}

void recorder_free(struct recorder *recorder, void *pointer)
{
    uintptr_t number = (uintptr_t)ptrmap_take(&recorder->live, pointer);

    if (!number)
        return;
    uint32_t alloc = (uint32_t)(number - 1);
    uint64_t symbol = mix_bits(mix_bits(recorder->count - alloc) + ACRE_TRACE_FREE);
    recorder_append(recorder, (struct log_entry){symbol, 0, NULL, alloc, ACRE_TRACE_FREE});
}

void recorder_use(struct recorder *recorder, void *pointer, void *stream)
{
    uintptr_t number = (uintptr_t)ptrmap_get(&recorder->live, pointer);

    if (!number)
        return;
    uint32_t alloc = (uint32_t)(number - 1);
    uint64_t symbol = request_hash(recorder->count - alloc, stream) + ACRE_TRACE_USE;
    recorder_append(recorder, (struct log_entry){symbol, 0, stream, alloc, ACRE_TRACE_USE});
}

/* ---- Periods --------------------------------------------------------------------- */

/* Whether most of what the round before the last allocated is freed by now. */
static bool is_closed(const struct recorder *recorder, uint32_t period)
{
    uint32_t from = recorder->count - 2 * period, allocs = 0, frees = 0;

    for (uint32_t i = from; i < from + period; i++)
        allocs += recorder->log[i].kind == ACRE_TRACE_ALLOC;
    for (uint32_t i = from; i < recorder->count; i++)
        frees += recorder->log[i].kind == ACRE_TRACE_FREE && recorder->log[i].alloc >= from &&
                 recorder->log[i].alloc < from + period;
    return allocs > 0 && allocs - frees <= allocs / CLOSED_SHARE;
}

bool recorder_find(struct recorder *recorder, uint32_t *out_period)
{
    uint32_t distance = recorder->distance;

    if (recorder->has_steps || !distance || recorder->run < recorder->run_next ||
        distance > recorder->period_max)
        return false;
    recorder->run_next = 2 * recorder->run;
    if (distance < recorder->period_min) {
        recorder->run_next = recorder->run + 1;
        uint32_t whole = distance * ((recorder->period_min + distance - 1) / distance);
        if (recorder->run + distance < 2 * whole) /* short rounds: several are one */
            return false;
        distance = whole;
    }
    if (!is_closed(recorder, distance))
        return false;
    *out_period = distance;
    return true;
}

bool recorder_step(struct recorder *recorder, uint32_t *out_period)
{
    uint32_t older = recorder->step[0], newer = recorder->step[1], now = recorder->count;
    uint32_t period = now - newer;

    recorder->has_steps = true;
    recorder->step[0] = newer;
    recorder->step[1] = now;
    if (recorder->step_count < 2)
        recorder->step_count++;
    else if (period > 0 && period <= recorder->period_max && newer - older == period) {
        for (uint32_t i = newer; i < now; i++)
            if (recorder->log[i].symbol != recorder->log[i - period].symbol)
                return false;
        *out_period = period;
        return true;
    }
    return false;
}

acre_status recorder_round(const struct recorder *recorder, uint32_t period,
                           struct timetable_record **out, uint32_t *out_count)
{
    const struct log_entry *log = recorder->log;
    uint32_t from = recorder->count - period, count = 0, entry_count = 0;
    struct timetable_record *records = heap_array(period + (size_t)1, sizeof *records);
    uint32_t *number = heap_array(period + (size_t)1, sizeof *number);

    if (!records || !number) {
        heap_free(records);
        heap_free(number);
        return ACRE_ERR_HOST_MEMORY;
    }
    for (uint32_t i = from; i < recorder->count; i++)
        if (log[i].kind == ACRE_TRACE_ALLOC)
            number[i - from] = entry_count++;
    for (uint32_t i = from; i < recorder->count; i++) {
        uint32_t alloc = log[i].kind == ACRE_TRACE_ALLOC ? i : log[i].alloc;
        if (i - alloc >= period)
            continue;                                  /* a free after more than a round */
        alloc = alloc < from ? alloc + period : alloc; /* the same of this round */
        records[count++] = (struct timetable_record){log[i].bytes, log[i].stream,
                                                     number[alloc - from], log[i].kind};
    }
    heap_free(number);
    *out = records;
    *out_count = count;
    return ACRE_OK;
}
