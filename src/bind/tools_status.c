/* SPDX-License-Identifier: MIT */
/* base/status.h and base/host_limit.h for libacre_tools: failures are recorded where
 * acre_last_error() of libacre reads them, and memory counts against the limit that libacre keeps,
 * both through its public interface. Everything else of base is compiled into both libraries. */
#include "base/status.h"

#include "base/host_limit.h"

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

bool host_limit_is_set(void)
{
    return acre_host_limit_get() != 0;
}

void host_limit_count(int64_t bytes)
{
    acre_host_limit_count(bytes);
}

bool host_limit_refuses(size_t bytes)
{
    if (acre_host_limit_count(0) >= bytes)
        return false;
    status_fail(ACRE_ERR_HOST_MEMORY,
                "more than %llu MiB of host memory would be needed, which is the limit; raise it "
                "with --memory (acre_host_limit_set)",
                (unsigned long long)(acre_host_limit_get() >> 20));
    return true;
}
