/* SPDX-License-Identifier: MIT */
#include "format/snapshot/pickle_write.h"

#include "base/heap.h"
#include "format/snapshot/keys.h"

/* Items that are appended to a list at once. */
#define BATCH 1000

struct pickle_writer {
    const struct snapshot *snapshot;
    struct sink *sink;
    uint32_t memo_count;
    uint32_t *string_memo, *frame_memo, *stack_memo, *text_memo, *pool_memo; /* number + 1 */
    uint32_t key_memo[NAME_COUNT];
};

/* ---- Values ---------------------------------------------------------------------------- */

static void put_little(struct pickle_writer *writer, uint64_t number, unsigned bytes)
{
    unsigned char out[8];

    for (unsigned i = 0; i < bytes; i++)
        out[i] = (unsigned char)(number >> (8 * i));
    sink_put(writer->sink, out, bytes);
}

/* Refers to what was written before; false when it was not. */
static bool put_known(struct pickle_writer *writer, uint32_t memo)
{
    if (memo == 0)
        return false;
    sink_byte(writer->sink, memo - 1 < 256 ? 'h' : 'j');
    put_little(writer, memo - 1, memo - 1 < 256 ? 1 : 4);
    return true;
}

/* Gives what was just written a number. */
static void pickle_write_remember(struct pickle_writer *writer, uint32_t *memo)
{
    sink_byte(writer->sink, 0x94);
    *memo = ++writer->memo_count;
}

static void put_text(struct pickle_writer *writer, const char *text, size_t length, uint32_t *memo)
{
    if (put_known(writer, *memo))
        return;
    sink_byte(writer->sink, length < 256 ? 0x8c : 'X');
    put_little(writer, length, length < 256 ? 1 : 4);
    sink_put(writer->sink, text, length);
    pickle_write_remember(writer, memo);
}

static void put_string(struct pickle_writer *writer, uint32_t id)
{
    size_t length;
    const char *text = snapshot_string(writer->snapshot, id, &length);

    put_text(writer, text, length, &writer->string_memo[id]);
}

static void put_key(struct pickle_writer *writer, unsigned key)
{
    put_text(writer, key_names[key], strlen(key_names[key]), &writer->key_memo[key]);
}

static void put_unsigned(struct pickle_writer *writer, uint64_t number)
{
    if (number < 256) {
        sink_byte(writer->sink, 'K');
        put_little(writer, number, 1);
    } else if (number < 65536) {
        sink_byte(writer->sink, 'M');
        put_little(writer, number, 2);
    } else if (number <= INT32_MAX) {
        sink_byte(writer->sink, 'J');
        put_little(writer, number, 4);
    } else {
        unsigned bytes = number >> 63   ? 9
                         : number >> 55 ? 8
                         : number >> 47 ? 7
                         : number >> 39 ? 6
                                        : 5;
        sink_byte(writer->sink, 0x8a);
        sink_byte(writer->sink, (unsigned char)bytes);
        put_little(writer, number, bytes > 8 ? 8 : bytes);
        if (bytes > 8)
            sink_byte(writer->sink, 0);
    }
}

static void put_integer(struct pickle_writer *writer, int64_t number)
{
    if (number >= 0) {
        put_unsigned(writer, (uint64_t)number);
    } else if (number >= INT32_MIN) {
        sink_byte(writer->sink, 'J');
        put_little(writer, (uint64_t)number, 4);
    } else {
        sink_put(writer->sink, "\x8a\x08", 2);
        put_little(writer, (uint64_t)number, 8);
    }
}

static void put_real(struct pickle_writer *writer, double number)
{
    uint64_t bits;
    unsigned char out[9] = {'G'};

    memcpy(&bits, &number, sizeof bits);
    for (int i = 0; i < 8; i++)
        out[1 + i] = (unsigned char)(bits >> (56 - 8 * i));
    sink_put(writer->sink, out, sizeof out);
}

static void put_bool(struct pickle_writer *writer, bool is_true)
{
    sink_byte(writer->sink, is_true ? 0x88 : 0x89);
}

static void put_field(struct pickle_writer *writer, unsigned key, uint64_t number)
{
    put_key(writer, key);
    put_unsigned(writer, number);
}

/* Lists in batches, so that no reader needs a long stack. */
static void list_begin(struct pickle_writer *writer)
{
    sink_text(writer->sink, "](");
}

static void list_next(struct pickle_writer *writer, uint64_t i)
{
    if (i && i % BATCH == 0)
        sink_text(writer->sink, "e(");
}

static void list_end(struct pickle_writer *writer)
{
    sink_byte(writer->sink, 'e');
}

static void put_values(struct pickle_writer *writer, uint32_t first);

static void put_value(struct pickle_writer *writer, const struct snap_value *value)
{
    switch ((enum snap_kind)value->kind) {
    case SNAP_NULL:
        sink_byte(writer->sink, 'N');
        break;
    case SNAP_BOOL:
        put_bool(writer, value->as.integer != 0);
        break;
    case SNAP_INTEGER:
        put_integer(writer, value->as.integer);
        break;
    case SNAP_REAL:
        put_real(writer, value->as.real);
        break;
    case SNAP_STRING:
        put_string(writer, value->as.string);
        break;
    case SNAP_LIST:
        list_begin(writer);
        put_values(writer, value->as.child);
        list_end(writer);
        break;
    case SNAP_TUPLE:
        sink_byte(writer->sink, '(');
        put_values(writer, value->as.child);
        sink_byte(writer->sink, 't');
        break;
    case SNAP_DICT:
        sink_text(writer->sink, "}(");
        put_values(writer, value->as.child);
        sink_byte(writer->sink, 'u');
        break;
    }
}

/* A chain of values, with their keys where they have any. */
static void put_values(struct pickle_writer *writer, uint32_t first)
{
    for (uint32_t at = first; at != SNAP_NONE; at = writer->snapshot->values[at].next) {
        const struct snap_value *value = &writer->snapshot->values[at];
        if (value->key != SNAP_NONE)
            put_string(writer, value->key);
        put_value(writer, value);
    }
}

/* ---- Stacks and pools ---------------------------------------------------------------------- */

static void put_frame(struct pickle_writer *writer, uint32_t id)
{
    const struct snap_frame *frame = &writer->snapshot->frames[id];

    if (put_known(writer, writer->frame_memo[id]))
        return;
    sink_byte(writer->sink, '}');
    pickle_write_remember(writer, &writer->frame_memo[id]);
    sink_byte(writer->sink, '(');
    if (frame->file != SNAP_NONE) {
        put_key(writer, KEY_FILENAME);
        put_string(writer, frame->file);
    }
    put_key(writer, KEY_LINE);
    put_integer(writer, frame->line);
    if (frame->name != SNAP_NONE) {
        put_key(writer, KEY_NAME);
        put_string(writer, frame->name);
    }
    put_values(writer, frame->extra);
    sink_byte(writer->sink, 'u');
}

static void put_stack(struct pickle_writer *writer, uint32_t id)
{
    if (id == SNAP_NONE) {
        sink_byte(writer->sink, ']');
        return;
    }
    if (put_known(writer, writer->stack_memo[id]))
        return;
    const struct snap_run *run = &writer->snapshot->stacks[id];
    sink_byte(writer->sink, ']');
    pickle_write_remember(writer, &writer->stack_memo[id]);
    sink_byte(writer->sink, '(');
    for (uint32_t i = 0; i < run->count; i++) {
        list_next(writer, i);
        put_frame(writer, writer->snapshot->frame_ids[run->first + i]);
    }
    list_end(writer);
}

static void put_frames(struct pickle_writer *writer, uint8_t has, uint32_t stack, uint32_t forward)
{
    if (has & SNAP_HAS_FRAMES) {
        put_key(writer, KEY_FRAMES);
        put_stack(writer, stack);
    }
    if (forward == SNAP_NONE)
        return;
    put_key(writer, KEY_FORWARD_FRAMES);
    if (put_known(writer, writer->text_memo[forward]))
        return;
    const struct snap_run *run = &writer->snapshot->texts[forward];
    sink_byte(writer->sink, ']');
    pickle_write_remember(writer, &writer->text_memo[forward]);
    sink_byte(writer->sink, '(');
    for (uint32_t i = 0; i < run->count; i++)
        put_string(writer, writer->snapshot->text_ids[run->first + i]);
    list_end(writer);
}

static void put_pool(struct pickle_writer *writer, unsigned key, uint32_t pool, uint8_t has)
{
    if (!(has & SNAP_HAS_POOL) || pool == SNAP_NONE)
        return;
    const struct snap_pool *ids = &writer->snapshot->pools[pool];
    put_key(writer, key);
    if (has & SNAP_HAS_POOL_LIST) {
        list_begin(writer);
        put_unsigned(writer, ids->id[0]);
        put_unsigned(writer, ids->id[1]);
        list_end(writer);
        return;
    }
    if (put_known(writer, writer->pool_memo[pool]))
        return;
    put_unsigned(writer, ids->id[0]);
    put_unsigned(writer, ids->id[1]);
    sink_byte(writer->sink, 0x86);
    pickle_write_remember(writer, &writer->pool_memo[pool]);
}

/* ---- Records -------------------------------------------------------------------------------- */

static void put_name(struct pickle_writer *writer, unsigned key, unsigned name)
{
    put_key(writer, key);
    put_text(writer, key_names[name], strlen(key_names[name]), &writer->key_memo[name]);
}

static void put_entry(struct pickle_writer *writer, const struct snap_entry *entry)
{
    const struct snapshot *snapshot = writer->snapshot;
    const struct snap_origin *origin = snapshot_origin(snapshot, entry);

    sink_text(writer->sink, "}(");
    if (entry->action < SNAP_OTHER) {
        put_name(writer, KEY_ACTION, FIRST_ACTION + entry->action);
    } else {
        put_key(writer, KEY_ACTION);
        put_string(writer, snapshot->other_actions[entry->action - SNAP_OTHER]);
    }
    put_field(writer, entry->action == SNAP_OOM ? KEY_DEVICE_FREE : KEY_ADDR, entry->address);
    put_field(writer, KEY_SIZE, entry->bytes);
    put_field(writer, KEY_STREAM, origin->stream);
    if (entry->has & SNAP_HAS_TIME) {
        put_key(writer, KEY_TIME_US);
        put_integer(writer, entry->time_us);
    }
    if (origin->compile_context != SNAP_NONE) {
        put_key(writer, KEY_COMPILE_CONTEXT);
        put_string(writer, origin->compile_context);
    }
    if (origin->user_metadata != SNAP_NONE) {
        put_key(writer, KEY_USER_METADATA);
        put_string(writer, origin->user_metadata);
    }
    put_pool(writer, KEY_POOL_ID, origin->pool, entry->has);
    put_frames(writer, entry->has, entry->stack, origin->forward);
    sink_byte(writer->sink, 'u');
}

static void put_past(struct pickle_writer *writer, const struct snap_past *past)
{
    sink_text(writer->sink, "}(");
    put_field(writer, KEY_ADDR, past->address);
    put_field(writer, KEY_REAL_SIZE, past->bytes);
    put_frames(writer, past->has, past->stack, SNAP_NONE);
    sink_byte(writer->sink, 'u');
}

static void put_block(struct pickle_writer *writer, const struct snap_block *block)
{
    sink_text(writer->sink, "}(");
    if (block->has & SNAP_HAS_ADDRESS)
        put_field(writer, KEY_ADDRESS, block->address);
    put_field(writer, KEY_SIZE, block->bytes);
    if (block->has & SNAP_HAS_REQUESTED)
        put_field(writer, KEY_REQUESTED_SIZE, block->requested_bytes);
    put_name(writer, KEY_STATE, FIRST_STATE + block->state);
    put_frames(writer, block->has, block->stack, block->forward);
    if (block->has & SNAP_HAS_HISTORY) {
        put_key(writer, KEY_HISTORY);
        list_begin(writer);
        for (uint32_t i = 0; i < block->past_count; i++) {
            list_next(writer, i);
            put_past(writer, &writer->snapshot->pasts[block->first_past + i]);
        }
        list_end(writer);
    }
    sink_byte(writer->sink, 'u');
}

static void put_segment(struct pickle_writer *writer, const struct snap_segment *segment)
{
    sink_text(writer->sink, "}(");
    put_field(writer, KEY_DEVICE, segment->device);
    put_field(writer, KEY_ADDRESS, segment->address);
    put_field(writer, KEY_TOTAL_SIZE, segment->bytes);
    put_field(writer, KEY_ALLOCATED_SIZE, segment->allocated_bytes);
    put_field(writer, KEY_ACTIVE_SIZE, segment->active_bytes);
    if (segment->has & SNAP_HAS_REQUESTED)
        put_field(writer, KEY_REQUESTED_SIZE, segment->requested_bytes);
    put_field(writer, KEY_STREAM, segment->stream);
    if (segment->type != SNAP_NONE) {
        put_key(writer, KEY_SEGMENT_TYPE);
        put_string(writer, segment->type);
    }
    put_pool(writer, KEY_SEGMENT_POOL_ID, segment->pool, segment->has);
    if (segment->has & SNAP_HAS_EXPANDABLE) {
        put_key(writer, KEY_IS_EXPANDABLE);
        put_bool(writer, segment->is_expandable);
    }
    put_frames(writer, segment->has, segment->stack, segment->forward);
    put_key(writer, KEY_BLOCKS);
    list_begin(writer);
    for (uint64_t i = 0; i < segment->block_count; i++) {
        list_next(writer, i);
        put_block(writer, &writer->snapshot->blocks[segment->first_block + i]);
    }
    list_end(writer);
    sink_byte(writer->sink, 'u');
}

/* ---- The file -------------------------------------------------------------------------------- */

static void put_segments(struct pickle_writer *writer)
{
    list_begin(writer);
    for (size_t i = 0; i < writer->snapshot->segment_count; i++) {
        list_next(writer, i);
        put_segment(writer, &writer->snapshot->segments[i]);
    }
    list_end(writer);
}

static void put_traces(struct pickle_writer *writer)
{
    const struct snapshot *snapshot = writer->snapshot;

    put_key(writer, KEY_DEVICE_TRACES);
    list_begin(writer);
    for (size_t device = 0; device < snapshot->trace_count; device++) {
        list_begin(writer);
        for (uint64_t i = 0; i < snapshot->devices[device].entry_count; i++) {
            list_next(writer, i);
            put_entry(writer, &snapshot->entries[snapshot->devices[device].first_entry + i]);
        }
        list_end(writer);
    }
    list_end(writer);
}

static void put_annotations(struct pickle_writer *writer)
{
    const struct snapshot *snapshot = writer->snapshot;

    put_key(writer, KEY_EXTERNAL_ANNOTATIONS);
    list_begin(writer);
    for (size_t i = 0; i < snapshot->annotation_count; i++) {
        const struct snap_annotation *annotation = &snapshot->annotations[i];
        list_next(writer, i);
        sink_text(writer->sink, "}(");
        put_values(writer, annotation->values);
        if (annotation->has_device)
            put_field(writer, KEY_DEVICE, annotation->device);
        if (annotation->has_time) {
            put_key(writer, KEY_TIME_US);
            put_integer(writer, annotation->time_us);
        }
        sink_byte(writer->sink, 'u');
    }
    list_end(writer);
}

static void put_top(struct pickle_writer *writer)
{
    const struct snapshot *snapshot = writer->snapshot;

    sink_put(writer->sink, "\x80\x04", 2);
    if (snapshot->is_bare_list) {
        put_segments(writer);
        sink_byte(writer->sink, '.');
        return;
    }
    sink_text(writer->sink, "}(");
    put_key(writer, KEY_SEGMENTS);
    put_segments(writer);
    if (snapshot->has_traces)
        put_traces(writer);
    if (snapshot->has_settings) {
        put_key(writer, KEY_ALLOCATOR_SETTINGS);
        sink_text(writer->sink, "}(");
        put_values(writer, snapshot->settings);
        sink_byte(writer->sink, 'u');
    }
    if (snapshot->has_annotations)
        put_annotations(writer);
    sink_text(writer->sink, "u.");
}

acre_status pickle_write(const struct snapshot *snapshot, struct sink *sink)
{
    struct pickle_writer writer = {.snapshot = snapshot, .sink = sink};
    acre_status status = ACRE_ERR_HOST_MEMORY;

    writer.string_memo = heap_array(snapshot->string_count + 1, sizeof *writer.string_memo);
    writer.frame_memo = heap_array(snapshot->frame_count + 1, sizeof *writer.frame_memo);
    writer.stack_memo = heap_array(snapshot->stack_count + 1, sizeof *writer.stack_memo);
    writer.text_memo = heap_array(snapshot->text_count + 1, sizeof *writer.text_memo);
    writer.pool_memo = heap_array(snapshot->pool_count + 1, sizeof *writer.pool_memo);
    if (writer.string_memo && writer.frame_memo && writer.stack_memo && writer.text_memo &&
        writer.pool_memo) {
        put_top(&writer);
        status = ACRE_OK;
    }
    heap_free(writer.string_memo);
    heap_free(writer.frame_memo);
    heap_free(writer.stack_memo);
    heap_free(writer.text_memo);
    heap_free(writer.pool_memo);
    return status;
}
