/* SPDX-License-Identifier: MIT */
/* The registry: which backends there are and which one answers for a type.
 *
 * For each type one backend answers: the latest masquerade as that type, else
 * the first backend of it that is registered and not hidden by a renaming
 * masquerade, else the built-in one, started at that moment. The answer is kept
 * in slots, so that finding a device takes no lock.
 *
 * Backends run no code under the registry lock. Starting a built-in one holds
 * the start lock, so that it happens once.
 */
#include "backend/backend.h"

#include "backend/answer.h"
#include "backend/builtin.h"
#include "backend/peer.h"
#include "backend/stream.h"
#include "backend/synchronous.h"
#include "backend/table.h"
#include "backend/thread.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/process/fork.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 63

/* A backend that comes with the library. */
struct builtin {
    const char *name;
    acre_device_type type;
    acre_status (*start)(acre_backend **out); /* registers it */
};

static const struct builtin builtins[] = {
    {"sim", ACRE_DEVICE_PRIVATE, sim_start},      {"host", ACRE_DEVICE_CPU, host_start},
    {"cuda", ACRE_DEVICE_CUDA, cuda_start},       {"hip", ACRE_DEVICE_HIP, hip_start},
#ifndef ACRE_WITHOUT_OPENCL
    {"opencl", ACRE_DEVICE_OPENCL, opencl_start},
#endif
};

#define BUILTIN_COUNT ((int)(sizeof builtins / sizeof builtins[0]))

static struct lock start_lock = LOCK_INITIALIZER(RANK_START, "start");
static struct lock registry_lock = LOCK_INITIALIZER(RANK_REGISTRY, "registry");
static struct list backends = LIST_INITIALIZER(backends); /* oldest first; registry_lock */
static uint64_t number_last;                              /* registry_lock               */
static _Atomic(acre_backend *) slots[ACRE_DEVICE_TYPE_COUNT];

/* ---- Fork ------------------------------------------------------------------ */

/* Backends that cannot live in a child of fork are not called there, not even to give things
 * back: their devices answer ACRE_ERR_FORKED whatever is asked. */
static void in_child(void)
{
    LIST_FOR_EACH(it, &backends) {
        acre_backend *backend = CONTAINER_OF(it, acre_backend, link);

        if (backend->flags & ACRE_BACKEND_FORK_SAFE)
            continue;
        for (int i = 0; i < backend->device_count; i++)
            backend->devices[i].ops = &table_forked;
    }
}

FORK_GUARD(start_lock);
FORK_GUARD(registry_lock);
FORK_HANDLER(backend_fork, NULL, NULL, in_child);

acre_status backend_check_fork(const acre_backend *backend)
{
    if (LIKELY(backend->fork_generation == fork_generation()) ||
        (backend->flags & ACRE_BACKEND_FORK_SAFE))
        return ACRE_OK;
    return status_fail(ACRE_ERR_FORKED,
                       "backend \"%s\" was started before fork and does not work in the child; "
                       "use it in the child only, or start the child with exec or spawn",
                       backend->name);
}

/* ---- Which backend answers -------------------------------------------------- */

static acre_backend *slot_find_locked(int type)
{
    acre_backend *found = NULL, *masked = NULL;

    LIST_FOR_EACH(it, &backends) {
        acre_backend *backend = CONTAINER_OF(it, acre_backend, link);

        if (backend->form && backend->shown == type &&
            (!masked || backend->masquerade_number > masked->masquerade_number))
            masked = backend;
        if (!found && (int)backend->type == type && backend->form != ACRE_MASQUERADE_RENAME)
            found = backend;
    }
    return masked ? masked : found;
}

static void slots_update_locked(void)
{
    for (int type = 0; type < ACRE_DEVICE_TYPE_COUNT; type++)
        atomic_store_explicit(&slots[type], slot_find_locked(type), memory_order_release);
}

static acre_backend *find_locked(const char *name)
{
    LIST_FOR_EACH(it, &backends) {
        acre_backend *backend = CONTAINER_OF(it, acre_backend, link);

        if (strcmp(backend->name, name) == 0)
            return backend;
    }
    return NULL;
}

static acre_backend *backend_find(const char *name)
{
    acre_backend *backend;

    lock_take(&registry_lock);
    backend = find_locked(name);
    lock_drop(&registry_lock);
    return backend;
}

acre_backend *backend_of_library(const void *library)
{
    acre_backend *found = NULL;

    lock_take(&registry_lock);
    LIST_FOR_EACH(it, &backends) {
        acre_backend *backend = CONTAINER_OF(it, acre_backend, link);

        if (backend->library == library)
            found = backend;
    }
    lock_drop(&registry_lock);
    return found;
}

static int is_registered_locked(const acre_backend *backend)
{
    int is_there = 0;

    LIST_FOR_EACH(it, &backends)
        is_there |= CONTAINER_OF(it, acre_backend, link) == backend;
    return is_there;
}

int backend_is_registered(const acre_backend *backend)
{
    int is_there;

    lock_take(&registry_lock);
    is_there = is_registered_locked(backend);
    lock_drop(&registry_lock);
    return is_there;
}

int backend_number_is_live(uint64_t number)
{
    int is_there = 0;

    lock_take(&registry_lock);
    LIST_FOR_EACH(it, &backends)
        is_there |= CONTAINER_OF(it, acre_backend, link)->number == number;
    lock_drop(&registry_lock);
    return is_there;
}

static void show_locked(acre_backend *backend, acre_device_type shown, int form)
{
    backend->shown = (int)shown;
    backend->form = form;
    backend->masquerade_number = ++number_last;
    for (int i = 0; i < backend->device_count; i++)
        backend->devices[i].type = (int)shown;
    slots_update_locked();
}

acre_status backend_show(acre_backend *backend, acre_device_type shown, int form)
{
    acre_status status = ACRE_OK;

    lock_take(&registry_lock);
    if (!is_registered_locked(backend))
        status = status_fail(ACRE_ERR_INVALID, "the backend to masquerade is not registered");
    else if (form && backend->form)
        status =
            status_fail(ACRE_ERR_STATE, "backend \"%s\" is already shown as type %s", backend->name,
                        acre_device_type_name((acre_device_type)backend->shown));
    else if (form || backend->form)
        show_locked(backend, shown, form);
    lock_drop(&registry_lock);
    return status;
}

/* Whether ACRE_BACKENDS, a list of names with commas between, lets a built-in
 * backend start; without it all may. */
static int builtin_is_wanted(const struct builtin *builtin)
{
    const char *list = getenv("ACRE_BACKENDS");
    size_t bytes = strlen(builtin->name);

    if (!list || !*list)
        return 1;
    for (;; list++) {
        size_t word = strcspn(list, ",");

        if (word == bytes && memcmp(list, builtin->name, bytes) == 0)
            return 1;
        list += word;
        if (!*list)
            return 0;
    }
}

/* Starts a built-in backend unless another thread just did. */
static acre_status builtin_start(const struct builtin *builtin, acre_backend **out)
{
    acre_status status = ACRE_OK;
    acre_backend *backend;

    if (!builtin_is_wanted(builtin))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "ACRE_BACKENDS leaves \"%s\" out; add it to the list, or unset it",
                           builtin->name);
    lock_take(&start_lock);
    backend = backend_find(builtin->name);
    if (!backend)
        status = builtin->start(&backend);
    lock_drop(&start_lock);
    if (status == ACRE_OK)
        *out = backend;
    return status;
}

static const struct builtin *builtin_of_type(acre_device_type type)
{
    for (int i = 0; i < BUILTIN_COUNT; i++)
        if (builtins[i].type == type && builtin_is_wanted(&builtins[i]))
            return &builtins[i];
    return NULL;
}

int backend_is_known(acre_device_type type)
{
    return device_type_is_valid((int)type) &&
           (atomic_load_explicit(&slots[type], memory_order_acquire) || builtin_of_type(type));
}

/* Starts the built-in backend of a type. Where there is no CUDA, HIP devices are
 * shown as CUDA; why there is none stays the answer when there is no HIP either. */
static acre_status builtin_start_type(const struct builtin *builtin)
{
    acre_backend *backend = NULL;
    acre_status status = backend_find(builtin->name) ? ACRE_OK : builtin_start(builtin, &backend);
    const struct builtin *hip = builtin_of_type(ACRE_DEVICE_HIP);
    struct status_saved why;

    if (status != ACRE_ERR_UNSUPPORTED || builtin->type != ACRE_DEVICE_CUDA || !hip)
        return status;
    status_save(&why);
    if (builtin_start(hip, &backend) == ACRE_OK &&
        backend_show(backend, ACRE_DEVICE_CUDA, ACRE_MASQUERADE_TRANSLATE) == ACRE_OK)
        return ACRE_OK;
    status_restore(&why);
    return status;
}

acre_status backend_of_type(acre_device_type type, acre_backend **out)
{
    const struct builtin *builtin;
    acre_backend *backend;
    acre_status status = ACRE_OK;

    if (!device_type_is_valid((int)type))
        return status_fail(ACRE_ERR_INVALID, "device type %d does not exist; valid are 0 to %d",
                           (int)type, ACRE_DEVICE_TYPE_COUNT - 1);
    backend = atomic_load_explicit(&slots[type], memory_order_acquire);
    if (!backend && (builtin = builtin_of_type(type))) {
        status = builtin_start_type(builtin);
        if (status != ACRE_OK)
            return status;
        /* Another thread may have started it since the slot was read; the slot
         * stays empty only while the backend shows itself as another type. */
        backend = atomic_load_explicit(&slots[type], memory_order_acquire);
    }
    if (!backend)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "no backend for device type %s (%d) is linked in or registered",
                           acre_device_type_name(type), (int)type);
    status = backend_check_fork(backend);
    if (status == ACRE_OK)
        *out = backend;
    return status;
}

acre_status acre_backend_find(const char *name, acre_backend **out)
{
    acre_backend *backend;
    acre_status status = ACRE_OK;

    if (!name || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_backend_find: %s is NULL",
                           name ? "out" : "name");
    backend = backend_find(name);
    for (int i = 0; !backend && status == ACRE_OK && i < BUILTIN_COUNT; i++)
        if (strcmp(builtins[i].name, name) == 0)
            status = builtin_start(&builtins[i], &backend);
    if (status != ACRE_OK)
        return status;
    if (!backend)
        return status_fail(ACRE_ERR_NOT_FOUND,
                           "no backend is named \"%s\"; acre_backend_name_at() lists those that "
                           "are built in",
                           name);
    status = backend_check_fork(backend);
    if (status == ACRE_OK)
        *out = backend;
    return status;
}

const char *acre_backend_name_at(int index)
{
    return index >= 0 && index < BUILTIN_COUNT ? builtins[index].name : NULL;
}

const char *acre_backend_name(const acre_backend *backend)
{
    return backend ? backend->name : "";
}

acre_device_type acre_backend_type(const acre_backend *backend)
{
    return backend ? backend->type : ACRE_DEVICE_CPU;
}

int acre_backend_device_count(const acre_backend *backend)
{
    return backend ? backend->device_count : 0;
}

/* ---- Registering ------------------------------------------------------------ */

static int name_is_valid(const char *name)
{
    size_t bytes = strlen(name);

    for (size_t i = 0; i < bytes; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
            return 0;
    return bytes > 0 && bytes <= NAME_BYTES_MAX;
}

/* The name is shown on one line whatever is in it. */
static acre_status name_refuse(const char *name)
{
    char shown[NAME_BYTES_MAX + 1];

    snprintf(shown, sizeof shown, "%s", name ? name : "(NULL)");
    for (char *at = shown; *at; at++)
        if (!isprint((unsigned char)*at))
            *at = '?';
    return status_fail(ACRE_ERR_INVALID,
                       "backend name \"%s\" is not 1 to %d letters, digits, '-' and '_'", shown,
                       NAME_BYTES_MAX);
}

/* Checks a description and widens a short one of an older caller. */
static acre_status desc_take(const acre_backend_desc *given, acre_backend_desc *desc)
{
    acre_status status = STRUCT_TAKE("acre_backend_register", acre_backend_desc, given, desc);

    if (status != ACRE_OK)
        return status;
    if (!desc->name || !name_is_valid(desc->name))
        return name_refuse(desc->name);
    if (!device_type_is_valid((int)desc->type))
        return status_fail(ACRE_ERR_INVALID, "backend \"%s\": device type %d does not exist",
                           desc->name, (int)desc->type);
    if (desc->codec != ACRE_STREAM_CODEC_REFERENCE && desc->codec != ACRE_STREAM_CODEC_CUDA)
        return status_fail(ACRE_ERR_INVALID, "backend \"%s\": stream codec %d does not exist",
                           desc->name, (int)desc->codec);
    if (!desc->ops)
        return status_fail(ACRE_ERR_INVALID, "backend \"%s\": ops is NULL", desc->name);
    return ACRE_OK;
}

/* Puts right what a backend may leave out, and refuses what contradicts it. */
static acre_status info_complete(const acre_backend *backend, int index, acre_device_info *info)
{
    info->name[sizeof info->name - 1] = '\0';
    if (info->capabilities & ~backend->groups)
        return status_fail(ACRE_ERR_INVALID,
                           "backend \"%s\": device %d claims capabilities 0x%x, its table has "
                           "0x%x only",
                           backend->name, index, info->capabilities, backend->groups);
    if (info->capabilities == 0)
        info->capabilities = backend->groups;
    if (info->alloc_granularity == 0)
        info->alloc_granularity = 1;
    if (!(info->capabilities & ACRE_CAP_VIRTUAL))
        info->page_bytes = 0;
    else if (!is_power_of_two(info->page_bytes))
        return status_fail(ACRE_ERR_INVALID,
                           "backend \"%s\": device %d has virtual memory, but its page_bytes %llu "
                           "is not a power of two",
                           backend->name, index, (unsigned long long)info->page_bytes);
    if (!is_power_of_two(info->alloc_granularity))
        return status_fail(ACRE_ERR_INVALID,
                           "backend \"%s\": alloc_granularity %llu of device %d is not a power of "
                           "two",
                           backend->name, (unsigned long long)info->alloc_granularity, index);
    return ACRE_OK;
}

static acre_status devices_ask(acre_backend *backend)
{
    int count = 0;
    acre_status status = backend->ops.device_count(backend->self, &count);

    if (status != ACRE_OK)
        return status;
    if (count < 0 || count > BACKEND_DEVICES_MAX)
        return status_fail(ACRE_ERR_INVALID, "backend \"%s\" has %d devices; valid are 0 to %d",
                           backend->name, count, BACKEND_DEVICES_MAX);
    backend->devices = heap_array((size_t)count, sizeof *backend->devices);
    if (!backend->devices)
        return ACRE_ERR_HOST_MEMORY;
    backend->device_count = count;
    for (int i = 0; i < count && status == ACRE_OK; i++) {
        struct acre_device *device = &backend->devices[i];

        device->ops = &backend->ops;
        device->self = backend->self;
        device->index = i;
        device->type = (int)backend->type;
        device->backend = backend;
        device->info.struct_size = sizeof device->info;
        status = backend->ops.device_info(backend->self, i, &device->info);
        if (status == ACRE_OK)
            status = info_complete(backend, i, &device->info);
    }
    return status;
}

static void backend_destroy(acre_backend *backend)
{
    if (!backend)
        return;
    peer_cache_destroy(backend->peers);
    stream_pools_destroy(backend);
    synchronous_destroy(backend->synchronous);
    answer_destroy(backend->answer);
    heap_free(backend->devices);
    heap_free(backend->name);
    heap_free(backend);
}

/* The table that is called: around that of others, and around one whose device is synchronous. */
static acre_status table_install(acre_backend_desc *desc, bool is_own, acre_backend *backend)
{
    acre_backend_ops around;
    acre_status status = is_own ? ACRE_OK : answer_create(desc, &backend->answer);

    if (status != ACRE_OK)
        return status;
    backend->self = desc->self;
    if (!(desc->flags & ACRE_BACKEND_SYNCHRONOUS))
        return table_complete(backend->name, desc->ops, &backend->ops, &backend->groups);
    status = synchronous_create(desc, &around, &backend->synchronous);
    if (status != ACRE_OK)
        return status;
    backend->self = backend->synchronous;
    return table_complete(backend->name, &around, &backend->ops, &backend->groups);
}

/* Everything but the place in the registry. Destroyed by backend_destroy. */
static acre_status backend_create(acre_backend_desc *desc, bool is_own, acre_backend **out)
{
    acre_backend *backend = heap_zalloc(sizeof *backend);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!backend)
        return status;
    list_init(&backend->link);
    backend->type = desc->type;
    backend->shown = (int)desc->type;
    backend->codec = desc->codec;
    backend->flags = desc->flags;
    backend->given_self = desc->self;
    backend->destroy = desc->destroy;
    backend->fork_generation = fork_generation();
    backend->name = heap_strdup(desc->name);
    if (!backend->name)
        goto undo;
    status = table_install(desc, is_own, backend);
    if (status == ACRE_OK)
        status = devices_ask(backend);
    if (status == ACRE_OK)
        status = stream_pools_create(backend);
    if (status == ACRE_OK)
        status = peer_cache_create(backend->device_count, &backend->peers);
    if (status != ACRE_OK)
        goto undo;
    *out = backend;
    return ACRE_OK;

undo:
    backend_destroy(backend);
    return status;
}

static acre_status backend_add(const acre_backend_desc *given, bool is_own, const void *library,
                               acre_backend **out)
{
    acre_backend_desc desc;
    acre_backend *backend = NULL;
    acre_status status = desc_take(given, &desc);

    if (status == ACRE_OK && !out)
        status = status_fail(ACRE_ERR_INVALID, "acre_backend_register: out is NULL");
    if (status == ACRE_OK && backend_find(desc.name))
        status = status_fail(ACRE_ERR_EXISTS, "a backend named \"%s\" exists", desc.name);
    if (status == ACRE_OK)
        status = backend_create(&desc, is_own, &backend);
    if (status != ACRE_OK)
        return status;
    backend->library = library;
    lock_take(&registry_lock);
    if (find_locked(backend->name)) {
        lock_drop(&registry_lock);
        status = status_fail(ACRE_ERR_EXISTS, "a backend named \"%s\" exists", desc.name);
        backend_destroy(backend);
        return status;
    }
    backend->number = ++number_last;
    list_push_back(&backends, &backend->link);
    slots_update_locked();
    lock_drop(&registry_lock);
    *out = backend;
    return ACRE_OK;
}

acre_status acre_backend_register(const acre_backend_desc *given, acre_backend **out)
{
    return backend_add(given, false, NULL, out);
}

acre_status backend_register_loaded(const acre_backend_desc *desc, const void *library,
                                    acre_backend **out)
{
    return backend_add(desc, false, library, out);
}

acre_status backend_register_own(const acre_backend_desc *desc, acre_backend **out)
{
    return backend_add(desc, true, NULL, out);
}

void acre_backend_unregister(acre_backend *backend)
{
    void (*destroy)(void *);
    void *self;

    if (!backend)
        return;
    lock_take(&registry_lock);
    if (!is_registered_locked(backend)) {
        lock_drop(&registry_lock);
        log_line(ACRE_LOG_WARN, "acre_backend_unregister: %p is not a registered backend",
                 (void *)backend);
        return;
    }
    list_remove(&backend->link);
    slots_update_locked();
    lock_drop(&registry_lock);
    thread_forget(backend);
    destroy = backend->destroy;
    self = backend->given_self;
    backend_destroy(backend);
    if (destroy)
        destroy(self);
}
