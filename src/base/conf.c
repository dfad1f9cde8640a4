/* SPDX-License-Identifier: MIT */
/* Two passes over a copy of the string without white space: the first reads
 * the options that come before all others, the second the rest. Both check the
 * whole grammar, so the first error of the string is reported by the first. */
#include "base/conf.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The string being read. */
struct conf_reader {
    const struct conf_spec *spec;
    const char *source;
    const char *original; /* as given                                  */
    char *text;           /* without white space; words are cut out of
                             it by zeros, put back afterwards          */
    size_t at;
    char *target; /* the copy                                  */
    uint64_t given;
};

/* Column, from 1, of the n-th character that is not white space. */
static size_t column_of(const struct conf_reader *reader, size_t n)
{
    size_t i = 0;

    for (; reader->original[i]; i++) {
        if (isspace((unsigned char)reader->original[i]))
            continue;
        if (n-- == 0)
            break;
    }
    return i + 1;
}

acre_status conf_fail(const struct conf_value *value, const char *why, ...)
{
    char reason[512];
    va_list args;

    va_start(args, why);
    vsnprintf(reason, sizeof reason, why, args);
    va_end(args);
    return status_fail(ACRE_ERR_CONFIG, "%s, column %zu: %s:%.200s is not valid: %s", value->source,
                       value->column, value->key, value->text, reason);
}

static size_t word_end(const char *text, size_t at)
{
    return at + strcspn(text + at, ",:[]");
}

static acre_status fail_grammar(const struct conf_reader *reader, size_t at, const char *expected)
{
    char found[8] = "the end";

    if (reader->text[at])
        snprintf(found, sizeof found, "'%c'", reader->text[at]);
    return status_fail(ACRE_ERR_CONFIG, "%s, column %zu: expected %s, found %s", reader->source,
                       column_of(reader, at), expected, found);
}

/* Finds the end of a list that opens at `at`. */
static acre_status list_end(const struct conf_reader *reader, size_t at, size_t *out)
{
    const char *text = reader->text;

    do {
        size_t end = word_end(text, at + 1);
        if (end == at + 1)
            return fail_grammar(reader, end, "a word in the list");
        if (text[end] == ':') {
            at = end;
            end = word_end(text, at + 1);
            if (end == at + 1)
                return fail_grammar(reader, end, "a word after ':' in the list");
        }
        at = end;
    } while (text[at] == ',');
    if (text[at] != ']')
        return fail_grammar(reader, at, "',' or ']' in the list");
    *out = at + 1;
    return ACRE_OK;
}

static void conf_store(void *field, size_t width, uint64_t value)
{
    switch (width) {
    case 1: {
        uint8_t v = (uint8_t)value;
        memcpy(field, &v, 1);
        break;
    }
    case 2: {
        uint16_t v = (uint16_t)value;
        memcpy(field, &v, 2);
        break;
    }
    case 4: {
        uint32_t v = (uint32_t)value;
        memcpy(field, &v, 4);
        break;
    }
    default:
        CHECK(width == 8);
        memcpy(field, &value, 8);
        break;
    }
}

static acre_status parse_bool(const struct conf_option *option, const struct conf_value *value,
                              void *field)
{
    bool is_true = strcmp(value->text, "True") == 0;

    if (!is_true && strcmp(value->text, "False") != 0)
        return conf_fail(value, "write True or False");
    conf_store(field, option->width, is_true);
    return ACRE_OK;
}

static uint64_t limit_of(const struct conf_option *option)
{
    uint64_t fits = option->width == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * option->width)) - 1;

    return option->max && option->max < fits ? option->max : fits;
}

static acre_status parse_number(const struct conf_option *option, const struct conf_value *value,
                                void *field)
{
    size_t length = strlen(value->text);
    bool is_size = option->kind == CONF_BYTES;
    uint64_t number, max = limit_of(option);

    if (is_size ? !text_parse_bytes(value->text, length, &number)
                : !text_parse_unsigned(value->text, length, &number))
        return conf_fail(value, is_size ? "write a size such as 4096, 512KiB or 8GiB"
                                        : "expected an integer, digits only");
    if (number < option->min || number > max)
        return conf_fail(value, "it must lie between %llu and %llu",
                         (unsigned long long)option->min, (unsigned long long)max);
    if ((option->flags & CONF_POWER_OF_TWO) && !is_power_of_two(number))
        return conf_fail(value, "it must be a power of two");
    if (option->kind == CONF_MIB) {
        CHECK(option->width == 8);
        number = (number > UINT64_MAX / MIB ? UINT64_MAX / MIB : number) * MIB;
    }
    conf_store(field, option->width, number);
    return ACRE_OK;
}

static acre_status parse_fraction(const struct conf_option *option, const struct conf_value *value,
                                  void *field)
{
    double low = option->fraction_min, high = option->fraction_max, number;
    bool is_open = option->flags & CONF_OPEN;

    CHECK(option->width == sizeof number);
    if (!text_parse_fraction(value->text, strlen(value->text), &number))
        return conf_fail(value, "write a number such as 0.8");
    if (is_open ? !(number > low && number < high) : !(number >= low && number <= high))
        return conf_fail(value, "it must lie between %g and %g, the ends %s", low, high,
                         is_open ? "excluded" : "included");
    memcpy(field, &number, sizeof number);
    return ACRE_OK;
}

static acre_status parse_word(const struct conf_option *option, const struct conf_value *value,
                              void *field)
{
    char choices[256];
    struct text text;

    text_init(&text, choices, sizeof choices);
    for (uint64_t i = 0; option->words[i]; i++) {
        if (strcmp(option->words[i], value->text) == 0) {
            conf_store(field, option->width, i);
            return ACRE_OK;
        }
        text_add(&text, "%s%s", i ? ", " : "", option->words[i]);
    }
    return conf_fail(value, "write one of %s", choices);
}

static acre_status parse_value(const struct conf_option *option, const struct conf_value *value,
                               char *target)
{
    if (value->is_list && option->kind != CONF_CUSTOM)
        return conf_fail(value, "it takes a single value, not a list");
    switch (option->kind) {
    case CONF_BOOL:
        return parse_bool(option, value, target + option->offset);
    case CONF_UNSIGNED:
    case CONF_BYTES:
    case CONF_MIB:
        return parse_number(option, value, target + option->offset);
    case CONF_FRACTION:
        return parse_fraction(option, value, target + option->offset);
    case CONF_WORD:
        return parse_word(option, value, target + option->offset);
    case CONF_CUSTOM:
        break;
    }
    return option->parse(value, target);
}

static bool same_word(const char *name, const char *text, size_t length)
{
    return name && strlen(name) == length && memcmp(name, text, length) == 0;
}

static const struct conf_option *find_option(const struct conf_spec *spec, const char *key,
                                             size_t length)
{
    for (size_t i = 0; i < spec->option_count; i++)
        if (same_word(spec->options[i].name, key, length) ||
            same_word(spec->options[i].alias, key, length))
            return &spec->options[i];
    return NULL;
}

/* Reads the value between `at` and `end` into the copy. */
static acre_status conf_apply(struct conf_reader *reader, const struct conf_option *option,
                              const char *key, size_t at, size_t end)
{
    char *text = reader->text, after = text[end];
    struct conf_value value = {.source = reader->source,
                               .key = key,
                               .text = text + at,
                               .is_list = text[at] == '[',
                               .column = column_of(reader, at)};

    text[end] = '\0';
    acre_status status = parse_value(option, &value, reader->target);
    text[end] = after;
    if (status == ACRE_OK)
        reader->given |= (uint64_t)1 << (option - reader->spec->options);
    return status;
}

/* Reads one item; applies it when it belongs to this pass. */
static acre_status read_item(struct conf_reader *reader, bool is_first_pass)
{
    char *text = reader->text;
    size_t key = reader->at, colon = word_end(text, key), value = colon + 1;
    size_t end = value;

    if (colon == key)
        return fail_grammar(reader, key, "a key");
    if (text[colon] != ':')
        return fail_grammar(reader, colon, "':' after the key");
    if (text[value] == '[') {
        acre_status status = list_end(reader, value, &end);
        if (status != ACRE_OK)
            return status;
    } else {
        end = word_end(text, value);
        if (end == value)
            return fail_grammar(reader, value, "a value");
    }
    if (text[end] && text[end] != ',')
        return fail_grammar(reader, end, "',' after the value");
    reader->at = text[end] ? end + 1 : end;

    const struct conf_option *option = find_option(reader->spec, text + key, colon - key);
    if (!option)
        return status_fail(ACRE_ERR_CONFIG, "%s, column %zu: there is no option %.*s (value %.*s)",
                           reader->source, column_of(reader, key),
                           (int)(colon - key < 100 ? colon - key : 100), text + key,
                           (int)(end - value < 100 ? end - value : 100), text + value);
    if (!!(option->flags & CONF_FIRST) != is_first_pass)
        return ACRE_OK;
    text[colon] = '\0';
    acre_status status = conf_apply(reader, option, text + key, value, end);
    text[colon] = ':';
    return status;
}

static acre_status read_all(struct conf_reader *reader, bool is_first_pass)
{
    reader->at = 0;
    while (reader->text[reader->at]) {
        acre_status status = read_item(reader, is_first_pass);
        if (status != ACRE_OK)
            return status;
    }
    return ACRE_OK;
}

acre_status conf_parse(const struct conf_spec *spec, const char *source, const char *text,
                       void *target, uint64_t *out_given)
{
    struct conf_reader reader = {.spec = spec, .source = source, .original = text};
    acre_status status = ACRE_ERR_HOST_MEMORY;

    CHECK(spec->option_count <= 64);
    reader.text = heap_strdup(text);
    if (!reader.text)
        return status;
    size_t kept = 0;
    for (size_t i = 0; text[i]; i++)
        if (!isspace((unsigned char)text[i]))
            reader.text[kept++] = text[i];
    reader.text[kept] = '\0';

    reader.target = heap_alloc(spec->target_bytes);
    if (!reader.target)
        goto free_text;
    memcpy(reader.target, target, spec->target_bytes);

    status = read_all(&reader, true);
    if (status == ACRE_OK)
        status = read_all(&reader, false);
    if (status == ACRE_OK && spec->validate)
        status = spec->validate(reader.target, reader.given);
    if (status == ACRE_OK) {
        memcpy(target, reader.target, spec->target_bytes);
        if (out_given)
            *out_given = reader.given;
    }
    heap_free(reader.target);
free_text:
    heap_free(reader.text);
    return status;
}

bool conf_list_next(const struct conf_value *value, size_t *at, struct conf_word *first,
                    struct conf_word *second)
{
    const char *text = value->text;
    size_t begin = *at + 1, end;

    CHECK(value->is_list);
    if (*at && text[*at] == ']')
        return false;
    end = word_end(text, begin);
    *first = (struct conf_word){text + begin, end - begin};
    *second = (struct conf_word){text + end, 0};
    if (text[end] == ':') {
        begin = end + 1;
        end = word_end(text, begin);
        *second = (struct conf_word){text + begin, end - begin};
    }
    *at = end;
    return true;
}

static void help_kind(const struct conf_option *option, struct text *out)
{
    switch (option->kind) {
    case CONF_BOOL:
        text_add(out, "True|False");
        return;
    case CONF_UNSIGNED:
        text_add(out, "N");
        return;
    case CONF_BYTES:
        text_add(out, "SIZE");
        return;
    case CONF_MIB:
        text_add(out, "MiB");
        return;
    case CONF_FRACTION:
        text_add(out, "%g..%g", option->fraction_min, option->fraction_max);
        return;
    case CONF_WORD:
        for (size_t i = 0; option->words[i]; i++)
            text_add(out, "%s%s", i ? "|" : "", option->words[i]);
        return;
    case CONF_CUSTOM:
        text_add(out, "VALUE");
        return;
    }
}

void conf_help(const struct conf_spec *spec, struct text *out)
{
    for (size_t i = 0; i < spec->option_count; i++) {
        const struct conf_option *option = &spec->options[i];
        text_add(out, "  %s:", option->name);
        help_kind(option, out);
        if (option->alias)
            text_add(out, " (also %s)", option->alias);
        text_add(out, "\n      %s\n", option->help ? option->help : "");
    }
}
