/* SPDX-License-Identifier: MIT */
/* Allocating blocks and finding them again. */
#include "symm/team/block.h"

#include "base/heap.h"
#include "base/process/fork.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "symm/kind.h"

#include <stdio.h>
#include <string.h>

#define PAD_BYTES_DEFAULT 9216u /* 32 blocks of threads x 72 ranks x 4 bytes */

static struct lock blocks_lock = LOCK_INITIALIZER(RANK_ALLOCATOR, "blocks");
FORK_GUARD(blocks_lock);
static struct list blocks = LIST_INITIALIZER(blocks); /* under blocks_lock */
static _Atomic size_t pad_bytes_next = PAD_BYTES_DEFAULT;

/* ---- Sizes ------------------------------------------------------------------------ */

ACRE_API acre_status acre_symm_set_pad_bytes(size_t bytes)
{
    if (bytes % 16 != 0 || bytes > (size_t)1 << 30)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_symm_set_pad_bytes: %zu is not a multiple of "
                           "16 up to 1 GiB",
                           bytes);
    atomic_store_explicit(&pad_bytes_next, bytes ? bytes : PAD_BYTES_DEFAULT, memory_order_relaxed);
    return ACRE_OK;
}

ACRE_API size_t acre_symm_pad_bytes(void)
{
    return atomic_load_explicit(&pad_bytes_next, memory_order_relaxed);
}

acre_status layout_make(size_t bytes, size_t pad_bytes, size_t granularity, struct layout *out)
{
    if (bytes > (size_t)INT64_MAX - pad_bytes - granularity - 16)
        return status_fail(ACRE_ERR_INVALID, "symmetric memory: %zu bytes are too many", bytes);
    out->buffer_bytes = bytes;
    out->pad_offset = (bytes + 15) / 16 * 16;
    out->pad_bytes = pad_bytes;
    out->block_bytes = (out->pad_offset + pad_bytes + granularity - 1) / granularity * granularity;
    return ACRE_OK;
}

/* ---- Finding ---------------------------------------------------------------------- */

static struct symm_block *exact_locked(const void *base)
{
    LIST_FOR_EACH(it, &blocks) {
        struct symm_block *block = CONTAINER_OF(it, struct symm_block, link);
        if (block->is_alive && block->memory->base == base)
            return block;
    }
    return NULL;
}

static struct symm_block *around_locked(const void *pointer)
{
    LIST_FOR_EACH(it, &blocks) {
        struct symm_block *block = CONTAINER_OF(it, struct symm_block, link);
        uintptr_t offset = (uintptr_t)pointer - (uintptr_t)block->memory->base;
        if (block->is_alive && offset < block->layout.buffer_bytes)
            return block;
    }
    return NULL;
}

static struct symm_block *of_memory_locked(const struct memory *memory)
{
    LIST_FOR_EACH(it, &blocks)
        if (CONTAINER_OF(it, struct symm_block, link)->memory == memory)
            return CONTAINER_OF(it, struct symm_block, link);
    return NULL;
}

bool block_find(const void *pointer, struct found *out)
{
    lock_take(&blocks_lock);
    struct symm_block *block = around_locked(pointer);
    if (block) {
        memory_get(block->memory);
        out->memory = block->memory;
        out->layout = block->layout;
        out->offset = (size_t)((const char *)pointer - block->memory->base);
        snprintf(out->group, sizeof out->group, "%s", block->group);
    }
    lock_drop(&blocks_lock);
    return block;
}

struct team *block_team(const struct memory *memory, uint64_t group_serial)
{
    struct team *found = NULL;

    lock_take(&blocks_lock);
    struct symm_block *block = of_memory_locked(memory);
    if (block)
        LIST_FOR_EACH(it, &block->teams) {
            struct team *team = CONTAINER_OF(it, struct team, link);
            if (team->group->serial == group_serial)
                found = team;
        }
    if (found)
        team_get(found);
    lock_drop(&blocks_lock);
    return found;
}

void block_keep_team(const struct memory *memory, struct team *team)
{
    lock_take(&blocks_lock);
    struct symm_block *block = of_memory_locked(memory);
    if (block) {
        team_get(team);
        list_push_back(&block->teams, &team->link);
    }
    lock_drop(&blocks_lock);
}

/* ---- Allocating ------------------------------------------------------------------- */

/* The block that has an id, asked for again. */
static acre_status wake_locked(struct symm_block *block, const acre_symm_config *config,
                               size_t bytes, const char *group)
{
    unsigned long long id = config->alloc_id;

    if (block->is_alive)
        return status_fail(ACRE_ERR_BUSY, "acre_symm_alloc: id %llu is in use", id);
    if (block->layout.buffer_bytes != bytes)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_alloc: id %llu has %zu bytes, not %zu", id,
                           block->layout.buffer_bytes, bytes);
    if (block->memory->device != config->device)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_alloc: id %llu is on another device", id);
    if (strcmp(block->group, group) != 0)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_symm_alloc: id %llu has group \"%s\", not "
                           "\"%s\"",
                           id, block->group, group);
    block->is_alive = true;
    return ACRE_OK;
}

static struct symm_block *with_id_locked(uint64_t id)
{
    LIST_FOR_EACH(it, &blocks) {
        struct symm_block *block = CONTAINER_OF(it, struct symm_block, link);
        if (block->has_id && block->id == id)
            return block;
    }
    return NULL;
}

static acre_status block_create(const acre_symm_config *config, size_t bytes, const char *group,
                                struct symm_block **out)
{
    struct symm_block *block = heap_zalloc(sizeof *block);
    size_t granularity;
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!block)
        return status;
    list_init(&block->teams);
    block->group = heap_strdup(group);
    if (block->group)
        status = memory_granularity(config->device, &granularity);
    if (status == ACRE_OK)
        status = layout_make(bytes, acre_symm_pad_bytes(), granularity, &block->layout);
    if (status == ACRE_OK)
        status = memory_create(config->device, block->layout.block_bytes, &block->memory);
    if (status != ACRE_OK) {
        heap_free(block->group);
        heap_free(block);
        return status;
    }
    block->has_id = config->has_id;
    block->id = config->alloc_id;
    block->is_alive = true;
    *out = block;
    return ACRE_OK;
}

/* Gives up what a block holds; the lock is not held. */
static void block_destroy(struct symm_block *block)
{
    LIST_FOR_EACH_SAFE(it, after, &block->teams) {
        list_remove(it);
        team_put(CONTAINER_OF(it, struct team, link));
    }
    memory_put(block->memory);
    heap_free(block->group);
    heap_free(block);
}

ACRE_API acre_status acre_symm_alloc(const acre_symm_config *config, size_t bytes, void **out)
{
    acre_symm_config defaults = {.struct_size = sizeof defaults};
    acre_status status = ACRE_OK;
    struct symm_block *block = NULL, *other = NULL;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_alloc: out is NULL");
    if (config)
        status = STRUCT_TAKE("acre_symm_alloc", acre_symm_config, config, &defaults);
    if (status != ACRE_OK)
        return status;
    config = &defaults;
    const char *group = config->group ? config->group : "";
    if (strlen(group) > 255)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_alloc: a name has at most 255 bytes");
    kind_use(config->device ? acre_device_id_of(config->device).type : ACRE_DEVICE_CPU);
    lock_take(&blocks_lock);
    if (config->has_id && (other = with_id_locked(config->alloc_id)))
        status = wake_locked(other, config, bytes, group);
    if (other && status == ACRE_OK)
        *out = other->memory->base;
    lock_drop(&blocks_lock);
    if (other)
        return status;
    status = block_create(config, bytes, group, &block);
    if (status != ACRE_OK)
        return status;
    lock_take(&blocks_lock);
    if (config->has_id && with_id_locked(config->alloc_id))
        status = status_fail(ACRE_ERR_BUSY, "acre_symm_alloc: id %llu is in use",
                             (unsigned long long)config->alloc_id);
    else
        list_push_back(&blocks, &block->link);
    lock_drop(&blocks_lock);
    if (status != ACRE_OK)
        block_destroy(block);
    else
        *out = block->memory->base;
    return status;
}

ACRE_API void acre_symm_free(void *base)
{
    lock_take(&blocks_lock);
    struct symm_block *block = exact_locked(base);
    if (block && block->has_id) {
        block->is_alive = false;
        block = NULL;
    }
    if (block)
        list_remove(&block->link);
    lock_drop(&blocks_lock);
    if (block)
        block_destroy(block);
}

ACRE_API acre_status acre_symm_alloc_size(const void *base, size_t *out)
{
    acre_status status = ACRE_OK;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_alloc_size: out is NULL");
    lock_take(&blocks_lock);
    struct symm_block *block = exact_locked(base);
    if (block)
        *out = block->layout.buffer_bytes;
    else
        status =
            status_fail(ACRE_ERR_NOT_FOUND, "acre_symm_alloc_size: no block begins at %p", base);
    lock_drop(&blocks_lock);
    return status;
}

ACRE_API bool acre_symm_contains(const void *pointer)
{
    kind_use(ACRE_DEVICE_CPU);
    lock_take(&blocks_lock);
    bool is_inside = around_locked(pointer) != NULL;
    lock_drop(&blocks_lock);
    return is_inside;
}
