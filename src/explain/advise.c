/* SPDX-License-Identifier: MIT */
/* Tries the settings that matter on a recording, several at the same time.
 *
 * The events are read once and shared by all threads; each thread takes the next
 * setting that nobody has taken. A trace that is too long to be kept is read by every
 * replay anew. Only the calling thread tells about progress.
 */
#include <acre/explain.h>

#include "base/heap.h"
#include "base/status.h"
#include "base/process/thread.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "explain/curve.h"
#include "explain/device_state.h"
#include "explain/judge.h"
#include "explain/notes.h"
#include "explain/shares.h"
#include "explain/trials.h"
#include "format/array.h"
#include "format/snapshot/facts.h"
#include "replay/capacity.h"
#include "replay/history.h"
#include "replay/recorded.h"
#include "replay/replay.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOP_MAX     10
#define THREADS_MAX 7 /* simulated devices of AMPLE_BYTES for which there are addresses */
#define MIB         ((uint64_t)1 << 20)
#define AMPLE_BYTES ((uint64_t)1 << 39)
#define SECONDS_MAX 1e9 /* a longer time is without limit */
#define STREAMS_MAX 8   /* that find addresses on each of so many devices */

/* The result and what it points at. */
struct advise_whole {
    acre_advice advice; /* first: the user holds its address */
    struct notes notes;
    acre_setting settings[TRIALS_MAX];
    const uint64_t *curves[TRIALS_MAX];
    const acre_setting *alike[TRIALS_MAX]; /* by setting: one that decides the same, or NULL */
    char conf[RECORDED_CONF_MAX];
    char text[4096];
};

/* What threads share. */
struct advise_work {
    const char *path;
    const acre_advise_config *config;
    struct feed *feed;          /* the job                    */
    struct feed *requests;      /* with requests that failed, or NULL */
    struct device_state *state; /* when the request failed, or at the peak; NULL: a trace */
    struct savings savings;     /* of that state */
    struct advise_whole *whole;
    atomic_size_t next;              /* setting to take            */
    atomic_size_t done;              /* settings finished          */
    atomic_int status;               /* of the first failure       */
    pthread_mutex_t mutex;           /* guards why                 */
    struct status_saved why;         /* its text                   */
    uint64_t requested_peak, events; /* of the first setting   */
    uint64_t live_peak;              /* asked for at once, as recorded */
    uint64_t streams;                /* that allocate                  */
    uint64_t ample_bytes;            /* a device that is large enough  */
    uint64_t deadline_ns;            /* of feed_now_ns; 0: none        */
    bool is_recorded_device; /* the device in question is no larger than that of the recording */
};

/* From now on there is as much time as the user gives. */
static void set_deadline(struct advise_work *work)
{
    double seconds = work->config->seconds;

    if (seconds > 0 && seconds < SECONDS_MAX)
        work->deadline_ns = feed_now_ns() + (uint64_t)(seconds * 1e9);
}

/* ---- Trying --------------------------------------------------------------------------------- */

/* Replays a feed that several threads share, or reads the file anew. */
static acre_status replay_shared(struct advise_work *work, struct feed *from,
                                 const acre_replay_config *config, acre_replay_result *result)
{
    struct feed *feed = NULL;
    bool is_shared = false;
    acre_status status = feed_share(from, &feed, &is_shared);

    if (status == ACRE_OK && !is_shared)
        status = feed_open(work->path, config->device, false, 0, &feed);
    if (status == ACRE_OK) {
        feed->deadline_ns = work->deadline_ns;
        status = replay_feed(feed, config, result);
    }
    feed_close(feed);
    return status;
}

/* Whether a setting serves the job on the device in question, and the requests that failed
 * in the recording too. */
static acre_status try_fit(struct advise_work *work, acre_setting *setting)
{
    uint64_t device_bytes = work->whole->advice.device_bytes;
    bool is_plan = setting->flags & ACRE_SETTING_PLAN;
    acre_replay_config config = {.struct_size = sizeof config,
                                 .policy = setting->policy,
                                 .conf = setting->conf,
                                 .device = work->whole->advice.device,
                                 .device_bytes = is_plan ? work->ample_bytes : device_bytes,
                                 .flags = is_plan ? ACRE_REPLAY_PLAN : 0};
    acre_replay_result result = {.struct_size = sizeof result};

    setting->fits = -1;
    if (!device_bytes)
        return ACRE_OK;
    setting->fits = 0;
    if (work->whole->advice.wanted_peak_bytes > device_bytes)
        return ACRE_OK; /* no placement can do it, and the request may be absurdly large */
    setting->fits =
        setting->min_capacity_bytes && setting->min_capacity_bytes <= device_bytes ? 1 : 0;
    if (!work->requests || !setting->fits)
        return ACRE_OK;
    acre_status status = replay_shared(work, work->requests, &config, &result);
    if (status == ACRE_OK)
        setting->fits =
            is_plan ? result.first.bytes_reserved_peak <= device_bytes : result.first.ooms == 0;
    return status;
}

static acre_status try_curve(struct advise_work *work, const acre_setting *setting,
                             uint64_t *points)
{
    struct feed *feed = NULL;
    bool is_shared = false;
    acre_status status = feed_share(work->feed, &feed, &is_shared);

    if (status == ACRE_OK && !is_shared)
        status = feed_open(work->path, work->whole->advice.device, false, 0, &feed);
    if (status == ACRE_OK) {
        feed->deadline_ns = work->deadline_ns;
        status = curve_trace(feed, work->events, setting, work->ample_bytes, points);
    }
    feed_close(feed);
    return status;
}

static acre_status try_setting(struct advise_work *work, acre_setting *setting)
{
    acre_replay_config config = {.struct_size = sizeof config,
                                 .policy = setting->policy,
                                 .conf = setting->conf,
                                 .device = work->whole->advice.device,
                                 .device_bytes = work->ample_bytes,
                                 .flags = ACRE_REPLAY_MIN_CAPACITY};
    acre_replay_result result = {.struct_size = sizeof result};

    /* A plan is as high as it is whatever the device: no need to search. */
    if (setting->flags & ACRE_SETTING_PLAN)
        config.flags = ACRE_REPLAY_PLAN;
    acre_status status = replay_shared(work, work->feed, &config, &result);
    if (status != ACRE_OK)
        return status;
    setting->bytes_reserved_peak = result.first.bytes_reserved_peak;
    setting->min_capacity_bytes = setting->flags & ACRE_SETTING_PLAN
                                      ? (result.first.bytes_reserved_peak + MIB - 1) / MIB * MIB
                                      : result.min_capacity_bytes;
    if (setting == work->whole->settings) {
        work->requested_peak = result.first.bytes_requested_peak;
        work->events = result.first.events;
    }
    return try_fit(work, setting);
}

/* Tries a setting, or says that there is no time for it. */
static acre_status try_in_time(struct advise_work *work, acre_setting *setting)
{
    acre_status status = try_setting(work, setting);

    if (status != ACRE_ERR_TIMEOUT)
        return status;
    trial_leave(setting);
    return ACRE_OK;
}

/* Takes settings until there are none: the present ones, without which nothing can be compared,
 * then the last ones first, as they take longest. */
static void *try_all(void *arg)
{
    struct advise_work *work = arg;
    struct advise_whole *whole = work->whole;
    size_t count = whole->advice.setting_count;

    for (;;) {
        size_t at = atomic_fetch_add(&work->next, 1);
        if (at >= count || atomic_load(&work->status) != ACRE_OK)
            return NULL;
        at = at ? count - at : 0;
        acre_status status = whole->alike[at] ? ACRE_OK : try_in_time(work, &whole->settings[at]);
        atomic_fetch_add(&work->done, 1);
        if (status == ACRE_OK)
            continue;
        pthread_mutex_lock(&work->mutex);
        if (atomic_load(&work->status) == ACRE_OK) {
            status_save(&work->why);
            atomic_store(&work->status, (int)status);
        }
        pthread_mutex_unlock(&work->mutex);
    }
}

/* Waits for the threads and tells how far they are. */
static void watch_progress(struct advise_work *work)
{
    size_t count = work->whole->advice.setting_count;

    while (atomic_load(&work->done) < count && atomic_load(&work->status) == ACRE_OK) {
        if (work->config->progress)
            work->config->progress(work->config->progress_arg,
                                   (double)atomic_load(&work->done) / (double)count);
        usleep(20000);
    }
}

static acre_status run_threads(struct advise_work *work)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t wanted = work->config->threads ? work->config->threads
                      : processors > 0      ? (uint32_t)processors
                                            : 1;
    pthread_t threads[THREADS_MAX];
    uint32_t count = 0;

    wanted = wanted > THREADS_MAX ? THREADS_MAX : wanted;
    if (work->ample_bytes > AMPLE_BYTES || work->streams > STREAMS_MAX)
        wanted = 1; /* addresses do for one such device, as every stream reserves some */
    while (count < wanted && thread_start(&threads[count], try_all, work) == 0)
        count++;
    if (count == 0)
        try_all(work);
    else
        watch_progress(work);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    if (atomic_load(&work->status) != ACRE_OK)
        status_restore(&work->why);
    return (acre_status)atomic_load(&work->status);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The request that failed last, and whether to make it again. */
static acre_status read_request(struct advise_work *work, const struct snapshot *snapshot,
                                uint64_t event)
{
    acre_advice *advice = &work->whole->advice;
    const struct snap_entry *entry = &snapshot_history(snapshot, advice->device)[event];
    char text[STACK_TEXT_MAX];

    advice->failed_bytes = entry->bytes;
    if (entry->stack != SNAP_NONE)
        advice->failed_stack =
            notes_text(&work->whole->notes, "%s",
                       device_state_stack_text(snapshot, entry->stack, text, sizeof text));
    if (!advice->failed_stack)
        return ACRE_ERR_HOST_MEMORY;
    return feed_open(work->path, advice->device, true, 0, &work->requests);
}

/* Levels of the recording, and the state that is explained. */
static acre_status read_levels(struct advise_work *work, const struct snapshot *snapshot)
{
    acre_advice *advice = &work->whole->advice;
    const struct snap_device *trace = &snapshot->devices[advice->device];
    struct past past;
    struct recorded_levels levels;
    uint64_t event = 0;
    acre_status status = past_recover(snapshot, advice->device, &past);

    if (status != ACRE_OK)
        return status;
    recorded_measure(snapshot, advice->device, &past, &levels);
    past_fini(&past);
    for (uint64_t i = 0; i < trace->entry_count; i++)
        advice->recorded_ooms += snapshot->entries[trace->first_entry + i].action == SNAP_OOM;
    advice->recorded_reserved_peak = levels.reserved_peak;
    advice->wanted_peak_bytes = levels.wanted_peak;
    if (!advice->device_bytes)
        advice->device_bytes = levels.device_total;
    work->is_recorded_device = advice->device_bytes <= levels.device_total;
    bool has_failed = facts_last_oom(snapshot, advice->device, &event);
    if (has_failed)
        status = read_request(work, snapshot, event);
    else
        event = levels.requested_peak_entry;
    if (status == ACRE_OK)
        status = device_state_create(
            snapshot, advice->device, event,
            has_failed ? &snapshot->entries[trace->first_entry + event] : NULL, &work->state);
    if (status == ACRE_OK)
        status = savings_compute(snapshot, advice->device, work->state, &work->whole->notes,
                                 &work->savings);
    return status;
}

/* What a snapshot tells beyond its history. */
static acre_status read_facts(struct advise_work *work)
{
    struct advise_whole *whole = work->whole;
    acre_advice *advice = &whole->advice;
    struct snapshot *snapshot = NULL;
    bool is_snapshot;
    acre_status status = snapshot_is_one(work->path, &is_snapshot);

    if (status != ACRE_OK || !is_snapshot)
        return status;
    status = snapshot_read(work->path, &snapshot);
    if (status == ACRE_OK)
        status = facts_device(snapshot, work->config->device, FACTS_HISTORY, &advice->device,
                              &advice->device_reason);
    if (status == ACRE_OK) {
        advice->device_count = (uint32_t)snapshot->device_count;
        advice->allocator = facts_padding(snapshot) ? "torch_npu" : "PyTorch";
        recorded_conf(snapshot, whole->conf);
        status = read_levels(work, snapshot);
    }
    if (status == ACRE_OK)
        status = shares_of_stacks(snapshot, work->state, TOP_MAX, &whole->notes, &advice->top,
                                  &advice->top_count);
    snapshot_destroy(snapshot);
    return status;
}

/* The largest request of a feed; UINT64_MAX when that is not known. */
static uint64_t largest_request(const struct feed *feed)
{
    uint64_t largest = 0;

    if (!feed)
        return 0;
    if (!feed->is_whole)
        return UINT64_MAX;
    for (size_t i = 0; i < feed->kept_count; i++)
        if (feed->kept[i].kind == ACRE_TRACE_ALLOC && feed->kept[i].bytes > largest)
            largest = feed->kept[i].bytes;
    return largest;
}

/* The settings to try, the recorded ones first. */
static void list_settings(struct advise_work *work)
{
    struct advise_whole *whole = work->whole;
    uint64_t job = largest_request(work->feed), failed = largest_request(work->requests);

    whole->advice.recorded_conf = whole->conf;
    whole->advice.setting_count = trials_list(whole->conf, whole->settings);
    trials_find_alike(whole->settings, whole->advice.setting_count, job > failed ? job : failed,
                      whole->alike);
}

/* What is live while a recording is read: the size of each slot, their sum, and its peak. */
struct live {
    uint64_t *sizes;
    size_t size_count, size_capacity;
    uint64_t bytes, bytes_peak, streams;
};

static acre_status live_count(struct live *live, const acre_trace_event *event)
{
    if (event->kind != ACRE_TRACE_ALLOC && event->kind != ACRE_TRACE_FREE)
        return ACRE_OK;
    while (live->size_count <= event->slot) {
        acre_status status = ARRAY_ROOM(live, sizes, size, 1);
        if (status != ACRE_OK)
            return status;
        live->sizes[live->size_count++] = 0;
    }
    live->streams = event->stream >= live->streams ? event->stream + 1 : live->streams;
    live->bytes -= live->sizes[event->slot];
    live->sizes[event->slot] = 0;
    if (event->kind == ACRE_TRACE_ALLOC && event->bytes <= UINT64_MAX / 2 - live->bytes)
        live->sizes[event->slot] = event->bytes;
    live->bytes += live->sizes[event->slot];
    if (live->bytes > live->bytes_peak)
        live->bytes_peak = live->bytes;
    return ACRE_OK;
}

/* Opens the recording and reads all of it once. Of one that is too long to be kept, the peak is
 * that of its beginning. */
static acre_status open_feed(struct advise_work *work)
{
    const acre_trace_event *events;
    struct live live = {0};
    size_t count = 1;
    acre_status status = feed_open(work->path, work->config->device, false, 0, &work->feed);

    while (status == ACRE_OK && count > 0 && !work->feed->is_too_long) {
        status = feed_next(work->feed, &events, &count);
        for (size_t i = 0; i < count && status == ACRE_OK; i++)
            status = live_count(&live, &events[i]);
    }
    work->live_peak = live.bytes_peak;
    work->streams = live.streams;
    work->ample_bytes = work->live_peak > AMPLE_BYTES / 2 ? CAPACITY_MIB_MAX * MIB : AMPLE_BYTES;
    heap_free(live.sizes);
    return status;
}

/* Refuses a job for which no device can be simulated. */
static acre_status check_size(const struct advise_work *work)
{
    char live[TEXT_BYTES_MAX], most[TEXT_BYTES_MAX], device[TEXT_BYTES_MAX];
    uint64_t device_bytes = work->whole->advice.device_bytes;
    bool is_short = device_bytes && device_bytes < work->live_peak;

    if (work->live_peak <= CAPACITY_MIB_MAX * MIB)
        return ACRE_OK;
    return status_fail(
        ACRE_ERR_LIMIT,
        "%s are live at once, and devices are simulated up to %s: settings cannot be "
        "compared. Whatever the setting, the job needs a device of %s or more%s%s",
        text_bytes(live, work->live_peak), text_bytes(most, CAPACITY_MIB_MAX * MIB), live,
        is_short ? "; a true shortage on one of " : "",
        is_short ? text_bytes(device, device_bytes) : "");
}

/* Why there is no answer when even the present settings were not tried. */
static acre_status fail_late(const struct advise_work *work)
{
    char live[TEXT_BYTES_MAX];

    return status_fail(ACRE_ERR_TIMEOUT,
                       "%s: the time was over before the present settings were tried, after %g "
                       "seconds: there is nothing to compare with. %s or more are live at once, "
                       "which a device needs whatever the setting; give more time with --time "
                       "(acre_advise_config.seconds)",
                       work->path, work->config->seconds, text_bytes(live, work->live_peak));
}

/* What each setting that was tried holds over time, one after the other; for as long as trying them
 * was allowed to take. A curve for which there is no time is all 0. */
static acre_status draw_curves(struct advise_work *work)
{
    struct advise_whole *whole = work->whole;
    acre_status status = ACRE_OK;

    set_deadline(work);
    for (uint64_t i = 0; i < whole->advice.setting_count && status == ACRE_OK; i++) {
        uint64_t *points = notes_take(&whole->notes, CURVE_POINTS * sizeof *points);
        if (!points)
            return ACRE_ERR_HOST_MEMORY;
        whole->curves[i] = points;
        if (!(whole->settings[i].flags & ACRE_SETTING_UNTRIED))
            status = try_curve(work, &whole->settings[i], points);
        if (status == ACRE_ERR_TIMEOUT) {
            memset(points, 0, CURVE_POINTS * sizeof *points);
            status = ACRE_OK;
        }
    }
    whole->advice.curves = whole->curves;
    whole->advice.curve_points = CURVE_POINTS;
    return status;
}

static acre_status advise_advise(struct advise_work *work)
{
    struct advise_whole *whole = work->whole;
    acre_advice *advice = &whole->advice;
    acre_status status = open_feed(work);

    if (status == ACRE_OK)
        status = read_facts(work);
    if (status == ACRE_OK)
        status = check_size(work);
    if (status != ACRE_OK)
        return status;
    list_settings(work);
    status = run_threads(work);
    if (status == ACRE_OK && whole->settings[0].flags & ACRE_SETTING_UNTRIED)
        status = fail_late(work);
    if (status != ACRE_OK)
        return status;
    trials_copy_alike(whole->settings, advice->setting_count, whole->alike);
    advice->bytes_requested_peak = work->requested_peak;
    if (advice->wanted_peak_bytes < work->requested_peak)
        advice->wanted_peak_bytes = work->requested_peak;
    advice->events = work->events;
    struct judgement judgement = {.advice = advice,
                                  .settings = whole->settings,
                                  .state = work->state,
                                  .savings = &work->savings,
                                  .is_recorded_device = work->is_recorded_device,
                                  .notes = &whole->notes,
                                  .text = whole->text,
                                  .text_bytes = sizeof whole->text};
    status = judge_settings(&judgement);
    if (status == ACRE_OK && work->config->flags & ACRE_ADVISE_CURVES)
        status = draw_curves(work);
    return status;
}

acre_status acre_advise(const char *path, const acre_advise_config *config, acre_advice **out)
{
    acre_advise_config whole = {.struct_size = sizeof whole, .device = ACRE_DEVICE_CHOOSE};
    acre_status status = ACRE_OK;
    struct advise_work work = {.path = path, .config = &whole, .mutex = PTHREAD_MUTEX_INITIALIZER};

    if (!path || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_advise: %s is NULL", path ? "out" : "path");
    if (config)
        status = STRUCT_TAKE("acre_advise", acre_advise_config, config, &whole);
    if (status == ACRE_OK && !(whole.seconds >= 0))
        status = status_fail(ACRE_ERR_INVALID, "acre_advise: seconds is negative");
    if (status != ACRE_OK)
        return status;
    set_deadline(&work);
    work.whole = heap_zalloc(sizeof *work.whole);
    if (!work.whole)
        return ACRE_ERR_HOST_MEMORY;
    acre_advice *advice = &work.whole->advice;
    advice->struct_size = sizeof *advice;
    advice->device_bytes = work.config->device_bytes;
    advice->device_reason = advice->allocator = advice->failed_stack = "";
    status = advise_advise(&work);
    feed_close(work.feed);
    feed_close(work.requests);
    device_state_destroy(work.state);
    if (status == ACRE_OK)
        *out = advice;
    else
        acre_advice_destroy(advice);
    return status;
}

void acre_advice_destroy(acre_advice *advice)
{
    struct advise_whole *whole = (struct advise_whole *)advice;

    if (!whole)
        return;
    notes_fini(&whole->notes);
    heap_free(whole);
}
