/* SPDX-License-Identifier: MIT */
/* Host memory of the simulated backend: allocated, or registered by the caller.
 *
 * It is ordinary memory with one view. Nothing is really locked into RAM; the
 * limit on that (ulimit -l) is smaller than any test. Dry devices have real host
 * memory too, because programs write to it directly.
 */
#include "sim/sim_memory.h"

#include "base/bits.h"
#include "base/heap.h"

/* Makes a span of fresh pages. */
static acre_status host_create(struct sim *sim, size_t bytes, struct sim_span **out)
{
    char *base;
    struct sim_span *span = heap_zalloc(sizeof *span);

    if (!span)
        return ACRE_ERR_HOST_MEMORY;
    span->kind = SPAN_HOST;
    span->device = -1;
    span->node.bytes = round_up(bytes, sim->memory->system_page);
    acre_status status = host_pages_map(span->node.bytes, &base);
    if (status != ACRE_OK) {
        heap_free(span);
        return status;
    }
    span->node.base = (uintptr_t)base;
    *out = span;
    return ACRE_OK;
}

acre_status sim_host_alloc(void *self, size_t bytes, void **out_base)
{
    struct sim *sim = self;
    struct sim_span *span;
    acre_status status = sim_enter(sim, ACRE_SIM_HOST_ALLOC, 0, bytes);

    if (status != ACRE_OK)
        return status;
    if (bytes == 0)
        return status_fail(ACRE_ERR_INVALID, "host_alloc: 0 bytes");
    if (round_up(bytes, sim->memory->system_page) == 0)
        return status_fail(ACRE_ERR_HOST_MEMORY,
                           "host_alloc: %zu bytes are more than there "
                           "can be",
                           bytes);
    status = host_create(sim, bytes, &span);
    if (status != ACRE_OK)
        return status;
    *out_base = (void *)span->node.base;
    lock_take(&sim->memory->lock);
    status = span_publish_locked(sim, span);
    CHECK(status == ACRE_OK);
    sim->memory->usage.host_count++;
    lock_drop(&sim->memory->lock);
    return ACRE_OK;
}

acre_status sim_host_free(void *self, void *base)
{
    struct sim *sim = self;
    struct sim_span *span;
    struct sim_retired retired = {NULL, NULL, 0};
    acre_status status = sim_enter_plain(sim, 0);

    if (status != ACRE_OK || !base)
        return status;
    lock_take(&sim->memory->lock);
    status = span_exact_locked(sim, base, SPAN_HOST, -1, &span);
    if (status == ACRE_OK) {
        sim->memory->usage.host_count--;
        retired = span_forget_locked(sim, span);
    }
    lock_drop(&sim->memory->lock);
    retired_finish(&retired);
    return status;
}

acre_status sim_host_register(void *self, void *base, size_t bytes)
{
    struct sim *sim = self;
    struct sim_memory *memory = sim->memory;
    acre_status status = sim_enter(sim, ACRE_SIM_HOST_REGISTER, 0, bytes);

    if (status != ACRE_OK)
        return status;
    if (!base || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)base)
        return status_fail(ACRE_ERR_INVALID, "host_register: %zu bytes at %p are no range", bytes,
                           base);
    struct sim_node *node = heap_zalloc(sizeof *node);
    if (!node)
        return ACRE_ERR_HOST_MEMORY;
    node->base = (uintptr_t)base;
    node->bytes = bytes;

    lock_take(&memory->lock);
    if (index_overlap(&memory->spans, node->base, bytes))
        status = status_fail(ACRE_ERR_INVALID,
                             "host_register: %zu bytes at %p touch memory "
                             "of this backend",
                             bytes, base);
    else if (index_overlap(&memory->registered, node->base, bytes))
        status = status_fail(ACRE_ERR_EXISTS,
                             "host_register: %zu bytes at %p are registered "
                             "already, at least in part",
                             bytes, base);
    else {
        index_insert(&memory->registered, node);
        memory->usage.host_count++;
    }
    lock_drop(&memory->lock);
    if (status != ACRE_OK)
        heap_free(node);
    return status;
}

acre_status sim_host_unregister(void *self, void *base)
{
    struct sim *sim = self;
    struct sim_memory *memory = sim->memory;
    acre_status status = sim_enter_plain(sim, 0);

    if (status != ACRE_OK)
        return status;
    lock_take(&memory->lock);
    struct sim_node *node = index_find(&memory->registered, (uintptr_t)base);
    if (node && node->base == (uintptr_t)base) {
        index_remove(&memory->registered, node);
        memory->usage.host_count--;
    } else {
        status = status_fail(ACRE_ERR_INVALID,
                             "host_unregister: nothing registered begins "
                             "at %p",
                             base);
        node = NULL;
    }
    lock_drop(&memory->lock);
    heap_free(node);
    return status;
}
