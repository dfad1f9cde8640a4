/* SPDX-License-Identifier: MIT */
/* What a pointer belongs to, and holding it in place while a worker uses it. */
#include "sim/sim_memory.h"

struct sim_span *span_find_locked(struct sim *sim, const void *pointer)
{
    struct sim_node *node = index_find(&sim->memory->spans, (uintptr_t)pointer);

    return node ? CONTAINER_OF(node, struct sim_span, node) : NULL;
}

struct sim_mapping *mapping_find_locked(struct sim_span *range, const void *pointer)
{
    struct sim_node *node = index_find(&range->mappings, (uintptr_t)pointer);
    struct sim_mapping *mapping = node ? CONTAINER_OF(node, struct sim_mapping, node) : NULL;

    return mapping && !mapping->is_leaving ? mapping : NULL;
}

/* ---- Pointer information ------------------------------------------------------ */

/* What is known of an address inside a span. */
static bool info_of_locked(struct sim_span *span, const void *pointer, acre_pointer_info *out)
{
    struct sim_node *node = &span->node;
    int device = span->device;

    if (span->kind == SPAN_RANGE) {
        struct sim_mapping *mapping = mapping_find_locked(span, pointer);

        if (!mapping)
            return false;
        node = &mapping->node;
        device = mapping->handle->device;
    }
    *out =
        (acre_pointer_info){.kind = span->kind == SPAN_HOST ? ACRE_MEMORY_HOST : ACRE_MEMORY_DEVICE,
                            .device = device,
                            .base = (void *)node->base,
                            .bytes = node->bytes};
    return true;
}

acre_status sim_pointer_info(void *self, const void *pointer, acre_pointer_info *out_info)
{
    struct sim *sim = self;
    acre_pointer_info info = {.struct_size = sizeof info,
                              .kind = ACRE_MEMORY_UNMANAGED,
                              .device = -1,
                              .base = (void *)(uintptr_t)pointer,
                              .bytes = 0};
    acre_status status = sim_enter_plain(sim, 0);

    if (status != ACRE_OK)
        return status;
    if (!pointer)
        return status_fail(ACRE_ERR_INVALID, "pointer_info: the pointer is NULL");
    lock_take(&sim->memory->lock);
    struct sim_span *span = span_find_locked(sim, pointer);
    struct sim_node *node = index_find(&sim->memory->registered, (uintptr_t)pointer);
    if (!(span && info_of_locked(span, pointer, &info)) && node)
        info = (acre_pointer_info){.kind = ACRE_MEMORY_HOST,
                                   .device = -1,
                                   .base = (void *)node->base,
                                   .bytes = node->bytes};
    lock_drop(&sim->memory->lock);
    *out_info = info;
    return ACRE_OK;
}

/* ---- Pinning -------------------------------------------------------------------- */

/* The range must end inside a node that contains its beginning. */
static acre_status check_end(const struct sim_node *node, const void *pointer, size_t bytes)
{
    size_t left = node_end(node) - (uintptr_t)pointer;

    if (bytes <= left)
        return ACRE_OK;
    return status_fail(ACRE_ERR_INVALID,
                       "%zu bytes at %p run past the end: the block at %p of "
                       "%zu bytes has %zu left there",
                       bytes, pointer, (void *)node->base, node->bytes, left);
}

/* Plain and host memory: one count on the span. */
static acre_status pin_span_locked(struct sim_span *span, struct sim_pin *pin)
{
    size_t inside = (uintptr_t)pin->pointer - span->node.base;
    acre_status status = check_end(&span->node, pin->pointer, pin->bytes);

    if (status != ACRE_OK)
        return status;
    span->pin_count++;
    pin->owner = span;
    if (span->kind == SPAN_HOST) {
        pin->kind = ACRE_MEMORY_HOST;
        return ACRE_OK;
    }
    pin->kind = ACRE_MEMORY_DEVICE;
    pin->device = span->device;
    pin->address = span->alias ? span->alias + inside : NULL;
    return ACRE_OK;
}

/* Adds delta to the pins of the mappings from `first` up to the end of the pin.
 * Returns whether one that is leaving lost its last. */
static bool mappings_count_locked(struct sim_mapping *first, const struct sim_pin *pin, int delta)
{
    uintptr_t end = (uintptr_t)pin->pointer + pin->bytes;
    bool is_freed = false;

    for (struct sim_node *node = &first->node; node && node->base < end; node = index_next(node)) {
        struct sim_mapping *mapping = CONTAINER_OF(node, struct sim_mapping, node);

        CHECK(delta > 0 || mapping->pin_count > 0);
        mapping->pin_count += (unsigned)delta;
        is_freed |= mapping->is_leaving && mapping->pin_count == 0;
    }
    return is_freed;
}

/* Mapped memory: a count on each mapping, which must follow one another. */
static acre_status pin_range_locked(struct sim_span *range, struct sim_pin *pin)
{
    uintptr_t at = (uintptr_t)pin->pointer, end = at + pin->bytes;
    struct sim_mapping *first = mapping_find_locked(range, pin->pointer);
    struct sim_mapping *mapping = first;

    pin->readers = pin->writers = UINT64_MAX;
    for (; at < end; mapping = mapping_find_locked(range, (void *)at)) {
        if (!mapping)
            return status_fail(ACRE_ERR_INVALID,
                               "%zu bytes at %p: nothing is mapped at %p, %zu "
                               "bytes into it",
                               pin->bytes, pin->pointer, (void *)at, at - (uintptr_t)pin->pointer);
        pin->readers &= mapping->readers;
        pin->writers &= mapping->writers;
        at = node_end(&mapping->node);
    }
    mappings_count_locked(first, pin, 1);
    pin->owner = range;
    pin->kind = ACRE_MEMORY_DEVICE;
    pin->device = first->handle->device;
    pin->is_mapped = true;
    pin->address =
        range->alias ? range->alias + ((uintptr_t)pin->pointer - range->node.base) : NULL;
    return ACRE_OK;
}

/* Memory that is not ours, or only registered; it must not run into ours. */
static acre_status pin_foreign_locked(struct sim *sim, struct sim_pin *pin)
{
    struct sim_node *node = index_find(&sim->memory->registered, (uintptr_t)pin->pointer);
    struct sim_node *ahead =
        index_overlap(&sim->memory->spans, (uintptr_t)pin->pointer, pin->bytes);

    if (ahead)
        return status_fail(ACRE_ERR_INVALID,
                           "%zu bytes at %p run into the block at %p of %zu "
                           "bytes",
                           pin->bytes, pin->pointer, (void *)ahead->base, ahead->bytes);
    if (!node)
        return ACRE_OK;
    pin->kind = ACRE_MEMORY_HOST;
    return check_end(node, pin->pointer, pin->bytes);
}

acre_status sim_pin(struct sim *sim, const void *pointer, size_t bytes, struct sim_pin *out)
{
    struct sim_pin pin = {.address = (void *)(uintptr_t)pointer,
                          .device = -1,
                          .kind = ACRE_MEMORY_UNMANAGED,
                          .pointer = pointer,
                          .bytes = bytes};
    acre_status status;

    if (!pointer || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)pointer)
        return status_fail(ACRE_ERR_INVALID, "%zu bytes at %p are no range", bytes, pointer);
    lock_take(&sim->memory->lock);
    struct sim_span *span = span_find_locked(sim, pointer);
    if (!span)
        status = pin_foreign_locked(sim, &pin);
    else if (span->kind == SPAN_RANGE && bytes <= node_end(&span->node) - (uintptr_t)pointer)
        status = pin_range_locked(span, &pin);
    else if (span->kind == SPAN_RANGE)
        status = check_end(&span->node, pointer, bytes);
    else
        status = pin_span_locked(span, &pin);
    lock_drop(&sim->memory->lock);
    if (status == ACRE_OK)
        *out = pin;
    return status;
}

void sim_unpin(struct sim *sim, struct sim_pin *pin)
{
    struct sim_span *span = pin->owner;
    bool is_last = false;

    if (!span)
        return;
    lock_take(&sim->memory->lock);
    if (pin->is_mapped) {
        struct sim_node *node = index_find(&span->mappings, (uintptr_t)pin->pointer);

        CHECK(node);
        if (mappings_count_locked(CONTAINER_OF(node, struct sim_mapping, node), pin, -1))
            pthread_cond_broadcast(&sim->memory->unpinned);
    } else {
        CHECK(span->pin_count > 0);
        is_last = --span->pin_count == 0 && span->is_freed;
        if (span->pin_count == 0 && span->is_awaited)
            pthread_cond_broadcast(&sim->memory->unpinned);
    }
    lock_drop(&sim->memory->lock);
    pin->owner = NULL;
    if (is_last)
        span_destroy(span);
}

/* ---- Who may touch it -------------------------------------------------------------- */

static bool mask_has(uint64_t mask, int device)
{
    return (mask >> device) & 1;
}

/* Bits of the devices that were granted access to mapped memory. */
static uint64_t sim_pin_granted(const struct sim_pin *pin, acre_access access)
{
    return access == ACRE_ACCESS_READ ? pin->readers : pin->writers;
}

static acre_status sim_pin_refuse(const struct sim_pin *pin, int accessor, acre_access access,
                                  const char *remedy)
{
    return status_fail(ACRE_ERR_INVALID,
                       "device %d may not %s %zu bytes at %p of device %d: "
                       "%s",
                       accessor, access == ACRE_ACCESS_READ ? "read" : "write", pin->bytes,
                       pin->pointer, pin->device, remedy);
}

acre_status sim_pin_kernel(struct sim *sim, const struct sim_pin *pin, int accessor,
                           acre_access access)
{
    if (pin->kind != ACRE_MEMORY_DEVICE)
        return ACRE_OK;
    if (pin->is_mapped)
        return mask_has(sim_pin_granted(pin, access), accessor)
                   ? ACRE_OK
                   : sim_pin_refuse(pin, accessor, access, "grant it with set_access");
    if (pin->device == accessor ||
        mask_has(atomic_load_explicit(&sim->peers[accessor], memory_order_relaxed), pin->device))
        return ACRE_OK;
    return sim_pin_refuse(pin, accessor, access, "allow it with peer_enable");
}

acre_status sim_pin_copy(struct sim *sim, const struct sim_pin *pin, int accessor,
                         acre_access access)
{
    (void)sim;
    if (pin->kind != ACRE_MEMORY_DEVICE || !pin->is_mapped)
        return ACRE_OK;
    uint64_t who = sim_pin_granted(pin, access);
    if (accessor < 0 ? who != 0 : mask_has(who, accessor))
        return ACRE_OK;
    return sim_pin_refuse(pin, accessor < 0 ? pin->device : accessor, access,
                          "grant it with set_access");
}
