/* SPDX-License-Identifier: MIT */
#include "view/adopt.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"
#include "format/frames.h"
#include "format/snapshot/facts.h"
#include "format/snapshot/snapshot.h"

#include <string.h>

#define FRAMES_MAX 1024
#define NOTE_BYTES 4096

struct adoption {
    acre_view *view;
    const struct snapshot *snapshot;
    size_t first;     /* added to numbers of devices                            */
    uint32_t *stacks; /* of the snapshot to those of the view; 0: not looked up */
};

/* ---- Stacks and places ----------------------------------------------------------------- */

/* A stack with the note that the program had set, as its outermost frame. */
static acre_status find_noted(struct adoption *adoption, uint32_t stack, uint32_t note,
                              uint32_t *out)
{
    const struct snapshot *snapshot = adoption->snapshot;
    acre_view_frame frames[FRAMES_MAX + 1];
    struct snap_run run = stack == SNAP_NONE ? (struct snap_run){0, 0} : snapshot->stacks[stack];
    uint32_t count = run.count < FRAMES_MAX ? run.count : FRAMES_MAX;

    for (uint32_t i = 0; i < count; i++) {
        const struct snap_frame *frame = &snapshot->frames[snapshot->frame_ids[run.first + i]];
        frames[i] = (acre_view_frame){snapshot_string(snapshot, frame->name, NULL),
                                      snapshot_string(snapshot, frame->file, NULL), frame->line};
    }
    frames[count] = (acre_view_frame){snapshot_string(snapshot, note, NULL), FRAMES_NOTE, 0};
    return acre_view_stack_add(adoption->view, frames, count + 1, out);
}

static acre_status find_stack(struct adoption *adoption, uint32_t stack, uint32_t *out)
{
    const struct snapshot *snapshot = adoption->snapshot;
    acre_view_frame frames[FRAMES_MAX];

    *out = 0;
    if (stack == SNAP_NONE)
        return ACRE_OK;
    if (adoption->stacks[stack]) {
        *out = adoption->stacks[stack];
        return ACRE_OK;
    }
    struct snap_run run = snapshot->stacks[stack];
    uint32_t count = run.count < FRAMES_MAX ? run.count : FRAMES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct snap_frame *frame = &snapshot->frames[snapshot->frame_ids[run.first + i]];
        frames[i] = (acre_view_frame){snapshot_string(snapshot, frame->name, NULL),
                                      snapshot_string(snapshot, frame->file, NULL), frame->line};
    }
    acre_status status = acre_view_stack_add(adoption->view, frames, count, out);
    if (status == ACRE_OK)
        adoption->stacks[stack] = *out;
    return status;
}

static void find_pool(const struct adoption *adoption, uint32_t pool, uint64_t out[2])
{
    out[0] = pool == SNAP_NONE ? 0 : adoption->snapshot->pools[pool].id[0];
    out[1] = pool == SNAP_NONE ? 0 : adoption->snapshot->pools[pool].id[1];
}

/* ---- History ------------------------------------------------------------------------- */

/* What an entry is in a view; other actions become marks with their name. */
static uint32_t action_of(uint16_t action)
{
    switch (action) {
    case SNAP_ALLOC:
        return ACRE_VIEW_ALLOC;
    case SNAP_FREE_REQUESTED:
        return ACRE_VIEW_FREE_REQUESTED;
    case SNAP_FREE_COMPLETED:
        return ACRE_VIEW_FREE_COMPLETED;
    case SNAP_SEGMENT_ALLOC:
    case SNAP_SEGMENT_MAP:
        return ACRE_VIEW_SEGMENT_ALLOC;
    case SNAP_SEGMENT_FREE:
    case SNAP_SEGMENT_UNMAP:
        return ACRE_VIEW_SEGMENT_FREE;
    case SNAP_OOM:
        return ACRE_VIEW_OOM;
    default:
        return ACRE_VIEW_MARK;
    }
}

static acre_status adopt_entry(struct adoption *adoption, int32_t device,
                               const struct snap_entry *entry)
{
    const struct snap_origin *origin = snapshot_origin(adoption->snapshot, entry);
    bool is_mapped = entry->action == SNAP_SEGMENT_MAP || entry->action == SNAP_SEGMENT_UNMAP;
    acre_view_event event = {.action = action_of(entry->action),
                             .device = device,
                             .address = entry->address,
                             .bytes = entry->bytes,
                             .stream = origin->stream,
                             .time_us = entry->time_us > 0 ? (uint64_t)entry->time_us : 0,
                             .flags = is_mapped ? ACRE_VIEW_EXPANDABLE : 0};
    size_t noted;
    snapshot_string(adoption->snapshot, origin->user_metadata, &noted);
    acre_status status =
        noted && entry->action == SNAP_ALLOC
            ? find_noted(adoption, entry->stack, origin->user_metadata, &event.stack)
            : find_stack(adoption, entry->stack, &event.stack);

    find_pool(adoption, origin->pool, event.pool);
    if (event.action == ACRE_VIEW_MARK)
        event.text = snapshot_action_name(adoption->snapshot, entry->action);
    return status == ACRE_OK ? acre_view_event_add(adoption->view, &event) : status;
}

static acre_status adopt_history(struct adoption *adoption)
{
    const struct snapshot *snapshot = adoption->snapshot;
    acre_status status = ACRE_OK;

    for (size_t d = 0; d < snapshot->device_count && adoption->first + d <= ACRE_VIEW_DEVICE_MAX;
         d++) {
        const struct snap_device *device = &snapshot->devices[d];
        for (uint64_t i = 0; i < device->entry_count && status == ACRE_OK; i++)
            status = adopt_entry(adoption, (int32_t)(adoption->first + d),
                                 &snapshot->entries[device->first_entry + i]);
    }
    return status;
}

/* Puts a value that is a text under construction behind what is there. */
static void add_value(const struct snapshot *snapshot, const struct snap_value *value,
                      struct text *text)
{
    switch ((enum snap_kind)value->kind) {
    case SNAP_BOOL:
        text_add(text, "%s", value->as.integer ? "true" : "false");
        break;
    case SNAP_INTEGER:
        text_add(text, "%lld", (long long)value->as.integer);
        break;
    case SNAP_REAL:
        text_add(text, "%g", value->as.real);
        break;
    case SNAP_STRING:
        text_add(text, "%s", snapshot_string(snapshot, value->as.string, NULL));
        break;
    default:
        text_add(text, "...");
        break;
    }
}

static acre_status adopt_annotation(struct adoption *adoption,
                                    const struct snap_annotation *annotation)
{
    const struct snapshot *snapshot = adoption->snapshot;
    char buffer[256];
    struct text text;

    size_t device = adoption->first + annotation->device;
    if (!annotation->has_time || device >= adoption->view->device_count)
        return ACRE_OK;
    text_init(&text, buffer, sizeof buffer);
    for (uint32_t at = annotation->values; at != SNAP_NONE; at = snapshot->values[at].next) {
        text_add(&text, text.length ? " " : "");
        add_value(snapshot, &snapshot->values[at], &text);
    }
    return history_mark(&adoption->view->devices[device],
                        annotation->time_us > 0 ? (uint64_t)annotation->time_us : 0, buffer);
}

/* ---- The state at the end ------------------------------------------------------------ */

static acre_status adopt_blocks(struct adoption *adoption, struct view_history *history,
                                const struct snap_segment *segment, const struct span *place)
{
    const struct snapshot *snapshot = adoption->snapshot;
    acre_status status = ACRE_OK;

    for (uint64_t i = 0; i < segment->block_count && status == ACRE_OK; i++) {
        const struct snap_block *block = &snapshot->blocks[segment->first_block + i];
        struct span span = *place;
        if (block->state == SNAP_INACTIVE)
            continue;
        /* What waits was not freed by its request, whether other frees were recorded or not. */
        history->has_completed |= block->state > SNAP_ALLOCATED;
        span.address = block->address;
        span.bytes = facts_block_requested(snapshot, block);
        span.block_bytes = block->bytes > span.bytes ? block->bytes : span.bytes;
        status = find_stack(adoption, facts_block_stack(snapshot, block), &span.stack);
        if (status == ACRE_OK)
            status = history_last_block(history, &span);
    }
    return status;
}

static acre_status adopt_segment(struct adoption *adoption, const struct snap_segment *segment)
{
    struct span range = {.address = segment->address,
                         .bytes = segment->bytes,
                         .flags = (uint8_t)((segment->is_expandable ? ACRE_VIEW_EXPANDABLE : 0) |
                                            (segment->is_small ? ACRE_VIEW_SMALL : 0))};
    uint64_t pool[2];

    if (adoption->first + segment->device > ACRE_VIEW_DEVICE_MAX)
        return ACRE_OK;
    find_pool(adoption, segment->pool, pool);
    acre_status status =
        view_place(adoption->view, segment->stream, pool, &range.stream, &range.pool);
    if (status == ACRE_OK)
        status = find_stack(adoption, segment->stack, &range.stack);
    struct view_history *history = view_device(adoption->view, adoption->first + segment->device);
    if (status != ACRE_OK || !history)
        return ACRE_ERR_HOST_MEMORY;
    status = history_last_range(history, &range);
    return status == ACRE_OK ? adopt_blocks(adoption, history, segment, &range) : status;
}

/* ---- All of it ------------------------------------------------------------------------- */

static acre_status adopt_settings(struct adoption *adoption)
{
    const struct snapshot *snapshot = adoption->snapshot;
    char buffer[NOTE_BYTES];
    struct text text;

    if (snapshot->settings == SNAP_NONE)
        return ACRE_OK;
    text_init(&text, buffer, sizeof buffer);
    for (uint32_t at = snapshot->settings; at != SNAP_NONE; at = snapshot->values[at].next) {
        const struct snap_value *value = &snapshot->values[at];
        if (value->kind == SNAP_DICT || value->kind == SNAP_LIST || value->kind == SNAP_TUPLE)
            continue;
        text_add(&text, "%s%s\t", text.length ? "\n" : "",
                 snapshot_string(snapshot, value->key, NULL));
        add_value(snapshot, value, &text);
    }
    return acre_view_note_add(adoption->view, "Settings when the snapshot was taken", buffer);
}

static acre_status adopt_all(struct adoption *adoption)
{
    const struct snapshot *snapshot = adoption->snapshot;
    acre_status status = adopt_history(adoption);

    for (size_t i = 0; i < snapshot->segment_count && status == ACRE_OK; i++)
        status = adopt_segment(adoption, &snapshot->segments[i]);
    for (size_t i = 0; i < snapshot->annotation_count && status == ACRE_OK; i++)
        status = adopt_annotation(adoption, &snapshot->annotations[i]);
    return status == ACRE_OK ? adopt_settings(adoption) : status;
}

/* Gives the devices the label of their file, and the numbers they have there. */
static acre_status name_devices(acre_view *view, const acre_view_config *config)
{
    for (size_t i = config->device_first; config->label && i < view->device_count; i++) {
        struct view_history *history = &view->devices[i];
        heap_free(history->label);
        history->label = heap_strdup(config->label);
        history->number = (uint32_t)i - config->device_first;
        if (!history->label)
            return ACRE_ERR_HOST_MEMORY;
    }
    return ACRE_OK;
}

acre_status adopt_snapshot(acre_view *view, const struct snapshot *snapshot,
                           const acre_view_config *config)
{
    struct adoption adoption = {.view = view, .snapshot = snapshot, .first = config->device_first};

    adoption.stacks = heap_array(snapshot->stack_count + 1, sizeof *adoption.stacks);
    if (!adoption.stacks)
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = adopt_all(&adoption);
    heap_free(adoption.stacks);
    if (status == ACRE_OK)
        status = name_devices(view, config);
    if (status != ACRE_OK || snapshot_check(snapshot) == ACRE_OK)
        return status;
    heap_free(view->warning);
    view->warning = heap_strdup(acre_last_error());
    return view->warning ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}
