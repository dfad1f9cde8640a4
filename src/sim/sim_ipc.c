/* SPDX-License-Identifier: MIT */
/* Plain allocations in other processes.
 *
 * All plain allocations of a device are pages of one file, and a descriptor of
 * it would show all of them to whoever gets it. So the first export moves an
 * allocation into a sealed file of its own: the pages that exist are copied once,
 * and the private view is switched over while nobody has it pinned. From then on
 * there is no difference to anybody else. Each export is an offer of the service
 * (base/process/service.h) with a handle of its own; the importer maps the file and keeps
 * the connection, which is how the exporter knows that it is there.
 */
#include "sim/sim_memory.h"

#include "base/process/client.h"
#include "base/process/fork_fd.h"
#include "base/heap.h"
#include "base/process/service.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What an offer says about itself. */
struct ipc_note {
    char kind[8];   /* "sim-mem" */
    uint64_t bytes; /* of the allocation */
};

static const char note_kind[8] = "sim-mem";

/* ---- A file of its own ------------------------------------------------------------ */

/* Moves the pages of a span that nobody has pinned. Under the lock, so that
 * nobody pins it meanwhile. */
static acre_status span_move_locked(struct sim *sim, struct sim_span *span)
{
    struct sim_extent moved;
    acre_status status;

    if (span->window.count > 0)
        return status_fail(ACRE_ERR_STATE,
                           "ipc_export: a window is open on the memory at %p; "
                           "close it first",
                           (void *)span->node.base);
    status = extent_create(sim, span->device, span->node.bytes, true, &moved);
    if (status != ACRE_OK)
        return status;
    status = extent_copy(&span->extent, span->alias, &moved);
    if (status == ACRE_OK && span->window.has_view) {
        status = public_unmap((char *)span->node.base, span->node.bytes);
        span->window.has_view = status != ACRE_OK;
    }
    if (status == ACRE_OK)
        status = view_map(span->alias, &moved);
    if (status != ACRE_OK) {
        extent_destroy(&moved);
        return status;
    }
    extent_destroy(&span->extent);
    span->extent = moved;
    return window_start(sim, &span->window, (char *)span->node.base, &span->extent);
}

/* Finds a plain allocation of this process and sees to it that it is shareable.
 * Waits, with the lock dropped, for work that touches it. */
static acre_status span_share_locked(struct sim *sim, int device, const void *base,
                                     struct sim_span **out)
{
    acre_status status;

    for (;;) {
        status = span_exact_locked(sim, base, SPAN_PLAIN, device, out);
        if (status != ACRE_OK)
            return status;
        if ((*out)->is_opened)
            return status_fail(ACRE_ERR_INVALID,
                               "ipc_export: %p is memory of another process; "
                               "that one exports it",
                               base);
        if ((*out)->extent.is_own)
            return ACRE_OK;
        if ((*out)->pin_count == 0)
            return span_move_locked(sim, *out);
        (*out)->is_awaited = true;
        lock_wait(&sim->memory->lock, &sim->memory->unpinned);
    }
}

/* ---- Exports ------------------------------------------------------------------------- */

/* For the service: a descriptor of the file behind an export. */
static acre_status export_fd_at(void *arg, uint32_t index, int *out_fd)
{
    struct sim_export *export = arg;
    struct sim_memory *memory = export->sim->memory;
    int fd = -1;

    (void)index;
    lock_take(&memory->lock);
    if (export->span)
        fd = fcntl(export->span->extent.fd, F_DUPFD_CLOEXEC, 0);
    lock_drop(&memory->lock);
    *out_fd = fd;
    return fd >= 0 ? ACRE_OK : ACRE_ERR_LIMIT;
}

/* Parts an export from its memory and moves it to a list for exports_end. */
static void export_detach_locked(struct sim_export *export, struct list *out)
{
    list_remove(&export->link);
    list_push_back(out, &export->link);
    export->span->export_count--;
    export->span = NULL;
}

bool exports_wait_locked(struct sim *sim, const struct sim_span *span)
{
    if (!span->export_count)
        return false;
    LIST_FOR_EACH(link, &sim->memory->exports) {
        const struct sim_export *export = CONTAINER_OF(link, struct sim_export, link);

        if (export->span == span && export->busy_count) {
            lock_wait(&sim->memory->lock, &sim->memory->unpinned);
            return true;
        }
    }
    return false;
}

void exports_detach_locked(struct sim *sim, struct sim_span *span, struct list *out)
{
    if (!span->export_count)
        return;
    LIST_FOR_EACH_SAFE(link, after, &sim->memory->exports) {
        struct sim_export *export = CONTAINER_OF(link, struct sim_export, link);

        if (export->span == span)
            export_detach_locked(export, out);
    }
}

void exports_end(struct list *exports)
{
    LIST_FOR_EACH_SAFE(link, after, exports) {
        struct sim_export *export = CONTAINER_OF(link, struct sim_export, link);

        list_remove(link);
        offer_destroy(export->offer);
        heap_free(export);
    }
}

void exports_destroy(struct sim *sim)
{
    exports_end(&sim->memory->exports);
    service_release(sim->memory->service);
}

/* The service runs as long as a backend that ever exported. */
static acre_status service_need(struct sim *sim)
{
    struct sim_memory *memory = sim->memory;
    struct service *held = NULL;
    acre_status status;

    lock_take(&memory->lock);
    bool is_held = memory->service != NULL;
    lock_drop(&memory->lock);
    if (is_held)
        return ACRE_OK;
    status = service_hold(&held);
    if (status != ACRE_OK)
        return status;
    lock_take(&memory->lock);
    if (!memory->service) {
        memory->service = held;
        held = NULL;
    }
    lock_drop(&memory->lock);
    service_release(held);
    return ACRE_OK;
}

/* Makes the memory shareable and gives how much it is. */
static acre_status export_prepare(struct sim *sim, int device, const void *base,
                                  uint64_t *out_bytes)
{
    struct sim_span *span = NULL;
    acre_status status = service_need(sim);

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    status = span_share_locked(sim, device, base, &span);
    if (status == ACRE_OK)
        *out_bytes = span->node.bytes;
    lock_drop(&sim->memory->lock);
    return status;
}

/* Joins a complete export to its memory, which may have gone meanwhile. */
static acre_status export_publish(struct sim *sim, struct sim_export *export, const void *base)
{
    struct sim_span *span = NULL;
    acre_status status;

    lock_take(&sim->memory->lock);
    status = span_share_locked(sim, export->device, base, &span);
    if (status == ACRE_OK) {
        export->span = span;
        span->export_count++;
        list_push_back(&sim->memory->exports, &export->link);
    }
    lock_drop(&sim->memory->lock);
    return status;
}

acre_status sim_ipc_export(void *self, int device, void *base, uint8_t out_handle[64])
{
    struct sim *sim = self;
    struct ipc_note note = {.bytes = 0};
    acre_status status = sim_enter(sim, ACRE_SIM_EXPORT, device, 0);

    if (status == ACRE_OK)
        status = export_prepare(sim, device, base, &note.bytes);
    if (status != ACRE_OK)
        return status;
    struct sim_export *export = heap_zalloc(sizeof *export);
    if (!export)
        return ACRE_ERR_HOST_MEMORY;
    export->sim = sim;
    export->device = device;
    struct offer_terms terms = {
        .fd_total = 1, .note_bytes = sizeof note, .fd_at = export_fd_at, .arg = export};
    memcpy(note.kind, note_kind, sizeof note_kind);
    memcpy(terms.note, &note, sizeof note);
    status = offer_create(&terms, &export->offer);
    if (status != ACRE_OK) {
        heap_free(export);
        return status;
    }
    offer_ticket(export->offer, export->handle);
    memcpy(out_handle, export->handle, sizeof export->handle);
    status = export_publish(sim, export, base);
    if (status != ACRE_OK) {
        offer_destroy(export->offer);
        heap_free(export);
    }
    return status;
}

/* ---- Who has it open -------------------------------------------------------------------- */

static acre_status export_find_locked(struct sim *sim, const char *call, int device,
                                      const uint8_t *handle, struct sim_export **out)
{
    LIST_FOR_EACH(link, &sim->memory->exports) {
        struct sim_export *export = CONTAINER_OF(link, struct sim_export, link);

        if (export->device == device &&
            memcmp(export->handle, handle, sizeof export->handle) == 0) {
            *out = export;
            return ACRE_OK;
        }
    }
    return status_fail(ACRE_ERR_INVALID,
                       "%s: not a handle that ipc_export of device %d gave, or "
                       "its memory is gone",
                       call, device);
}

acre_status sim_ipc_users(void *self, int device, const uint8_t handle[64], uint64_t *out_count)
{
    struct sim *sim = self;
    struct sim_export *export = NULL;
    acre_status status = sim_enter_plain(sim, device);

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    status = export_find_locked(sim, "ipc_users", device, handle, &export);
    if (status == ACRE_OK)
        *out_count = offer_users(export->offer);
    lock_drop(&sim->memory->lock);
    return status;
}

acre_status sim_ipc_revoke(void *self, int device, const uint8_t handle[64], uint64_t *out_count)
{
    struct sim *sim = self;
    struct sim_export *export = NULL;
    struct list gone = LIST_INITIALIZER(gone);
    acre_status status = sim_enter_plain(sim, device);

    if (status != ACRE_OK)
        return status;
    /* The service's lock comes before the memory's, so this one is dropped while
     * the offer is withdrawn; is_busy keeps the export there. */
    lock_take(&sim->memory->lock);
    status = export_find_locked(sim, "ipc_revoke", device, handle, &export);
    if (status != ACRE_OK) {
        lock_drop(&sim->memory->lock);
        return status;
    }
    export->busy_count++;
    lock_drop(&sim->memory->lock);
    offer_withdraw(export->offer);
    lock_take(&sim->memory->lock);
    *out_count = offer_users(export->offer);
    if (--export->busy_count == 0) {
        pthread_cond_broadcast(&sim->memory->unpinned);
        if (*out_count == 0)
            export_detach_locked(export, &gone);
    }
    lock_drop(&sim->memory->lock);
    exports_end(&gone);
    return ACRE_OK;
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* Whether a descriptor is what an offer of that size hands out. */
static acre_status file_check(const struct sim *sim, int fd, uint64_t bytes)
{
    const int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat facts;
    int seals = fcntl(fd, F_GET_SEALS), mode = fcntl(fd, F_GETFL);

    if (seals < 0 || (seals & wanted) != wanted || (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) ||
        (mode & O_ACCMODE) != O_RDWR)
        return status_fail(ACRE_ERR_FORMAT,
                           "ipc_open: the descriptor received is not sealed, "
                           "writable memory (seals %d)",
                           seals);
    if (fstat(fd, &facts) != 0 || facts.st_size <= 0 || (uint64_t)facts.st_size != bytes ||
        bytes % sim->memory->system_page)
        return status_fail(ACRE_ERR_FORMAT, "ipc_open: %llu bytes announced, %lld received",
                           (unsigned long long)bytes, (long long)facts.st_size);
    return ACRE_OK;
}

/* Receives the file behind a handle. */
static acre_status file_receive(const struct sim *sim, struct client *client,
                                struct sim_extent *out)
{
    struct ipc_note note;
    int fd = -1;
    acre_status status;

    memcpy(&note, client->reply.note, sizeof note);
    if (client->reply.note_bytes != sizeof note || client->fd_total != 1 ||
        memcmp(note.kind, note_kind, sizeof note_kind) != 0)
        return status_fail(ACRE_ERR_FORMAT, "ipc_open: the handle names something, but not plain "
                                            "memory of a reference device");
    status = client_next(client, &fd);
    if (status != ACRE_OK)
        return status;
    status = file_check(sim, fd, note.bytes);
    if (status != ACRE_OK) {
        close(fd);
        return status;
    }
    *out = (struct sim_extent){fd, true, 0, (size_t)note.bytes};
    return ACRE_OK;
}

/* Addresses for a span that has its extent, and its place in the index. */
static acre_status opened_publish(struct sim *sim, struct sim_span *span)
{
    char *base;
    acre_status status =
        views_reserve(span->node.bytes, sim->memory->system_page, &base, &span->alias);

    if (status != ACRE_OK)
        return status;
    status = view_map(span->alias, &span->extent);
    if (status == ACRE_OK)
        status = window_start(sim, &span->window, base, &span->extent);
    if (status != ACRE_OK) {
        views_release(base, span->alias, span->node.bytes);
        return status;
    }
    span->node.base = (uintptr_t)base;
    lock_take(&sim->memory->lock);
    status = span_publish_locked(sim, span);
    CHECK(status == ACRE_OK); /* only dry devices search for an address here */
    sim->memory->usage.alloc_count++;
    lock_drop(&sim->memory->lock);
    return ACRE_OK;
}

acre_status sim_ipc_open(void *self, int device, const uint8_t handle[64], void **out_base,
                         uint64_t *out_bytes)
{
    struct sim *sim = self;
    struct client client = {.fd = -1};
    acre_status status = sim_enter(sim, ACRE_SIM_IMPORT, device, 0);

    if (status != ACRE_OK)
        return status;
    struct sim_span *span = heap_zalloc(sizeof *span);
    if (!span)
        return ACRE_ERR_HOST_MEMORY;
    *span = (struct sim_span){
        .kind = SPAN_PLAIN, .device = device, .extent.fd = -1, .is_opened = true, .connection = -1};
    status = client_open(handle, &client);
    if (status == ACRE_OK)
        status = file_receive(sim, &client, &span->extent);
    span->connection = client_keep(&client);
    span->node.bytes = span->extent.bytes;
    if (status == ACRE_OK)
        status = opened_publish(sim, span);
    if (status != ACRE_OK) {
        fork_fd_close(span->connection);
        extent_destroy(&span->extent);
        heap_free(span);
        return status;
    }
    *out_base = (void *)span->node.base;
    *out_bytes = span->node.bytes;
    return ACRE_OK;
}

acre_status sim_ipc_close(void *self, int device, void *base)
{
    struct sim *sim = self;
    struct sim_span *span = NULL;
    struct sim_retired retired = {NULL, NULL, 0};
    acre_status status = sim_enter_plain(sim, device);

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    status = span_exact_locked(sim, base, SPAN_PLAIN, device, &span);
    if (status == ACRE_OK && !span->is_opened)
        status = status_fail(ACRE_ERR_INVALID,
                             "ipc_close: %p is memory of this process; give it "
                             "back with free",
                             base);
    if (status == ACRE_OK) {
        sim->memory->usage.alloc_count--;
        retired = span_forget_locked(sim, span);
    }
    lock_drop(&sim->memory->lock);
    retired_finish(&retired);
    return status;
}
