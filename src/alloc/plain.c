/* SPDX-License-Identifier: MIT */
/* Allocators without a cache: every request goes to the device.
 *
 * Their pointers are simple (data == context), so the deleter has nothing but
 * the address. One table for the whole process tells which device and allocator
 * an address belongs to; that is also how a free finds the right device
 * whatever device is current.
 *
 *            device_alloc + record_put        plain_delete
 *   nothing ─────────────────────────► LIVE ───────────────► LEAVING
 *      ▲                                ▲      device refuses   │
 *      │                                └───────────────────────┤
 *      └────────────────────────────────────────────────────────┘ device freed
 *
 * The device is never called with the table's lock held. While a record is
 * LEAVING, the device may give its address to another thread, whose record then
 * takes its place in the table.
 *
 * An allocator that is destroyed stays in memory until its last pointer is gone.
 */
#include "alloc/allocator.h"

#include "base/check.h"
#include "base/process/fork.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/ptrmap.h"
#include "base/status.h"

#include <stdio.h>

#define BYTES_MAX ((size_t)1 << 60)

struct plain {
    acre_device_type type;
    bool is_host; /* page-locked host memory instead            */
    int device_count;
    acre_allocator_stats *stats; /* one per device; guarded by the table lock  */
    uint64_t live_count;         /* records; guarded by the table lock         */
    bool is_destroyed;           /* goes with its last record                  */
    struct list link;            /* in plains                                  */
};

struct plain_record {
    struct plain *owner;
    acre_device *device;
    size_t bytes;    /* as requested                           */
    bool is_leaving; /* the device is being asked to free it   */
};

static struct lock table_lock = LOCK_INITIALIZER(RANK_ALLOCATOR, "plain allocators");
FORK_GUARD(table_lock);
static struct ptrmap records = PTRMAP_INITIALIZER;    /* address to record; by table_lock */
static struct list plains = LIST_INITIALIZER(plains); /* not destroyed; by table_lock  */

static void stat_increase(acre_stat *stat, size_t bytes)
{
    stat->current += (int64_t)bytes;
    stat->allocated += (int64_t)bytes;
    if (stat->peak < stat->current)
        stat->peak = stat->current;
}

static void stat_decrease(acre_stat *stat, size_t bytes)
{
    stat->current -= (int64_t)bytes;
    stat->freed += (int64_t)bytes;
}

static acre_status raw_free(bool is_host, acre_device *device, void *pointer)
{
    return is_host ? acre_host_free(device, pointer) : acre_device_free(device, pointer);
}

static void plain_release_if_gone_locked(struct plain *plain)
{
    if (plain->is_destroyed && plain->live_count == 0) {
        heap_free(plain->stats);
        heap_free(plain);
    }
}

/* ---- Freeing -------------------------------------------------------------------- */

/* Offers an address nobody recorded to the devices of every plain allocator. A
 * refusal is no failure: somebody else's address is none of our business. */
static void free_untracked(bool is_host, void *pointer)
{
    bool is_served[ACRE_DEVICE_TYPE_COUNT] = {false};
    acre_device *device;

    lock_take(&table_lock);
    LIST_FOR_EACH(it, &plains) {
        struct plain *plain = CONTAINER_OF(it, struct plain, link);
        is_served[plain->type] |= plain->is_host == is_host;
    }
    lock_drop(&table_lock);
    for (int type = 0; type < ACRE_DEVICE_TYPE_COUNT; type++) {
        int count = is_served[type] ? acre_device_count((acre_device_type)type) : 0;
        for (int i = 0; i < count; i++)
            if (acre_device_get((acre_device_type)type, i, &device) == ACRE_OK &&
                raw_free(is_host, device, pointer) == ACRE_OK)
                return;
    }
    log_line(ACRE_LOG_DEBUG, "free of %p, which no plain allocator gave, was ignored", pointer);
}

static void record_forget_locked(struct plain_record *record, void *pointer)
{
    struct plain *plain = record->owner;
    acre_allocator_stats *stats = &plain->stats[acre_device_id_of(record->device).index];

    stat_decrease(&stats->allocated_bytes, record->bytes);
    stat_decrease(&stats->reserved_bytes, record->bytes);
    stats->num_device_free++;
    if (ptrmap_get(&records, pointer) == record)
        ptrmap_take(&records, pointer);
    if (records.count == 0)
        ptrmap_fini(&records);
    heap_free(record);
    plain->live_count--;
    plain_release_if_gone_locked(plain);
}

static void delete_pointer(bool is_host, void *pointer)
{
    struct status_saved saved;

    status_save(&saved);
    lock_take(&table_lock);
    struct plain_record *record = ptrmap_get(&records, pointer);
    bool is_ours = record && !record->is_leaving;
    if (is_ours)
        record->is_leaving = true;
    lock_drop(&table_lock);
    if (!is_ours) {
        if (!record)
            free_untracked(is_host, pointer);
        status_restore(&saved);
        return;
    }

    acre_status status = raw_free(record->owner->is_host, record->device, pointer);
    lock_take(&table_lock);
    if (status == ACRE_OK)
        record_forget_locked(record, pointer);
    else
        record->is_leaving = false;
    lock_drop(&table_lock);
    if (status != ACRE_OK)
        log_line(ACRE_LOG_WARN, "free of %p failed and it stays allocated: %s", pointer,
                 acre_last_error());
    status_restore(&saved);
}

static void plain_delete(void *pointer)
{
    delete_pointer(false, pointer);
}

static void plain_delete_host(void *pointer)
{
    delete_pointer(true, pointer);
}

/* ---- Allocating ----------------------------------------------------------------- */

static acre_status fail_allocate(struct plain *plain, acre_device *device, size_t bytes,
                                 acre_status status)
{
    acre_device_id id = acre_device_id_of(device);
    struct status_saved why;

    status_save(&why);
    lock_take(&table_lock);
    long long allocated = (long long)plain->stats[id.index].allocated_bytes.current;
    long long reserved = (long long)plain->stats[id.index].reserved_bytes.current;
    lock_drop(&table_lock);
    return status_fail_native(status, why.native,
                              "%s:%d: %zu bytes of %s could not be had; %lld bytes are allocated, "
                              "%lld reserved by this allocator: %.600s",
                              acre_device_type_name(id.type), id.index, bytes,
                              plain->is_host ? "page-locked host memory" : "device memory",
                              allocated, reserved, why.text);
}

/* Enters a live pointer into table and statistics. */
static acre_status record_put(struct plain *plain, acre_device *device, size_t bytes, void *pointer)
{
    struct plain_record *record = heap_alloc(sizeof *record);

    if (!record)
        return ACRE_ERR_HOST_MEMORY;
    *record = (struct plain_record){plain, device, bytes, false};
    lock_take(&table_lock);
    acre_status status = ptrmap_put(&records, pointer, record);
    if (status == ACRE_OK) {
        acre_allocator_stats *stats = &plain->stats[acre_device_id_of(device).index];
        stat_increase(&stats->allocated_bytes, bytes);
        stat_increase(&stats->reserved_bytes, bytes);
        stats->num_device_alloc++;
        plain->live_count++;
    }
    lock_drop(&table_lock);
    if (status != ACRE_OK)
        heap_free(record);
    return status;
}

static acre_status plain_allocate(void *self, size_t bytes, acre_data_ptr *out)
{
    struct plain *plain = self;
    acre_device *device;
    void *pointer = NULL;
    acre_status status = acre_device_get(plain->type, -1, &device);

    if (status != ACRE_OK)
        return status;
    acre_device_id id = acre_device_id_of(device);
    if (id.index >= plain->device_count)
        return status_fail(ACRE_ERR_RANGE,
                           "device %d came after this allocator, which serves 0 to %d", id.index,
                           plain->device_count - 1);
    if (bytes >= BYTES_MAX)
        return status_fail(ACRE_ERR_DEVICE_MEMORY,
                           "%zu bytes were asked for; more than 1EB cannot be had", bytes);
    if (bytes) {
        status = plain->is_host ? acre_host_alloc(device, bytes, &pointer)
                                : acre_device_alloc(device, bytes, &pointer);
        if (status != ACRE_OK)
            return fail_allocate(plain, device, bytes, status);
        status = record_put(plain, device, bytes, pointer);
        if (status != ACRE_OK) {
            struct status_saved saved;
            status_save(&saved);
            raw_free(plain->is_host, device, pointer);
            status_restore(&saved);
            return status;
        }
    }
    if (plain->is_host)
        id = (acre_device_id){ACRE_DEVICE_CPU, -1};
    acre_data_ptr_make(out, pointer, pointer, plain->is_host ? plain_delete_host : plain_delete,
                       id);
    return ACRE_OK;
}

static acre_status plain_copy_data(void *self, void *dst, const void *src, size_t bytes)
{
    const struct plain *plain = self;

    return plain->is_host ? acre_copy_memory(NULL, dst, src, bytes)
                          : allocator_copy(plain->type, dst, src, bytes);
}

static acre_deleter plain_raw_deleter(void *self)
{
    return ((struct plain *)self)->is_host ? plain_delete_host : plain_delete;
}

/* ---- The group "device allocator" -------------------------------------------------- */

static acre_status plain_empty_cache(void *self)
{
    (void)self; /* there is nothing idle */
    return ACRE_OK;
}

static acre_status plain_record_stream(void *self, const acre_data_ptr *ptr, acre_stream stream)
{
    (void)self, (void)ptr, (void)stream; /* the device waits by itself */
    return ACRE_OK;
}

static acre_status check_index(const struct plain *plain, int device)
{
    if (device >= 0 && device < plain->device_count)
        return ACRE_OK;
    return status_fail(ACRE_ERR_RANGE, "there is no device %d; this allocator serves 0 to %d",
                       device, plain->device_count - 1);
}

static acre_status plain_stats_get(void *self, int device, acre_allocator_stats *stats)
{
    struct plain *plain = self;
    acre_status status = check_index(plain, device);

    if (status != ACRE_OK)
        return status;
    lock_take(&table_lock);
    *stats = plain->stats[device];
    lock_drop(&table_lock);
    stats->struct_size = sizeof *stats;
    return ACRE_OK;
}

static acre_status plain_reset_accumulated(void *self, int device)
{
    struct plain *plain = self;
    acre_status status = check_index(plain, device);

    if (status != ACRE_OK)
        return status;
    lock_take(&table_lock);
    acre_allocator_stats *stats = &plain->stats[device];
    stats->allocated_bytes.allocated = stats->allocated_bytes.freed = 0;
    stats->reserved_bytes.allocated = stats->reserved_bytes.freed = 0;
    stats->num_device_alloc = stats->num_device_free = 0;
    lock_drop(&table_lock);
    return ACRE_OK;
}

static acre_status plain_reset_peak(void *self, int device)
{
    struct plain *plain = self;
    acre_status status = check_index(plain, device);

    if (status != ACRE_OK)
        return status;
    lock_take(&table_lock);
    acre_allocator_stats *stats = &plain->stats[device];
    stats->allocated_bytes.peak = stats->allocated_bytes.current;
    stats->reserved_bytes.peak = stats->reserved_bytes.current;
    lock_drop(&table_lock);
    return ACRE_OK;
}

/* ---- Life ------------------------------------------------------------------------- */

static void plain_destroy(void *self)
{
    struct plain *plain = self;

    lock_take(&table_lock);
    list_remove(&plain->link);
    plain->is_destroyed = true;
    plain_release_if_gone_locked(plain);
    lock_drop(&table_lock);
}

static acre_status plain_create(acre_device_type type, bool is_host, acre_allocator **out)
{
    static const acre_allocator_ops ops = {
        .struct_size = sizeof ops,
        .version = ACRE_ALLOCATOR_VERSION,
        .allocate = plain_allocate,
        .copy_data = plain_copy_data,
        .raw_deleter = plain_raw_deleter,
        .is_initialized = allocator_is_always_ready,
        .empty_cache = plain_empty_cache,
        .record_stream = plain_record_stream,
        .stats_get = plain_stats_get,
        .stats_reset_accumulated = plain_reset_accumulated,
        .stats_reset_peak = plain_reset_peak,
    };
    char name[64];
    acre_device *device;
    acre_status status = acre_device_get(type, 0, &device);

    if (status != ACRE_OK)
        return status;
    status = ACRE_ERR_HOST_MEMORY;
    struct plain *plain = heap_zalloc(sizeof *plain);
    if (!plain)
        return status;
    plain->type = type;
    plain->is_host = is_host;
    plain->device_count = acre_device_count(type);
    list_init(&plain->link);
    plain->stats = heap_array((size_t)plain->device_count, sizeof *plain->stats);
    if (!plain->stats)
        goto free_plain;
    snprintf(name, sizeof name, "plain %.32s%s", acre_device_type_name(type),
             is_host ? " host" : "");
    acre_allocator_desc desc = {.struct_size = sizeof desc,
                                .name = name,
                                .ops = &ops,
                                .self = plain,
                                .destroy = plain_destroy};
    status = acre_allocator_create(&desc, out);
    if (status != ACRE_OK)
        goto free_stats;
    lock_take(&table_lock);
    list_push_back(&plains, &plain->link);
    lock_drop(&table_lock);
    return ACRE_OK;

free_stats:
    heap_free(plain->stats);
free_plain:
    heap_free(plain);
    return status;
}

acre_status acre_plain_allocator_create(acre_device_type type, acre_allocator **out)
{
    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_plain_allocator_create: out is NULL");
    return plain_create(type, false, out);
}

acre_status acre_plain_host_allocator_create(acre_device_type type, acre_allocator **out)
{
    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_plain_host_allocator_create: out is NULL");
    return plain_create(type, true, out);
}
