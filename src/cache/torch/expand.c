/* SPDX-License-Identifier: MIT */
#include "cache/torch/expand.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"

/* ---- Peers ----------------------------------------------------------------------- */

bool expand_peers_has(const struct expand_peers *peers, int device)
{
    return peers->bits[device / 64] >> device % 64 & 1;
}

void expand_peers_add(struct expand_peers *peers, int device)
{
    peers->bits[device / 64] |= (uint64_t)1 << device % 64;
}

void expand_peers_remove(struct expand_peers *peers, int device)
{
    peers->bits[device / 64] &= ~((uint64_t)1 << device % 64);
}

static acre_status set_access(struct expand *expand, size_t offset, size_t bytes, int accessor,
                              acre_access access)
{
    const struct acre_device *device = expand->device;

    return device->ops->set_access(device->self, device->index, expand->base + offset, bytes,
                                   accessor, access);
}

/* Opens a mapped range to the device itself and to all peers. */
static acre_status open_range(struct expand *expand, size_t offset, size_t bytes)
{
    int own = expand->device->index;
    acre_status status = set_access(expand, offset, bytes, own, ACRE_ACCESS_READ_WRITE);

    for (int i = 0; i < BACKEND_DEVICES_MAX && status == ACRE_OK; i++)
        if (i != own && expand_peers_has(&expand->peers, i))
            status = set_access(expand, offset, bytes, i, ACRE_ACCESS_READ_WRITE);
    return status;
}

/* The next run of mapped pages from index at on, before end; false: none. */
static bool next_run(const struct expand *expand, size_t *at, size_t *end)
{
    size_t i = *at;

    while (i < expand->page_end && !expand->pages[i].is_mapped)
        i++;
    *at = i;
    while (i < expand->page_end && expand->pages[i].is_mapped)
        i++;
    *end = i;
    return *at < i;
}

acre_status expand_admit(struct expand *expand, int peer)
{
    size_t page = expand->page_bytes, at = 0, end;
    acre_status status = ACRE_OK;

    if (expand_peers_has(&expand->peers, peer))
        return ACRE_OK;
    for (; status == ACRE_OK && next_run(expand, &at, &end); at = end)
        status = set_access(expand, at * page, (end - at) * page, peer, ACRE_ACCESS_READ_WRITE);
    if (status == ACRE_OK) {
        expand_peers_add(&expand->peers, peer);
        return ACRE_OK;
    }
    expand_expel(expand, peer);
    return status;
}

void expand_expel(struct expand *expand, int peer)
{
    size_t page = expand->page_bytes, at = 0, end;
    struct status_saved before;

    status_save(&before);
    for (; next_run(expand, &at, &end); at = end)
        set_access(expand, at * page, (end - at) * page, peer, ACRE_ACCESS_NONE);
    expand_peers_remove(&expand->peers, peer);
    status_restore(&before);
}

/* ---- Addresses --------------------------------------------------------------------- */

size_t expand_span(const struct acre_device *device, size_t page_bytes)
{
    uint64_t total = device->info.total_bytes;

    return expand_round(total + total / 8, page_bytes);
}

acre_status expand_create(struct acre_device *device, size_t page_bytes, acre_handle_type type,
                          const struct expand_peers *peers, struct expand **out)
{
    struct expand *expand = heap_zalloc(sizeof *expand);
    acre_status status = ACRE_ERR_HOST_MEMORY;
    void *base;

    if (!expand)
        return status;
    CHECK(page_bytes && page_bytes % device->info.page_bytes == 0);
    expand->device = device;
    expand->page_bytes = page_bytes;
    expand->bytes = expand_span(device, page_bytes);
    expand->page_count = expand->bytes / page_bytes;
    expand->type = type;
    expand->peers = *peers;
    expand->pages = heap_map(expand->page_count * sizeof *expand->pages);
    if (!expand->pages)
        goto free_expand;
    status = device->ops->reserve(device->self, device->index, expand->bytes, &base);
    if (status != ACRE_OK)
        goto free_pages;
    expand->base = base;
    atomic_fetch_add_explicit(&device->mapped_segments, 1, memory_order_relaxed);
    *out = expand;
    return ACRE_OK;

free_pages:
    heap_unmap(expand->pages, expand->page_count * sizeof *expand->pages);
free_expand:
    heap_free(expand);
    return status;
}

static acre_status unmap_page(struct expand *expand, size_t index)
{
    const struct acre_device *device = expand->device;
    struct expand_page *page = &expand->pages[index];
    acre_status status = device->ops->unmap(
        device->self, device->index, expand->base + index * expand->page_bytes, expand->page_bytes);

    if (status == ACRE_OK) {
        page->is_mapped = false;
        expand->mapped_bytes -= expand->page_bytes;
    }
    return status;
}

/* Notes that a page got or lost its handle: one on its way in or out is nobody's yet. */
static void note_handle(struct expand *expand, const struct expand_page *page)
{
    expand->change_count += page->is_mapped || page->is_asleep;
}

static acre_status release_page(struct expand *expand, size_t index)
{
    const struct acre_device *device = expand->device;
    struct expand_page *page = &expand->pages[index];
    acre_status status = device->ops->release(device->self, device->index, page->handle);

    if (status == ACRE_OK) {
        page->has_handle = false;
        note_handle(expand, page);
    }
    return status;
}

/* Takes out what is left, unneeded or not; whether nothing is there any more. */
static acre_status clear_pages(struct expand *expand)
{
    acre_status first = ACRE_OK;

    for (size_t i = 0; i < expand->page_end; i++) {
        acre_status status = ACRE_OK;
        if (expand->pages[i].has_handle)
            status = release_page(expand, i);
        if (status == ACRE_OK && expand->pages[i].is_mapped)
            status = unmap_page(expand, i);
        if (first == ACRE_OK)
            first = status;
    }
    return first;
}

static void expand_forget(struct expand *expand)
{
    atomic_fetch_sub_explicit(&expand->device->mapped_segments, 1, memory_order_relaxed);
    heap_unmap(expand->pages, expand->page_count * sizeof *expand->pages);
    heap_free(expand);
}

acre_status expand_destroy(struct expand *expand)
{
    const struct acre_device *device = expand->device;
    acre_status status = clear_pages(expand);

    if (status == ACRE_OK)
        status = device->ops->unreserve(device->self, device->index, expand->base, expand->bytes);
    if (status == ACRE_OK)
        expand_forget(expand);
    return status;
}

void expand_abandon(struct expand *expand)
{
    if (expand_destroy(expand) == ACRE_OK)
        return;
    log_line(ACRE_LOG_ERROR, "addresses of an expandable segment could not be returned: %s",
             acre_last_error());
    expand_forget(expand);
}

/* ---- Pages ---------------------------------------------------------------------------- */

/* What to try when the device does not have a type of handle. */
static acre_handle_type expand_weaker(acre_handle_type type)
{
    return type == ACRE_HANDLE_FABRIC ? ACRE_HANDLE_POSIX : ACRE_HANDLE_NONE;
}

static bool may_create(const struct expand *expand, acre_handle_type type)
{
    return type != ACRE_HANDLE_POSIX || device_has(expand->device, ACRE_CAP_SHARE_FD);
}

/* Creates the memory of a page. The first page finds out which type of handle the
 * device has; later ones do without sharing when descriptors have run out. */
static acre_status create_page(struct expand *expand, size_t index)
{
    const struct acre_device *device = expand->device;
    struct expand_page *page = &expand->pages[index];
    acre_handle_type type = expand->type;
    acre_status status;

    for (;; type = expand_weaker(type)) {
        if (!may_create(expand, type))
            continue;
        status = device->ops->create(device->self, device->index, expand->page_bytes, type,
                                     &page->handle);
        bool is_refused = status == ACRE_ERR_UNSUPPORTED && !expand->is_type_known;
        if (type == ACRE_HANDLE_NONE || !(is_refused || status == ACRE_ERR_LIMIT))
            break;
    }
    if (status != ACRE_OK)
        return status;
    page->has_handle = true;
    note_handle(expand, page);
    if (!expand->is_type_known)
        expand->type = type;
    expand->is_type_known = true;
    return ACRE_OK;
}

static acre_status map_page(struct expand *expand, size_t index)
{
    const struct acre_device *device = expand->device;
    struct expand_page *page = &expand->pages[index];
    acre_status status =
        device->ops->map(device->self, device->index, expand->base + index * expand->page_bytes,
                         expand->page_bytes, 0, page->handle);

    if (status == ACRE_OK) {
        page->is_mapped = true;
        expand->mapped_bytes += expand->page_bytes;
    }
    return status;
}

/* Undoes the pages [first, end) of a failed expand_map. What the device refuses
 * stays for the next attempt. */
static void undo_map(struct expand *expand, size_t first, size_t end)
{
    struct status_saved before;

    status_save(&before);
    for (size_t i = end; i-- > first;) {
        if (expand->pages[i].is_mapped && unmap_page(expand, i) != ACRE_OK)
            continue;
        if (expand->pages[i].has_handle)
            release_page(expand, i);
    }
    status_restore(&before);
}

acre_status expand_map(struct expand *expand, size_t offset, size_t bytes)
{
    size_t first = offset / expand->page_bytes, end = first + bytes / expand->page_bytes;
    acre_status status = ACRE_OK;

    CHECK(bytes && offset % expand->page_bytes == 0 && bytes % expand->page_bytes == 0);
    CHECK(end <= expand->page_count);
    if (end > expand->page_end)
        expand->page_end = end;
    for (size_t i = first; i < end && status == ACRE_OK; i++)
        if (!expand->pages[i].has_handle && !expand->pages[i].is_mapped)
            status = create_page(expand, i);
    for (size_t i = first; i < end && status == ACRE_OK; i++)
        if (!expand->pages[i].is_mapped)
            status = map_page(expand, i);
    if (status == ACRE_OK)
        status = open_range(expand, offset, bytes);
    if (status != ACRE_OK)
        undo_map(expand, first, end);
    return status;
}

acre_status expand_unmap(struct expand *expand, size_t offset, size_t bytes, size_t *out_bytes)
{
    size_t first = offset / expand->page_bytes, end = first + bytes / expand->page_bytes;
    acre_status status = ACRE_OK;
    size_t i = first;

    CHECK(offset % expand->page_bytes == 0 && bytes % expand->page_bytes == 0);
    CHECK(end <= expand->page_count);
    /* The handle goes first: memory stays while it is mapped, so that whichever
     * call fails the page is either as it was or still mapped and usable. */
    for (; i < end; i++) {
        if (expand->pages[i].has_handle)
            status = release_page(expand, i);
        if (status == ACRE_OK)
            status = unmap_page(expand, i);
        if (status != ACRE_OK)
            break;
    }
    *out_bytes = (i - first) * expand->page_bytes;
    return status;
}

/* ---- Sleep --------------------------------------------------------------------------- */

acre_status expand_doze(struct expand *expand)
{
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < expand->page_end; i++)
        if (expand->pages[i].is_mapped && !expand->pages[i].has_handle)
            return status_fail(ACRE_ERR_STATE,
                               "a page at %p could not come back: the device once "
                               "failed to unmap it; free what lies there",
                               (void *)(expand->base + i * expand->page_bytes));
    for (size_t i = 0; i < expand->page_end && status == ACRE_OK; i++) {
        if (!expand->pages[i].is_mapped)
            continue;
        status = unmap_page(expand, i);
        expand->pages[i].is_asleep = status == ACRE_OK;
    }
    return status;
}

void expand_sleep(struct expand *expand)
{
    for (size_t i = 0; i < expand->page_end; i++)
        if (expand->pages[i].is_asleep && expand->pages[i].has_handle)
            release_page(expand, i);
}

/* The next run of pages that are asleep from index at on; false: none. */
static bool next_asleep(const struct expand *expand, size_t *at, size_t *end)
{
    size_t i = *at;

    while (i < expand->page_end && !expand->pages[i].is_asleep)
        i++;
    *at = i;
    while (i < expand->page_end && expand->pages[i].is_asleep)
        i++;
    *end = i;
    return *at < i;
}

acre_status expand_wake(struct expand *expand)
{
    size_t page = expand->page_bytes;
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < expand->page_end && status == ACRE_OK; i++)
        if (expand->pages[i].is_asleep && !expand->pages[i].has_handle)
            status = create_page(expand, i);
    for (size_t i = 0; i < expand->page_end && status == ACRE_OK; i++)
        if (expand->pages[i].is_asleep && !expand->pages[i].is_mapped)
            status = map_page(expand, i);
    for (size_t at = 0, end; status == ACRE_OK && next_asleep(expand, &at, &end); at = end)
        status = open_range(expand, at * page, (end - at) * page);
    if (status != ACRE_OK)
        expand_unwake(expand);
    return status;
}

void expand_unwake(struct expand *expand)
{
    struct status_saved before;

    status_save(&before);
    for (size_t i = expand->page_end; i-- > 0;) {
        struct expand_page *page = &expand->pages[i];

        if (!page->is_asleep || (page->is_mapped && unmap_page(expand, i) != ACRE_OK))
            continue;
        if (page->has_handle)
            release_page(expand, i);
    }
    status_restore(&before);
}

void expand_awake(struct expand *expand)
{
    for (size_t i = 0; i < expand->page_end; i++)
        expand->pages[i].is_asleep = false;
}

uint64_t expand_out_bytes(const struct expand *expand)
{
    uint64_t count = 0;

    for (size_t i = 0; i < expand->page_end; i++)
        count += expand->pages[i].is_asleep && !expand->pages[i].is_mapped;
    return count * expand->page_bytes;
}

uint64_t expand_asleep_bytes(const struct expand *expand)
{
    uint64_t count = 0;

    for (size_t i = 0; i < expand->page_end; i++) {
        const struct expand_page *page = &expand->pages[i];

        count += page->is_asleep && !page->is_mapped && !page->has_handle;
    }
    return count * expand->page_bytes;
}

#define FACT(holds)                                                                                \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            *fact = "expand: " #holds;                                                             \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

bool expand_check(const struct expand *expand, const char **fact)
{
    uint64_t mapped_bytes = 0;

    for (size_t i = 0; i < expand->page_end; i++)
        mapped_bytes += expand->pages[i].is_mapped ? expand->page_bytes : 0;
    FACT(mapped_bytes == expand->mapped_bytes);
    FACT(expand->bytes == expand->page_count * expand->page_bytes);
    FACT(expand->page_end <= expand->page_count);
    return true;
}
