/* SPDX-License-Identifier: MIT */
/* See shares.h. */
#include "cache/share/shares.h"

#include "backend/backend.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/process/service.h"
#include "base/status.h"

#include <string.h>
#include <unistd.h>

/* ---- A share as a hold --------------------------------------------------------- */

static struct share *share_of_hold(struct hold *hold)
{
    return CONTAINER_OF(hold, struct share, hold);
}

/* Nobody opens it from now on; tells whether nobody has it open. */
static bool share_is_over(struct hold *hold)
{
    struct share *share = share_of_hold(hold);
    struct acre_device *device = share->device;
    uint64_t count = 0;

    if (share->offer) {
        offer_withdraw(share->offer);
        return offer_users(share->offer) == 0;
    }
    if (!share->is_counted)
        return true;
    /* A failure means that the device does not know it any more. */
    return device->ops->ipc_revoke(device->self, device->index, share->handle + 2, &count) !=
               ACRE_OK ||
           count == 0;
}

static void share_end(struct hold *hold)
{
    share_destroy(share_of_hold(hold));
}

struct share *share_of(const struct block *block)
{
    for (const struct use *use = block->uses; use; use = use->next)
        if (use->hold && use->hold->end == share_end)
            return share_of_hold(use->hold);
    return NULL;
}

acre_status share_users(const struct share *share, uint64_t *out_count)
{
    struct acre_device *device = share->device;

    if (share->offer) {
        *out_count = offer_users(share->offer);
        return ACRE_OK;
    }
    return device->ops->ipc_users(device->self, device->index, share->handle + 2, out_count);
}

/* ---- Life ------------------------------------------------------------------------ */

void shares_init(struct shares *shares)
{
    list_init(&shares->list);
    shares->service = NULL;
}

void shares_fini(struct shares *shares)
{
    LIST_FOR_EACH_SAFE(link, after, &shares->list)
        share_destroy(CONTAINER_OF(link, struct share, link));
    service_release(shares->service);
}

void shares_warn(const struct shares *shares)
{
    uint64_t total = 0, count;

    LIST_FOR_EACH(link, &shares->list)
        if (share_users(CONTAINER_OF(link, struct share, link), &count) == ACRE_OK)
            total += count;
    if (total)
        log_line(ACRE_LOG_WARN, "a cache ends while other processes have %llu of its blocks open",
                 (unsigned long long)total);
}

static struct share *share_make(struct acre_device *device, const void *first, char kind)
{
    struct share *share = heap_zalloc(sizeof *share);

    if (!share)
        return NULL;
    share->hold = (struct hold){share_is_over, share_end};
    list_init(&share->link);
    share->device = device;
    share->first = first;
    share->handle[0] = SHARE_VERSION;
    share->handle[1] = (uint8_t)kind;
    return share;
}

void share_destroy(struct share *share)
{
    struct acre_device *device = share->device;
    uint64_t count;

    list_remove(&share->link);
    if (share->offer)
        offer_destroy(share->offer);
    else if (share->is_counted)
        device->ops->ipc_revoke(device->self, device->index, share->handle + 2, &count);
    heap_free(share->pages);
    heap_free(share);
}

acre_status share_create_plain(struct shares *shares, struct acre_device *device, void *base,
                               struct share **out)
{
    struct share *share;
    acre_status status;

    if (!device_has(device, ACRE_CAP_IPC))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "plain memory of backend \"%s\" cannot be opened "
                           "by other processes: it lacks the group \"ipc\"",
                           device->backend->name);
    share = share_make(device, base, SHARE_PLAIN);
    if (!share)
        return ACRE_ERR_HOST_MEMORY;
    status = device->ops->ipc_export(device->self, device->index, base, share->handle + 2);
    if (status != ACRE_OK) {
        heap_free(share);
        return status;
    }
    share->is_counted = device_has(device, ACRE_CAP_IPC_USERS);
    list_push_back(&shares->list, &share->link);
    *out = share;
    return ACRE_OK;
}

/* ---- Pages ------------------------------------------------------------------------- */

/* For the service: a descriptor of one page. */
static acre_status page_fd(void *arg, uint32_t index, int *out_fd)
{
    struct share *share = arg;
    struct acre_device *device = share->device;

    return device->ops->export_fd(device->self, device->index, share->pages[index], out_fd);
}

static acre_status pages_check(const struct acre_device *device, uint64_t page_count)
{
    if (!device_has(device, ACRE_CAP_SHARE_FD))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "virtual memory of backend \"%s\" cannot be "
                           "opened by other processes: it lacks the group \"sharing\"",
                           device->backend->name);
    if (page_count > WIRE_FDS_MAX)
        return status_fail(ACRE_ERR_LIMIT,
                           "a block of %llu pages is too large to be shared; at "
                           "most %d are",
                           (unsigned long long)page_count, WIRE_FDS_MAX);
    return ACRE_OK;
}

/* Whether every page can be had as a descriptor; some may have been made when there
 * were none left, or of a type that does not travel. */
static acre_status pages_probe(struct acre_device *device, void *const *pages, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int fd = -1;
        acre_status status = device->ops->export_fd(device->self, device->index, pages[i], &fd);

        if (status == ACRE_ERR_INVALID)
            return status_fail(ACRE_ERR_UNSUPPORTED,
                               "page %llu of %llu of the block cannot travel "
                               "as a descriptor: raise ulimit -n before allocating, and do not set "
                               "expandable_segments_handle_type",
                               (unsigned long long)i, (unsigned long long)count);
        if (status != ACRE_OK)
            return status;
        close(fd);
    }
    return ACRE_OK;
}

acre_status share_create_pages(struct shares *shares, struct acre_device *device,
                               const struct share_pages *pages, struct share **out)
{
    struct share_note note = {SHARE_NOTE_KIND, pages->page_bytes, pages->count};
    struct offer_terms terms = {
        .fd_total = (uint32_t)pages->count, .note_bytes = sizeof note, .fd_at = page_fd};
    struct share *share;
    acre_status status = pages_check(device, pages->count);

    if (status == ACRE_OK)
        status = pages_probe(device, pages->handles, pages->count);
    if (status == ACRE_OK && !shares->service)
        status = service_hold(&shares->service);
    if (status != ACRE_OK)
        return status;
    share = share_make(device, pages->first, SHARE_PAGES);
    if (!share)
        return ACRE_ERR_HOST_MEMORY;
    status = ACRE_ERR_HOST_MEMORY;
    share->pages = heap_array(pages->count, sizeof *share->pages);
    if (!share->pages)
        goto free_share;
    memcpy(share->pages, pages->handles, pages->count * sizeof *share->pages);
    memcpy(terms.note, &note, sizeof note);
    terms.arg = share;
    status = offer_create(&terms, &share->offer);
    if (status != ACRE_OK)
        goto free_share;
    offer_ticket(share->offer, share->handle + 2);
    list_push_back(&shares->list, &share->link);
    *out = share;
    return ACRE_OK;

free_share:
    heap_free(share->pages);
    heap_free(share);
    return status;
}
