/* SPDX-License-Identifier: MIT */
/* A cache with policy torch on a device that follows the recording (script.h).
 *
 * The start is set up with the cache's own calls: a segment is made by a request that fills it,
 * all are held until every one exists, then freed; then each live block is taken at its exact
 * address. Segments come into being by address: how old they were is not recorded. Then event by
 * event: segments obtained or given back before an allocation, and frees that completed.
 */
#include "replay/verify.h"

#include "base/heap.h"
#include "base/ptrmap.h"
#include "base/status.h"
#include "format/array.h"
#include "replay/past.h"
#include "replay/recorded.h"
#include "replay/script.h"

#include <acre/pool.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB         ((uint64_t)1 << 20)
#define ADDRESS_END ((uint64_t)1 << 48)

/* Size of the device, unless recorded reservations lie closer together. */
#define DEVICE_BYTES_MAX ((uint64_t)1 << 40)

/* Furthest apart that ranges of one expandable segment lie. */
#define SPAN_MAX ((uint64_t)1 << 40)

typedef unsigned long long ull;

struct verify {
    const struct snapshot *snapshot;
    uint32_t device;
    const struct snap_entry *entries;
    uint64_t entry_count;
    struct past past;
    struct script script;
    acre_cache *cache;
    struct ptrmap live; /* recorded address + 1 to pointer in the cache */
    acre_verify_result *result;
    bool frees_partly;    /* max_split_size is set                        */
    bool ties_by_address; /* as older versions decided                    */
    void **seeds;         /* what fills the segments of the start         */
    size_t seed_count, seed_capacity;
};

static const void *key_of(uint64_t address)
{
    return (const void *)(uintptr_t)(address + 1);
}

static void *verify_native(uint64_t handle)
{
    return (void *)(uintptr_t)handle;
}

/* Notes a difference; the first one is told. */
static void verify_differ(struct verify *verify, uint64_t event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void verify_differ(struct verify *verify, uint64_t event, const char *format, ...)
{
    va_list args;

    if (verify->result->first_difference >= 0)
        return;
    verify->result->first_difference = (int64_t)event;
    va_start(args, format);
    vsnprintf(verify->result->text, sizeof verify->result->text, format, args);
    va_end(args);
}

/* ---- Pools ---------------------------------------------------------------------------------- */
static acre_pool_id pool_id(const struct verify *verify, uint32_t pool)
{
    if (pool == SNAP_NONE)
        return (acre_pool_id){0, 0};
    return (acre_pool_id){verify->snapshot->pools[pool].id[0], verify->snapshot->pools[pool].id[1]};
}

static bool is_shared(acre_pool_id id)
{
    return id.graph == 0 && id.user == 0;
}

/* The pool of an event: told, or that of the segment its address lies in. */
static uint32_t pool_of(const struct verify *verify, const struct snap_entry *entry)
{
    const struct snapshot *snapshot = verify->snapshot;

    if (snapshot_origin(snapshot, entry)->pool != SNAP_NONE)
        return snapshot_origin(snapshot, entry)->pool;
    if (snapshot->pool_count < 2)
        return SNAP_NONE;
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const struct snap_segment *segment = &snapshot->segments[i];
        if (segment->device == verify->device && entry->address - segment->address < segment->bytes)
            return segment->pool;
    }
    return SNAP_NONE;
}

/* Allocates from a pool. */
static acre_status alloc_in(struct verify *verify, uint32_t pool, uint64_t bytes, uint64_t stream,
                            void **out)
{
    acre_pool_id id = pool_id(verify, pool);

    if (is_shared(id))
        return acre_cache_alloc(verify->cache, bytes, verify_native(stream), out);
    acre_status status = acre_pool_begin(verify->cache, id, NULL);
    if (status != ACRE_OK)
        return status;
    status = acre_cache_alloc(verify->cache, bytes, verify_native(stream), out);
    acre_status ended = acre_pool_end(verify->cache, id);
    return status == ACRE_OK ? ended : status;
}

static acre_status alloc_at(struct verify *verify, uint32_t pool, uint64_t bytes, uint64_t stream,
                            uint64_t address)
{
    acre_pool_id id = pool_id(verify, pool);

    if (is_shared(id))
        return acre_cache_alloc_at(verify->cache, bytes, verify_native(stream),
                                   verify_native(address));
    acre_status status = acre_pool_begin(verify->cache, id, NULL);
    if (status != ACRE_OK)
        return status;
    status =
        acre_cache_alloc_at(verify->cache, bytes, verify_native(stream), verify_native(address));
    acre_status ended = acre_pool_end(verify->cache, id);
    return status == ACRE_OK ? ended : status;
}

/* ---- The start ------------------------------------------------------------------------------- */
/* Fills a range of addresses that is free by requests that stay for now: anywhere the
 * cache chooses, or exactly there. Small pools serve at most 1 MiB at once. */
static acre_status verify_fill(struct verify *verify, const struct past_segment *segment,
                               bool exactly)
{
    uint64_t piece = segment->is_small ? MIB : segment->bytes;
    acre_status status = ACRE_OK;

    for (uint64_t done = 0; done < segment->bytes && status == ACRE_OK; done += piece) {
        status = ARRAY_ROOM(verify, seeds, seed, 1);
        if (status != ACRE_OK)
            return status;
        void **seed = &verify->seeds[verify->seed_count];
        *seed = verify_native(segment->address + done);
        status = exactly ? alloc_at(verify, segment->pool, piece, segment->stream,
                                    segment->address + done)
                         : alloc_in(verify, segment->pool, piece, segment->stream, seed);
        verify->seed_count += status == ACRE_OK;
    }
    return status;
}

/* Whether the device was asked for what a segment needs and nothing else. */
static acre_status check_seeded(struct verify *verify, const struct past_segment *segment,
                                acre_status status)
{
    if (status == ACRE_OK && script_forget(&verify->script))
        return ACRE_OK;
    if (status != ACRE_OK && status != ACRE_ERR_NOT_FOUND && status != ACRE_ERR_DEVICE_MEMORY)
        return status;
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "the segment of %llu bytes at 0x%llx, which was there "
                       "when the history began, is none that the recorded settings make again",
                       (ull)segment->bytes, (ull)segment->address);
}

static acre_status seed_segment(struct verify *verify, const struct past_segment *segment)
{
    bool fits = segment->is_small ? segment->bytes == 2 * MIB
                                  : segment->bytes >= 10 * MIB && segment->bytes % (2 * MIB) == 0;

    if (!fits || segment->address >= ADDRESS_END)
        return check_seeded(verify, segment, ACRE_ERR_NOT_FOUND);
    acre_status status = script_expect_alloc(&verify->script, segment->address, segment->bytes, 0);
    if (status == ACRE_OK)
        status = verify_fill(verify, segment, false);
    return check_seeded(verify, segment, status);
}

static bool is_same_home(const struct past_segment *a, const struct past_segment *b)
{
    return a->is_expandable && b->is_expandable && a->stream == b->stream && a->pool == b->pool &&
           a->is_small == b->is_small;
}

/* The mapped ranges of one expandable segment, of which the first is given: everything
 * is mapped from its begin to the end of the last, then the holes are given back. */
static acre_status seed_ranges(struct verify *verify, size_t first)
{
    const struct past *past = &verify->past;
    struct past_segment whole = past->segments[first];
    size_t mark = verify->seed_count;
    acre_status status;

    for (size_t i = first + 1; i < past->segment_count; i++)
        if (is_same_home(&past->segments[i], &whole))
            whole.bytes = past->segments[i].address + past->segments[i].bytes - whole.address;
    if (whole.bytes % (2 * MIB) || whole.bytes > SPAN_MAX || whole.address >= ADDRESS_END)
        return check_seeded(verify, &whole, ACRE_ERR_NOT_FOUND);
    status = script_expect_map(&verify->script, whole.address, whole.bytes, 0);
    if (status == ACRE_OK)
        status = verify_fill(verify, &whole, false);
    status = check_seeded(verify, &whole, status);
    if (status != ACRE_OK || whole.bytes == past->segments[first].bytes)
        return status;
    while (verify->seed_count > mark && status == ACRE_OK)
        status = acre_cache_free(verify->cache, verify->seeds[--verify->seed_count]);
    uint64_t at = whole.address;
    for (size_t i = first; i < past->segment_count && status == ACRE_OK; i++) {
        const struct past_segment *range = &past->segments[i];
        if (!is_same_home(range, &whole))
            continue;
        if (range->address > at)
            status = script_expect_unmap(&verify->script, at, range->address - at, 0);
        if (status == ACRE_OK)
            status = verify_fill(verify, range, true);
        at = range->address + range->bytes;
    }
    if (status == ACRE_OK)
        status = acre_cache_empty(verify->cache);
    return check_seeded(verify, &whole, status);
}

/* Whether ranges of the same segment came before. */
static bool is_first_range(const struct past *past, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (is_same_home(&past->segments[i], &past->segments[at]))
            return false;
    return true;
}

/* The pool of the segment that holds an address at the start. */
static uint32_t start_pool(const struct verify *verify, uint64_t address)
{
    size_t low = 0, high = verify->past.segment_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (verify->past.segments[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? verify->past.segments[low - 1].pool : SNAP_NONE;
}

static acre_status seed_all(struct verify *verify)
{
    const struct past *past = &verify->past;
    acre_status status = ACRE_OK;

    for (int expandable = 0; expandable < 2 && status == ACRE_OK; expandable++) {
        if (expandable)
            status = acre_cache_conf_set(verify->cache, "expandable_segments:True");
        for (size_t i = 0; i < past->segment_count && status == ACRE_OK; i++)
            if (!expandable && !past->segments[i].is_expandable)
                status = seed_segment(verify, &past->segments[i]);
            else if (expandable && past->segments[i].is_expandable && is_first_range(past, i))
                status = seed_ranges(verify, i);
    }
    for (size_t i = 0; i < verify->seed_count && status == ACRE_OK; i++)
        status = acre_cache_free(verify->cache, verify->seeds[i]);
    for (size_t i = 0; i < past->block_count && status == ACRE_OK; i++) {
        const struct past_block *block = &past->blocks[i];
        status = alloc_at(verify, start_pool(verify, block->address), block->bytes, block->stream,
                          block->address);
        if (status == ACRE_ERR_NOT_FOUND)
            return status_fail(ACRE_ERR_UNSUPPORTED,
                               "the block of %llu bytes at 0x%llx, live when "
                               "the history began, has no room in the segments of then",
                               (ull)block->bytes, (ull)block->address);
        if (status == ACRE_OK)
            status =
                ptrmap_put(&verify->live, key_of(block->address), verify_native(block->address));
    }
    return status;
}

/* ---- Events ---------------------------------------------------------------------------------- */
/* Compares what the device was asked for with what was recorded. */
static void compare_segments(struct verify *verify, uint64_t event)
{
    struct script *script = &verify->script;
    uint64_t missed = script->alloc_count + script->free_count;

    if (script->alloc_count)
        verify_differ(verify, script->allocs[0].event,
                      "a segment of %llu bytes was obtained; the replay "
                      "needed none",
                      (ull)script->allocs[0].bytes);
    else if (script->free_count)
        verify_differ(verify, script->frees[0].event,
                      "the segment at 0x%llx was given back; the replay "
                      "kept it",
                      (ull)script->frees[0].address);
    else if (script->surprise_count && script->surprise_is_free)
        verify_differ(verify, event,
                      "the replay gave back the segment at 0x%llx; the recording did not",
                      (ull)script->surprise.address);
    else if (script->surprise_count)
        verify_differ(verify, event,
                      "the replay obtained a segment of %llu bytes; the recording did not",
                      (ull)script->surprise.bytes);
    verify->result->agreed -= missed;
    script_forget(script);
}

/* Allocates as recorded. Segments given back before may have made room, or the cache
 * was emptied: that it was when memory which should be gone serves the request. */
static acre_status alloc_again(struct verify *verify, uint32_t pool, const struct snap_entry *entry,
                               void **got)
{
    uint64_t bytes = (entry->bytes ? entry->bytes : 1) + verify->past.padding;
    uint64_t stream = snapshot_origin(verify->snapshot, entry)->stream;
    acre_status status = alloc_in(verify, pool, bytes, stream, got);

    if (status != ACRE_OK || !verify->script.free_count || !verify->script.alloc_count)
        return status;
    status = acre_cache_free(verify->cache, *got);
    *got = NULL;
    if (status == ACRE_OK)
        status = acre_cache_empty(verify->cache);
    return status == ACRE_OK ? alloc_in(verify, pool, bytes, stream, got) : status;
}

static acre_status run_alloc(struct verify *verify, uint64_t event)
{
    const struct snap_entry *entry = &verify->entries[event];
    uint32_t pool = pool_of(verify, entry);
    uint64_t bytes = entry->bytes + verify->past.padding;
    uint64_t stream = snapshot_origin(verify->snapshot, entry)->stream;
    void *got = NULL;
    acre_status status = alloc_again(verify, pool, entry, &got);

    compare_segments(verify, event);
    verify->result->compared++;
    if (status != ACRE_OK && status != ACRE_ERR_DEVICE_MEMORY)
        return status;
    if (status == ACRE_OK && (uint64_t)(uintptr_t)got == entry->address) {
        verify->result->agreed++;
    } else {
        verify_differ(verify, event,
                      "%llu bytes were placed at 0x%llx; the replay placed them at 0x%llx",
                      (ull)entry->bytes, (ull)entry->address, (ull)(uintptr_t)got);
        if (got && acre_cache_free(verify->cache, got) == ACRE_OK &&
            alloc_at(verify, pool, bytes, stream, entry->address) == ACRE_OK)
            got = verify_native(entry->address);
        else if (got)
            status = alloc_in(verify, pool, bytes, stream, &got);
    }
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return ACRE_OK;
    return status == ACRE_OK ? ptrmap_put(&verify->live, key_of(entry->address), got) : status;
}

static acre_status run_free(struct verify *verify, uint64_t event)
{
    void *pointer = ptrmap_take(&verify->live, key_of(verify->entries[event].address));

    return pointer ? acre_cache_free(verify->cache, pointer) : ACRE_OK;
}

/* A request that failed: it fails again, after the same segments were given back. */
static acre_status run_oom(struct verify *verify, uint64_t event)
{
    const struct snap_entry *entry = &verify->entries[event];
    const struct snap_origin *origin = snapshot_origin(verify->snapshot, entry);
    void *got = NULL;

    verify->script.is_full = true;
    acre_status status = alloc_in(verify, origin->pool, entry->bytes, origin->stream, &got);
    verify->script.is_full = false;
    compare_segments(verify, event);
    verify->result->compared++;
    if (status == ACRE_OK) {
        verify_differ(verify, event, "%llu bytes could not be had; the replay found them at 0x%llx",
                      (ull)entry->bytes, (ull)(uintptr_t)got);
        return acre_cache_free(verify->cache, got);
    }
    verify->result->agreed += status == ACRE_ERR_DEVICE_MEMORY;
    return status == ACRE_ERR_DEVICE_MEMORY ? ACRE_OK : status;
}

/* A segment that was given back: by emptying the cache, or to make room for what follows.
 * To make room everything idle goes, as when the cache is emptied; only where a largest
 * size to split is set, some of it may be enough. */
static acre_status run_segment_free(struct verify *verify, uint64_t event)
{
    const struct snap_entry *entry = &verify->entries[event];
    uint16_t next = event + 1 < verify->entry_count ? verify->entries[event + 1].action
                                                    : (uint16_t)SNAP_SNAPSHOT;
    acre_status status =
        entry->action == SNAP_SEGMENT_UNMAP
            ? script_expect_unmap(&verify->script, entry->address, entry->bytes, event)
            : script_expect_free(&verify->script, entry->address, entry->bytes, event);

    verify->result->compared++;
    verify->result->agreed++;
    bool makes_room = next == SNAP_SEGMENT_ALLOC || next == SNAP_SEGMENT_MAP || next == SNAP_OOM;
    if (status != ACRE_OK || next == SNAP_SEGMENT_FREE || next == SNAP_SEGMENT_UNMAP ||
        (makes_room && verify->frees_partly))
        return status;
    status = acre_cache_empty(verify->cache);
    compare_segments(verify, event);
    return status;
}

static acre_status run_event(struct verify *verify, uint64_t event)
{
    const struct snap_entry *entry = &verify->entries[event];

    switch (entry->action) {
    case SNAP_ALLOC:
        return run_alloc(verify, event);
    case SNAP_FREE_REQUESTED:
        return verify->past.has_completed ? ACRE_OK : run_free(verify, event);
    case SNAP_FREE_COMPLETED:
        return run_free(verify, event);
    case SNAP_SEGMENT_ALLOC:
        verify->result->compared++;
        verify->result->agreed++;
        return script_expect_alloc(&verify->script, entry->address, entry->bytes, event);
    case SNAP_SEGMENT_MAP:
        verify->result->compared++;
        verify->result->agreed++;
        return script_expect_map(&verify->script, entry->address, entry->bytes, event);
    case SNAP_SEGMENT_FREE:
    case SNAP_SEGMENT_UNMAP:
        return run_segment_free(verify, event);
    case SNAP_OOM:
        return run_oom(verify, event);
    default:
        return ACRE_OK;
    }
}

/* ---- Reservations --------------------------------------------------------------------------- */
#define HOMES_MAX 64

/* Where an expandable segment begins, as far as is seen. */
struct homes {
    struct past_segment homes[HOMES_MAX]; /* address: the lowest */
    size_t count;
};

static void add_home(struct homes *homes, const struct past_segment *range)
{
    size_t i = 0;

    while (i < homes->count && !is_same_home(&homes->homes[i], range))
        i++;
    if (i == HOMES_MAX)
        return;
    if (i == homes->count)
        homes->homes[homes->count++] = *range;
    else if (range->address < homes->homes[i].address)
        homes->homes[i].address = range->address;
}

/* How large the device is said to be: addresses are reserved for an eighth more, and
 * what is reserved must not reach into what was reserved next to it. */
static uint64_t device_size(const struct verify *verify)
{
    struct homes homes = {.count = 0};
    struct past_segment range = {.is_expandable = true, .pool = SNAP_NONE};
    uint64_t closest = DEVICE_BYTES_MAX;
    bool is_open = false;

    for (size_t i = 0; i < verify->past.segment_count; i++)
        if (verify->past.segments[i].is_expandable)
            add_home(&homes, &verify->past.segments[i]);
    for (uint64_t i = 0; i < verify->entry_count; i++) {
        const struct snap_entry *entry = &verify->entries[i];
        if (entry->action == SNAP_SEGMENT_MAP && !is_open) {
            range.address = entry->address;
            is_open = true;
        } else if (entry->action == SNAP_ALLOC && is_open) {
            /* What a page is mapped for tells the pool. */
            range.stream = snapshot_origin(verify->snapshot, entry)->stream;
            range.pool = pool_of(verify, entry);
            range.is_small = past_round(&verify->past, entry->bytes) <= MIB;
            add_home(&homes, &range);
            is_open = false;
        }
    }
    for (size_t i = 0; i < homes.count; i++)
        for (size_t k = 0; k < homes.count; k++) {
            uint64_t apart = homes.homes[k].address - homes.homes[i].address;
            if (homes.homes[k].address > homes.homes[i].address && apart < closest)
                closest = apart;
        }
    return closest == DEVICE_BYTES_MAX ? closest : closest / 9 * 8 - closest / 64;
}

/* ---- All of it ------------------------------------------------------------------------------- */
static acre_status run_all(struct verify *verify)
{
    acre_cache_config config = {.struct_size = sizeof config,
                                .policy = ACRE_POLICY_TORCH,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    char conf[RECORDED_CONF_MAX];

    if (verify->ties_by_address)
        config.flags |= ACRE_CACHE_TIES_BY_ADDRESS;
    acre_status status = acre_cache_create(verify->script.device, &config, &verify->cache);
    recorded_conf(verify->snapshot, conf);
    verify->frees_partly = strstr(conf, "max_split_size_mb") != NULL;
    snprintf(verify->result->conf, sizeof verify->result->conf, "%.255s", conf);
    /* Recorded pools are in use all the time: when they ended is not recorded. */
    for (size_t i = 0; i < verify->snapshot->pool_count && status == ACRE_OK; i++)
        if (!is_shared(pool_id(verify, (uint32_t)i)))
            status = acre_pool_create(verify->cache, pool_id(verify, (uint32_t)i), NULL);
    if (status == ACRE_OK)
        status = seed_all(verify);
    if (status == ACRE_OK)
        status = acre_cache_conf_set(verify->cache, "expandable_segments:False");
    if (status == ACRE_OK && *conf)
        status = acre_cache_conf_set(verify->cache, conf);
    for (uint64_t i = 0; i < verify->entry_count && status == ACRE_OK; i++)
        status = run_event(verify, i);
    return status;
}

static acre_status verify_once(const struct snapshot *snapshot, uint32_t device,
                               bool ties_by_address, acre_verify_result *result)
{
    struct verify verify = {.snapshot = snapshot,
                            .device = device,
                            .result = result,
                            .ties_by_address = ties_by_address};
    acre_status status = past_recover(snapshot, device, &verify.past);

    *result = (acre_verify_result){.struct_size = sizeof *result,
                                   .first_difference = -1,
                                   .ties_by_address = ties_by_address,
                                   .device = device};
    if (status != ACRE_OK)
        return status;
    verify.entries = snapshot_history(snapshot, device);
    verify.entry_count = snapshot->devices[device].entry_count;
    result->events = verify.entry_count;
    result->start_blocks = verify.past.block_count;
    result->start_open = verify.past.open_count;
    result->start_open_bytes = verify.past.open_bytes_max;
    result->contradictions = verify.past.contradictions;
    ptrmap_init(&verify.live);
    status = script_init(&verify.script, device_size(&verify));
    if (status == ACRE_OK) {
        status = run_all(&verify);
        acre_cache_destroy(verify.cache);
        script_fini(&verify.script);
    }
    ptrmap_fini(&verify.live);
    heap_free(verify.seeds);
    past_fini(&verify.past);
    result->is_exact = status == ACRE_OK && result->first_difference < 0;
    return status;
}

acre_status verify_device(const struct snapshot *snapshot, uint32_t device,
                          acre_verify_result *result)
{
    acre_verify_result other;
    acre_status status = verify_once(snapshot, device, false, result);

    if (status != ACRE_OK || result->is_exact)
        return status;
    status = verify_once(snapshot, device, true, &other);
    if (status == ACRE_OK && (other.is_exact || other.agreed > result->agreed))
        *result = other;
    return status;
}
