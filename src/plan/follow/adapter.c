/* SPDX-License-Identifier: MIT */
/* A planner as an allocator.
 *
 * A deleter is given nothing but the context, and one planner has no function of its
 * own, so each data pointer has a ticket that names both. */
#include "plan/follow/plan.h"

#include "alloc/allocator.h"
#include "alloc/later.h"
#include "backend/backend.h"
#include "backend/stream.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"

struct plan_ticket {
    acre_planner *planner;
    void *pointer;
    struct plan_ticket *next; /* in planner.refused */
};

/* Leaves memory whose free was refused to a deleter of the cache, which knows when a pool wakes. */
static bool leave_to_cache(acre_planner *planner, void *pointer, acre_status refusal)
{
    acre_allocator *allocator;

    if (acre_cache_allocator(planner->cache, &allocator) != ACRE_OK)
        return false;
    bool is_left = later_free(allocator, pointer, refusal);
    acre_allocator_destroy(allocator);
    return is_left;
}

/* Deleters cannot report: what is refused now is tried again, by the cache or with the ticket. */
static void delete_ticket(void *context)
{
    struct plan_ticket *ticket = context;
    acre_planner *planner = ticket->planner;
    acre_status status = planner_free_shared(planner, ticket->pointer);

    if (later_may(status) &&
        (status != ACRE_ERR_STATE || !leave_to_cache(planner, ticket->pointer, status))) {
        quick_lock_take(&planner->lock);
        ticket->next = atomic_load_explicit(&planner->refused, memory_order_relaxed);
        atomic_store_explicit(&planner->refused, ticket, memory_order_relaxed);
        quick_lock_drop(&planner->lock);
        return;
    }
    if (status != ACRE_OK && status != ACRE_ERR_STATE)
        log_line(ACRE_LOG_ERROR, "free of %p failed: %s", ticket->pointer, acre_last_error());
    heap_free(ticket);
}

/* All that was refused; nothing is any more. */
static struct plan_ticket *take_refused(acre_planner *planner)
{
    quick_lock_take(&planner->lock);
    struct plan_ticket *first = atomic_exchange(&planner->refused, NULL);
    quick_lock_drop(&planner->lock);
    return first;
}

/* Tries again what was refused. */
static void retry_refused(acre_planner *planner)
{
    struct status_saved before;

    if (LIKELY(!atomic_load_explicit(&planner->refused, memory_order_relaxed)))
        return;
    status_save(&before);
    for (struct plan_ticket *ticket = take_refused(planner), *next; ticket; ticket = next) {
        next = ticket->next;
        delete_ticket(ticket);
    }
    status_restore(&before);
}

void planner_tickets_fini(acre_planner *planner)
{
    retry_refused(planner);
    for (struct plan_ticket *ticket = take_refused(planner), *next; ticket; ticket = next) {
        next = ticket->next;
        heap_free(ticket);
    }
}

static acre_status plan_allocate(void *self, size_t bytes, acre_data_ptr *out)
{
    acre_planner *planner = self;
    acre_device_id id = acre_device_id_of(planner->device);
    void *stream, *pointer;
    acre_status status = backend_check_fork(planner->device->backend);

    if (status == ACRE_OK)
        status = stream_current_native(planner->device, &stream);
    if (status != ACRE_OK)
        return status;
    retry_refused(planner);
    if (bytes == 0) {
        acre_data_ptr_make(out, NULL, NULL, delete_ticket, id);
        return ACRE_OK;
    }
    struct plan_ticket *ticket = heap_alloc(sizeof *ticket);
    if (!ticket)
        return ACRE_ERR_HOST_MEMORY;
    status = planner_alloc_shared(planner, bytes, stream, &pointer);
    if (status != ACRE_OK) {
        heap_free(ticket);
        return status;
    }
    *ticket = (struct plan_ticket){planner, pointer, NULL};
    acre_data_ptr_make(out, pointer, ticket, delete_ticket, id);
    return ACRE_OK;
}

static acre_status plan_copy_data(void *self, void *dst, const void *src, size_t bytes)
{
    acre_planner *planner = self;

    if (bytes == 0)
        return ACRE_OK;
    return acre_copy(planner->device, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE);
}

static acre_status plan_empty_cache(void *self)
{
    retry_refused(self);
    return acre_cache_empty(((acre_planner *)self)->cache);
}

static acre_status plan_record_stream(void *self, const acre_data_ptr *ptr, acre_stream stream)
{
    const struct plan_ticket *ticket = acre_data_ptr_cast_context(ptr, delete_ticket);
    acre_device *device;
    void *native;

    (void)self;
    if (!ticket)
        return ACRE_OK;
    acre_status status = stream_resolve(stream, &device, &native);
    if (status != ACRE_OK)
        return status;
    if (device != ticket->planner->device)
        return stream_refuse_other(ticket->planner->device->index, device->index);
    return acre_planner_record_stream(ticket->planner, ticket->pointer, native);
}

static acre_status check_device(const acre_planner *planner, int device)
{
    if (device == planner->device->index)
        return ACRE_OK;
    return status_fail(ACRE_ERR_RANGE, "Invalid device argument %d: this planner serves %d", device,
                       planner->device->index);
}

static acre_status plan_stats_get(void *self, int device, acre_allocator_stats *stats)
{
    acre_planner *planner = self;
    acre_planner_stats all = {.struct_size = sizeof all};
    acre_cache_stats cache = {.struct_size = sizeof cache};
    acre_status status = check_device(planner, device);

    if (status == ACRE_OK)
        status = acre_cache_stats_get(planner->cache, &cache);
    if (status == ACRE_OK)
        status = acre_planner_stats_get(planner, &all);
    if (status != ACRE_OK)
        return status;
    stats->allocated_bytes = all.allocated_bytes;
    stats->reserved_bytes = all.reserved_bytes;
    stats->num_device_alloc = cache.num_device_alloc + (int64_t)all.plans;
    stats->num_device_free = cache.num_device_free + (int64_t)all.drops;
    return ACRE_OK;
}

static acre_status plan_reset_accumulated(void *self, int device)
{
    acre_status status = check_device(self, device);

    if (status == ACRE_OK)
        acre_planner_stats_reset_accumulated(self);
    return status;
}

static acre_status plan_reset_peak(void *self, int device)
{
    acre_status status = check_device(self, device);

    if (status == ACRE_OK)
        acre_planner_stats_reset_peak(self);
    return status;
}

static const acre_allocator_ops plan_ops = {
    .struct_size = sizeof plan_ops,
    .version = ACRE_ALLOCATOR_VERSION,
    .allocate = plan_allocate,
    .copy_data = plan_copy_data,
    .is_initialized = allocator_is_always_ready,
    .empty_cache = plan_empty_cache,
    .record_stream = plan_record_stream,
    .stats_get = plan_stats_get,
    .stats_reset_accumulated = plan_reset_accumulated,
    .stats_reset_peak = plan_reset_peak,
};

acre_status acre_planner_allocator(acre_planner *planner, acre_allocator **out)
{
    acre_allocator_desc desc = {
        .struct_size = sizeof desc, .name = "planner", .ops = &plan_ops, .self = planner};

    if (!planner || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_planner_allocator: an argument is NULL");
    return acre_allocator_create(&desc, out);
}
