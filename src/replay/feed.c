/* SPDX-License-Identifier: MIT */
#include "replay/feed.h"

#include "base/heap.h"
#include "base/status.h"
#include "format/snapshot/facts.h"
#include "format/trace.h"
#include "replay/history.h"

#include <string.h>
#include <time.h>

/* Moves allocations to other streams where that is asked for. */
static void rewrite_streams(struct feed *feed, acre_trace_event *events, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (events[i].kind == ACRE_TRACE_ALLOC)
            events[i].stream = (uint32_t)(feed->alloc_count++ % feed->streams);
}

/* Takes over the events of a history. */
static void feed_adopt(struct feed *feed, struct trace_history *history)
{
    feed->kept = history->events;
    feed->kept_count = history->event_count;
    feed->kept_capacity = history->event_capacity;
    history->events = NULL;
    feed->slot_count = history->slot_count;
    feed->start = (struct feed_start){.allocs = history->start_count,
                                      .bytes = history->past.requested_bytes,
                                      .open_count = history->past.open_count,
                                      .open_bytes_max = history->past.open_bytes_max,
                                      .contradictions = history->past.contradictions,
                                      .padding = history->past.padding};
    feed->is_whole = true;
    if (feed->streams)
        rewrite_streams(feed, feed->kept, feed->kept_count);
}

static acre_status open_snapshot(struct feed *feed, const char *path, uint32_t device,
                                 bool has_requests)
{
    struct snapshot *snapshot = NULL;
    struct trace_history *history = NULL;
    struct status_saved why;
    const char *reason;
    acre_status status = snapshot_read(path, &snapshot);

    if (status != ACRE_OK)
        return status;
    status = snapshot_check(snapshot);
    if (status != ACRE_OK) {
        status_save(&why);
        status = status_fail(ACRE_ERR_STATE,
                             "%s: %.800s; the file was changed by hand or by a "
                             "tool, and nothing replayed from it could be trusted",
                             path, why.text);
    }
    if (status == ACRE_OK)
        status = facts_device(snapshot, device, FACTS_HISTORY, &device, &reason);
    if (status == ACRE_OK)
        status = history_create(snapshot, device, has_requests, &history);
    if (status == ACRE_ERR_NOT_FOUND && device < snapshot->device_count)
        status = status_fail(status,
                             "%s: device %u has no history to replay; record one with "
                             "torch.cuda.memory._record_memory_history() before the job",
                             path, device);
    else if (status == ACRE_ERR_NOT_FOUND)
        status = status_fail(status,
                             "%s: there is no history to replay; record one with "
                             "torch.cuda.memory._record_memory_history() before the job",
                             path);
    if (status == ACRE_OK)
        feed_adopt(feed, history);
    feed->start.device = device;
    history_destroy(history);
    snapshot_destroy(snapshot);
    return status;
}

acre_status feed_open(const char *path, uint32_t device, bool has_requests, uint32_t streams,
                      struct feed **out)
{
    struct feed *feed = heap_zalloc(sizeof *feed);
    bool is_snapshot = false;

    if (!feed)
        return ACRE_ERR_HOST_MEMORY;
    feed->streams = streams;
    acre_status status = snapshot_is_one(path, &is_snapshot);
    if (status == ACRE_OK)
        status = is_snapshot ? open_snapshot(feed, path, device, has_requests)
                             : acre_trace_open(path, &feed->trace);
    if (status != ACRE_OK) {
        feed_close(feed);
        return status;
    }
    *out = feed;
    return ACRE_OK;
}

void feed_close(struct feed *feed)
{
    if (!feed)
        return;
    acre_trace_close(feed->trace);
    if (!feed->is_borrowed)
        heap_free(feed->kept);
    heap_free(feed);
}

acre_status feed_share(const struct feed *feed, struct feed **out, bool *out_is_shared)
{
    *out_is_shared = feed->is_whole;
    if (!feed->is_whole)
        return ACRE_OK;
    struct feed *other = heap_zalloc(sizeof *other);
    if (!other)
        return ACRE_ERR_HOST_MEMORY;
    other->kept = feed->kept;
    other->kept_count = feed->kept_count;
    other->slot_count = feed->slot_count;
    other->start = feed->start;
    other->is_whole = other->is_borrowed = true;
    *out = other;
    return ACRE_OK;
}

/* Adds the chunk to what is kept, or gives up keeping. */
static acre_status feed_keep(struct feed *feed, size_t count)
{
    if (feed->is_too_long || count == 0)
        return ACRE_OK;
    if (feed->kept_count + count > FEED_KEPT_MAX) {
        heap_free(feed->kept);
        feed->kept = NULL;
        feed->kept_count = feed->kept_capacity = 0;
        feed->is_too_long = true;
        return ACRE_OK;
    }
    if (feed->kept_count + count > feed->kept_capacity) {
        size_t capacity = feed->kept_capacity ? feed->kept_capacity * 2 : FEED_CHUNK;
        acre_trace_event *bigger = heap_realloc(feed->kept, capacity * sizeof *bigger);
        if (!bigger)
            return ACRE_ERR_HOST_MEMORY;
        feed->kept = bigger;
        feed->kept_capacity = capacity;
    }
    memcpy(feed->kept + feed->kept_count, feed->chunk, count * sizeof *feed->chunk);
    feed->kept_count += count;
    return ACRE_OK;
}

acre_status feed_seconds_left(const struct feed *feed, double *out)
{
    uint64_t now = feed->deadline_ns ? feed_now_ns() : 0;

    if (feed->deadline_ns && now >= feed->deadline_ns)
        return status_fail(ACRE_ERR_TIMEOUT, "replaying takes longer than it may");
    *out = (double)(feed->deadline_ns - now) * 1e-9;
    return ACRE_OK;
}

acre_status feed_next(struct feed *feed, const acre_trace_event **out_events, size_t *out_count)
{
    size_t count, most = feed->deadline_ns ? FEED_CHUNK_TIMED : FEED_CHUNK;

    double left;
    acre_status status = feed_seconds_left(feed, &left);

    if (status != ACRE_OK)
        return status;
    if (feed->is_whole) {
        count = feed->kept_count - feed->at;
        *out_count = count < most ? count : most;
        *out_events = *out_count ? feed->kept + feed->at : NULL;
        feed->at += *out_count;
        return ACRE_OK;
    }
    feed->is_started = true;
    status = acre_trace_read(feed->trace, feed->chunk, most, &count);
    if (status != ACRE_OK)
        return status;
    feed->slot_count = trace_slots(feed->trace);
    if (feed->streams)
        rewrite_streams(feed, feed->chunk, count);
    status = feed_keep(feed, count);
    if (status != ACRE_OK)
        return status;
    feed->is_whole = count == 0 && !feed->is_too_long;
    feed->at = feed->kept_count;
    *out_events = feed->chunk;
    *out_count = count;
    return ACRE_OK;
}

acre_status feed_rewind(struct feed *feed)
{
    feed->at = 0;
    if (feed->is_whole || !feed->is_started)
        return ACRE_OK;
    feed->alloc_count = 0;
    feed->kept_count = 0;
    return acre_trace_rewind(feed->trace);
}

double feed_progress(const struct feed *feed)
{
    uint64_t done, total;

    if (feed->is_whole)
        return feed->kept_count ? (double)feed->at / (double)feed->kept_count : 1;
    trace_progress(feed->trace, &done, &total);
    return total ? (double)done / (double)total : 0;
}

uint64_t feed_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
