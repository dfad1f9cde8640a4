/* SPDX-License-Identifier: MIT */
/* Files of buffers: which format a file has, traces as buffers, writing. */
#include "base/heap.h"
#include "base/status.h"
#include "format/csv.h"
#include "format/trace.h"

#include <acre/output.h>

#include <stdio.h>
#include <string.h>

#define TEXT_BYTES_MAX ((size_t)8 << 30)

/* ---- Reading ------------------------------------------------------------------------ */

/* Reads a whole file, and leaves a zero byte behind it. */
static acre_status read_text(acre_plan_table *table, const char *path, struct source *source)
{
    size_t capacity = 0, got = 1;

    while (got > 0 && table->text_bytes < TEXT_BYTES_MAX) {
        if (table->text_bytes + 1 >= capacity) {
            while (capacity <= table->text_bytes + 1)
                capacity = capacity ? 2 * capacity : 65536;
            char *text = heap_realloc(table->text, capacity);
            if (!text)
                return ACRE_ERR_HOST_MEMORY;
            table->text = text;
        }
        acre_status status = source_read(source, table->text + table->text_bytes,
                                         capacity - table->text_bytes - 1, &got);
        if (status != ACRE_OK)
            return status;
        table->text_bytes += got;
    }
    table->text[table->text_bytes] = '\0';
    if (table->text_bytes >= TEXT_BYTES_MAX)
        return status_fail(ACRE_ERR_FORMAT, "%s: the file is too large to be planned", path);
    return ACRE_OK;
}

/* A header has commas; the lines of a trace have none, except in comments. */
static bool is_trace(const char *text)
{
    text += strspn(text, " \t\r\n");
    while (*text == '#') {
        text += strcspn(text, "\n");
        text += strspn(text, " \t\r\n");
    }
    return *text && strchr("afuse", *text) && strchr(" \t\r\n", text[1]) &&
           !memchr(text, ',', strcspn(text, "\n"));
}

/* A pickle begins with 0x80, JSON with a bracket; nothing else here does. */
static bool is_snapshot(const char *text)
{
    text += strspn(text, " \t\r\n");
    return *text == '{' || *text == '[' || (unsigned char)*text == 0x80;
}

/* Which buffer an allocation is, by its slot. */
struct table_slots {
    size_t *buffer;
    size_t capacity;
};

static acre_status add_event(acre_plan_table *table, struct table_slots *slots,
                             const acre_trace_event *event, uint64_t number)
{
    if (event->kind == ACRE_TRACE_FREE)
        table->buffers[slots->buffer[event->slot]].end = number;
    if (event->kind != ACRE_TRACE_ALLOC)
        return ACRE_OK;
    acre_status status = table_grow(table, true);
    if (status != ACRE_OK)
        return status;
    if (event->slot >= slots->capacity) {
        size_t capacity = 2 * (size_t)event->slot + 1024;
        void *buffer = heap_realloc(slots->buffer, capacity * sizeof *slots->buffer);
        if (!buffer)
            return ACRE_ERR_HOST_MEMORY;
        slots->buffer = buffer;
        slots->capacity = capacity;
    }
    uint64_t size = table_round(event->bytes, 0);
    slots->buffer[event->slot] = table->count;
    table->ids[table->count] = event->id;
    table->buffers[table->count++] =
        (acre_plan_buffer){.start = number, .end = UINT64_MAX, .size = size};
    return ACRE_OK;
}

static acre_status read_trace(acre_plan_table *table, const char *path, struct source *source)
{
    struct table_slots slots = {NULL, 0};
    acre_trace_event events[256];
    acre_trace *trace = NULL;
    uint64_t number = 0;
    size_t count = 1;
    acre_status status = trace_adopt(path, source, &trace);

    while (status == ACRE_OK && count > 0) {
        status = acre_trace_read(trace, events, 256, &count);
        for (size_t e = 0; e < count && status == ACRE_OK; e++)
            status = add_event(table, &slots, &events[e], number++);
    }
    for (size_t i = 0; i < table->count; i++)
        if (table->buffers[i].end == UINT64_MAX)
            table->buffers[i].end = number; /* live at the end */
    heap_free(slots.buffer);
    acre_trace_close(trace);
    return status;
}

/* Reads a source that is open, a pipe perhaps, and closes it. */
static acre_status read_table(acre_plan_table *table, const char *path, uint32_t device,
                              struct source *source)
{
    const char *text;
    size_t count;
    acre_status status = source_peek(source, &text, &count);

    if (status == ACRE_OK && is_snapshot(text))
        return plan_snapshot_read(table, device, path, source);
    if (status == ACRE_OK && is_trace(text))
        return read_trace(table, path, source);
    if (status == ACRE_OK && memchr(text, '\0', count))
        status = status_fail(ACRE_ERR_FORMAT,
                             "%s: this is no text: a zero byte is among the first %zu bytes", path,
                             count);
    if (status == ACRE_OK)
        status = read_text(table, path, source);
    source_close(source);
    return status == ACRE_OK ? csv_parse(table, path) : status;
}

acre_status acre_plan_read(const char *path, acre_plan_table **out)
{
    return acre_plan_read_device(path, UINT32_MAX, out);
}

acre_status acre_plan_read_device(const char *path, uint32_t device, acre_plan_table **out)
{
    struct source *source = NULL;

    if (!path || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_plan_read: %s is NULL", path ? "out" : "path");
    acre_status status = source_open(path, &source);
    if (status != ACRE_OK)
        return status;
    acre_plan_table *table = heap_zalloc(sizeof *table);
    if (!table) {
        source_close(source);
        return ACRE_ERR_HOST_MEMORY;
    }
    status = read_table(table, path, device, source);
    if (status != ACRE_OK) {
        acre_plan_close(table);
        return status;
    }
    *out = table;
    return ACRE_OK;
}

const acre_plan_buffer *acre_plan_buffers(const acre_plan_table *table, size_t *out_count)
{
    *out_count = table->count;
    return table->buffers;
}

void acre_plan_close(acre_plan_table *table)
{
    if (!table)
        return;
    heap_free(table->text);
    heap_free(table->rows);
    heap_free(table->buffers);
    heap_free(table->gaps);
    heap_free(table->ids);
    heap_free(table);
}

/* ---- Writing ------------------------------------------------------------------------ */

/* Writes the fields of a line without the column of offsets. */
static void write_fields(const acre_plan_table *table, FILE *file, const char *line)
{
    bool is_first = true;

    for (int f = 0; *line || f == 0; f++) {
        size_t width = strcspn(line, ",");
        if (f != table->column_at[CSV_OFFSET]) {
            fprintf(file, "%s%.*s", is_first ? "" : ",", (int)width, line);
            is_first = false;
        }
        line += width;
        if (!*line)
            break;
        line++;
        if (!*line && f + 1 != table->column_at[CSV_OFFSET])
            fputc(',', file); /* an empty last field */
    }
}

static void write_rows(const acre_plan_table *table, const uint64_t *offsets, FILE *file)
{
    if (table->ids)
        fputs("id,lower,upper,size", file);
    else
        write_fields(table, file, table->header);
    fputs(",offset\n", file);
    for (size_t i = 0; i < table->count; i++) {
        const acre_plan_buffer *buffer = &table->buffers[i];
        if (table->ids)
            fprintf(file, "%llu,%llu,%llu,%llu", (unsigned long long)table->ids[i],
                    (unsigned long long)buffer->start, (unsigned long long)buffer->end,
                    (unsigned long long)buffer->size);
        else
            write_fields(table, file, table->rows[i]);
        fprintf(file, ",%llu\n", (unsigned long long)offsets[i]);
    }
}

acre_status acre_plan_write(const acre_plan_table *table, const uint64_t *offsets, const char *path)
{
    acre_output *output;

    if (!table || !path || (table->count && !offsets))
        return status_fail(ACRE_ERR_INVALID, "acre_plan_write: an argument is NULL");
    acre_status status = acre_output_open(path, &output);
    if (status != ACRE_OK)
        return status;
    write_rows(table, offsets, acre_output_stream(output));
    return acre_output_finish(output);
}
