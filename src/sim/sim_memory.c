/* SPDX-License-Identifier: MIT */
/* The simulated memory as a whole, its capacity, and plain allocations. */
#include "sim/sim_memory.h"

#include "base/bits.h"
#include "base/process/fork_fd.h"
#include "base/heap.h"

#include <unistd.h>

/* ---- The whole ------------------------------------------------------------- */

acre_status sim_memory_create(struct sim *sim)
{
    struct sim_memory *memory = heap_zalloc(sizeof *memory);

    if (!memory)
        return ACRE_ERR_HOST_MEMORY;
    memory->system_page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < SIM_DEVICES_MAX; i++)
        memory->files[i] = -1;
    lock_init(&memory->lock, RANK_DEVICE, "sim memory");
    lock_init(&memory->files_lock, RANK_LEAF, "sim files");
    lock_condition_init(&memory->unpinned);
    list_init(&memory->exports);
    sim->memory = memory;
    if (!sim_is_dry(sim))
        return ACRE_OK;

    acre_status status = dry_init(sim);
    if (status != ACRE_OK)
        sim_memory_destroy(sim);
    return status;
}

/* Ends what the user left behind: spans first, so that handles lose their maps. */
static void spans_destroy(struct sim *sim)
{
    struct sim_memory *memory = sim->memory;
    struct sim_node *node;

    while ((node = index_above(&memory->spans, 0))) {
        struct sim_span *span = CONTAINER_OF(node, struct sim_span, node);

        index_remove(&memory->spans, node);
        mappings_destroy(sim, span);
        span_destroy(span);
    }
    while ((node = index_above(&memory->registered, 0))) {
        index_remove(&memory->registered, node);
        heap_free(node);
    }
}

void sim_memory_destroy(struct sim *sim)
{
    struct sim_memory *memory = sim->memory;

    if (!memory)
        return;
    exports_destroy(sim);
    spans_destroy(sim);
    tokens_destroy(sim);
    for (int i = 0; i < SIM_DEVICES_MAX; i++)
        if (memory->files[i] >= 0)
            close(memory->files[i]);
    if (sim_is_dry(sim))
        dry_fini(sim);
    pthread_cond_destroy(&memory->unpinned);
    lock_fini(&memory->files_lock);
    lock_fini(&memory->lock);
    heap_free(memory);
    sim->memory = NULL;
}

/* ---- Capacity ---------------------------------------------------------------- */

static uint64_t sim_memory_capacity(const struct sim *sim)
{
    uint64_t limit = sim->config.limit_bytes, total = sim->config.memory_bytes;

    return limit && limit < total ? limit : total;
}

acre_status capacity_take_locked(struct sim *sim, int device, size_t bytes)
{
    struct sim_memory *memory = sim->memory;
    uint64_t used = memory->bytes_used[device], most = sim_memory_capacity(sim);
    acre_sim_usage *usage = &memory->usage;

    if (bytes > most - used) {
        uint64_t wanted = used + bytes < used ? UINT64_MAX : used + bytes;
        if (!usage->bytes_refused_least || wanted < usage->bytes_refused_least)
            usage->bytes_refused_least = wanted;
        return status_fail(ACRE_ERR_DEVICE_MEMORY,
                           "device %d: %zu bytes asked for, %llu of %llu free", device, bytes,
                           (unsigned long long)(most - used), (unsigned long long)most);
    }
    memory->bytes_used[device] += bytes;
    usage->bytes_used += bytes;
    if (usage->bytes_used > usage->bytes_used_peak)
        usage->bytes_used_peak = usage->bytes_used;
    return ACRE_OK;
}

void capacity_give_locked(struct sim *sim, int device, size_t bytes)
{
    struct sim_memory *memory = sim->memory;

    CHECK(memory->bytes_used[device] >= bytes);
    memory->bytes_used[device] -= bytes;
    memory->usage.bytes_used -= bytes;
}

acre_status sim_memory_info(void *self, int device, uint64_t *out_free, uint64_t *out_total)
{
    struct sim *sim = self;
    acre_status status = sim_enter(sim, ACRE_SIM_MEMORY_INFO, device, 0);

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    *out_free = sim_memory_capacity(sim) - sim->memory->bytes_used[device];
    *out_total = sim->config.memory_bytes;
    lock_drop(&sim->memory->lock);
    return ACRE_OK;
}

/* ---- Plain allocations --------------------------------------------------------- */

/* Gives back the pages and addresses of a span that is in no index. */
void span_destroy(struct sim_span *span)
{
    char *base = (char *)span->node.base;

    CHECK(span->pin_count == 0);
    if (span->kind == SPAN_HOST)
        pages_unmap(base, span->node.bytes);
    else if (span->alias && span->is_freed)
        pages_unmap(span->alias, span->node.bytes);
    else if (span->alias)
        views_release(base, span->alias, span->node.bytes);
    if (span->kind == SPAN_PLAIN)
        extent_destroy(&span->extent);
    if (span->is_opened)
        fork_fd_close(span->connection);
    heap_free(span);
}

acre_status span_publish_locked(struct sim *sim, struct sim_span *span)
{
    acre_status status = ACRE_OK;

    if (span->kind != SPAN_HOST && sim_is_dry(sim))
        status = dry_place_locked(sim->memory, &span->node);
    if (status == ACRE_OK)
        index_insert(&sim->memory->spans, &span->node);
    return status;
}

acre_status span_exact_locked(struct sim *sim, const void *base, enum sim_span_kind kind,
                              int device, struct sim_span **out)
{
    static const char *const names[] = {"device memory of alloc", "host memory",
                                        "reserved addresses"};
    struct sim_span *span = span_find_locked(sim, base);

    if (!span)
        return status_fail(ACRE_ERR_INVALID, "%p is not %s: unknown or given back already", base,
                           names[kind]);
    if (span->kind != kind)
        return status_fail(ACRE_ERR_INVALID, "%p is not %s but %s", base, names[kind],
                           names[span->kind]);
    if (span->node.base != (uintptr_t)base)
        return status_fail(ACRE_ERR_INVALID,
                           "%p lies inside what begins at %p; only the "
                           "beginning can be given back",
                           base, (void *)span->node.base);
    if (span->device != device)
        return status_fail(ACRE_ERR_INVALID, "%p belongs to device %d, not %d", base, span->device,
                           device);
    *out = span;
    return ACRE_OK;
}

struct sim_retired span_forget_locked(struct sim *sim, struct sim_span *span)
{
    struct sim_retired retired = {NULL, NULL, 0};

    index_remove(&sim->memory->spans, &span->node);
    window_drop_locked(sim, &span->window);
    if (span->pin_count == 0) {
        retired.span = span;
        return retired;
    }
    /* From here on the last unpin may end the span at any moment. */
    span->is_freed = true;
    if (span->kind == SPAN_PLAIN && span->alias) {
        retired.public_base = (void *)span->node.base;
        retired.bytes = span->node.bytes;
    }
    return retired;
}

void retired_finish(const struct sim_retired *retired)
{
    if (retired->span)
        span_destroy(retired->span);
    else if (retired->public_base)
        pages_unmap(retired->public_base, retired->bytes);
}

/* Pages and views of a plain span whose node has its size. */
static acre_status plain_back(struct sim *sim, struct sim_span *span)
{
    char *base;
    acre_status status = extent_create(sim, span->device, span->node.bytes, false, &span->extent);

    if (status != ACRE_OK)
        return status;
    status = views_reserve(span->node.bytes, sim->memory->system_page, &base, &span->alias);
    if (status != ACRE_OK)
        goto give_extent;
    status = view_map(span->alias, &span->extent);
    if (status == ACRE_OK)
        status = window_start(sim, &span->window, base, &span->extent);
    if (status != ACRE_OK)
        goto release_views;
    span->node.base = (uintptr_t)base;
    return ACRE_OK;

release_views:
    views_release(base, span->alias, span->node.bytes);
give_extent:
    extent_destroy(&span->extent);
    return status;
}

/* Takes capacity, then finds pages and addresses with the lock dropped. */
static acre_status plain_start(struct sim *sim, struct sim_span *span)
{
    struct sim_memory *memory = sim->memory;
    acre_status status;

    lock_take(&memory->lock);
    status = capacity_take_locked(sim, span->device, span->node.bytes);
    if (status == ACRE_OK && !sim_is_dry(sim)) {
        lock_drop(&memory->lock);
        status = plain_back(sim, span);
        lock_take(&memory->lock);
        if (status != ACRE_OK)
            capacity_give_locked(sim, span->device, span->node.bytes);
    }
    if (status == ACRE_OK) {
        status = span_publish_locked(sim, span);
        if (status != ACRE_OK) /* dry: no addresses left, nothing to undo but this */
            capacity_give_locked(sim, span->device, span->node.bytes);
        else
            memory->usage.alloc_count++;
    }
    lock_drop(&memory->lock);
    return status;
}

acre_status sim_alloc(void *self, int device, size_t bytes, void **out_base)
{
    struct sim *sim = self;
    acre_status status = sim_enter(sim, ACRE_SIM_ALLOC, device, bytes);
    size_t rounded = round_up(bytes, sim->memory->system_page);

    if (status != ACRE_OK)
        return status;
    if (bytes == 0)
        return status_fail(ACRE_ERR_INVALID, "alloc on device %d: 0 bytes", device);
    if (rounded == 0)
        return status_fail(ACRE_ERR_DEVICE_MEMORY,
                           "device %d: %zu bytes asked for, more than "
                           "there can be",
                           device, bytes);
    struct sim_span *span = heap_zalloc(sizeof *span);
    if (!span)
        return ACRE_ERR_HOST_MEMORY;
    span->kind = SPAN_PLAIN;
    span->device = device;
    span->node.bytes = rounded;
    span->extent.fd = -1;
    status = plain_start(sim, span);
    if (status != ACRE_OK) {
        heap_free(span);
        return status;
    }
    *out_base = (void *)span->node.base;
    return ACRE_OK;
}

acre_status sim_free(void *self, int device, void *base)
{
    struct sim *sim = self;
    struct sim_span *span;
    struct sim_retired retired = {NULL, NULL, 0};
    struct list exports = LIST_INITIALIZER(exports);
    acre_status status = sim_enter(sim, ACRE_SIM_FREE, device, 0);

    if (status != ACRE_OK || !base)
        return status;
    lock_take(&sim->memory->lock);
    do
        status = span_exact_locked(sim, base, SPAN_PLAIN, device, &span);
    while (status == ACRE_OK && exports_wait_locked(sim, span));
    if (status == ACRE_OK && span->is_opened)
        status = status_fail(ACRE_ERR_INVALID,
                             "%p is memory of another process; give it back "
                             "with ipc_close",
                             base);
    if (status == ACRE_OK) {
        exports_detach_locked(sim, span, &exports);
        capacity_give_locked(sim, device, span->node.bytes);
        sim->memory->usage.alloc_count--;
        retired = span_forget_locked(sim, span);
    }
    lock_drop(&sim->memory->lock);
    exports_end(&exports);
    retired_finish(&retired);
    return status;
}
