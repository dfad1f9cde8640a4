/* SPDX-License-Identifier: MIT */
/* The 32-bit Mersenne twister with the normals it keeps back.
 *
 * A normal draw makes two numbers from two uniform ones; the second is kept
 * for the next draw of the same width. The state travels as 5056 bytes.
 *
 * Always: 1 <= left <= 624, next <= 624, next + left <= 625. Word next is the
 * next one to hand out, and left - 1 words remain before the block is renewed.
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_GENERATOR_MT19937_H
#define SRC_GENERATOR_MT19937_H

#include <acre/generator.h>

#define MT_WORDS 624

struct mt19937 {
    uint64_t seed;            /* as given; only its low 32 bits were used      */
    uint32_t words[MT_WORDS]; /* the present block, untempered                 */
    uint32_t left;            /* 1 to 624; the block is renewed at the last    */
    uint32_t next;            /* index of the word to hand out                 */
    double normal64;          /* kept back for a double draw, if has_normal64  */
    float normal32;           /* kept back for a float draw, if has_normal32   */
    bool has_normal64;
    bool has_normal32;
};

void mt_seed(struct mt19937 *engine, uint64_t seed);
uint32_t mt_next(struct mt19937 *engine);
uint64_t mt_next64(struct mt19937 *engine); /* first word is the high half */

float mt_uniform32(struct mt19937 *engine);  /* [0, 1), 24 bits        */
double mt_uniform64(struct mt19937 *engine); /* [0, 1), 53 bits        */
float mt_normal32(struct mt19937 *engine);   /* mean 0, deviation 1    */
double mt_normal64(struct mt19937 *engine);

void mt_state_get(const struct mt19937 *engine, uint8_t out[ACRE_MT19937_STATE_BYTES]);
/* Errors: ACRE_ERR_FORMAT; then the engine is unchanged. */
acre_status mt_state_set(struct mt19937 *engine,
                         const uint8_t state[ACRE_MT19937_STATE_BYTES]);

#endif
