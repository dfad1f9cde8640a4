/* SPDX-License-Identifier: MIT */
#include "alloc/async_lane.h"

#include "backend/backend.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"

#define BYTES_MAX ((size_t)1 << 60)

struct async_block {
    struct list link; /* in put_off                                       */
    void *base;
    size_t bytes;
    void *stream;        /* of the allocation                                */
    bool is_captured;    /* allocated inside a capture                       */
    uint64_t capture_id; /* of that capture                               */
    void **others;       /* further streams, other_count of them, each once  */
    size_t other_count;
};

/* ---- Freeing --------------------------------------------------------------------------- */

static void block_free(struct async_block *block)
{
    heap_free(block->others);
    heap_free(block);
}

/* Whether a stream is captured, and in which capture. */
static bool is_capturing(const struct async_lane *lane, void *stream, uint64_t *out_id)
{
    acre_capture_info info = {.struct_size = sizeof info};

    if (!device_has(lane->device, ACRE_CAP_CAPTURE) ||
        lane->device->ops->capture_info(LANE, stream, &info) != ACRE_OK ||
        info.status != ACRE_CAPTURE_ACTIVE)
        return false;
    *out_id = info.id;
    return true;
}

/* Whether the capture that a block belongs to is still under way on its stream. */
static bool is_block_inside(const struct async_lane *lane, const struct async_block *block)
{
    uint64_t id;

    return block->is_captured && is_capturing(lane, block->stream, &id) && id == block->capture_id;
}

/* Whether a stream that uses the block is captured. */
static bool is_block_capturing(const struct async_lane *lane, const struct async_block *block)
{
    uint64_t id;
    bool is = is_capturing(lane, block->stream, &id);

    for (size_t i = 0; i < block->other_count && !is; i++)
        is = is_capturing(lane, block->others[i], &id);
    return is;
}

/* A stream of the device that only waits and frees. */
static acre_status helper_of(struct async_lane *lane, void **out)
{
    void *made = NULL, *helper;
    acre_status status;

    lock_take(&lane->lock);
    helper = lane->helper;
    lock_drop(&lane->lock);
    if (!helper) {
        status = lane->device->ops->stream_create(LANE, ACRE_STREAM_NON_BLOCKING,
                                                  lane->device->info.priority_least, &made);
        if (status != ACRE_OK)
            return status;
        lock_take(&lane->lock);
        if (!lane->helper) {
            lane->helper = made;
            made = NULL;
        }
        helper = lane->helper;
        lock_drop(&lane->lock);
        if (made)
            lane->device->ops->stream_destroy(LANE, made);
    }
    *out = helper;
    return ACRE_OK;
}

/* Makes waiter wait for what stream has queued. */
static acre_status wait_for(const struct async_lane *lane, void *waiter, void *stream)
{
    const acre_backend_ops *ops = lane->device->ops;
    void *event;
    acre_status status = ops->event_create(LANE, 0, &event);

    if (status != ACRE_OK)
        return status;
    status = ops->event_record(LANE, event, stream);
    if (status == ACRE_OK)
        status = ops->stream_wait_event(LANE, waiter, event);
    ops->event_destroy(LANE, event);
    return status;
}

/* Frees behind all streams of a block: on the helper, so that none of them waits for another.
 * In the capture that a block belongs to, on its own stream: the helper would take part in the
 * capture then, which could not end before the helper came back. */
static acre_status device_free(struct async_lane *lane, const struct async_block *block)
{
    bool is_inside = is_block_inside(lane, block);
    void *last = block->stream;
    acre_status status = ACRE_OK;

    if (block->other_count && !is_inside) {
        status = helper_of(lane, &last);
        if (status == ACRE_OK)
            status = wait_for(lane, last, block->stream);
    }
    for (size_t i = 0; i < block->other_count && status == ACRE_OK; i++)
        status = wait_for(lane, last, block->others[i]);
    return status == ACRE_OK ? lane->device->ops->async_free(LANE, block->base, last) : status;
}

/* Frees a block that is in no set, or leaves it. */
static acre_status block_release(struct async_lane *lane, struct async_block *block)
{
    acre_status status = device_free(lane, block);

    if (status != ACRE_OK)
        return status;
    lock_take(&lane->lock);
    lane->allocated.current -= (int64_t)block->bytes;
    lane->allocated.freed += (int64_t)block->bytes;
    lane->free_count++;
    lock_drop(&lane->lock);
    block_free(block);
    return ACRE_OK;
}

/* Puts a block that was not freed among the live ones again. */
static void block_stay(struct async_lane *lane, struct async_block *block)
{
    lock_take(&lane->lock);
    bool is_kept = ptrmap_put(&lane->blocks, block->base, block) == ACRE_OK;
    lock_drop(&lane->lock);
    if (!is_kept) /* without memory to remember it by, it stays allocated */
        block_free(block);
}

static void block_put_off(struct async_lane *lane, struct async_block *block)
{
    lock_take(&lane->lock);
    list_push_back(&lane->put_off, &block->link);
    lock_drop(&lane->lock);
}

void async_lane_tidy(struct async_lane *lane)
{
    struct list ready = LIST_INITIALIZER(ready);
    struct status_saved saved;

    lock_take(&lane->lock);
    LIST_FOR_EACH_SAFE(it, after, &lane->put_off) {
        list_remove(it);
        list_push_back(&ready, it);
    }
    lock_drop(&lane->lock);
    if (list_empty(&ready))
        return;
    status_save(&saved);
    LIST_FOR_EACH_SAFE(it, after, &ready) {
        struct async_block *block = CONTAINER_OF(it, struct async_block, link);

        list_remove(&block->link);
        if (is_block_capturing(lane, block)) {
            block_put_off(lane, block);
        } else if (block_release(lane, block) != ACRE_OK) {
            log_line(ACRE_LOG_WARN, "a free that was put off failed: %s", acre_last_error());
            block_put_off(lane, block); /* its caller does not come again */
        }
    }
    status_restore(&saved);
}

/* ---- Allocating -------------------------------------------------------------------------- */

static acre_status limit_check(struct async_lane *lane, size_t bytes)
{
    acre_async_usage usage = {.struct_size = sizeof usage};
    uint64_t limit;
    acre_status status;

    lock_take(&lane->lock);
    limit = lane->limit;
    lock_drop(&lane->lock);
    if (limit == UINT64_MAX)
        return ACRE_OK;
    status = lane->device->ops->async_usage(LANE, &usage);
    if (status == ACRE_OK && (usage.used > limit || bytes > limit - usage.used))
        status = status_fail(ACRE_ERR_LIMIT,
                             "%zu bytes would exceed allowed memory: %llu of %llu "
                             "bytes are in use on device %d",
                             bytes, (unsigned long long)usage.used, (unsigned long long)limit,
                             lane->device->index);
    return status;
}

/* Enters memory that the device gave. */
static acre_status block_put(struct async_lane *lane, void *base, size_t bytes, void *stream)
{
    struct async_block *block = heap_zalloc(sizeof *block);
    acre_status status;

    if (!block)
        return ACRE_ERR_HOST_MEMORY;
    *block = (struct async_block){.base = base, .bytes = bytes, .stream = stream};
    block->is_captured = is_capturing(lane, stream, &block->capture_id);
    list_init(&block->link);
    lock_take(&lane->lock);
    status = ptrmap_put(&lane->blocks, base, block);
    if (status == ACRE_OK) {
        lane->allocated.current += (int64_t)bytes;
        lane->allocated.allocated += (int64_t)bytes;
        if (lane->allocated.peak < lane->allocated.current)
            lane->allocated.peak = lane->allocated.current;
        lane->alloc_count++;
    }
    lock_drop(&lane->lock);
    if (status != ACRE_OK)
        heap_free(block);
    return status;
}

acre_status async_lane_alloc(struct async_lane *lane, size_t bytes, void *stream, void **out)
{
    void *base = NULL;
    acre_status status;

    if (bytes >= BYTES_MAX)
        return status_fail(ACRE_ERR_DEVICE_MEMORY,
                           "%zu bytes were asked for; more than 1EB cannot be had", bytes);
    async_lane_tidy(lane);
    status = limit_check(lane, bytes);
    if (status == ACRE_OK)
        status = lane->device->ops->async_alloc(LANE, bytes, stream, &base);
    if (status != ACRE_OK)
        return status;
    status = block_put(lane, base, bytes, stream);
    if (status != ACRE_OK)
        lane->device->ops->async_free(LANE, base, stream);
    else
        *out = base;
    return status;
}

/* ---- Records and life ------------------------------------------------------------------ */

acre_status async_lane_record(struct async_lane *lane, void *pointer, void *stream, bool *out_known)
{
    acre_status status = ACRE_OK;
    struct async_block *block;
    bool is_new;

    lock_take(&lane->lock);
    block = ptrmap_get(&lane->blocks, pointer);
    is_new = block && block->stream != stream;
    for (size_t i = 0; is_new && i < block->other_count; i++)
        is_new = block->others[i] != stream;
    if (is_new) {
        void **others =
            heap_realloc(block->others, (block->other_count + 1) * sizeof *block->others);

        if (others) {
            block->others = others;
            others[block->other_count++] = stream;
        } else {
            status = ACRE_ERR_HOST_MEMORY;
        }
    }
    lock_drop(&lane->lock);
    *out_known = block != NULL;
    return status;
}

void async_lane_fini(struct async_lane *lane)
{
    struct ptrmap_entry *entry;
    size_t at = 0;

    async_lane_tidy(lane);
    if (lane->blocks.count)
        log_line(ACRE_LOG_WARN, "an allocator that is destroyed frees %zu live allocation%s",
                 lane->blocks.count, text_plural(lane->blocks.count));
    while ((entry = ptrmap_next(&lane->blocks, &at))) {
        device_free(lane, entry->value);
        block_free(entry->value);
    }
    LIST_FOR_EACH_SAFE(it, after, &lane->put_off)
        block_free(CONTAINER_OF(it, struct async_block, link));
    if (lane->helper)
        lane->device->ops->stream_destroy(LANE, lane->helper);
    lane->device->ops->async_trim(LANE, 0);
    ptrmap_fini(&lane->blocks);
    lock_fini(&lane->lock);
}

void async_lane_init(struct async_lane *lane)
{
    lock_init(&lane->lock, RANK_ALLOCATOR, "stream-ordered memory");
    ptrmap_init(&lane->blocks);
    list_init(&lane->put_off);
    lane->limit = UINT64_MAX;
}

bool async_lane_free(struct async_lane *lane, void *base, acre_status *out_status)
{
    struct async_block *block;

    lock_take(&lane->lock);
    block = ptrmap_take(&lane->blocks, base);
    lock_drop(&lane->lock);
    if (!block)
        return false;
    *out_status = ACRE_OK;
    if (!is_block_inside(lane, block) && is_block_capturing(lane, block)) {
        block_put_off(lane, block);
        return true;
    }
    async_lane_tidy(lane);
    *out_status = block_release(lane, block);
    if (*out_status != ACRE_OK)
        block_stay(lane, block);
    return true;
}
