/* SPDX-License-Identifier: MIT */
#include "format/snapshot/builder_record.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "format/array.h"

#include <string.h>

#define BIT(key) ((uint64_t)1 << (key))

/* Dicts with more pairs than this are not looked at again: they are no records. */
#define LOOKED_AT_MAX 64

bool record_integer(const struct builder *builder, value item, uint64_t *out)
{
    switch (VALUE_TAG(item)) {
    case TAG_INTEGER:
        *out = (uint64_t)((int64_t)item >> 3);
        return true;
    case TAG_NUMBER:
        *out = builder->numbers[VALUE_INDEX(item)].as.integer;
        return !builder->numbers[VALUE_INDEX(item)].is_real;
    case TAG_CONSTANT:
        *out = item == VALUE_TRUE;
        return item != VALUE_NONE;
    default:
        return false;
    }
}

static const char *key_name(const struct builder *builder, uint32_t key)
{
    return snapshot_string(builder->snapshot, key, NULL);
}

/* ---- Fields of all records ------------------------------------------------------------ */

static acre_status get_integer(struct builder *builder, uint32_t key, value item, uint64_t *out)
{
    if (LIKELY(record_integer(builder, item, out)))
        return ACRE_OK;
    return BUILDER_FAIL(builder, "the key \"%s\" is not a whole number; this is no memory snapshot",
                        key_name(builder, key));
}

/* An address. No memory has the last one, which is that of numbers below zero too. */
static acre_status get_address(struct builder *builder, uint32_t key, value item, uint64_t *out)
{
    acre_status status = get_integer(builder, key, item, out);

    if (status == ACRE_OK && *out == UINT64_MAX)
        return BUILDER_FAIL(builder, "the key \"%s\" is no address", key_name(builder, key));
    return status;
}

static acre_status get_string(struct builder *builder, uint32_t key, value item, uint32_t *out)
{
    if (LIKELY(VALUE_TAG(item) == TAG_STRING)) {
        *out = (uint32_t)VALUE_INDEX(item);
        return ACRE_OK;
    }
    if (item == VALUE_NONE)
        return ACRE_OK;
    return BUILDER_FAIL(builder, "the key \"%s\" is not a text; this is no memory snapshot",
                        key_name(builder, key));
}

/* The index of a list; SNAP_NONE for an empty one. */
static acre_status get_list(struct builder *builder, uint32_t key, value item, uint32_t *out)
{
    if (value_is_object(item)) {
        enum object_kind kind = builder_kind(builder, item);
        *out = SNAP_NONE;
        if (kind == OBJECT_NEW_LIST || kind == OBJECT_NEW_TUPLE)
            return ACRE_OK;
        if (kind == OBJECT_LIST && builder_index(builder, item) < RECORD_ROW) {
            *out = (uint32_t)builder_index(builder, item);
            return ACRE_OK;
        }
    }
    return BUILDER_FAIL(builder, "the key \"%s\" is not a list; this is no memory snapshot",
                        key_name(builder, key));
}

/* A pool: two numbers, as a tuple or, after some tools, as a list. */
static acre_status get_pool(struct builder *builder, uint32_t key, value item, uint32_t *out,
                            uint8_t *has)
{
    *has |= SNAP_HAS_POOL;
    if (LIKELY(VALUE_TAG(item) == TAG_POOL)) {
        *out = (uint32_t)VALUE_INDEX(item);
        return ACRE_OK;
    }
    uint32_t index = SNAP_NONE;
    acre_status status = get_list(builder, key, item, &index);
    if (status != ACRE_OK)
        return status;
    const struct builder_list *list = index == SNAP_NONE ? NULL : &builder->lists[index];
    if (!list || list->count != 2)
        return BUILDER_FAIL(builder, "the key \"%s\" is not a pair of numbers",
                            key_name(builder, key));
    uint64_t pair[2];
    for (int i = 0; i < 2; i++) {
        if (list->kind == LIST_NUMBERS)
            pair[i] = builder->snapshot->frame_ids[list->at.first + (uint64_t)i];
        else if (list->kind != LIST_VALUES ||
                 !record_integer(builder, list->at.values[i], &pair[i]))
            return BUILDER_FAIL(builder, "the key \"%s\" is not a pair of numbers",
                                key_name(builder, key));
    }
    if (!builder->is_json && !list->is_tuple)
        *has |= SNAP_HAS_POOL_LIST;
    return snapshot_add_pool(builder->snapshot, pair[0], pair[1], out);
}

/* The fields of a record about its stacks. */
struct stack_fields {
    uint32_t *stack, *forward; /* forward may be NULL */
    uint8_t *has;
};

/* Stacks, which all records may have; *out_is_done says that the key was one. */
static acre_status set_stack(struct builder *builder, uint32_t key, value item,
                             const struct stack_fields *fields, bool *out_is_done)
{
    uint64_t row;

    *out_is_done = true;
    if (key == KEY_FRAMES) {
        if (item == VALUE_NONE)
            return ACRE_OK;
        *fields->has |= SNAP_HAS_FRAMES;
        return get_list(builder, key, item, fields->stack);
    }
    if (key == KEY_FORWARD_FRAMES && item != VALUE_NONE && fields->forward)
        return get_list(builder, key, item, fields->forward);
    if (key == KEY_STACK && builder->is_json) {
        acre_status status = get_integer(builder, key, item, &row);
        if (status == ACRE_OK && row >= RECORD_ROW - 2)
            return BUILDER_FAIL(builder, "%s", "the key \"stack\" is no row of the stacks");
        *fields->has |= SNAP_HAS_FRAMES;
        *fields->stack = RECORD_ROW | (uint32_t)row;
        return status;
    }
    *out_is_done = false;
    return ACRE_OK;
}

/* ---- Events ----------------------------------------------------------------------------- */

static acre_status set_action(struct builder *builder, struct snap_entry *entry, value item)
{
    uint32_t name = SNAP_NONE;
    acre_status status = get_string(builder, KEY_ACTION, item, &name);

    if (status != ACRE_OK)
        return status;
    if (LIKELY(name >= FIRST_ACTION && name < FIRST_STATE)) {
        entry->action = (uint16_t)(name - FIRST_ACTION);
        return ACRE_OK;
    }
    if (name == SNAP_NONE)
        return BUILDER_FAIL(builder, "%s", "an event has no action; this is no memory snapshot");
    return snapshot_add_action(builder->snapshot, name, &entry->action);
}

static acre_status set_entry(struct builder *builder, struct snap_entry *entry,
                             struct snap_origin *origin, uint32_t key, value item)
{
    acre_status status;
    uint64_t number = 0;
    bool is_done;

    switch (key) {
    case KEY_ACTION:
        return set_action(builder, entry, item);
    case KEY_ADDR:
        return get_address(builder, key, item, &entry->address);
    case KEY_DEVICE_FREE:
        return get_integer(builder, key, item, &entry->address);
    case KEY_SIZE:
        return get_integer(builder, key, item, &entry->bytes);
    case KEY_STREAM:
        return get_integer(builder, key, item, &origin->stream);
    case KEY_TIME_US:
        entry->has |= SNAP_HAS_TIME;
        status = get_integer(builder, key, item, &number);
        entry->time_us = (int64_t)number;
        return status;
    case KEY_COMPILE_CONTEXT:
        return get_string(builder, key, item, &origin->compile_context);
    case KEY_USER_METADATA:
        return get_string(builder, key, item, &origin->user_metadata);
    case KEY_POOL_ID:
        return get_pool(builder, key, item, &origin->pool, &entry->has);
    default:
        return set_stack(builder, key, item,
                         &(struct stack_fields){&entry->stack, &origin->forward, &entry->has},
                         &is_done);
    }
}

/* Keys that are no texts are passed over. */
static acre_status set_entry_pairs(struct builder *builder, uint64_t index, const value *pairs,
                                   size_t count)
{
    struct snapshot *snapshot = builder->snapshot;
    struct snap_entry *entry = &snapshot->entries[index];
    struct snap_origin origin = *snapshot_origin(snapshot, entry);
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < count && status == ACRE_OK; i++)
        if (VALUE_TAG(pairs[2 * i]) == TAG_STRING)
            status = set_entry(builder, entry, &origin, (uint32_t)VALUE_INDEX(pairs[2 * i]),
                               pairs[2 * i + 1]);
    return status == ACRE_OK ? snapshot_add_origin(snapshot, &origin, &entry->origin) : status;
}

/* ---- Segments ---------------------------------------------------------------------------- */

static acre_status set_type(struct builder *builder, struct snap_segment *segment, value item)
{
    acre_status status = get_string(builder, KEY_SEGMENT_TYPE, item, &segment->type);

    segment->is_small =
        strcmp(snapshot_string(builder->snapshot, segment->type, NULL), "small") == 0;
    return status;
}

static acre_status set_device(struct builder *builder, value item, uint32_t *out)
{
    uint64_t number = 0;
    acre_status status = get_integer(builder, KEY_DEVICE, item, &number);

    if (status == ACRE_OK && number >= 65536)
        return BUILDER_FAIL(builder, "device %lld is out of range", (long long)number);
    *out = (uint32_t)number;
    return status;
}

static acre_status set_segment(struct builder *builder, uint64_t index, uint32_t key, value item)
{
    struct snap_segment *segment = &builder->snapshot->segments[index];
    acre_status status;
    uint64_t number = 0;
    uint32_t list = SNAP_NONE;
    bool is_done;

    switch (key) {
    case KEY_DEVICE:
        return set_device(builder, item, &segment->device);
    case KEY_ADDRESS:
        return get_address(builder, key, item, &segment->address);
    case KEY_TOTAL_SIZE:
        return get_integer(builder, key, item, &segment->bytes);
    case KEY_ALLOCATED_SIZE:
        return get_integer(builder, key, item, &segment->allocated_bytes);
    case KEY_ACTIVE_SIZE:
        return get_integer(builder, key, item, &segment->active_bytes);
    case KEY_REQUESTED_SIZE:
        segment->has |= SNAP_HAS_REQUESTED;
        return get_integer(builder, key, item, &segment->requested_bytes);
    case KEY_STREAM:
        return get_integer(builder, key, item, &segment->stream);
    case KEY_SEGMENT_TYPE:
        return set_type(builder, segment, item);
    case KEY_SEGMENT_POOL_ID:
        return get_pool(builder, key, item, &segment->pool, &segment->has);
    case KEY_IS_EXPANDABLE:
        segment->has |= SNAP_HAS_EXPANDABLE;
        status = get_integer(builder, key, item, &number);
        segment->is_expandable = number != 0;
        return status;
    case KEY_BLOCKS:
        status = get_list(builder, key, item, &list);
        segment->first_block = list;
        return status;
    default:
        return set_stack(builder, key, item,
                         &(struct stack_fields){&segment->stack, &segment->forward, &segment->has},
                         &is_done);
    }
}

/* ---- Blocks, their pasts, frames ----------------------------------------------------------- */

static acre_status set_state(struct builder *builder, struct snap_block *block, value item)
{
    uint32_t name = SNAP_NONE;
    acre_status status = get_string(builder, KEY_STATE, item, &name);

    if (status != ACRE_OK)
        return status;
    if (name < FIRST_STATE || name > FIRST_STATE + SNAP_AWAITING)
        return BUILDER_FAIL(builder, "a block has the unknown state \"%.40s\"",
                            key_name(builder, name));
    block->state = (uint8_t)(name - FIRST_STATE);
    return ACRE_OK;
}

static acre_status set_block(struct builder *builder, uint64_t index, uint32_t key, value item)
{
    struct snap_block *block = &builder->snapshot->blocks[index];
    bool is_done;

    switch (key) {
    case KEY_ADDRESS:
        block->has |= SNAP_HAS_ADDRESS;
        return get_address(builder, key, item, &block->address);
    case KEY_SIZE:
        return get_integer(builder, key, item, &block->bytes);
    case KEY_REQUESTED_SIZE:
        block->has |= SNAP_HAS_REQUESTED;
        return get_integer(builder, key, item, &block->requested_bytes);
    case KEY_STATE:
        return set_state(builder, block, item);
    case KEY_HISTORY:
        block->has |= SNAP_HAS_HISTORY;
        return get_list(builder, key, item, &block->first_past);
    default:
        return set_stack(builder, key, item,
                         &(struct stack_fields){&block->stack, &block->forward, &block->has},
                         &is_done);
    }
}

static acre_status set_past(struct builder *builder, uint64_t index, uint32_t key, value item)
{
    struct snap_past *past = &builder->snapshot->pasts[index];
    bool is_done;

    if (key == KEY_ADDR)
        return get_integer(builder, key, item, &past->address);
    if (key == KEY_REAL_SIZE)
        return get_integer(builder, key, item, &past->bytes);
    return set_stack(builder, key, item, &(struct stack_fields){&past->stack, NULL, &past->has},
                     &is_done);
}

/* Keeps a key of a frame that only some tools write; texts and numbers only. */
static acre_status set_extra(struct builder *builder, struct snap_frame *frame, uint32_t key,
                             value item)
{
    struct snap_value extra = {.key = key, .kind = SNAP_STRING};
    struct snapshot *snapshot = builder->snapshot;
    uint64_t number;

    if (strncmp(key_name(builder, key), "fx_", 3) != 0)
        return ACRE_OK;
    if (VALUE_TAG(item) == TAG_STRING) {
        extra.as.string = (uint32_t)VALUE_INDEX(item);
    } else if (record_integer(builder, item, &number)) {
        extra.kind = SNAP_INTEGER;
        extra.as.integer = (int64_t)number;
    } else {
        return ACRE_OK;
    }
    uint32_t last = frame->extra;
    while (last != SNAP_NONE && snapshot->values[last].next != SNAP_NONE)
        last = snapshot->values[last].next;
    return snapshot_add_value(snapshot, &frame->extra, &last, extra);
}

static acre_status set_frame(struct builder *builder, uint64_t index, uint32_t key, value item)
{
    struct snap_frame *frame = &builder->drafts[index];
    uint64_t number = 0;
    acre_status status;

    switch (key) {
    case KEY_FILENAME:
        return get_string(builder, key, item, &frame->file);
    case KEY_NAME:
        return get_string(builder, key, item, &frame->name);
    case KEY_LINE:
        status = get_integer(builder, key, item, &number);
        frame->line = (int64_t)number;
        return status;
    default:
        return set_extra(builder, frame, key, item);
    }
}

/* ---- Any dict -------------------------------------------------------------------------------- */

static uint64_t key_set(const value *pairs, size_t count)
{
    uint64_t keys = 0;

    for (size_t i = 0; i < count; i++)
        if (VALUE_TAG(pairs[2 * i]) == TAG_STRING && VALUE_INDEX(pairs[2 * i]) < KEY_COUNT)
            keys |= BIT(VALUE_INDEX(pairs[2 * i]));
    return keys;
}

/* What a dict with these keys is. */
static enum object_kind kind_of(uint64_t keys)
{
    if (keys & BIT(KEY_ACTION) && keys & (BIT(KEY_SIZE) | BIT(KEY_ADDR) | BIT(KEY_DEVICE_FREE)))
        return OBJECT_ENTRY;
    if (keys & BIT(KEY_FILENAME) && keys & (BIT(KEY_LINE) | BIT(KEY_NAME)))
        return OBJECT_FRAME;
    if (keys & BIT(KEY_STATE) && keys & BIT(KEY_SIZE))
        return OBJECT_BLOCK;
    if (keys & BIT(KEY_TOTAL_SIZE))
        return OBJECT_SEGMENT;
    if (keys & BIT(KEY_REAL_SIZE) && keys & BIT(KEY_ADDR))
        return OBJECT_PAST;
    return OBJECT_DICT;
}

static acre_status add_record(struct builder *builder, enum object_kind kind, uint64_t *out)
{
    struct snapshot *snapshot = builder->snapshot;
    struct snap_entry *entry;
    struct snap_segment *segment;
    struct snap_block *block;
    /* Records grow their tables without asking: look now and then. */
    acre_status status =
        ++builder->record_count % 4096 ? ACRE_OK : builder_check_memory(builder, 0);

    if (status != ACRE_OK)
        return status;
    switch (kind) {
    case OBJECT_ENTRY:
        *out = snapshot->entry_count;
        return snapshot_add_entry(snapshot, &entry);
    case OBJECT_SEGMENT:
        *out = snapshot->segment_count;
        status = snapshot_add_segment(snapshot, &segment);
        if (status == ACRE_OK)
            segment->first_block = SNAP_NONE;
        return status;
    case OBJECT_BLOCK:
        *out = snapshot->block_count;
        status = snapshot_add_block(snapshot, &block);
        if (status == ACRE_OK)
            block->first_past = SNAP_NONE;
        return status;
    case OBJECT_PAST:
        status = ARRAY_ROOM(snapshot, pasts, past, 1);
        if (status != ACRE_OK)
            return status;
        *out = snapshot->past_count++;
        snapshot->pasts[*out] = (struct snap_past){.stack = SNAP_NONE};
        return ACRE_OK;
    default:
        CHECK(kind == OBJECT_FRAME);
        status = ARRAY_ROOM(builder, drafts, draft, 1);
        if (status != ACRE_OK)
            return status;
        *out = builder->draft_count++;
        builder->drafts[*out] =
            (struct snap_frame){.file = SNAP_NONE, .name = SNAP_NONE, .extra = SNAP_NONE};
        return ACRE_OK;
    }
}

acre_status record_add_entry(struct builder *builder, const struct snap_entry *entry,
                             const struct snap_origin *origin, value *out)
{
    struct snapshot *snapshot = builder->snapshot;
    uint64_t index = 0;
    acre_status status = add_record(builder, OBJECT_ENTRY, &index);

    if (status != ACRE_OK)
        return status;
    snapshot->entries[index] = *entry;
    *out = VALUE(TAG_ENTRY, index);
    return snapshot_add_origin(snapshot, origin, &snapshot->entries[index].origin);
}

bool record_is_entry(uint64_t keys)
{
    return kind_of(keys) == OBJECT_ENTRY;
}

static acre_status set_pairs(struct builder *builder, enum object_kind kind, uint64_t index,
                             const value *pairs, size_t count)
{
    acre_status status = ACRE_OK;

    if (kind == OBJECT_ENTRY)
        return set_entry_pairs(builder, index, pairs, count);
    for (size_t i = 0; i < count && status == ACRE_OK; i++) {
        uint32_t name = (uint32_t)VALUE_INDEX(pairs[2 * i]);
        value item = pairs[2 * i + 1];
        if (VALUE_TAG(pairs[2 * i]) != TAG_STRING)
            continue;
        switch (kind) {
        case OBJECT_SEGMENT:
            status = set_segment(builder, index, name, item);
            break;
        case OBJECT_BLOCK:
            status = set_block(builder, index, name, item);
            break;
        case OBJECT_PAST:
            status = set_past(builder, index, name, item);
            break;
        default:
            status = set_frame(builder, index, name, item);
        }
    }
    return status;
}

/* Keeps pairs as they are. */
static acre_status keep_pairs(struct builder *builder, uint64_t index, const value *pairs,
                              size_t count)
{
    struct dict *dict = &builder->dicts[index];
    uint64_t need = dict->count + (uint64_t)count;

    if (need > dict->capacity) {
        uint64_t capacity = need + need / 2;
        acre_status status = builder_check_memory(builder, capacity * sizeof *dict->pairs);
        if (status != ACRE_OK)
            return status;
        void *bigger = capacity < UINT32_MAX
                           ? heap_realloc(dict->pairs, capacity * sizeof *dict->pairs)
                           : NULL;
        if (!bigger)
            return ACRE_ERR_HOST_MEMORY;
        builder->loose_bytes += (capacity - dict->capacity) * sizeof *dict->pairs;
        dict->pairs = bigger;
        dict->capacity = (uint32_t)capacity;
    }
    if (count)
        memcpy(dict->pairs + dict->count, pairs, count * sizeof *dict->pairs);
    dict->count = (uint32_t)need;
    return ACRE_OK;
}

/* Makes a record of a dict that was kept so far. */
static acre_status builder_record_promote(struct builder *builder, value object,
                                          enum object_kind kind)
{
    struct dict *dict = &builder->dicts[builder_index(builder, object)];
    uint64_t index;
    acre_status status = add_record(builder, kind, &index);

    if (status != ACRE_OK)
        return status;
    builder->objects[VALUE_INDEX(object)] = index << 4 | (uint64_t)kind;
    status = set_pairs(builder, kind, index, &dict->pairs->key, dict->count);
    builder->loose_bytes -= dict->capacity * sizeof *dict->pairs;
    heap_free(dict->pairs);
    *dict = (struct dict){NULL, 0, 0};
    return status;
}

_Static_assert(sizeof(struct pair) == 2 * sizeof(value), "pairs are values side by side");

acre_status record_set_pairs(struct builder *builder, value object, const value *pairs,
                             size_t count)
{
    enum object_kind kind = builder_kind(builder, object);
    uint64_t index = builder_index(builder, object);
    acre_status status;

    if (kind == OBJECT_NEW_DICT) {
        kind = kind_of(key_set(pairs, count));
        if (kind != OBJECT_DICT) {
            status = add_record(builder, kind, &index);
        } else {
            status = ARRAY_ROOM(builder, dicts, dict, 1);
            index = builder->dict_count;
            if (status == ACRE_OK)
                builder->dicts[builder->dict_count++] = (struct dict){NULL, 0, 0};
        }
        if (status != ACRE_OK)
            return status;
        builder->objects[VALUE_INDEX(object)] = index << 4 | (uint64_t)kind;
    } else if (kind < OBJECT_DICT || kind == OBJECT_LIST) {
        return BUILDER_FAIL(builder, "%s", "a key is set in what is no dict; the file is damaged");
    }
    if (kind != OBJECT_DICT)
        return set_pairs(builder, kind, index, pairs, count);
    status = keep_pairs(builder, index, pairs, count);
    const struct dict *dict = &builder->dicts[index];
    if (status != ACRE_OK || dict->count == count || dict->count > LOOKED_AT_MAX)
        return status;
    kind = kind_of(key_set(&dict->pairs->key, dict->count));
    return kind == OBJECT_DICT ? ACRE_OK : builder_record_promote(builder, object, kind);
}

bool record_get(const struct builder *builder, value object, uint32_t key, value *out)
{
    if (!value_is_object(object) || builder_kind(builder, object) != OBJECT_DICT)
        return false;
    const struct dict *dict = &builder->dicts[builder_index(builder, object)];
    for (uint32_t i = dict->count; i-- > 0;)
        if (dict->pairs[i].key == VALUE(TAG_STRING, key)) {
            *out = dict->pairs[i].value;
            return true;
        }
    return false;
}
