/* SPDX-License-Identifier: MIT */
#include "tests/support/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct json *read_value(const char **at);

static void skip(const char **at)
{
    while (isspace((unsigned char)**at))
        ++*at;
}

static int accept(const char **at, char c)
{
    skip(at);
    if (**at != c)
        return 0;
    ++*at;
    return 1;
}

static char *read_string(const char **at)
{
    if (!accept(at, '"'))
        return NULL;
    char *text = malloc(strlen(*at) + 1), *out = text;

    while (**at && **at != '"') {
        if (**at == '\\') {
            static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
            const char *found = strchr(from, *++*at);
            if (**at == 'u') {
                *out++ = (char)strtol((char[]){(*at)[3], (*at)[4], 0}, NULL, 16);
                *at += 5;
                continue;
            }
            *out++ = found && *found ? to[found - from] : **at;
            ++*at;
        } else {
            *out++ = *(*at)++;
        }
    }
    *out = '\0';
    if (accept(at, '"'))
        return text;
    free(text);
    return NULL;
}

static int read_members(const char **at, struct json *json, char close)
{
    struct json **last = &json->child;

    if (accept(at, close))
        return 1;
    do {
        char *name = NULL;
        if (close == '}' && (!(name = read_string(at)) || !accept(at, ':'))) {
            free(name);
            return 0;
        }
        struct json *value = read_value(at);
        if (!value) {
            free(name);
            return 0;
        }
        value->name = name;
        *last = value;
        last = &value->next;
    } while (accept(at, ','));
    return accept(at, close);
}

static int read_word(const char **at, const char *word)
{
    size_t length = strlen(word);

    if (strncmp(*at, word, length) != 0)
        return 0;
    *at += length;
    return 1;
}

static struct json *read_value(const char **at)
{
    struct json *json = calloc(1, sizeof *json);
    int is_good = 1;
    char *end;

    skip(at);
    if (**at == '{' || **at == '[') {
        char close = **at == '{' ? '}' : ']';
        json->kind = **at == '{' ? JSON_OBJECT : JSON_ARRAY;
        ++*at;
        is_good = read_members(at, json, close);
    } else if (**at == '"') {
        json->kind = JSON_STRING;
        json->text = read_string(at);
        is_good = json->text != NULL;
    } else if (read_word(at, "null")) {
        json->kind = JSON_NULL;
    } else if (**at == 't' || **at == 'f') {
        json->kind = JSON_BOOL;
        json->number = **at == 't';
        is_good = read_word(at, "true") || read_word(at, "false");
    } else {
        json->kind = JSON_NUMBER;
        json->number = strtod(*at, &end);
        is_good = end != *at;
        *at = end;
    }
    if (is_good)
        return json;
    json_free(json);
    return NULL;
}

struct json *json_read(const char *text)
{
    struct json *json = read_value(&text);

    skip(&text);
    if (json && *text) {
        json_free(json);
        return NULL;
    }
    return json;
}

struct json *json_read_file(const char *path)
{
    enum { BYTES = 16 << 20 };
    FILE *file = fopen(path, "rb");
    char *text = malloc(BYTES);
    struct json *json = NULL;

    if (file && text) {
        text[fread(text, 1, BYTES - 1, file)] = '\0';
        json = json_read(text);
    }
    if (file)
        fclose(file);
    free(text);
    return json;
}

void json_free(struct json *json)
{
    while (json) {
        struct json *next = json->next;
        json_free(json->child);
        free(json->text);
        free(json->name);
        free(json);
        json = next;
    }
}

const struct json *json_get(const struct json *object, const char *name)
{
    const struct json *at = object ? object->child : NULL;

    while (at && !(at->name && strcmp(at->name, name) == 0))
        at = at->next;
    return at;
}
