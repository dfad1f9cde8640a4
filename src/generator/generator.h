/* SPDX-License-Identifier: MIT */
/* A generator: a label on a counted state. Several generators may share one
 * state (acre_generator_share, captures); the lock is in the state.
 */
#ifndef SRC_GENERATOR_GENERATOR_H
#define SRC_GENERATOR_GENERATOR_H

#include "base/process/fork.h"
#include "base/lock.h"
#include "generator/mt19937.h"

#include <stdatomic.h>

struct generator_state {
    struct lock lock;               /* RANK_GENERATOR; guards what follows         */
    struct fork_guard fork_guard; /* of the lock */
    atomic_uint users;              /* generators and captures that hold it        */
    acre_generator_kind kind;       /* constant                                    */
    uint64_t seed;                  /* Philox only                                 */
    uint64_t offset;                /* Philox only; words, always a multiple of 4  */
    acre_generator_capture *capture; /* the one under way, not owned, or NULL      */
    struct mt19937 mt;              /* mt19937 only                                */
};

struct acre_generator {
    struct generator_state *state;
    acre_device_id device; /* constant */
};

/* The engine of a generator; 0 for NULL. */
acre_generator_kind generator_kind_of(const acre_generator *generator);

/* One more holder, one less; the last one frees the state. */
struct generator_state *generator_state_hold(struct generator_state *state);
void generator_state_drop(struct generator_state *state);

/* The offset after a number of words, rounded up to 4.
 * Errors: ACRE_ERR_RANGE past 2^64. */
acre_status generator_offset_after(uint64_t offset, uint64_t words, uint64_t *out);

/* 8 bytes of the operating system. Errors: ACRE_ERR_IO. */
acre_status generator_entropy(uint64_t *out);

#endif
