/* SPDX-License-Identifier: MIT */
/* See chunk.h. */
#include "hostmem/chunk.h"

#include "base/heap.h"
#include "hostmem/heap.h"
#include "hostmem/inside.h"

#include <pthread.h>
#include <sys/mman.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum {
    CHUNK_SHIFT = 21,
    CHUNK_WORDS = 1 << (47 - CHUNK_SHIFT - 6), /* 8 MiB of addresses, pages where touched */
    CHUNK_TAKERS = 64,                         /* chunks served by one walk               */
};

static _Atomic uint64_t *chunk_words; /* a bit for each chunk below 2^47 */
static pthread_once_t chunk_once = PTHREAD_ONCE_INIT;

static void words_make(void)
{
    chunk_words = heap_map(CHUNK_WORDS * sizeof *chunk_words);
}

acre_status chunks_start(void)
{
    pthread_once(&chunk_once, words_make);
    return chunk_words ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

static _Atomic uint64_t *word_of(const char *chunk)
{
    return &chunk_words[((uintptr_t)chunk >> (CHUNK_SHIFT + 6)) % CHUNK_WORDS];
}

static uint64_t bit_of(const char *chunk)
{
    return (uint64_t)1 << ((uintptr_t)chunk >> CHUNK_SHIFT) % 64;
}

static bool chunk_has(const char *chunk)
{
    return atomic_load_explicit(word_of(chunk), memory_order_relaxed) & bit_of(chunk);
}

/* Sets a bit; whether it was clear. */
static bool chunk_set(const char *chunk)
{
    return !chunk_has(chunk) && !(atomic_fetch_or(word_of(chunk), bit_of(chunk)) & bit_of(chunk));
}

static void chunk_clear(const char *chunk)
{
    if (chunk_has(chunk))
        atomic_fetch_and(word_of(chunk), ~bit_of(chunk));
}

static char *chunk_up(char *address)
{
    return (char *)round_up((uintptr_t)address, CHUNK_BYTES);
}

static char *chunk_down(char *address)
{
    return (char *)round_down((uintptr_t)address, CHUNK_BYTES);
}

/* ---- Moving ------------------------------------------------------------------------------ */

/* Chunks of a new block that wait for pages. */
struct takers {
    char *chunks[CHUNK_TAKERS];
    size_t count;
};

/* Gives the pages of the chunks in a free block away; false ends the walk. */
static bool block_give(void *arg, char *base, size_t bytes, bool is_whole_segment)
{
    struct takers *takers = arg;
    char *end = chunk_down(base + bytes);

    (void)is_whole_segment;
    for (char *chunk = chunk_up(base); chunk < end && takers->count; chunk += CHUNK_BYTES) {
        if (!chunk_has(chunk))
            continue;
        if (mremap(chunk, CHUNK_BYTES, CHUNK_BYTES,
                   MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                   takers->chunks[takers->count - 1]) == MAP_FAILED) {
            takers->count = 0;
            break;
        }
        chunk_clear(chunk);
        takers->count--;
    }
    return takers->count > 0;
}

/* Whether other free chunks may have pages; cheap, and not exact. */
static bool heap_has_spare(acre_hostmem *heap)
{
    uint64_t held = inside_held_bytes(heap->cache);

    return held <= CHUNK_HELD_MAX &&
           (uint64_t)atomic_load_explicit(&heap->large_bytes, memory_order_relaxed) + CHUNK_BYTES <=
               held;
}

void chunks_admit(acre_hostmem *heap, char *base, size_t bytes, bool may_move)
{
    char *first = chunk_up(base), *end = chunk_down(base + bytes);
    struct takers takers = {.count = 0};

    if ((uintptr_t)base >> 47)
        return;
    if (first != base)
        chunk_set(chunk_down(base));
    if (base + bytes > end && end >= first)
        chunk_set(end);
    for (char *chunk = first; chunk < end; chunk += CHUNK_BYTES) {
        if (!chunk_set(chunk) || !may_move)
            continue;
        takers.chunks[takers.count++] = chunk;
        if (takers.count == CHUNK_TAKERS) {
            if (heap_has_spare(heap))
                inside_walk_free(heap->cache, block_give, &takers);
            takers.count = 0;
        }
    }
    if (takers.count && heap_has_spare(heap))
        inside_walk_free(heap->cache, block_give, &takers);
}

void chunks_forget(char *base, size_t bytes)
{
    char *end = chunk_down(base + bytes);

    if ((uintptr_t)base >> 47)
        return;
    for (char *chunk = chunk_up(base); chunk < end; chunk += CHUNK_BYTES)
        chunk_clear(chunk);
}

size_t chunks_count(char *base, size_t bytes)
{
    char *end = chunk_down(base + bytes);
    size_t count = 0;

    for (char *chunk = chunk_up(base); chunk < end; chunk += CHUNK_BYTES)
        count += chunk_has(chunk);
    return count;
}
