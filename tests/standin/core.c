/* SPDX-License-Identifier: MIT */
/* Starting a stand-in, handles, and the vendor's codes. */
#include "tests/standin/core.h"

#include "sim/work/sim_queue.h"
#include "base/ptrmap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct settings standin;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static int was_asked; /* the environment was read */
static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;
static struct ptrmap objects = PTRMAP_INITIALIZER;
static _Atomic int is_started; /* everything in standin is set and stays */
static uintptr_t handle_last = 0x5c0000000000;

void books_lock(void)
{
    pthread_mutex_lock(&books);
}

void books_unlock(void)
{
    pthread_mutex_unlock(&books);
}

/* ---- Codes ----------------------------------------------------------------------- */

CUresult result_of(acre_status status)
{
    switch (status) {
    case ACRE_OK:
        return CUDA_SUCCESS;
    case ACRE_ERR_DEVICE_MEMORY:
    case ACRE_ERR_HOST_MEMORY:
    case ACRE_ERR_LIMIT:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case ACRE_ERR_NOT_READY:
        return CUDA_ERROR_NOT_READY;
    case ACRE_ERR_UNSUPPORTED:
        return CUDA_ERROR_NOT_SUPPORTED;
    case ACRE_ERR_FORKED:
        return CUDA_ERROR_NOT_INITIALIZED;
    case ACRE_ERR_STATE:
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    case ACRE_ERR_PEER:
    case ACRE_ERR_NOT_FOUND:
    case ACRE_ERR_FORMAT:
        return CUDA_ERROR_INVALID_HANDLE;
    case ACRE_ERR_IO:
        return CUDA_ERROR_OPERATING_SYSTEM;
    case ACRE_ERR_DEVICE:
        return CUDA_ERROR_UNKNOWN;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult waited(acre_status status)
{
    return status == ACRE_ERR_INVALID ? CUDA_ERROR_ILLEGAL_ADDRESS : result_of(status);
}

static const struct code {
    int number;
    const char *name;
} codes[] = {
#define CODE(name, value) {value, #name},
    CUDA_CONSTANT_MAP(CODE)
#undef CODE
};

/* Numbers of errors come first in the list; later entries are other constants. */
static const char *code_name(CUresult error)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].number == error && strncmp(codes[i].name, "CUDA_", 5) == 0)
            return codes[i].name;
    return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **out)
{
    ENTER(cuGetErrorName, ENTRY_EARLY);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = code_name(error);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **out)
{
    ENTER(cuGetErrorString, ENTRY_EARLY);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = code_name(error) ? "as the stand-in was told or found" : NULL;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Starting ---------------------------------------------------------------------- */

static unsigned lacks_of(const char *text)
{
    static const char *const names[] = {"virtual", "fabric", "posix", "multicast", "pools",
                                        "values"};
    unsigned lacks = 0;

    for (unsigned i = 0; text && i < sizeof names / sizeof *names; i++)
        if (strstr(text, names[i]))
            lacks |= 1u << i;
    return lacks;
}

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text && *text ? atoi(text) : otherwise;
}

/* Makes the device behind the library. */
static CUresult device_start(const char *text)
{
    acre_sim_config config = {.struct_size = sizeof config, .name = "standin"};

    if ((text && acre_sim_parse(text, &config) != ACRE_OK) ||
        acre_sim_create(&config, &standin.backend) != ACRE_OK)
        return CUDA_ERROR_UNKNOWN;
    standin.ops = &standin.backend->ops;
    standin.self = standin.backend->self;
    standin.device_count = standin.backend->device_count;
    standin.page_bytes = standin.backend->devices[0].info.page_bytes;
    atomic_store(&is_started, 1);
    return CUDA_SUCCESS;
}

static void environment_read(void)
{
    was_asked = 1;
    standin.version = number_of("STANDIN_VERSION", vendor.version);
    standin.init_code = number_of("STANDIN_INIT", 0);
    standin.lacks = lacks_of(getenv("STANDIN_WITHOUT"));
    control_environment();
}

CUresult core_start(void)
{
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&start_lock);
    if (!was_asked)
        environment_read();
    if (standin.init_code)
        result = standin.init_code;
    else if (!atomic_load(&is_started))
        result = device_start(getenv("STANDIN_SIM"));
    pthread_mutex_unlock(&start_lock);
    return result;
}

/* A process that leaves things behind still ends the threads of the device. */
__attribute__((destructor)) static void core_end(void)
{
    if (atomic_exchange(&is_started, 0))
        acre_backend_unregister(standin.backend);
}

STANDIN_EXPORT uint64_t standin_restart(const char *sim)
{
    struct standin_live live;
    uint64_t held = standin_live(&live);

    if (held)
        return held;
    pthread_mutex_lock(&start_lock);
    if (!was_asked)
        environment_read();
    if (atomic_load(&is_started)) {
        pools_end();
        atomic_store(&is_started, 0);
        acre_backend_unregister(standin.backend);
    }
    if (sim && device_start(sim) != CUDA_SUCCESS)
        held = UINT64_MAX;
    pthread_mutex_unlock(&start_lock);
    return held;
}

STANDIN_EXPORT int standin_usage(acre_sim_usage *out)
{
    return acre_sim_usage_get(standin.backend, out);
}

static _Thread_local int depth;

/* The first call of a runtime starts it; a driver wants to be started. */
static CUresult entry_start(void)
{
    return vendor.has_contexts ? CUDA_ERROR_NOT_INITIALIZED : core_start();
}

struct entry entry_begin(const char *name, enum entry_rule rule)
{
    struct entry entry = {name, CUDA_SUCCESS};

    if (depth++ > 0)
        return entry;
    entry.result = control_apply(name);
    if (!entry.result && stream_running())
        entry.result = CUDA_ERROR_NOT_PERMITTED; /* from a host function */
    if (!entry.result && rule == ENTRY_STARTED && !atomic_load(&is_started))
        entry.result = entry_start();
    if (entry.result)
        depth--;
    return entry;
}

void entry_end(struct entry *entry)
{
    if (!entry->result)
        depth--;
}

CUresult cuInit(unsigned flags)
{
    ENTER(cuInit, ENTRY_EARLY);
    return flags ? CUDA_ERROR_INVALID_VALUE : core_start();
}

CUresult cuDriverGetVersion(int *version)
{
    ENTER(cuDriverGetVersion, ENTRY_EARLY);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = number_of("STANDIN_VERSION", vendor.version);
    return CUDA_SUCCESS;
}

/* ---- Handles -------------------------------------------------------------------------- */

void *object_create(enum kind kind, size_t bytes, int device)
{
    struct object *object = calloc(1, bytes);

    if (!object)
        return NULL;
    *object = (struct object){kind, handle_last += 16, device};
    if (ptrmap_put(&objects, (void *)object->handle, object) != ACRE_OK) {
        free(object);
        return NULL;
    }
    return object;
}

void *object_find(enum kind kind, const void *handle)
{
    struct object *object = handle ? ptrmap_get(&objects, handle) : NULL;

    return object && object->kind == kind ? object : NULL;
}

void object_destroy(void *object)
{
    ptrmap_take(&objects, (void *)((struct object *)object)->handle);
    free(object);
}

void object_each(enum kind kind, void (*fn)(void *object, void *arg), void *arg)
{
    struct ptrmap_entry *entry;
    size_t at = 0;

    while ((entry = ptrmap_next(&objects, &at)) != NULL)
        if (((struct object *)entry->value)->kind == kind)
            fn(entry->value, arg);
}
