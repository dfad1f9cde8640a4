/* SPDX-License-Identifier: MIT */
/* What changes of a program would free, computed from the blocks that were live, their stacks and
 * when the history allocated them.
 *
 * Layers. A network that repeats a layer leaves, in the order of allocation, activations whose
 * stacks repeat. The stack that is there once a layer and comes first marks where a layer begins,
 * and the last activation before the next mark is what the layer hands on. Recomputing keeps
 * that one of each layer, and has one whole layer at a time.
 *
 * Passes. Gradients that were allocated before the last activation are left over from an earlier
 * backward pass. Memory that an optimizer allocated behind the last activation, while it has other
 * memory from earlier steps, is temporary.
 */
#ifndef SRC_EXPLAIN_SAVINGS_H
#define SRC_EXPLAIN_SAVINGS_H

#include "explain/device_state.h"
#include "explain/notes.h"

struct savings {
    uint64_t batch_bytes;          /* activations of half the batch                         */
    uint64_t checkpoint_bytes;     /* activations that recomputed layers need not keep      */
    uint32_t layer_count;          /* layers found; 0: none, and checkpoint_bytes is 0      */
    uint64_t old_gradient_bytes;   /* gradients left over from an earlier backward pass     */
    uint64_t optimizer_bytes;      /* 32-bit state of an optimizer, kept in 8 bits instead  */
    uint64_t temporary_bytes;      /* what the optimizer's present step took                */
    uint64_t large_bytes;          /* activations of the one stack that is split best ...   */
    uint32_t large_stack;          /* ... which this is, or SNAP_NONE                       */
    const char *large_text;        /* that stack in one line, in the notes; or NULL         */
};

/* Errors: ACRE_ERR_HOST_MEMORY. */
acre_status savings_compute(const struct snapshot *snapshot, uint32_t device,
                            const struct device_state *device_state, struct notes *notes,
                            struct savings *out);

#endif
