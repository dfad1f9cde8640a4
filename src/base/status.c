/* SPDX-License-Identifier: MIT */
/* Status codes in words, and the last failure of each thread. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) TEXT_OF_(x)
#define TEXT_OF_(x) #x

static _Thread_local struct status_saved last;

const char *acre_version(void)
{
    return TEXT_OF(ACRE_VERSION_MAJOR) "." TEXT_OF(ACRE_VERSION_MINOR) "." TEXT_OF(
        ACRE_VERSION_PATCH);
}

const char *acre_status_name(acre_status status)
{
    switch (status) {
#define NAME_CASE(name, number, text)                                          \
    case ACRE_##name:                                                          \
        return "ACRE_" #name;
        ACRE_STATUS_MAP(NAME_CASE)
#undef NAME_CASE
    }
    return "ACRE_ERR_?";
}

const char *acre_status_text(acre_status status)
{
    switch (status) {
#define TEXT_CASE(name, number, text)                                          \
    case ACRE_##name:                                                          \
        return text;
        ACRE_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    }
    return "a status this version does not know";
}

const char *acre_last_error(void)
{
    return last.text;
}

long acre_last_native(void)
{
    return last.native;
}

static void record(long native, const char *format, va_list args)
{
    last.native = native;
    vsnprintf(last.text, sizeof last.text, format, args);
}

acre_status status_fail(acre_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    record(0, format, args);
    va_end(args);
    return status;
}

acre_status status_fail_native(acre_status status, long native, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    record(native, format, args);
    va_end(args);
    return status;
}

void status_save(struct status_saved *saved)
{
    *saved = last;
}

void status_restore(const struct status_saved *saved)
{
    last = *saved;
}
