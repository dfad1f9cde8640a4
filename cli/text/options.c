/* SPDX-License-Identifier: MIT */
#include "cli/text/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *options_current(const struct options *options)
{
    return options->argv[options->at];
}

bool options_next(struct options *options)
{
    if (options->is_bad || ++options->at >= options->argc)
        return false;
    if (!options->is_operands && strcmp(options_current(options), "--") == 0) {
        options->is_operands = true;
        return ++options->at < options->argc;
    }
    return true;
}

bool options_is(const struct options *options, const char *name)
{
    return !options->is_operands && strcmp(options_current(options), name) == 0;
}

bool options_value(struct options *options, const char *name, const char **out)
{
    size_t length = strlen(name);

    if (options->is_operands || strncmp(options_current(options), name, length) != 0)
        return false;
    if (options_current(options)[length] == '=') {
        *out = options_current(options) + length + 1;
        return true;
    }
    if (options_current(options)[length] != '\0')
        return false;
    if (options->at + 1 == options->argc) {
        fprintf(stderr, "acre %s: %s needs a value; see acre %s --help\n", options->command, name,
                options->command);
        options->is_bad = true;
        return true;
    }
    *out = options->argv[++options->at];
    return true;
}

/* Reads digits; gives what follows them, or NULL when there are none or too many. */
static const char *read_digits(const char *text, uint64_t *out)
{
    uint64_t value = 0;

    if (*text < '0' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return NULL;
    *out = value;
    return text;
}

bool options_number(struct options *options, const char *name, uint64_t min, uint64_t max,
                    uint64_t *out)
{
    const char *text = NULL, *end;
    uint64_t value = 0;

    if (!options_value(options, name, &text))
        return false;
    if (options->is_bad)
        return true;
    end = read_digits(text, &value);
    if (!end || *end || value < min || value > max) {
        fprintf(stderr, "acre %s: %s %s: expected an integer from %llu to %llu\n", options->command,
                name, text, (unsigned long long)min, (unsigned long long)max);
        options->is_bad = true;
        return true;
    }
    *out = value;
    return true;
}

static int unit_shift(const char *unit)
{
    static const char *const units[] = {"",    "B", "K",  "KB",  "KiB", "M",  "MB",
                                        "MiB", "G", "GB", "GiB", "T",   "TB", "TiB"};

    for (int i = 0; i < 14; i++)
        if (strcmp(unit, units[i]) == 0)
            return i < 2 ? 0 : (i - 2) / 3 * 10 + 10;
    return -1;
}

bool options_size(struct options *options, const char *name, uint64_t *out)
{
    const char *text = NULL, *end;
    uint64_t value = 0;
    int shift;

    if (!options_value(options, name, &text))
        return false;
    if (options->is_bad)
        return true;
    end = read_digits(text, &value);
    shift = end ? unit_shift(end) : -1;
    if (shift < 0 || value == 0 || value > UINT64_MAX >> shift) {
        fprintf(stderr, "acre %s: %s %s: write a size such as 80GiB, 24G or 8589934592\n",
                options->command, name, text);
        options->is_bad = true;
        return true;
    }
    *out = value << shift;
    return true;
}

bool options_seconds(struct options *options, const char *name, double *out)
{
    const char *text = NULL;
    char *end = NULL;

    if (!options_value(options, name, &text))
        return false;
    if (options->is_bad)
        return true;
    *out = strtod(text, &end);
    if (end == text || *end || !(*out > 0 && *out <= 1e9)) {
        fprintf(stderr, "acre %s: %s %s: write seconds, such as 2.5\n", options->command, name,
                text);
        options->is_bad = true;
    }
    return true;
}

bool options_operand(const struct options *options, const char **out)
{
    const char *text = options_current(options);

    if (!options->is_operands && text[0] == '-' && text[1]) /* "-" alone is a file */
        return false;
    *out = options_current(options);
    return true;
}

void options_refuse(struct options *options)
{
    fprintf(stderr, "acre %s: \"%s\" is not an option; see acre %s --help\n", options->command,
            options_current(options), options->command);
    options->is_bad = true;
}
