/* SPDX-License-Identifier: MIT */
#include "replay/script.h"

#include "base/heap.h"
#include "base/status.h"
#include "format/array.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Recorded addresses lie below 2^48; what was not recorded lies above. */
#define SPARE_FIRST ((uint64_t)1 << 48)

#define PAGE_BYTES ((uint64_t)2 << 20)

/* No recorded segment is larger; files that say so are damaged. */
#define SEGMENT_MAX ((uint64_t)1 << 40)

static acre_status script_device_count(void *self, int *out_count)
{
    (void)self;
    *out_count = 1;
    return ACRE_OK;
}

static acre_status script_device_info(void *self, int device, acre_device_info *out_info)
{
    struct script *script = self;

    (void)device;
    memset(out_info, 0, sizeof *out_info);
    snprintf(out_info->name, sizeof out_info->name, "recording");
    out_info->total_bytes = script->total_bytes;
    out_info->alloc_granularity = 512;
    out_info->page_bytes = PAGE_BYTES;
    return ACRE_OK;
}

static acre_status script_memory_info(void *self, int device, uint64_t *out_free,
                                      uint64_t *out_total)
{
    struct script *script = self;

    (void)device;
    *out_free = *out_total = script->total_bytes;
    return ACRE_OK;
}

static void script_surprise(struct script *script, uint64_t address, uint64_t bytes, bool is_free)
{
    if (script->surprise_count++ == 0) {
        script->surprise = (struct script_item){.address = address, .bytes = bytes};
        script->surprise_is_free = is_free;
    }
}

/* Notes a call; what does not fit into memory is lost with the whole recording. */
static acre_status note_call(struct script *script, uint64_t address, uint64_t bytes, bool is_free)
{
    acre_status status = ARRAY_ROOM(script, calls, call, 1);

    if (status == ACRE_OK)
        script->calls[script->call_count++] = (struct script_call){address, bytes, is_free};
    return status;
}

static acre_status script_alloc(void *self, int device, size_t bytes, void **out_base)
{
    struct script *script = self;

    (void)device;
    if (script->is_full || script->free_count || bytes > SEGMENT_MAX)
        return ACRE_ERR_DEVICE_MEMORY;
    if (script->alloc_count && !script->allocs[0].is_range && script->allocs[0].bytes == bytes) {
        *out_base = (void *)(uintptr_t)script->allocs[0].address;
        memmove(script->allocs, script->allocs + 1, --script->alloc_count * sizeof *script->allocs);
        return ACRE_OK;
    }
    *out_base = (void *)(uintptr_t)script->spare_address;
    if (script->is_recording) {
        acre_status status = note_call(script, script->spare_address, bytes, false);
        if (status != ACRE_OK)
            return status;
    } else {
        script_surprise(script, script->spare_address, bytes, false);
    }
    script->spare_address += (bytes + (((uint64_t)2 << 20) - 1)) & ~(((uint64_t)2 << 20) - 1);
    return ACRE_OK;
}

static acre_status script_free(void *self, int device, void *base)
{
    struct script *script = self;
    uint64_t address = (uint64_t)(uintptr_t)base;

    (void)device;
    for (size_t i = 0; i < script->free_count; i++)
        if (script->frees[i].address == address && !script->frees[i].is_range) {
            script->frees[i] = script->frees[--script->free_count];
            return ACRE_OK;
        }
    if (script->is_recording)
        return note_call(script, address, 0, true);
    script_surprise(script, address, 0, true);
    return ACRE_OK;
}

/* ---- Pages -------------------------------------------------------------------------------- */

static acre_status script_reserve(void *self, int device, size_t bytes, void **out_base)
{
    struct script *script = self;

    (void)device;
    if (script->alloc_count && script->allocs[0].is_range) {
        *out_base = (void *)(uintptr_t)script->allocs[0].address;
        return ACRE_OK;
    }
    *out_base = (void *)(uintptr_t)script->spare_address;
    script->spare_address += bytes;
    return ACRE_OK;
}

static acre_status script_unreserve(void *self, int device, void *base, size_t bytes)
{
    (void)self;
    (void)device;
    (void)base;
    (void)bytes;
    return ACRE_OK;
}

/* Pages come as long as some are expected; what is not expected is let through and
 * noticed when it is mapped. */
static acre_status script_create(void *self, int device, size_t bytes, acre_handle_type type,
                                 void **out_handle)
{
    struct script *script = self;

    (void)device;
    (void)bytes;
    (void)type;
    if (script->is_full || script->free_count)
        return ACRE_ERR_DEVICE_MEMORY;
    *out_handle = script;
    return ACRE_OK;
}

static acre_status script_release(void *self, int device, void *handle)
{
    (void)self;
    (void)device;
    (void)handle;
    return ACRE_OK;
}

/* Takes a part off an expected range that begins there. */
static bool script_meet(struct script_item *items, size_t *count, uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < *count; i++) {
        if (!items[i].is_range || items[i].address != address || items[i].bytes < bytes)
            continue;
        items[i].address += bytes;
        items[i].bytes -= bytes;
        if (items[i].bytes == 0) {
            memmove(items + i, items + i + 1, (*count - i - 1) * sizeof *items);
            (*count)--;
        }
        return true;
    }
    return false;
}

static acre_status script_map(void *self, int device, void *base, size_t bytes, size_t offset,
                              void *handle)
{
    struct script *script = self;

    (void)device;
    (void)offset;
    (void)handle;
    if (!script_meet(script->allocs, &script->alloc_count, (uint64_t)(uintptr_t)base, bytes))
        script_surprise(script, (uint64_t)(uintptr_t)base, bytes, false);
    return ACRE_OK;
}

static acre_status script_unmap(void *self, int device, void *base, size_t bytes)
{
    struct script *script = self;

    (void)device;
    if (!script_meet(script->frees, &script->free_count, (uint64_t)(uintptr_t)base, bytes))
        script_surprise(script, (uint64_t)(uintptr_t)base, bytes, true);
    return ACRE_OK;
}

static acre_status script_set_access(void *self, int device, void *base, size_t bytes, int accessor,
                                     acre_access access)
{
    (void)self;
    (void)device;
    (void)base;
    (void)bytes;
    (void)accessor;
    (void)access;
    return ACRE_OK;
}

acre_status script_init(struct script *script, uint64_t total_bytes)
{
    const acre_backend_ops ops = {.struct_size = sizeof ops,
                                  .version = ACRE_BACKEND_VERSION,
                                  .device_count = script_device_count,
                                  .device_info = script_device_info,
                                  .memory_info = script_memory_info,
                                  .alloc = script_alloc,
                                  .free = script_free,
                                  .reserve = script_reserve,
                                  .unreserve = script_unreserve,
                                  .create = script_create,
                                  .release = script_release,
                                  .map = script_map,
                                  .unmap = script_unmap,
                                  .set_access = script_set_access};
    static atomic_uint counter;
    char name[32];
    const acre_backend_desc desc = {.struct_size = sizeof desc,
                                    .name = name,
                                    .type = ACRE_DEVICE_PRIVATE,
                                    .ops = &ops,
                                    .self = script,
                                    .flags = ACRE_BACKEND_NULL_STREAM};

    snprintf(name, sizeof name, "recording-%u", atomic_fetch_add(&counter, 1));
    memset(script, 0, sizeof *script);
    script->total_bytes = total_bytes;
    script->spare_address = SPARE_FIRST;
    acre_status status = acre_backend_register(&desc, &script->backend);
    if (status == ACRE_OK)
        status = acre_backend_device(script->backend, 0, &script->device);
    if (status != ACRE_OK)
        script_fini(script);
    return status;
}

void script_fini(struct script *script)
{
    if (script->backend)
        acre_backend_unregister(script->backend);
    heap_free(script->allocs);
    heap_free(script->frees);
    heap_free(script->calls);
    memset(script, 0, sizeof *script);
}

static acre_status expect_alloc(struct script *script, struct script_item item)
{
    if (item.address == 0) /* to the cache NULL is no memory */
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "a segment of %llu bytes lies at address 0, where "
                           "no device puts one; the recording is damaged",
                           (unsigned long long)item.bytes);
    acre_status status = ARRAY_ROOM(script, allocs, alloc, 1);

    if (status == ACRE_OK)
        script->allocs[script->alloc_count++] = item;
    return status;
}

static acre_status expect_free(struct script *script, struct script_item item)
{
    acre_status status = ARRAY_ROOM(script, frees, free, 1);

    if (status == ACRE_OK)
        script->frees[script->free_count++] = item;
    return status;
}

acre_status script_expect_alloc(struct script *script, uint64_t address, uint64_t bytes,
                                uint64_t event)
{
    return expect_alloc(script, (struct script_item){address, bytes, event, false});
}

acre_status script_expect_free(struct script *script, uint64_t address, uint64_t bytes,
                               uint64_t event)
{
    return expect_free(script, (struct script_item){address, bytes, event, false});
}

acre_status script_expect_map(struct script *script, uint64_t address, uint64_t bytes,
                              uint64_t event)
{
    return expect_alloc(script, (struct script_item){address, bytes, event, true});
}

acre_status script_expect_unmap(struct script *script, uint64_t address, uint64_t bytes,
                                uint64_t event)
{
    return expect_free(script, (struct script_item){address, bytes, event, true});
}

bool script_forget(struct script *script)
{
    bool is_met =
        script->alloc_count == 0 && script->free_count == 0 && script->surprise_count == 0;

    script->alloc_count = script->free_count = 0;
    script->surprise_count = 0;
    return is_met;
}
