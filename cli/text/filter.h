/* SPDX-License-Identifier: MIT */
/* What this command prints, made harmless for terminals.
 *
 * Names, stacks and labels come out of files and may hold anything, escape sequences too. All that
 * is printed to standard output and standard error goes through one filter: control characters
 * (other than tab and newline), characters that reverse or hide text, and bytes
 * that are not UTF-8 become "?". What ranks of acre run print is theirs and passes unchanged.
 */
#ifndef CLI_FILTER_H
#define CLI_FILTER_H

#include <stdbool.h>

void filter_install(void);

/* Whether nothing was put on standard output so far; flushes it. */
bool filter_is_silent(void);

/* A file that is standard output was written there: it is not silent. */
void filter_break_silence(void);

/* The first line on standard error, made harmless; "" when there was none. */
const char *filter_complaint(void);

#endif
