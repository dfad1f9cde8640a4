/* SPDX-License-Identifier: MIT */
/* Stacks, each kept once and known by a number.
 *
 *   slots    open addressing on the hash of the frames; 0 marks an empty slot
 *   items    stacks by number, from 1 on; number 0 is the stack without frames
 *   words    all frames, one stack after the other
 *
 * Stacks of frames stay until the whole is cleared: jobs have few different ones. An object of
 * the user (acre_context_objects) gets a number of its own, which counts its uses; after the last
 * the object is given back, and the number is free for another one.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_STACKS_H
#define SRC_CACHE_STACKS_H

#include <acre/history.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More different stacks than this are not kept: 0 stands for them. */
#define STACKS_MAX ((uint32_t)1 << 22)

struct stacks_item {
    uint64_t hash;
    uint64_t first; /* index in words; of a free number, the next free one */
    uint64_t count; /* frames         */
    void *object;   /* of the user, or NULL                        */
    uint32_t uses;  /* of an object                                */
    bool is_object; /* the number is not one of frames             */
};

struct stacks {
    uint32_t *slots;
    size_t slot_count; /* a power of two, or 0        */
    struct stacks_item *items;
    uint32_t count;    /* numbers given, 0 included; 0 before the first */
    size_t item_capacity;
    uint64_t *words;
    size_t word_count, word_capacity;
    uint32_t vacant; /* first free number of an object; 0: none */
    acre_context_objects objects; /* whose objects there are    */
};

void stacks_fini(struct stacks *stacks); /* also empties it; a zeroed one is empty */

/* The number of a stack; 0 when it has no frames or there is no room. */
uint32_t stacks_intern(struct stacks *stacks, const uint64_t *frames, size_t count);

/* The frames of a number below stacks_count. */
const uint64_t *stacks_frames(const struct stacks *stacks, uint32_t number, size_t *out_count);

/* The number of an object, with one use and a reference; 0 when there is no room. */
uint32_t stacks_object_add(struct stacks *stacks, void *object);

/* One use more or less of a number; numbers of frames, and 0, do not count. */
void stacks_use(struct stacks *stacks, uint32_t number);
void stacks_drop(struct stacks *stacks, uint32_t number);

/* The object of a number, or NULL. */
void *stacks_object(const struct stacks *stacks, uint32_t number);

/* Gives all objects back; those to come are of another kind. Numbers in use stay, empty. */
void stacks_objects_change(struct stacks *stacks, const acre_context_objects *objects);

/* Numbers given so far, 0 included. */
uint32_t stacks_count(const struct stacks *stacks);

#endif
