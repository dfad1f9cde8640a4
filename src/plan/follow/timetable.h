/* SPDX-License-Identifier: MIT */
/* One round of a repeating sequence, placed: what to expect at each position, and
 * where in the arena each buffer lies.
 *
 *   position   0      1      2      3      4      5 (= 0 of the next round)
 *   event      a e0   a e1   f e0   a e2   f e1   the end, which nothing matches
 *
 * A round is cyclic: e2 above is freed at a position before 3 of the next round, or
 * it has no free and is left to the cache, as is what is used on further streams.
 * The beginning is turned to where the fewest bytes live.
 *
 * Streams have regions of their own, unless that takes more room and few buffers
 * follow one of another stream on the same bytes. Those before are guarded: their
 * bytes are free for another stream only when their own stream has got past the free.
 *
 * Immutable once its arena is known; may be read from any thread.
 */
#ifndef SRC_PLAN_TIMETABLE_H
#define SRC_PLAN_TIMETABLE_H

#include "plan/place/mix.h"
#include <acre/planner.h>

#include <stdbool.h>

#define NO_POSITION UINT32_MAX
#define NO_ENTRY UINT32_MAX
#define OFFSET_CACHE UINT64_MAX  /* of an entry that the cache serves */
#define GRAM 4                   /* allocations by which a position is found again */

/* What is compared when a request comes. Exactly one of the two halves can match. */
struct expected {
    size_t bytes;     /* of an allocation; 0: not one that is served at once     */
    void *stream;     /* its stream; STREAM_NONE: not one                        */
    void *address;    /* what it is given                                        */
    void *freed;      /* of a free: what is freed; FREED_NONE: not one           */
};

extern char timetable_mark[1];
#define STREAM_NONE ((void *)timetable_mark)
#define FREED_NONE ((void *)timetable_mark)

/* A buffer of the round. */
struct timetable_entry {
    size_t bytes;       /* as requested                                          */
    void *stream;
    uint64_t size;      /* rounded                                               */
    uint64_t offset;    /* in the arena, or OFFSET_CACHE                         */
    uint32_t alloc_at;  /* its positions                                         */
    uint32_t free_at;   /* below alloc_at: in the next round; or NO_POSITION     */
    bool is_guarded;    /* another stream has some of its bytes next             */
};

/* What is live and was allocated before a position. */
struct timetable_level {
    uint64_t live, live_peak; /* bytes; the peak since position 0                */
    uint64_t total;           /* bytes allocated since position 0                */
};

/* An event of the round to be made into a table. */
struct timetable_record {
    size_t bytes;
    void *stream;
    uint32_t entry;     /* allocations have 0, 1, ... in order                   */
    uint32_t kind;      /* ACRE_TRACE_ALLOC, _FREE or _USE                       */
};

/* Where a run of GRAM allocations ends. */
struct gram {
    uint64_t hash;
    uint32_t alloc;     /* number of the last of them                            */
};

struct timetable {
    uint32_t event_count, entry_count;
    struct expected *events;   /* one more: the end                              */
    uint32_t *entry_of;        /* by event                                       */
    struct timetable_level *levels;      /* by event and one more                          */
    struct timetable_entry *entries;     /* in the order of their allocations              */
    uint32_t *by_offset;       /* entries of the arena by offset, then alloc_at  */
    uint32_t placed_count;     /* of by_offset                                   */
    struct gram *grams;        /* entry_count of them, by hash, then number      */
    uint64_t arena_bytes;      /* 0: the cache serves everything                 */
    uint64_t lower_bound;
};

/* Places a round. *out_turn is the position in the table of the first record.
 * Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_INVALID (sizes that do not add up). */
acre_status timetable_create(const struct timetable_record *records, uint32_t count,
                             const acre_planner_config *config, struct timetable **out,
                             uint32_t *out_turn);
void timetable_destroy(struct timetable *table); /* NULL is fine */

/* Tells the table where its arena is. */
void timetable_settle(struct timetable *table, char *arena);

/* Whether an entry lives after the events before a position. */
static inline bool entry_lives(const struct timetable_entry *entry, uint32_t at)
{
    if (entry->offset == OFFSET_CACHE)
        return false;
    if (entry->alloc_at < entry->free_at)
        return at > entry->alloc_at && at <= entry->free_at;
    return at > entry->alloc_at || at <= entry->free_at;
}

/* A request as a number. */
static inline uint64_t request_hash(size_t bytes, const void *stream)
{
    return mix_bits(bytes ^ mix_bits((uintptr_t)stream));
}

/* Runs of requests as numbers: the last comes to a run of the ones before it. */
static inline uint64_t gram_hash(const uint64_t requests[GRAM])
{
    uint64_t hash = 0;

    for (int i = 0; i < GRAM; i++)
        hash = mix_bits(hash + requests[i]);
    return hash;
}

#endif
