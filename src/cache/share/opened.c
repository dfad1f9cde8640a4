/* SPDX-License-Identifier: MIT */
/* Which handles of other processes are open in this one, and how often.
 *
 * One list for the process, keyed by device and the exact bytes of a handle:
 *
 *     OPENING ──────► OPEN ──────► CLOSING ──────► gone
 *        └── failed: gone            └── failed: OPEN
 *
 * Opening and closing happen without the lock; whoever wants the same handle
 * meanwhile waits, so nobody ever gets one whose last user has just left.
 */
#include "backend/device.h"
#include "base/process/fork.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/status.h"
#include "cache/share/import.h"

#include <acre/share.h>

#include <string.h>

enum state { OPENING, OPEN, CLOSING };

struct opened {
    struct list link;
    uint64_t backend; /* its number; devices of a later one may have the address */
    acre_device *device;
    enum state state;
    uint64_t count; /* openings not closed, while OPEN */
    size_t handle_bytes;
    uint8_t handle[SHARE_HANDLE_BYTES];
    struct import import;
};

static struct lock lock = LOCK_INITIALIZER(RANK_OPENED, "opened");
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct list all = LIST_INITIALIZER(all);

/* The parent's memory is not this process's, and its lock may be held for ever. */
static void in_child(void)
{
    lock_init(&lock, RANK_OPENED, "opened");
    pthread_cond_init(&changed, NULL);
    list_init(&all);
}

FORK_HANDLER(opened_fork, NULL, NULL, in_child);

static struct opened *find_locked(const acre_device *device, const void *handle, size_t bytes)
{
    LIST_FOR_EACH(link, &all) {
        struct opened *opened = CONTAINER_OF(link, struct opened, link);

        if (opened->device == device && opened->backend == device->backend->number &&
            opened->handle_bytes == bytes && memcmp(opened->handle, handle, bytes) == 0)
            return opened;
    }
    return NULL;
}

/* The entry of a handle: OPEN with one more opening, or new and OPENING. */
static struct opened *opened_enter(acre_device *device, const void *handle, size_t bytes,
                                   bool *out_is_new)
{
    struct opened *fresh = heap_zalloc(sizeof *fresh), *opened;

    if (!fresh)
        return NULL;
    *fresh = (struct opened){.backend = device->backend->number,
                             .device = device,
                             .handle_bytes = bytes,
                             .state = OPENING,
                             .count = 1};
    memcpy(fresh->handle, handle, bytes);
    lock_take(&lock);
    while ((opened = find_locked(device, handle, bytes)) && opened->state != OPEN)
        lock_wait(&lock, &changed);
    *out_is_new = !opened;
    if (opened) {
        opened->count++;
    } else {
        list_push_back(&all, &fresh->link);
        opened = fresh;
        fresh = NULL;
    }
    lock_drop(&lock);
    heap_free(fresh);
    return opened;
}

/* Ends a state in which others wait. */
static void opened_settle(struct opened *opened, bool is_open)
{
    lock_take(&lock);
    opened->state = OPEN;
    if (!is_open)
        list_remove(&opened->link);
    pthread_cond_broadcast(&changed);
    lock_drop(&lock);
    if (!is_open)
        heap_free(opened);
}

acre_status acre_share_open(acre_device *device, const void *handle, size_t bytes, void **out_base,
                            uint64_t *out_bytes)
{
    bool is_new = false;
    char kind;

    ENTER(0);
    NEED(handle);
    NEED(out_base);
    NEED(out_bytes);
    acre_status status = import_check(handle, bytes, &kind);
    if (status != ACRE_OK)
        return status;
    struct opened *opened = opened_enter(device, handle, bytes, &is_new);
    if (!opened)
        return ACRE_ERR_HOST_MEMORY;
    if (is_new)
        status = import_open(device, handle, bytes, &opened->import);
    if (status == ACRE_OK) {
        *out_base = opened->import.base;
        *out_bytes = opened->import.bytes;
    }
    if (is_new)
        opened_settle(opened, status == ACRE_OK);
    return status;
}

/* Takes one opening back; the entry when it was the last, then CLOSING. */
static acre_status opened_leave(const acre_device *device, const void *base, struct opened **out)
{
    *out = NULL;
    lock_take(&lock);
    LIST_FOR_EACH(link, &all) {
        struct opened *opened = CONTAINER_OF(link, struct opened, link);

        if (opened->device != device || opened->backend != device->backend->number ||
            opened->state != OPEN || opened->import.base != base)
            continue;
        if (opened->count == 1) {
            opened->state = CLOSING;
            *out = opened;
        } else {
            opened->count--;
        }
        lock_drop(&lock);
        return ACRE_OK;
    }
    lock_drop(&lock);
    return status_fail(ACRE_ERR_INVALID,
                       "acre_share_close: %p is not memory of another process "
                       "that is open: closed already, or never opened",
                       base);
}

acre_status acre_share_close(acre_device *device, void *base)
{
    struct opened *last;

    ENTER(0);
    NEED(base);
    acre_status status = opened_leave(device, base, &last);
    if (status != ACRE_OK || !last)
        return status;
    if (device_has(device, ACRE_CAP_STREAMS))
        status = device->ops->device_synchronize(SELF);
    if (status == ACRE_OK)
        status = import_close(&last->import);
    opened_settle(last, status != ACRE_OK);
    return status;
}
