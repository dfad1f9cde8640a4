/* SPDX-License-Identifier: MIT */
/* MiniMalloc's CSV. Fields are separated by commas and never quoted; spaces
 * around a number are ignored. Bounded by the size of the file. */
#include "format/csv.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"

#include <string.h>

#define LINE_BYTES_MAX 65536
#define FIELDS_MAX     256

#define FAIL(parser, ...) fail_line(parser, __VA_ARGS__)

static const struct {
    const char *name;
    enum csv_column column;
} names[] = {
    {"id", CSV_ID},       {"buffer", CSV_ID},     {"buffer_id", CSV_ID},
    {"lower", CSV_LOWER}, {"begin", CSV_LOWER},   {"start", CSV_LOWER},
    {"upper", CSV_UPPER}, {"end", CSV_END},       {"size", CSV_SIZE},
    {"gaps", CSV_GAPS},   {"offset", CSV_OFFSET}, {"alignment", CSV_ALIGNMENT},
};

/* A field of a line; not zero-terminated. */
struct field {
    const char *text;
    size_t length;
};

struct parser {
    acre_plan_table *table;
    const char *path;
    uint64_t line; /* from 1 */
    struct field fields[FIELDS_MAX];
    int field_count;
};

static acre_status fail_line(const struct parser *parser, const char *what,
                             const struct field *field, const char *remedy)
{
    int length = field ? (int)(field->length < 40 ? field->length : 40) : 0;

    return status_fail(ACRE_ERR_FORMAT, "%s:%llu: %s%s%.*s%s%s", parser->path,
                       (unsigned long long)parser->line, what, field ? " \"" : "", length,
                       field ? field->text : "", field ? "\"; " : "; ", remedy);
}

/* Splits a line at commas, without spaces around the fields. */
static acre_status csv_split(struct parser *parser, const char *line)
{
    size_t length = strlen(line);

    parser->field_count = 0;
    if (length > LINE_BYTES_MAX)
        return FAIL(parser, "the line is too long", NULL, "at most 65536 bytes are read");
    for (;;) {
        size_t width = strcspn(line, ",");
        struct field field = {line, width};
        if (parser->field_count == FIELDS_MAX)
            return FAIL(parser, "too many columns", NULL, "at most 256 are read");
        while (field.length && (*field.text == ' ' || *field.text == '\t')) {
            field.text++;
            field.length--;
        }
        while (field.length && strchr(" \t\r", field.text[field.length - 1]))
            field.length--;
        parser->fields[parser->field_count++] = field;
        if (!line[width])
            return ACRE_OK;
        line += width + 1;
    }
}

/* ---- Header ------------------------------------------------------------------------- */

static acre_status check_columns(struct parser *parser)
{
    const int *at = parser->table->column_at;

    if (at[CSV_ID] < 0)
        return FAIL(parser, "there is no column for the id", NULL,
                    "the header must name id, lower, upper and size");
    if (at[CSV_LOWER] < 0)
        return FAIL(parser, "there is no column for the start", NULL,
                    "name it lower, begin or start");
    if ((at[CSV_UPPER] < 0) == (at[CSV_END] < 0))
        return FAIL(parser,
                    at[CSV_END] < 0 ? "there is no column for the end"
                                    : "both upper and end are given",
                    NULL, "name it upper (exclusive) or end (inclusive)");
    if (at[CSV_SIZE] < 0)
        return FAIL(parser, "there is no column for the size", NULL, "name it size");
    return ACRE_OK;
}

static acre_status read_header(struct parser *parser)
{
    acre_plan_table *table = parser->table;
    acre_status status = csv_split(parser, table->header);

    if (status != ACRE_OK)
        return status;
    for (int c = 0; c < CSV_COLUMNS; c++)
        table->column_at[c] = -1;
    for (int f = 0; f < parser->field_count; f++)
        for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
            const struct field *field = &parser->fields[f];
            if (strlen(names[n].name) != field->length ||
                strncmp(names[n].name, field->text, field->length) != 0)
                continue;
            if (table->column_at[names[n].column] >= 0)
                return FAIL(parser, "a column is given twice:", field, "keep one of them");
            table->column_at[names[n].column] = f;
        }
    table->field_count = parser->field_count;
    return check_columns(parser);
}

/* ---- Rows --------------------------------------------------------------------------- */

static acre_status read_number(const struct parser *parser, enum csv_column column, uint64_t *out)
{
    const struct field *field = &parser->fields[parser->table->column_at[column]];

    if (!text_parse_unsigned(field->text, field->length, out) || *out > (uint64_t)1 << 62)
        return FAIL(parser, "not a number:", field, "expected an integer from 0 to 2^62");
    return ACRE_OK;
}

static acre_status add_gap(struct parser *parser, const acre_plan_buffer *buffer, struct field gap,
                           uint64_t *at)
{
    acre_plan_table *table = parser->table;
    const char *dash = memchr(gap.text, '-', gap.length);
    acre_plan_gap found = {0, 0};
    size_t left = dash ? (size_t)(dash - gap.text) : 0;

    if (!dash || !text_parse_unsigned(gap.text, left, &found.start) ||
        !text_parse_unsigned(dash + 1, gap.length - left - 1, &found.end) || found.start < *at ||
        found.start >= found.end || found.end > buffer->end)
        return FAIL(parser, "not a gap of this buffer:", &gap,
                    "write gaps as 4-7 9-12, in order and within its life");
    if (table->gap_count == table->gap_capacity) {
        size_t capacity = table->gap_capacity ? 2 * table->gap_capacity : 64;
        void *gaps = heap_realloc(table->gaps, capacity * sizeof *table->gaps);
        if (!gaps)
            return ACRE_ERR_HOST_MEMORY;
        table->gaps = gaps;
        table->gap_capacity = capacity;
    }
    table->gaps[table->gap_count++] = found;
    *at = found.end;
    return ACRE_OK;
}

static acre_status read_gaps(struct parser *parser, acre_plan_buffer *buffer)
{
    struct field rest = parser->fields[parser->table->column_at[CSV_GAPS]];
    uint64_t at = buffer->start;
    acre_status status = ACRE_OK;

    while (rest.length && status == ACRE_OK) {
        size_t width = 0;
        while (width < rest.length && rest.text[width] != ' ')
            width++;
        if (width) {
            status = add_gap(parser, buffer, (struct field){rest.text, width}, &at);
            buffer->gap_count++;
        }
        width += width < rest.length;
        rest.text += width;
        rest.length -= width;
    }
    return status;
}

static acre_status read_fields(struct parser *parser, acre_plan_buffer *buffer)
{
    const int *at = parser->table->column_at;
    bool is_inclusive = at[CSV_END] >= 0;
    acre_status status = read_number(parser, CSV_LOWER, &buffer->start);

    if (status == ACRE_OK)
        status = read_number(parser, is_inclusive ? CSV_END : CSV_UPPER, &buffer->end);
    if (status == ACRE_OK)
        status = read_number(parser, CSV_SIZE, &buffer->size);
    if (status == ACRE_OK && at[CSV_ALIGNMENT] >= 0 && parser->fields[at[CSV_ALIGNMENT]].length)
        status = read_number(parser, CSV_ALIGNMENT, &buffer->alignment);
    if (status != ACRE_OK)
        return status;
    if (buffer->size > (uint64_t)1 << 60)
        return FAIL(parser, "the size is too large:", &parser->fields[at[CSV_SIZE]],
                    "at most 2^60 bytes");
    if (buffer->alignment > (uint64_t)1 << 40)
        return FAIL(parser, "the alignment is too large:", &parser->fields[at[CSV_ALIGNMENT]],
                    "at most 2^40 bytes");
    buffer->end += is_inclusive;
    if (buffer->end < buffer->start)
        return FAIL(parser, "the buffer ends before it starts:",
                    &parser->fields[at[is_inclusive ? CSV_END : CSV_UPPER]],
                    "the end must not be below the start");
    return at[CSV_GAPS] >= 0 ? read_gaps(parser, buffer) : ACRE_OK;
}

acre_status table_grow(acre_plan_table *table, bool has_ids)
{
    size_t capacity = table->capacity ? 2 * table->capacity : 256;
    void *beside = has_ids ? (void *)table->ids : (void *)table->rows;

    if (table->count < table->capacity)
        return ACRE_OK;
    beside = heap_realloc(beside, capacity * (has_ids ? sizeof *table->ids : sizeof *table->rows));
    if (!beside)
        return ACRE_ERR_HOST_MEMORY;
    if (has_ids)
        table->ids = beside;
    else
        table->rows = beside;
    void *buffers = heap_realloc(table->buffers, capacity * sizeof *table->buffers);
    if (!buffers)
        return ACRE_ERR_HOST_MEMORY;
    table->buffers = buffers;
    table->capacity = capacity;
    return ACRE_OK;
}

static acre_status read_row(struct parser *parser, char *line)
{
    acre_plan_table *table = parser->table;
    acre_status status = csv_split(parser, line);

    if (status != ACRE_OK)
        return status;
    if (parser->field_count == 1 && parser->fields[0].length == 0)
        return ACRE_OK; /* a blank line */
    if (parser->field_count != table->field_count)
        return FAIL(parser, "the row has another number of fields than the header", NULL,
                    "every row needs all columns");
    status = table_grow(table, false);
    if (status != ACRE_OK)
        return status;
    table->rows[table->count] = line;
    table->buffers[table->count] = (acre_plan_buffer){0};
    status = read_fields(parser, &table->buffers[table->count]);
    table->count += status == ACRE_OK;
    return status;
}

acre_status csv_parse(acre_plan_table *table, const char *path)
{
    struct parser parser = {.table = table, .path = path};
    char *line = table->text, *end = table->text + table->text_bytes;
    acre_status status = ACRE_OK;

    while (line < end && status == ACRE_OK) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        char *stop = newline ? newline : end;
        parser.line++;
        if (memchr(line, '\0', (size_t)(stop - line)))
            return FAIL(&parser, "the line holds a zero byte", NULL, "this is no text");
        *stop = '\0'; /* the text has a byte to spare */
        if (stop > line && stop[-1] == '\r')
            stop[-1] = '\0';
        if (!table->header) {
            table->header = line;
            status = read_header(&parser);
        } else {
            status = read_row(&parser, line);
        }
        line = stop + 1;
    }
    if (status == ACRE_OK && !table->header)
        return FAIL(&parser, "the file is empty", NULL, "a header line must come first");
    size_t gap = 0;
    for (size_t i = 0; i < table->count && status == ACRE_OK; i++) {
        table->buffers[i].gaps = table->buffers[i].gap_count ? table->gaps + gap : NULL;
        gap += table->buffers[i].gap_count;
    }
    return status;
}
