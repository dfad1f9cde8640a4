/* SPDX-License-Identifier: MIT */
#include "format/snapshot/builder.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "format/array.h"
#include "format/snapshot/builder_record.h"

#include <string.h>

/* Room that small files may take whatever their size. */
#define SLACK_BYTES ((uint64_t)4 << 20)

_Static_assert(KEY_COUNT <= 64, "a set of keys is 64 bits");

acre_status builder_init(struct builder *builder, const char *path)
{
    memset(builder, 0, sizeof *builder);
    builder->path = path;
    builder->last_pool[0] = VALUE_NONE;
    acre_status status = snapshot_create(&builder->snapshot);

    for (size_t i = 0; i < NAME_COUNT && status == ACRE_OK; i++) {
        uint32_t id;
        status = snapshot_add_string(builder->snapshot, key_names[i], strlen(key_names[i]), &id);
        CHECK(status != ACRE_OK || id == i);
    }
    if (status != ACRE_OK)
        builder_fini(builder);
    return status;
}

void builder_fini(struct builder *builder)
{
    for (size_t i = 0; i < builder->list_count; i++)
        if (builder->lists[i].kind == LIST_VALUES)
            heap_free(builder->lists[i].at.values);
    for (size_t i = 0; i < builder->dict_count; i++)
        heap_free(builder->dicts[i].pairs);
    heap_free(builder->stack);
    memo_fini(&builder->memo);
    heap_free(builder->objects);
    heap_free(builder->lists);
    heap_free(builder->dicts);
    heap_free(builder->drafts);
    heap_free(builder->numbers);
    snapshot_destroy(builder->snapshot);
    memset(builder, 0, sizeof *builder);
}

/* ---- Memory ------------------------------------------------------------------------- */

static uint64_t memory_taken(const struct builder *builder)
{
    const struct snapshot *snapshot = builder->snapshot;

    return builder->stack_count * sizeof *builder->stack + builder->memo.count * sizeof(value) +
           builder->object_count * sizeof *builder->objects +
           builder->list_count * sizeof *builder->lists +
           builder->dict_count * sizeof *builder->dicts +
           builder->draft_count * sizeof *builder->drafts +
           builder->number_count * sizeof *builder->numbers + builder->loose_bytes +
           snapshot->entry_count * sizeof *snapshot->entries +
           snapshot->origin_count * sizeof *snapshot->origins +
           snapshot->block_count * sizeof *snapshot->blocks +
           snapshot->segment_count * sizeof *snapshot->segments +
           snapshot->past_count * sizeof *snapshot->pasts +
           snapshot->frame_id_count * sizeof *snapshot->frame_ids + snapshot->byte_count;
}

acre_status builder_check_memory(struct builder *builder, uint64_t more)
{
    if (memory_taken(builder) + more <= BUILDER_FACTOR * builder->offset + SLACK_BYTES)
        return ACRE_OK;
    return BUILDER_FAIL(builder,
                        "the data asks for more than %d times the memory of what was "
                        "read so far; no snapshot does: the file is damaged or made to do harm",
                        BUILDER_FACTOR);
}

static acre_status builder_grow(struct builder *builder, void **items, size_t *capacity,
                                size_t need, size_t item_bytes)
{
    acre_status status = builder_check_memory(builder, (need - *capacity) * item_bytes);

    return status == ACRE_OK ? array_room(items, capacity, need, item_bytes) : status;
}

#define ROOM(builder, owner, items, item, more)                                                    \
    (LIKELY((owner)->item##_count + (more) <= (owner)->item##_capacity)                            \
         ? ACRE_OK                                                                                 \
         : builder_grow((builder), (void **)&(owner)->items, &(owner)->item##_capacity,            \
                        (owner)->item##_count + (more), sizeof *(owner)->items))

/* ---- Values -------------------------------------------------------------------------- */

acre_status builder_push_slow(struct builder *builder, value item)
{
    acre_status status = ROOM(builder, builder, stack, stack, 1);

    if (LIKELY(status == ACRE_OK))
        builder->stack[builder->stack_count++] = item;
    return status;
}

static acre_status push_number(struct builder *builder, struct number number)
{
    acre_status status = ROOM(builder, builder, numbers, number, 1);

    if (status != ACRE_OK)
        return status;
    builder->numbers[builder->number_count++] = number;
    return builder_push(builder, VALUE(TAG_NUMBER, builder->number_count - 1));
}

acre_status builder_push_integer(struct builder *builder, int64_t number)
{
    if (LIKELY(number >= -((int64_t)1 << 60) && number < (int64_t)1 << 60))
        return builder_push(builder, VALUE(TAG_INTEGER, (uint64_t)number));
    return push_number(builder, (struct number){.as.integer = (uint64_t)number});
}

acre_status builder_push_unsigned(struct builder *builder, uint64_t number)
{
    if (number < (uint64_t)1 << 60)
        return builder_push(builder, VALUE(TAG_INTEGER, number));
    return push_number(builder, (struct number){.as.integer = number});
}

acre_status builder_push_real(struct builder *builder, double number)
{
    return push_number(builder, (struct number){.is_real = true, .as.real = number});
}

acre_status builder_push_string(struct builder *builder, const char *text, size_t length)
{
    uint32_t id;
    acre_status status = snapshot_add_string(builder->snapshot, text, length, &id);

    return status == ACRE_OK ? builder_push(builder, VALUE(TAG_STRING, id)) : status;
}

static acre_status new_object(struct builder *builder, enum object_kind kind, uint64_t index,
                              value *out)
{
    acre_status status = ROOM(builder, builder, objects, object, 1);

    if (status != ACRE_OK)
        return status;
    *out = VALUE(TAG_OBJECT, builder->object_count);
    builder->objects[builder->object_count++] = index << 4 | (uint64_t)kind;
    return ACRE_OK;
}

acre_status builder_push_object(struct builder *builder, enum object_kind kind)
{
    value object;
    acre_status status = new_object(builder, kind, 0, &object);

    return status == ACRE_OK ? builder_push(builder, object) : status;
}

acre_status builder_mark(struct builder *builder)
{
    if (builder->mark_count == BUILDER_DEPTH)
        return BUILDER_FAIL(builder, "the data is nested more than %d deep; no snapshot is",
                            BUILDER_DEPTH);
    builder->marks[builder->mark_count++] = builder->stack_count;
    return ACRE_OK;
}

/* Finds the start of what an operation takes: above the last mark, or the top
 * count; one more value must stand below it when it needs a target. */
static acre_status builder_take(struct builder *builder, bool to_mark, size_t count,
                                bool needs_target, size_t *out_base)
{
    size_t below = builder->mark_count ? builder->marks[builder->mark_count - 1] : 0;

    if (to_mark) {
        if (builder->mark_count == 0)
            return BUILDER_FAIL(builder, "%s",
                                "the end of a group without its beginning; the "
                                "file is damaged");
        builder->mark_count--;
        *out_base = below;
        below = builder->mark_count ? builder->marks[builder->mark_count - 1] : 0;
    } else {
        if (builder->stack_count < below + count)
            return BUILDER_FAIL(builder, "%s",
                                "an operation lacks its values; the file is "
                                "damaged");
        *out_base = builder->stack_count - count;
    }
    if (needs_target && *out_base <= below)
        return BUILDER_FAIL(builder, "%s",
                            "an operation lacks its list or dict; the file is "
                            "damaged");
    return ACRE_OK;
}

/* ---- Memo ---------------------------------------------------------------------------- */

acre_status builder_memo_keep(struct builder *builder, uint64_t index, value item)
{
    struct memo *memo = &builder->memo;
    acre_status status = ACRE_OK;

    if (index < memo->count)
        return memo_set(memo, index, item);
    if (index > memo->count) {
        if (index - memo->count > builder->offset)
            return BUILDER_FAIL(builder,
                                "memo %llu is beyond what the file can hold; the file is "
                                "damaged",
                                (unsigned long long)index);
        status = builder_check_memory(builder, (index - memo->count) * sizeof(value));
        while (memo->count < index && status == ACRE_OK)
            status = memo_push(memo, VALUE(TAG_EMPTY, 0));
    }
    if (status == ACRE_OK && memo->count % MEMO_PAGE == 0)
        status = builder_check_memory(builder, MEMO_PAGE * sizeof(value));
    return status == ACRE_OK ? memo_push(memo, item) : status;
}

acre_status builder_memo_put(struct builder *builder, uint64_t index)
{
    if (builder->stack_count == 0)
        return BUILDER_FAIL(builder, "%s", "nothing to remember; the file is damaged");
    return builder_memo_keep(builder, index, builder->stack[builder->stack_count - 1]);
}

acre_status builder_memo_missing(struct builder *builder, uint64_t index)
{
    return BUILDER_FAIL(builder, "memo %llu was never set; the file is damaged",
                        (unsigned long long)index);
}

/* ---- Lists --------------------------------------------------------------------------- */

static acre_status values_push(struct builder *builder, struct builder_list *list, value item)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity + list->capacity / 2 + 4;
        acre_status status = builder_check_memory(builder, 8 * (capacity - list->capacity));
        if (status != ACRE_OK)
            return status;
        void *bigger = heap_realloc(list->at.values, capacity * sizeof item);
        if (!bigger)
            return ACRE_ERR_HOST_MEMORY;
        builder->loose_bytes += 8 * (capacity - list->capacity);
        list->at.values = bigger;
        list->capacity = (uint32_t)capacity;
    }
    if (list->count == UINT32_MAX - 8)
        return BUILDER_FAIL(builder, "%s", "a list has more than 2^32 items");
    list->at.values[list->count++] = item;
    return ACRE_OK;
}

/* The item of a list that is not kept as values. */
static acre_status list_item(struct builder *builder, const struct builder_list *list, uint32_t i,
                             value *out)
{
    if (list->kind == LIST_RANGE)
        return new_object(builder, list->record_kind, list->at.first + i, out);
    uint32_t number = builder->snapshot->frame_ids[list->at.first + i];
    if (list->kind == LIST_FRAMES)
        return new_object(builder, OBJECT_FRAME, number, out);
    *out = VALUE(TAG_INTEGER, number);
    return ACRE_OK;
}

/* Keeps the items of a list as values from now on. */
static acre_status list_spread(struct builder *builder, uint64_t index)
{
    struct builder_list old = builder->lists[index];
    struct builder_list spread = {.kind = LIST_VALUES, .is_tuple = old.is_tuple};
    acre_status status = ACRE_OK;

    for (uint32_t i = 0; i < old.count && status == ACRE_OK; i++) {
        value item;
        status = list_item(builder, &old, i, &item);
        if (status == ACRE_OK)
            status = values_push(builder, &spread, item);
    }
    if (status != ACRE_OK)
        heap_free(spread.at.values);
    else
        builder->lists[index] = spread;
    return status;
}

/* Appends to the numbers of a list, which stand at the end of frame_ids or move there. */
static acre_status numbers_push(struct builder *builder, struct builder_list *list, uint32_t number)
{
    struct snapshot *snapshot = builder->snapshot;
    bool is_last = list->at.first + list->count == snapshot->frame_id_count;
    size_t moved = is_last ? 0 : list->count;
    acre_status status = ROOM(builder, snapshot, frame_ids, frame_id, moved + 1);

    if (status != ACRE_OK)
        return status;
    if (moved)
        memcpy(snapshot->frame_ids + snapshot->frame_id_count, snapshot->frame_ids + list->at.first,
               moved * sizeof *snapshot->frame_ids);
    if (!is_last)
        list->at.first = snapshot->frame_id_count;
    snapshot->frame_id_count += moved;
    snapshot->frame_ids[snapshot->frame_id_count++] = number;
    list->count++;
    return ACRE_OK;
}

/* How a value is best kept in a list. */
static enum list_kind kind_for(const struct builder *builder, value item)
{
    if (VALUE_TAG(item) == TAG_INTEGER && VALUE_INDEX(item) < UINT32_MAX)
        return LIST_NUMBERS;
    if (!value_is_object(item))
        return LIST_VALUES;
    enum object_kind kind = builder_kind(builder, item);
    return kind == OBJECT_FRAME ? LIST_FRAMES : kind >= OBJECT_LIST ? LIST_RANGE : LIST_VALUES;
}

static acre_status list_push(struct builder *builder, uint64_t index, value item)
{
    struct builder_list *list = &builder->lists[index];
    enum list_kind kind = kind_for(builder, item);

    if (list->count == 0 && list->kind != LIST_VALUES) {
        list->kind = (uint8_t)kind;
        if (kind == LIST_RANGE) {
            list->record_kind = (uint8_t)builder_kind(builder, item);
            list->at.first = builder_index(builder, item);
        } else {
            list->at.first = 0;
        }
        if (kind == LIST_VALUES)
            list->at.values = NULL;
    }
    if (list->kind == LIST_RANGE && kind == LIST_RANGE &&
        list->record_kind == builder_kind(builder, item) &&
        builder_index(builder, item) == list->at.first + list->count &&
        list->count < UINT32_MAX - 8) {
        list->count++;
        return ACRE_OK;
    }
    if (list->kind == LIST_FRAMES && kind == LIST_FRAMES)
        return numbers_push(builder, list, (uint32_t)builder_index(builder, item));
    if (list->kind == LIST_NUMBERS && kind == LIST_NUMBERS)
        return numbers_push(builder, list, (uint32_t)VALUE_INDEX(item));
    if (list->kind != LIST_VALUES) {
        acre_status status = list_spread(builder, index);
        if (status != ACRE_OK)
            return status;
    }
    return values_push(builder, &builder->lists[index], item);
}

/* Gives a list or tuple a place for its items. */
static acre_status list_begin(struct builder *builder, value object, uint64_t *out)
{
    enum object_kind kind = builder_kind(builder, object);

    if (kind == OBJECT_LIST) {
        *out = builder_index(builder, object);
        return ACRE_OK;
    }
    acre_status status = ROOM(builder, builder, lists, list, 1);
    if (status != ACRE_OK)
        return status;
    *out = builder->list_count;
    builder->lists[builder->list_count++] =
        (struct builder_list){.is_tuple = kind == OBJECT_NEW_TUPLE};
    builder->objects[VALUE_INDEX(object)] = *out << 4 | OBJECT_LIST;
    return ACRE_OK;
}

/* Appends the values from base on to a list. */
static acre_status append_from(struct builder *builder, value object, size_t base)
{
    acre_status status = ACRE_OK;
    uint64_t index = 0;

    if (builder->stack_count > base)
        status = list_begin(builder, object, &index);
    for (size_t i = base; i < builder->stack_count && status == ACRE_OK; i++)
        status = list_push(builder, index, builder->stack[i]);
    builder->stack_count = base;
    return status;
}

acre_status builder_append(struct builder *builder, bool to_mark)
{
    size_t base = 0;
    acre_status status = builder_take(builder, to_mark, 1, true, &base);

    if (status != ACRE_OK)
        return status;
    value object = builder->stack[base - 1];
    if (!value_is_object(object) || (builder_kind(builder, object) != OBJECT_LIST &&
                                     builder_kind(builder, object) != OBJECT_NEW_LIST))
        return BUILDER_FAIL(builder, "%s",
                            "something is appended to what is no list; the file is "
                            "damaged");
    return append_from(builder, object, base);
}

/* ---- Dicts and tuples ------------------------------------------------------------------ */

static acre_status set_from(struct builder *builder, value object, size_t base)
{
    size_t count = builder->stack_count - base;

    if (count % 2)
        return BUILDER_FAIL(builder, "%s", "a dict has a key without a value; the file is damaged");
    const value *pairs = count ? builder->stack + base : NULL; /* there may be no stack */
    acre_status status = record_set_pairs(builder, object, pairs, count / 2);
    builder->stack_count = base;
    return status;
}

acre_status builder_set(struct builder *builder, bool to_mark)
{
    size_t base = 0;
    acre_status status = builder_take(builder, to_mark, 2, true, &base);

    if (status != ACRE_OK)
        return status;
    value object = builder->stack[base - 1];
    if (!value_is_object(object))
        return BUILDER_FAIL(builder, "%s", "a key is set in what is no dict; the file is damaged");
    return set_from(builder, object, base);
}

/* Two numbers, as pools are named: found again without any memory of their own. */
acre_status builder_pool(struct builder *builder, const value pair[2], value *out)
{
    uint32_t pool;

    if (pair[0] != builder->last_pool[0] || pair[1] != builder->last_pool[1]) {
        acre_status status =
            snapshot_add_pool(builder->snapshot, VALUE_INDEX(pair[0]), VALUE_INDEX(pair[1]), &pool);
        if (status != ACRE_OK)
            return status;
        builder->last_pool[0] = pair[0];
        builder->last_pool[1] = pair[1];
        builder->last_pool[2] = VALUE(TAG_POOL, pool);
    }
    *out = builder->last_pool[2];
    return ACRE_OK;
}

static acre_status make_pool(struct builder *builder, size_t base, bool *out_is_done)
{
    value *pair = builder->stack + base, pool;

    *out_is_done = VALUE_TAG(pair[0]) == TAG_INTEGER && VALUE_TAG(pair[1]) == TAG_INTEGER &&
                   (int64_t)pair[0] >= 0 && (int64_t)pair[1] >= 0;
    if (!*out_is_done)
        return ACRE_OK;
    acre_status status = builder_pool(builder, pair, &pool);
    if (status != ACRE_OK)
        return status;
    builder->stack_count = base;
    return builder_push(builder, pool);
}

static acre_status tuple_from(struct builder *builder, size_t base)
{
    bool is_done = false;
    acre_status status = ACRE_OK;
    value object;

    if (builder->stack_count - base == 2)
        status = make_pool(builder, base, &is_done);
    if (status != ACRE_OK || is_done)
        return status;
    status = new_object(builder, OBJECT_NEW_TUPLE, 0, &object);
    if (status == ACRE_OK)
        status = append_from(builder, object, base);
    return status == ACRE_OK ? builder_push(builder, object) : status;
}

acre_status builder_tuple(struct builder *builder, size_t count)
{
    size_t base = 0;
    acre_status status = builder_take(builder, false, count, false, &base);

    return status == ACRE_OK ? tuple_from(builder, base) : status;
}

acre_status builder_collect(struct builder *builder, enum object_kind kind)
{
    size_t base = 0;
    value object;
    acre_status status = builder_take(builder, true, 0, false, &base);

    if (status != ACRE_OK)
        return status;
    if (kind == OBJECT_NEW_TUPLE)
        return tuple_from(builder, base);
    status = new_object(builder, kind, 0, &object);
    if (status == ACRE_OK)
        status = kind == OBJECT_NEW_LIST ? append_from(builder, object, base)
                                         : set_from(builder, object, base);
    return status == ACRE_OK ? builder_push(builder, object) : status;
}
