/* SPDX-License-Identifier: MIT */
/* See import.h. */
#include "cache/share/import.h"

#include "backend/backend.h"
#include "backend/peer.h"
#include "base/process/client.h"
#include "base/process/fork_fd.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"

#include <string.h>
#include <unistd.h>

acre_status import_check(const uint8_t *handle, size_t bytes, char *out_kind)
{
    if (bytes == WIRE_TICKET_BYTES) {
        *out_kind = SHARE_PLAIN; /* as before there was a version */
        return ACRE_OK;
    }
    if (bytes != SHARE_HANDLE_BYTES)
        return status_fail(ACRE_ERR_FORMAT,
                           "a handle of shared memory has %d bytes, not %zu: it "
                           "was cut or is something else",
                           SHARE_HANDLE_BYTES, bytes);
    if (handle[0] < 1 || handle[0] > SHARE_VERSION)
        return status_fail(ACRE_ERR_FORMAT,
                           "a handle of shared memory of version %d; this "
                           "library knows up to %d",
                           handle[0], SHARE_VERSION);
    if (handle[1] != SHARE_PLAIN && handle[1] != SHARE_PAGES)
        return status_fail(ACRE_ERR_FORMAT,
                           "a handle of shared memory of kind %d; known are '%c' "
                           "and '%c'",
                           handle[1], SHARE_PLAIN, SHARE_PAGES);
    *out_kind = (char)handle[1];
    return ACRE_OK;
}

/* ---- Plain memory ---------------------------------------------------------------- */

static acre_status open_plain(struct import *import, const uint8_t *ticket)
{
    struct acre_device *device = import->device;

    return device->ops->ipc_open(device->self, device->index, ticket, (void **)&import->base,
                                 &import->bytes);
}

/* ---- Pages ----------------------------------------------------------------------- */

/* What the exporter says about the pages must make sense for this device. */
static acre_status note_read(const struct client *client, struct import *import)
{
    const struct acre_device *device = import->device;
    struct share_note note;

    memcpy(&note, client->reply.note, sizeof note);
    if (client->reply.note_bytes != sizeof note ||
        memcmp(note.kind, SHARE_NOTE_KIND, sizeof note.kind) != 0)
        return status_fail(ACRE_ERR_FORMAT, "the handle names something, but not pages of memory");
    if (note.page_bytes == 0 || note.page_bytes % device->info.page_bytes || note.page_count == 0 ||
        note.page_count != client->fd_total || note.page_count > UINT64_MAX / 2 / note.page_bytes)
        return status_fail(ACRE_ERR_FORMAT,
                           "the exporter offers %llu pages of %llu bytes in %u "
                           "descriptors; pages here have %llu bytes",
                           (unsigned long long)note.page_count, (unsigned long long)note.page_bytes,
                           client->fd_total, (unsigned long long)device->info.page_bytes);
    import->page_bytes = note.page_bytes;
    import->bytes = note.page_bytes * note.page_count;
    return ACRE_OK;
}

/* Makes the next descriptor a page, and maps it. */
static acre_status page_take(struct client *client, struct import *import)
{
    struct acre_device *device = import->device;
    void *page = NULL;
    uint64_t bytes = 0;
    int fd = -1;
    acre_status status = client_next(client, &fd);

    if (status != ACRE_OK)
        return status;
    status = device->ops->import_fd(device->self, device->index, fd, &page, &bytes);
    close(fd);
    if (status != ACRE_OK)
        return status;
    if (bytes && bytes != import->page_bytes) /* 0: the driver does not tell; mapping does */
        status = status_fail(ACRE_ERR_FORMAT,
                             "the exporter sent a page of %llu bytes instead of "
                             "%llu",
                             (unsigned long long)bytes, (unsigned long long)import->page_bytes);
    if (status == ACRE_OK)
        status = device->ops->map(device->self, device->index,
                                  import->base + import->page_count * import->page_bytes,
                                  import->page_bytes, 0, page);
    if (status == ACRE_OK)
        import->pages[import->page_count++] = page;
    else
        device->ops->release(device->self, device->index, page);
    return status;
}

/* Lets the device, and those that reach it, use the pages. */
static acre_status pages_grant(const struct import *import)
{
    struct acre_device *device = import->device;
    acre_status status = ACRE_OK;
    bool can;

    for (int i = 0; i < device->backend->device_count && status == ACRE_OK; i++) {
        can = i == device->index;
        if (!can)
            status = peer_reaches(device->backend, i, device->index, &can);
        if (status == ACRE_OK && can)
            status = device->ops->set_access(device->self, device->index, import->base,
                                             import->bytes, i, ACRE_ACCESS_READ_WRITE);
    }
    return status;
}

/* Gives back mapped pages, then addresses. */
static acre_status pages_drop(struct import *import)
{
    struct acre_device *device = import->device;
    uint64_t mapped = import->page_count * import->page_bytes;
    acre_status status = ACRE_OK;

    if (mapped)
        status = device->ops->unmap(device->self, device->index, import->base, mapped);
    if (status != ACRE_OK)
        return status;
    while (import->page_count > 0) {
        void *page = import->pages[--import->page_count];

        if (device->ops->release(device->self, device->index, page) != ACRE_OK)
            log_line(ACRE_LOG_ERROR, "a page of another process could not be released: %s",
                     acre_last_error());
    }
    if (device->ops->unreserve(device->self, device->index, import->base, import->bytes) != ACRE_OK)
        log_line(ACRE_LOG_ERROR, "%llu bytes of addresses could not be given back: %s",
                 (unsigned long long)import->bytes, acre_last_error());
    heap_free(import->pages);
    fork_fd_close(import->connection);
    return ACRE_OK;
}

static acre_status open_pages(struct import *import, const uint8_t *ticket)
{
    struct acre_device *device = import->device;
    struct client client;
    struct status_saved first;
    acre_status status;

    if (!device_has(device, ACRE_CAP_VIRTUAL | ACRE_CAP_SHARE_FD))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "the handle is one of virtual memory, which "
                           "backend \"%s\" cannot share",
                           device->backend->name);
    status = client_open(ticket, &client);
    if (status != ACRE_OK)
        return status;
    status = note_read(&client, import);
    if (status != ACRE_OK)
        goto close_client;
    status = ACRE_ERR_HOST_MEMORY;
    import->pages = heap_array(client.fd_total, sizeof *import->pages);
    if (!import->pages)
        goto close_client;
    status =
        device->ops->reserve(device->self, device->index, import->bytes, (void **)&import->base);
    if (status != ACRE_OK)
        goto free_pages;
    for (uint32_t i = 0; i < client.fd_total && status == ACRE_OK; i++)
        status = page_take(&client, import);
    if (status == ACRE_OK)
        status = pages_grant(import);
    import->connection = client_keep(&client);
    if (status == ACRE_OK)
        return status;
    status_save(&first);
    pages_drop(import);
    status_restore(&first);
    return status;

free_pages:
    heap_free(import->pages);
close_client:
    client_close(&client);
    return status;
}

/* ---- Both --------------------------------------------------------------------------- */

acre_status import_open(struct acre_device *device, const uint8_t *handle, size_t bytes,
                        struct import *out)
{
    struct import import = {.device = device, .connection = -1};
    char kind = 0;
    acre_status status = import_check(handle, bytes, &kind);

    if (status != ACRE_OK)
        return status;
    const uint8_t *ticket = handle + (bytes - WIRE_TICKET_BYTES);
    status = kind == SHARE_PLAIN ? open_plain(&import, ticket) : open_pages(&import, ticket);
    if (status == ACRE_OK)
        *out = import;
    return status;
}

acre_status import_close(struct import *import)
{
    struct acre_device *device = import->device;

    if (import->pages)
        return pages_drop(import);
    return device->ops->ipc_close(device->self, device->index, import->base);
}
