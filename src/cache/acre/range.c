/* SPDX-License-Identifier: MIT */
#include "cache/acre/range.h"

#include "backend/backend.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/acre/arena.h"

/* ---- Calls to the device ----------------------------------------------------------- */

static char *slot_base(const struct range *range, size_t slot)
{
    return range->base + slot * range->page_space->page_bytes;
}

static acre_status map_slot_page(struct range *range, size_t slot, size_t page)
{
    const struct expand *page_space = range->page_space;
    const struct acre_device *device = page_space->device;

    CHECK(page_space->pages[page].has_handle && page_space->pages[page].is_mapped);
    acre_status status =
        device->ops->map(device->self, device->index, slot_base(range, slot),
                         page_space->page_bytes, 0, page_space->pages[page].handle);
    if (status == ACRE_OK)
        range->pages[slot] = page;
    return status;
}

/* Unmaps the slots [first, end), all of which have pages. */
static acre_status unmap_slots(struct range *range, size_t first, size_t end)
{
    const struct acre_device *device = range->page_space->device;
    acre_status status = device->ops->unmap(device->self, device->index, slot_base(range, first),
                                            (end - first) * range->page_space->page_bytes);

    for (size_t i = first; i < end && status == ACRE_OK; i++)
        range->pages[i] = RANGE_NO_PAGE;
    return status;
}

static acre_status set_access(const struct range *range, size_t first, size_t end, int accessor,
                              acre_access access)
{
    const struct acre_device *device = range->page_space->device;

    return device->ops->set_access(device->self, device->index, slot_base(range, first),
                                   (end - first) * range->page_space->page_bytes, accessor, access);
}

/* Opens mapped slots to the device and to the peers of the page space. */
static acre_status open_slots(const struct range *range, size_t first, size_t end)
{
    int own = range->page_space->device->index;
    acre_status status = set_access(range, first, end, own, ACRE_ACCESS_READ_WRITE);

    for (int i = 0; i < BACKEND_DEVICES_MAX && status == ACRE_OK; i++)
        if (i != own && expand_peers_has(&range->page_space->peers, i))
            status = set_access(range, first, end, i, ACRE_ACCESS_READ_WRITE);
    return status;
}

/* The next run of slots with pages from *at on; false: none. */
static bool next_run(const struct range *range, size_t *at, size_t *end)
{
    size_t i = *at;

    while (i < range->count && range->pages[i] == RANGE_NO_PAGE)
        i++;
    *at = i;
    while (i < range->count && range->pages[i] != RANGE_NO_PAGE)
        i++;
    *end = i;
    return *at < i;
}

/* ---- Life ----------------------------------------------------------------------------- */

acre_status range_create(struct expand *page_space, size_t capacity, struct range **out)
{
    const struct acre_device *device = page_space->device;
    struct range *range = heap_zalloc(sizeof *range);
    acre_status status = ACRE_ERR_HOST_MEMORY;
    void *base;

    if (!range)
        return status;
    list_init(&range->link);
    range->page_space = page_space;
    range->capacity = capacity;
    range->pages = heap_array(capacity, sizeof *range->pages);
    range->pieces = heap_array(capacity, sizeof(struct block *));
    if (!range->pages || !range->pieces)
        goto free_range;
    status =
        device->ops->reserve(device->self, device->index, capacity * page_space->page_bytes, &base);
    if (status != ACRE_OK)
        goto free_range;
    range->base = base;
    *out = range;
    return ACRE_OK;

free_range:
    heap_free(range->pages);
    heap_free(range->pieces);
    heap_free(range);
    return status;
}

static void range_forget(struct range *range)
{
    list_remove(&range->link);
    heap_free(range->pages);
    heap_free(range->pieces);
    heap_free(range);
}

acre_status range_destroy(struct range *range)
{
    const struct acre_device *device = range->page_space->device;
    acre_status status = ACRE_OK;
    size_t at = 0, end;

    CHECK(!range->block);
    for (size_t i = 0; i < range->asleep_end; i++)
        range->pages[i] = RANGE_NO_PAGE; /* out already */
    range->asleep_end = 0;
    for (; status == ACRE_OK && next_run(range, &at, &end); at = end)
        status = unmap_slots(range, at, end);
    if (status == ACRE_OK)
        status = device->ops->unreserve(device->self, device->index, range->base,
                                        range->capacity * range->page_space->page_bytes);
    if (status == ACRE_OK)
        range_forget(range);
    return status;
}

void range_abandon(struct range *range)
{
    range->block = NULL;
    if (range_destroy(range) == ACRE_OK)
        return;
    log_line(ACRE_LOG_ERROR, "addresses of a stitched range could not be returned: %s",
             acre_last_error());
    range_forget(range);
}

/* ---- Pages ---------------------------------------------------------------------------- */

/* Whether slot has another page than wanted, which has to go first. */
static bool is_replaced(const struct range *range, size_t slot, size_t page)
{
    return slot < range->count && range->pages[slot] != RANGE_NO_PAGE && range->pages[slot] != page;
}

static bool is_changed(const struct range *range, size_t slot, size_t page)
{
    return slot >= range->count || range->pages[slot] != page;
}

size_t range_cost(const struct range *range, const size_t *pages, size_t count)
{
    size_t cost = 0;

    for (size_t i = 0; i < count; i++) {
        bool follows = i && is_replaced(range, i - 1, pages[i - 1]);
        cost += is_changed(range, i, pages[i]);
        cost += is_replaced(range, i, pages[i]) && !follows;
    }
    return cost;
}

/* Unmaps the slots that are to have other pages. */
static acre_status clear_replaced(struct range *range, const size_t *pages, size_t count)
{
    acre_status status = ACRE_OK;

    for (size_t i = 0, end; i < count && status == ACRE_OK; i = end) {
        for (end = i; end < count && is_replaced(range, end, pages[end]);)
            end++;
        if (end > i)
            status = unmap_slots(range, i, end);
        else
            end = i + 1;
    }
    return status;
}

/* Maps pages into the slots that have none, and gives access to each run of such slots. */
static acre_status range_fill(struct range *range, const size_t *pages, size_t count)
{
    acre_status status = ACRE_OK;

    for (size_t i = 0, end; i < count && status == ACRE_OK; i = end) {
        end = i + 1;
        if (range->pages[i] != RANGE_NO_PAGE)
            continue;
        status = map_slot_page(range, i, pages[i]);
        for (; status == ACRE_OK && end < count && range->pages[end] == RANGE_NO_PAGE; end++)
            status = map_slot_page(range, end, pages[end]);
        if (status == ACRE_OK)
            status = open_slots(range, i, end);
    }
    return status;
}

/* Makes the first count slots what they were before, as far as possible. */
static void undo_set(struct range *range, const size_t *before, size_t old_count, size_t count)
{
    struct status_saved saved;

    status_save(&saved);
    for (size_t i = 0; i < count; i++) {
        size_t page = i < old_count ? before[i] : RANGE_NO_PAGE;
        if (range->pages[i] == page)
            continue;
        if (range->pages[i] != RANGE_NO_PAGE && unmap_slots(range, i, i + 1) != ACRE_OK)
            continue;
        if (page == RANGE_NO_PAGE || map_slot_page(range, i, page) != ACRE_OK)
            continue;
        if (open_slots(range, i, i + 1) != ACRE_OK)
            unmap_slots(range, i, i + 1);
    }
    while (range->count > old_count && range->pages[range->count - 1] == RANGE_NO_PAGE)
        range->count--;
    status_restore(&saved);
}

acre_status range_set(struct range *range, const size_t *pages, size_t count)
{
    size_t old_count = range->count;
    size_t *before = heap_array(count, sizeof *before);

    if (!before)
        return ACRE_ERR_HOST_MEMORY;
    CHECK(!range->block && count <= range->capacity);
    for (size_t i = 0; i < count && i < old_count; i++)
        before[i] = range->pages[i];
    acre_status status = clear_replaced(range, pages, count);
    if (status == ACRE_OK) {
        for (; range->count < count; range->count++)
            range->pages[range->count] = RANGE_NO_PAGE;
        status = range_fill(range, pages, count);
    }
    if (status != ACRE_OK)
        undo_set(range, before, old_count, count < range->count ? count : range->count);
    heap_free(before);
    return status;
}

/* ---- Sleep ---------------------------------------------------------------------------- */

/* Unmaps slots whose pages are to come back. */
static acre_status slots_out(const struct range *range, size_t first, size_t end)
{
    const struct acre_device *device = range->page_space->device;

    return device->ops->unmap(device->self, device->index, slot_base(range, first),
                              (end - first) * range->page_space->page_bytes);
}

acre_status range_doze(struct range *range)
{
    acre_status status = ACRE_OK;
    size_t at = range->asleep_end, end;

    for (; next_run(range, &at, &end); at = end) {
        status = slots_out(range, at, end);
        if (status != ACRE_OK)
            break;
        range->asleep_end = end;
    }
    if (status == ACRE_OK)
        return status;
    struct status_saved first;
    status_save(&first);
    range_wake(range);
    status_restore(&first);
    return status;
}

/* Maps one run of slots again, or none of it. */
static acre_status slots_in(struct range *range, size_t first, size_t end)
{
    acre_status status = ACRE_OK;
    size_t done = first;

    while (done < end && status == ACRE_OK) {
        status = map_slot_page(range, done, range->pages[done]);
        done += status == ACRE_OK;
    }
    if (status == ACRE_OK)
        status = open_slots(range, first, end);
    if (status != ACRE_OK && done > first)
        slots_out(range, first, done);
    return status;
}

/* From the last run to the first, so that asleep_end is true after each. */
acre_status range_wake(struct range *range)
{
    struct status_saved before;
    size_t was = range->asleep_end;
    acre_status status = ACRE_OK;

    while (range->asleep_end && status == ACRE_OK) {
        size_t end = range->asleep_end, first;

        while (end > 0 && range->pages[end - 1] == RANGE_NO_PAGE)
            end--;
        for (first = end; first > 0 && range->pages[first - 1] != RANGE_NO_PAGE;)
            first--;
        if (first < end)
            status = slots_in(range, first, end);
        if (status == ACRE_OK)
            range->asleep_end = first;
    }
    if (status == ACRE_OK || range->asleep_end == was)
        return status;
    /* Out again with what came in. */
    status_save(&before);
    for (size_t at = range->asleep_end, end; next_run(range, &at, &end) && at < was; at = end)
        if (slots_out(range, at, end) != ACRE_OK)
            break;
        else
            range->asleep_end = end;
    status_restore(&before);
    return status;
}

/* ---- Peers ---------------------------------------------------------------------------- */

acre_status range_admit(struct range *range, int peer)
{
    acre_status status = ACRE_OK;
    size_t at = range->asleep_end, end; /* what sleeps gets it when it wakes */

    for (; status == ACRE_OK && next_run(range, &at, &end); at = end)
        status = set_access(range, at, end, peer, ACRE_ACCESS_READ_WRITE);
    return status;
}

void range_expel(struct range *range, int peer)
{
    struct status_saved before;
    size_t at = range->asleep_end, end;

    status_save(&before);
    for (; next_run(range, &at, &end); at = end)
        set_access(range, at, end, peer, ACRE_ACCESS_NONE);
    status_restore(&before);
}

/* ---- Blocks --------------------------------------------------------------------------- */

void range_dissolve(struct block_store *store, struct block *block)
{
    struct range *range = block->segment->range;
    struct arena *arena = block->arena;

    CHECK(range && range->block == block);
    for (size_t i = 0; i < range->piece_count; i++) {
        struct block *piece = range->pieces[i];
        CHECK(piece->state == BLOCK_LENT);
        piece->arena = arena;
        piece->stream = arena->stream;
        arena_join(store, arena, piece);
    }
    range->piece_count = 0;
    range->block = NULL;
    range->is_mixed |= range->last && range->last != arena;
    range->last = arena;
    list_remove(&range->segment.link);
    block->is_stitched = false;
    block_destroy(store, block);
}

#define FACT(holds)                                                                                \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            *fact = "range: " #holds;                                                              \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

bool range_check(const struct range *range, const char **fact)
{
    size_t page = range->page_space->page_bytes, slot = range->slot, offset = range->offset;
    size_t sum = 0;

    FACT(range->count <= range->capacity);
    if (!range->block)
        return true;
    FACT(range->block->base == slot_base(range, slot) + offset);
    for (size_t i = 0; i < range->piece_count; i++) {
        const struct block *piece = range->pieces[i];
        FACT(piece->state == BLOCK_LENT && piece->segment->expand == range->page_space);
        for (size_t done = 0; done < piece->bytes;) {
            size_t at = (size_t)(piece->base - range->page_space->base) + done;
            size_t part = page - offset < piece->bytes - done ? page - offset : piece->bytes - done;
            FACT(slot < range->count && range->pages[slot] == at / page);
            FACT(at % page == offset);
            done += part;
            offset += part;
            slot += offset == page;
            offset %= page;
        }
        sum += piece->bytes;
    }
    FACT(sum == range->block->bytes);
    return true;
}
