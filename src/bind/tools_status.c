/* SPDX-License-Identifier: MIT */
/* base/status.h for libacre_tools: failures are recorded where acre_last_error() of libacre reads
 * them, through its public interface. Everything else of base is compiled into both libraries. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

acre_status status_fail(acre_status status, const char *format, ...)
{
    struct status_saved made;
    va_list args;

    va_start(args, format);
    vsnprintf(made.text, sizeof made.text, format, args);
    va_end(args);
    return acre_error_set(status, 0, made.text);
}

acre_status status_fail_native(acre_status status, long native, const char *format, ...)
{
    struct status_saved made;
    va_list args;

    va_start(args, format);
    vsnprintf(made.text, sizeof made.text, format, args);
    va_end(args);
    return acre_error_set(status, native, made.text);
}

void status_save(struct status_saved *saved)
{
    saved->native = acre_last_native();
    snprintf(saved->text, sizeof saved->text, "%s", acre_last_error());
}

void status_restore(const struct status_saved *saved)
{
    acre_error_set(ACRE_OK, saved->native, saved->text);
}
