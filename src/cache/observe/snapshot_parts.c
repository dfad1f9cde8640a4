/* SPDX-License-Identifier: MIT */
#include "cache/observe/snapshot_parts.h"

#include "backend/backend.h"
#include "base/dl.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "cache/cache.h"
#include "cache/observe/layout.h"
#include "cache/observe/plug_history.h"
#include "cache/observe/record.h"
#include "cache/threads/front.h"

#include <string.h>

/* Of libacre_tools. It is there at once when the program is linked with that library, and is
 * looked for when memory runs out otherwise. */
#pragma weak acre_cache_snapshot_write

/* ---- Options ---------------------------------------------------------------------------- */

/* Parts, and what their pointers lead to. */
struct parts {
    acre_snapshot_parts public;
    acre_snapshot_option options[11];
    int64_t divisions[CONF_DIVISION_COUNT];
    char conf_text[];
};

static void options_fill(struct parts *parts, const struct cache_conf *conf)
{
    const acre_snapshot_option options[] = {
        {.key = "PYTORCH_CUDA_ALLOC_CONF", .kind = ACRE_OPTION_TEXT, .text = parts->conf_text},
        {.key = "garbage_collection_threshold",
         .kind = ACRE_OPTION_REAL,
         .real = conf->gc_threshold},
        {.key = "max_split_size", .number = cache_conf_signed(conf->max_split_bytes)},
        {.key = "expandable_segments", .kind = ACRE_OPTION_BOOL, .number = conf->is_expandable},
        {.key = "pinned_num_register_threads", .number = conf->pinned_num_register_threads},
        {.key = "release_lock_on_cudamalloc", .kind = ACRE_OPTION_BOOL, .number = conf->drops_lock},
        {.key = "pinned_use_cuda_host_register",
         .kind = ACRE_OPTION_BOOL,
         .number = conf->pinned_uses_register},
        {.key = "graph_capture_record_stream_reuse",
         .kind = ACRE_OPTION_BOOL,
         .number = conf->reuses_in_capture},
        {.key = "max_round_threshold",
         .number = cache_conf_signed(conf->pinned_max_round_threshold_bytes)},
        {.key = "max_cached_size", .number = cache_conf_signed(conf->pinned_max_cached_bytes)},
        {.key = "roundup_power2_divisions",
         .kind = ACRE_OPTION_NUMBERS,
         .number_count = CONF_DIVISION_COUNT,
         .numbers = parts->divisions},
    };

    _Static_assert(sizeof options == sizeof parts->options, "as many as there is room for");
    memcpy(parts->options, options, sizeof options);
    for (int i = 0; i < CONF_DIVISION_COUNT; i++)
        parts->divisions[i] = conf->divisions[i];
    parts->public.options = parts->options;
    parts->public.option_count = sizeof options / sizeof options[0];
}

/* ---- Parts ------------------------------------------------------------------------------ */

acre_snapshot_parts *snapshot_parts_create(acre_cache_layout *layout, acre_history *history,
                                           const struct cache_conf *conf, const char *conf_text)
{
    size_t bytes = conf ? strlen(conf_text) + 1 : 0;
    struct parts *parts = layout && history ? heap_zalloc(sizeof *parts + bytes) : NULL;

    if (!parts) {
        acre_cache_layout_destroy(layout);
        acre_history_destroy(history);
        return NULL;
    }
    parts->public.struct_size = sizeof parts->public;
    parts->public.device_count = 1;
    parts->public.layout = layout;
    parts->public.history = history;
    if (conf) {
        memcpy(parts->conf_text, conf_text, bytes);
        options_fill(parts, conf);
    }
    return &parts->public;
}

void acre_snapshot_parts_destroy(acre_snapshot_parts *parts)
{
    if (!parts)
        return;
    acre_cache_layout_destroy(parts->layout);
    acre_history_destroy(parts->history);
    heap_free(parts);
}

acre_status acre_cache_snapshot_parts(acre_cache *cache, const acre_snapshot_choice *choice,
                                      acre_snapshot_parts **out)
{
    acre_snapshot_choice all = {.struct_size = sizeof all};
    acre_status status = ACRE_OK;

    if (!cache || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_snapshot_parts: %s is NULL",
                           cache ? "out" : "cache");
    if (choice)
        status = STRUCT_TAKE("acre_cache_snapshot_parts", acre_snapshot_choice, choice, &all);
    if (status != ACRE_OK)
        return status;
    quick_lock_take(&cache->lock);
    cache->policy->settle(cache); /* threads stand still until resume */
    if (cache->facts.has_lanes)
        front_notes_take_locked(cache);
    acre_snapshot_parts *parts = snapshot_parts_create(
        layout_copy_locked(cache), history_copy(&cache->history), &cache->conf, cache->conf_text);
    uint64_t active = (uint64_t)cache->stats.active_bytes.all.current;
    cache->policy->resume(cache);
    if (parts)
        record_snapshot_locked(cache, active, all.pool);
    quick_lock_drop(&cache->lock);
    if (!parts)
        return ACRE_ERR_HOST_MEMORY;
    parts->device = cache->device->index;
    *out = parts;
    return ACRE_OK;
}

acre_status acre_pluggable_snapshot_parts(acre_allocator *allocator, int device,
                                          acre_snapshot_parts **out)
{
    struct plug *plug = plug_of(allocator);
    acre_cache_layout *layout;
    acre_history *history;

    if (!plug)
        return ACRE_ERR_INVALID;
    if (!out || device < 0 || device >= plug->table.device_count)
        return status_fail(out ? ACRE_ERR_RANGE : ACRE_ERR_INVALID,
                           "acre_pluggable_snapshot_parts: out is NULL, or device %d is not one "
                           "of %d",
                           device, plug->table.device_count);
    acre_status status = plug_history_moment(plug, device, &layout, &history);
    if (status != ACRE_OK)
        return status;
    acre_snapshot_parts *parts = snapshot_parts_create(layout, history, NULL, NULL);
    if (!parts)
        return ACRE_ERR_HOST_MEMORY;
    parts->device = device;
    parts->device_count = (uint32_t)plug->table.device_count;
    *out = parts;
    return ACRE_OK;
}

/* ---- When memory runs out --------------------------------------------------------------- */

struct snapshot_writer {
    acre_status (*write)(acre_cache *cache, const char *path);
};

static acre_status writer_find(struct snapshot_writer *out)
{
    static const char *const names[] = {"libacre_tools.so.0", NULL};
    static const struct dl_symbol symbols[] = {
        {"acre_cache_snapshot_write", NULL, offsetof(struct snapshot_writer, write), false}};
    void *library; /* stays */

    out->write = acre_cache_snapshot_write;
    return out->write ? ACRE_OK : dl_open(names, symbols, 1, out, &library);
}

void snapshot_on_oom(acre_cache *cache)
{
    char path[sizeof cache->conf.snapshot_path];
    struct status_saved before;
    struct snapshot_writer writer;

    quick_lock_take(&cache->lock);
    memcpy(path, cache->conf.snapshot_path, sizeof path);
    quick_lock_drop(&cache->lock);
    if (!path[0])
        return;
    status_save(&before);
    acre_status status = writer_find(&writer);
    if (status == ACRE_OK)
        status = writer.write(cache, path);
    if (status == ACRE_OK)
        log_line(ACRE_LOG_WARN, "out of memory: a snapshot is in %s", path);
    else
        log_line(ACRE_LOG_ERROR, "out of memory, and no snapshot of it: %s", acre_last_error());
    status_restore(&before);
}
