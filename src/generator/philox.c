/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
 * as 1, 2, 3", 2011): a block cipher with few rounds over a 128-bit counter.
 * There is no state to speak of: any block can be computed by itself.
 */
#include "generator/philox.h"

enum {
    ROUNDS = 10,
    WORDS = 4 /* per block */
};

static const uint32_t multipliers[2] = {0xD2511F53u, 0xCD9E8D57u};
static const uint32_t key_steps[2] = {0x9E3779B9u, 0xBB67AE85u};

void acre_philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out_words[4])
{
    uint32_t c0, c1, c2, c3, k0, k1;

    if (!counter || !key || !out_words)
        return;
    c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t low = (uint64_t)multipliers[0] * c0;
        uint64_t high = (uint64_t)multipliers[1] * c2;

        c0 = (uint32_t)(high >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)high;
        c2 = (uint32_t)(low >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)low;
        k0 += key_steps[0];
        k1 += key_steps[1];
    }
    out_words[0] = c0;
    out_words[1] = c1;
    out_words[2] = c2;
    out_words[3] = c3;
}

static void philox_split(uint64_t value, uint32_t *out_low, uint32_t *out_high)
{
    *out_low = (uint32_t)value;
    *out_high = (uint32_t)(value >> 32);
}

static uint64_t philox_join(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

/* Plain 128-bit addition; the sum wraps. */
static void counter_add(uint32_t counter[4], uint64_t blocks)
{
    uint64_t low = philox_join(counter[0], counter[1]);
    uint64_t high = philox_join(counter[2], counter[3]);

    high += low + blocks < low;
    low += blocks;
    philox_split(low, &counter[0], &counter[1]);
    philox_split(high, &counter[2], &counter[3]);
}

void acre_philox_init(acre_philox *engine, uint64_t seed, uint64_t subsequence,
                      uint64_t block_offset)
{
    if (!engine)
        return;
    *engine = (acre_philox){.position = 0};
    philox_split(seed, &engine->key[0], &engine->key[1]);
    philox_split(block_offset, &engine->counter[0], &engine->counter[1]);
    philox_split(subsequence, &engine->counter[2], &engine->counter[3]);
}

uint32_t acre_philox_next(acre_philox *engine)
{
    uint32_t word;

    if (!engine)
        return 0;
    if (engine->position == 0)
        acre_philox_block(engine->counter, engine->key, engine->words);
    word = engine->words[engine->position++];
    if (engine->position == WORDS) {
        counter_add(engine->counter, 1);
        engine->position = 0;
    }
    return word;
}

void acre_philox_skip(acre_philox *engine, uint64_t blocks)
{
    if (!engine)
        return;
    counter_add(engine->counter, blocks);
    if (engine->position != 0)
        acre_philox_block(engine->counter, engine->key, engine->words);
}

/* The constant is the float just below 2^-31, so that the largest product is
 * 1 - 2^-24 and never 1. */
float acre_philox_uniform(uint32_t word)
{
    return (float)(word & 0x7fffffffu) * 4.6566127342e-10f;
}

void philox_block_at(uint64_t seed, uint64_t block, uint32_t out_words[4])
{
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    acre_philox_block(counter, key, out_words);
}
