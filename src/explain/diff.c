/* SPDX-License-Identifier: MIT */
/* What grew between two snapshots. Stacks of both get common numbers from a third,
 * empty snapshot that only serves to find equal ones. */
#include <acre/explain.h>

#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"
#include "explain/device_state.h"
#include "explain/notes.h"
#include "explain/shares.h"
#include "format/snapshot/facts.h"

#include <stdlib.h>

struct diff_whole {
    acre_diff diff; /* first: the user holds its address */
    struct notes notes;
    char text[2048];
};

/* One snapshot at its moment. */
struct diff_side {
    const struct snapshot *snapshot;
    struct device_state *device_state;
};

struct change {
    uint64_t bytes[2], count[2];
    uint32_t key;  /* a stack of the side that has it, or the power of a size */
    uint8_t owner; /* that side */
};

/* ---- Common numbers ------------------------------------------------------------------------ */

/* The number of a stack in the common snapshot. */
static acre_status common_stack(const struct snapshot *from, uint32_t stack,
                                struct snapshot *common, uint32_t *out)
{
    const struct snap_run *run = &from->stacks[stack];
    uint32_t *ids = heap_array((size_t)run->count + 1, sizeof *ids);
    acre_status status = ids ? ACRE_OK : ACRE_ERR_HOST_MEMORY;

    for (uint32_t i = 0; i < run->count && status == ACRE_OK; i++) {
        const struct snap_frame *frame = &from->frames[from->frame_ids[run->first + i]];
        struct snap_frame copy = {.line = frame->line, .extra = SNAP_NONE};
        size_t length;
        const char *text = snapshot_string(from, frame->file, &length);
        status = snapshot_add_string(common, text, length, &copy.file);
        text = snapshot_string(from, frame->name, &length);
        if (status == ACRE_OK)
            status = snapshot_add_string(common, text, length, &copy.name);
        if (status == ACRE_OK)
            status = snapshot_add_frame(common, &copy, &ids[i]);
    }
    if (status == ACRE_OK)
        status = snapshot_add_stack(common, ids, run->count, out);
    heap_free(ids);
    return status;
}

/* Sorts by growth, largest first; then by size. */
static int by_growth(const void *a, const void *b)
{
    const struct change *left = a, *right = b;
    int64_t grew_left = (int64_t)(left->bytes[1] - left->bytes[0]);
    int64_t grew_right = (int64_t)(right->bytes[1] - right->bytes[0]);

    if (grew_left != grew_right)
        return grew_left > grew_right ? -1 : 1;
    if (left->bytes[1] != right->bytes[1])
        return left->bytes[1] > right->bytes[1] ? -1 : 1;
    return left->key < right->key ? -1 : left->key > right->key;
}

/* Adds up both sides by a common key below key_max. */
static acre_status collect_stacks(const struct diff_side sides[2], struct change *changes,
                                  size_t key_max)
{
    struct snapshot *common = NULL;
    acre_status status = snapshot_create(&common);

    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < sides[side].device_state->stack_count && status == ACRE_OK; i++) {
            const struct group *group = &sides[side].device_state->stacks[i];
            uint32_t key = (uint32_t)key_max;
            if (group->key != SNAP_NONE)
                status = common_stack(sides[side].snapshot, group->key, common, &key);
            if (status != ACRE_OK)
                break;
            changes[key].bytes[side] += group->bytes;
            changes[key].count[side] += group->count;
            changes[key].key = group->key;
            changes[key].owner = (uint8_t)side;
        }
    snapshot_destroy(common);
    return status;
}

static void collect_sizes(const struct diff_side sides[2], struct change *changes)
{
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < sides[side].device_state->size_count; i++) {
            const struct group *group = &sides[side].device_state->sizes[i];
            changes[group->key].bytes[side] += group->bytes;
            changes[group->key].count[side] += group->count;
            changes[group->key].key = group->key;
        }
}

/* Changes by stack, or by size. */
struct change_set {
    struct change *changes;
    size_t count;
    bool are_stacks;
};

/* Sorts what differs and gives it to the user. */
static acre_status diff_publish(const struct diff_side sides[2], const struct change_set *set,
                                struct notes *notes, const acre_change **out, uint64_t *out_count)
{
    struct change *changes = set->changes;
    bool are_stacks = set->are_stacks;
    char text[STACK_TEXT_MAX];
    size_t kept = 0;

    for (size_t i = 0; i < set->count; i++)
        if (changes[i].bytes[0] != changes[i].bytes[1] ||
            changes[i].count[0] != changes[i].count[1])
            changes[kept++] = changes[i];
    qsort(changes, kept, sizeof *changes, by_growth);
    acre_change *published = notes_take(notes, (kept + 1) * sizeof *published);
    for (size_t i = 0; published && i < kept; i++) {
        const struct change *change = &changes[i];
        const char *name = are_stacks ? device_state_stack_text(sides[change->owner].snapshot,
                                                                change->key, text, sizeof text)
                                      : "";
        published[i] = (acre_change){
            change->bytes[0], change->bytes[1], change->count[0], change->count[1],
            are_stacks ? notes_text(notes, "%s", name) : shares_size_text(notes, change->key)};
        if (!published[i].text)
            return ACRE_ERR_HOST_MEMORY;
    }
    *out = published;
    *out_count = kept;
    return published ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void diff_tell(struct diff_whole *whole)
{
    acre_diff *diff = &whole->diff;
    struct text text;
    bool grew = diff->allocated_b >= diff->allocated_a;

    text_init(&text, whole->text, sizeof whole->text);
    if (diff->allocated_b == diff->allocated_a) {
        text_add(&text, "As much memory is live as before, ");
        text_add_bytes(&text, diff->allocated_b);
        text_add(&text, diff->stack_count ? ", but not of the same stacks." : ".");
        diff->text = whole->text;
        return;
    }
    text_add(&text, "Live memory %s by ", grew ? "grew" : "shrank");
    text_add_bytes(&text, grew ? diff->allocated_b - diff->allocated_a
                               : diff->allocated_a - diff->allocated_b);
    text_add(&text, ", from ");
    text_add_bytes(&text, diff->allocated_a);
    text_add(&text, " to ");
    text_add_bytes(&text, diff->allocated_b);
    if (diff->stack_count && diff->stacks[0].bytes_b > diff->stacks[0].bytes_a) {
        text_add(&text, ". Most of all grew, by ");
        text_add_bytes(&text, diff->stacks[0].bytes_b - diff->stacks[0].bytes_a);
        text_add(&text, ", what is allocated by %s", diff->stacks[0].text);
    }
    text_add(&text, ".");
    diff->text = whole->text;
}

static acre_status diff_do_compare(const struct diff_side sides[2], struct diff_whole *whole)
{
    size_t key_max = sides[0].device_state->stack_count + sides[1].device_state->stack_count;
    struct change *changes = heap_array(key_max + 65, sizeof *changes);
    struct change sizes[64] = {{{0}, {0}, 0, 0}};
    acre_status status = changes ? collect_stacks(sides, changes, key_max) : ACRE_ERR_HOST_MEMORY;

    if (status == ACRE_OK)
        status = diff_publish(sides, &(struct change_set){changes, key_max + 1, true},
                              &whole->notes, &whole->diff.stacks, &whole->diff.stack_count);
    collect_sizes(sides, sizes);
    if (status == ACRE_OK)
        status = diff_publish(sides, &(struct change_set){sizes, 64, false}, &whole->notes,
                              &whole->diff.sizes, &whole->diff.size_count);
    heap_free(changes);
    whole->diff.allocated_a = sides[0].device_state->allocated_bytes;
    whole->diff.allocated_b = sides[1].device_state->allocated_bytes;
    whole->diff.reserved_a = sides[0].device_state->reserved_bytes;
    whole->diff.reserved_b = sides[1].device_state->reserved_bytes;
    if (status == ACRE_OK)
        diff_tell(whole);
    return status;
}

static acre_status open_side(struct diff_side *side, uint32_t device, bool at_peak)
{
    const struct snapshot *snapshot = side->snapshot;
    uint64_t event;

    if (device >= snapshot->device_count)
        return status_fail(ACRE_ERR_NOT_FOUND,
                           "there is no device %u in one of the snapshots; "
                           "choose one with --device",
                           device);
    event = snapshot->devices[device].entry_count;
    acre_status status = at_peak ? device_state_of_peak(snapshot, device, &event) : ACRE_OK;
    return status == ACRE_OK
               ? device_state_create(snapshot, device, event, NULL, &side->device_state)
               : status;
}

acre_status acre_diff_create(const acre_snapshot *a, const acre_snapshot *b, uint32_t device,
                             uint32_t flags, acre_diff **out)
{
    struct diff_side sides[2] = {{.snapshot = (const struct snapshot *)a},
                                 {.snapshot = (const struct snapshot *)b}};

    if (!a || !b || !out || flags & ~ACRE_DIFF_PEAK)
        return status_fail(ACRE_ERR_INVALID, "acre_diff_create: %s",
                           a && b && out ? "unknown flags" : "an argument is NULL");
    struct diff_whole *whole = heap_zalloc(sizeof *whole);
    acre_status status = whole ? facts_device(sides[1].snapshot, device, FACTS_STATE,
                                              &whole->diff.device, &whole->diff.device_reason)
                               : ACRE_ERR_HOST_MEMORY;
    if (whole)
        whole->diff.struct_size = sizeof whole->diff;
    for (int i = 0; i < 2 && status == ACRE_OK; i++)
        status = open_side(&sides[i], whole->diff.device, flags & ACRE_DIFF_PEAK);
    if (status == ACRE_OK)
        status = diff_do_compare(sides, whole);
    device_state_destroy(sides[0].device_state);
    device_state_destroy(sides[1].device_state);
    if (status == ACRE_OK)
        *out = &whole->diff;
    else if (whole)
        acre_diff_destroy(&whole->diff);
    return status;
}

void acre_diff_destroy(acre_diff *diff)
{
    struct diff_whole *whole = (struct diff_whole *)diff;

    if (!whole)
        return;
    notes_fini(&whole->notes);
    heap_free(whole);
}
