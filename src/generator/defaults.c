/* SPDX-License-Identifier: MIT */
/* The generator that everybody shares for a device: made and seeded at first
 * use, found by type and index, kept until acre_generator_default_clear.
 */
#include "base/process/fork.h"
#include "base/heap.h"
#include "base/status.h"
#include "generator/generator.h"

struct default_entry {
    struct default_entry *next;
    acre_generator *generator; /* owned */
};

static struct lock entries_lock = LOCK_INITIALIZER(RANK_LEAF, "default generators");
FORK_GUARD(entries_lock);
static struct default_entry *entries; /* guarded by entries_lock */

static acre_generator *find_locked(acre_device_id device)
{
    for (struct default_entry *entry = entries; entry; entry = entry->next) {
        acre_device_id known = acre_generator_device(entry->generator);

        if (known.type == device.type && known.index == device.index)
            return entry->generator;
    }
    return NULL;
}

/* The reference device draws from the twister, as the CPU does. */
static acre_generator_kind kind_for(acre_device_type type)
{
    return type == ACRE_DEVICE_CPU || type == ACRE_DEVICE_PRIVATE ? ACRE_GENERATOR_MT19937
                                                                  : ACRE_GENERATOR_PHILOX;
}

static acre_status make_entry(acre_device_id device, struct default_entry **out)
{
    struct default_entry *entry = heap_zalloc(sizeof *entry);
    acre_status status;

    if (!entry)
        return ACRE_ERR_HOST_MEMORY;
    status = acre_generator_create(kind_for(device.type), device, &entry->generator);
    if (status != ACRE_OK)
        goto free_entry;
    status = acre_generator_seed_random(entry->generator, NULL);
    if (status != ACRE_OK)
        goto destroy;
    *out = entry;
    return ACRE_OK;

destroy:
    acre_generator_destroy(entry->generator);
free_entry:
    heap_free(entry);
    return status;
}

/* Two threads may both make one; the first to put it in wins. */
static acre_status find_or_make(acre_device_id device, acre_generator **out)
{
    struct default_entry *made = NULL;
    acre_status status;

    lock_take(&entries_lock);
    *out = find_locked(device);
    lock_drop(&entries_lock);
    if (*out)
        return ACRE_OK;
    status = make_entry(device, &made);
    if (status != ACRE_OK)
        return status;
    lock_take(&entries_lock);
    *out = find_locked(device);
    if (!*out) {
        made->next = entries;
        entries = made;
        *out = made->generator;
        made = NULL;
    }
    lock_drop(&entries_lock);
    if (made) {
        acre_generator_destroy(made->generator);
        heap_free(made);
    }
    return ACRE_OK;
}

acre_status acre_generator_default(acre_device_type type, int index, acre_generator **out)
{
    acre_device *device;
    acre_generator *found;
    acre_status status;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_generator_default: out is NULL");
    status = acre_device_get(type, index, &device);
    if (status != ACRE_OK)
        return status;
    status = find_or_make(acre_device_id_of(device), &found);
    if (status == ACRE_OK)
        *out = found;
    return status;
}

void acre_generator_default_clear(void)
{
    struct default_entry *entry;

    lock_take(&entries_lock);
    entry = entries;
    entries = NULL;
    lock_drop(&entries_lock);
    while (entry) {
        struct default_entry *next = entry->next;

        acre_generator_destroy(entry->generator);
        heap_free(entry);
        entry = next;
    }
}
