/* SPDX-License-Identifier: MIT */
/* The tables of a snapshot. Equal strings, frames, stacks, pools and origins are found by
 * hashing: an index holds item numbers in open addressing with linear probing, at
 * most half full, and the items themselves are the keys. */
#include "format/snapshot/snapshot.h"

#include "base/heap.h"
#include "base/process/hash.h"
#include "base/status.h"
#include "format/array.h"

#include <string.h>

static const char *const action_names[] = {
#define SNAP_ACTION(constant, name) name,
    SNAP_ACTIONS(SNAP_ACTION)
#undef SNAP_ACTION
};

static const char *const state_names[] = {
#define SNAP_STATE(constant, name) name,
    SNAP_STATES(SNAP_STATE)
#undef SNAP_STATE
};

static acre_status add_first_origin(struct snapshot *snapshot)
{
    uint32_t first;

    return snapshot_add_origin(snapshot,
                               &(struct snap_origin){.forward = SNAP_NONE,
                                                     .compile_context = SNAP_NONE,
                                                     .user_metadata = SNAP_NONE,
                                                     .pool = SNAP_NONE},
                               &first);
}

acre_status snapshot_create(struct snapshot **out)
{
    struct snapshot *snapshot = heap_zalloc(sizeof *snapshot);

    if (!snapshot)
        return ACRE_ERR_HOST_MEMORY;
    snapshot->settings = SNAP_NONE;
    acre_status status = add_first_origin(snapshot);
    if (status == ACRE_OK)
        *out = snapshot;
    else
        snapshot_destroy(snapshot);
    return status;
}

void snapshot_destroy(struct snapshot *snapshot)
{
    if (!snapshot)
        return;
    void *all[] = {snapshot->devices,
                   snapshot->entries,
                   snapshot->origins,
                   snapshot->segments,
                   snapshot->blocks,
                   snapshot->pasts,
                   snapshot->stacks,
                   snapshot->frame_ids,
                   snapshot->frames,
                   snapshot->texts,
                   snapshot->text_ids,
                   snapshot->pools,
                   snapshot->strings,
                   snapshot->bytes,
                   snapshot->annotations,
                   snapshot->values,
                   snapshot->other_actions,
                   snapshot->string_index.slots,
                   snapshot->frame_index.slots,
                   snapshot->stack_index.slots,
                   snapshot->text_index.slots,
                   snapshot->pool_index.slots,
                   snapshot->origin_index.slots};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        heap_free(all[i]);
    heap_free(snapshot);
}

/* ---- Finding equal items ----------------------------------------------------------- */

/* What is looked for, whichever the table. */
struct snapshot_key {
    const struct snapshot *snapshot;
    const void *data;
    size_t bytes;
};

/* Gives the bytes that an item of a table is compared by. */
typedef struct snapshot_key (*key_fn)(const struct snapshot *snapshot, uint32_t item);

static uint64_t hash_key(struct snapshot_key key)
{
    return hash_bytes(key.data, key.bytes);
}

static acre_status index_grow(struct snap_index *index, const struct snapshot *snapshot,
                              size_t item_count, key_fn key_of)
{
    size_t slot_count = index->slot_count ? index->slot_count : 64;

    if (index->slot_count && item_count < index->slot_count / 2)
        return ACRE_OK;
    while (slot_count / 2 <= item_count)
        slot_count *= 2;
    uint32_t *slots = heap_array(slot_count, sizeof *slots);
    if (!slots)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < index->slot_count; i++) {
        if (!index->slots[i])
            continue;
        size_t at = hash_key(key_of(snapshot, index->slots[i] - 1)) & (slot_count - 1);
        while (slots[at])
            at = (at + 1) & (slot_count - 1);
        slots[at] = index->slots[i];
    }
    heap_free(index->slots);
    index->slots = slots;
    index->slot_count = slot_count;
    return ACRE_OK;
}

/* Finds an equal item, or the slot where the next item, number item_count, is to be
 * noted; that one is noted already when ACRE_OK is returned and *out is it. */
static acre_status index_find(struct snap_index *index, struct snapshot_key key, size_t item_count,
                              key_fn key_of, uint32_t *out, uint32_t **out_slot)
{
    if (item_count >= SNAP_NONE - 1)
        return status_fail(ACRE_ERR_LIMIT, "a snapshot has more than 2^32 different texts or "
                                           "stacks; this is not supported");
    acre_status status = index_grow(index, key.snapshot, item_count, key_of);
    if (status != ACRE_OK)
        return status;
    size_t mask = index->slot_count - 1, at = hash_key(key) & mask;
    for (; index->slots[at]; at = (at + 1) & mask) {
        struct snapshot_key other = key_of(key.snapshot, index->slots[at] - 1);
        if (other.bytes == key.bytes && memcmp(other.data, key.data, key.bytes) == 0) {
            *out = index->slots[at] - 1;
            *out_slot = NULL;
            return ACRE_OK;
        }
    }
    *out = (uint32_t)item_count;
    *out_slot = &index->slots[at];
    return ACRE_OK;
}

static struct snapshot_key string_key(const struct snapshot *snapshot, uint32_t item)
{
    const struct snap_run *run = &snapshot->strings[item];

    return (struct snapshot_key){snapshot, snapshot->bytes + run->first, run->count};
}

static struct snapshot_key frame_key(const struct snapshot *snapshot, uint32_t item)
{
    return (struct snapshot_key){snapshot, &snapshot->frames[item], sizeof *snapshot->frames};
}

static struct snapshot_key ids_key(const struct snapshot *snapshot, const uint32_t *ids,
                                   struct snap_run run)
{
    return (struct snapshot_key){snapshot, run.count ? (const void *)(ids + run.first) : "",
                                 run.count * sizeof *ids};
}

static struct snapshot_key stack_key(const struct snapshot *snapshot, uint32_t item)
{
    return ids_key(snapshot, snapshot->frame_ids, snapshot->stacks[item]);
}

static struct snapshot_key text_key(const struct snapshot *snapshot, uint32_t item)
{
    return ids_key(snapshot, snapshot->text_ids, snapshot->texts[item]);
}

static struct snapshot_key pool_key(const struct snapshot *snapshot, uint32_t item)
{
    return (struct snapshot_key){snapshot, &snapshot->pools[item], sizeof *snapshot->pools};
}

static struct snapshot_key origin_key(const struct snapshot *snapshot, uint32_t item)
{
    return (struct snapshot_key){snapshot, &snapshot->origins[item], sizeof *snapshot->origins};
}

acre_status snapshot_add_string(struct snapshot *snapshot, const char *text, size_t length,
                                uint32_t *out)
{
    uint32_t *slot;
    acre_status status;

    if (length >= UINT32_MAX)
        return status_fail(ACRE_ERR_LIMIT, "a text of %zu bytes is too long", length);
    status = index_find(&snapshot->string_index, (struct snapshot_key){snapshot, text, length},
                        snapshot->string_count, string_key, out, &slot);
    if (status != ACRE_OK || !slot)
        return status;
    status = ARRAY_ROOM(snapshot, bytes, byte, length + 1);
    if (status == ACRE_OK)
        status = ARRAY_ROOM(snapshot, strings, string, 1);
    if (status != ACRE_OK)
        return status;
    memcpy(snapshot->bytes + snapshot->byte_count, text, length);
    snapshot->bytes[snapshot->byte_count + length] = '\0';
    snapshot->strings[snapshot->string_count++] =
        (struct snap_run){snapshot->byte_count, (uint32_t)length};
    snapshot->byte_count += length + 1;
    *slot = *out + 1;
    return ACRE_OK;
}

acre_status snapshot_add_frame(struct snapshot *snapshot, const struct snap_frame *frame,
                               uint32_t *out)
{
    struct snap_frame clean;
    uint32_t *slot;

    memset(&clean, 0, sizeof clean); /* padding takes part in comparisons */
    clean.file = frame->file;
    clean.name = frame->name;
    clean.line = frame->line;
    clean.extra = frame->extra;
    acre_status status =
        index_find(&snapshot->frame_index, (struct snapshot_key){snapshot, &clean, sizeof clean},
                   snapshot->frame_count, frame_key, out, &slot);
    if (status != ACRE_OK || !slot)
        return status;
    status = ARRAY_ROOM(snapshot, frames, frame, 1);
    if (status != ACRE_OK)
        return status;
    memcpy(&snapshot->frames[snapshot->frame_count++], &clean, sizeof clean);
    *slot = *out + 1;
    return ACRE_OK;
}

acre_status snapshot_adopt_stack(struct snapshot *snapshot, struct snap_run run, uint32_t *out)
{
    uint32_t *slot;
    acre_status status =
        index_find(&snapshot->stack_index, ids_key(snapshot, snapshot->frame_ids, run),
                   snapshot->stack_count, stack_key, out, &slot);

    if (status != ACRE_OK || !slot)
        return status;
    status = ARRAY_ROOM(snapshot, stacks, stack, 1);
    if (status != ACRE_OK)
        return status;
    snapshot->stacks[snapshot->stack_count++] = run;
    *slot = *out + 1;
    return ACRE_OK;
}

acre_status snapshot_add_stack(struct snapshot *snapshot, const uint32_t *frames, uint32_t count,
                               uint32_t *out)
{
    size_t stack_count = snapshot->stack_count;
    struct snap_run run = {snapshot->frame_id_count, count};
    acre_status status = ARRAY_ROOM(snapshot, frame_ids, frame_id, count);

    if (status != ACRE_OK)
        return status;
    if (count)
        memcpy(snapshot->frame_ids + run.first, frames, count * sizeof *frames);
    status = snapshot_adopt_stack(snapshot, run, out);
    if (snapshot->stack_count > stack_count)
        snapshot->frame_id_count += count;
    return status;
}

acre_status snapshot_add_texts(struct snapshot *snapshot, const uint32_t *strings, uint32_t count,
                               uint32_t *out)
{
    uint32_t *slot;
    acre_status status =
        index_find(&snapshot->text_index, ids_key(snapshot, strings, (struct snap_run){0, count}),
                   snapshot->text_count, text_key, out, &slot);

    if (status != ACRE_OK || !slot)
        return status;
    status = ARRAY_ROOM(snapshot, text_ids, text_id, count);
    if (status == ACRE_OK)
        status = ARRAY_ROOM(snapshot, texts, text, 1);
    if (status != ACRE_OK)
        return status;
    if (count)
        memcpy(snapshot->text_ids + snapshot->text_id_count, strings, count * sizeof *strings);
    snapshot->texts[snapshot->text_count++] = (struct snap_run){snapshot->text_id_count, count};
    snapshot->text_id_count += count;
    *slot = *out + 1;
    return ACRE_OK;
}

acre_status snapshot_add_pool(struct snapshot *snapshot, uint64_t first, uint64_t second,
                              uint32_t *out)
{
    struct snap_pool pool = {{first, second}};
    uint32_t *slot;
    acre_status status =
        index_find(&snapshot->pool_index, (struct snapshot_key){snapshot, &pool, sizeof pool},
                   snapshot->pool_count, pool_key, out, &slot);

    if (status != ACRE_OK || !slot)
        return status;
    status = ARRAY_ROOM(snapshot, pools, pool, 1);
    if (status != ACRE_OK)
        return status;
    snapshot->pools[snapshot->pool_count++] = pool;
    *slot = *out + 1;
    return ACRE_OK;
}

_Static_assert(sizeof(struct snap_origin) == 24, "origins have no padding to compare");

acre_status snapshot_add_origin(struct snapshot *snapshot, const struct snap_origin *origin,
                                uint32_t *out)
{
    struct snap_origin copy = *origin; /* it may be one of those that move */
    uint32_t *slot;

    *out = snapshot->last_origin;
    if (*out < snapshot->origin_count && memcmp(&snapshot->origins[*out], &copy, sizeof copy) == 0)
        return ACRE_OK;
    acre_status status =
        index_find(&snapshot->origin_index, (struct snapshot_key){snapshot, &copy, sizeof copy},
                   snapshot->origin_count, origin_key, out, &slot);
    if (status == ACRE_OK && slot)
        status = ARRAY_ROOM(snapshot, origins, origin, 1);
    if (status != ACRE_OK)
        return status;
    snapshot->last_origin = *out;
    if (slot) {
        snapshot->origins[snapshot->origin_count++] = copy;
        *slot = *out + 1;
    }
    return ACRE_OK;
}

acre_status snapshot_add_action(struct snapshot *snapshot, uint32_t name, uint16_t *out)
{
    const char *text = snapshot_string(snapshot, name, NULL);

    for (uint16_t i = 0; i < SNAP_OTHER; i++)
        if (strcmp(action_names[i], text) == 0) {
            *out = i;
            return ACRE_OK;
        }
    for (size_t i = 0; i < snapshot->other_action_count; i++)
        if (snapshot->other_actions[i] == name) {
            *out = (uint16_t)(SNAP_OTHER + i);
            return ACRE_OK;
        }
    if (snapshot->other_action_count >= 1000)
        return status_fail(ACRE_ERR_LIMIT, "the history has more than 1000 kinds of events");
    acre_status status = ARRAY_ROOM(snapshot, other_actions, other_action, 1);
    if (status != ACRE_OK)
        return status;
    *out = (uint16_t)(SNAP_OTHER + snapshot->other_action_count);
    snapshot->other_actions[snapshot->other_action_count++] = name;
    return ACRE_OK;
}

/* ---- Records ----------------------------------------------------------------------- */

acre_status snapshot_add_device(struct snapshot *snapshot, struct snap_device **out)
{
    acre_status status = ARRAY_ROOM(snapshot, devices, device, 1);

    if (status != ACRE_OK)
        return status;
    *out = &snapshot->devices[snapshot->device_count++];
    **out = (struct snap_device){.first_entry = snapshot->entry_count};
    return ACRE_OK;
}

acre_status snapshot_add_entry(struct snapshot *snapshot, struct snap_entry **out)
{
    acre_status status = ARRAY_ROOM(snapshot, entries, entry, 1);

    if (status != ACRE_OK)
        return status;
    if (snapshot->device_count)
        snapshot->devices[snapshot->device_count - 1].entry_count++;
    *out = &snapshot->entries[snapshot->entry_count++];
    **out = (struct snap_entry){.stack = SNAP_NONE};
    return ACRE_OK;
}

acre_status snapshot_add_segment(struct snapshot *snapshot, struct snap_segment **out)
{
    acre_status status = ARRAY_ROOM(snapshot, segments, segment, 1);

    if (status != ACRE_OK)
        return status;
    *out = &snapshot->segments[snapshot->segment_count++];
    **out = (struct snap_segment){.stack = SNAP_NONE,
                                  .forward = SNAP_NONE,
                                  .pool = SNAP_NONE,
                                  .type = SNAP_NONE,
                                  .first_block = snapshot->block_count};
    return ACRE_OK;
}

acre_status snapshot_add_block(struct snapshot *snapshot, struct snap_block **out)
{
    acre_status status = ARRAY_ROOM(snapshot, blocks, block, 1);

    if (status != ACRE_OK)
        return status;
    if (snapshot->segment_count)
        snapshot->segments[snapshot->segment_count - 1].block_count++;
    *out = &snapshot->blocks[snapshot->block_count++];
    **out = (struct snap_block){.stack = SNAP_NONE, .forward = SNAP_NONE};
    return ACRE_OK;
}

acre_status snapshot_add_annotation(struct snapshot *snapshot, struct snap_annotation **out)
{
    acre_status status = ARRAY_ROOM(snapshot, annotations, annotation, 1);

    if (status != ACRE_OK)
        return status;
    *out = &snapshot->annotations[snapshot->annotation_count++];
    **out = (struct snap_annotation){.values = SNAP_NONE};
    return ACRE_OK;
}

acre_status snapshot_add_value(struct snapshot *snapshot, uint32_t *first, uint32_t *last,
                               struct snap_value value)
{
    acre_status status = ARRAY_ROOM(snapshot, values, value, 1);

    if (status != ACRE_OK)
        return status;
    value.next = SNAP_NONE;
    uint32_t at = (uint32_t)snapshot->value_count;
    snapshot->values[snapshot->value_count++] = value;
    if (*last == SNAP_NONE)
        *first = at;
    else
        snapshot->values[*last].next = at;
    *last = at;
    return ACRE_OK;
}

/* ---- Reading ------------------------------------------------------------------------ */

const char *snapshot_string(const struct snapshot *snapshot, uint32_t id, size_t *length)
{
    if (length)
        *length = id == SNAP_NONE ? 0 : snapshot->strings[id].count;
    return id == SNAP_NONE ? "" : snapshot->bytes + snapshot->strings[id].first;
}

const char *snapshot_action_name(const struct snapshot *snapshot, uint16_t action)
{
    if (action < SNAP_OTHER)
        return action_names[action];
    return snapshot_string(snapshot, snapshot->other_actions[action - SNAP_OTHER], NULL);
}

const char *snapshot_state_name(uint8_t state)
{
    return state_names[state];
}

const struct snap_value *snapshot_setting(const struct snapshot *snapshot, const char *key)
{
    uint32_t at = snapshot->settings;

    for (; at != SNAP_NONE; at = snapshot->values[at].next)
        if (strcmp(snapshot_string(snapshot, snapshot->values[at].key, NULL), key) == 0)
            return &snapshot->values[at];
    return NULL;
}
