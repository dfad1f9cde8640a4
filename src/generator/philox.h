/* SPDX-License-Identifier: MIT */
/* Philox words by position, for code that does not draw in order.
 *
 * Position p of seed s is word p%4 of block p/4 of subsequence 0.
 */
#ifndef SRC_GENERATOR_PHILOX_H
#define SRC_GENERATOR_PHILOX_H

#include <acre/generator.h>

/* The block that holds words [4 * block, 4 * block + 4) of a seed. */
void philox_block_at(uint64_t seed, uint64_t block, uint32_t out_words[4]);

#endif
