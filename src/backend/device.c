/* SPDX-License-Identifier: MIT */
/* Finding devices, and their memory: the public calls over a backend's table.
 *
 * A call checks its arguments, that the device has the group it needs, and that
 * this process may use the backend (fork); then it passes on. What native code
 * can check better (pointers, handles) is left to it.
 */
#include "backend/device.h"

#include "backend/peer.h"
#include "backend/table.h"
#include "backend/thread.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/process/fork.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"

#include <string.h>
#include <unistd.h>

/* ---- Types --------------------------------------------------------------------- */

#define PRIVATE_NAME_BYTES 32

/* The name of ACRE_DEVICE_PRIVATE. Written once, before private_is_named. */
static struct lock private_lock = LOCK_INITIALIZER(RANK_LEAF, "type name");
FORK_GUARD(private_lock);
static char private_name[PRIVATE_NAME_BYTES];
static _Atomic int private_is_named;

const char *acre_device_type_name(acre_device_type type)
{
    switch (type) {
    case ACRE_DEVICE_CPU:
        return "cpu";
    case ACRE_DEVICE_CUDA:
        return "cuda";
    case ACRE_DEVICE_OPENCL:
        return "opencl";
    case ACRE_DEVICE_HIP:
        return "hip";
    case ACRE_DEVICE_PRIVATE:
        return atomic_load_explicit(&private_is_named, memory_order_acquire) ? private_name
                                                                             : "openreg";
    }
    return "unknown";
}

static acre_status rename_check(acre_device_type type, const char *name)
{
    if (type != ACRE_DEVICE_PRIVATE)
        return status_fail(ACRE_ERR_INVALID, "only ACRE_DEVICE_PRIVATE can be named, not %s (%d)",
                           acre_device_type_name(type), (int)type);
    if (!name || !*name || strlen(name) >= PRIVATE_NAME_BYTES)
        return status_fail(ACRE_ERR_INVALID, "a device type name has 1 to %d bytes",
                           PRIVATE_NAME_BYTES - 1);
    for (const char *c = name; *c; c++)
        if ((*c < 'a' || *c > 'z') && (*c < '0' || *c > '9') && *c != '_')
            return status_fail(ACRE_ERR_INVALID,
                               "device type name \"%s\" may hold a-z, 0-9 and '_' only", name);
    return ACRE_OK;
}

acre_status acre_device_type_rename(acre_device_type type, const char *name)
{
    acre_status status = rename_check(type, name);

    if (status != ACRE_OK)
        return status;
    lock_take(&private_lock);
    if (!private_is_named) {
        memcpy(private_name, name, strlen(name) + 1);
        atomic_store_explicit(&private_is_named, 1, memory_order_release);
    } else if (strcmp(private_name, name) != 0) {
        status = status_fail(ACRE_ERR_STATE,
                             "the private device type is already named \"%s\" and cannot become "
                             "\"%s\"",
                             private_name, name);
    }
    lock_drop(&private_lock);
    return status;
}

/* ---- Finding ------------------------------------------------------------------- */

acre_status acre_device_get(acre_device_type type, int index, acre_device **out)
{
    acre_backend *backend;
    acre_status status;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_device_get: out is NULL");
    status = backend_of_type(type, &backend);
    if (status != ACRE_OK)
        return status;
    if (index == -1)
        index = thread_device(backend);
    if (index < 0 || index >= backend->device_count)
        return status_fail(ACRE_ERR_RANGE, "device %s:%d does not exist; valid is [0, %d)",
                           acre_device_type_name(type), index, backend->device_count);
    *out = &backend->devices[index];
    return ACRE_OK;
}

acre_status acre_backend_device(acre_backend *backend, int index, acre_device **out)
{
    acre_status status;

    if (!backend || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_backend_device: %s is NULL",
                           backend ? "out" : "backend");
    status = backend_check_fork(backend);
    if (status != ACRE_OK)
        return status;
    if (index < 0 || index >= backend->device_count)
        return status_fail(ACRE_ERR_RANGE, "backend \"%s\" has no device %d; valid is [0, %d)",
                           backend->name, index, backend->device_count);
    *out = &backend->devices[index];
    return ACRE_OK;
}

int acre_device_count(acre_device_type type)
{
    acre_backend *backend;

    if (backend_of_type(type, &backend) == ACRE_OK)
        return backend->device_count;
    log_line(ACRE_LOG_WARN, "no devices of type %s: %s", acre_device_type_name(type),
             acre_last_error());
    return 0;
}

acre_status acre_device_info_get(acre_device *device, acre_device_info *out)
{
    acre_status status = device_check(device, 0, "acre_device_info_get");

    if (status != ACRE_OK)
        return status;
    status = STRUCT_CHECK("acre_device_info_get", acre_device_info, out);
    if (status == ACRE_OK)
        STRUCT_GIVE(acre_device_info, out, &device->info);
    return status;
}

acre_device_id acre_device_id_of(const acre_device *device)
{
    acre_device_id id = {ACRE_DEVICE_CPU, -1};

    if (device) {
        id.type = (acre_device_type)device->type;
        id.index = device->index;
    }
    return id;
}

acre_status device_check(const acre_device *device, uint32_t capability, const char *call)
{
    acre_status status;

    if (UNLIKELY(!device))
        return status_fail(ACRE_ERR_INVALID, "%s: device is NULL", call);
    status = backend_check_fork(device->backend);
    if (UNLIKELY(status != ACRE_OK))
        return status;
    if (UNLIKELY(!device_has(device, capability)))
        return status_fail(ACRE_ERR_UNSUPPORTED, "%s: device %s:%d of backend \"%s\" has no %s",
                           call, acre_device_type_name((acre_device_type)device->type),
                           device->index, device->backend->name, table_group_name(capability));
    return ACRE_OK;
}

acre_status device_null(const char *call, const char *parameter)
{
    return status_fail(ACRE_ERR_INVALID, "%s: %s is NULL", call, parameter);
}

/* ---- Memory -------------------------------------------------------------------- */

acre_status acre_device_memory(acre_device *device, uint64_t *out_free, uint64_t *out_total)
{
    acre_status status = device_check(device, 0, "acre_device_memory");

    if (status != ACRE_OK)
        return status;
    if (!out_free || !out_total)
        return device_null("acre_device_memory", out_free ? "out_total" : "out_free");
    return device->ops->memory_info(device->self, device->index, out_free, out_total);
}

acre_status acre_device_alloc(acre_device *device, size_t bytes, void **out)
{
    acre_status status = device_check(device, 0, "acre_device_alloc");
    uint64_t rounded;

    if (status != ACRE_OK)
        return status;
    if (!out)
        return device_null("acre_device_alloc", "out");
    if (bytes == 0)
        return status_fail(ACRE_ERR_INVALID, "acre_device_alloc: 0 bytes asked for");
    rounded = round_up(bytes, device->info.alloc_granularity);
    if (rounded == 0)
        return status_fail(ACRE_ERR_DEVICE_MEMORY,
                           "acre_device_alloc: %zu bytes are more than any device has", bytes);
    return device->ops->alloc(device->self, device->index, rounded, out);
}

acre_status acre_device_free(acre_device *device, void *base)
{
    acre_status status = device_check(device, 0, "acre_device_free");

    if (status != ACRE_OK || !base)
        return status;
    return device->ops->free(device->self, device->index, base);
}

acre_status acre_host_alloc(acre_device *device, size_t bytes, void **out)
{
    acre_status status = device_check(device, ACRE_CAP_HOST_MEMORY, "acre_host_alloc");
    uint64_t rounded;

    if (status != ACRE_OK)
        return status;
    if (!out)
        return device_null("acre_host_alloc", "out");
    if (bytes == 0)
        return status_fail(ACRE_ERR_INVALID, "acre_host_alloc: 0 bytes asked for");
    rounded = round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
    if (rounded == 0)
        return status_fail(ACRE_ERR_HOST_MEMORY,
                           "acre_host_alloc: %zu bytes are more than any host has", bytes);
    return device->ops->host_alloc(device->self, rounded, out);
}

acre_status acre_host_free(acre_device *device, void *base)
{
    acre_status status = device_check(device, ACRE_CAP_HOST_MEMORY, "acre_host_free");

    if (status != ACRE_OK || !base)
        return status;
    return device->ops->host_free(device->self, base);
}

acre_status acre_host_register(acre_device *device, void *base, size_t bytes)
{
    acre_status status = device_check(device, ACRE_CAP_HOST_MEMORY, "acre_host_register");

    if (status != ACRE_OK)
        return status;
    if (!base)
        return device_null("acre_host_register", "base");
    if (bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)base)
        return status_fail(ACRE_ERR_INVALID, "acre_host_register: %zu bytes at %p are no range",
                           bytes, base);
    return device->ops->host_register(device->self, base, bytes);
}

acre_status acre_host_unregister(acre_device *device, void *base)
{
    acre_status status = device_check(device, ACRE_CAP_HOST_MEMORY, "acre_host_unregister");

    if (status != ACRE_OK)
        return status;
    if (!base)
        return device_null("acre_host_unregister", "base");
    return device->ops->host_unregister(device->self, base);
}

/* ---- Pointers and windows ------------------------------------------------------ */

acre_status acre_pointer_info_get(acre_device *device, const void *pointer, acre_pointer_info *out)
{
    acre_status status = device_check(device, ACRE_CAP_POINTERS, "acre_pointer_info_get");

    if (status != ACRE_OK)
        return status;
    if (!pointer || !out)
        return device_null("acre_pointer_info_get", pointer ? "out" : "pointer");
    acre_pointer_info info = {.struct_size = sizeof info};
    status = STRUCT_CHECK("acre_pointer_info_get", acre_pointer_info, out);
    if (status == ACRE_OK)
        status = device->ops->pointer_info(device->self, pointer, &info);
    if (status == ACRE_OK)
        STRUCT_GIVE(acre_pointer_info, out, &info);
    return status;
}

bool acre_host_is_pinned(acre_device *device, const void *pointer)
{
    acre_pointer_info info = {.struct_size = sizeof info};

    return device && pointer && device_has(device, ACRE_CAP_POINTERS) &&
           acre_pointer_info_get(device, pointer, &info) == ACRE_OK &&
           info.kind == ACRE_MEMORY_HOST;
}

acre_status acre_access_open(acre_device *device, const void *pointer)
{
    ENTER(ACRE_CAP_ACCESS);
    return device->ops->access_open(device->self, pointer);
}

acre_status acre_access_close(acre_device *device, const void *pointer)
{
    ENTER(ACRE_CAP_ACCESS);
    return device->ops->access_close(device->self, pointer);
}

/* ---- Peers --------------------------------------------------------------------- */

acre_status acre_device_can_access_peer(acre_device *device, acre_device *other, bool *out)
{
    acre_status status = device_check(device, 0, "acre_device_can_access_peer");

    if (status != ACRE_OK)
        return status;
    if (!other || !out)
        return device_null("acre_device_can_access_peer", other ? "out" : "other");
    if (device->backend != other->backend)
        return status_fail(ACRE_ERR_INVALID,
                           "devices of backends \"%s\" and \"%s\" never reach one another",
                           device->backend->name, other->backend->name);
    return peer_reaches(device->backend, device->index, other->index, out);
}

acre_status acre_peer_access(acre_device_type type, int index, int other, bool *out)
{
    acre_backend *backend;
    acre_status status;

    if (!out)
        return device_null("acre_peer_access", "out");
    status = backend_of_type(type, &backend);
    return status != ACRE_OK ? status : peer_reaches(backend, index, other, out);
}
