/* SPDX-License-Identifier: MIT */
/* Status codes in words, and the last failure of each thread.
 *
 * A thread has no place for a failure before its first one. Only a pointer and a count are
 * thread-local: a process that loads the library late has little room for more.
 * Memory is not of the counted heap, whose own failures are recorded here.
 */
#include "base/status.h"

#include "base/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(x)  TEXT_OF_(x)
#define TEXT_OF_(x) #x

static const struct status_saved nothing;

_Thread_local uint64_t status_count;

static _Thread_local struct status_saved *last; /* owned; NULL: nothing has failed */
static pthread_key_t key;                       /* frees it when its thread ends   */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static _Atomic int key_error;

static void last_free(void *unused)
{
    (void)unused;
    free(last);
    last = NULL;
}

static void key_make(void)
{
    key_error = pthread_key_create(&key, last_free);
}

/* The key would call into a library that is gone. */
__attribute__((destructor)) static void key_end(void)
{
    last_free(NULL);
    pthread_once(&key_once, key_make);
    if (key_error == 0)
        pthread_key_delete(key);
    key_error = -1;
}

/* Where this thread keeps its failure; NULL when there is no memory for it. */
static struct status_saved *status_place(void)
{
    if (last)
        return last;
    pthread_once(&key_once, key_make);
    last = calloc(1, sizeof *last);
    /* Any value but NULL makes the destructor run. */
    if (last && key_error == 0)
        pthread_setspecific(key, last);
    return last;
}

const char *acre_version(void)
{
    return TEXT_OF(ACRE_VERSION_MAJOR) "." TEXT_OF(ACRE_VERSION_MINOR) "." TEXT_OF(
        ACRE_VERSION_PATCH);
}

const char *acre_status_name(acre_status status)
{
    switch (status) {
#define NAME_CASE(name, number, text)                                                              \
    case ACRE_##name:                                                                              \
        return "ACRE_" #name;
        ACRE_STATUS_MAP(NAME_CASE)
#undef NAME_CASE
    }
    return "ACRE_ERR_?";
}

const char *acre_status_text(acre_status status)
{
    switch (status) {
#define TEXT_CASE(name, number, text)                                                              \
    case ACRE_##name:                                                                              \
        return text;
        ACRE_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    }
    return "a status this version does not know";
}

const char *acre_last_error(void)
{
    return last ? last->text : nothing.text;
}

long acre_last_native(void)
{
    return last ? last->native : 0;
}

static void status_record(long native, const char *format, va_list args)
{
    struct status_saved *to = status_place();

    if (!to)
        return;
    status_count++;
    to->native = native;
    vsnprintf(to->text, sizeof to->text, format, args);
    text_tame(to->text); /* names and values of files are in it */
}

acre_status status_fail(acre_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    status_record(0, format, args);
    va_end(args);
    return status;
}

acre_status status_fail_native(acre_status status, long native, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    status_record(native, format, args);
    va_end(args);
    return status;
}

acre_status acre_error_set(acre_status status, long native, const char *text)
{
    char copy[sizeof nothing.text]; /* text may be what acre_last_error gave */

    snprintf(copy, sizeof copy, "%s", text ? text : "");
    return status_fail_native(status, native, "%s", copy);
}

void status_save(struct status_saved *saved)
{
    *saved = last ? *last : nothing;
}

void status_restore(const struct status_saved *saved)
{
    struct status_saved *to = status_place();

    if (to)
        *to = *saved;
}
