/* SPDX-License-Identifier: MIT */
#include "format/snapshot/pickle_event.h"

#include "base/status.h"
#include "format/snapshot/builder_record.h"
#include "format/snapshot/pickle_op.h"

#include <string.h>

enum {
    PAIRS_MAX = 16, /* keys of an event; PyTorch writes up to 10  */
    KEPT_MAX = 4,   /* places in the memo that an event takes     */
};

/* Each pair takes 5 and 10 bytes at most, and 16 are around them. */
_Static_assert(PAIRS_MAX * 24 + 16 <= INPUT_PADDING, "an event ends in it");

/* An event under way. */
struct event {
    const unsigned char *at; /* next byte; all of the event are in the window    */
    value pairs[2 * PAIRS_MAX];
    size_t pair_count;
    uint64_t keys;        /* set of those met                                 */
    value kept[KEPT_MAX]; /* for the memo, one after another from its end on  */
    size_t kept_count;
};

/* A place in the memo, if there is one: behind all that is there. False: written otherwise. */
static inline bool event_keep(const struct builder *builder, struct event *event, value item)
{
    const unsigned char *at = event->at;
    uint64_t next = builder->memo_count + event->kept_count;

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
    if (index >= builder->memo_count)
        return false;
    *out = builder->memo[index];
    return VALUE_TAG(*out) != TAG_EMPTY;
}

static inline bool event_key(const struct builder *builder, struct event *event, value *out)
{
    const unsigned char *at = event->at;
    uint64_t index;

    if (*at == OP_BINGET) {
        index = at[1];
        event->at = at + 2;
    } else if (*at == OP_LONG_BINGET) {
        index = pickle_op_little32(at + 1);
        event->at = at + 5;
    } else {
        return false;
    }
    return event_recall(builder, index, out) && VALUE_TAG(*out) == TAG_STRING &&
           VALUE_INDEX(*out) <= KEY_FORWARD_FRAMES;
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

/* Reads one up to the instruction that sets its keys. */
static inline bool event_scan(struct builder *builder, struct event *event, acre_status *status)
{
    event->at++; /* the empty dict */
    event->pair_count = event->kept_count = 0;
    event->keys = 0;
    if (!event_keep(builder, event, VALUE_NONE) || *event->at++ != OP_MARK)
        return false;
    while (*event->at != OP_SETITEMS) {
        value *pair = &event->pairs[2 * event->pair_count];
        if (event->pair_count++ == PAIRS_MAX || !event_key(builder, event, &pair[0]) ||
            !event_value(builder, event, &pair[1], status))
            return false;
        event->keys |= (uint64_t)1 << VALUE_INDEX(pair[0]);
    }
    return record_is_entry(event->keys);
}

/* Makes the record, and does what the instructions would have done. */
static acre_status event_make(struct builder *builder, struct event *event, bool has_place)
{
    value object;
    acre_status status = record_add_entry(builder, event->pairs, event->pair_count, &object);

    for (size_t i = 0; i < event->kept_count && status == ACRE_OK; i++)
        status = builder_memo_keep(builder, builder->memo_count,
                                   i == 0 && has_place ? object : event->kept[i]);
    return status == ACRE_OK ? builder_push(builder, object) : status;
}

acre_status pickle_event_read(struct input *input, struct builder *builder, size_t *out_count)
{
    struct event event;
    acre_status status = ACRE_OK;

    *out_count = 0;
    if (builder->mark_count == BUILDER_DEPTH)
        return ACRE_OK;
    while (status == ACRE_OK && input_has(input, 1) && input->window[input->at] == OP_EMPTY_DICT) {
        event.at = input->window + input->at;
        bool has_place = event.at[1] != OP_MARK;
        if (!event_scan(builder, &event, &status) || event.at >= input->window + input->count)
            return status;
        input->at = (size_t)(event.at - input->window);
        builder->offset = input_offset(input);
        input->at++;
        status = event_make(builder, &event, has_place);
        ++*out_count;
    }
    return status;
}
