/* SPDX-License-Identifier: MIT */
/* An allocator that shows memory of one device type under another, for
 * backends that masquerade by translation. Everything but the label is the
 * inner allocator's, the deleter included, so nothing is kept here. */
#include "alloc/allocator.h"

#include "base/heap.h"
#include "base/status.h"

#include <stdio.h>

struct relabel {
    acre_allocator *inner; /* not owned, outlives this */
    acre_device_type hidden, shown;
};

static acre_status relabel_allocate(void *self, size_t bytes, acre_data_ptr *out)
{
    struct relabel *relabel = self;
    acre_status status = acre_allocator_allocate(relabel->inner, bytes, out);

    if (status == ACRE_OK && out->device.type == relabel->hidden)
        out->device.type = relabel->shown;
    return status;
}

static acre_status relabel_copy_data(void *self, void *dst, const void *src, size_t bytes)
{
    return acre_allocator_copy_data(((struct relabel *)self)->inner, dst, src, bytes);
}

static acre_deleter relabel_raw_deleter(void *self)
{
    return acre_allocator_raw_deleter(((struct relabel *)self)->inner);
}

static bool relabel_is_initialized(void *self)
{
    return acre_allocator_is_initialized(((struct relabel *)self)->inner);
}

static acre_status relabel_empty_cache(void *self)
{
    return acre_allocator_empty_cache(((struct relabel *)self)->inner);
}

/* The stream is shown under the other type too and goes in under the inner one. */
static acre_status relabel_record_stream(void *self, const acre_data_ptr *ptr, acre_stream stream)
{
    struct relabel *relabel = self;
    acre_data_ptr inside = *ptr;

    if (inside.device.type == relabel->shown)
        inside.device.type = relabel->hidden;
    if (stream.type == (int32_t)relabel->shown)
        stream.type = (int32_t)relabel->hidden;
    return acre_allocator_record_stream(relabel->inner, &inside, stream);
}

static acre_status relabel_stats_get(void *self, int device, acre_allocator_stats *stats)
{
    return acre_allocator_stats_get(((struct relabel *)self)->inner, device, stats);
}

static acre_status relabel_reset_accumulated(void *self, int device)
{
    return acre_allocator_stats_reset_accumulated(((struct relabel *)self)->inner, device);
}

static acre_status relabel_reset_peak(void *self, int device)
{
    return acre_allocator_stats_reset_peak(((struct relabel *)self)->inner, device);
}

acre_status acre_relabel_allocator_create(acre_allocator *inner, acre_device_type hidden,
                                          acre_device_type shown, acre_allocator **out)
{
    acre_allocator_ops ops = {.struct_size = sizeof ops,
                              .version = ACRE_ALLOCATOR_VERSION,
                              .allocate = relabel_allocate,
                              .copy_data = relabel_copy_data,
                              .raw_deleter = relabel_raw_deleter};
    char name[128];

    if (!inner || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_relabel_allocator_create: %s is NULL",
                           inner ? "out" : "the inner allocator");
    if (acre_allocator_is_device(inner)) {
        ops.is_initialized = relabel_is_initialized;
        ops.empty_cache = relabel_empty_cache;
        ops.record_stream = relabel_record_stream;
        ops.stats_get = relabel_stats_get;
        ops.stats_reset_accumulated = relabel_reset_accumulated;
        ops.stats_reset_peak = relabel_reset_peak;
    }
    struct relabel *relabel = heap_alloc(sizeof *relabel);
    if (!relabel)
        return ACRE_ERR_HOST_MEMORY;
    *relabel = (struct relabel){inner, hidden, shown};
    snprintf(name, sizeof name, "%.100s relabelled", inner->name);
    acre_allocator_desc desc = {.struct_size = sizeof desc,
                                .name = name,
                                .ops = &ops,
                                .self = relabel,
                                .destroy = heap_free};
    acre_status status = acre_allocator_create(&desc, out);
    if (status != ACRE_OK)
        heap_free(relabel);
    return status;
}
