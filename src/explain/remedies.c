/* SPDX-License-Identifier: MIT */
#include "explain/remedies.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

/* While remedies are collected. */
struct remedy_list {
    acre_remedy items[REMEDY_MAX];
    size_t count;
    uint64_t worth_bytes; /* less than this is not worth a line */
    struct notes *notes;
    const acre_why *why;
    bool is_lost;
};

/* Adds a remedy: a size stands between the two parts of the sentence. */
static void remedy_add(struct remedy_list *list, uint64_t bytes, const char *before,
                       const char *after)
{
    char size[TEXT_BYTES_MAX];

    if (bytes == 0 || bytes < list->worth_bytes || list->count == REMEDY_MAX)
        return;
    char *text = notes_text(list->notes, "%s%s%s", before, text_bytes(size, bytes), after);
    list->is_lost |= !text;
    list->items[list->count++] =
        (acre_remedy){.bytes = bytes, .is_enough = bytes >= list->why->missing_bytes, .text = text};
}

/* A leak, which is known over several iterations (growth.h). It stands first, however little it has
 * taken so far: whatever else is saved, it fills that as well. */
static void add_leak(struct remedy_list *list)
{
    const acre_growth *growth = list->why->growth;
    uint64_t worth_bytes = list->worth_bytes;

    if (!list->why->growth_count)
        return;
    list->worth_bytes = 0;
    remedy_add(list, growth->bytes_to - growth->bytes_from, "Find what keeps tensors alive: ",
               " more than some iterations before come from the stack that grows fastest.");
    list->worth_bytes = worth_bytes;
}

/* Where the allocator itself stood in the way. */
static void add_settings(struct remedy_list *list, const struct device_state *device_state)
{
    const acre_why *why = list->why;

    if (why->verdict == ACRE_VERDICT_FRAGMENTATION && !why->is_expandable)
        remedy_add(list, why->free_split_bytes + why->oom_device_free_bytes,
                   why->allocator && why->allocator[0] == 't'
                       ? "Set PYTORCH_NPU_ALLOC_CONF=expandable_segments:True: up to "
                       : "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: up to ",
                   " of free memory can then serve a request of this size.");
    if (why->verdict == ACRE_VERDICT_FRAGMENTATION && why->is_expandable)
        remedy_add(list, why->free_split_bytes, "expandable_segments is on already. Up to ",
                   " are free in pages that are partly in use: allocate what lives long before "
                   "what lives short, or call torch.cuda.empty_cache() between phases.");
    if (why->verdict == ACRE_VERDICT_STREAMS || why->waiting_bytes)
        remedy_add(list, why->waiting_bytes,
                   "Synchronise the streams that still use freed memory before this point: ",
                   " wait for them.");
    if (why->verdict == ACRE_VERDICT_STREAMS)
        remedy_add(
            list, why->free_split_bytes - device_state->own_free_bytes,
            "Allocate on the stream that frees: ", " are free in segments of other streams.");
    remedy_add(list, why->private_free_bytes,
               "Free graphs and pools that are not needed any more, or let them share one pool: ",
               " are free in private pools.");
}

/* Recomputing: layer by layer where layers are known, else a usual share. */
static void add_checkpoint(struct remedy_list *list, const struct device_state *device_state,
                           const struct savings *savings)
{
    char after[160];

    if (!savings->layer_count) {
        remedy_add(list, device_state->categories[CATEGORY_ACTIVATIONS] / 3 * 2,
                   "Recompute activations with torch.utils.checkpoint: about ",
                   " if two thirds of what was allocated in forward passes are not kept.");
        return;
    }
    snprintf(after, sizeof after,
             " when each of the %u layers keeps its last activation and one layer at a time is "
             "recomputed.",
             savings->layer_count);
    remedy_add(list, savings->checkpoint_bytes,
               "Recompute activations with torch.utils.checkpoint: ", after);
}

/* One line of the program that holds much at once. */
static void add_parts(struct remedy_list *list, const struct savings *savings)
{
    char after[1200];

    if (!savings->large_text)
        return;
    snprintf(after, sizeof after, ", three quarters of what this line holds: %s.",
             savings->large_text);
    remedy_add(list, savings->large_bytes / 4 * 3,
               "Work through one large step in four parts: up to ", after);
}

/* Where less has to be live. Estimates: memory is split by what stacks tell. */
static void add_savings(struct remedy_list *list, const struct device_state *device_state,
                        const struct savings *savings)
{
    const uint64_t *categories = device_state->categories;

    if (list->why->verdict == ACRE_VERDICT_UNUSED || list->why->verdict == ACRE_VERDICT_LIMIT)
        return;
    remedy_add(list, savings->batch_bytes,
               "Halve the batch, and accumulate gradients over two steps: ",
               " when every live activation becomes half as large.");
    add_checkpoint(list, device_state, savings);
    add_parts(list, savings);
    remedy_add(list, savings->optimizer_bytes, "Use an optimizer that keeps its state in 8 bits: ",
               " if the state is in 32 bits now; tensors below 4,096 elements stay as they are.");
    remedy_add(list, savings->temporary_bytes,
               "Pass foreach=False or fused=True to the optimizer: up to ",
               " were taken by this step beside the optimizer's state.");
    remedy_add(list, savings->old_gradient_bytes,
               "Call optimizer.zero_grad(set_to_none=True) before the forward pass, unless "
               "gradients are accumulated: ",
               " are left over from an earlier backward pass.");
    remedy_add(list, categories[CATEGORY_PARAMETERS] / 2, "Keep weights in 16 bits: about ",
               ", half of what is held from setting up the model "
               "if that is in 32 bits.");
    if (list->why->outside_bytes > 0)
        remedy_add(list, (uint64_t)list->why->outside_bytes,
                   "End other processes on the device: up to ", " are used outside the allocator.");
}

/* What is enough stands first, then what frees most. */
static int by_use(const void *a, const void *b)
{
    const acre_remedy *left = a, *right = b;

    if (left->is_enough != right->is_enough)
        return left->is_enough ? -1 : 1;
    return left->bytes > right->bytes ? -1 : left->bytes < right->bytes;
}

acre_status remedies_find(const struct device_state *device_state, const struct savings *savings,
                          struct notes *notes, acre_why *why)
{
    struct remedy_list list = {.notes = notes, .why = why};
    size_t first;

    if (!why->oom_requested_bytes)
        return ACRE_OK;
    list.worth_bytes = why->oom_requested_bytes / 20 + 1;
    add_leak(&list);
    add_settings(&list, device_state);
    first = list.count; /* a leak and settings, which cost nothing, stay in front */
    add_savings(&list, device_state, savings);
    if (list.count > first)
        qsort(list.items + first, list.count - first, sizeof *list.items, by_use);
    acre_remedy *remedies = notes_take(notes, (list.count + 1) * sizeof *remedies);
    if (!remedies || list.is_lost)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < list.count; i++)
        remedies[i] = list.items[i];
    why->remedies = remedies;
    why->remedy_count = list.count;
    return ACRE_OK;
}
