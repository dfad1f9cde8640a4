/* SPDX-License-Identifier: MIT */
#include "explain/device_state.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/ptrmap.h"
#include "base/text.h"
#include "replay/recorded.h"

#include <stdlib.h>
#include <string.h>

#define FRAMES_SHOWN 4

static const void *key_of(uint64_t address)
{
    return (const void *)(uintptr_t)(address + 1);
}

void device_state_destroy(struct device_state *device_state)
{
    if (!device_state)
        return;
    past_fini(&device_state->past);
    heap_free(device_state->stacks);
    heap_free(device_state->sizes);
    heap_free(device_state);
}

acre_status device_state_of_peak(const struct snapshot *snapshot, uint32_t device,
                                 uint64_t *out_event)
{
    struct past past;
    struct recorded_levels levels;

    *out_event = 0;
    if (device >= snapshot->device_count || snapshot->devices[device].entry_count == 0)
        return ACRE_OK;
    acre_status status = past_recover(snapshot, device, &past);
    if (status != ACRE_OK)
        return status;
    recorded_measure(snapshot, device, &past, &levels);
    *out_event = levels.requested_peak_entry;
    past_fini(&past);
    return ACRE_OK;
}

/* ---- Whose blocks are ------------------------------------------------------------------- */

/* Gives blocks the stack of their allocation, and marks those that wait for streams:
 * is_open is used for that. */
static acre_status find_owners(const struct snapshot *snapshot, uint32_t device,
                               struct device_state *device_state)
{
    const struct snap_entry *entries = snapshot_history(snapshot, device);
    struct past *past = &device_state->past;
    struct ptrmap blocks = PTRMAP_INITIALIZER;
    acre_status status = ptrmap_reserve(&blocks, past->block_count);

    for (size_t i = 0; i < past->block_count && status == ACRE_OK; i++) {
        past->blocks[i].is_open = false;
        if (!past->blocks[i].is_kept) /* told by its free alone, which others may do */
            past->blocks[i].stack = SNAP_NONE;
        status = ptrmap_put(&blocks, key_of(past->blocks[i].address), &past->blocks[i]);
    }
    for (uint64_t i = 0; i < device_state->event && status == ACRE_OK; i++) {
        const struct snap_entry *entry = &entries[i];
        if (entry->action != SNAP_ALLOC && entry->action != SNAP_FREE_REQUESTED)
            continue;
        struct past_block *block = ptrmap_get(&blocks, key_of(entry->address));
        if (!block)
            continue;
        block->is_open = entry->action == SNAP_FREE_REQUESTED && past->has_completed;
        if (entry->action == SNAP_ALLOC && entry->stack != SNAP_NONE)
            block->stack = entry->stack;
    }
    ptrmap_fini(&blocks);
    return status;
}

/* ---- Groups ------------------------------------------------------------------------------ */

static int by_bytes(const void *a, const void *b)
{
    const struct group *left = a, *right = b;

    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    return left->key < right->key ? -1 : left->key > right->key;
}

/* Adds up blocks by a key below key_count; the last key is "none". */
static acre_status add_up(const struct device_state *device_state, bool by_stack, size_t key_count,
                          struct group **out, size_t *out_count)
{
    struct group *groups = heap_array(key_count + 1, sizeof *groups);
    size_t count = 0;

    if (!groups)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < device_state->past.block_count; i++) {
        const struct past_block *block = &device_state->past.blocks[i];
        size_t key = by_stack ? (block->stack == SNAP_NONE ? key_count : block->stack)
                              : (size_t)(63 - __builtin_clzll(block->bytes | 1));
        groups[key].bytes += block->bytes;
        groups[key].count++;
    }
    for (size_t i = 0; i <= key_count; i++)
        if (groups[i].count) {
            groups[count] = groups[i];
            groups[count++].key = i == key_count ? SNAP_NONE : (uint32_t)i;
        }
    qsort(groups, count, sizeof *groups, by_bytes);
    *out = groups;
    *out_count = count;
    return ACRE_OK;
}

/* ---- The rest ------------------------------------------------------------------------------ */

static bool is_private(const struct snapshot *snapshot, uint32_t pool)
{
    return pool != SNAP_NONE && (snapshot->pools[pool].id[0] || snapshot->pools[pool].id[1]);
}

/* One segment: its blocks are those from *at on. */
static void look_at_segment(const struct snapshot *snapshot, struct device_state *device_state,
                            const struct past_segment *segment, uint64_t stream, size_t *at)
{
    const struct past *past = &device_state->past;
    uint64_t end = segment->address + segment->bytes, from = segment->address;
    uint64_t used = 0, largest = 0;

    for (; *at < past->block_count && past->blocks[*at].address < end; (*at)++) {
        const struct past_block *block = &past->blocks[*at];
        if (block->address < segment->address)
            continue; /* of no segment that is known */
        if (block->address > from && block->address - from > largest)
            largest = block->address - from;
        from = block->address + block->bytes;
        used += block->bytes;
    }
    if (end > from && end - from > largest)
        largest = end - from;
    uint64_t idle = segment->bytes > used ? segment->bytes - used : 0;
    device_state->reserved_bytes += segment->bytes;
    if (is_private(snapshot, segment->pool)) {
        device_state->private_bytes += segment->bytes;
        device_state->private_free_bytes += idle;
        return;
    }
    if (largest > device_state->largest_free_bytes)
        device_state->largest_free_bytes = largest;
    if (used == 0)
        device_state->free_whole_bytes += idle;
    else
        device_state->free_split_bytes += idle;
    if (used && segment->stream == stream)
        device_state->free_stream_bytes += idle;
}

acre_status device_state_create(const struct snapshot *snapshot, uint32_t device, uint64_t event,
                                uint64_t stream, struct device_state **out)
{
    struct device_state *device_state = heap_zalloc(sizeof *device_state);
    size_t at = 0;

    if (!device_state)
        return ACRE_ERR_HOST_MEMORY;
    device_state->event = event;
    acre_status status = past_recover_at(snapshot, device, event, &device_state->past);
    if (status == ACRE_OK)
        status = find_owners(snapshot, device, device_state);
    if (status == ACRE_OK)
        status = add_up(device_state, true, snapshot->stack_count, &device_state->stacks,
                        &device_state->stack_count);
    if (status == ACRE_OK)
        status = add_up(device_state, false, 64, &device_state->sizes, &device_state->size_count);
    if (status != ACRE_OK) {
        device_state_destroy(device_state);
        return status;
    }
    for (size_t i = 0; i < device_state->past.segment_count; i++)
        look_at_segment(snapshot, device_state, &device_state->past.segments[i], stream, &at);
    device_state->requested_bytes = device_state->past.requested_bytes;
    for (size_t i = 0; i < device_state->past.block_count; i++)
        *(device_state->past.blocks[i].is_open ? &device_state->waiting_bytes
                                               : &device_state->allocated_bytes) +=
            device_state->past.blocks[i].bytes;
    *out = device_state;
    return ACRE_OK;
}

/* ---- Stacks -------------------------------------------------------------------------------- */

static bool is_python(const struct snapshot *snapshot, const struct snap_frame *frame)
{
    size_t length;
    const char *file = snapshot_string(snapshot, frame->file, &length);

    return length > 3 && strcmp(file + length - 3, ".py") == 0;
}

/* Frames that every stack has, and that say nothing: those of the recorder itself, of the
 * allocator, and of calls through modules. */
static bool is_dull(const struct snapshot *snapshot, const struct snap_frame *frame)
{
    static const char *const names[] = {"torch::unwind",           "torch::CapturedTraceback",
                                        "torch::cuda::(anonymous", "c10::cuda::CUDACachingAll",
                                        "c10::CachingDeviceAll",   "_call_impl",
                                        "_wrapped_call_impl"};
    const char *name = snapshot_string(snapshot, frame->name, NULL);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* The last two parts of a path: enough to find it. */
static const char *short_path(const char *path)
{
    const char *last = NULL, *before = NULL;

    for (const char *at = path; *at; at++)
        if (*at == '/') {
            before = last;
            last = at;
        }
    return before ? before + 1 : path;
}

const char *device_state_stack_text(const struct snapshot *snapshot, uint32_t stack, char *buffer,
                                    size_t size)
{
    struct text text;
    struct snap_run run = stack == SNAP_NONE ? (struct snap_run){0, 0} : snapshot->stacks[stack];
    bool has_python = false;
    int shown = 0;

    text_init(&text, buffer, size);
    for (uint32_t i = 0; i < run.count; i++)
        has_python |= is_python(snapshot, &snapshot->frames[snapshot->frame_ids[run.first + i]]);
    for (uint32_t i = 0; i < run.count && shown < FRAMES_SHOWN; i++) {
        const struct snap_frame *frame = &snapshot->frames[snapshot->frame_ids[run.first + i]];
        if ((has_python && !is_python(snapshot, frame)) || is_dull(snapshot, frame))
            continue;
        text_add(&text, "%s%s (%s:%lld)", shown++ ? " < " : "",
                 snapshot_string(snapshot, frame->name, NULL),
                 short_path(snapshot_string(snapshot, frame->file, NULL)), (long long)frame->line);
    }
    if (!shown)
        text_add(&text, MOMENT_NO_STACK);
    return buffer;
}
