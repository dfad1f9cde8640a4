/* SPDX-License-Identifier: MIT */
/* Builds a snapshot from the parts that a pickle or a JSON text names one by one.
 *
 * A stack machine, as pickles are written for it: values are pushed; a mark and
 * "append all above the mark" or "set all above the mark" fill lists and dicts.
 * A dict that turns out to be an event, a segment, a block or a frame becomes a
 * record of the snapshot at once, so that memory follows the records and not the
 * text. Lists of consecutive records are kept as a range, lists of frames as
 * numbers. What is shared in the file, stacks above all, stays shared.
 *
 *   value (64 bits)   tag in the low 3 bits, the rest is a number or an index
 *   object            a dict, list or record; others refer to it by its index, so
 *                     that it may still change
 *
 * Memory is bounded: it may not exceed BUILDER_FACTOR times what was read, and the
 * stack of marks is BUILDER_DEPTH deep. Texts are read as they come.
 *
 * Not thread-safe.
 */
#ifndef SRC_FORMAT_BUILDER_H
#define SRC_FORMAT_BUILDER_H

#include "base/check.h"
#include "format/snapshot/keys.h"
#include "format/snapshot/memo.h"
#include "format/snapshot/snapshot.h"

#define BUILDER_DEPTH 64
#define BUILDER_FACTOR 12

enum tag {
    TAG_INTEGER,
    TAG_STRING,
    TAG_OBJECT,
    TAG_NUMBER,
    TAG_CONSTANT,
    TAG_POOL,
    TAG_EMPTY,
    TAG_ENTRY /* an object that was an event from the beginning: index of entries */
};

/* A value: tag and, above it, an integer of 61 bits, a string, an object, an index of
 * numbers, a constant, an index of pools. */
typedef uint64_t value;

#define VALUE(tag, number) ((value)(number) << 3 | (tag))
#define VALUE_TAG(v) ((enum tag)((v) & 7))
#define VALUE_INDEX(v) ((v) >> 3)
#define VALUE_NONE VALUE(TAG_CONSTANT, 0)
#define VALUE_FALSE VALUE(TAG_CONSTANT, 1)
#define VALUE_TRUE VALUE(TAG_CONSTANT, 2)

/* What an object is. NEW_*: nothing is in it, and nothing is kept for it. */
enum object_kind {
    OBJECT_NEW_DICT,
    OBJECT_NEW_LIST,
    OBJECT_NEW_TUPLE,
    OBJECT_DICT,     /* index of dicts                 */
    OBJECT_LIST,     /* index of lists                 */
    OBJECT_ENTRY,    /* index of the snapshot's tables */
    OBJECT_SEGMENT,
    OBJECT_BLOCK,
    OBJECT_PAST,
    OBJECT_FRAME,    /* index of drafts                */
};

/* A number that does not fit a value. */
struct number {
    bool is_real;
    union {
        double real;
        uint64_t integer;
    } as;
};

/* How the items of a list are kept. */
enum list_kind {
    LIST_RANGE,   /* records first .. first + count - 1 of record_kind      */
    LIST_FRAMES,  /* drafts, in frame_ids from first                        */
    LIST_NUMBERS, /* integers below 2^32, in frame_ids from first           */
    LIST_VALUES,  /* values                                                 */
};

struct builder_list {
    union {
        uint64_t first;
        value *values; /* owned */
    } at;
    uint32_t count, capacity;
    uint8_t kind, record_kind;
    bool is_tuple;
};

struct pair {
    value key, value;
};

struct dict {
    struct pair *pairs; /* owned; a later key wins */
    uint32_t count, capacity;
};

struct builder {
    struct snapshot *snapshot;
    const char *path;       /* for messages                                          */
    uint64_t offset;        /* of what is read now, for messages                     */
    bool is_json;
    value *stack;
    size_t stack_count, stack_capacity;
    size_t marks[BUILDER_DEPTH];
    size_t mark_count;
    struct memo memo;
    uint64_t *objects;      /* index << 4 | enum object_kind                         */
    size_t object_count, object_capacity;
    struct builder_list *lists;
    size_t list_count, list_capacity;
    struct dict *dicts;
    size_t dict_count, dict_capacity;
    struct snap_frame *drafts; /* frames as read, not yet compared                   */
    size_t draft_count, draft_capacity;
    struct number *numbers;
    size_t number_count, number_capacity;
    uint64_t record_count;  /* made so far                                           */
    uint64_t loose_bytes;   /* of dicts and lists, outside the arrays                */
    value last_pool[3];     /* two integers and the pool made of them                */
};

#define BUILDER_FAIL(builder, format, ...)                                     \
    status_fail(ACRE_ERR_FORMAT, "%s: at offset %llu: " format, (builder)->path, \
                (unsigned long long)(builder)->offset, __VA_ARGS__)

/* Errors of all calls: ACRE_ERR_HOST_MEMORY; ACRE_ERR_FORMAT with file and offset. */
acre_status builder_init(struct builder *builder, const char *path);
void builder_fini(struct builder *builder);

acre_status builder_push_slow(struct builder *builder, value item); /* with more room */
acre_status builder_push_integer(struct builder *builder, int64_t number);
acre_status builder_push_unsigned(struct builder *builder, uint64_t number);
acre_status builder_push_real(struct builder *builder, double number);
acre_status builder_push_string(struct builder *builder, const char *text, size_t length);
/* A new, empty dict, list or tuple. */
acre_status builder_push_object(struct builder *builder, enum object_kind kind);
acre_status builder_mark(struct builder *builder);

/* Appends what stands above the mark, or the top one, to the list below. */
acre_status builder_append(struct builder *builder, bool to_mark);
/* Sets the pairs above the mark, or the top one, in the dict below. */
acre_status builder_set(struct builder *builder, bool to_mark);
/* Replaces what stands above the mark by a list, tuple or dict of it. */
acre_status builder_collect(struct builder *builder, enum object_kind kind);
/* Replaces the top count by a tuple. */
acre_status builder_tuple(struct builder *builder, size_t count);

/* A pool of two integers that are not below zero. */
acre_status builder_pool(struct builder *builder, const value pair[2], value *out);

acre_status builder_memo_put(struct builder *builder, uint64_t index);
/* The same for a value that stands nowhere. */
acre_status builder_memo_keep(struct builder *builder, uint64_t index, value item);
acre_status builder_memo_missing(struct builder *builder, uint64_t index); /* the error */

/* Whether what is built may still grow by a number of bytes. */
acre_status builder_check_memory(struct builder *builder, uint64_t more);

/* These two are most of what a pickle does. */
static inline acre_status builder_push(struct builder *builder, value item)
{
    if (UNLIKELY(builder->stack_count == builder->stack_capacity))
        return builder_push_slow(builder, item);
    builder->stack[builder->stack_count++] = item;
    return ACRE_OK;
}

static inline acre_status builder_memo_get(struct builder *builder, uint64_t index)
{
    value item = LIKELY(index < builder->memo.count) ? memo_get(&builder->memo, index)
                                                     : VALUE(TAG_EMPTY, 0);

    if (UNLIKELY(VALUE_TAG(item) == TAG_EMPTY))
        return builder_memo_missing(builder, index);
    return builder_push(builder, item);
}

static inline bool value_is_object(value item)
{
    return VALUE_TAG(item) == TAG_OBJECT || VALUE_TAG(item) == TAG_ENTRY;
}

/* What an object is, and its index among those of that kind. */
static inline enum object_kind builder_kind(const struct builder *builder, value item)
{
    if (VALUE_TAG(item) == TAG_ENTRY)
        return OBJECT_ENTRY;
    return (enum object_kind)(builder->objects[VALUE_INDEX(item)] & 15);
}

static inline uint64_t builder_index(const struct builder *builder, value item)
{
    if (VALUE_TAG(item) == TAG_ENTRY)
        return VALUE_INDEX(item);
    return builder->objects[VALUE_INDEX(item)] >> 4;
}

#endif
