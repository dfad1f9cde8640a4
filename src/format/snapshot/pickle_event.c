/* SPDX-License-Identifier: MIT */
#include "format/snapshot/pickle_event.h"

#include "base/status.h"
#include "format/snapshot/builder_record.h"
#include "format/snapshot/pickle_op.h"

#include <string.h>

enum {
    PAIRS_MAX = 16,  /* keys of an event; PyTorch writes up to 10  */
    KEPT_MAX = 4,    /* places in the memo that an event takes     */
    WAITING_MAX = 64 /* events whose stacks are looked up together */
};

/* Each pair takes 5 and 10 bytes at most, and 16 are around them. */
_Static_assert(PAIRS_MAX * 24 + 16 <= INPUT_PADDING, "an event ends in it");

/* An event under way. */
struct event {
    const unsigned char *at; /* next byte; all of the event are in the window    */
    struct snap_entry entry; /* all but its origin                               */
    struct snap_origin origin;
    uint64_t keys;        /* set of those met                                 */
    value kept[KEPT_MAX]; /* for the memo, one after another from its end on  */
    size_t kept_count;
    const unsigned char *frames; /* what tells its stack in the memo, or NULL        */
};

/* Events that are records but for their stacks. Those are anywhere in the memo and in the table
 * of objects: asked for one by one, each would be waited for twice. Nothing that they depend on
 * changes before waiting_end. */
struct waiting_events {
    size_t count;
    struct {
        uint64_t entry, place;       /* indices of the event and in the memo             */
        uint64_t offset, set_offset; /* of the instruction that recalls, and that sets   */
    } items[WAITING_MAX];
};

/* A place in the memo, if there is one: behind all that is there. False: written otherwise. */
static inline bool event_keep(const struct builder *builder, struct event *event, value item)
{
    const unsigned char *at = event->at;
    uint64_t next = builder->memo.count + event->kept_count;

    if (*at == OP_MEMOIZE)
        event->at = at + 1;
    else if (*at == OP_BINPUT && at[1] == next)
        event->at = at + 2;
    else if (*at == OP_LONG_BINPUT && pickle_op_little32(at + 1) == next)
        event->at = at + 5;
    else
        return *at != OP_BINPUT && *at != OP_LONG_BINPUT;
    if (event->kept_count == KEPT_MAX)
        return false;
    event->kept[event->kept_count++] = item;
    return true;
}

/* What the memo has there; false: nothing. */
static inline bool event_recall(const struct builder *builder, uint64_t index, value *out)
{
    if (index >= builder->memo.count)
        return false;
    *out = memo_get(&builder->memo, index);
    return VALUE_TAG(*out) != TAG_EMPTY;
}

static inline bool event_key(const struct builder *builder, struct event *event, uint32_t *out)
{
    const unsigned char *at = event->at;
    uint64_t index;
    value key;

    if (*at == OP_BINGET) {
        index = at[1];
        event->at = at + 2;
    } else if (*at == OP_LONG_BINGET) {
        index = pickle_op_little32(at + 1);
        event->at = at + 5;
    } else {
        return false;
    }
    if (!event_recall(builder, index, &key) || VALUE_TAG(key) != TAG_STRING)
        return false;
    *out = (uint32_t)VALUE_INDEX(key);
    return VALUE_INDEX(key) <= KEY_FORWARD_FRAMES;
}

/* A number of up to 7 bytes; it fits a value. */
static inline bool event_long(struct event *event, value *out)
{
    const unsigned char *at = event->at;
    unsigned length = at[1];
    uint64_t number;

    if (length == 0 || length > 7)
        return false;
    memcpy(&number, at + 2, sizeof number); /* little endian, as all that this runs on */
    unsigned unused = 64 - 8 * length;
    *out = VALUE(TAG_INTEGER, (uint64_t)((int64_t)(number << unused) >> unused));
    event->at = at + 2 + length;
    return true;
}

/* Two small numbers as a tuple, or one number. */
static inline bool event_small(struct builder *builder, struct event *event, value *out,
                               acre_status *status)
{
    const unsigned char *at = event->at;

    *out = VALUE(TAG_INTEGER, at[1]);
    event->at = at + 2;
    if (at[2] != OP_BININT1)
        return true;
    if (at[4] != OP_TUPLE2)
        return false;
    *status = builder_pool(builder, (value[]){*out, VALUE(TAG_INTEGER, at[3])}, out);
    event->at = at + 5;
    return *status == ACRE_OK && event_keep(builder, event, *out);
}

static inline bool event_value(struct builder *builder, struct event *event, value *out,
                               acre_status *status)
{
    const unsigned char *at = event->at;

    switch (*at) {
    case OP_BINGET:
        event->at = at + 2;
        return event_recall(builder, at[1], out);
    case OP_LONG_BINGET:
        event->at = at + 5;
        return event_recall(builder, pickle_op_little32(at + 1), out);
    case OP_LONG1:
        return event_long(event, out);
    case OP_BININT:
        *out = VALUE(TAG_INTEGER, (uint64_t)(int32_t)pickle_op_little32(at + 1));
        event->at = at + 5;
        return true;
    case OP_BININT1:
        return event_small(builder, event, out, status);
    case OP_BININT2:
        *out = VALUE(TAG_INTEGER, at[1] | at[2] << 8);
        event->at = at + 3;
        return true;
    case OP_NONE:
        *out = VALUE_NONE;
        event->at = at + 1;
        return true;
    default:
        return false;
    }
}

static inline bool event_integer(value item, uint64_t *out)
{
    *out = (uint64_t)((int64_t)item >> 3);
    return VALUE_TAG(item) == TAG_INTEGER;
}

/* A text, or none, which leaves the field as it is. */
static inline bool event_text(value item, uint32_t *out)
{
    if (VALUE_TAG(item) == TAG_STRING)
        *out = (uint32_t)VALUE_INDEX(item);
    return VALUE_TAG(item) == TAG_STRING || item == VALUE_NONE;
}

/* The index of a list; SNAP_NONE for an empty one. */
static inline bool event_list(const struct builder *builder, value item, uint32_t *out)
{
    if (VALUE_TAG(item) != TAG_OBJECT)
        return false;
    uint64_t object = builder->objects[VALUE_INDEX(item)];
    enum object_kind kind = (enum object_kind)(object & 15);
    *out = kind == OBJECT_LIST ? (uint32_t)(object >> 4) : SNAP_NONE;
    return kind == OBJECT_LIST ? object >> 4 < RECORD_ROW
                               : kind == OBJECT_NEW_LIST || kind == OBJECT_NEW_TUPLE;
}

/* Does what set_entry does in builder_record, for what is usual; false: it is not. */
static inline bool event_set(const struct builder *builder, struct event *event, uint32_t key,
                             value item)
{
    struct snap_entry *entry = &event->entry;
    uint64_t number = 0;

    switch (key) {
    case KEY_ACTION:
        entry->action = (uint16_t)(VALUE_INDEX(item) - FIRST_ACTION);
        return VALUE_TAG(item) == TAG_STRING && VALUE_INDEX(item) - FIRST_ACTION < SNAP_OTHER;
    case KEY_ADDR:
        return event_integer(item, &entry->address) && entry->address != UINT64_MAX;
    case KEY_DEVICE_FREE:
        return event_integer(item, &entry->address);
    case KEY_SIZE:
        return event_integer(item, &entry->bytes);
    case KEY_STREAM:
        return event_integer(item, &event->origin.stream);
    case KEY_TIME_US:
        entry->has |= SNAP_HAS_TIME;
        if (!event_integer(item, &number))
            return false;
        entry->time_us = (int64_t)number;
        return true;
    case KEY_COMPILE_CONTEXT:
        return event_text(item, &event->origin.compile_context);
    case KEY_USER_METADATA:
        return event_text(item, &event->origin.user_metadata);
    case KEY_POOL_ID:
        entry->has |= SNAP_HAS_POOL;
        event->origin.pool = (uint32_t)VALUE_INDEX(item);
        return VALUE_TAG(item) == TAG_POOL;
    case KEY_FRAMES:
        if (event->frames)
            return false; /* told twice */
        if (item == VALUE_NONE)
            return true;
        entry->has |= SNAP_HAS_FRAMES;
        return event_list(builder, item, &entry->stack);
    default: /* KEY_FORWARD_FRAMES */
        return item == VALUE_NONE || event_list(builder, item, &event->origin.forward);
    }
}

/* Whether the stack is told by its place in the memo, which is then left for later. */
static inline bool event_defer(const struct builder *builder, struct event *event)
{
    const unsigned char *at = event->at;

    if (*at != OP_LONG_BINGET || pickle_op_little32(at + 1) >= builder->memo.count ||
        event->keys & (uint64_t)1 << KEY_FRAMES)
        return false;
    memo_prefetch(&builder->memo, pickle_op_little32(at + 1));
    event->frames = at;
    event->at = at + 5;
    return true;
}

/* Reads one up to the instruction that sets its keys. */
static inline bool event_scan(struct builder *builder, struct event *event, acre_status *status)
{
    event->at++; /* the empty dict */
    event->entry = (struct snap_entry){.stack = SNAP_NONE};
    event->origin = builder->snapshot->origins[0];
    event->kept_count = 0;
    event->keys = 0;
    event->frames = NULL;
    if (!event_keep(builder, event, VALUE_NONE) || *event->at++ != OP_MARK)
        return false;
    for (int i = 0; *event->at != OP_SETITEMS; i++) {
        uint32_t key;
        value item;
        if (i == PAIRS_MAX || !event_key(builder, event, &key))
            return false;
        if ((key != KEY_FRAMES || !event_defer(builder, event)) &&
            (!event_value(builder, event, &item, status) || !event_set(builder, event, key, item)))
            return false;
        event->keys |= (uint64_t)1 << key;
    }
    return record_is_entry(event->keys);
}

/* Makes the record, and does what the instructions would have done. */
static acre_status event_make(struct builder *builder, struct event *event, bool has_place)
{
    value object;
    acre_status status = record_add_entry(builder, &event->entry, &event->origin, &object);

    for (size_t i = 0; i < event->kept_count && status == ACRE_OK; i++)
        status = builder_memo_keep(builder, builder->memo.count,
                                   i == 0 && has_place ? object : event->kept[i]);
    return status == ACRE_OK ? builder_push(builder, object) : status;
}

static void waiting_add(struct waiting_events *waiting, const struct input *input,
                        const struct builder *builder, const struct event *event)
{
    uint64_t base = input->base;

    waiting->items[waiting->count].entry = builder->snapshot->entry_count - 1;
    waiting->items[waiting->count].place = pickle_op_little32(event->frames + 1);
    waiting->items[waiting->count].offset = base + (uint64_t)(event->frames - input->window);
    waiting->items[waiting->count].set_offset = base + (uint64_t)(event->at - input->window);
    waiting->count++;
}

/* Gives one event its stack; whatever is unusual is done or refused as step by step. */
static acre_status waiting_set(const struct waiting_events *waiting, size_t i,
                               struct builder *builder, value item)
{
    struct snap_entry *entry = &builder->snapshot->entries[waiting->items[i].entry];
    uint32_t stack;

    if (LIKELY(event_list(builder, item, &stack))) {
        entry->stack = stack;
        entry->has |= SNAP_HAS_FRAMES;
        return ACRE_OK;
    }
    builder->offset = waiting->items[i].offset;
    if (VALUE_TAG(item) == TAG_EMPTY)
        return builder_memo_missing(builder, waiting->items[i].place);
    builder->offset = waiting->items[i].set_offset;
    return record_set_pairs(builder, VALUE(TAG_ENTRY, waiting->items[i].entry),
                            (value[]){VALUE(TAG_STRING, KEY_FRAMES), item}, 1);
}

/* Gives all of them their stacks. */
static acre_status waiting_end(struct waiting_events *waiting, struct builder *builder)
{
    value items[WAITING_MAX];
    uint64_t offset = builder->offset;
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < waiting->count; i++) {
        items[i] = memo_get(&builder->memo, waiting->items[i].place);
        if (VALUE_TAG(items[i]) == TAG_OBJECT)
            __builtin_prefetch(&builder->objects[VALUE_INDEX(items[i])]);
    }
    for (size_t i = 0; i < waiting->count && status == ACRE_OK; i++)
        status = waiting_set(waiting, i, builder, items[i]);
    waiting->count = 0;
    if (status == ACRE_OK)
        builder->offset = offset;
    return status;
}

/* Whether an empty dict comes next, with all that an event has behind it unless the data ends. */
static inline bool event_begins(struct input *input, acre_status *status)
{
    bool is_there = true;

    if (UNLIKELY(!input_has(input, INPUT_PADDING)) && !input->is_end)
        *status = input_fill(input, INPUT_PADDING, &is_there);
    return *status == ACRE_OK && input_has(input, 1) && input->window[input->at] == OP_EMPTY_DICT;
}

static acre_status read_events(struct input *input, struct builder *builder,
                               struct waiting_events *waiting, size_t *out_count)
{
    struct event event;
    acre_status status = ACRE_OK;

    while (status == ACRE_OK && event_begins(input, &status)) {
        event.at = input->window + input->at;
        bool has_place = event.at[1] != OP_MARK;
        if (!event_scan(builder, &event, &status) || event.at >= input->window + input->count)
            return status;
        input->at = (size_t)(event.at - input->window);
        builder->offset = input_offset(input);
        input->at++;
        status = event_make(builder, &event, has_place);
        ++*out_count;
        if (event.frames && status == ACRE_OK)
            waiting_add(waiting, input, builder, &event);
        if (waiting->count == WAITING_MAX)
            status = waiting_end(waiting, builder);
    }
    return status;
}

acre_status pickle_event_read(struct input *input, struct builder *builder, size_t *out_count)
{
    struct waiting_events waiting;

    waiting.count = 0;
    *out_count = 0;
    if (builder->mark_count == BUILDER_DEPTH)
        return ACRE_OK;
    acre_status status = read_events(input, builder, &waiting, out_count);
    acre_status first = waiting_end(&waiting, builder); /* of events before */
    return first == ACRE_OK ? status : first;
}
