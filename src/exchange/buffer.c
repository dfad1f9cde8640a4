/* SPDX-License-Identifier: MIT */
#include "exchange/buffer.h"

#include "backend/device.h"
#include "base/process/fork.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/status.h"

#include <inttypes.h>

struct buffer {
    struct list link; /* in buffers                                     */
    acre_device *device;
    char *base;
    size_t bytes;
    unsigned use_count; /* of transfers, and of opening and closing; lock */
};

static struct lock buffers_lock = LOCK_INITIALIZER(RANK_LEAF, "registered buffers");
FORK_GUARD(buffers_lock);
static struct list buffers = LIST_INITIALIZER(buffers); /* buffers_lock */

/* ---- The table ------------------------------------------------------------------ */

struct buffer *buffer_use(const acre_device *device, const void *memory, size_t bytes)
{
    uintptr_t first = (uintptr_t)memory;
    struct buffer *found = NULL;

    lock_take(&buffers_lock);
    LIST_FOR_EACH(link, &buffers) {
        struct buffer *buffer = CONTAINER_OF(link, struct buffer, link);
        uintptr_t base = (uintptr_t)buffer->base;

        if (buffer->device == device && base <= first && bytes <= buffer->bytes &&
            first - base <= buffer->bytes - bytes) {
            buffer->use_count++;
            found = buffer;
            break;
        }
    }
    lock_drop(&buffers_lock);
    return found;
}

void buffer_unuse(struct buffer *buffer)
{
    if (!buffer)
        return;
    lock_take(&buffers_lock);
    buffer->use_count--;
    lock_drop(&buffers_lock);
}

static acre_status table_put(struct buffer *buffer)
{
    acre_status status = ACRE_OK;

    lock_take(&buffers_lock);
    LIST_FOR_EACH(link, &buffers) {
        struct buffer *other = CONTAINER_OF(link, struct buffer, link);

        if (other->device == buffer->device && other->base < buffer->base + buffer->bytes &&
            buffer->base < other->base + other->bytes) {
            status =
                status_fail(ACRE_ERR_EXISTS,
                            "%p of %zu bytes is registered already, as part "
                            "of %p of %zu bytes",
                            (void *)buffer->base, buffer->bytes, (void *)other->base, other->bytes);
            break;
        }
    }
    if (status == ACRE_OK)
        list_push_back(&buffers, &buffer->link);
    lock_drop(&buffers_lock);
    return status;
}

static acre_status table_take(const acre_device *device, const void *base, struct buffer **out)
{
    acre_status status = ACRE_ERR_NOT_FOUND;

    lock_take(&buffers_lock);
    LIST_FOR_EACH(link, &buffers) {
        struct buffer *buffer = CONTAINER_OF(link, struct buffer, link);

        if (buffer->device != device || buffer->base != base)
            continue;
        status = buffer->use_count ? ACRE_ERR_BUSY : ACRE_OK;
        *out = buffer;
        break;
    }
    if (status == ACRE_OK)
        list_remove(&(*out)->link);
    lock_drop(&buffers_lock);
    return status;
}

/* ---- Windows -------------------------------------------------------------------- */

/* The end of the piece of device memory around a place: an allocation or a mapping. */
static acre_status piece_end(acre_device *device, char *place, char **out)
{
    acre_pointer_info info = {.struct_size = sizeof info};
    acre_status status = acre_pointer_info_get(device, place, &info);

    if (status != ACRE_OK)
        return status;
    if (info.kind != ACRE_MEMORY_DEVICE || info.device != device->index)
        return status_fail(ACRE_ERR_INVALID,
                           "%p is not memory of device %d; register what its "
                           "allocator gave",
                           (void *)place, device->index);
    *out = (char *)info.base + info.bytes;
    return ACRE_OK;
}

/* Closes the windows of [base, end). */
static void windows_close(acre_device *device, char *base, char *end)
{
    struct status_saved saved;
    char *next;

    status_save(&saved);
    while (base < end && piece_end(device, base, &next) == ACRE_OK) {
        acre_access_close(device, base);
        base = next;
    }
    status_restore(&saved);
}

static acre_status windows_open(acre_device *device, char *base, char *end)
{
    acre_status status = ACRE_OK;
    char *place = base, *next = base;

    while (place < end) {
        status = piece_end(device, place, &next);
        if (status == ACRE_OK)
            status = acre_access_open(device, place);
        if (status != ACRE_OK) {
            windows_close(device, base, place);
            return status;
        }
        place = next;
    }
    return ACRE_OK;
}

/* ---- Calls ---------------------------------------------------------------------- */

acre_status acre_file_buffer_register(acre_device *device, void *base, size_t bytes)
{
    ENTER(0);
    NEED(base);
    if (!bytes || bytes > UINTPTR_MAX - (uintptr_t)base)
        return status_fail(ACRE_ERR_INVALID, "%zu bytes cannot be registered", bytes);
    if (!device_has(device, ACRE_CAP_ACCESS) || !device_has(device, ACRE_CAP_POINTERS))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "the host cannot be let into memory of device "
                           "%s:%d; transfers work without registering",
                           device->backend->name, device->index);
    struct buffer *buffer = heap_zalloc(sizeof *buffer);
    if (!buffer)
        return ACRE_ERR_HOST_MEMORY;
    *buffer = (struct buffer){.device = device, .base = base, .bytes = bytes};
    list_init(&buffer->link);
    acre_status status = windows_open(device, base, buffer->base + bytes);
    if (status == ACRE_OK) {
        status = table_put(buffer);
        if (status != ACRE_OK)
            windows_close(device, base, buffer->base + bytes);
    }
    if (status != ACRE_OK)
        heap_free(buffer);
    return status;
}

acre_status acre_file_buffer_deregister(acre_device *device, void *base)
{
    struct buffer *buffer;

    ENTER(0);
    acre_status status = table_take(device, base, &buffer);
    if (status == ACRE_ERR_NOT_FOUND)
        return status_fail(status,
                           "%p is not registered for transfers on device %d; the base "
                           "given to acre_file_buffer_register() is needed",
                           base, device->index);
    if (status != ACRE_OK)
        return status_fail(status, "a transfer is using the memory at %p", base);
    windows_close(device, buffer->base, buffer->base + buffer->bytes);
    heap_free(buffer);
    return ACRE_OK;
}
