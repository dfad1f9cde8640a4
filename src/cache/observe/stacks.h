/* SPDX-License-Identifier: MIT */
/* Stacks, each kept once and known by a number.
 *
 *   slots    open addressing on the hash of the frames; 0 marks an empty slot
 *   items    stacks by number, from 1 on; number 0 is the stack without frames
 *   words    all frames, one stack after the other
 *
 * Stacks stay until the whole is cleared: jobs have few different ones.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_STACKS_H
#define SRC_CACHE_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More different stacks than this are not kept: 0 stands for them. */
#define STACKS_MAX ((uint32_t)1 << 22)

struct stacks_item {
    uint64_t hash;
    uint64_t first; /* index in words */
    uint64_t count; /* frames         */
};

struct stacks {
    uint32_t *slots;
    size_t slot_count; /* a power of two, or 0        */
    struct stacks_item *items;
    uint32_t count;    /* numbers given, 0 included; 0 before the first */
    size_t item_capacity;
    uint64_t *words;
    size_t word_count, word_capacity;
};

void stacks_fini(struct stacks *stacks); /* also empties it; a zeroed one is empty */

/* The number of a stack; 0 when it has no frames or there is no room. */
uint32_t stacks_intern(struct stacks *stacks, const uint64_t *frames, size_t count);

/* The frames of a number below stacks_count. */
const uint64_t *stacks_frames(const struct stacks *stacks, uint32_t number, size_t *out_count);

/* Numbers given so far, 0 included. */
uint32_t stacks_count(const struct stacks *stacks);

#endif
