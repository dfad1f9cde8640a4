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
#include "base/struct_size.h"
#include "base/text.h"
#include "explain/device_state.h"
#include "explain/notes.h"
#include "explain/shares.h"
#include "replay/history.h"
#include "replay/recorded.h"
#include "replay/replay.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOP_MAX     10
#define THREADS_MAX 64
#define MIB         ((uint64_t)1 << 20)

/* What is tried besides the recorded settings. */
static const struct trial {
    const char *conf;
    acre_policy policy;
    uint32_t flags;
    const char *note;
} trials[] = {
    {"", ACRE_POLICY_TORCH, 0, "PyTorch's defaults"},
    {"expandable_segments:True", ACRE_POLICY_TORCH, 0, ""},
    {"max_split_size_mb:32", ACRE_POLICY_TORCH, 0, ""},
    {"max_split_size_mb:64", ACRE_POLICY_TORCH, 0, ""},
    {"max_split_size_mb:128", ACRE_POLICY_TORCH, 0, ""},
    {"max_split_size_mb:256", ACRE_POLICY_TORCH, 0, ""},
    {"max_split_size_mb:512", ACRE_POLICY_TORCH, 0, ""},
    {"roundup_power2_divisions:4", ACRE_POLICY_TORCH, 0, ""},
    {"roundup_power2_divisions:8", ACRE_POLICY_TORCH, 0, ""},
    {"roundup_power2_divisions:16", ACRE_POLICY_TORCH, 0, ""},
    {"garbage_collection_threshold:0.6,per_process_memory_fraction:0.98", ACRE_POLICY_TORCH, 0,
     "collects only below a memory fraction"},
    {"garbage_collection_threshold:0.8,per_process_memory_fraction:0.98", ACRE_POLICY_TORCH, 0,
     "collects only below a memory fraction"},
    {"max_split_size_mb:128,roundup_power2_divisions:8", ACRE_POLICY_TORCH, 0, ""},
    {"expandable_segments:True,roundup_power2_divisions:8", ACRE_POLICY_TORCH, 0, ""},
    {"expandable_segments:True,max_split_size_mb:128", ACRE_POLICY_TORCH, 0, ""},
    {"", ACRE_POLICY_ACRE, 0, "this library's own policy"},
    {"", ACRE_POLICY_DEFAULT, ACRE_SETTING_PLAN, "placed ahead: for jobs that repeat exactly"},
};

#define TRIALS (sizeof trials / sizeof *trials)

/* The result and what it points at. */
struct whole {
    acre_advice advice; /* first: the user holds its address */
    struct notes notes;
    acre_setting settings[TRIALS + 1];
    char conf[RECORDED_CONF_MAX];
    char text[4096];
};

/* What threads share. */
struct work {
    const char *path;
    const acre_advise_config *config;
    struct feed *feed;
    struct whole *whole;
    atomic_size_t next;              /* setting to take            */
    atomic_size_t done;              /* settings finished          */
    atomic_int status;               /* of the first failure       */
    pthread_mutex_t mutex;           /* guards why                 */
    struct status_saved why;         /* its text                   */
    uint64_t requested_peak, events; /* of the first setting   */
};

/* ---- Trying --------------------------------------------------------------------------------- */

static acre_status try_setting(struct work *work, acre_setting *setting)
{
    acre_replay_config config = {.struct_size = sizeof config,
                                 .policy = setting->policy,
                                 .conf = setting->conf,
                                 .device = work->config->device,
                                 .device_bytes = (uint64_t)1 << 39,
                                 .flags = ACRE_REPLAY_MIN_CAPACITY};
    acre_replay_result result = {.struct_size = sizeof result};
    struct feed *feed = NULL;
    bool is_shared = false;

    /* A plan is as high as it is whatever the device: no need to search. */
    if (setting->flags & ACRE_SETTING_PLAN)
        config.flags = ACRE_REPLAY_PLAN;
    acre_status status = feed_share(work->feed, &feed, &is_shared);
    if (status == ACRE_OK && !is_shared)
        status = feed_open(work->path, work->config->device, 0, &feed);
    if (status == ACRE_OK)
        status = replay_feed(feed, &config, &result);
    feed_close(feed);
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
    return ACRE_OK;
}

/* Takes settings until there are none. */
static void *try_all(void *arg)
{
    struct work *work = arg;

    for (;;) {
        size_t at = atomic_fetch_add(&work->next, 1);
        if (at >= work->whole->advice.setting_count || atomic_load(&work->status) != ACRE_OK)
            return NULL;
        acre_status status = try_setting(work, &work->whole->settings[at]);
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
static void watch_progress(struct work *work)
{
    size_t count = work->whole->advice.setting_count;

    while (atomic_load(&work->done) < count && atomic_load(&work->status) == ACRE_OK) {
        if (work->config->progress)
            work->config->progress(work->config->progress_arg,
                                   (double)atomic_load(&work->done) / (double)count);
        usleep(20000);
    }
}

static acre_status run_threads(struct work *work)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t wanted = work->config->threads ? work->config->threads
                      : processors > 0      ? (uint32_t)processors
                                            : 1;
    pthread_t threads[THREADS_MAX];
    uint32_t count = 0;

    wanted = wanted > THREADS_MAX ? THREADS_MAX : wanted;
    while (count < wanted && pthread_create(&threads[count], NULL, try_all, work) == 0)
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

/* ---- Judging --------------------------------------------------------------------------------- */

/* Best first: the smallest capacity, then least held, then the shorter text. */
static int by_need(const void *a, const void *b)
{
    const acre_setting *left = a, *right = b;
    uint64_t need_left = left->min_capacity_bytes ? left->min_capacity_bytes : UINT64_MAX;
    uint64_t need_right = right->min_capacity_bytes ? right->min_capacity_bytes : UINT64_MAX;

    if (need_left != need_right)
        return need_left < need_right ? -1 : 1;
    if (left->bytes_reserved_peak != right->bytes_reserved_peak)
        return left->bytes_reserved_peak < right->bytes_reserved_peak ? -1 : 1;
    size_t length_left = strlen(left->conf), length_right = strlen(right->conf);
    if (length_left != length_right)
        return length_left < length_right ? -1 : 1;
    return left->policy != right->policy ? (int)left->policy - (int)right->policy
                                         : strcmp(left->conf, right->conf);
}

static void add_bytes(struct text *text, const char *before, uint64_t bytes, const char *after)
{
    text_add(text, "%s", before);
    text_add_bytes(text, bytes);
    text_add(text, "%s", after);
}

static void tell_shortage(struct text *text, const acre_advice *advice)
{
    add_bytes(text, "A true shortage: ", advice->bytes_requested_peak,
              " are live at the peak, more than the ");
    add_bytes(text, "", advice->device_bytes,
              " there are, and no setting can help. Less has to be "
              "live at that point");
    const acre_share *share = shares_first_known(advice->top, advice->top_count);
    if (share)
        add_bytes(text, "; the largest share, ", share->bytes, ", is of ");
    text_add(text, "%s.", share ? share->text : "");
}

static void tell_setting(struct text *text, const acre_advice *advice, const acre_setting *now)
{
    const acre_setting *best =
        advice->recommended < 0 ? NULL : &advice->settings[advice->recommended];

    if (!best) {
        add_bytes(text, "The present settings need ", now->min_capacity_bytes,
                  "; no other one of PyTorch's needs noticeably less. ");
    } else {
        add_bytes(text, "Fragmentation: the present settings need ", now->min_capacity_bytes,
                  ", of which ");
        add_bytes(text, "", advice->saves_bytes,
                  " are saved by this line:\n"
                  "  export PYTORCH_CUDA_ALLOC_CONF=");
        text_add(text, "%s\n", best->conf);
    }
    const acre_setting *shown = best ? best : now;
    if (shown->fits >= 0)
        add_bytes(text,
                  shown->fits ? "It fits the device of "
                              : "Even so it does not fit the "
                                "device of ",
                  advice->device_bytes, ".");
    if (!best && now->fits == 0)
        text_add(text, " What is live has to shrink, or be placed better than PyTorch's settings "
                       "can: see the settings above that fit.");
}

/* Marks what fits, sorts, and picks the setting of PyTorch that saves most. */
static void advise_judge(struct whole *whole)
{
    acre_advice *advice = &whole->advice;
    acre_setting now = whole->settings[0];
    struct text text;

    for (uint64_t i = 0; i < advice->setting_count; i++) {
        acre_setting *setting = &whole->settings[i];
        setting->fits = !advice->device_bytes
                            ? -1
                            : setting->min_capacity_bytes &&
                                  setting->min_capacity_bytes <= advice->device_bytes;
    }
    now.fits = whole->settings[0].fits;
    qsort(whole->settings, advice->setting_count, sizeof *whole->settings, by_need);
    advice->settings = whole->settings;
    advice->recommended = -1;
    advice->is_shortage =
        advice->device_bytes && advice->bytes_requested_peak > advice->device_bytes;
    for (uint64_t i = 0; i < advice->setting_count && advice->recommended < 0; i++) {
        const acre_setting *setting = &whole->settings[i];
        uint64_t need = setting->min_capacity_bytes;
        if (setting->policy != ACRE_POLICY_TORCH || setting->flags & ACRE_SETTING_PLAN || !need)
            continue;
        /* Less than one part in two hundred is no reason to change anything. */
        if (need < now.min_capacity_bytes &&
            now.min_capacity_bytes - need > now.min_capacity_bytes / 200) {
            advice->recommended = (int64_t)i;
            advice->saves_bytes = now.min_capacity_bytes - need;
        }
        break;
    }
    if (advice->is_shortage)
        advice->recommended = -1;
    text_init(&text, whole->text, sizeof whole->text);
    if (advice->is_shortage)
        tell_shortage(&text, advice);
    else
        tell_setting(&text, advice, &now);
    advice->why = whole->text;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* What a snapshot tells beyond its history. */
static acre_status read_facts(struct work *work)
{
    struct whole *whole = work->whole;
    acre_advice *advice = &whole->advice;
    struct snapshot *snapshot = NULL;
    struct device_state *device_state = NULL;
    struct past past;
    struct recorded_levels levels;
    bool is_snapshot;
    acre_status status = snapshot_is_one(work->path, &is_snapshot);

    if (status != ACRE_OK || !is_snapshot)
        return status;
    status = snapshot_read(work->path, &snapshot);
    if (status != ACRE_OK)
        return status;
    status = past_recover(snapshot, advice->device, &past);
    if (status == ACRE_OK) {
        const struct snap_device *trace = &snapshot->devices[advice->device];
        recorded_conf(snapshot, whole->conf);
        recorded_measure(snapshot, advice->device, &past, &levels);
        past_fini(&past);
        for (uint64_t i = 0; i < trace->entry_count; i++)
            advice->recorded_ooms += snapshot->entries[trace->first_entry + i].action == SNAP_OOM;
        advice->recorded_reserved_peak = levels.reserved_peak;
        if (!advice->device_bytes)
            advice->device_bytes = levels.device_total;
        status = device_state_create(snapshot, advice->device, levels.requested_peak_entry, 0,
                                     &device_state);
    }
    if (status == ACRE_OK)
        status = shares_of_stacks(snapshot, device_state, TOP_MAX, &whole->notes, &advice->top,
                                  &advice->top_count);
    device_state_destroy(device_state);
    snapshot_destroy(snapshot);
    return status;
}

/* The recorded settings first, then all others. */
static void list_settings(struct whole *whole)
{
    acre_advice *advice = &whole->advice;
    size_t count = 0;

    if (*whole->conf)
        whole->settings[count++] = (acre_setting){.conf = whole->conf,
                                                  .policy = ACRE_POLICY_TORCH,
                                                  .note = "as recorded",
                                                  .flags = ACRE_SETTING_RECORDED};
    for (size_t i = 0; i < TRIALS; i++) {
        if (*whole->conf && trials[i].policy == ACRE_POLICY_TORCH &&
            strcmp(trials[i].conf, whole->conf) == 0)
            continue;
        whole->settings[count++] = (acre_setting){.conf = trials[i].conf,
                                                  .note = trials[i].note,
                                                  .policy = trials[i].policy,
                                                  .flags = trials[i].flags};
    }
    whole->settings[0].flags |= ACRE_SETTING_RECORDED;
    advice->recorded_conf = whole->conf;
    advice->setting_count = count;
}

/* Opens the recording and reads all of it once. */
static acre_status open_feed(struct work *work)
{
    const acre_trace_event *events;
    size_t count = 1;
    acre_status status = feed_open(work->path, work->config->device, 0, &work->feed);

    while (status == ACRE_OK && count > 0 && !work->feed->is_too_long)
        status = feed_next(work->feed, &events, &count);
    return status;
}

static acre_status advise_advise(struct work *work)
{
    acre_status status = open_feed(work);

    if (status == ACRE_OK)
        status = read_facts(work);
    if (status != ACRE_OK)
        return status;
    list_settings(work->whole);
    status = run_threads(work);
    if (status != ACRE_OK)
        return status;
    work->whole->advice.bytes_requested_peak = work->requested_peak;
    work->whole->advice.events = work->events;
    advise_judge(work->whole);
    return ACRE_OK;
}

acre_status acre_advise(const char *path, const acre_advise_config *config, acre_advice **out)
{
    acre_advise_config whole = {.struct_size = sizeof whole};
    acre_status status = ACRE_OK;
    struct work work = {.path = path, .config = &whole, .mutex = PTHREAD_MUTEX_INITIALIZER};

    if (!path || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_advise: %s is NULL", path ? "out" : "path");
    if (config)
        status = STRUCT_TAKE("acre_advise", acre_advise_config, config, &whole);
    if (status != ACRE_OK)
        return status;
    work.whole = heap_zalloc(sizeof *work.whole);
    if (!work.whole)
        return ACRE_ERR_HOST_MEMORY;
    work.whole->advice.device = work.config->device;
    work.whole->advice.device_bytes = work.config->device_bytes;
    status = advise_advise(&work);
    feed_close(work.feed);
    if (status == ACRE_OK)
        *out = &work.whole->advice;
    else
        acre_advice_destroy(&work.whole->advice);
    return status;
}

void acre_advice_destroy(acre_advice *advice)
{
    struct whole *whole = (struct whole *)advice;

    if (!whole)
        return;
    notes_fini(&whole->notes);
    heap_free(whole);
}
