/* SPDX-License-Identifier: MIT */
/* Failing calls on demand, counting them, and telling what is held. */
#include "tests/standin/pool.h"
#include "tests/standin/virtual.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 64
#define FAULTS_MAX 16
#define COUNTERS_MAX 256

struct fault {
    char name[NAME_BYTES]; /* "": any */
    uint64_t nth;          /* counted down; 0: all calls */
    int is_once;
    CUresult code;
};

struct counter {
    const char *name;
    uint64_t calls;
};

/* A lock of its own: calls are counted before anything else is looked at. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[FAULTS_MAX];
static int fault_count, is_sparing;
static uint64_t fail_count, call_count;
static const char *failed_name = "";
static struct counter counters[COUNTERS_MAX];

/* Whether an entry point gives something back. */
static int is_giver(const char *name)
{
    static const char *const words[] = {"Free", "Destroy", "Release", "Unmap", "Unregister",
                                        "Close", "Pop", "Unbind"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return 1;
    return 0;
}

static void count_locked(const char *name)
{
    size_t at = 0;

    while (at < COUNTERS_MAX - 1 && counters[at].name && strcmp(counters[at].name, name) != 0)
        at++;
    counters[at].name = name;
    counters[at].calls++;
    call_count++;
}

static CUresult fault_apply_locked(struct fault *fault, const char *name)
{
    if (*fault->name ? strcmp(fault->name, name) != 0 : is_sparing && is_giver(name))
        return CUDA_SUCCESS;
    if (fault->is_once && (fault->nth == 0 || --fault->nth > 0))
        return CUDA_SUCCESS;
    fail_count++;
    failed_name = name;
    return fault->code;
}

CUresult control_apply(const char *name)
{
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    count_locked(name);
    for (int i = 0; i < fault_count && !result; i++)
        result = fault_apply_locked(&faults[i], name);
    pthread_mutex_unlock(&lock);
    return result;
}

STANDIN_EXPORT void standin_fail(const char *name, uint64_t nth, int code)
{
    pthread_mutex_lock(&lock);
    if (fault_count < FAULTS_MAX) {
        struct fault *fault = &faults[fault_count++];

        *fault = (struct fault){.nth = nth, .is_once = nth > 0, .code = code};
        strncpy(fault->name, name ? name : "", NAME_BYTES - 1);
    }
    pthread_mutex_unlock(&lock);
}

STANDIN_EXPORT void standin_fail_nth(uint64_t nth, int code)
{
    standin_fail(NULL, nth, code);
}

STANDIN_EXPORT void standin_spare(int is_spared)
{
    pthread_mutex_lock(&lock);
    is_sparing = is_spared;
    pthread_mutex_unlock(&lock);
}

STANDIN_EXPORT uint64_t standin_fail_end(void)
{
    pthread_mutex_lock(&lock);
    uint64_t count = fail_count;

    fault_count = 0;
    fail_count = 0;
    pthread_mutex_unlock(&lock);
    return count;
}

STANDIN_EXPORT const char *standin_failed(void)
{
    pthread_mutex_lock(&lock);
    const char *name = failed_name;

    pthread_mutex_unlock(&lock);
    return name;
}

STANDIN_EXPORT uint64_t standin_calls(const char *name)
{
    uint64_t calls = 0;

    pthread_mutex_lock(&lock);
    if (!name)
        calls = call_count;
    for (size_t i = 0; name && i < COUNTERS_MAX && counters[i].name; i++)
        if (strcmp(counters[i].name, name) == 0)
            calls = counters[i].calls;
    pthread_mutex_unlock(&lock);
    return calls;
}

/* NAME@N=CODE */
void control_environment(void)
{
    const char *text = getenv("STANDIN_FAIL");
    char name[NAME_BYTES] = "";
    unsigned long long nth = 0;
    int code = 0;

    if (text && sscanf(text, "%63[^@]@%llu=%d", name, &nth, &code) == 3)
        standin_fail(strcmp(name, "any") == 0 ? NULL : name, nth, code);
}

/* ---- What is held ----------------------------------------------------------------- */

static void add_one(void *object, void *arg)
{
    (void)object;
    ++*(uint64_t *)arg;
}

STANDIN_EXPORT uint64_t standin_live(struct standin_live *out)
{
    struct standin_live live = {0};
    uint64_t sum = 0;

    books_lock();
    block_count(&live);
    context_live(&live);
    object_each(KIND_STREAM, add_one, &live.streams);
    object_each(KIND_EVENT, add_one, &live.events);
    memory_live(&live);
    pool_live(&live);
    object_each(KIND_GRAPH, add_one, &live.graphs);
    object_each(KIND_EXEC, add_one, &live.graphs);
    object_each(KIND_GREEN, add_one, &live.greens);
    books_unlock();
#define ADD(name) sum += live.name;
    STANDIN_LIVE_MAP(ADD)
#undef ADD
    if (out)
        *out = live;
    return sum;
}
