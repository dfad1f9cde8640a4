/* SPDX-License-Identifier: MIT */
/* Multicast handles: one range that stands for memory of several devices.
 *
 * Each member binds memory of its own, plain or mapped, at offsets of the range.
 * A write to the range goes to every member; the stream half does the writing and
 * asks here where. Bindings name addresses and keep nothing alive: memory that
 * was freed meanwhile makes the write fail.
 */
#include "sim/sim_memory.h"

#include "base/heap.h"

void multicast_destroy(struct sim_multicast *multicast)
{
    LIST_FOR_EACH_SAFE(it, after, &multicast->bindings)
        heap_free(CONTAINER_OF(it, struct sim_binding, link));
    heap_free(multicast);
}

static bool is_member(const struct sim_multicast *multicast, int device)
{
    return (multicast->devices >> device) & 1;
}

/* The set of members, each valid and named once. */
static acre_status members_of(const struct sim *sim, const int *devices, int device_count,
                              uint64_t *out)
{
    uint64_t members = 0;

    if (!devices || device_count < 1)
        return status_fail(ACRE_ERR_INVALID, "multicast_create: %d devices", device_count);
    for (int i = 0; i < device_count; i++) {
        if (devices[i] < 0 || devices[i] >= sim->device_count)
            return status_fail(ACRE_ERR_RANGE, "multicast_create: device %d is not in [0, %d)",
                               devices[i], sim->device_count);
        if ((members >> devices[i]) & 1)
            return status_fail(ACRE_ERR_INVALID, "multicast_create: device %d is named twice",
                               devices[i]);
        members |= (uint64_t)1 << devices[i];
    }
    *out = members;
    return ACRE_OK;
}

acre_status sim_multicast_create(void *self, const int *devices, int device_count, size_t bytes,
                                 void **out_handle)
{
    struct sim *sim = self;
    uint64_t members = 0;
    acre_status status = sim_enter(sim, ACRE_SIM_MULTICAST, 0, bytes);

    if (status == ACRE_OK)
        status = pages_check(sim, "multicast_create", bytes);
    if (status == ACRE_OK)
        status = members_of(sim, devices, device_count, &members);
    if (status != ACRE_OK)
        return status;
    struct sim_multicast *multicast = heap_zalloc(sizeof *multicast);
    if (!multicast)
        return ACRE_ERR_HOST_MEMORY;
    multicast->devices = members;
    multicast->bytes = bytes;
    list_init(&multicast->bindings);
    lock_take(&sim->memory->lock);
    status = token_take_locked(sim->memory, multicast, true, out_handle);
    if (status == ACRE_OK)
        sim->memory->usage.handle_count++;
    lock_drop(&sim->memory->lock);
    if (status != ACRE_OK)
        heap_free(multicast);
    return status;
}

/* Finds the handle and checks member and range for a call. */
static acre_status multicast_find_locked(struct sim *sim, const char *call, const void *handle,
                                         const struct multicast_part *part,
                                         struct sim_multicast **out)
{
    int device = part->device;
    size_t offset = part->offset, bytes = part->bytes;
    struct sim_multicast *multicast = token_find_locked(sim->memory, handle, true);

    if (!multicast)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: %p is not a multicast handle: unknown or "
                           "released already",
                           call, handle);
    if (!is_member(multicast, device))
        return status_fail(ACRE_ERR_INVALID, "%s: device %d is not a member", call, device);
    if (bytes == 0 || offset > multicast->bytes || bytes > multicast->bytes - offset)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: %zu bytes at offset %zu of a handle of %zu "
                           "bytes",
                           call, bytes, offset, multicast->bytes);
    *out = multicast;
    return ACRE_OK;
}

static struct sim_binding *binding_overlap(const struct sim_multicast *multicast, int device,
                                           size_t offset, size_t bytes)
{
    LIST_FOR_EACH(it, &multicast->bindings) {
        struct sim_binding *binding = CONTAINER_OF(it, struct sim_binding, link);

        if (binding->device == device && offset < binding->offset + binding->bytes &&
            binding->offset < offset + bytes)
            return binding;
    }
    return NULL;
}

/* Memory to be bound is whole and belongs to the member. */
static acre_status bind_check(struct sim *sim, int device, void *memory, size_t bytes)
{
    struct sim_pin pin;
    acre_status status = sim_pin(sim, memory, bytes, &pin);

    if (status != ACRE_OK)
        return status;
    if (pin.kind != ACRE_MEMORY_DEVICE || pin.device != device)
        status = status_fail(ACRE_ERR_INVALID, "multicast_bind: %p is not memory of device %d",
                             memory, device);
    sim_unpin(sim, &pin);
    return status;
}

acre_status sim_multicast_bind(void *self, void *handle, int device, size_t offset, void *memory,
                               size_t bytes)
{
    struct sim *sim = self;
    struct sim_multicast *multicast;
    acre_status status = sim_enter(sim, ACRE_SIM_MULTICAST, device, bytes);

    if (status == ACRE_OK)
        status = pages_check(sim, "multicast_bind", bytes);
    if (status == ACRE_OK && offset % sim->config.page_bytes)
        status =
            status_fail(ACRE_ERR_INVALID, "multicast_bind: offset %zu is not on a page", offset);
    if (status == ACRE_OK)
        status = bind_check(sim, device, memory, bytes);
    if (status != ACRE_OK)
        return status;
    struct sim_binding *binding = heap_zalloc(sizeof *binding);
    if (!binding)
        return ACRE_ERR_HOST_MEMORY;
    *binding =
        (struct sim_binding){.device = device, .offset = offset, .bytes = bytes, .memory = memory};
    lock_take(&sim->memory->lock);
    status = multicast_find_locked(sim, "multicast_bind", handle,
                                   &(struct multicast_part){device, offset, bytes}, &multicast);
    if (status == ACRE_OK && binding_overlap(multicast, device, offset, bytes))
        status = status_fail(ACRE_ERR_EXISTS,
                             "multicast_bind: device %d has memory bound at "
                             "offset %zu already",
                             device, offset);
    if (status == ACRE_OK)
        list_push_back(&multicast->bindings, &binding->link);
    lock_drop(&sim->memory->lock);
    if (status != ACRE_OK)
        heap_free(binding);
    return status;
}

acre_status sim_multicast_unbind(void *self, void *handle, int device, size_t offset, size_t bytes)
{
    struct sim *sim = self;
    struct sim_multicast *multicast;
    struct sim_binding *binding = NULL;
    acre_status status = sim_enter(sim, ACRE_SIM_MULTICAST, device, bytes);

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    status = multicast_find_locked(sim, "multicast_unbind", handle,
                                   &(struct multicast_part){device, offset, bytes}, &multicast);
    if (status == ACRE_OK) {
        binding = binding_overlap(multicast, device, offset, bytes);
        if (binding && binding->offset == offset && binding->bytes == bytes) {
            list_remove(&binding->link);
        } else {
            binding = NULL;
            status = status_fail(ACRE_ERR_INVALID,
                                 "multicast_unbind: device %d has no binding "
                                 "of exactly %zu bytes at offset %zu",
                                 device, bytes, offset);
        }
    }
    lock_drop(&sim->memory->lock);
    heap_free(binding);
    return status;
}

acre_status sim_multicast_release(void *self, void *handle)
{
    struct sim *sim = self;
    acre_status status = sim_enter_plain(sim, 0);

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    struct sim_multicast *multicast = token_find_locked(sim->memory, handle, true);
    if (!multicast)
        status = status_fail(ACRE_ERR_INVALID,
                             "multicast_release: %p is not a multicast "
                             "handle: unknown or released already",
                             handle);
    else if (!list_empty(&multicast->bindings))
        status = status_fail(ACRE_ERR_BUSY, "multicast_release: memory is still bound");
    if (status == ACRE_OK) {
        token_give_locked(sim->memory, handle);
        sim->memory->usage.handle_count--;
    }
    lock_drop(&sim->memory->lock);
    if (status == ACRE_OK)
        multicast_destroy(multicast);
    return status;
}

/* The memory of members. */
struct multicast_targets {
    void *memory[SIM_DEVICES_MAX];
    int devices[SIM_DEVICES_MAX];
    int count;
};

/* Where each member has the range. One binding must hold all of it. */
static acre_status targets_find_locked(const struct sim *sim, const struct sim_multicast *multicast,
                                       const struct multicast_part *part,
                                       struct multicast_targets *out)
{
    size_t offset = part->offset, bytes = part->bytes;

    out->count = 0;
    for (int device = 0; device < sim->device_count; device++) {
        if (!is_member(multicast, device))
            continue;
        struct sim_binding *binding = binding_overlap(multicast, device, offset, bytes);
        if (!binding || offset < binding->offset ||
            offset + bytes > binding->offset + binding->bytes)
            return status_fail(ACRE_ERR_INVALID,
                               "multicast write: device %d has not bound all "
                               "of %zu bytes at offset %zu",
                               device, bytes, offset);
        out->memory[out->count] = (char *)binding->memory + (offset - binding->offset);
        out->devices[out->count++] = device;
    }
    return ACRE_OK;
}

acre_status sim_multicast_pin(struct sim *sim, void *handle, const struct multicast_part *part,
                              struct sim_pin *pins, int *out_count)
{
    struct sim_multicast *multicast;
    struct multicast_targets targets = {.count = 0};
    int done = 0;
    acre_status status;

    lock_take(&sim->memory->lock);
    status = multicast_find_locked(sim, "multicast write", handle, part, &multicast);
    if (status == ACRE_OK)
        status = targets_find_locked(sim, multicast, part, &targets);
    lock_drop(&sim->memory->lock);
    for (; status == ACRE_OK && done < targets.count; done += status == ACRE_OK) {
        status = sim_pin(sim, targets.memory[done], part->bytes, &pins[done]);
        if (status == ACRE_OK && pins[done].device != targets.devices[done]) {
            sim_unpin(sim, &pins[done]);
            status = status_fail(ACRE_ERR_INVALID,
                                 "multicast write: the memory that device %d "
                                 "had bound is gone",
                                 targets.devices[done]);
        }
    }
    if (status == ACRE_OK)
        *out_count = targets.count;
    else
        while (done > 0)
            sim_unpin(sim, &pins[--done]);
    return status;
}
