/* SPDX-License-Identifier: MIT */
/* Virtual memory of the fake device; it refuses what a driver refuses. */
#include "tests/support/fake_inside.h"

#include <stdlib.h>
#include <string.h>

static void *grown(void *items, size_t count, size_t *capacity, size_t bytes)
{
    if (count < *capacity)
        return items;
    *capacity = 2 * *capacity + 64;
    items = realloc(items, *capacity * bytes);
    if (!items)
        abort();
    return items;
}

static struct fake_range *range_around(const struct fake *fake, uintptr_t base, uint64_t bytes)
{
    for (size_t i = 0; i < fake->pages.range_count; i++) {
        struct fake_range *range = &fake->pages.ranges[i];
        if (base >= range->base && base + bytes <= range->base + range->bytes)
            return range;
    }
    return NULL;
}

/* The mapping around an address, or NULL. */
static struct fake_mapping *mapping_at(const struct fake *fake, uintptr_t address)
{
    for (size_t i = fake->pages.mapping_count; i-- > 0;) {
        struct fake_mapping *mapping = &fake->pages.mappings[i];
        if (address >= mapping->base && address - mapping->base < mapping->handle->bytes)
            return mapping;
    }
    return NULL;
}

static bool is_covered(const struct fake *fake, int device, uintptr_t base, uint64_t bytes,
                       uint64_t accessors)
{
    for (uintptr_t at = base; at < base + bytes;) {
        const struct fake_mapping *mapping = mapping_at(fake, at);
        if (!mapping || (device >= 0 && mapping->handle->device != device) ||
            (mapping->accessors & accessors) != accessors)
            return false;
        at = mapping->base + mapping->handle->bytes;
    }
    return true;
}

bool fake_virtual_owns(const struct fake *fake, int device, uintptr_t base, uint64_t bytes)
{
    return is_covered(fake, device, base, bytes, (uint64_t)1 << device);
}

uint64_t fake_virtual_count(const struct fake *fake)
{
    const struct fake_virtual *pages = &fake->pages;

    return pages->range_count + pages->mapping_count + pages->handle_count;
}

void fake_virtual_fini(struct fake *fake)
{
    free(fake->pages.ranges);
    free(fake->pages.mappings);
}

static void handle_forget(struct fake *fake, struct fake_handle *handle)
{
    if (!handle->is_released || handle->map_count)
        return;
    fake->used[handle->device] -= handle->bytes;
    fake->pages.handle_count--;
    free(handle);
}

/* ---- The table -------------------------------------------------------------------- */

static acre_status fake_reserve(void *self, int device, size_t bytes, void **out)
{
    struct fake *fake = self;
    struct fake_virtual *pages = &fake->pages;

    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_RESERVE);
    if (status == ACRE_OK) {
        *out = fake_address(fake, bytes);
        pages->ranges = grown(pages->ranges, pages->range_count, &pages->range_capacity,
                              sizeof *pages->ranges);
        pages->ranges[pages->range_count++] =
            (struct fake_range){(uintptr_t)*out, bytes, device};
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_unreserve(void *self, int device, void *base, size_t bytes)
{
    struct fake *fake = self;
    struct fake_virtual *pages = &fake->pages;

    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_UNRESERVE);
    struct fake_range *range = range_around(fake, (uintptr_t)base, bytes);
    if (status == ACRE_OK && (!range || range->base != (uintptr_t)base ||
                              range->bytes != bytes || range->device != device))
        status = ACRE_ERR_INVALID;
    for (size_t i = 0; status == ACRE_OK && i < pages->mapping_count; i++)
        if (range_around(fake, pages->mappings[i].base, 1) == range)
            status = ACRE_ERR_STATE;
    if (status == ACRE_OK)
        *range = pages->ranges[--pages->range_count];
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_create_handle(void *self, int device, size_t bytes,
                                      acre_handle_type type, void **out)
{
    struct fake *fake = self;

    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_CREATE);
    if (status == ACRE_OK && type == ACRE_HANDLE_FABRIC && !fake->config.has_fabric)
        status = ACRE_ERR_UNSUPPORTED;
    if (status == ACRE_OK && bytes % fake->config.page_bytes)
        status = ACRE_ERR_INVALID;
    if (status == ACRE_OK && bytes > fake->config.bytes - fake->used[device])
        status = ACRE_ERR_DEVICE_MEMORY;
    if (status == ACRE_OK) {
        struct fake_handle *handle = calloc(1, sizeof *handle);
        *handle = (struct fake_handle){.bytes = bytes, .device = device, .type = type};
        fake->used[device] += bytes;
        fake->pages.handle_count++;
        *out = handle;
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_release(void *self, int device, void *token)
{
    struct fake *fake = self;
    struct fake_handle *handle = token;

    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_RELEASE);
    if (status == ACRE_OK && (handle->is_released || handle->device != device))
        status = ACRE_ERR_INVALID;
    if (status == ACRE_OK) {
        handle->is_released = true;
        handle_forget(fake, handle);
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_map(void *self, int device, void *base, size_t bytes, size_t offset,
                            void *token)
{
    struct fake *fake = self;
    struct fake_virtual *pages = &fake->pages;
    struct fake_handle *handle = token;
    uintptr_t first = (uintptr_t)base;

    (void)device;
    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_MAP);
    if (status == ACRE_OK && (offset || bytes != handle->bytes || handle->is_released ||
                              !range_around(fake, first, bytes)))
        status = ACRE_ERR_INVALID;
    for (size_t i = 0; status == ACRE_OK && i < pages->mapping_count; i++)
        if (pages->mappings[i].base < first + bytes &&
            first < pages->mappings[i].base + pages->mappings[i].handle->bytes)
            status = ACRE_ERR_EXISTS;
    if (status == ACRE_OK) {
        pages->mappings = grown(pages->mappings, pages->mapping_count,
                                &pages->mapping_capacity, sizeof *pages->mappings);
        pages->mappings[pages->mapping_count++] = (struct fake_mapping){first, handle, 0};
        handle->map_count++;
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

/* Whether whole mappings tile a range. */
static bool is_tiled(const struct fake *fake, uintptr_t base, uint64_t bytes)
{
    const struct fake_mapping *first = mapping_at(fake, base);
    const struct fake_mapping *last = mapping_at(fake, base + bytes - 1);

    return first && last && first->base == base &&
           last->base + last->handle->bytes == base + bytes &&
           is_covered(fake, -1, base, bytes, 0);
}

static acre_status fake_unmap(void *self, int device, void *base, size_t bytes)
{
    struct fake *fake = self;
    struct fake_virtual *pages = &fake->pages;
    uintptr_t first = (uintptr_t)base;

    (void)device;
    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_UNMAP);
    if (status == ACRE_OK && !is_tiled(fake, first, bytes))
        status = ACRE_ERR_INVALID;
    for (size_t i = pages->mapping_count; status == ACRE_OK && i-- > 0;) {
        struct fake_handle *handle = pages->mappings[i].handle;
        if (pages->mappings[i].base - first >= bytes)
            continue;
        pages->mappings[i] = pages->mappings[--pages->mapping_count];
        handle->map_count--;
        handle_forget(fake, handle);
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_set_access(void *self, int device, void *base, size_t bytes,
                                   int accessor, acre_access access)
{
    struct fake *fake = self;
    struct fake_virtual *pages = &fake->pages;
    uint64_t bit = (uint64_t)1 << accessor;

    (void)device;
    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_SET_ACCESS);
    if (status == ACRE_OK && !is_tiled(fake, (uintptr_t)base, bytes))
        status = ACRE_ERR_INVALID;
    for (size_t i = 0; status == ACRE_OK && i < pages->mapping_count; i++)
        if (pages->mappings[i].base - (uintptr_t)base < bytes)
            pages->mappings[i].accessors = access == ACRE_ACCESS_NONE
                                               ? pages->mappings[i].accessors & ~bit
                                               : pages->mappings[i].accessors | bit;
    pthread_mutex_unlock(&fake->lock);
    return status;
}

void fake_virtual_fill(acre_backend_ops *ops)
{
    ops->reserve = fake_reserve;
    ops->unreserve = fake_unreserve;
    ops->create = fake_create_handle;
    ops->release = fake_release;
    ops->map = fake_map;
    ops->unmap = fake_unmap;
    ops->set_access = fake_set_access;
}

/* ---- For tests ---------------------------------------------------------------------- */

uint64_t fake_reserved_bytes(struct fake *fake)
{
    uint64_t sum = 0;

    pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; i < fake->pages.range_count; i++)
        sum += fake->pages.ranges[i].bytes;
    pthread_mutex_unlock(&fake->lock);
    return sum;
}

uint64_t fake_handle_count(struct fake *fake)
{
    pthread_mutex_lock(&fake->lock);
    uint64_t count = fake->pages.handle_count;
    pthread_mutex_unlock(&fake->lock);
    return count;
}

uint64_t fake_mapping_count(struct fake *fake)
{
    pthread_mutex_lock(&fake->lock);
    uint64_t count = fake->pages.mapping_count;
    pthread_mutex_unlock(&fake->lock);
    return count;
}

bool fake_reaches(struct fake *fake, int accessor, const void *pointer, uint64_t bytes)
{
    pthread_mutex_lock(&fake->lock);
    bool reaches = is_covered(fake, -1, (uintptr_t)pointer, bytes, (uint64_t)1 << accessor);
    pthread_mutex_unlock(&fake->lock);
    return reaches;
}
