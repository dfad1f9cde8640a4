/* SPDX-License-Identifier: MIT */
/* Configuration strings: `key:value,key:value`, read by a table of options.
 *
 *     string := [ item { "," item } [ "," ] ]
 *     item   := key ":" value
 *     value  := word | "[" pair { "," pair } "]"
 *     pair   := word [ ":" word ]
 *     word   := one or more characters other than , : [ ]
 *
 * White space is ignored wherever it stands. Separators are checked, numbers
 * are read whole, and a bad string changes nothing: everything is read into a
 * copy of the target, which replaces it at the end. An error is
 * ACRE_ERR_CONFIG and names the source of the string, key, value and column
 * (from 1, in the string as given). A key given twice: the last one counts,
 * except that an option with its own function sees each.
 */
#ifndef SRC_BASE_CONF_H
#define SRC_BASE_CONF_H

#include "base/text.h"

#include <acre/base.h>

enum conf_kind {
    CONF_BOOL,     /* exactly True or False; stored as 1 or 0                */
    CONF_UNSIGNED, /* whole number within [min, max]                         */
    CONF_BYTES,    /* size with unit (text_parse_bytes) within [min, max]    */
    CONF_MIB,      /* whole number of MiB within [min, max] MiB, stored in
                      bytes; more than fits is stored as the most that does  */
    CONF_FRACTION, /* double within [fraction_min, fraction_max]             */
    CONF_WORD,     /* one of words; its index is stored                      */
    CONF_CUSTOM,   /* read by a function; the only kind that takes lists     */
};

enum conf_flags {
    CONF_FIRST = 1,        /* read before all others, wherever it stands     */
    CONF_POWER_OF_TWO = 2, /* of CONF_UNSIGNED and CONF_BYTES                */
    CONF_OPEN = 4,         /* of CONF_FRACTION: the ends are excluded        */
};

/* A value as met in the string; valid during the call of a function. */
struct conf_value {
    const char *source; /* names the string                                   */
    const char *key;    /* as written                                         */
    const char *text;   /* zero-terminated, without white space; a list keeps
                           its brackets and was checked against the grammar   */
    bool is_list;
    size_t column;      /* of the value, from 1                               */
};

struct conf_option {
    const char *name;
    const char *alias;      /* a second name, or NULL                         */
    enum conf_kind kind;
    unsigned flags;         /* enum conf_flags                                */
    size_t offset;          /* of the field in the target: CONF_FIELD         */
    size_t width;           /* of the field: 1, 2, 4 or 8; 8 for fractions    */
    uint64_t min, max;      /* max 0: as much as fits the field               */
    double fraction_min, fraction_max;
    const char *const *words; /* ends with NULL                               */
    /* Reads a value into the copy of the target; fails with conf_fail. */
    acre_status (*parse)(const struct conf_value *value, void *target);
    const char *help;       /* one line: meaning and default                  */
};

#define CONF_FIELD(type, member)                                               \
    .offset = offsetof(type, member), .width = sizeof(((type *)0)->member)

struct conf_spec {
    const struct conf_option *options; /* at most 64                           */
    size_t option_count;
    size_t target_bytes;
    /* Called with the target after all options, or NULL: checks what concerns
     * several fields. given has bit i set when option i was in the string.
     * Fails with status_fail(ACRE_ERR_CONFIG, ...). */
    acre_status (*validate)(void *target, uint64_t given);
};

/* Reads text into target. source names the string in errors, for example
 * "ACRE_SIM". out_given may be NULL; see validate.
 * Errors: ACRE_ERR_CONFIG, ACRE_ERR_HOST_MEMORY; target is unchanged then. */
acre_status conf_parse(const struct conf_spec *spec, const char *source, const char *text,
                       void *target, uint64_t *out_given);

/* Records that a value is not acceptable; why completes "... is not valid: ". */
acre_status conf_fail(const struct conf_value *value, const char *why, ...)
    __attribute__((format(printf, 2, 3), cold));

/* Walks the pairs of a list. *at starts at 0. False at the end; second is empty
 * (length 0) when the pair is a single word. */
struct conf_word {
    const char *text; /* not zero-terminated */
    size_t length;
};
bool conf_list_next(const struct conf_value *value, size_t *at, struct conf_word *first,
                    struct conf_word *second);

/* Adds a line per option: name, what it takes, what it means. */
void conf_help(const struct conf_spec *spec, struct text *out);

#endif
