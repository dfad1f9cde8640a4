/* SPDX-License-Identifier: MIT */
#include "explain/curve.h"

#include "base/heap.h"
#include "replay/target.h"

/* A replay under way. */
struct drawing {
    struct target target;
    void **pointers; /* by slot; NULL: not live */
    uint64_t done, events;
    size_t point; /* the part of the events that is under way */
    uint64_t *points;
};

static acre_status curve_level(struct drawing *drawing, uint64_t *out_now, uint64_t *out_peak)
{
    acre_planner_stats plan = {.struct_size = sizeof plan};
    acre_cache_stats stats;
    acre_status status = target_stats(&drawing->target, &stats);

    if (status == ACRE_OK && drawing->target.planner)
        status = acre_planner_stats_get(drawing->target.planner, &plan);
    if (status != ACRE_OK)
        return status;
    const acre_stat *level = plan.plans ? &plan.reserved_bytes : &stats.reserved_bytes.all;
    *out_now = (uint64_t)level->current;
    *out_peak = (uint64_t)level->peak;
    return ACRE_OK;
}

/* Ends parts up to the one that the next event belongs to. */
static acre_status curve_advance(struct drawing *drawing)
{
    size_t point = (size_t)((double)drawing->done / (double)drawing->events * CURVE_POINTS);
    uint64_t now, peak;

    if (point >= CURVE_POINTS)
        point = CURVE_POINTS - 1;
    if (point == drawing->point)
        return ACRE_OK;
    acre_status status = curve_level(drawing, &now, &peak);
    if (status != ACRE_OK)
        return status;
    drawing->points[drawing->point++] = peak;
    while (drawing->point < point)
        drawing->points[drawing->point++] = now;
    target_reset_peak(&drawing->target);
    return ACRE_OK;
}

static acre_status curve_event(struct drawing *drawing, const acre_trace_event *event)
{
    struct target *target = &drawing->target;
    void **pointer = &drawing->pointers[event->slot];
    acre_status status = ACRE_OK;

    switch (event->kind) {
    case ACRE_TRACE_ALLOC:
        status = target_need_stream(target, event->stream);
        if (status == ACRE_OK)
            status = target_alloc(target, event->bytes, target->streams[event->stream], pointer);
        return status;
    case ACRE_TRACE_FREE:
        status = target_free(target, *pointer);
        *pointer = NULL;
        return status;
    case ACRE_TRACE_USE:
        status = target_need_stream(target, event->stream);
        return status == ACRE_OK ? target_use(target, *pointer, target->streams[event->stream])
                                 : status;
    case ACRE_TRACE_SYNC:
        return acre_device_synchronize(target->device);
    default:
        return target_empty(target);
    }
}

static acre_status curve_run(struct drawing *drawing, struct feed *feed)
{
    const acre_trace_event *events;
    acre_status status = feed_rewind(feed);
    uint64_t slots = 0;
    size_t count = 1;

    while (status == ACRE_OK && count > 0) {
        status = feed_next(feed, &events, &count);
        if (status == ACRE_OK && feed->slot_count > slots) {
            void **bigger = heap_realloc(drawing->pointers, feed->slot_count * sizeof *bigger);
            if (!bigger)
                return ACRE_ERR_HOST_MEMORY;
            drawing->pointers = bigger;
            while (slots < feed->slot_count)
                bigger[slots++] = NULL;
        }
        for (size_t i = 0; status == ACRE_OK && i < count; i++, drawing->done++) {
            status = curve_advance(drawing);
            if (status == ACRE_OK)
                status = curve_event(drawing, &events[i]);
        }
    }
    return status;
}

acre_status curve_trace(struct feed *feed, uint64_t events, const acre_setting *setting,
                        uint64_t device_bytes, uint64_t points[CURVE_POINTS])
{
    struct drawing drawing = {.events = events ? events : 1, .points = points};
    uint64_t now, peak;
    acre_status status = target_init(&drawing.target, setting->policy, setting->conf, device_bytes);

    if (status == ACRE_OK && setting->flags & ACRE_SETTING_PLAN)
        status = target_plan(&drawing.target, feed);
    if (status == ACRE_OK)
        status = curve_run(&drawing, feed);
    if (status == ACRE_OK)
        status = curve_level(&drawing, &now, &peak);
    if (status == ACRE_OK) {
        points[drawing.point++] = peak;
        while (drawing.point < CURVE_POINTS)
            points[drawing.point++] = now;
    }
    target_fini(&drawing.target);
    heap_free(drawing.pointers);
    return status;
}
