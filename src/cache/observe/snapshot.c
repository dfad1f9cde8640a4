/* SPDX-License-Identifier: MIT */
/* Snapshots of live caches: what layout and history say, in the form that the
 * readers and writers of files share (format/snapshot/snapshot.h). */
#include "backend/backend.h"
#include "base/bits.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "cache/cache.h"
#include "cache/threads/front.h"
#include "cache/observe/snapshot_parts.h"
#include "cache/observe/plug_history.h"
#include "cache/observe/record.h"
#include "format/snapshot/snapshot.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

/* ---- One moment of a cache ------------------------------------------------------ */

void moment_fini(struct moment *moment)
{
    acre_cache_layout_destroy(moment->layout);
    acre_history_destroy(moment->history);
    heap_free(moment->conf_text);
}

static acre_status moment_take(acre_cache *cache, const acre_snapshot_choice *choice,
                               struct moment *out)
{
    *out = (struct moment){0};
    quick_lock_take(&cache->lock);
    if (cache->policy->settle)
        cache->policy->settle(cache); /* threads stand still until resume */
    if (cache->front)
        front_notes_take_locked(cache);
    out->layout = layout_copy_locked(cache);
    out->history = history_copy(&cache->history);
    out->conf = cache->conf;
    out->conf_text = heap_strdup(cache->conf_text);
    uint64_t active = (uint64_t)cache->stats.active_bytes.all.current;
    if (cache->policy->resume)
        cache->policy->resume(cache);
    bool is_whole = out->layout && out->history && out->conf_text;
    if (is_whole)
        record_snapshot_locked(cache, active, choice->pool);
    quick_lock_drop(&cache->lock);
    if (is_whole)
        return ACRE_OK;
    moment_fini(out);
    return ACRE_ERR_HOST_MEMORY;
}

/* ---- Stacks ----------------------------------------------------------------------- */

/* Stacks of the history as stacks of the snapshot, by number. */
static acre_status add_stacks(struct snapshot *to, const acre_history *history, uint32_t **out)
{
    uint32_t *ids = heap_array(history->stack_count, sizeof *ids);
    acre_status status = ids ? ACRE_OK : ACRE_ERR_HOST_MEMORY;

    for (uint64_t i = 0; i < history->stack_count && status == ACRE_OK; i++) {
        const acre_stack *stack = &history->stacks[i];
        uint32_t frames[ACRE_STACK_MAX];
        for (uint64_t k = 0; k < stack->frame_count && status == ACRE_OK; k++) {
            acre_frame named = {.name = ""};
            struct snap_frame frame = {.extra = SNAP_NONE};
            history->source.resolve(history->source.arg, stack->frames[k], &named);
            named.name[sizeof named.name - 1] = named.file[sizeof named.file - 1] = 0;
            frame.line = named.line;
            status = snapshot_add_string(to, named.name, strlen(named.name), &frame.name);
            if (status == ACRE_OK)
                status = snapshot_add_string(to, named.file, strlen(named.file), &frame.file);
            if (status == ACRE_OK)
                status = snapshot_add_frame(to, &frame, &frames[k]);
        }
        if (status == ACRE_OK)
            status = snapshot_add_stack(to, frames, (uint32_t)stack->frame_count, &ids[i]);
    }
    if (status != ACRE_OK)
        heap_free(ids);
    else
        *out = ids;
    return status;
}

/* ---- Segments ---------------------------------------------------------------------- */

static enum snap_state state_of(acre_block_state state)
{
    return state == ACRE_BLOCK_LIVE      ? SNAP_ALLOCATED
           : state == ACRE_BLOCK_WAITING ? SNAP_PENDING
                                         : SNAP_INACTIVE;
}

static acre_status add_block(struct snapshot *to, struct snap_segment *segment,
                             const acre_block_info *info, const uint32_t *stacks)
{
    struct snap_block *block;
    acre_status status = snapshot_add_block(to, &block);

    if (status != ACRE_OK)
        return status;
    block->address = (uintptr_t)info->base;
    block->bytes = info->bytes;
    block->requested_bytes = info->requested_bytes;
    block->state = (uint8_t)state_of(info->state);
    block->stack = stacks[info->stack];
    block->has = SNAP_HAS_FRAMES | SNAP_HAS_ADDRESS | SNAP_HAS_REQUESTED;
    if (block->state == SNAP_ALLOCATED)
        segment->allocated_bytes += info->bytes;
    if (block->state != SNAP_INACTIVE) {
        segment->active_bytes += info->bytes;
        segment->requested_bytes += info->requested_bytes;
    }
    return ACRE_OK;
}

static acre_status add_segment(struct snapshot *to, uint32_t device,
                               const acre_cache_layout *layout, const acre_segment_info *info,
                               const uint32_t *stacks)
{
    const char *type = info->is_small ? "small" : "large";
    struct snap_segment *segment;
    uint32_t pool, name;
    acre_status status = snapshot_add_pool(to, info->pool[0], info->pool[1], &pool);

    if (status == ACRE_OK)
        status = snapshot_add_string(to, type, strlen(type), &name);
    if (status == ACRE_OK)
        status = snapshot_add_segment(to, &segment);
    if (status != ACRE_OK)
        return status;
    segment->address = (uintptr_t)info->base;
    segment->bytes = info->bytes;
    segment->stream = (uintptr_t)info->stream;
    segment->device = device;
    segment->stack = stacks[info->stack];
    segment->pool = pool;
    segment->type = name;
    segment->is_small = info->is_small != 0;
    segment->is_expandable = info->is_expandable != 0;
    segment->has = SNAP_HAS_FRAMES | SNAP_HAS_POOL | SNAP_HAS_EXPANDABLE;
    for (uint64_t i = 0; i < info->block_count && status == ACRE_OK; i++)
        status = add_block(to, segment, &layout->blocks[info->first_block + i], stacks);
    return status;
}

static acre_status add_segments(struct snapshot *to, uint32_t device,
                                const acre_cache_layout *layout, const acre_snapshot_choice *choice,
                                const uint32_t *stacks)
{
    acre_status status = ACRE_OK;

    for (uint64_t i = 0; i < layout->segment_count && status == ACRE_OK; i++) {
        const acre_segment_info *info = &layout->segments[i];
        bool is_wanted = (!choice->pool[0] && !choice->pool[1]) ||
                         (info->pool[0] == choice->pool[0] && info->pool[1] == choice->pool[1]);
        if (is_wanted)
            status = add_segment(to, device, layout, info, stacks);
    }
    return status;
}

/* ---- History ----------------------------------------------------------------------- */

static acre_status add_entry(struct snapshot *to, const acre_history_entry *from,
                             const uint32_t *stacks)
{
    uint32_t compile, metadata, pool;
    struct snap_entry *entry;
    acre_status status =
        snapshot_add_string(to, from->compile_context, strlen(from->compile_context), &compile);

    if (status == ACRE_OK)
        status =
            snapshot_add_string(to, from->user_metadata, strlen(from->user_metadata), &metadata);
    if (status == ACRE_OK)
        status = snapshot_add_pool(to, from->pool[0], from->pool[1], &pool);
    if (status == ACRE_OK)
        status = snapshot_add_entry(to, &entry);
    if (status != ACRE_OK)
        return status;
    entry->address = from->address;
    entry->bytes = from->bytes;
    entry->stream = (uintptr_t)from->stream;
    entry->time_us = (int64_t)from->time_us;
    entry->compile_context = compile;
    entry->user_metadata = metadata;
    entry->pool = pool;
    entry->action = (uint16_t)from->action; /* both lists have one order */
    entry->has = SNAP_HAS_TIME | SNAP_HAS_POOL;
    if (from->stack) {
        entry->stack = stacks[from->stack];
        entry->has |= SNAP_HAS_FRAMES;
    }
    return ACRE_OK;
}

static acre_status add_text(struct snapshot *to, const char *key, const char *text, uint32_t *first,
                            uint32_t *last)
{
    struct snap_value value = {.kind = SNAP_STRING, .key = SNAP_NONE, .next = SNAP_NONE};
    acre_status status = snapshot_add_string(to, key, strlen(key), &value.key);

    if (status == ACRE_OK)
        status = snapshot_add_string(to, text, strlen(text), &value.as.string);
    return status == ACRE_OK ? snapshot_add_value(to, first, last, value) : status;
}

static acre_status add_annotation(struct snapshot *to, uint32_t device, const acre_annotation *from)
{
    struct snap_annotation *annotation;
    uint32_t first = SNAP_NONE, last = SNAP_NONE;
    acre_status status = ACRE_OK;

    for (uint64_t i = 0; i < from->pair_count && status == ACRE_OK; i++)
        status = add_text(to, from->pairs[2 * i], from->pairs[2 * i + 1], &first, &last);
    if (status == ACRE_OK)
        status = snapshot_add_annotation(to, &annotation);
    if (status != ACRE_OK)
        return status;
    annotation->time_us = (int64_t)from->time_us;
    annotation->device = device;
    annotation->values = first;
    annotation->has_device = annotation->has_time = 1;
    return ACRE_OK;
}

/* ---- Settings ---------------------------------------------------------------------- */

static acre_status add_number(struct snapshot *to, const char *key, enum snap_kind kind,
                              int64_t number, uint32_t *first, uint32_t *last)
{
    struct snap_value value = {.kind = (uint8_t)kind, .key = SNAP_NONE, .next = SNAP_NONE};
    acre_status status = snapshot_add_string(to, key, strlen(key), &value.key);

    value.as.integer = number;
    return status == ACRE_OK ? snapshot_add_value(to, first, last, value) : status;
}

static acre_status add_divisions(struct snapshot *to, const struct cache_conf *conf,
                                 uint32_t *first, uint32_t *last)
{
    static const char key[] = "roundup_power2_divisions";
    struct snap_value value = {.kind = SNAP_DICT, .key = SNAP_NONE, .next = SNAP_NONE};
    uint32_t child = SNAP_NONE, child_last = SNAP_NONE;
    acre_status status = snapshot_add_string(to, key, sizeof key - 1, &value.key);

    for (int i = 0; i < CONF_DIVISION_COUNT && status == ACRE_OK; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", 1u << i);
        status = add_number(to, name, SNAP_INTEGER, conf->divisions[i], &child, &child_last);
    }
    value.as.child = child;
    return status == ACRE_OK ? snapshot_add_value(to, first, last, value) : status;
}

static acre_status add_settings(struct snapshot *to, const struct moment *moment)
{
    const struct cache_conf *conf = &moment->conf;
    const struct {
        const char *key;
        enum snap_kind kind;
        int64_t number;
    } numbers[] = {
        {"max_split_size", SNAP_INTEGER, cache_conf_signed(conf->max_split_bytes)},
        {"expandable_segments", SNAP_BOOL, conf->is_expandable},
        {"pinned_num_register_threads", SNAP_INTEGER, conf->pinned_num_register_threads},
        {"release_lock_on_cudamalloc", SNAP_BOOL, conf->drops_lock},
        {"pinned_use_cuda_host_register", SNAP_BOOL, conf->pinned_uses_register},
        {"graph_capture_record_stream_reuse", SNAP_BOOL, conf->reuses_in_capture},
        {"max_round_threshold", SNAP_INTEGER,
         cache_conf_signed(conf->pinned_max_round_threshold_bytes)},
        {"max_cached_size", SNAP_INTEGER, cache_conf_signed(conf->pinned_max_cached_bytes)},
    };
    struct snap_value threshold = {
        .kind = SNAP_REAL, .key = SNAP_NONE, .next = SNAP_NONE, .as.real = conf->gc_threshold};
    static const char threshold_key[] = "garbage_collection_threshold";
    uint32_t last = SNAP_NONE;
    acre_status status =
        add_text(to, "PYTORCH_CUDA_ALLOC_CONF", moment->conf_text, &to->settings, &last);

    if (status == ACRE_OK)
        status = snapshot_add_string(to, threshold_key, sizeof threshold_key - 1, &threshold.key);
    if (status == ACRE_OK)
        status = snapshot_add_value(to, &to->settings, &last, threshold);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && status == ACRE_OK; i++)
        status = add_number(to, numbers[i].key, numbers[i].kind, numbers[i].number, &to->settings,
                            &last);
    if (status == ACRE_OK)
        status = add_divisions(to, conf, &to->settings, &last);
    to->has_settings = true;
    return status;
}

/* ---- The whole ----------------------------------------------------------------------- */

/* Adds devices until there is one of that number. */
static acre_status add_devices(struct snapshot *to, uint32_t device)
{
    acre_status status = ACRE_OK;
    struct snap_device *added;

    while (to->device_count <= device && status == ACRE_OK)
        status = snapshot_add_device(to, &added);
    to->trace_count = to->device_count;
    return status;
}

static acre_status add_moment(struct snapshot *to, uint32_t device, const struct moment *moment,
                              const acre_snapshot_choice *choice)
{
    const acre_history *history = moment->history;
    uint32_t *stacks = NULL;
    acre_status status = add_devices(to, device);

    if (status == ACRE_OK)
        status = add_stacks(to, history, &stacks);
    if (status == ACRE_OK)
        status = add_segments(to, device, moment->layout, choice, stacks);
    if (!choice->no_history) {
        for (uint64_t i = 0; i < history->entry_count && status == ACRE_OK; i++)
            status = add_entry(to, &history->entries[i], stacks);
        for (uint64_t i = 0; i < history->annotation_count && status == ACRE_OK; i++)
            status = add_annotation(to, device, &history->annotations[i]);
    }
    heap_free(stacks);
    return status;
}

/* Adds a moment, and the settings unless there are some. */
static acre_status add_whole_moment(struct snapshot *to, uint32_t device,
                                    const struct moment *moment, const acre_snapshot_choice *choice)
{
    acre_status status = add_moment(to, device, moment, choice);

    if (status == ACRE_OK && !to->has_settings)
        status = add_settings(to, moment);
    if (choice->no_history)
        to->trace_count = 0;
    return status;
}

acre_status moment_snapshot(const struct moment *moment, uint32_t device,
                            const acre_snapshot_choice *choice, acre_snapshot **out)
{
    struct snapshot *snapshot;
    acre_status status = snapshot_create(&snapshot);

    if (status != ACRE_OK)
        return status;
    snapshot->has_traces = snapshot->has_annotations = true;
    status = add_whole_moment(snapshot, device, moment, choice);
    if (status != ACRE_OK)
        snapshot_destroy(snapshot);
    else
        *out = (acre_snapshot *)snapshot;
    return status;
}

/* The cache with the lowest device above that of the last one; NULL: none left. */
static acre_cache *next_cache(acre_cache *const *caches, size_t count, int after)
{
    acre_cache *next = NULL;

    for (size_t i = 0; i < count; i++)
        if (caches[i]->device->index > after &&
            (!next || caches[i]->device->index < next->device->index))
            next = caches[i];
    return next;
}

static acre_status snapshot_fill(struct snapshot *to, acre_cache *const *caches, size_t count,
                                 const acre_snapshot_choice *choice)
{
    acre_status status = ACRE_OK;
    acre_cache *cache;
    int after = -1;

    to->has_traces = to->has_annotations = true;
    while (status == ACRE_OK && (cache = next_cache(caches, count, after))) {
        struct moment moment;
        after = cache->device->index;
        status = moment_take(cache, choice, &moment);
        if (status != ACRE_OK)
            break;
        status = add_whole_moment(to, (uint32_t)after, &moment, choice);
        moment_fini(&moment);
    }
    return status;
}

/* Whether there are caches, all of different devices. */
static bool caches_are_sound(acre_cache *const *caches, size_t count)
{
    if (!caches || !count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!caches[i])
            return false;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (caches[i]->device->index == caches[k]->device->index)
                return false;
    return true;
}

acre_status acre_cache_snapshot(acre_cache *const *caches, size_t count,
                                const acre_snapshot_choice *choice, acre_snapshot **out)
{
    acre_snapshot_choice all = {.struct_size = sizeof all};
    acre_status status = ACRE_OK;
    struct snapshot *snapshot;

    if (!caches_are_sound(caches, count) || !out)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_cache_snapshot: caches of different devices and a place for the "
                           "result are needed");
    if (choice)
        status = STRUCT_TAKE("acre_cache_snapshot", acre_snapshot_choice, choice, &all);
    if (status == ACRE_OK)
        status = snapshot_create(&snapshot);
    if (status != ACRE_OK)
        return status;
    status = snapshot_fill(snapshot, caches, count, &all);
    if (status != ACRE_OK)
        snapshot_destroy(snapshot);
    else
        *out = (acre_snapshot *)snapshot;
    return status;
}

static acre_status fill_plugged(struct snapshot *to, struct plug *plug)
{
    const acre_snapshot_choice all = {.struct_size = sizeof all};
    acre_status status = ACRE_OK;

    to->has_traces = to->has_annotations = true;
    for (int i = 0; i < plug->table.device_count && status == ACRE_OK; i++) {
        struct moment moment = {0};
        status = plug_history_moment(plug, i, &moment.layout, &moment.history);
        if (status == ACRE_OK)
            status = add_moment(to, (uint32_t)i, &moment, &all);
        moment_fini(&moment);
    }
    return status;
}

acre_status acre_pluggable_snapshot(acre_allocator *allocator, acre_snapshot **out)
{
    struct plug *plug = plug_of(allocator);
    struct snapshot *snapshot;

    if (!plug)
        return ACRE_ERR_INVALID;
    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_snapshot: out is NULL");
    acre_status status = snapshot_create(&snapshot);
    if (status != ACRE_OK)
        return status;
    status = fill_plugged(snapshot, plug);
    if (status != ACRE_OK)
        snapshot_destroy(snapshot);
    else
        *out = (acre_snapshot *)snapshot;
    return status;
}

/* ---- When memory runs out --------------------------------------------------------------- */

/* Whether the disk of a path has room for a snapshot, generously. */
static bool has_room(const char *path, const struct snapshot *snapshot)
{
    uint64_t needed = MIB + snapshot->entry_count * 160 + snapshot->block_count * 200 +
                      snapshot->frame_count * 100;
    const char *slash = strrchr(path, '/');
    char folder[256] = ".";
    struct statvfs disk;

    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (statvfs(folder, &disk) != 0)
        return true; /* writing says what is wrong */
    return disk.f_bavail * (uint64_t)disk.f_frsize >= needed;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), part = strlen(end);

    return length >= part && strcmp(text + length - part, end) == 0;
}

static acre_status write_on_oom(acre_cache *cache, const char *path)
{
    bool is_json = ends_with(path, ".json") || ends_with(path, ".json.gz");
    acre_snapshot *snapshot;
    acre_status status = acre_cache_snapshot(&cache, 1, NULL, &snapshot);

    if (status != ACRE_OK)
        return status;
    const struct snapshot *inner = (const struct snapshot *)snapshot;
    status = has_room(path, inner)
                 ? snapshot_write(inner, path, is_json ? SNAPSHOT_JSON : SNAPSHOT_PICKLE)
                 : status_fail(ACRE_ERR_IO, "%s: the disk has no room for it", path);
    acre_snapshot_close(snapshot);
    return status;
}

void snapshot_on_oom(acre_cache *cache)
{
    char path[sizeof cache->conf.snapshot_path];
    struct status_saved before;

    quick_lock_take(&cache->lock);
    memcpy(path, cache->conf.snapshot_path, sizeof path);
    quick_lock_drop(&cache->lock);
    if (!path[0])
        return;
    status_save(&before);
    if (write_on_oom(cache, path) == ACRE_OK)
        log_line(ACRE_LOG_WARN, "out of memory: a snapshot is in %s", path);
    else
        log_line(ACRE_LOG_ERROR, "out of memory, and no snapshot of it: %s", acre_last_error());
    status_restore(&before);
}
