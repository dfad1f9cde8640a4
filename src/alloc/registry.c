/* SPDX-License-Identifier: MIT */
/* Which allocator serves a device type: one slot per type, twice, for device
 * memory and for page-locked host memory. Writers hold the lock; readers take
 * the pointer atomically, because programs ask for it before every request. */
#include "alloc/allocator.h"

#include "base/process/fork.h"
#include "base/lock.h"
#include "base/status.h"

#include <stdatomic.h>

struct registry_slot {
    _Atomic(acre_allocator *) allocator; /* not owned; NULL: nobody serves   */
    uint8_t priority;                    /* of allocator; guarded by the lock */
};

static struct lock registry_lock = LOCK_INITIALIZER(RANK_REGISTRY, "allocator registry");
FORK_GUARD(registry_lock);
static struct registry_slot device_slots[ACRE_DEVICE_TYPE_COUNT];
static struct registry_slot host_slots[ACRE_DEVICE_TYPE_COUNT];

static struct registry_slot *slot_of(struct registry_slot *slots, acre_device_type type)
{
    return (int)type >= 0 && type < ACRE_DEVICE_TYPE_COUNT ? &slots[type] : NULL;
}

static acre_status registry_set(struct registry_slot *slot, acre_device_type type,
                                acre_allocator *allocator, uint8_t priority, bool *out_replaced)
{
    if (!slot)
        return status_fail(ACRE_ERR_INVALID, "there is no device type %d", (int)type);
    lock_take(&registry_lock);
    bool replaces = priority >= slot->priority;
    if (replaces) {
        slot->priority = priority;
        atomic_store_explicit(&slot->allocator, allocator, memory_order_release);
    }
    lock_drop(&registry_lock);
    if (out_replaced)
        *out_replaced = replaces;
    return ACRE_OK;
}

static acre_allocator *registry_get(struct registry_slot *slot)
{
    return slot ? atomic_load_explicit(&slot->allocator, memory_order_acquire) : NULL;
}

acre_status acre_allocator_set(acre_device_type type, acre_allocator *allocator, uint8_t priority,
                               bool *out_replaced)
{
    return registry_set(slot_of(device_slots, type), type, allocator, priority, out_replaced);
}

acre_allocator *acre_allocator_get(acre_device_type type)
{
    return registry_get(slot_of(device_slots, type));
}

acre_status acre_allocator_get_device(acre_device_type type, acre_allocator **out)
{
    acre_allocator *allocator = acre_allocator_get(type);

    if (type == ACRE_DEVICE_CPU || !slot_of(device_slots, type))
        return status_fail(ACRE_ERR_INVALID, "device type %d has no device allocator", (int)type);
    if (!allocator)
        return status_fail(ACRE_ERR_NOT_FOUND,
                           "no allocator serves device type %d; see acre_allocator_set()",
                           (int)type);
    if (!acre_allocator_is_device(allocator))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "allocator \"%s\" of device type %d is not a device allocator",
                           acre_allocator_name(allocator), (int)type);
    *out = allocator;
    return ACRE_OK;
}

acre_status acre_host_allocator_set(acre_device_type type, acre_allocator *allocator,
                                    uint8_t priority, bool *out_replaced)
{
    return registry_set(slot_of(host_slots, type), type, allocator, priority, out_replaced);
}

acre_allocator *acre_host_allocator_get(acre_device_type type)
{
    return registry_get(slot_of(host_slots, type));
}

static void registry_do_forget(struct registry_slot *slots, const acre_allocator *allocator)
{
    for (int i = 0; i < ACRE_DEVICE_TYPE_COUNT; i++)
        if (atomic_load(&slots[i].allocator) == allocator) {
            atomic_store(&slots[i].allocator, NULL);
            slots[i].priority = 0;
        }
}

void registry_forget(const acre_allocator *allocator)
{
    lock_take(&registry_lock);
    registry_do_forget(device_slots, allocator);
    registry_do_forget(host_slots, allocator);
    lock_drop(&registry_lock);
}
