/* SPDX-License-Identifier: MIT */
/* A small reader of JSON for tests: the whole text becomes a tree. */
#ifndef TESTS_SUPPORT_JSON_H
#define TESTS_SUPPORT_JSON_H

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_kind kind;
    double number;       /* of numbers and booleans                         */
    char *text;          /* of strings                                      */
    char *name;          /* of members of an object                         */
    struct json *child;  /* first element or member                         */
    struct json *next;   /* after this one in its array or object           */
};

/* NULL when the text is not JSON as a whole. */
struct json *json_read(const char *text);
/* The same for a file of up to 16 MiB. */
struct json *json_read_file(const char *path);
void json_free(struct json *json);
/* A member of an object, or NULL. */
const struct json *json_get(const struct json *object, const char *name);

#endif
