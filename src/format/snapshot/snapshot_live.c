/* SPDX-License-Identifier: MIT */
/* Snapshots of live caches: what the library tells of itself (acre_snapshot_parts), in the form
 * that the readers and writers of files share (format/snapshot/snapshot.h). */
#include "base/bits.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "format/snapshot/snapshot.h"

#include <acre/history.h>
#include <acre/pinned.h>
#include <acre/pluggable.h>
#include <acre/snapshot.h>

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

/* ---- Stacks ----------------------------------------------------------------------- */

/* Adds one frame. */
static acre_status add_frame(struct snapshot *to, acre_frame *named, uint32_t *out)
{
    struct snap_frame frame = {.line = named->line, .extra = SNAP_NONE};

    named->name[sizeof named->name - 1] = named->file[sizeof named->file - 1] = 0;
    acre_status status = snapshot_add_string(to, named->name, strlen(named->name), &frame.name);
    if (status == ACRE_OK)
        status = snapshot_add_string(to, named->file, strlen(named->file), &frame.file);
    if (status == ACRE_OK)
        status = snapshot_add_frame(to, &frame, out);
    return status;
}

/* The frames of a stack, with names: of what was gathered, or of the object behind it.
 * Returns how many. */
static size_t stack_name(const acre_history *history, uint64_t index, acre_frame *out)
{
    const acre_stack *stack = &history->stacks[index];
    const acre_context_objects *source = &history->object_source;
    void *object = history->objects ? history->objects[index] : NULL;
    size_t count = stack->frame_count;

    if (object && source->resolve)
        count = source->resolve(source->arg, object, out, ACRE_STACK_MAX);
    else
        for (size_t i = 0; i < count; i++) {
            out[i] = (acre_frame){.name = ""};
            history->source.resolve(history->source.arg, stack->frames[i], &out[i]);
        }
    return count < ACRE_STACK_MAX ? count : ACRE_STACK_MAX;
}

/* The first stack of each object, in a table of open addressing: one object may stand behind
 * many stacks, and is named once. */
struct firsts {
    uint64_t *slots; /* indices of stacks, and 1; 0: free */
    uint64_t mask;
};

static acre_status firsts_init(struct firsts *firsts, const acre_history *history)
{
    uint64_t count = 2;

    while (count < 2 * history->stack_count)
        count *= 2;
    firsts->mask = count - 1;
    firsts->slots = history->objects ? heap_array((size_t)count, sizeof *firsts->slots) : NULL;
    return firsts->slots || !history->objects ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

/* The first stack with the object of a stack, which may be the stack itself. */
static uint64_t firsts_of(struct firsts *firsts, const acre_history *history, uint64_t index)
{
    const void *object = firsts->slots ? history->objects[index] : NULL;

    if (!object)
        return index;
    uint64_t slot = ((uintptr_t)object >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20 & firsts->mask;
    while (firsts->slots[slot] && history->objects[firsts->slots[slot] - 1] != object)
        slot = (slot + 1) & firsts->mask;
    if (!firsts->slots[slot])
        firsts->slots[slot] = index + 1;
    return firsts->slots[slot] - 1;
}

/* Stacks of the history as stacks of the snapshot, by number. */
static acre_status add_stacks(struct snapshot *to, const acre_history *history, uint32_t **out)
{
    uint32_t *ids = heap_array(history->stack_count, sizeof *ids);
    acre_frame *named = heap_array(ACRE_STACK_MAX, sizeof *named);
    struct firsts firsts;
    acre_status status = firsts_init(&firsts, history);

    if (!ids || !named)
        status = ACRE_ERR_HOST_MEMORY;
    for (uint64_t i = 0; i < history->stack_count && status == ACRE_OK; i++) {
        uint32_t frames[ACRE_STACK_MAX];
        uint64_t first = firsts_of(&firsts, history, i);
        if (first < i) {
            ids[i] = ids[first];
            continue;
        }
        size_t count = stack_name(history, i, named);
        for (size_t k = 0; k < count && status == ACRE_OK; k++)
            status = add_frame(to, &named[k], &frames[k]);
        if (status == ACRE_OK)
            status = snapshot_add_stack(to, frames, (uint32_t)count, &ids[i]);
    }
    heap_free(firsts.slots);
    heap_free(named);
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
    struct snap_origin origin = {.stream = (uintptr_t)from->stream, .forward = SNAP_NONE};
    struct snap_entry *entry;
    uint32_t number;
    acre_status status = snapshot_add_string(
        to, from->compile_context, strlen(from->compile_context), &origin.compile_context);

    if (status == ACRE_OK)
        status = snapshot_add_string(to, from->user_metadata, strlen(from->user_metadata),
                                     &origin.user_metadata);
    if (status == ACRE_OK)
        status = snapshot_add_pool(to, from->pool[0], from->pool[1], &origin.pool);
    if (status == ACRE_OK)
        status = snapshot_add_origin(to, &origin, &number);
    if (status == ACRE_OK)
        status = snapshot_add_entry(to, &entry);
    if (status != ACRE_OK)
        return status;
    entry->address = from->address;
    entry->bytes = from->bytes;
    entry->time_us = (int64_t)from->time_us;
    entry->origin = number;
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

static acre_status add_value(struct snapshot *to, const char *key, struct snap_value value,
                             uint32_t *first, uint32_t *last)
{
    acre_status status = snapshot_add_string(to, key, strlen(key), &value.key);

    return status == ACRE_OK ? snapshot_add_value(to, first, last, value) : status;
}

/* The numbers of an option, under their names "1", "2", "4" and so on. */
static acre_status add_numbers(struct snapshot *to, const acre_snapshot_option *option,
                               uint32_t *out_child)
{
    uint32_t child = SNAP_NONE, last = SNAP_NONE;
    acre_status status = ACRE_OK;

    for (uint32_t i = 0; i < option->number_count && status == ACRE_OK; i++) {
        struct snap_value value = {.kind = SNAP_INTEGER,
                                   .key = SNAP_NONE,
                                   .next = SNAP_NONE,
                                   .as.integer = option->numbers[i]};
        char name[16];
        snprintf(name, sizeof name, "%u", 1u << i);
        status = add_value(to, name, value, &child, &last);
    }
    *out_child = child;
    return status;
}

static acre_status add_option(struct snapshot *to, const acre_snapshot_option *option,
                              uint32_t *last)
{
    struct snap_value value = {.key = SNAP_NONE, .next = SNAP_NONE};

    switch (option->kind) {
    case ACRE_OPTION_TEXT:
        return add_text(to, option->key, option->text, &to->settings, last);
    case ACRE_OPTION_REAL:
        value.kind = SNAP_REAL;
        value.as.real = option->real;
        break;
    case ACRE_OPTION_NUMBERS:
        value.kind = SNAP_DICT;
        acre_status status = add_numbers(to, option, &value.as.child);
        if (status != ACRE_OK)
            return status;
        break;
    default:
        value.kind = option->kind == ACRE_OPTION_BOOL ? SNAP_BOOL : SNAP_INTEGER;
        value.as.integer = option->number;
        break;
    }
    return add_value(to, option->key, value, &to->settings, last);
}

static acre_status add_settings(struct snapshot *to, const acre_snapshot_parts *parts)
{
    uint32_t last = SNAP_NONE;
    acre_status status = ACRE_OK;

    for (uint64_t i = 0; i < parts->option_count && status == ACRE_OK; i++)
        status = add_option(to, &parts->options[i], &last);
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

/* Adds what was copied of one cache, and its settings unless there are some. */
static acre_status add_parts(struct snapshot *to, const acre_snapshot_parts *parts,
                             const acre_snapshot_choice *choice)
{
    const acre_history *history = parts->history;
    uint32_t device = (uint32_t)parts->device;
    uint32_t *stacks = NULL;
    acre_status status = add_devices(to, device);

    if (status == ACRE_OK)
        status = add_stacks(to, history, &stacks);
    if (status == ACRE_OK)
        status = add_segments(to, device, parts->layout, choice, stacks);
    if (!choice->no_history) {
        for (uint64_t i = 0; i < history->entry_count && status == ACRE_OK; i++)
            status = add_entry(to, &history->entries[i], stacks);
        for (uint64_t i = 0; i < history->annotation_count && status == ACRE_OK; i++)
            status = add_annotation(to, device, &history->annotations[i]);
    }
    heap_free(stacks);
    if (status == ACRE_OK && !to->has_settings && parts->option_count)
        status = add_settings(to, parts);
    if (choice->no_history)
        to->trace_count = 0;
    return status;
}

/* Begins a snapshot; choice, NULL for everything, is completed. */
static acre_status live_begin(const char *call, const acre_snapshot_choice *choice,
                              acre_snapshot_choice *own, struct snapshot **out)
{
    acre_status status = ACRE_OK;

    *own = (acre_snapshot_choice){.struct_size = sizeof *own};
    if (choice)
        status = STRUCT_TAKE(call, acre_snapshot_choice, choice, own);
    if (status == ACRE_OK)
        status = snapshot_create(out);
    if (status == ACRE_OK)
        (*out)->has_traces = (*out)->has_annotations = true;
    return status;
}

static acre_status live_end(struct snapshot *snapshot, acre_status status, acre_snapshot **out)
{
    if (status != ACRE_OK)
        snapshot_destroy(snapshot);
    else
        *out = (acre_snapshot *)snapshot;
    return status;
}

/* Adds what was copied, if anything was, and frees it. */
static acre_status live_add(struct snapshot *to, acre_status taken, acre_snapshot_parts *parts,
                            const acre_snapshot_choice *choice)
{
    if (taken != ACRE_OK)
        return taken;
    acre_status status = add_parts(to, parts, choice);
    acre_snapshot_parts_destroy(parts);
    return status;
}

/* ---- Caches ---------------------------------------------------------------------------- */

static int index_of(const acre_cache *cache)
{
    return acre_device_id_of(acre_cache_device(cache)).index;
}

/* The cache with the lowest device above that of the last one; NULL: none left. */
static acre_cache *next_cache(acre_cache *const *caches, size_t count, int after)
{
    acre_cache *next = NULL;

    for (size_t i = 0; i < count; i++)
        if (index_of(caches[i]) > after && (!next || index_of(caches[i]) < index_of(next)))
            next = caches[i];
    return next;
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
            if (index_of(caches[i]) == index_of(caches[k]))
                return false;
    return true;
}

acre_status acre_cache_snapshot(acre_cache *const *caches, size_t count,
                                const acre_snapshot_choice *choice, acre_snapshot **out)
{
    acre_snapshot_choice own;
    struct snapshot *snapshot;
    acre_cache *cache;

    if (!caches_are_sound(caches, count) || !out)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_cache_snapshot: caches of different devices and a place for the "
                           "result are needed");
    acre_status status = live_begin("acre_cache_snapshot", choice, &own, &snapshot);
    if (status != ACRE_OK)
        return status;
    for (int after = -1; status == ACRE_OK && (cache = next_cache(caches, count, after));
         after = index_of(cache)) {
        acre_snapshot_parts *parts = NULL;
        status = acre_cache_snapshot_parts(cache, &own, &parts);
        status = live_add(snapshot, status, parts, &own);
    }
    return live_end(snapshot, status, out);
}

acre_status acre_pinned_snapshot(acre_pinned *pinned, const acre_snapshot_choice *choice,
                                 acre_snapshot **out)
{
    acre_snapshot_choice own;
    struct snapshot *snapshot;
    acre_snapshot_parts *parts = NULL;

    if (!pinned || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_pinned_snapshot: %s is NULL",
                           pinned ? "out" : "pinned");
    acre_status status = live_begin("acre_pinned_snapshot", choice, &own, &snapshot);
    if (status != ACRE_OK)
        return status;
    status = acre_pinned_snapshot_parts(pinned, &own, &parts);
    return live_end(snapshot, live_add(snapshot, status, parts, &own), out);
}

acre_status acre_pluggable_snapshot(acre_allocator *allocator, acre_snapshot **out)
{
    acre_snapshot_choice own;
    struct snapshot *snapshot;
    uint32_t device_count = 1;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_snapshot: out is NULL");
    acre_status status = live_begin("acre_pluggable_snapshot", NULL, &own, &snapshot);
    if (status != ACRE_OK)
        return status;
    for (uint32_t i = 0; i < device_count && status == ACRE_OK; i++) {
        acre_snapshot_parts *parts = NULL;
        status = acre_pluggable_snapshot_parts(allocator, (int)i, &parts);
        if (status == ACRE_OK)
            device_count = parts->device_count;
        status = live_add(snapshot, status, parts, &own);
    }
    return live_end(snapshot, status, out);
}

/* ---- Straight into a file ---------------------------------------------------------------- */

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

acre_status acre_cache_snapshot_write(acre_cache *cache, const char *path)
{
    acre_snapshot *snapshot;

    if (!path)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_snapshot_write: path is NULL");
    bool is_json = ends_with(path, ".json") || ends_with(path, ".json.gz");
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
