/* SPDX-License-Identifier: MIT */
/* Feeds a trace to a cache and reports what was needed.
 *
 * A chunk of events is prepared (streams, slots), fed with the clock running,
 * and accounted for afterwards, so that the measured loop holds the calls and
 * next to nothing else. A further pass of a trace that is kept needs neither, as
 * long as everything is served as in a pass before.
 */
#include <acre/trace.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "replay/capacity.h"
#include "replay/feed.h"
#include "replay/replay.h"
#include "replay/target.h"

/* Everything one call of acre_replay holds. */
struct run {
    const acre_replay_config *config;
    struct feed *feed;
    struct target target;
    void **pointers; /* by slot; NULL: not served or not live  */
    uint64_t *sizes; /* requested bytes by slot, as accounted  */
    uint64_t slot_capacity;
    uint64_t bytes_max;     /* largest allocation met so far          */
    bool is_prepared;       /* the target has what all events need    */
    acre_replay_pass whole; /* counts of a pass without any failure;  */
    bool has_whole;         /* there was one                          */
    double work_total;      /* passes expected                        */
    double work_done;       /* passes finished                        */
    double work_told;       /* largest share told                     */
};

/* A pass under way. */
struct pass {
    acre_replay_pass *result;
    bool stops_at_failure;
    uint64_t bytes_requested; /* live                            */
    size_t left_out;          /* events that are in run.whole    */
    uint64_t ns;
    size_t failed_count;         /* of the chunk                    */
    uint32_t failed[FEED_CHUNK]; /* indices of failed allocations   */
};

static bool is_out_of_memory(acre_status status)
{
    return status == ACRE_ERR_DEVICE_MEMORY || status == ACRE_ERR_REJECTED ||
           status == ACRE_ERR_LIMIT;
}

static void tell_progress(struct run *run, double part)
{
    double share = (run->work_done + part) / run->work_total;

    if (!run->config->progress || share <= run->work_told)
        return;
    run->work_told = share < 1 ? share : 1;
    run->config->progress(run->config->progress_arg, run->work_told);
}

/* ---- One chunk ------------------------------------------------------------------- */

static acre_status grow_slots(struct run *run)
{
    uint64_t capacity = run->slot_capacity ? run->slot_capacity : 1024;

    if (run->feed->slot_count <= run->slot_capacity)
        return ACRE_OK;
    while (capacity < run->feed->slot_count)
        capacity *= 2;
    void **pointers = heap_realloc(run->pointers, capacity * sizeof *pointers);
    if (!pointers)
        return ACRE_ERR_HOST_MEMORY;
    run->pointers = pointers;
    uint64_t *sizes = heap_realloc(run->sizes, capacity * sizeof *sizes);
    if (!sizes)
        return ACRE_ERR_HOST_MEMORY;
    run->sizes = sizes;
    for (uint64_t i = run->slot_capacity; i < capacity; i++) {
        pointers[i] = NULL;
        sizes[i] = 0;
    }
    run->slot_capacity = capacity;
    return ACRE_OK;
}

static acre_status prepare_chunk(struct run *run, const acre_trace_event *events, size_t count)
{
    acre_status status = grow_slots(run);

    for (size_t i = 0; i < count && status == ACRE_OK; i++) {
        if (events[i].stream != ACRE_TRACE_ALL_STREAMS)
            status = target_need_stream(&run->target, events[i].stream);
        if (events[i].kind == ACRE_TRACE_ALLOC && events[i].bytes > run->bytes_max)
            run->bytes_max = events[i].bytes;
    }
    return status;
}

/* What is neither allocation nor free. */
static acre_status feed_other(struct run *run, const acre_trace_event *event)
{
    struct target *target = &run->target;

    switch (event->kind) {
    case ACRE_TRACE_USE:
        return target_use(target, run->pointers[event->slot], target->streams[event->stream]);
    case ACRE_TRACE_SYNC:
        if (event->stream == ACRE_TRACE_ALL_STREAMS)
            return acre_device_synchronize(target->device);
        return acre_stream_native_synchronize(target->device, target->streams[event->stream]);
    default:
        CHECK(event->kind == ACRE_TRACE_EMPTY);
        return target_empty(target);
    }
}

/* The measured loop. */
static acre_status feed_chunk(struct run *run, struct pass *pass, const acre_trace_event *events,
                              size_t count)
{
    acre_cache *cache = run->target.cache;
    void **pointers = run->pointers, **streams = run->target.streams;
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < count; i++) {
        const acre_trace_event *event = &events[i];
        if (event->kind == ACRE_TRACE_ALLOC) {
            status = acre_cache_alloc(cache, event->bytes, streams[event->stream],
                                      &pointers[event->slot]);
            if (UNLIKELY(status != ACRE_OK)) {
                pointers[event->slot] = NULL;
                pass->failed[pass->failed_count++] = (uint32_t)i;
                if (!is_out_of_memory(status) || pass->stops_at_failure)
                    return status;
            }
        } else if (event->kind == ACRE_TRACE_FREE) {
            status = acre_cache_free(cache, pointers[event->slot]);
            pointers[event->slot] = NULL;
            if (UNLIKELY(status != ACRE_OK))
                return status;
        } else {
            status = feed_other(run, event);
            if (UNLIKELY(status != ACRE_OK))
                return status;
        }
    }
    return ACRE_OK;
}

/* The measured loop with a planner, or host memory. */
static acre_status feed_chunk_other(struct run *run, struct pass *pass,
                                    const acre_trace_event *events, size_t count)
{
    void **pointers = run->pointers, **streams = run->target.streams;
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < count; i++) {
        const acre_trace_event *event = &events[i];
        void **pointer = &pointers[event->slot];
        if (event->kind == ACRE_TRACE_ALLOC) {
            status = target_alloc(&run->target, event->bytes, streams[event->stream], pointer);
            if (UNLIKELY(status != ACRE_OK)) {
                *pointer = NULL;
                pass->failed[pass->failed_count++] = (uint32_t)i;
                if (!is_out_of_memory(status) || pass->stops_at_failure)
                    return status;
            }
            continue;
        }
        status = event->kind == ACRE_TRACE_FREE ? target_free(&run->target, *pointer)
                                                : feed_other(run, event);
        if (event->kind == ACRE_TRACE_FREE)
            *pointer = NULL;
        if (UNLIKELY(status != ACRE_OK))
            return status;
    }
    return ACRE_OK;
}

/* Counts what the chunk did, in order. */
static void account_chunk(struct run *run, struct pass *pass, const acre_trace_event *events,
                          size_t count)
{
    acre_replay_pass *result = pass->result;
    size_t failed_at = 0;

    for (size_t i = 0; i < count; i++) {
        const acre_trace_event *event = &events[i];
        if (event->kind == ACRE_TRACE_ALLOC) {
            bool has_failed = failed_at < pass->failed_count && pass->failed[failed_at] == i;
            failed_at += has_failed;
            result->allocs++;
            run->sizes[event->slot] = has_failed ? 0 : event->bytes - run->feed->start.padding;
            pass->bytes_requested += run->sizes[event->slot];
            if (pass->bytes_requested > result->bytes_requested_peak)
                result->bytes_requested_peak = pass->bytes_requested;
        } else if (event->kind == ACRE_TRACE_FREE) {
            result->frees++;
            pass->bytes_requested -= run->sizes[event->slot];
        }
    }
    if (pass->failed_count && result->first_oom_event < 0)
        result->first_oom_event = (int64_t)(result->events + pass->failed[0]);
    result->ooms += pass->failed_count;
    result->events += count;
}

/* Replays, leaving out what an earlier pass already showed, until a failure is met. */
static void replay_account(struct run *run, struct pass *pass, const acre_trace_event *events,
                           size_t count)
{
    size_t failed_count = pass->failed_count, left_out = pass->left_out;

    if (run->has_whole && run->feed->is_whole && !failed_count && !pass->result->events) {
        pass->left_out += count;
        return;
    }
    pass->failed_count = pass->left_out = 0;
    if (left_out)
        account_chunk(run, pass, run->feed->kept, left_out);
    pass->failed_count = failed_count;
    account_chunk(run, pass, events, count);
}

/* Ends the accounts of a pass. */
static void account_end(struct run *run, struct pass *pass)
{
    acre_replay_pass *result = pass->result;

    if (pass->left_out) {
        result->allocs = run->whole.allocs;
        result->frees = run->whole.frees;
        result->events = run->whole.events;
        result->bytes_requested_peak = run->whole.bytes_requested_peak;
    } else if (!result->ooms) {
        run->whole = *result;
        run->has_whole = true;
    }
}

/* ---- One pass --------------------------------------------------------------------- */

/* Levels and totals of the cache and its device. */
struct reading {
    acre_cache_stats stats;
    acre_planner_stats plan; /* all 0 without a planner */
    uint64_t maps, unmaps;
};

/* Segments held now; of expandable ones, runs of pages. */
static acre_status count_segments(acre_cache *cache, acre_replay_pass *result,
                                  const struct reading *after)
{
    acre_cache_layout *layout;
    uint64_t expandable_count;
    acre_status status = acre_cache_stream_segment_sizes(cache, NULL, 0, &expandable_count);

    result->segments = (uint64_t)after->stats.segment.all.current;
    if (status != ACRE_OK || !expandable_count)
        return status;
    status = acre_cache_layout_create(cache, &layout);
    if (status != ACRE_OK)
        return status;
    result->segments = layout->segment_count;
    if (result->segments > result->segments_peak)
        result->segments_peak = result->segments;
    acre_cache_layout_destroy(layout);
    return ACRE_OK;
}

static acre_status take_reading(struct run *run, struct reading *out)
{
    out->plan = (acre_planner_stats){.struct_size = sizeof out->plan};
    acre_status status = target_stats(&run->target, &out->stats);

    if (status == ACRE_OK && run->target.planner)
        status = acre_planner_stats_get(run->target.planner, &out->plan);
    if (status == ACRE_OK)
        status = target_page_calls(&run->target, &out->maps, &out->unmaps);
    return status;
}

/* Adds what the planner held besides the cache. */
static void add_plan(acre_replay_pass *result, const struct reading *before,
                     const struct reading *after)
{
    const acre_planner_stats *plan = &after->plan;

    if (!plan->plans)
        return;
    result->bytes_allocated_peak = (uint64_t)plan->allocated_bytes.peak;
    result->bytes_reserved_peak = (uint64_t)plan->reserved_bytes.peak;
    result->segments_peak++;
    result->segments++;
    result->departures = plan->departures - before->plan.departures;
}

static void fill_result(acre_replay_pass *result, const struct reading *before,
                        const struct reading *after, uint64_t ns)
{
    const acre_cache_stats *from = &before->stats, *to = &after->stats;

    result->bytes_allocated_peak = (uint64_t)to->allocated_bytes.all.peak;
    result->bytes_reserved_peak = (uint64_t)to->reserved_bytes.all.peak;
    result->segments_peak = (uint64_t)to->segment.all.peak;
    result->device_allocs = (uint64_t)(to->segment.all.allocated - from->segment.all.allocated);
    result->device_frees = (uint64_t)(to->segment.all.freed - from->segment.all.freed);
    result->maps = after->maps - before->maps;
    result->unmaps = after->unmaps - before->unmaps;
    result->retries = (uint64_t)(to->num_alloc_retries - from->num_alloc_retries);
    add_plan(result, before, after);
    if (result->bytes_requested_peak)
        result->waste_ppm =
            (int64_t)(((double)result->bytes_reserved_peak - (double)result->bytes_requested_peak) *
                      1e6 / (double)result->bytes_requested_peak);
    result->ns_per_event = result->events ? (double)ns / (double)result->events : 0;
}

static acre_status run_events(struct run *run, struct pass *pass)
{
    const acre_trace_event *events;
    acre_status status;
    size_t count;

    for (;;) {
        status = feed_next(run->feed, &events, &count);
        if (status == ACRE_OK && !run->is_prepared)
            status = prepare_chunk(run, events, count);
        if (status != ACRE_OK || count == 0)
            break;
        pass->failed_count = 0;
        uint64_t start = feed_now_ns();
        status = run->target.planner || run->target.pinned
                     ? feed_chunk_other(run, pass, events, count)
                     : feed_chunk(run, pass, events, count);
        pass->ns += feed_now_ns() - start;
        if (status != ACRE_OK && (pass->stops_at_failure || !is_out_of_memory(status)))
            return status;
        replay_account(run, pass, events, count);
        tell_progress(run, feed_progress(run->feed));
    }
    if (status != ACRE_OK)
        return status;
    run->is_prepared = run->feed->is_whole;
    account_end(run, pass);
    return ACRE_OK;
}

/* Frees what the trace left live. */
static acre_status free_live(struct run *run)
{
    acre_status status = ACRE_OK;

    for (uint64_t i = 0; i < run->slot_capacity && status == ACRE_OK; i++) {
        status = target_free(&run->target, run->pointers[i]);
        run->pointers[i] = NULL;
    }
    return status;
}

static acre_status run_pass(struct run *run, bool stops_at_failure, acre_replay_pass *result)
{
    struct reading before, after;
    struct pass *pass = heap_zalloc(sizeof *pass);

    if (!pass)
        return ACRE_ERR_HOST_MEMORY;
    *result = (acre_replay_pass){.first_oom_event = -1};
    pass->result = result;
    pass->stops_at_failure = stops_at_failure;
    target_reset_peak(&run->target);
    acre_status status = feed_rewind(run->feed);
    if (status == ACRE_OK)
        status = take_reading(run, &before);
    if (status == ACRE_OK)
        status = run_events(run, pass);
    if (status == ACRE_OK)
        status = take_reading(run, &after);
    if (status == ACRE_OK) {
        fill_result(result, &before, &after, pass->ns);
        status = count_segments(run->target.cache, result, &after);
    }
    if (status == ACRE_OK)
        status = free_live(run);
    run->work_done++;
    heap_free(pass);
    return status;
}

/* Makes a device and what is on it. */
static acre_status open_target(struct run *run, uint64_t device_bytes)
{
    acre_status status =
        target_init(&run->target, run->config->policy, run->config->conf, device_bytes);

    run->is_prepared = false;
    if (status == ACRE_OK && (run->config->flags & ACRE_REPLAY_PLAN))
        status = target_plan(&run->target, run->feed);
    else if (status == ACRE_OK && (run->config->flags & ACRE_REPLAY_HOST))
        status = target_pin(&run->target, run->config->policy, run->config->conf);
    if (status != ACRE_OK)
        target_fini(&run->target);
    return status;
}

/* ---- Smallest capacity ---------------------------------------------------------------- */

/* Sets the span of a replay that has ended, while its device is still there. */
static acre_status read_span(struct run *run, uint64_t capacity_mib, bool fits,
                             struct capacity_span *out)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};

    *out = (struct capacity_span){.from_mib = capacity_mib, .to_mib = capacity_mib, .fits = fits};
    if (run->config->flags & ACRE_REPLAY_PLAN ||
        !capacity_is_told_by_refusals(run->config->policy, run->config->conf))
        return ACRE_OK;
    acre_status status = acre_sim_usage_get(run->target.backend, &usage);
    if (status == ACRE_OK)
        *out = capacity_span_of(&usage, capacity_mib, run->bytes_max, fits);
    return status;
}

static acre_status replay_fits(void *arg, uint64_t capacity_mib, struct capacity_span *out)
{
    struct run *run = arg;
    acre_replay_pass unused;
    acre_status status = open_target(run, capacity_mib * MIB);

    if (status != ACRE_OK)
        return status;
    status = run_pass(run, true, &unused);
    if (status == ACRE_OK || is_out_of_memory(status))
        status = read_span(run, capacity_mib, status == ACRE_OK, out);
    for (uint64_t i = 0; i < run->slot_capacity; i++)
        run->pointers[i] = NULL; /* goes with the cache */
    target_fini(&run->target);
    return status;
}

/* Searches between what is live at the peak and what was held without need. */
static acre_status search_capacity(struct run *run, const acre_replay_result *result,
                                   const struct capacity_span *first, uint64_t *out_bytes)
{
    struct capacity_range range = {.low_mib = capacity_in_mib(result->first.bytes_requested_peak),
                                   .high_mib = capacity_in_mib(result->first.bytes_reserved_peak),
                                   .first = *first};
    acre_status status = capacity_search(&range, replay_fits, run, out_bytes);

    *out_bytes *= MIB;
    return status;
}

/* ---- All of it --------------------------------------------------------------------------- */

static acre_status run_all(struct run *run, uint64_t device_bytes, acre_replay_result *result)
{
    uint32_t repeat = run->config->repeat ? run->config->repeat : 1;
    struct capacity_span first = {.from_mib = 1, .to_mib = 0};
    acre_status status = open_target(run, device_bytes);

    if (status != ACRE_OK)
        return status;
    status = run_pass(run, false, &result->first);
    if (status == ACRE_OK && result->first.ooms == 0 && device_bytes % MIB == 0)
        status = read_span(run, device_bytes / MIB, true, &first);
    for (uint32_t i = 1; i < repeat && status == ACRE_OK; i++)
        status = run_pass(run, false, &result->warm);
    result->has_warm = repeat > 1;
    target_fini(&run->target);
    if (status == ACRE_OK && (run->config->flags & ACRE_REPLAY_MIN_CAPACITY))
        status = search_capacity(run, result, &first, &result->min_capacity_bytes);
    return status;
}

acre_status replay_feed(struct feed *feed, const acre_replay_config *config,
                        acre_replay_result *result)
{
    struct run run = {.config = config, .feed = feed};
    acre_replay_result found = {.struct_size = sizeof found,
                                .start_allocs = feed->start.allocs,
                                .start_bytes = feed->start.bytes,
                                .start_open = feed->start.open_count,
                                .start_open_bytes = feed->start.open_bytes_max,
                                .contradictions = feed->start.contradictions,
                                .device = feed->start.device,
                                .padding = feed->start.padding};

    found.device_bytes = config->device_bytes ? config->device_bytes : ACRE_REPLAY_DEVICE_BYTES;
    run.work_total = config->repeat ? config->repeat : 1;
    if (config->flags & ACRE_REPLAY_MIN_CAPACITY)
        run.work_total += 12;
    acre_status status = run_all(&run, found.device_bytes, &found);
    heap_free(run.pointers);
    heap_free(run.sizes);
    if (status == ACRE_OK)
        STRUCT_GIVE(acre_replay_result, result, &found);
    return status;
}

acre_status acre_replay(const char *path, const acre_replay_config *config,
                        acre_replay_result *result)
{
    acre_replay_config whole = {.struct_size = sizeof whole};
    struct feed *feed = NULL;
    acre_status status = STRUCT_CHECK("acre_replay", acre_replay_result, result);

    if (status == ACRE_OK && config)
        status = STRUCT_TAKE("acre_replay", acre_replay_config, config, &whole);
    if (status != ACRE_OK)
        return status;
    if (!path)
        return status_fail(ACRE_ERR_INVALID, "acre_replay: path is NULL");
    config = &whole;
    if (config->streams > ACRE_TRACE_STREAM_MAX + 1)
        return status_fail(ACRE_ERR_INVALID, "acre_replay: %u streams; at most %d are possible",
                           config->streams, ACRE_TRACE_STREAM_MAX + 1);
    if ((config->flags & ACRE_REPLAY_HOST) &&
        (config->flags & (ACRE_REPLAY_PLAN | ACRE_REPLAY_MIN_CAPACITY)))
        return status_fail(ACRE_ERR_INVALID, "acre_replay: host memory has neither a plan nor a "
                                             "capacity to search");
    status = feed_open(path, config->device, false, config->streams, &feed);
    if (status == ACRE_OK)
        status = replay_feed(feed, config, result);
    feed_close(feed);
    return status;
}
