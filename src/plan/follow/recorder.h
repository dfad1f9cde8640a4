/* SPDX-License-Identifier: MIT */
/* What was allocated and freed lately, and whether it repeats.
 *
 * Every event is one number: size and stream of an allocation; for a free or a use,
 * how many events ago that allocation was. Equal numbers therefore mean the same
 * event of a later round. The last events repeat with distance d when each equals
 * the one d before it; once that has gone on for d events, two rounds of d events
 * have been seen:
 *
 *     ... x | a b c d e | a b c d e |      distance 5, run 5
 *
 * Distances are found by the last place where the latest few events came before.
 * A loop within an iteration, say over layers, repeats as well, but most of what it
 * allocates outlives two rounds of it, which is not a period.
 *
 * Not thread-safe: the owner's lock is held around every call. A recorder that runs
 * out of host memory or of room forgets everything and starts again.
 */
#ifndef SRC_PLAN_RECORDER_H
#define SRC_PLAN_RECORDER_H

#include "base/ptrmap.h"
#include "plan/follow/timetable.h"

struct log_entry {
    uint64_t symbol;
    size_t bytes;        /* of an allocation                              */
    void *stream;        /* of an allocation or use                       */
    uint32_t alloc;      /* index of the allocation freed or used         */
    uint32_t kind;       /* ACRE_TRACE_ALLOC, _FREE or _USE               */
};

struct recorder {
    struct log_entry *log;
    uint32_t count, capacity;
    uint32_t period_min, period_max;
    struct ptrmap live;  /* address to index of its allocation + 1        */
    struct ptrmap seen;  /* last few symbols to the last such index + 1   */
    uint32_t distance;   /* between the rounds compared; 0: none          */
    uint32_t run;        /* events that equal those a distance before     */
    uint32_t run_next;   /* run at which to look for a period again       */
    uint32_t step[2];    /* where the last two iterations were said to begin */
    uint32_t step_count; /* how often that was said, up to 2              */
    bool has_steps;      /* it was said at all: nothing else is looked for */
};

void recorder_init(struct recorder *recorder, uint32_t period_min, uint32_t period_max);
void recorder_fini(struct recorder *recorder);
void recorder_reset(struct recorder *recorder);

void recorder_alloc(struct recorder *recorder, void *pointer, size_t bytes, void *stream);
/* Frees and uses of what was allocated before recording are left out. */
void recorder_free(struct recorder *recorder, void *pointer);
void recorder_use(struct recorder *recorder, void *pointer, void *stream);
/* An iteration begins. True: the last two were alike; *out_period is their length. */
bool recorder_step(struct recorder *recorder, uint32_t *out_period);

/* Whether the last events are two rounds of a period. */
bool recorder_find(struct recorder *recorder, uint32_t *out_period);

/* Lists the events of the last round; the caller frees them. A free of what lived for
 * a round or longer is left out. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status recorder_round(const struct recorder *recorder, uint32_t period,
                           struct timetable_record **out, uint32_t *out_count);

#endif
