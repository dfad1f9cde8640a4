/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include "base/process/fork.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Guards sink and sink_arg only; the function itself runs unlocked. */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static acre_log_fn sink;
static void *sink_arg;
static _Atomic int sink_level;             /* highest level wanted by the function; 0: none  */
static _Atomic int environment_level = -1; /* the same from ACRE_LOG; -1: not yet read */

/* Around fork: a child finds the lock free. */
static void fork_prepare(void)
{
    pthread_mutex_lock(&sink_lock);
}

static void fork_done(void)
{
    pthread_mutex_unlock(&sink_lock);
}

FORK_HANDLER(log_fork, fork_prepare, fork_done, fork_done);

static int level_from_environment(void)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const char *text = getenv("ACRE_LOG");

    for (int i = 0; text && i < 4; i++)
        if (strcasecmp(text, names[i]) == 0)
            return i + 1;
    return 0;
}

static int stderr_level(void)
{
    int level = atomic_load_explicit(&environment_level, memory_order_relaxed);

    if (level < 0) {
        level = level_from_environment();
        atomic_store_explicit(&environment_level, level, memory_order_relaxed);
    }
    return level;
}

void acre_log_set(acre_log_fn fn, void *arg, acre_log_level level)
{
    pthread_mutex_lock(&sink_lock);
    sink = fn;
    sink_arg = arg;
    atomic_store(&sink_level, fn ? (int)level : 0);
    pthread_mutex_unlock(&sink_lock);
}

bool log_enabled(acre_log_level level)
{
    return (int)level <= atomic_load_explicit(&sink_level, memory_order_relaxed) ||
           (int)level <= stderr_level();
}

void log_line(acre_log_level level, const char *format, ...)
{
    char text[2048];
    va_list args;

    if (!log_enabled(level))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);

    pthread_mutex_lock(&sink_lock);
    acre_log_fn fn = sink;
    void *arg = sink_arg;
    pthread_mutex_unlock(&sink_lock);

    if (fn && (int)level <= atomic_load(&sink_level))
        fn(arg, level, text);
    else if (!fn && (int)level <= stderr_level())
        fprintf(stderr, "acre: %s\n", text);
}
