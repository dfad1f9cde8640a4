/* SPDX-License-Identifier: MIT */
/* The numbers of a fill: from engine words to floats and doubles in memory.
 *
 * Pure functions over memory that can be written; no locks, no devices.
 */
#ifndef SRC_GENERATOR_NUMBERS_H
#define SRC_GENERATOR_NUMBERS_H

#include "generator/mt19937.h"

/* What numbers are wanted. */
struct numbers {
    acre_real_type type;
    bool is_normal; /* else uniform                */
    double first;   /* mean, or lower bound        */
    double second;  /* deviation, or upper bound   */
};

/* Bytes of one element. */
size_t numbers_element_bytes(acre_real_type type);

/* Engine words that count elements take from Philox, not rounded. */
uint64_t numbers_words(const struct numbers *numbers, uint64_t count);

/* Writes elements 0 to count-1 as they follow from (seed, offset). */
void numbers_philox(const struct numbers *numbers, uint64_t seed, uint64_t offset,
                    uint64_t count, void *dst);

/* Draws count elements; dst NULL only moves the engine. */
void numbers_mt(const struct numbers *numbers, struct mt19937 *engine, uint64_t count,
                void *dst);

#endif
