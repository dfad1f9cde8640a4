/* SPDX-License-Identifier: MIT */
#include "format/snapshot/json_read.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"

#include <string.h>

#define NUMBER_BYTES_MAX    48
#define TEXT_BYTES_MAX_READ ((size_t)64 << 20)

/* Items of an array that wait on the stack before they are appended together. */
#define BATCH 1024

struct json_reader {
    struct input *input;
    struct builder *builder;
    char *text; /* of the string being read, unless it stands in the window */
    size_t text_capacity;
    char open[BUILDER_DEPTH]; /* '{' or '[' of what is open */
    int depth;
};

static acre_status fail_at(struct json_reader *reader, const char *what)
{
    reader->builder->offset = input_offset(reader->input);
    return BUILDER_FAIL(reader->builder, "%s", what);
}

/* The next byte, not taken; -1 at the end. */
static acre_status json_read_peek(struct json_reader *reader, int *out)
{
    struct input *input = reader->input;
    bool is_there = true;

    if (UNLIKELY(!input_has(input, 1))) {
        acre_status status = input_fill(input, 1, &is_there);
        if (status != ACRE_OK)
            return status;
    }
    *out = is_there ? input->window[input->at] : -1;
    return ACRE_OK;
}

/* Skips blanks, then gives the next character without reading it. */
static acre_status peek_solid(struct json_reader *reader, int *out)
{
    for (;;) {
        acre_status status = json_read_peek(reader, out);
        if (status != ACRE_OK || (*out != ' ' && *out != '\n' && *out != '\r' && *out != '\t'))
            return status;
        reader->input->at++;
    }
}

/* ---- Strings ----------------------------------------------------------------------------- */

static acre_status text_room(struct json_reader *reader, size_t need)
{
    if (need <= reader->text_capacity)
        return ACRE_OK;
    if (need > TEXT_BYTES_MAX_READ)
        return fail_at(reader, "a text has more than the 64 MiB that are read");
    char *bigger = heap_realloc(reader->text, need * 2);
    if (!bigger)
        return ACRE_ERR_HOST_MEMORY;
    reader->text = bigger;
    reader->text_capacity = need * 2;
    return ACRE_OK;
}

/* Writes a code point as UTF-8; halves of a pair alone as pickles have them. */
static size_t put_utf8(char *at, uint32_t code)
{
    if (code < 0x80) {
        at[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        at[0] = (char)(0xc0 | code >> 6);
        at[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        at[0] = (char)(0xe0 | code >> 12);
        at[1] = (char)(0x80 | (code >> 6 & 63));
        at[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    at[0] = (char)(0xf0 | code >> 18);
    at[1] = (char)(0x80 | (code >> 12 & 63));
    at[2] = (char)(0x80 | (code >> 6 & 63));
    at[3] = (char)(0x80 | (code & 63));
    return 4;
}

static bool read_hex(const unsigned char *at, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = at[i], low = c | 0x20;
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            *out = *out << 4 | (uint32_t)(low - 'a' + 10);
        else
            return false;
    }
    return true;
}

/* What follows a backslash, appended to the text. */
static acre_status read_escape(struct json_reader *reader, size_t *length)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    struct input *input = reader->input;
    bool is_there;
    acre_status status = input_fill(input, 12, &is_there); /* \uD83D\uDE00 without its start */

    if (status != ACRE_OK)
        return status;
    size_t left = input->count - input->at;
    const unsigned char *at = input->window + input->at;
    const char *found = left && *at ? strchr(from, *at) : NULL;
    uint32_t code = 0, low = 0;
    if (found) {
        reader->text[(*length)++] = to[found - from];
        input->at++;
        return ACRE_OK;
    }
    if (left < 5 || *at != 'u' || !read_hex(at + 1, &code))
        return fail_at(reader, "a text has an escape that JSON does not know");
    input->at += 5;
    if (code >= 0xd800 && code < 0xdc00 && left >= 11 && at[5] == '\\' && at[6] == 'u' &&
        read_hex(at + 7, &low) && low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        input->at += 6;
    }
    *length += put_utf8(reader->text + *length, code);
    return ACRE_OK;
}

/* A string that has escapes or crosses the window; its opening quote is taken. */
static acre_status read_slow_string(struct json_reader *reader)
{
    struct input *input = reader->input;
    size_t length = 0;

    for (;;) {
        int c;
        acre_status status = json_read_peek(reader, &c);
        if (status == ACRE_OK)
            status = text_room(reader, length + 8);
        if (status != ACRE_OK)
            return status;
        if (c < 0)
            return fail_at(reader, "the file ends inside a text; it is truncated: copy or save it "
                                   "again");
        if (c < 0x20)
            return fail_at(reader, "a text has a control character that is not escaped");
        input->at++;
        if (c == '"')
            return builder_push_string(reader->builder, reader->text, length);
        if (c == '\\')
            status = read_escape(reader, &length);
        else
            reader->text[length++] = (char)c;
        if (status != ACRE_OK)
            return status;
    }
}

static acre_status read_string(struct json_reader *reader)
{
    struct input *input = reader->input;
    const unsigned char *from = input->window + ++input->at;
    size_t left = input->count - input->at, length = 0;

    while (length < left && from[length] != '"' && from[length] != '\\' && from[length] >= 0x20)
        length++;
    if (length == left || from[length] != '"')
        return read_slow_string(reader);
    input->at += length + 1;
    return builder_push_string(reader->builder, (const char *)from, length);
}

/* ---- Numbers and words --------------------------------------------------------------------- */

static acre_status read_number(struct json_reader *reader)
{
    char text[NUMBER_BYTES_MAX];
    struct input *input = reader->input;
    bool is_there, is_real = false;
    size_t length = 0, from;
    uint64_t number;
    double real;
    acre_status status = input_fill(input, NUMBER_BYTES_MAX, &is_there);

    if (status != ACRE_OK)
        return status;
    while (length < NUMBER_BYTES_MAX && input_has(input, length + 1)) {
        char c = (char)input->window[input->at + length];
        if (!memchr("0123456789+-.eE", c, 15))
            break;
        is_real = is_real || c == '.' || c == 'e' || c == 'E';
        text[length++] = c;
    }
    from = length && text[0] == '-';
    if (!is_real && text_parse_unsigned(text + from, length - from, &number) &&
        (!from || number <= (uint64_t)1 << 63)) {
        input->at += length;
        return from ? builder_push_integer(reader->builder, (int64_t)(0 - number))
                    : builder_push_unsigned(reader->builder, number);
    }
    if (length == NUMBER_BYTES_MAX || !text_parse_fraction(text + from, length - from, &real))
        return fail_at(reader, "this is no value of JSON");
    input->at += length;
    return builder_push_real(reader->builder, from ? -real : real);
}

static acre_status read_word(struct json_reader *reader)
{
    static const struct {
        const char *word;
        value item;
    } words[] = {{"true", VALUE_TRUE}, {"false", VALUE_FALSE}, {"null", VALUE_NONE}};
    struct input *input = reader->input;
    bool is_there;
    acre_status status = input_fill(input, 5, &is_there);

    if (status != ACRE_OK)
        return status;
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(words[i].word);
        if (input_has(input, length) &&
            memcmp(input->window + input->at, words[i].word, length) == 0) {
            input->at += length;
            return builder_push(reader->builder, words[i].item);
        }
    }
    return fail_at(reader, "this is no value of JSON");
}

/* ---- Structure ------------------------------------------------------------------------------- */

static acre_status open_container(struct json_reader *reader, char c)
{
    acre_status status =
        builder_push_object(reader->builder, c == '{' ? OBJECT_NEW_DICT : OBJECT_NEW_LIST);

    if (status == ACRE_OK)
        status = builder_mark(reader->builder);
    if (status != ACRE_OK)
        return status;
    reader->open[reader->depth++] = c;
    reader->input->at++;
    return ACRE_OK;
}

static acre_status close_container(struct json_reader *reader)
{
    reader->input->at++;
    return reader->open[--reader->depth] == '{' ? builder_set(reader->builder, true)
                                                : builder_append(reader->builder, true);
}

/* The key of a pair and its colon. */
static acre_status read_key(struct json_reader *reader)
{
    int c;
    acre_status status = peek_solid(reader, &c);

    if (status != ACRE_OK)
        return status;
    if (c != '"')
        return fail_at(reader, "a key in quotes is expected here");
    status = read_string(reader);
    if (status == ACRE_OK)
        status = peek_solid(reader, &c);
    if (status == ACRE_OK && c != ':')
        return fail_at(reader, "a colon is expected here");
    reader->input->at++;
    return status;
}

/* A value, or the start of one: *out_is_open tells. */
static acre_status read_value(struct json_reader *reader, bool *out_is_open)
{
    int c;
    acre_status status = peek_solid(reader, &c);

    *out_is_open = c == '{' || c == '[';
    if (status != ACRE_OK)
        return status;
    reader->builder->offset = input_offset(reader->input);
    if (*out_is_open)
        return open_container(reader, (char)c);
    if (c == '"')
        return read_string(reader);
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(reader);
    if (c < 0)
        return fail_at(reader, "the file ends before the data does; it is truncated: copy or save "
                               "it again");
    return read_word(reader);
}

/* Appends what waits, so that long arrays need no long stack. */
static acre_status json_read_flush(struct json_reader *reader)
{
    struct builder *builder = reader->builder;
    size_t mark = builder->marks[builder->mark_count - 1];

    if (reader->open[reader->depth - 1] == '{' || builder->stack_count - mark < BATCH)
        return ACRE_OK;
    acre_status status = builder_append(builder, true);
    return status == ACRE_OK ? builder_mark(builder) : status;
}

/* What follows a value: closings, and the comma before the next. */
static acre_status read_separator(struct json_reader *reader)
{
    while (reader->depth > 0) {
        int c;
        char open = reader->open[reader->depth - 1];
        acre_status status = peek_solid(reader, &c);
        if (status != ACRE_OK)
            return status;
        if (c == ',') {
            reader->input->at++;
            status = json_read_flush(reader);
            return status == ACRE_OK && open == '{' ? read_key(reader) : status;
        }
        if (c != (open == '{' ? '}' : ']'))
            return fail_at(reader, c < 0 ? "the file ends before the data does; it is truncated: "
                                           "copy or save it again"
                                         : "a comma or the end of the list is expected here");
        status = close_container(reader);
        if (status != ACRE_OK)
            return status;
    }
    return ACRE_OK;
}

/* Behind an opening: the end at once, or the first key. */
static acre_status read_first(struct json_reader *reader, bool *out_is_closed)
{
    int c;
    char open = reader->open[reader->depth - 1];
    acre_status status = peek_solid(reader, &c);

    *out_is_closed = c == (open == '{' ? '}' : ']');
    if (status != ACRE_OK)
        return status;
    if (*out_is_closed)
        return close_container(reader);
    return open == '{' ? read_key(reader) : ACRE_OK;
}

static acre_status read_all(struct json_reader *reader)
{
    acre_status status = ACRE_OK;

    do {
        bool is_open = false, is_closed = true;
        status = read_value(reader, &is_open);
        if (status == ACRE_OK && is_open)
            status = read_first(reader, &is_closed);
        if (status == ACRE_OK && (!is_open || is_closed))
            status = read_separator(reader);
    } while (status == ACRE_OK && reader->depth > 0);
    if (status != ACRE_OK)
        return status;
    int c;
    status = peek_solid(reader, &c);
    if (status == ACRE_OK && c >= 0)
        return fail_at(reader, "something follows the end of the data");
    return status;
}

acre_status json_read_input(struct input *input, struct builder *builder)
{
    struct json_reader reader = {.input = input, .builder = builder};

    builder->is_json = true;
    acre_status status = read_all(&reader);
    heap_free(reader.text);
    return status;
}
