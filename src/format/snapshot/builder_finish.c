/* SPDX-License-Identifier: MIT */
/* Until here records name lists; now they get what those lists stand for. In order:
 * frames are compared and stacks made of their final numbers; events, blocks and
 * segments get their stacks; traces and segments take their place; settings and
 * annotations become trees of values. */
#include "format/snapshot/builder_finish.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "format/array.h"
#include "format/snapshot/builder_record.h"

#include <string.h>

#define VALUE_DEPTH     8
#define VALUE_COUNT_MAX ((size_t)1 << 24)

/* What an item of a list is; kind OBJECT_NEW_DICT stands for anything else. */
struct ref {
    enum object_kind kind;
    uint64_t index;
};

struct finish {
    struct builder *builder;
    struct snapshot *snapshot;
    uint32_t *stack_of;                /* by list: stack + 1, 0 before it is asked for */
    uint32_t *texts_of;                /* the same for forward frames                  */
    const struct builder_list *rows;   /* the table of stacks in JSON, or NULL    */
    const struct builder_list *frames; /* the table of frames in JSON, or NULL    */
};

static struct ref list_ref(const struct builder *builder, const struct builder_list *list,
                           uint64_t i)
{
    if (list->kind == LIST_RANGE)
        return (struct ref){list->record_kind, list->at.first + i};
    if (list->kind == LIST_FRAMES)
        return (struct ref){OBJECT_FRAME, builder->snapshot->frame_ids[list->at.first + i]};
    if (list->kind == LIST_VALUES && value_is_object(list->at.values[i]))
        return (struct ref){builder_kind(builder, list->at.values[i]),
                            builder_index(builder, list->at.values[i])};
    return (struct ref){OBJECT_NEW_DICT, 0};
}

/* The list that a value is: NULL for an empty one; false when it is none. */
static bool value_list(const struct builder *builder, value item, const struct builder_list **out)
{
    *out = NULL;
    if (!value_is_object(item))
        return false;
    enum object_kind kind = builder_kind(builder, item);
    if (kind == OBJECT_LIST)
        *out = &builder->lists[builder_index(builder, item)];
    return kind == OBJECT_LIST || kind == OBJECT_NEW_LIST || kind == OBJECT_NEW_TUPLE;
}

/* ---- Stacks --------------------------------------------------------------------------- */
/* Gives equal frames one number and puts it into all lists of frames. */
static acre_status number_frames(struct finish *finish)
{
    struct builder *builder = finish->builder;
    acre_status status = ACRE_OK;
    uint32_t *frame_of = heap_array(builder->draft_count + 1, sizeof *frame_of);

    if (!frame_of)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < builder->draft_count && status == ACRE_OK; i++)
        status = snapshot_add_frame(finish->snapshot, &builder->drafts[i], &frame_of[i]);
    for (size_t i = 0; i < builder->list_count && status == ACRE_OK; i++) {
        const struct builder_list *list = &builder->lists[i];
        uint32_t *ids =
            list->kind == LIST_FRAMES ? finish->snapshot->frame_ids + list->at.first : NULL;
        for (uint32_t k = 0; ids && k < list->count; k++)
            ids[k] = frame_of[ids[k]];
        for (uint32_t k = 0; list->kind == LIST_VALUES && k < list->count; k++) {
            value item = list->at.values[k];
            if (value_is_object(item) && builder_kind(builder, item) == OBJECT_FRAME)
                list->at.values[k] = VALUE(TAG_INTEGER, frame_of[builder_index(builder, item)]);
        }
    }
    heap_free(frame_of);
    heap_free(builder->drafts);
    builder->drafts = NULL;
    builder->draft_count = builder->draft_capacity = 0;
    return status;
}

/* Turns the rows of the table of stacks from places in the table of frames into
 * frames. Each row does so once: they do not share their numbers. */
static acre_status number_rows(struct finish *finish)
{
    struct builder *builder = finish->builder;
    uint32_t *ids = finish->snapshot->frame_ids;
    uint32_t frame_count = finish->frames ? finish->frames->count : 0;

    if (finish->frames && finish->frames->kind != LIST_FRAMES)
        return BUILDER_FAIL(builder, "%s", "the table \"frames\" holds something else than frames");
    for (uint32_t i = 0; finish->rows && i < finish->rows->count; i++) {
        struct ref ref = list_ref(builder, finish->rows, i);
        if (ref.kind == OBJECT_NEW_LIST)
            continue;
        struct builder_list *row = ref.kind == OBJECT_LIST ? &builder->lists[ref.index] : NULL;
        if (!row || (row->kind != LIST_NUMBERS && row->kind != LIST_FRAMES))
            return BUILDER_FAIL(builder, "row %u of \"stacks\" is no list of places in \"frames\"",
                                i);
        for (uint32_t k = 0; row->kind == LIST_NUMBERS && k < row->count; k++) {
            uint32_t *id = &ids[row->at.first + k];
            if (*id >= frame_count)
                return BUILDER_FAIL(builder, "row %u of \"stacks\" names frame %u of %u", i, *id,
                                    frame_count);
            *id = ids[finish->frames->at.first + *id];
        }
        row->kind = LIST_FRAMES;
    }
    return ACRE_OK;
}

/* A stack from a list of mixed values: its frames, which are numbers by now. */
static acre_status mixed_stack(struct finish *finish, const struct builder_list *list,
                               uint32_t *out)
{
    uint32_t count = 0;
    uint32_t *ids = heap_array((size_t)list->count + 1, sizeof *ids);

    if (!ids)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t i = 0; i < list->count; i++)
        if (VALUE_TAG(list->at.values[i]) == TAG_INTEGER &&
            VALUE_INDEX(list->at.values[i]) < finish->snapshot->frame_count)
            ids[count++] = (uint32_t)VALUE_INDEX(list->at.values[i]);
    acre_status status = snapshot_add_stack(finish->snapshot, ids, count, out);
    heap_free(ids);
    return status;
}

static acre_status finish_stack(struct finish *finish, uint32_t *field)
{
    struct builder *builder = finish->builder;
    uint32_t index = *field, stack = 0;
    acre_status status;

    if (index == SNAP_NONE)
        return ACRE_OK;
    if (index & RECORD_ROW) {
        index &= ~RECORD_ROW;
        if (!finish->rows || index >= finish->rows->count)
            return BUILDER_FAIL(builder, "an event or block names stack %u of %u", index,
                                finish->rows ? finish->rows->count : 0);
        struct ref ref = list_ref(builder, finish->rows, index);
        *field = SNAP_NONE;
        if (ref.kind != OBJECT_LIST)
            return ACRE_OK;
        index = (uint32_t)ref.index;
    }
    if (!finish->stack_of[index]) {
        const struct builder_list *list = &builder->lists[index];
        if (list->kind == LIST_FRAMES)
            status = snapshot_adopt_stack(finish->snapshot,
                                          (struct snap_run){list->at.first, list->count}, &stack);
        else if (list->kind == LIST_VALUES)
            status = mixed_stack(finish, list, &stack);
        else
            return BUILDER_FAIL(builder, "%s",
                                "the key \"frames\" holds something else than "
                                "frames; this is no memory snapshot");
        if (status != ACRE_OK)
            return status;
        finish->stack_of[index] = stack + 1;
    }
    *field = finish->stack_of[index] - 1;
    return ACRE_OK;
}

static acre_status finish_forward(struct finish *finish, uint32_t *field)
{
    uint32_t index = *field, texts;

    if (index == SNAP_NONE)
        return ACRE_OK;
    if (!finish->texts_of[index]) {
        const struct builder_list *list = &finish->builder->lists[index];
        uint32_t count = 0, *ids = heap_array((size_t)list->count + 1, sizeof *ids);
        if (!ids)
            return ACRE_ERR_HOST_MEMORY;
        for (uint32_t i = 0; list->kind == LIST_VALUES && i < list->count; i++)
            if (VALUE_TAG(list->at.values[i]) == TAG_STRING)
                ids[count++] = (uint32_t)VALUE_INDEX(list->at.values[i]);
        acre_status status = snapshot_add_texts(finish->snapshot, ids, count, &texts);
        heap_free(ids);
        if (status != ACRE_OK)
            return status;
        finish->texts_of[index] = texts + 1;
    }
    *field = finish->texts_of[index] - 1;
    return ACRE_OK;
}

/* ---- Records ----------------------------------------------------------------------------- */
/* Copies of records of a kind, one behind the other at the end of their table. */
static acre_status copy_records(struct finish *finish, const struct builder_list *list,
                                enum object_kind kind, uint64_t *out_first)
{
    struct snapshot *snapshot = finish->snapshot;
    acre_status status =
        builder_check_memory(finish->builder, list->count * sizeof *snapshot->entries);

    *out_first = kind == OBJECT_ENTRY   ? snapshot->entry_count
                 : kind == OBJECT_BLOCK ? snapshot->block_count
                                        : snapshot->past_count;
    for (uint32_t i = 0; i < list->count && status == ACRE_OK; i++) {
        struct ref ref = list_ref(finish->builder, list, i);
        if (ref.kind != kind)
            return BUILDER_FAIL(finish->builder, "%s",
                                "a list of events or blocks holds something "
                                "else; this is no memory snapshot");
        if (kind == OBJECT_ENTRY) {
            status = ARRAY_ROOM(snapshot, entries, entry, 1);
            if (status == ACRE_OK)
                snapshot->entries[snapshot->entry_count++] = snapshot->entries[ref.index];
        } else if (kind == OBJECT_BLOCK) {
            status = ARRAY_ROOM(snapshot, blocks, block, 1);
            if (status == ACRE_OK)
                snapshot->blocks[snapshot->block_count++] = snapshot->blocks[ref.index];
        } else {
            status = ARRAY_ROOM(snapshot, pasts, past, 1);
            if (status == ACRE_OK)
                snapshot->pasts[snapshot->past_count++] = snapshot->pasts[ref.index];
        }
    }
    return status;
}

/* Where the records of a list stand, side by side. */
static acre_status record_run(struct finish *finish, const struct builder_list *list,
                              enum object_kind kind, uint64_t *out_first, uint64_t *out_count)
{
    *out_first = 0;
    *out_count = list ? list->count : 0;
    if (!list || list->count == 0)
        return ACRE_OK;
    if (list->kind != LIST_RANGE || list->record_kind != kind)
        return copy_records(finish, list, kind, out_first);
    *out_first = list->at.first;
    return ACRE_OK;
}

static acre_status finish_blocks(struct finish *finish)
{
    struct snapshot *snapshot = finish->snapshot;
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < snapshot->past_count && status == ACRE_OK; i++)
        status = finish_stack(finish, &snapshot->pasts[i].stack);
    for (size_t i = 0; i < snapshot->block_count && status == ACRE_OK; i++) {
        struct snap_block *block = &snapshot->blocks[i];
        const struct builder_list *list =
            block->first_past == SNAP_NONE ? NULL : &finish->builder->lists[block->first_past];
        uint64_t first, count;
        status = finish_stack(finish, &block->stack);
        if (status == ACRE_OK)
            status = finish_forward(finish, &block->forward);
        if (status == ACRE_OK)
            status = record_run(finish, list, OBJECT_PAST, &first, &count);
        if (status != ACRE_OK)
            return status;
        block->first_past = (uint32_t)first;
        block->past_count = (uint32_t)count;
    }
    return status;
}

static acre_status finish_segment(struct finish *finish, struct snap_segment *segment)
{
    struct snapshot *snapshot = finish->snapshot;
    const struct builder_list *list =
        segment->first_block == SNAP_NONE ? NULL : &finish->builder->lists[segment->first_block];
    uint64_t at = segment->address;
    acre_status status =
        record_run(finish, list, OBJECT_BLOCK, &segment->first_block, &segment->block_count);

    if (status == ACRE_OK)
        status = finish_stack(finish, &segment->stack);
    if (status == ACRE_OK)
        status = finish_forward(finish, &segment->forward);
    for (uint64_t i = 0; i < segment->block_count && status == ACRE_OK; i++) {
        struct snap_block *block = &snapshot->blocks[segment->first_block + i];
        if (!(block->has & SNAP_HAS_ADDRESS))
            block->address = at;
        if (block->bytes >= UINT64_MAX - block->address)
            return BUILDER_FAIL(finish->builder,
                                "block %llu of the segment at 0x%llx ends beyond "
                                "all addresses",
                                (unsigned long long)i, (unsigned long long)segment->address);
        at += block->bytes;
    }
    return status;
}

/* Puts the segments into the order of their list. */
static acre_status finish_segments(struct finish *finish, const struct builder_list *list)
{
    struct snapshot *snapshot = finish->snapshot;
    uint64_t count = list ? list->count : 0;
    bool is_in_place = !list || (list->kind == LIST_RANGE && list->record_kind == OBJECT_SEGMENT &&
                                 list->at.first == 0);
    acre_status status = ACRE_OK;

    if (!is_in_place) {
        status = builder_check_memory(finish->builder, count * sizeof *snapshot->segments);
        if (status != ACRE_OK)
            return status;
        struct snap_segment *ordered = heap_array(count + 1, sizeof *ordered);
        if (!ordered)
            return ACRE_ERR_HOST_MEMORY;
        for (uint64_t i = 0; i < count && status == ACRE_OK; i++) {
            struct ref ref = list_ref(finish->builder, list, i);
            if (ref.kind != OBJECT_SEGMENT)
                status = BUILDER_FAIL(finish->builder,
                                      "item %llu of \"segments\" is no segment; "
                                      "this is no memory snapshot",
                                      (unsigned long long)i);
            else
                ordered[i] = snapshot->segments[ref.index];
        }
        heap_free(snapshot->segments);
        snapshot->segments = ordered;
        snapshot->segment_capacity = count + 1;
    }
    snapshot->segment_count = count;
    uint64_t block_count = 0;
    for (uint64_t i = 0; i < count && status == ACRE_OK; i++) {
        status = finish_segment(finish, &snapshot->segments[i]);
        block_count += snapshot->segments[i].block_count;
        if (status == ACRE_OK && block_count > snapshot->block_count)
            status = BUILDER_FAIL(finish->builder, "%s",
                                  "two segments have the same blocks; the "
                                  "file is damaged");
    }
    return status;
}

static acre_status finish_traces(struct finish *finish, const struct builder_list *list)
{
    struct snapshot *snapshot = finish->snapshot;
    struct builder *builder = finish->builder;
    uint64_t entry_count = 0;
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < snapshot->entry_count && status == ACRE_OK; i++)
        status = finish_stack(finish, &snapshot->entries[i].stack);
    for (size_t i = 0; i < snapshot->origin_count && status == ACRE_OK; i++)
        status = finish_forward(finish, &snapshot->origins[i].forward);
    for (uint32_t i = 0; list && i < list->count && status == ACRE_OK; i++) {
        struct ref ref = list_ref(builder, list, i);
        const struct builder_list *trace =
            ref.kind == OBJECT_LIST ? &builder->lists[ref.index] : NULL;
        struct snap_device *device;
        if (i >= 65536 || (!trace && ref.kind != OBJECT_NEW_LIST))
            return BUILDER_FAIL(builder,
                                "item %u of \"device_traces\" is no list of events; this "
                                "is no memory snapshot",
                                i);
        status = snapshot_add_device(snapshot, &device);
        if (status == ACRE_OK)
            status =
                record_run(finish, trace, OBJECT_ENTRY, &device->first_entry, &device->entry_count);
        entry_count += status == ACRE_OK ? device->entry_count : 0;
        if (entry_count > snapshot->entry_count)
            return BUILDER_FAIL(builder, "%s",
                                "two devices have the same events; the file is "
                                "damaged");
    }
    snapshot->trace_count = snapshot->device_count;
    for (size_t i = 0; i < snapshot->segment_count && status == ACRE_OK; i++)
        while (snapshot->device_count <= snapshot->segments[i].device && status == ACRE_OK) {
            struct snap_device *device;
            status = snapshot_add_device(snapshot, &device);
        }
    return status;
}

/* ---- Values ---------------------------------------------------------------------------------- */
static acre_status add_values(struct finish *finish, value object, int depth, uint32_t *first);

/* One value with everything below it, behind *last. */
static acre_status add_value(struct finish *finish, uint32_t key, value item, int depth,
                             uint32_t *first, uint32_t *last)
{
    struct builder *builder = finish->builder;
    struct snap_value out = {.key = key, .kind = SNAP_NULL};
    uint32_t child = SNAP_NONE, child_last = SNAP_NONE;
    acre_status status = ACRE_OK;
    uint64_t number;

    if (finish->snapshot->value_count > VALUE_COUNT_MAX)
        return BUILDER_FAIL(builder, "%s", "settings or annotations have more than 2^24 values");
    if (VALUE_TAG(item) == TAG_STRING) {
        out.kind = SNAP_STRING;
        out.as.string = (uint32_t)VALUE_INDEX(item);
    } else if (VALUE_TAG(item) == TAG_NUMBER && builder->numbers[VALUE_INDEX(item)].is_real) {
        out.kind = SNAP_REAL;
        out.as.real = builder->numbers[VALUE_INDEX(item)].as.real;
    } else if (VALUE_TAG(item) == TAG_POOL) {
        const struct snap_pool *pool = &finish->snapshot->pools[VALUE_INDEX(item)];
        out.kind = SNAP_TUPLE;
        for (int i = 0; i < 2 && status == ACRE_OK; i++)
            status = snapshot_add_value(finish->snapshot, &child, &child_last,
                                        (struct snap_value){.key = SNAP_NONE,
                                                            .kind = SNAP_INTEGER,
                                                            .as.integer = (int64_t)pool->id[i]});
        out.as.child = child;
    } else if (value_is_object(item)) {
        const struct builder_list *list;
        bool is_list = value_list(builder, item, &list);
        bool is_tuple = list ? list->is_tuple : builder_kind(builder, item) == OBJECT_NEW_TUPLE;
        out.kind = !is_list ? SNAP_DICT : is_tuple ? SNAP_TUPLE : SNAP_LIST;
        status = add_values(finish, item, depth + 1, &child);
        out.as.child = child;
    } else if (record_integer(builder, item, &number)) {
        out.kind = VALUE_TAG(item) == TAG_CONSTANT ? SNAP_BOOL : SNAP_INTEGER;
        out.as.integer = (int64_t)number;
    }
    return status == ACRE_OK ? snapshot_add_value(finish->snapshot, first, last, out) : status;
}

/* Everything in a dict or list, as a chain. */
static acre_status add_values(struct finish *finish, value object, int depth, uint32_t *first)
{
    const struct builder *builder = finish->builder;
    const struct builder_list *list;
    uint32_t last = SNAP_NONE;
    acre_status status = ACRE_OK;

    if (depth > VALUE_DEPTH)
        return BUILDER_FAIL(builder, "settings or annotations are nested more than %d deep",
                            VALUE_DEPTH);
    if (value_list(builder, object, &list)) {
        for (uint32_t i = 0; list && i < list->count && status == ACRE_OK; i++) {
            value item = VALUE_NONE;
            if (list->kind == LIST_VALUES)
                item = list->at.values[i];
            else if (list->kind == LIST_NUMBERS)
                item = VALUE(TAG_INTEGER, finish->snapshot->frame_ids[list->at.first + i]);
            status = add_value(finish, SNAP_NONE, item, depth, first, &last);
        }
    } else if (builder_kind(builder, object) == OBJECT_DICT) {
        const struct dict *dict = &builder->dicts[builder_index(builder, object)];
        for (uint32_t i = 0; i < dict->count && status == ACRE_OK; i++)
            if (VALUE_TAG(dict->pairs[i].key) == TAG_STRING)
                status = add_value(finish, (uint32_t)VALUE_INDEX(dict->pairs[i].key),
                                   dict->pairs[i].value, depth, first, &last);
    }
    return status;
}

static acre_status add_annotation(struct finish *finish, const struct dict *dict)
{
    struct snap_annotation annotation = {.values = SNAP_NONE}, *out;
    uint32_t last = SNAP_NONE;
    acre_status status = ACRE_OK;

    for (uint32_t i = 0; i < dict->count && status == ACRE_OK; i++) {
        value item = dict->pairs[i].value;
        uint64_t number;
        if (VALUE_TAG(dict->pairs[i].key) != TAG_STRING)
            continue;
        uint32_t key = (uint32_t)VALUE_INDEX(dict->pairs[i].key);
        bool is_integer = record_integer(finish->builder, item, &number);
        if (key == KEY_DEVICE && is_integer && number < 65536) {
            annotation.device = (uint32_t)number;
            annotation.has_device = 1;
        } else if (key == KEY_TIME_US && is_integer) {
            annotation.time_us = (int64_t)number;
            annotation.has_time = 1;
        } else {
            status = add_value(finish, key, item, 0, &annotation.values, &last);
        }
    }
    if (status == ACRE_OK)
        status = snapshot_add_annotation(finish->snapshot, &out);
    if (status == ACRE_OK)
        *out = annotation;
    return status;
}

static acre_status finish_annotations(struct finish *finish, const struct builder_list *list)
{
    acre_status status = ACRE_OK;

    for (uint32_t i = 0; list && i < list->count && status == ACRE_OK; i++) {
        struct ref ref = list_ref(finish->builder, list, i);
        if (ref.kind == OBJECT_DICT)
            status = add_annotation(finish, &finish->builder->dicts[ref.index]);
    }
    return status;
}

/* ---- The top ------------------------------------------------------------------------------- */
/* A list at the top of the file; absent ones are NULL. */
static acre_status top_list(struct finish *finish, value top, uint32_t key, bool *out_has,
                            const struct builder_list **out)
{
    value item;

    *out = NULL;
    *out_has = record_get(finish->builder, top, key, &item) && item != VALUE_NONE;
    if (!*out_has || value_list(finish->builder, item, out))
        return ACRE_OK;
    return BUILDER_FAIL(finish->builder, "the key \"%s\" is not a list; this is no memory snapshot",
                        snapshot_string(finish->snapshot, key, NULL));
}

/* Newer versions of our JSON than this library knows are refused. */
static acre_status check_version(struct finish *finish, value top)
{
    uint64_t version;
    value item;

    if (!record_get(finish->builder, top, KEY_ACRE_SNAPSHOT, &item))
        return ACRE_OK;
    if (record_integer(finish->builder, item, &version) && version == 1)
        return ACRE_OK;
    return BUILDER_FAIL(finish->builder, "%s",
                        "the file was written by a newer version of this "
                        "library; version 1 of its JSON is read");
}

static acre_status finish_top(struct finish *finish, value top)
{
    struct snapshot *snapshot = finish->snapshot;
    const struct builder_list *segments = NULL, *traces = NULL, *annotations = NULL;
    bool has_segments = true, has_rows, has_frames;
    acre_status status = ACRE_OK;
    value settings;

    snapshot->is_bare_list = value_list(finish->builder, top, &segments);
    if (!snapshot->is_bare_list) {
        status = top_list(finish, top, KEY_SEGMENTS, &has_segments, &segments);
        if (status == ACRE_OK)
            status = top_list(finish, top, KEY_DEVICE_TRACES, &snapshot->has_traces, &traces);
        if (status == ACRE_OK)
            status = top_list(finish, top, KEY_EXTERNAL_ANNOTATIONS, &snapshot->has_annotations,
                              &annotations);
        if (status == ACRE_OK)
            status = check_version(finish, top);
        if (status == ACRE_OK && finish->builder->is_json)
            status = top_list(finish, top, KEY_STACKS, &has_rows, &finish->rows);
        if (status == ACRE_OK && finish->builder->is_json)
            status = top_list(finish, top, KEY_FRAMES, &has_frames, &finish->frames);
    }
    if (status == ACRE_OK && !has_segments && !snapshot->has_traces)
        status = BUILDER_FAIL(finish->builder, "%s",
                              "the file has neither \"segments\" nor "
                              "\"device_traces\"; this is no memory snapshot");
    if (status == ACRE_OK)
        status = number_frames(finish);
    if (status == ACRE_OK)
        status = number_rows(finish);
    if (status == ACRE_OK)
        status = finish_blocks(finish);
    if (status == ACRE_OK)
        status = finish_segments(finish, segments);
    if (status == ACRE_OK)
        status = finish_traces(finish, traces);
    if (status == ACRE_OK)
        status = finish_annotations(finish, annotations);
    if (status == ACRE_OK && record_get(finish->builder, top, KEY_ALLOCATOR_SETTINGS, &settings) &&
        value_is_object(settings)) {
        snapshot->has_settings = true;
        status = add_values(finish, settings, 0, &snapshot->settings);
    }
    return status;
}

acre_status builder_finish(struct builder *builder, struct snapshot **out)
{
    struct finish finish = {.builder = builder, .snapshot = builder->snapshot};

    if (builder->stack_count != 1 || builder->mark_count != 0)
        return BUILDER_FAIL(builder, "the file ends with %zu values instead of one; it is damaged",
                            builder->stack_count);
    value top = builder->stack[0];
    memo_fini(&builder->memo);
    finish.stack_of = heap_array(builder->list_count + 1, sizeof *finish.stack_of);
    finish.texts_of = heap_array(builder->list_count + 1, sizeof *finish.texts_of);
    acre_status status =
        finish.stack_of && finish.texts_of ? finish_top(&finish, top) : ACRE_ERR_HOST_MEMORY;
    heap_free(finish.stack_of);
    heap_free(finish.texts_of);
    if (status == ACRE_OK) {
        *out = builder->snapshot;
        builder->snapshot = NULL;
    }
    return status;
}
