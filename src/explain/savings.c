/* SPDX-License-Identifier: MIT */
#include "explain/savings.h"

#include "base/heap.h"

#include <stdlib.h>

enum {
    LAYERS_MIN = 3,             /* fewer repetitions are no sign of layers                   */
    LARGE_COUNT_MAX = 3,        /* more allocations of a stack are not one large piece       */
    LARGE_SHARE = 8,            /* a large piece is at least an eighth of the activations    */
    STATE_8BIT_MIN = 4096 * 4,  /* smaller tensors stay in 32 bits in 8-bit optimizers       */
    STATE_8BIT_BLOCK = 256 * 4, /* bytes of state for which a scale of 4 bytes is kept       */
    TEXT_MAX = 1024,            /* bytes of a stack in one line                              */
};

/* An activation, in the order of allocation. */
struct activation {
    uint64_t event, bytes;
    uint32_t stack;
};

/* While savings are computed. */
struct survey {
    const struct snapshot *snapshot;
    const struct device_state *state;
    uint8_t *categories; /* of each stack, plus 1; 0: not looked at yet */
    uint32_t *counts;    /* activations of each stack                   */
    uint64_t *repeated;  /* bytes of activations whose stack is there as often as the index */
    struct activation *activations;
    size_t activation_count;
    uint64_t forward_end; /* behind the last activation of the history   */
};

static enum frames_category survey_category(struct survey *survey, uint32_t stack)
{
    if (stack == SNAP_NONE)
        return CATEGORY_UNKNOWN;
    if (!survey->categories[stack])
        survey->categories[stack] = (uint8_t)(1 + device_state_category(survey->snapshot, stack));
    return (enum frames_category)(survey->categories[stack] - 1);
}

/* Finds the last allocation of a forward pass; without one, all gradients count as old. */
static void survey_passes(struct survey *survey, uint32_t device)
{
    const struct snap_entry *entries = snapshot_history(survey->snapshot, device);
    uint64_t count = survey->snapshot->devices[device].entry_count;
    uint64_t at = survey->state->event < count ? survey->state->event + 1 : count;

    survey->forward_end = UINT64_MAX;
    for (; at > 0; at--) {
        const struct snap_entry *entry = &entries[at - 1];
        bool is_request = entry->action == SNAP_ALLOC || at - 1 == survey->state->event;
        if (is_request && survey_category(survey, entry->stack) == CATEGORY_ACTIVATIONS) {
            survey->forward_end = at;
            return;
        }
    }
}

static int by_event(const void *a, const void *b)
{
    const struct activation *left = a, *right = b;

    return left->event < right->event ? -1 : left->event > right->event;
}

/* What a block of bytes saves when the request behind it becomes smaller. */
static uint64_t block_saving(const struct past *past, const struct past_block *block,
                             uint64_t request)
{
    uint64_t bytes = past_round(past, request ? request : 1);

    return block->bytes > bytes ? block->bytes - bytes : 0;
}

/* Adds up block by block; collects the activations that the history allocated. */
static void survey_blocks(struct survey *survey, struct savings *out)
{
    const struct past *past = &survey->state->past;
    uint64_t optimizer_new = 0, optimizer_old = 0;

    for (size_t i = 0; i < past->block_count; i++) {
        const struct past_block *block = &past->blocks[i];
        bool is_old = !block->is_met || block->event < survey->forward_end;
        uint64_t asked = block->requested_bytes ? block->requested_bytes : block->bytes;
        if (block->is_open)
            continue;
        switch (survey_category(survey, block->stack)) {
        case CATEGORY_ACTIVATIONS:
            out->batch_bytes += block_saving(past, block, (asked + 1) / 2);
            survey->counts[block->stack]++;
            if (block->is_met)
                survey->activations[survey->activation_count++] = (struct activation){
                    .event = block->event, .bytes = block->bytes, .stack = block->stack};
            break;
        case CATEGORY_GRADIENTS:
            out->old_gradient_bytes += is_old ? block->bytes : 0;
            break;
        case CATEGORY_OPTIMIZER:
            *(is_old ? &optimizer_old : &optimizer_new) += block->bytes;
            if (asked >= STATE_8BIT_MIN && is_old)
                out->optimizer_bytes +=
                    block_saving(past, block, asked / 4 + asked / STATE_8BIT_BLOCK * sizeof(float));
            break;
        default:
            break;
        }
    }
    out->temporary_bytes = optimizer_old ? optimizer_new : 0;
}

/* ---- Layers -------------------------------------------------------------------------------- */

/* How often the layer is there: the number of repetitions that has most bytes. */
static uint32_t layers_count(const struct survey *survey)
{
    uint32_t best = 0;

    for (size_t i = 0; i < survey->activation_count; i++) {
        uint32_t count = survey->counts[survey->activations[i].stack];
        survey->repeated[count] += survey->activations[i].bytes;
        if (count >= LAYERS_MIN && survey->repeated[count] > survey->repeated[best])
            best = count;
    }
    return best;
}

/* Adds up layers: what lies between two marks, and behind the last one as many activations as
 * the layer before it had. */
static void survey_layers(struct survey *survey, struct savings *out)
{
    const struct activation *all = survey->activations;
    uint32_t count = layers_count(survey), mark = SNAP_NONE;
    uint64_t kept = 0, total = 0, largest = 0;
    size_t at = 0, end = survey->activation_count, length = 0;

    for (size_t i = 0; i < end && mark == SNAP_NONE && count; i++)
        if (survey->counts[all[i].stack] == count)
            mark = all[i].stack;
    while (at < end && all[at].stack != mark)
        at++;
    while (at < end && mark != SNAP_NONE) {
        size_t next = at + 1;
        uint64_t bytes = all[at].bytes;
        while (next < end && all[next].stack != mark)
            next++;
        if (next == end && length && next - at > length)
            next = at + length;
        length = next - at;
        for (size_t i = at + 1; i < next; i++)
            bytes += all[i].bytes;
        total += bytes;
        kept += all[next - 1].bytes;
        largest = bytes > largest ? bytes : largest;
        at = next < end && all[next].stack == mark ? next : end;
    }
    if (total <= kept + largest)
        return;
    out->checkpoint_bytes = total - kept - largest;
    out->layer_count = count;
}

/* ---- One large piece ------------------------------------------------------------------------ */

static void survey_large(const struct survey *survey, struct savings *out)
{
    const struct device_state *state = survey->state;

    out->large_stack = SNAP_NONE;
    for (size_t i = 0; i < state->stack_count; i++) {
        const struct group *group = &state->stacks[i];
        if (group->key != SNAP_NONE && survey->counts[group->key] &&
            group->count <= LARGE_COUNT_MAX && group->bytes > out->large_bytes) {
            out->large_bytes = group->bytes;
            out->large_stack = group->key;
        }
    }
    if (out->large_bytes < state->categories[CATEGORY_ACTIVATIONS] / LARGE_SHARE) {
        out->large_bytes = 0;
        out->large_stack = SNAP_NONE;
    }
}

acre_status savings_compute(const struct snapshot *snapshot, uint32_t device,
                            const struct device_state *device_state, struct notes *notes,
                            struct savings *out)
{
    struct survey survey = {.snapshot = snapshot, .state = device_state};
    size_t block_count = device_state->past.block_count;
    char text[TEXT_MAX];

    *out = (struct savings){.large_stack = SNAP_NONE};
    survey.categories = heap_array(snapshot->stack_count + 1, sizeof *survey.categories);
    survey.counts = heap_array(snapshot->stack_count + 1, sizeof *survey.counts);
    survey.repeated = heap_array(block_count + 1, sizeof *survey.repeated);
    survey.activations = heap_array(block_count + 1, sizeof *survey.activations);
    bool is_there = survey.categories && survey.counts && survey.repeated && survey.activations;
    if (is_there) {
        survey_passes(&survey, device);
        survey_blocks(&survey, out);
        qsort(survey.activations, survey.activation_count, sizeof *survey.activations, by_event);
        survey_layers(&survey, out);
        survey_large(&survey, out);
    }
    if (out->large_bytes) {
        device_state_stack_text(snapshot, out->large_stack, text, sizeof text);
        out->large_text = notes_text(notes, "%s", text);
        is_there = out->large_text != NULL;
    }
    heap_free(survey.activations);
    heap_free(survey.repeated);
    heap_free(survey.counts);
    heap_free(survey.categories);
    return is_there ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}
