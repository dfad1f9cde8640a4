/* SPDX-License-Identifier: MIT */
/* Plug-ins as allocators: PyTorch's two functions, with Acre's books around them.
 *
 *            alloc of the plug-in + put            free begins
 *   nothing ────────────────────────────► LIVE ───────────────► LEAVING
 *      ▲                                   ▲    waiting failed     │
 *      │                                   └───────────────────────┤
 *      └── taken out, then free of the plug-in ────────────────────┘
 *
 * A record leaves the table before the plug-in is told, because the plug-in may
 * give the address to another thread at once. What the plug-in gives is compared
 * with the table before anybody sees it.
 *
 * A plug-in stays as long as it is held: by its allocator, and by each record until
 * the plug-in's free has returned. Thus deleters never reach one that is gone.
 */
#include "alloc/pluggable.h"

#include "alloc/allocator.h"
#include "alloc/plug_wait.h"
#include "backend/stream.h"
#include "base/check.h"
#include "base/dl.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "base/text.h"

#include <inttypes.h>
#include <stddef.h>

#define BYTES_MAX ((size_t)1 << 60)

enum { ALIGNMENT = 16 }; /* unless the configuration says otherwise */

static acre_status plug_allocate(void *self, size_t bytes, acre_data_ptr *out);

struct plug *plug_of(const acre_allocator *allocator)
{
    if (allocator && allocator->ops.allocate == plug_allocate)
        return allocator->self;
    status_fail(ACRE_ERR_INVALID,
                "%s is not the allocator of a plug-in; acre_pluggable_open() "
                "makes one",
                allocator ? allocator->name : "NULL");
    return NULL;
}

acre_pluggable_hooks plug_hooks(struct plug *plug)
{
    lock_take(&plug->lock);
    acre_pluggable_hooks hooks = plug->hooks;
    lock_drop(&plug->lock);
    return hooks;
}

acre_status plug_check_device(const struct plug *plug, int device)
{
    if (device >= 0 && device < plug->table.device_count)
        return ACRE_OK;
    return status_fail(ACRE_ERR_RANGE, "there is no device %d; this plug-in serves 0 to %d", device,
                       plug->table.device_count - 1);
}

static void plug_destroy_now(struct plug *plug)
{
    if (plug->watch)
        plug->watch->end(plug->watch);
    deleter_unbind(plug->owner.deleter);
    plug_table_fini(&plug->table);
    fork_guard_end(&plug->fork_guard);
    lock_fini(&plug->lock);
    dl_close(plug->library);
    heap_free(plug);
}

static void plug_unhold(struct plug *plug)
{
    lock_take(&plug->lock);
    bool is_last = --plug->hold_count == 0;
    lock_drop(&plug->lock);
    if (is_last)
        plug_destroy_now(plug);
}

static void watch_gather(struct plug *plug, int device, bool is_free, struct plug_frames *out)
{
    struct plug_watch *watch = plug->watch;

    out->count = 0;
    if (watch)
        watch->gather(watch, device, is_free, out);
}

static void watch_tell_locked(struct plug *plug, enum plug_event event, struct plug_record *record,
                              const struct plug_frames *frames)
{
    struct plug_watch *watch = plug->watch;

    if (watch)
        watch->tell(watch, event, record, frames);
}

/* ---- Allocating ----------------------------------------------------------------- */

/* Counts bytes as on the way if the limit of the device allows them. */
static acre_status pluggable_charge(struct plug *plug, size_t bytes, int device)
{
    struct plug_account *account = &plug->table.accounts[device];

    lock_take(&plug->lock);
    uint64_t used = (uint64_t)account->stats.allocated_bytes.current + account->coming;
    uint64_t limit = account->limit;
    bool fits = bytes < BYTES_MAX && used <= limit && bytes <= limit - used;
    if (fits)
        account->coming += bytes;
    lock_drop(&plug->lock);
    if (fits)
        return ACRE_OK;
    if (bytes >= BYTES_MAX)
        return status_fail(ACRE_ERR_DEVICE_MEMORY,
                           "%zu bytes were asked for; more than 1EB cannot be had", bytes);
    return status_fail(ACRE_ERR_DEVICE_MEMORY,
                       "device %d: %zu bytes more than the %" PRIu64 " in use would exceed allowed "
                       "memory, %" PRIu64 " bytes; raise the memory fraction",
                       device, bytes, used, limit);
}

/* Enters what the plug-in gave, or says what is wrong with it; *out_return tells
 * that the plug-in should have it back. */
static acre_status judge_locked(struct plug *plug, struct plug_record *record,
                                const struct plug_frames *frames, bool *out_return)
{
    const char *where = (const char *)record->base;
    struct plug_record *other;

    *out_return = false;
    if (!record->base && record->bytes)
        return status_fail(ACRE_ERR_DEVICE_MEMORY,
                           "device %d: the plug-in has no %zu bytes (it returned NULL); %" PRIu64
                           " bytes of it are live",
                           record->device, record->bytes, plug->table.bytes);
    if (record->base + record->bytes < record->base)
        return status_fail(ACRE_ERR_DEVICE,
                           "the plug-in returned %p for %zu bytes, which goes "
                           "beyond the last address; the plug-in is faulty",
                           where, record->bytes);
    other = record->base ? plug_table_overlap(&plug->table, record->base, record->bytes) : NULL;
    if (other && other->base == record->base)
        return status_fail(ACRE_ERR_DEVICE,
                           "the plug-in returned %p twice: %zu bytes there are live, and were not "
                           "freed before it gave %zu; the plug-in is faulty",
                           where, other->bytes, record->bytes);
    if (other)
        return status_fail(ACRE_ERR_DEVICE,
                           "the plug-in returned %p for %zu bytes, which overlaps %zu live bytes "
                           "at %p; the plug-in is faulty",
                           where, record->bytes, other->bytes, (void *)other->base);
    if (record->base % plug->alignment) {
        *out_return = true;
        return status_fail(ACRE_ERR_DEVICE,
                           "the plug-in returned %p for %zu bytes, which is not a multiple of %zu; "
                           "let it align, or open it with a smaller alignment",
                           where, record->bytes, plug->alignment);
    }
    if (record->base) {
        plug_table_put(&plug->table, record);
        watch_tell_locked(plug, PLUG_ALLOCATED, record, frames);
        plug->hold_count++;
    }
    return ACRE_OK;
}

static acre_status ask_plugin(struct plug *plug, size_t bytes, int device, void *stream,
                              const struct plug_frames *frames, void **out)
{
    bool must_return;
    acre_status status = pluggable_charge(plug, bytes, device);

    if (status != ACRE_OK)
        return status;
    struct plug_record *record = heap_zalloc(sizeof *record);
    void *pointer = record ? plug->calls.alloc(bytes, device, stream) : NULL;
    lock_take(&plug->lock);
    plug->table.accounts[device].coming -= bytes;
    if (!record) {
        lock_drop(&plug->lock);
        return ACRE_ERR_HOST_MEMORY;
    }
    *record = (struct plug_record){
        .base = (uintptr_t)pointer, .bytes = bytes, .device = device, .stream = stream};
    status = judge_locked(plug, record, frames, &must_return);
    lock_drop(&plug->lock);
    if (status != ACRE_OK || !pointer)
        heap_free(record);
    if (must_return)
        plug->calls.free(pointer, bytes, device, stream);
    if (status == ACRE_OK)
        *out = pointer;
    return status;
}

static acre_status plug_take_memory(struct plug *plug, size_t bytes, int device, void *stream,
                                    void **out)
{
    const struct plug_record asked = {.bytes = bytes, .device = device, .stream = stream};
    struct plug_frames frames;
    struct status_saved saved;

    plug_retry(plug);
    watch_gather(plug, device, false, &frames);
    acre_status status = ask_plugin(plug, bytes, device, stream, &frames, out);
    struct plug_watch *watch = plug->watch;
    if (status == ACRE_ERR_DEVICE_MEMORY && watch) {
        status_save(&saved);
        watch->fail(watch, &asked, &frames);
        status_restore(&saved);
    }
    return status;
}

static acre_status plug_allocate(void *self, size_t bytes, acre_data_ptr *out)
{
    struct plug *plug = self;
    acre_device *device;
    void *stream, *pointer;
    acre_status status = acre_device_get(plug->type, -1, &device);

    if (status != ACRE_OK)
        return status;
    acre_device_id id = acre_device_id_of(device);
    status = plug_check_device(plug, id.index);
    if (status == ACRE_OK)
        status = stream_current_native(device, &stream);
    if (status == ACRE_OK)
        status = plug_take_memory(plug, bytes, id.index, stream, &pointer);
    if (status == ACRE_OK)
        acre_data_ptr_make(out, pointer, pointer, plug->owner.deleter, id);
    return status;
}

acre_status acre_pluggable_alloc(acre_allocator *allocator, size_t bytes, int device, void *stream,
                                 void **out)
{
    struct plug *plug = plug_of(allocator);

    if (!plug)
        return ACRE_ERR_INVALID;
    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_alloc: out is NULL");
    acre_status status = plug_check_device(plug, device);
    return status == ACRE_OK ? plug_take_memory(plug, bytes, device, stream, out) : status;
}

/* ---- Freeing ------------------------------------------------------------------------ */

static acre_status plug_give_back(struct plug *plug, void *pointer)
{
    struct plug_frames frames;

    watch_gather(plug, 0, true, &frames);
    lock_take(&plug->lock);
    struct plug_record *record = plug_table_find(&plug->table, pointer);
    if (record) {
        record->is_leaving = true;
        watch_tell_locked(plug, PLUG_FREE_REQUESTED, record, &frames);
    }
    lock_drop(&plug->lock);
    if (!record)
        return status_fail(ACRE_ERR_INVALID,
                           "Trying to free a pointer not allocated here: %p is "
                           "not the first byte of a live allocation of this plug-in",
                           pointer);
    acre_status status = plug_wait(plug, record);
    lock_take(&plug->lock);
    if (status == ACRE_OK) {
        plug->put_off_count -= record->is_put_off;
        plug_table_take(&plug->table, record);
        watch_tell_locked(plug, PLUG_FREED, record, &frames);
    } else {
        record->is_leaving = false;
    }
    lock_drop(&plug->lock);
    if (status != ACRE_OK)
        return status;
    plug->calls.free(pointer, record->bytes, record->device, record->stream);
    heap_free(record->streams);
    heap_free(record);
    plug_unhold(plug);
    return ACRE_OK;
}

static void plug_delete(struct deleter_owner *owner, void *pointer)
{
    struct plug *plug = CONTAINER_OF(owner, struct plug, owner);
    struct status_saved saved;

    status_save(&saved);
    acre_status status = plug_give_back(plug, pointer);
    bool is_later = status == ACRE_ERR_STATE || status == ACRE_ERR_DEVICE;
    if (status != ACRE_OK && !(is_later && plug_put_off(plug, pointer)))
        log_line(ACRE_LOG_ERROR, "free of %p failed: %s", pointer, acre_last_error());
    status_restore(&saved);
}

acre_status acre_pluggable_free(acre_allocator *allocator, void *pointer)
{
    struct plug *plug = plug_of(allocator);

    if (!plug)
        return ACRE_ERR_INVALID;
    return pointer ? plug_give_back(plug, pointer) : ACRE_OK;
}

static acre_status plug_copy_data(void *self, void *dst, const void *src, size_t bytes)
{
    const struct plug *plug = self;

    if (bytes == 0)
        return ACRE_OK;
    return plug->flags & ACRE_PLUGGABLE_HOST_MEMORY ? acre_copy_memory(NULL, dst, src, bytes)
                                                    : allocator_copy(plug->type, dst, src, bytes);
}

/* ---- The group "device allocator" ----------------------------------------------------- */

static acre_status plug_empty_cache(void *self)
{
    acre_pluggable_hooks hooks = plug_hooks(self);

    plug_retry(self);

    if (hooks.reset)
        hooks.reset();
    return ACRE_OK;
}

static acre_status plug_record_stream(void *self, const acre_data_ptr *ptr, acre_stream stream)
{
    struct plug *plug = self;
    acre_device *device;
    void *native;

    if (!ptr->data || ptr->deleter != plug->owner.deleter)
        return ACRE_OK;
    acre_status status = stream_resolve(stream, &device, &native);
    if (status != ACRE_OK)
        return status;
    lock_take(&plug->lock);
    void (*hook)(void *, void *) = plug->hooks.record_stream;
    struct plug_record *record = plug_table_find(&plug->table, ptr->data);
    if (!record)
        status = status_fail(ACRE_ERR_INVALID, "invalid device pointer: %p is not live", ptr->data);
    else if (stream.type != (int32_t)plug->type || stream.index != record->device)
        status = stream_refuse_other(record->device, stream.index);
    else if (!hook)
        status = plug_record_add_stream(record, native);
    lock_drop(&plug->lock);
    if (status == ACRE_OK && hook)
        hook(ptr->data, native);
    return status;
}

static acre_status plug_stats_get(void *self, int device, acre_allocator_stats *stats)
{
    struct plug *plug = self;
    acre_status status = plug_check_device(plug, device);

    if (status != ACRE_OK)
        return status;
    lock_take(&plug->lock);
    *stats = plug->table.accounts[device].stats;
    lock_drop(&plug->lock);
    return ACRE_OK;
}

static acre_status plug_reset_accumulated(void *self, int device)
{
    struct plug *plug = self;
    acre_status status = plug_check_device(plug, device);

    if (status != ACRE_OK)
        return status;
    lock_take(&plug->lock);
    acre_allocator_stats *stats = &plug->table.accounts[device].stats;
    stats->allocated_bytes.allocated = stats->allocated_bytes.freed = 0;
    stats->reserved_bytes.allocated = stats->reserved_bytes.freed = 0;
    stats->num_device_alloc = stats->num_device_free = 0;
    lock_drop(&plug->lock);
    return ACRE_OK;
}

static acre_status plug_reset_peak(void *self, int device)
{
    struct plug *plug = self;
    acre_status status = plug_check_device(plug, device);

    if (status != ACRE_OK)
        return status;
    lock_take(&plug->lock);
    acre_allocator_stats *stats = &plug->table.accounts[device].stats;
    stats->allocated_bytes.peak = stats->allocated_bytes.current;
    stats->reserved_bytes.peak = stats->reserved_bytes.current;
    lock_drop(&plug->lock);
    return ACRE_OK;
}

/* ---- Life ------------------------------------------------------------------------------- */

static void plug_end(void *self)
{
    plug_retry(self);
    plug_unhold(self);
}

static const acre_allocator_ops plug_ops = {
    .struct_size = sizeof plug_ops,
    .version = ACRE_ALLOCATOR_VERSION,
    .allocate = plug_allocate,
    .copy_data = plug_copy_data,
    .raw_deleter = deleter_of_self,
    .is_initialized = allocator_is_always_ready,
    .empty_cache = plug_empty_cache,
    .record_stream = plug_record_stream,
    .stats_get = plug_stats_get,
    .stats_reset_accumulated = plug_reset_accumulated,
    .stats_reset_peak = plug_reset_peak,
};

/* Copies a configuration of any size, and its hooks; both are all 0 when there is none. */
static acre_status config_take(const acre_pluggable_config *given, acre_pluggable_config *config,
                               acre_pluggable_hooks *hooks)
{
    acre_status status;

    *config = (acre_pluggable_config){.struct_size = sizeof *config};
    *hooks = (acre_pluggable_hooks){.struct_size = sizeof *hooks};
    if (!given)
        return ACRE_OK;
    status = STRUCT_TAKE("acre_pluggable_load", acre_pluggable_config, given, config);
    if (status == ACRE_OK && config->hooks)
        status = STRUCT_TAKE("acre_pluggable_load", acre_pluggable_hooks, config->hooks, hooks);
    if (status != ACRE_OK)
        return status;
    if (config->hooks)
        config->hooks = hooks;
    if (config->flags & ~(uint32_t)ACRE_PLUGGABLE_HOST_MEMORY)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_config: flags 0x%x are not known",
                           config->flags);
    if (config->alignment & (config->alignment - 1))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_pluggable_config: alignment %zu is not a power "
                           "of two",
                           config->alignment);
    return ACRE_OK;
}

/* Replaces the hooks and calls init the first time there is one. */
static void set_hooks(struct plug *plug, const acre_pluggable_hooks *hooks)
{
    lock_take(&plug->lock);
    plug->hooks = *hooks;
    bool is_first = hooks->init && !plug->has_init;
    plug->has_init |= is_first;
    lock_drop(&plug->lock);
    if (is_first)
        hooks->init(plug->table.device_count);
}

/* Makes the allocator; the library becomes its own on success. */
static acre_status pluggable_create(acre_device_type type, const struct plug_calls *calls,
                                    void *library, const acre_pluggable_config *config,
                                    acre_allocator **out)
{
    acre_device *device;
    acre_status status = acre_device_get(type, 0, &device);

    if (status != ACRE_OK)
        return status;
    struct plug *plug = heap_zalloc(sizeof *plug);
    if (!plug)
        return ACRE_ERR_HOST_MEMORY;
    plug->owner.free = plug_delete;
    plug->type = type;
    plug->calls = *calls;
    plug->flags = config->flags;
    plug->alignment = config->alignment ? config->alignment : ALIGNMENT;
    plug->hold_count = 1;
    lock_init(&plug->lock, RANK_ALLOCATOR, "plug-in");
    fork_guard_lock(&plug->fork_guard, &plug->lock);
    acre_allocator_desc desc = {.struct_size = sizeof desc,
                                .name = "pluggable",
                                .ops = &plug_ops,
                                .self = plug,
                                .destroy = plug_end};
    status = plug_table_init(&plug->table, acre_device_count(type));
    if (status == ACRE_OK)
        status = deleter_bind(&plug->owner);
    if (status == ACRE_OK)
        status = acre_allocator_create(&desc, out);
    if (status != ACRE_OK) {
        plug_destroy_now(plug);
        return status;
    }
    plug->library = library;
    if (config->hooks)
        set_hooks(plug, config->hooks);
    return ACRE_OK;
}

acre_status acre_pluggable_create(acre_device_type type, acre_pluggable_alloc_fn alloc,
                                  acre_pluggable_free_fn free, const acre_pluggable_config *config,
                                  acre_allocator **out)
{
    struct plug_calls calls = {alloc, free};

    if (!alloc || !free || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_create: %s is NULL",
                           !alloc  ? "alloc"
                           : !free ? "free"
                                   : "out");
    acre_pluggable_config whole;
    acre_pluggable_hooks hooks;
    acre_status status = config_take(config, &whole, &hooks);

    config = &whole;
    return status == ACRE_OK ? pluggable_create(type, &calls, NULL, config, out) : status;
}

acre_status acre_pluggable_open(acre_device_type type, const char *library,
                                const char *alloc_symbol, const char *free_symbol,
                                const acre_pluggable_config *config, acre_allocator **out)
{
    const char *names[] = {library, NULL};
    struct plug_calls calls;
    void *opened;

    if (!library || !alloc_symbol || !free_symbol || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_pluggable_open: an argument is NULL");
    const struct dl_symbol symbols[] = {
        {alloc_symbol, NULL, offsetof(struct plug_calls, alloc), false},
        {free_symbol, NULL, offsetof(struct plug_calls, free), false},
    };
    acre_pluggable_config whole;
    acre_pluggable_hooks hooks;
    acre_status status = config_take(config, &whole, &hooks);

    config = &whole;
    if (status == ACRE_OK)
        status = dl_open(names, symbols, 2, &calls, &opened);
    if (status != ACRE_OK)
        return status;
    status = pluggable_create(type, &calls, opened, config, out);
    if (status != ACRE_OK)
        dl_close(opened);
    return status;
}

acre_status acre_pluggable_close(acre_allocator *allocator)
{
    struct plug *plug = allocator ? plug_of(allocator) : NULL;

    if (!plug)
        return allocator ? ACRE_ERR_INVALID : ACRE_OK;
    plug_retry(plug);
    lock_take(&plug->lock);
    uint64_t count = plug->hold_count - 1, bytes = plug->table.bytes;
    lock_drop(&plug->lock);
    if (count)
        return status_fail(ACRE_ERR_STATE,
                           "%" PRIu64 " allocation%s of this plug-in, %" PRIu64
                           " bytes, %s live: free what is live before it is closed",
                           count, text_plural(count), bytes, count == 1 ? "is" : "are");
    acre_allocator_destroy(allocator);
    return ACRE_OK;
}

acre_status acre_pluggable_hooks_set(acre_allocator *allocator, const acre_pluggable_hooks *hooks)
{
    struct plug *plug = plug_of(allocator);

    if (!plug)
        return ACRE_ERR_INVALID;
    acre_pluggable_hooks whole;
    acre_status status =
        STRUCT_TAKE("acre_pluggable_hooks_set", acre_pluggable_hooks, hooks, &whole);
    if (status == ACRE_OK)
        set_hooks(plug, &whole);
    return status;
}
