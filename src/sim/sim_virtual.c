/* SPDX-License-Identifier: MIT */
/* Virtual memory: reserved addresses, and handles mapped into them.
 *
 * It refuses what a driver refuses: an offset into a handle, part of a handle,
 * sizes and addresses that are not whole pages, unmapping part of a mapping,
 * giving back addresses that something is mapped at.
 *
 * map joins the pages to the private view only; the public view stays a bare
 * reservation until a window opens (sim_window.c). That halves the system calls
 * and the kernel's mappings, of which a process has 65530 by default.
 */
#include "sim/sim_memory.h"

#include "base/bits.h"
#include "base/heap.h"

acre_status pages_check(const struct sim *sim, const char *call, size_t bytes)
{
    if (bytes == 0 || bytes % sim->config.page_bytes)
        return status_fail(ACRE_ERR_INVALID, "%s: %zu bytes are not whole pages of %llu bytes",
                           call, bytes, (unsigned long long)sim->config.page_bytes);
    return ACRE_OK;
}

/* ---- Addresses ----------------------------------------------------------------- */

/* Both views of a reservation, each a mapping of its own. Large ones are aligned
 * to 1 GiB: they share no page table with anything else then, and the kernel need
 * not walk one for each map and unmap. */
static acre_status range_reserve(struct sim *sim, size_t bytes, char **out_public, char **out_alias)
{
    size_t align = bytes >= GIB ? GIB : sim->config.page_bytes;
    acre_status status = views_reserve(bytes, align, out_public, out_alias);

    if (status != ACRE_OK)
        return status;
    status = alias_unmap(*out_alias, bytes);
    if (status != ACRE_OK)
        views_release(*out_public, *out_alias, bytes);
    return status;
}

acre_status sim_reserve(void *self, int device, size_t bytes, void **out_base)
{
    struct sim *sim = self;
    char *base = NULL;
    acre_status status = sim_enter(sim, ACRE_SIM_RESERVE, device, bytes);

    if (status == ACRE_OK)
        status = pages_check(sim, "reserve", bytes);
    if (status != ACRE_OK)
        return status;
    struct sim_span *range = heap_zalloc(sizeof *range);
    if (!range)
        return ACRE_ERR_HOST_MEMORY;
    range->kind = SPAN_RANGE;
    range->device = device;
    range->node.bytes = bytes;
    if (!sim_is_dry(sim))
        status = range_reserve(sim, bytes, &base, &range->alias);
    if (status != ACRE_OK)
        goto free_range;
    range->node.base = (uintptr_t)base;
    lock_take(&sim->memory->lock);
    status = span_publish_locked(sim, range);
    if (status == ACRE_OK) {
        sim->memory->usage.reserve_count++;
        sim->memory->usage.reserved_bytes += bytes;
        *out_base = (void *)range->node.base;
    }
    lock_drop(&sim->memory->lock);
    if (status == ACRE_OK)
        return ACRE_OK;
free_range:
    heap_free(range);
    return status;
}

acre_status sim_unreserve(void *self, int device, void *base, size_t bytes)
{
    struct sim *sim = self;
    struct sim_span *range = NULL;
    struct sim_retired retired = {NULL, NULL, 0};
    acre_status status = sim_enter_plain(sim, device);

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    status = span_exact_locked(sim, base, SPAN_RANGE, device, &range);
    if (status == ACRE_OK && range->node.bytes != bytes)
        status = status_fail(ACRE_ERR_INVALID,
                             "unreserve: %zu bytes given, %zu were reserved "
                             "at %p",
                             bytes, range->node.bytes, base);
    if (status == ACRE_OK && !rbtree_empty(&range->mappings.tree))
        status = status_fail(ACRE_ERR_STATE,
                             "unreserve: something is still mapped in the %zu "
                             "bytes at %p",
                             bytes, base);
    if (status == ACRE_OK) {
        sim->memory->usage.reserve_count--;
        sim->memory->usage.reserved_bytes -= bytes;
        retired = span_forget_locked(sim, range);
    }
    lock_drop(&sim->memory->lock);
    retired_finish(&retired);
    return status;
}

/* The reservation of device that holds all of [base, base + bytes). */
static acre_status range_find_locked(struct sim *sim, const char *call, int device,
                                     const void *base, size_t bytes, struct sim_span **out)
{
    struct sim_span *range = span_find_locked(sim, base);

    if (!range || range->kind != SPAN_RANGE)
        return status_fail(ACRE_ERR_INVALID, "%s: %p is not a reserved address", call, base);
    if (range->device != device)
        return status_fail(ACRE_ERR_INVALID, "%s: %p is reserved for device %d, not %d", call, base,
                           range->device, device);
    if (bytes > node_end(&range->node) - (uintptr_t)base)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: %zu bytes at %p run past the reservation, "
                           "which has %zu left there",
                           call, bytes, base, node_end(&range->node) - (uintptr_t)base);
    *out = range;
    return ACRE_OK;
}

/* ---- Mapping ---------------------------------------------------------------------- */

/* What a map call is about. */
struct map_target {
    struct sim_span *range;
    struct sim_physical *handle;
};

/* Checks a map call against the handle and the addresses. */
static acre_status map_check_locked(struct sim *sim, int device, const void *base, size_t bytes,
                                    const void *token, struct map_target *out)
{
    struct sim_physical *handle = token_find_locked(sim->memory, token, false);

    if (!handle)
        return status_fail(ACRE_ERR_INVALID,
                           "map: %p is not a handle of physical memory: "
                           "unknown or released already",
                           token);
    if (bytes != handle->extent.bytes)
        return status_fail(ACRE_ERR_INVALID,
                           "map: %zu bytes given, the handle has %zu; only "
                           "a whole handle can be mapped",
                           bytes, handle->extent.bytes);
    acre_status status = range_find_locked(sim, "map", device, base, bytes, &out->range);
    if (status != ACRE_OK)
        return status;
    size_t inside = (uintptr_t)base - out->range->node.base;
    if (inside % sim->config.page_bytes)
        return status_fail(ACRE_ERR_INVALID, "map: %p is not on a page of %llu bytes", base,
                           (unsigned long long)sim->config.page_bytes);
    struct sim_node *node = index_overlap(&out->range->mappings, (uintptr_t)base, bytes);
    if (node)
        return status_fail(ACRE_ERR_EXISTS, "map: %zu bytes are mapped already at %p", node->bytes,
                           (void *)node->base);
    out->handle = handle;
    return ACRE_OK;
}

/* Maps under the lock: the call makes no pages, it only notes the addresses. */
static acre_status map_locked(struct sim *sim, int device, void *base, const void *token,
                              struct sim_mapping *mapping)
{
    struct map_target target = {NULL, NULL};
    acre_status status = map_check_locked(sim, device, base, mapping->node.bytes, token, &target);

    if (status != ACRE_OK)
        return status;
    struct sim_span *range = target.range;
    struct sim_physical *handle = target.handle;
    if (range->alias) {
        char *alias = range->alias + ((uintptr_t)base - range->node.base);

        status = view_map(alias, &handle->extent);
        if (status == ACRE_OK) {
            status = window_start(sim, &mapping->window, base, &handle->extent);
            if (status != ACRE_OK)
                (void)alias_unmap(alias, mapping->node.bytes);
        }
        if (status != ACRE_OK)
            return status;
    }
    mapping->node.base = (uintptr_t)base;
    mapping->handle = handle;
    handle->map_count++;
    handle->was_mapped = true;
    index_insert(&range->mappings, &mapping->node);
    acre_sim_usage *usage = &sim->memory->usage;
    uint64_t mapped_end = node_end(&mapping->node) - range->node.base;
    usage->map_count++;
    if (mapped_end > usage->mapped_end_peak)
        usage->mapped_end_peak = mapped_end;
    return ACRE_OK;
}

acre_status sim_map(void *self, int device, void *base, size_t bytes, size_t offset, void *handle)
{
    struct sim *sim = self;
    acre_status status = sim_enter(sim, ACRE_SIM_MAP, device, bytes);

    if (status == ACRE_OK && offset != 0)
        status = status_fail(ACRE_ERR_INVALID, "map: offset %zu; only 0 is possible", offset);
    if (status == ACRE_OK)
        status = pages_check(sim, "map", bytes);
    if (status != ACRE_OK)
        return status;
    struct sim_mapping *mapping = heap_zalloc(sizeof *mapping);
    if (!mapping)
        return ACRE_ERR_HOST_MEMORY;
    mapping->node.bytes = bytes;
    lock_take(&sim->memory->lock);
    status = map_locked(sim, device, base, handle, mapping);
    lock_drop(&sim->memory->lock);
    if (status != ACRE_OK)
        heap_free(mapping);
    return status;
}

/* ---- Whole mappings that tile a range ------------------------------------------------ */

static struct sim_mapping *mapping_of(struct sim_node *node)
{
    return node ? CONTAINER_OF(node, struct sim_mapping, node) : NULL;
}

/* Walks the mappings that begin inside [base, end). */
#define FOR_EACH_MAPPING(it, first, end)                                                           \
    for (struct sim_mapping *it = (first); it && it->node.base < (end);                            \
         it = mapping_of(index_next(&it->node)))

/* Mappings that lie one after another. */
struct tile_run {
    struct sim_span *range;
    struct sim_mapping *first;
};

/* Finds the mappings that tile [base, base + bytes) exactly. */
static acre_status tiles_find_locked(struct sim *sim, const char *call, int device,
                                     const void *base, size_t bytes, struct tile_run *out)
{
    uintptr_t at = (uintptr_t)base, end;
    acre_status status = pages_check(sim, call, bytes);

    if (status == ACRE_OK)
        status = range_find_locked(sim, call, device, base, bytes, &out->range);
    if (status != ACRE_OK)
        return status;
    end = at + bytes;
    struct sim_mapping *first = mapping_find_locked(out->range, base);
    if (!first || first->node.base != at)
        return status_fail(ACRE_ERR_INVALID, "%s: no mapping begins at %p", call, base);
    FOR_EACH_MAPPING(it, first, end) {
        if (it->node.base != at || it->is_leaving)
            return status_fail(ACRE_ERR_INVALID, "%s: nothing is mapped at %p", call, (void *)at);
        at = node_end(&it->node);
    }
    if (at != end)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: %zu bytes at %p are not whole mappings; the "
                           "last one ends at %p",
                           call, bytes, base, (void *)at);
    out->first = first;
    return ACRE_OK;
}

/* Waits until nobody uses the mappings, which nobody can newly find. */
static void tiles_drain_locked(struct sim *sim, struct sim_mapping *first, uintptr_t end)
{
    FOR_EACH_MAPPING(it, first, end)
        it->is_leaving = true;
    FOR_EACH_MAPPING(it, first, end)
        while (it->pin_count > 0)
            lock_wait(&sim->memory->lock, &sim->memory->unpinned);
}

static bool tiles_have_view_locked(struct sim_mapping *first, uintptr_t end)
{
    FOR_EACH_MAPPING(it, first, end)
        if (it->window.has_view)
            return true;
    return false;
}

/* Takes the pages out of both views. The lock is dropped meanwhile: tearing down
 * page tables takes long, and nobody else can find these mappings. */
static acre_status tiles_clear_locked(struct sim *sim, struct sim_span *range,
                                      struct sim_mapping *first, size_t bytes)
{
    uintptr_t base = first->node.base;
    bool has_view = tiles_have_view_locked(first, base + bytes), is_cleared = false;
    acre_status status = ACRE_OK;

    lock_drop(&sim->memory->lock);
    if (has_view) {
        status = public_unmap((char *)base, bytes);
        is_cleared = status == ACRE_OK;
    }
    if (status == ACRE_OK)
        status = alias_unmap(range->alias + (base - range->node.base), bytes);
    lock_take(&sim->memory->lock);
    if (is_cleared)
        FOR_EACH_MAPPING(it, first, base + bytes)
            it->window.has_view = false;
    return status;
}

/* Forgets the tiles; handles that nobody has any more come out chained. */
static void tiles_forget_locked(struct sim *sim, struct sim_span *range, struct sim_mapping *first,
                                uintptr_t end, struct sim_physical **out_gone)
{
    struct sim_mapping *next;

    for (struct sim_mapping *it = first; it && it->node.base < end; it = next) {
        struct sim_physical *handle = it->handle;

        next = mapping_of(index_next(&it->node));
        index_remove(&range->mappings, &it->node);
        window_drop_locked(sim, &it->window);
        heap_free(it);
        sim->memory->usage.map_count--;
        handle->map_count--;
        if (physical_forget_locked(sim, handle)) {
            handle->next_gone = *out_gone;
            *out_gone = handle;
        }
    }
}

static void gone_destroy(struct sim_physical *gone)
{
    while (gone) {
        struct sim_physical *next = gone->next_gone;

        physical_destroy(gone);
        gone = next;
    }
}

/* Unmapping failed. A window that was closed on the way stays closed. */
static void tiles_return_locked(struct sim *sim, struct sim_mapping *first, uintptr_t end)
{
    FOR_EACH_MAPPING(it, first, end) {
        it->is_leaving = false;
        if (!it->window.has_view)
            window_drop_locked(sim, &it->window);
    }
}

acre_status sim_unmap(void *self, int device, void *base, size_t bytes)
{
    struct tile_run tiles = {NULL, NULL};
    struct sim *sim = self;
    struct sim_span *range = NULL;
    struct sim_mapping *first = NULL;
    struct sim_physical *gone = NULL;
    uintptr_t end = (uintptr_t)base + bytes;
    acre_status status = sim_enter(sim, ACRE_SIM_UNMAP, device, bytes);

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    status = tiles_find_locked(sim, "unmap", device, base, bytes, &tiles);
    range = tiles.range;
    first = tiles.first;
    if (status == ACRE_OK) {
        tiles_drain_locked(sim, first, end);
        if (range->alias)
            status = tiles_clear_locked(sim, range, first, bytes);
        if (status == ACRE_OK)
            tiles_forget_locked(sim, range, first, end, &gone);
        else
            tiles_return_locked(sim, first, end);
    }
    lock_drop(&sim->memory->lock);
    gone_destroy(gone);
    return status;
}

void mappings_destroy(struct sim *sim, struct sim_span *range)
{
    struct sim_physical *gone = NULL;
    struct sim_mapping *first = mapping_of(index_above(&range->mappings, 0));

    if (first)
        tiles_forget_locked(sim, range, first, UINTPTR_MAX, &gone);
    gone_destroy(gone);
}

/* ---- Access of devices ---------------------------------------------------------------- */

static void mask_set(uint64_t *mask, int device, bool is_on)
{
    *mask = is_on ? *mask | (uint64_t)1 << device : *mask & ~((uint64_t)1 << device);
}

/* A device must have a link to where each piece lies. */
static acre_status links_check(struct sim *sim, struct sim_mapping *first, uintptr_t end,
                               int accessor)
{
    FOR_EACH_MAPPING(it, first, end)
        if (!sim_is_linked(sim, accessor, it->handle->device))
            return status_fail(ACRE_ERR_INVALID,
                               "set_access: device %d has no link to device "
                               "%d",
                               accessor, it->handle->device);
    return ACRE_OK;
}

acre_status sim_set_access(void *self, int device, void *base, size_t bytes, int accessor,
                           acre_access access)
{
    struct tile_run tiles = {NULL, NULL};
    struct sim *sim = self;
    struct sim_mapping *first = NULL;
    uintptr_t end = (uintptr_t)base + bytes;
    acre_status status = sim_enter(sim, ACRE_SIM_SET_ACCESS, device, bytes);

    if (status == ACRE_OK)
        status = sim_enter_plain(sim, accessor);
    if (status == ACRE_OK && access != ACRE_ACCESS_NONE && access != ACRE_ACCESS_READ &&
        access != ACRE_ACCESS_READ_WRITE)
        status = status_fail(ACRE_ERR_INVALID, "set_access: %d is no kind of access", access);
    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    status = tiles_find_locked(sim, "set_access", device, base, bytes, &tiles);
    first = tiles.first;
    if (status == ACRE_OK)
        status = links_check(sim, first, end, accessor);
    if (status == ACRE_OK)
        FOR_EACH_MAPPING(it, first, end) {
            mask_set(&it->readers, accessor, access != ACRE_ACCESS_NONE);
            mask_set(&it->writers, accessor, access == ACRE_ACCESS_READ_WRITE);
        }
    lock_drop(&sim->memory->lock);
    return status;
}
