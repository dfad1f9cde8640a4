/* SPDX-License-Identifier: MIT */
#include "format/snapshot/json_write.h"

#include "base/heap.h"
#include "format/snapshot/keys.h"

#include <math.h>
#include <stdio.h>

struct json_writer {
    const struct snapshot *snapshot;
    struct sink *sink;
    bool has_item; /* a comma comes before the next item or pair */
};

/* ---- Strings ------------------------------------------------------------------------------- */

/* Length of the UTF-8 sequence at text, and its code; 0 for what is none. Halves of
 * surrogate pairs are let through: pickles have them. */
static size_t utf8_at(const unsigned char *text, size_t left, uint32_t *out)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = text[0] < 0xc0   ? 0
                    : text[0] < 0xe0 ? 2
                    : text[0] < 0xf0 ? 3
                    : text[0] < 0xf8 ? 4
                                     : 0;

    if (length == 0 || length > left)
        return 0;
    *out = text[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *out = *out << 6 | (text[i] & 0x3f);
    }
    return *out >= smallest[length] && *out < 0x110000 ? length : 0;
}

void json_write_string(struct sink *sink, const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    char escape[8];

    sink_byte(sink, '"');
    while (at < end) {
        const unsigned char *from = at;
        while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\')
            at++;
        sink_put(sink, from, (size_t)(at - from));
        if (at == end)
            break;
        uint32_t code = 0xfffd;
        size_t taken = *at < 0x80 ? 1 : utf8_at(at, (size_t)(end - at), &code);
        if (*at == '"' || *at == '\\') {
            sink_byte(sink, '\\');
            sink_byte(sink, *at);
        } else if (*at < 0x20 || (code >= 0xd800 && code < 0xe000)) {
            snprintf(escape, sizeof escape, "\\u%04x", *at < 0x20 ? *at : (unsigned)code & 0xffff);
            sink_text(sink, escape);
        } else if (taken) {
            sink_put(sink, at, taken);
        } else {
            sink_text(sink, "\\ufffd");
        }
        at += taken ? taken : 1;
    }
    sink_byte(sink, '"');
}

/* ---- Structure ------------------------------------------------------------------------------ */

static void json_write_separate(struct json_writer *writer)
{
    if (writer->has_item)
        sink_byte(writer->sink, ',');
    writer->has_item = true;
}

static void json_write_begin(struct json_writer *writer, char open)
{
    sink_byte(writer->sink, (unsigned char)open);
    writer->has_item = false;
}

static void json_write_end(struct json_writer *writer, char close)
{
    sink_byte(writer->sink, (unsigned char)close);
    writer->has_item = true;
}

static void put_name(struct json_writer *writer, const char *name, size_t length)
{
    json_write_separate(writer);
    json_write_string(writer->sink, name, length);
    sink_byte(writer->sink, ':');
}

static void put_key(struct json_writer *writer, unsigned key)
{
    put_name(writer, key_names[key], strlen(key_names[key]));
}

static void put_field(struct json_writer *writer, unsigned key, uint64_t number)
{
    put_key(writer, key);
    sink_unsigned(writer->sink, number);
}

static void put_string(struct json_writer *writer, uint32_t id)
{
    size_t length;
    const char *text = snapshot_string(writer->snapshot, id, &length);

    json_write_string(writer->sink, text, length);
}

static void put_line(struct json_writer *writer)
{
    json_write_separate(writer);
    sink_byte(writer->sink, '\n');
}

static void put_values(struct json_writer *writer, uint32_t first);

static void put_real(struct json_writer *writer, double number)
{
    char text[40];

    /* 17 digits say a double exactly. The library never sets a locale, but its
     * program may: a comma would be the locale's doing. */
    snprintf(text, sizeof text, "%.17g", number);
    for (char *at = text; *at; at++)
        if (*at == ',')
            *at = '.';
    if (!isfinite(number))
        snprintf(text, sizeof text, "null");
    else if (!strpbrk(text, ".e"))
        strcat(text, ".0");
    sink_text(writer->sink, text);
}

static void put_value(struct json_writer *writer, const struct snap_value *value)
{
    switch ((enum snap_kind)value->kind) {
    case SNAP_NULL:
        sink_text(writer->sink, "null");
        break;
    case SNAP_BOOL:
        sink_text(writer->sink, value->as.integer ? "true" : "false");
        break;
    case SNAP_INTEGER:
        sink_integer(writer->sink, value->as.integer);
        break;
    case SNAP_REAL:
        put_real(writer, value->as.real);
        break;
    case SNAP_STRING:
        put_string(writer, value->as.string);
        break;
    case SNAP_LIST:
    case SNAP_TUPLE:
        json_write_begin(writer, '[');
        put_values(writer, value->as.child);
        json_write_end(writer, ']');
        break;
    case SNAP_DICT:
        json_write_begin(writer, '{');
        put_values(writer, value->as.child);
        json_write_end(writer, '}');
        break;
    }
}

static void put_values(struct json_writer *writer, uint32_t first)
{
    for (uint32_t at = first; at != SNAP_NONE; at = writer->snapshot->values[at].next) {
        const struct snap_value *value = &writer->snapshot->values[at];
        size_t length;
        const char *name = snapshot_string(writer->snapshot, value->key, &length);
        if (value->key != SNAP_NONE)
            put_name(writer, name, length);
        else
            json_write_separate(writer);
        put_value(writer, value);
    }
}

/* ---- Records -------------------------------------------------------------------------------- */

static void put_frames(struct json_writer *writer, uint8_t has, uint32_t stack, uint32_t forward)
{
    if (has & SNAP_HAS_FRAMES && stack != SNAP_NONE) {
        put_field(writer, KEY_STACK, stack);
    } else if (has & SNAP_HAS_FRAMES) {
        put_key(writer, KEY_FRAMES);
        sink_text(writer->sink, "[]");
    }
    if (forward == SNAP_NONE)
        return;
    const struct snap_run *run = &writer->snapshot->texts[forward];
    put_key(writer, KEY_FORWARD_FRAMES);
    json_write_begin(writer, '[');
    for (uint32_t i = 0; i < run->count; i++) {
        json_write_separate(writer);
        put_string(writer, writer->snapshot->text_ids[run->first + i]);
    }
    json_write_end(writer, ']');
}

static void put_pool(struct json_writer *writer, unsigned key, uint32_t pool, uint8_t has)
{
    if (!(has & SNAP_HAS_POOL) || pool == SNAP_NONE)
        return;
    put_key(writer, key);
    sink_byte(writer->sink, '[');
    sink_unsigned(writer->sink, writer->snapshot->pools[pool].id[0]);
    sink_byte(writer->sink, ',');
    sink_unsigned(writer->sink, writer->snapshot->pools[pool].id[1]);
    sink_byte(writer->sink, ']');
}

static void put_entry(struct json_writer *writer, const struct snap_entry *entry)
{
    const char *action = snapshot_action_name(writer->snapshot, entry->action);
    const struct snap_origin *origin = snapshot_origin(writer->snapshot, entry);

    json_write_begin(writer, '{');
    put_key(writer, KEY_ACTION);
    json_write_string(writer->sink, action, strlen(action));
    put_field(writer, entry->action == SNAP_OOM ? KEY_DEVICE_FREE : KEY_ADDR, entry->address);
    put_field(writer, KEY_SIZE, entry->bytes);
    put_field(writer, KEY_STREAM, origin->stream);
    if (entry->has & SNAP_HAS_TIME) {
        put_key(writer, KEY_TIME_US);
        sink_integer(writer->sink, entry->time_us);
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
    json_write_end(writer, '}');
}

static void put_history(struct json_writer *writer, const struct snap_block *block)
{
    put_key(writer, KEY_HISTORY);
    json_write_begin(writer, '[');
    for (uint32_t i = 0; i < block->past_count; i++) {
        const struct snap_past *past = &writer->snapshot->pasts[block->first_past + i];
        json_write_separate(writer);
        json_write_begin(writer, '{');
        put_field(writer, KEY_ADDR, past->address);
        put_field(writer, KEY_REAL_SIZE, past->bytes);
        put_frames(writer, past->has, past->stack, SNAP_NONE);
        json_write_end(writer, '}');
    }
    json_write_end(writer, ']');
}

static void put_block(struct json_writer *writer, const struct snap_block *block)
{
    json_write_begin(writer, '{');
    if (block->has & SNAP_HAS_ADDRESS)
        put_field(writer, KEY_ADDRESS, block->address);
    put_field(writer, KEY_SIZE, block->bytes);
    if (block->has & SNAP_HAS_REQUESTED)
        put_field(writer, KEY_REQUESTED_SIZE, block->requested_bytes);
    put_key(writer, KEY_STATE);
    json_write_string(writer->sink, snapshot_state_name(block->state),
                      strlen(snapshot_state_name(block->state)));
    put_frames(writer, block->has, block->stack, block->forward);
    if (block->has & SNAP_HAS_HISTORY)
        put_history(writer, block);
    json_write_end(writer, '}');
}

static void put_segment(struct json_writer *writer, const struct snap_segment *segment)
{
    json_write_begin(writer, '{');
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
        sink_text(writer->sink, segment->is_expandable ? "true" : "false");
    }
    put_frames(writer, segment->has, segment->stack, segment->forward);
    put_key(writer, KEY_BLOCKS);
    json_write_begin(writer, '[');
    for (uint64_t i = 0; i < segment->block_count; i++) {
        put_line(writer);
        put_block(writer, &writer->snapshot->blocks[segment->first_block + i]);
    }
    json_write_end(writer, ']');
    json_write_end(writer, '}');
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void put_frame_table(struct json_writer *writer)
{
    const struct snapshot *snapshot = writer->snapshot;

    put_key(writer, KEY_FRAMES);
    json_write_begin(writer, '[');
    for (size_t i = 0; i < snapshot->frame_count; i++) {
        const struct snap_frame *frame = &snapshot->frames[i];
        put_line(writer);
        json_write_begin(writer, '{');
        put_key(writer, KEY_FILENAME);
        put_string(writer, frame->file);
        put_key(writer, KEY_LINE);
        sink_integer(writer->sink, frame->line);
        put_key(writer, KEY_NAME);
        put_string(writer, frame->name);
        put_values(writer, frame->extra);
        json_write_end(writer, '}');
    }
    json_write_end(writer, ']');
}

static void put_stack_table(struct json_writer *writer)
{
    const struct snapshot *snapshot = writer->snapshot;

    put_key(writer, KEY_STACKS);
    json_write_begin(writer, '[');
    for (size_t i = 0; i < snapshot->stack_count; i++) {
        put_line(writer);
        json_write_begin(writer, '[');
        for (uint32_t k = 0; k < snapshot->stacks[i].count; k++) {
            json_write_separate(writer);
            sink_unsigned(writer->sink, snapshot->frame_ids[snapshot->stacks[i].first + k]);
        }
        json_write_end(writer, ']');
    }
    json_write_end(writer, ']');
}

static void put_traces(struct json_writer *writer)
{
    const struct snapshot *snapshot = writer->snapshot;

    put_key(writer, KEY_DEVICE_TRACES);
    json_write_begin(writer, '[');
    for (size_t device = 0; device < snapshot->trace_count; device++) {
        json_write_separate(writer);
        json_write_begin(writer, '[');
        for (uint64_t i = 0; i < snapshot->devices[device].entry_count; i++) {
            put_line(writer);
            put_entry(writer, &snapshot->entries[snapshot->devices[device].first_entry + i]);
        }
        json_write_end(writer, ']');
    }
    json_write_end(writer, ']');
}

static void put_annotations(struct json_writer *writer)
{
    const struct snapshot *snapshot = writer->snapshot;

    put_key(writer, KEY_EXTERNAL_ANNOTATIONS);
    json_write_begin(writer, '[');
    for (size_t i = 0; i < snapshot->annotation_count; i++) {
        const struct snap_annotation *annotation = &snapshot->annotations[i];
        put_line(writer);
        json_write_begin(writer, '{');
        put_values(writer, annotation->values);
        if (annotation->has_device)
            put_field(writer, KEY_DEVICE, annotation->device);
        if (annotation->has_time) {
            put_key(writer, KEY_TIME_US);
            sink_integer(writer->sink, annotation->time_us);
        }
        json_write_end(writer, '}');
    }
    json_write_end(writer, ']');
}

/* ---- Size ------------------------------------------------------------------------------------ */

/* Bytes that a string takes at least, quotes included. */
static uint64_t string_bytes(const struct snapshot *snapshot, uint32_t id)
{
    return id == SNAP_NONE ? 0 : snapshot->strings[id].count + 2;
}

/* The bytes of each list of forward frames; NULL when host memory is short. */
static uint64_t *measure_texts(const struct snapshot *snapshot)
{
    uint64_t *bytes = heap_alloc((snapshot->text_count + 1) * sizeof *bytes);

    for (size_t i = 0; bytes && i < snapshot->text_count; i++) {
        bytes[i] = 0;
        for (uint32_t k = 0; k < snapshot->texts[i].count; k++)
            bytes[i] +=
                string_bytes(snapshot, snapshot->text_ids[snapshot->texts[i].first + k]) + 1;
    }
    return bytes;
}

uint64_t json_bytes_least(const struct snapshot *snapshot)
{
    uint64_t *texts = measure_texts(snapshot), total = 0;

    for (size_t i = 0; i < snapshot->frame_count; i++)
        total += string_bytes(snapshot, snapshot->frames[i].file) +
                 string_bytes(snapshot, snapshot->frames[i].name);
    for (size_t i = 0; i < snapshot->entry_count; i++) {
        const struct snap_entry *entry = &snapshot->entries[i];
        const struct snap_origin *origin = snapshot_origin(snapshot, entry);
        total += string_bytes(snapshot, origin->compile_context) +
                 string_bytes(snapshot, origin->user_metadata);
        total += strlen(snapshot_action_name(snapshot, entry->action));
        total += texts && origin->forward != SNAP_NONE ? texts[origin->forward] : 0;
    }
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const struct snap_segment *segment = &snapshot->segments[i];
        total += string_bytes(snapshot, segment->type);
        total += texts && segment->forward != SNAP_NONE ? texts[segment->forward] : 0;
    }
    for (size_t i = 0; texts && i < snapshot->block_count; i++)
        total += snapshot->blocks[i].forward != SNAP_NONE ? texts[snapshot->blocks[i].forward] : 0;
    for (size_t i = 0; i < snapshot->value_count; i++) {
        const struct snap_value *value = &snapshot->values[i];
        total += string_bytes(snapshot, value->key);
        total += value->kind == SNAP_STRING ? string_bytes(snapshot, value->as.string) : 0;
    }
    heap_free(texts);
    return total;
}

void json_write(const struct snapshot *snapshot, struct sink *sink)
{
    struct json_writer writer = {.snapshot = snapshot, .sink = sink};

    sink_expect(sink, json_bytes_least(snapshot));
    if (sink->failed != ACRE_OK)
        return;
    json_write_begin(&writer, '{');
    put_field(&writer, KEY_ACRE_SNAPSHOT, JSON_VERSION);
    put_frame_table(&writer);
    put_stack_table(&writer);
    put_key(&writer, KEY_SEGMENTS);
    json_write_begin(&writer, '[');
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        put_line(&writer);
        put_segment(&writer, &snapshot->segments[i]);
    }
    json_write_end(&writer, ']');
    if (snapshot->has_traces)
        put_traces(&writer);
    if (snapshot->has_settings) {
        put_key(&writer, KEY_ALLOCATOR_SETTINGS);
        json_write_begin(&writer, '{');
        put_values(&writer, snapshot->settings);
        json_write_end(&writer, '}');
    }
    if (snapshot->has_annotations)
        put_annotations(&writer);
    json_write_end(&writer, '}');
    sink_byte(sink, '\n');
}
