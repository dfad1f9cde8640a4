/* SPDX-License-Identifier: MIT */
#include "replay/past.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/ptrmap.h"
#include "base/status.h"
#include "format/array.h"
#include "format/snapshot/facts.h"

#include <stdlib.h>
#include <string.h>

#define REMAINDER_MAX ((uint64_t)1 << 20)

/* While undoing: blocks and segments by address; dead ones have bytes 0. */
struct undo {
    const struct snapshot *snapshot;
    struct past *past;
    struct ptrmap blocks;   /* address + 1 to index + 1 of past->blocks   */
    struct ptrmap segments; /* the same for segments that are not ranges  */
    const struct snap_entry *entries;
    uint64_t entry_count;
    size_t free_block; /* index + 1 of a dead block to use again; the next one is in
                               its requested_bytes */
};

static const void *key_of(uint64_t address)
{
    return (const void *)(uintptr_t)(address + 1);
}

void past_fini(struct past *past)
{
    heap_free(past->blocks);
    heap_free(past->segments);
    memset(past, 0, sizeof *past);
}

/* ---- Rounding ------------------------------------------------------------------------------ */

static void read_divisions(const struct snapshot *snapshot, uint32_t divisions[16])
{
    const struct snap_value *table = snapshot_setting(snapshot, "roundup_power2_divisions");

    if (!table || table->kind != SNAP_DICT)
        return;
    for (uint32_t at = table->as.child; at != SNAP_NONE; at = snapshot->values[at].next) {
        const struct snap_value *item = &snapshot->values[at];
        long mib = strtol(snapshot_string(snapshot, item->key, NULL), NULL, 10);
        if (item->kind == SNAP_INTEGER && mib >= 1 && mib <= 32768 && item->as.integer >= 0 &&
            item->as.integer <= 64)
            divisions[63 - __builtin_clzll((unsigned long long)mib)] = (uint32_t)item->as.integer;
    }
}

uint64_t past_round(const struct past *past, uint64_t bytes)
{
    bytes = bytes > UINT64_MAX - past->padding ? bytes : bytes + past->padding;
    int power = 63 - __builtin_clzll(bytes | 1);
    uint64_t divisions = past->divisions[power < 20 ? 0 : power > 35 ? 15 : power - 20];
    uint64_t step = 512;

    if (bytes < 512)
        return 512;
    if (divisions > 1 && bytes > 512 * divisions) {
        uint64_t floor = (uint64_t)1 << power;
        if (floor == bytes)
            return bytes;
        step = floor / divisions;
    }
    return bytes > UINT64_MAX - step ? bytes : (bytes + step - 1) / step * step;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static acre_status add_block(struct undo *undo, const struct past_block *block)
{
    struct past *past = undo->past;
    size_t index = undo->free_block;

    if (index) {
        undo->free_block = (size_t)past->blocks[index - 1].requested_bytes;
    } else {
        acre_status status = ARRAY_ROOM(past, blocks, block, 1);
        if (status != ACRE_OK)
            return status;
        index = ++past->block_count;
    }
    past->blocks[index - 1] = *block;
    return ptrmap_put(&undo->blocks, key_of(block->address), (void *)index);
}

static void past_contradict(struct undo *undo, uint64_t event)
{
    if (undo->past->contradictions++ == 0)
        undo->past->first_contradiction = event;
}

static void undo_alloc(struct undo *undo, uint64_t event)
{
    size_t index = (size_t)ptrmap_take(&undo->blocks, key_of(undo->entries[event].address));

    if (!index) {
        past_contradict(undo, event);
        return;
    }
    undo->past->blocks[index - 1].bytes = 0;
    undo->past->blocks[index - 1].requested_bytes = undo->free_block;
    undo->free_block = index;
}

static acre_status undo_free(struct undo *undo, uint64_t event)
{
    const struct snap_entry *entry = &undo->entries[event];
    struct past_block block = {.address = entry->address,
                               .requested_bytes = entry->bytes,
                               .bytes = past_round(undo->past, entry->bytes),
                               .stream = snapshot_origin(undo->snapshot, entry)->stream,
                               .stack = entry->stack};

    if (ptrmap_has(&undo->blocks, key_of(entry->address))) {
        past_contradict(undo, event);
        return ACRE_OK;
    }
    return add_block(undo, &block);
}

/* ---- Segments -------------------------------------------------------------------------------- */

static acre_status add_segment(struct undo *undo, const struct past_segment *segment)
{
    struct past *past = undo->past;
    acre_status status = ARRAY_ROOM(past, segments, segment, 1);

    if (status != ACRE_OK)
        return status;
    past->segments[past->segment_count++] = *segment;
    if (segment->is_expandable)
        return ACRE_OK;
    return ptrmap_put(&undo->segments, key_of(segment->address), (void *)past->segment_count);
}

static void undo_segment_alloc(struct undo *undo, uint64_t event)
{
    size_t index = (size_t)ptrmap_take(&undo->segments, key_of(undo->entries[event].address));

    if (index)
        undo->past->segments[index - 1].bytes = 0;
    else
        past_contradict(undo, event);
}

static acre_status undo_segment_free(struct undo *undo, uint64_t event)
{
    const struct snap_entry *entry = &undo->entries[event];
    const struct snap_origin *origin = snapshot_origin(undo->snapshot, entry);
    struct past_segment segment = {.address = entry->address,
                                   .bytes = entry->bytes,
                                   .stream = origin->stream,
                                   .pool = origin->pool,
                                   .is_small = entry->bytes <= (uint64_t)2 << 20};

    if (!ptrmap_has(&undo->segments, key_of(entry->address)))
        return add_segment(undo, &segment);
    past_contradict(undo, event);
    return ACRE_OK;
}

/* Takes a range out of the mapped ones, which may cut one in two. */
static acre_status undo_map(struct undo *undo, uint64_t event)
{
    const struct snap_entry *entry = &undo->entries[event];
    struct past *past = undo->past;
    uint64_t end = entry->address + entry->bytes;

    for (size_t i = 0; i < past->segment_count; i++) {
        struct past_segment *range = &past->segments[i], rest = *range;
        uint64_t range_end = range->address + range->bytes;
        if (!range->is_expandable || entry->address < range->address || end > range_end)
            continue;
        range->bytes = entry->address - range->address;
        rest.address = end;
        rest.bytes = range_end - end;
        return rest.bytes ? add_segment(undo, &rest) : ACRE_OK;
    }
    past_contradict(undo, event);
    return ACRE_OK;
}

/* Puts a range back, joined with those beside it. */
static acre_status undo_unmap(struct undo *undo, uint64_t event)
{
    const struct snap_entry *entry = &undo->entries[event];
    const struct snap_origin *origin = snapshot_origin(undo->snapshot, entry);
    struct past *past = undo->past;
    struct past_segment whole = {.address = entry->address,
                                 .bytes = entry->bytes,
                                 .stream = origin->stream,
                                 .pool = origin->pool,
                                 .is_small = entry->bytes % ((uint64_t)20 << 20) != 0,
                                 .is_expandable = true};

    for (size_t i = 0; i < past->segment_count; i++) {
        struct past_segment *range = &past->segments[i];
        if (!range->is_expandable || range->bytes == 0 || range->stream != whole.stream)
            continue;
        if (range->address + range->bytes == whole.address) {
            whole.address = range->address;
        } else if (whole.address + whole.bytes != range->address) {
            continue;
        }
        whole.bytes += range->bytes;
        range->bytes = 0;
    }
    return add_segment(undo, &whole);
}

/* ---- Undoing --------------------------------------------------------------------------------- */

/* The segments and blocks at the end. */
static acre_status add_end(struct undo *undo, uint32_t device)
{
    const struct snapshot *snapshot = undo->snapshot;
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < snapshot->segment_count && status == ACRE_OK; i++) {
        const struct snap_segment *from = &snapshot->segments[i];
        if (from->device != device)
            continue;
        status = add_segment(undo, &(struct past_segment){.address = from->address,
                                                          .bytes = from->bytes,
                                                          .stream = from->stream,
                                                          .pool = from->pool,
                                                          .is_small = from->is_small,
                                                          .is_expandable = from->is_expandable});
        for (uint64_t k = 0; k < from->block_count && status == ACRE_OK; k++) {
            const struct snap_block *block = &snapshot->blocks[from->first_block + k];
            uint64_t requested = facts_block_requested(snapshot, block);
            if (block->state != SNAP_INACTIVE)
                status = add_block(
                    undo, &(struct past_block){.address = block->address,
                                               .bytes = block->bytes,
                                               .requested_bytes = requested ? requested : 1,
                                               .stream = from->stream,
                                               .stack = facts_block_stack(snapshot, block),
                                               .is_kept = true,
                                               .is_pending = block->state != SNAP_ALLOCATED});
        }
    }
    return status;
}

/* An event done rather than undone, which is to undo its opposite. */
static acre_status redo_event(struct undo *undo, uint64_t event)
{
    switch (undo->entries[event].action) {
    case SNAP_ALLOC:
        return undo_free(undo, event);
    case SNAP_FREE_REQUESTED:
        if (!undo->past->has_completed)
            undo_alloc(undo, event);
        return ACRE_OK;
    case SNAP_FREE_COMPLETED:
        undo_alloc(undo, event);
        return ACRE_OK;
    case SNAP_SEGMENT_ALLOC:
        return undo_segment_free(undo, event);
    case SNAP_SEGMENT_FREE:
        undo_segment_alloc(undo, event);
        return ACRE_OK;
    case SNAP_SEGMENT_MAP:
        return undo_unmap(undo, event);
    case SNAP_SEGMENT_UNMAP:
        return undo_map(undo, event);
    default:
        return ACRE_OK;
    }
}

/* The end of a history whose segments are not in the file: what it allocated and did not free. If
 * it freed everything, no segments are missing. */
static acre_status redo_all(struct undo *undo)
{
    struct past *past = undo->past;
    acre_status status = ACRE_OK;

    for (uint64_t i = 0; i < undo->entry_count && status == ACRE_OK; i++)
        status = redo_event(undo, i);
    past->contradictions = 0; /* what was there before the history is not known */
    for (size_t i = 0; i < past->block_count; i++)
        past->lacks_segments |= past->blocks[i].bytes > 0;
    for (size_t i = 0; i < past->segment_count; i++)
        past->lacks_segments |= past->segments[i].bytes > 0;
    return status;
}

static acre_status undo_event(struct undo *undo, uint64_t event)
{
    switch (undo->entries[event].action) {
    case SNAP_ALLOC:
        undo_alloc(undo, event);
        return ACRE_OK;
    case SNAP_FREE_REQUESTED:
        return undo->past->has_completed ? ACRE_OK : undo_free(undo, event);
    case SNAP_FREE_COMPLETED:
        return undo_free(undo, event);
    case SNAP_SEGMENT_ALLOC:
        undo_segment_alloc(undo, event);
        return ACRE_OK;
    case SNAP_SEGMENT_FREE:
        return undo_segment_free(undo, event);
    case SNAP_SEGMENT_MAP:
        return undo_map(undo, event);
    case SNAP_SEGMENT_UNMAP:
        return undo_unmap(undo, event);
    default:
        return ACRE_OK;
    }
}

static int by_block_address(const void *a, const void *b)
{
    uint64_t left = ((const struct past_block *)a)->address;
    uint64_t right = ((const struct past_block *)b)->address;

    return left < right ? -1 : left > right;
}

static int by_segment_address(const void *a, const void *b)
{
    uint64_t left = ((const struct past_segment *)a)->address;
    uint64_t right = ((const struct past_segment *)b)->address;

    return left < right ? -1 : left > right;
}

/* Leaves only what is there at the start, by address. */
static void past_compact(struct past *past)
{
    size_t block_count = 0, segment_count = 0;

    for (size_t i = 0; i < past->block_count; i++)
        if (past->blocks[i].bytes)
            past->blocks[block_count++] = past->blocks[i];
    for (size_t i = 0; i < past->segment_count; i++)
        if (past->segments[i].bytes)
            past->segments[segment_count++] = past->segments[i];
    past->block_count = block_count;
    past->segment_count = segment_count;
    if (block_count)
        qsort(past->blocks, block_count, sizeof *past->blocks, by_block_address);
    if (segment_count)
        qsort(past->segments, segment_count, sizeof *past->segments, by_segment_address);
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* The segment of the start that holds an address, or NULL. */
static struct past_segment *segment_at(const struct past *past, uint64_t address)
{
    size_t low = 0, high = past->segment_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (past->segments[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || address - past->segments[low - 1].address >= past->segments[low - 1].bytes)
        return NULL;
    return &past->segments[low - 1];
}

/* The block of the start whose gap behind holds an address: the last one before it. */
static struct past_block *block_before(struct past *past, uint64_t address)
{
    size_t low = 0, high = past->block_count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (past->blocks[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &past->blocks[low - 1] : NULL;
}

static bool has_block(struct past *past, const struct past_segment *range)
{
    const struct past_block *block = block_before(past, range->address + range->bytes - 1);

    return block && block->address >= range->address;
}

/* Which pool a mapped range belongs to: what is allocated there tells, live at the start
 * or first thereafter. */
static void sort_ranges(struct undo *undo)
{
    struct past *past = undo->past;

    for (size_t i = past->block_count; i-- > 0;) {
        struct past_segment *range = segment_at(past, past->blocks[i].address);
        if (range && range->is_expandable)
            range->is_small = past_round(past, past->blocks[i].requested_bytes) <= REMAINDER_MAX;
    }
    for (uint64_t i = undo->entry_count; i-- > 0;) {
        const struct snap_entry *entry = &undo->entries[i];
        if (entry->action != SNAP_ALLOC)
            continue;
        struct past_segment *range = segment_at(past, entry->address);
        if (range && range->is_expandable && !has_block(past, range))
            range->is_small = past_round(past, entry->bytes) <= REMAINDER_MAX;
    }
}

/* Decides what the gap behind each block says alone. */
static void size_by_gap(struct past *past)
{
    for (size_t i = 0; i < past->block_count; i++) {
        struct past_block *block = &past->blocks[i];
        const struct past_segment *segment = segment_at(past, block->address);
        if (block->is_kept || !segment || segment->is_small || segment->is_expandable)
            continue;
        uint64_t end = segment->address + segment->bytes, begin = block->address + block->bytes;
        if (i + 1 < past->block_count && past->blocks[i + 1].address < end)
            end = past->blocks[i + 1].address;
        if (end <= begin)
            continue;
        if (end - begin <= REMAINDER_MAX)
            block->bytes += end - begin;
        else
            block->is_open = true;
    }
}

/* Lets the first allocation in a gap tell where it begins; a free of the block, or of
 * the one behind the gap, ends what can be learned. */
static void size_by_events(struct undo *undo)
{
    struct past *past = undo->past;

    for (uint64_t i = 0; i < undo->entry_count; i++) {
        const struct snap_entry *entry = &undo->entries[i];
        bool is_free =
            entry->action == (past->has_completed ? SNAP_FREE_COMPLETED : SNAP_FREE_REQUESTED);
        if (entry->action != SNAP_ALLOC && !is_free)
            continue;
        struct past_block *block = block_before(past, entry->address);
        if (!block)
            continue;
        if (is_free) {
            /* Freed itself, or what follows it: merged from here on. */
            if (block->is_open && block->address == entry->address) {
                block->is_open = false;
                past->open_count++;
                past->open_bytes_max += REMAINDER_MAX;
            }
            continue;
        }
        uint64_t end = block->address + block->bytes;
        if (!block->is_open || entry->address < end)
            continue;
        if (entry->address - end <= REMAINDER_MAX)
            block->bytes += entry->address - end;
        block->is_open = false;
    }
    for (size_t i = 0; i < past->block_count; i++)
        if (past->blocks[i].is_open) {
            past->open_count++;
            past->open_bytes_max += REMAINDER_MAX;
        }
}

acre_status past_recover(const struct snapshot *snapshot, uint32_t device, struct past *past)
{
    memset(past, 0, sizeof *past);
    if (device >= snapshot->device_count || snapshot->devices[device].entry_count == 0)
        return status_fail(ACRE_ERR_NOT_FOUND, "device %u has no history", device);
    return past_recover_at(snapshot, device, 0, past);
}

acre_status past_recover_at(const struct snapshot *snapshot, uint32_t device, uint64_t event,
                            struct past *past)
{
    struct undo undo = {.snapshot = snapshot, .past = past};
    acre_status status;

    memset(past, 0, sizeof *past);
    if (device >= snapshot->device_count)
        return status_fail(ACRE_ERR_NOT_FOUND, "there is no device %u in the snapshot", device);
    CHECK(event <= snapshot->devices[device].entry_count);
    undo.entry_count = snapshot->devices[device].entry_count;
    past->has_completed = facts_free_action(snapshot, device) == SNAP_FREE_COMPLETED;
    undo.entries = snapshot_history(snapshot, device);
    ptrmap_init(&undo.blocks);
    ptrmap_init(&undo.segments);
    read_divisions(snapshot, past->divisions);
    past->padding = facts_padding(snapshot);
    status = add_end(&undo, device);
    /* The start needs no segments: all that is done there is undone again. */
    if (status == ACRE_OK && event && past->segment_count == 0)
        status = redo_all(&undo);
    if (event)
        undo.entries += event;
    undo.entry_count -= event;
    for (uint64_t i = undo.entry_count; i-- > 0 && status == ACRE_OK;)
        status = undo_event(&undo, i);
    ptrmap_fini(&undo.blocks);
    ptrmap_fini(&undo.segments);
    if (status != ACRE_OK) {
        past_fini(past);
        return status;
    }
    past_compact(past);
    sort_ranges(&undo);
    size_by_gap(past);
    size_by_events(&undo);
    for (size_t i = 0; i < past->block_count; i++)
        past->requested_bytes += past->blocks[i].requested_bytes;
    return ACRE_OK;
}
