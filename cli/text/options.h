/* SPDX-License-Identifier: MIT */
/* Options of a command, one after the other:
 *
 *     struct options options = {argc, argv, "replay"};
 *     while (options_next(&options))
 *         if (options_is(&options, "--json"))
 *             ...
 *         else if (options_value(&options, "--conf", &text))
 *             ...
 *         else if (!options_operand(&options, &file))
 *             options_refuse(&options);
 *     if (options.is_bad) return CLI_BAD;
 *
 * A value follows as the next argument or behind '='. "--" ends the options.
 * What is wrong is said on standard error, once.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    int argc;
    char **argv;
    const char *command; /* for messages                       */
    int at;              /* of the current argument; starts 0  */
    bool is_bad;         /* something was refused; nothing more is given */
    bool is_operands;    /* "--" was met                       */
};

bool options_next(struct options *options);
/* Whether the current argument is this option, which takes no value. */
bool options_is(const struct options *options, const char *name);
/* Whether it is this option with a value, or lacks it (then is_bad). */
bool options_value(struct options *options, const char *name, const char **out);
/* Takes an option whose value is an integer within bounds, or a size such as 80GiB. */
bool options_number(struct options *options, const char *name, uint64_t min, uint64_t max,
                    uint64_t *out);
bool options_size(struct options *options, const char *name, uint64_t *out);
/* Takes an option whose value is a time in seconds, more than 0. */
bool options_seconds(struct options *options, const char *name, double *out);
/* Whether it is not an option but something to work on. */
bool options_operand(const struct options *options, const char **out);
/* Says that the command has no such option. */
void options_refuse(struct options *options);

#endif
