/* SPDX-License-Identifier: MIT */
/* Log lines of the library. Silent unless the user asked (acre_log_set, ACRE_LOG). */
#ifndef SRC_BASE_LOG_H
#define SRC_BASE_LOG_H

#include <acre/base.h>

#include <stdbool.h>

/* Whether a line of this level would be seen; ask before expensive texts. */
bool log_enabled(acre_log_level level);

/* Sends one line. Must not be called with a ranked lock held. */
void log_line(acre_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

#endif
