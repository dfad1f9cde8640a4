/* SPDX-License-Identifier: MIT */
/* Allocators behind tables: checking, and the calls that every one has. */
#include "alloc/allocator.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"

#include <string.h>

/* Copies a table of this or an older, shorter version over an empty one. */
static acre_status allocator_widen(const acre_allocator_desc *desc, acre_allocator_ops *out)
{
    const acre_allocator_ops *ops = desc->ops;

    if (ops->version != ACRE_ALLOCATOR_VERSION)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "allocator \"%s\" has a table of version %u; this library knows %d",
                           desc->name, ops->version, ACRE_ALLOCATOR_VERSION);
    acre_status status = STRUCT_CUT("acre_allocator_create", acre_allocator_ops, ops, out);
    if (status != ACRE_OK)
        return status;
    if (!out->allocate || !out->copy_data)
        return status_fail(ACRE_ERR_INVALID, "allocator \"%s\" lacks %s, which is required",
                           desc->name, out->allocate ? "copy_data" : "allocate");
    int present = !!out->is_initialized + !!out->empty_cache + !!out->record_stream +
                  !!out->stats_get + !!out->stats_reset_accumulated + !!out->stats_reset_peak;
    if (present != 0 && present != 6)
        return status_fail(ACRE_ERR_INVALID,
                           "allocator \"%s\" has %d of the 6 entries of the group \"device "
                           "allocator\"; fill in all or none",
                           desc->name, present);
    return ACRE_OK;
}

acre_status acre_allocator_create(const acre_allocator_desc *given, acre_allocator **out)
{
    acre_allocator_desc whole, *desc = &whole;
    acre_allocator_ops ops;
    acre_status status = STRUCT_TAKE("acre_allocator_create", acre_allocator_desc, given, desc);

    if (status != ACRE_OK)
        return status;
    if (!out || !desc->ops || !desc->name)
        return status_fail(ACRE_ERR_INVALID, "acre_allocator_create: %s is NULL",
                           !out         ? "out"
                           : !desc->ops ? "desc->ops"
                                        : "desc->name");
    status = allocator_widen(desc, &ops);
    if (status != ACRE_OK)
        return status;

    acre_allocator *allocator = heap_zalloc(sizeof *allocator);
    if (!allocator)
        return ACRE_ERR_HOST_MEMORY;
    *allocator = (acre_allocator){.ops = ops, .self = desc->self, .destroy = desc->destroy};
    allocator->name = heap_strdup(desc->name);
    if (!allocator->name) {
        heap_free(allocator);
        return ACRE_ERR_HOST_MEMORY;
    }
    *out = allocator;
    return ACRE_OK;
}

void acre_allocator_destroy(acre_allocator *allocator)
{
    if (!allocator)
        return;
    registry_forget(allocator);
    if (allocator->destroy)
        allocator->destroy(allocator->self);
    heap_free(allocator->name);
    heap_free(allocator);
}

const char *acre_allocator_name(const acre_allocator *allocator)
{
    return allocator->name;
}

acre_status acre_allocator_allocate(acre_allocator *allocator, size_t bytes, acre_data_ptr *out)
{
    if (!allocator || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_allocator_allocate: %s is NULL",
                           allocator ? "out" : "the allocator");
    return allocator->ops.allocate(allocator->self, bytes, out);
}

acre_status acre_allocator_copy_data(acre_allocator *allocator, void *dst, const void *src,
                                     size_t bytes)
{
    if (!allocator)
        return status_fail(ACRE_ERR_INVALID, "acre_allocator_copy_data: the allocator is NULL");
    return allocator->ops.copy_data(allocator->self, dst, src, bytes);
}

acre_status acre_allocator_clone(acre_allocator *allocator, const void *src, size_t bytes,
                                 acre_data_ptr *out)
{
    struct status_saved saved;
    acre_data_ptr copy;
    acre_status status = acre_allocator_allocate(allocator, bytes, out ? &copy : NULL);

    if (status != ACRE_OK)
        return status;
    status = allocator->ops.copy_data(allocator->self, copy.data, src, bytes);
    if (status != ACRE_OK) {
        status_save(&saved);
        acre_data_ptr_clear(&copy);
        status_restore(&saved);
        return status;
    }
    *out = copy;
    return ACRE_OK;
}

acre_deleter acre_allocator_raw_deleter(const acre_allocator *allocator)
{
    return allocator && allocator->ops.raw_deleter ? allocator->ops.raw_deleter(allocator->self)
                                                   : NULL;
}

acre_status acre_allocator_raw_allocate(acre_allocator *allocator, size_t bytes, void **out)
{
    acre_data_ptr ptr;
    acre_status status = acre_allocator_allocate(allocator, bytes, out ? &ptr : NULL);

    if (status != ACRE_OK)
        return status;
    if (!acre_data_ptr_is_simple(&ptr)) {
        acre_data_ptr_clear(&ptr);
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "allocator \"%s\" gives data pointers whose context is not their "
                           "data; keep the data pointer instead",
                           allocator->name);
    }
    *out = acre_data_ptr_release_context(&ptr);
    return ACRE_OK;
}

acre_status acre_allocator_raw_deallocate(acre_allocator *allocator, void *pointer)
{
    acre_deleter deleter = acre_allocator_raw_deleter(allocator);

    if (!deleter)
        return status_fail(ACRE_ERR_UNSUPPORTED, "allocator \"%s\" has no raw deleter",
                           allocator ? allocator->name : "NULL");
    if (pointer)
        deleter(pointer);
    return ACRE_OK;
}

bool acre_allocator_is_device(const acre_allocator *allocator)
{
    return allocator && allocator->ops.is_initialized;
}

bool acre_allocator_is_initialized(const acre_allocator *allocator)
{
    return acre_allocator_is_device(allocator) && allocator->ops.is_initialized(allocator->self);
}

bool allocator_is_always_ready(void *self)
{
    (void)self;
    return true;
}

acre_status allocator_copy(acre_device_type type, void *dst, const void *src, size_t bytes)
{
    acre_device *device;
    acre_status status = acre_device_get(type, -1, &device);

    if (status != ACRE_OK)
        return status;
    return acre_copy(device, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE);
}

static acre_status need_device(const acre_allocator *allocator, const char *call)
{
    if (acre_allocator_is_device(allocator))
        return ACRE_OK;
    return status_fail(ACRE_ERR_UNSUPPORTED, "%s: allocator \"%s\" is not a device allocator", call,
                       allocator ? allocator->name : "NULL");
}

acre_status acre_allocator_empty_cache(acre_allocator *allocator)
{
    acre_status status = need_device(allocator, "acre_allocator_empty_cache");

    return status == ACRE_OK ? allocator->ops.empty_cache(allocator->self) : status;
}

acre_status acre_allocator_record_stream(acre_allocator *allocator, const acre_data_ptr *ptr,
                                         acre_stream stream)
{
    acre_status status = need_device(allocator, "acre_allocator_record_stream");

    if (status != ACRE_OK || !ptr || !ptr->data)
        return status;
    return allocator->ops.record_stream(allocator->self, ptr, stream);
}

acre_status acre_allocator_stats_get(acre_allocator *allocator, int device,
                                     acre_allocator_stats *stats)
{
    acre_status status = need_device(allocator, "acre_allocator_stats_get");

    if (status != ACRE_OK)
        return status;
    acre_allocator_stats whole = {.struct_size = sizeof whole};
    status = STRUCT_CHECK("acre_allocator_stats_get", acre_allocator_stats, stats);
    if (status == ACRE_OK)
        status = allocator->ops.stats_get(allocator->self, device, &whole);
    if (status == ACRE_OK)
        STRUCT_GIVE(acre_allocator_stats, stats, &whole);
    return status;
}

acre_status acre_allocator_stats_reset_accumulated(acre_allocator *allocator, int device)
{
    acre_status status = need_device(allocator, "acre_allocator_stats_reset_accumulated");

    return status == ACRE_OK ? allocator->ops.stats_reset_accumulated(allocator->self, device)
                             : status;
}

acre_status acre_allocator_stats_reset_peak(acre_allocator *allocator, int device)
{
    acre_status status = need_device(allocator, "acre_allocator_stats_reset_peak");

    return status == ACRE_OK ? allocator->ops.stats_reset_peak(allocator->self, device) : status;
}

acre_status acre_copy_memory(void *self, void *dst, const void *src, size_t bytes)
{
    (void)self;
    if (bytes == 0)
        return ACRE_OK;
    if (!dst || !src)
        return status_fail(ACRE_ERR_INVALID, "acre_copy_memory: %zu bytes %s NULL", bytes,
                           dst ? "from" : "to");
    memmove(dst, src, bytes);
    return ACRE_OK;
}
