/* SPDX-License-Identifier: MIT */
/* mt19937 (Matsumoto, Nishimura: "Mersenne twister", 1998) and its 5056 bytes.
 *
 * Layout of the state, native endian, byte offsets:
 *
 *      0 u64 seed        8 i32 left      12 i32 seeded    16 u64 next
 *     24 624 x u64 words, each below 2^32
 *   5016 double, unused  5024 double kept normal          5032 double, unused
 *   5040 i32 double kept 5048 float kept normal           5052 u8 float kept
 */
#include "generator/mt19937.h"

#include "base/check.h"
#include "base/status.h"

#include <math.h>
#include <string.h>

enum {
    MT_MIDDLE = 397,
    AT_SEED = 0,
    AT_LEFT = 8,
    AT_SEEDED = 12,
    AT_NEXT = 16,
    AT_WORDS = 24,
    AT_NORMAL64 = 5024,
    AT_HAS_NORMAL64 = 5040,
    AT_NORMAL32 = 5048,
    AT_HAS_NORMAL32 = 5052
};

static const double two_pi = 6.283185307179586476925286766559;

void mt_seed(struct mt19937 *engine, uint64_t seed)
{
    *engine = (struct mt19937){.seed = seed, .left = 1, .next = 0};
    engine->words[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < MT_WORDS; i++) {
        uint32_t before = engine->words[i - 1];

        engine->words[i] = 1812433253u * (before ^ before >> 30) + i;
    }
}

static uint32_t mt19937_twist(uint32_t upper, uint32_t lower)
{
    uint32_t mixed = (upper & 0x80000000u) | (lower & 0x7fffffffu);

    return mixed >> 1 ^ (lower & 1 ? 0x9908b0dfu : 0);
}

static void mt19937_renew(struct mt19937 *engine)
{
    uint32_t *words = engine->words;

    for (int i = 0; i < MT_WORDS; i++)
        words[i] =
            words[(i + MT_MIDDLE) % MT_WORDS] ^ mt19937_twist(words[i], words[(i + 1) % MT_WORDS]);
    engine->left = MT_WORDS;
    engine->next = 0;
}

uint32_t mt_next(struct mt19937 *engine)
{
    uint32_t word;

    if (--engine->left == 0)
        mt19937_renew(engine);
    CHECK(engine->next < MT_WORDS);
    word = engine->words[engine->next++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

uint64_t mt_next64(struct mt19937 *engine)
{
    uint64_t high = mt_next(engine);

    return high << 32 | mt_next(engine);
}

float mt_uniform32(struct mt19937 *engine)
{
    return (float)(mt_next(engine) & 0xffffffu) * 0x1p-24f;
}

double mt_uniform64(struct mt19937 *engine)
{
    return (double)(mt_next64(engine) & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

float mt_normal32(struct mt19937 *engine)
{
    double angle, radius;

    if (engine->has_normal32) {
        engine->has_normal32 = false;
        return engine->normal32;
    }
    angle = two_pi * mt_uniform32(engine);
    radius = sqrt(-2 * log1p(-(double)mt_uniform32(engine)));
    engine->normal32 = (float)(radius * sin(angle));
    engine->has_normal32 = true;
    return (float)(radius * cos(angle));
}

double mt_normal64(struct mt19937 *engine)
{
    double angle, radius;

    if (engine->has_normal64) {
        engine->has_normal64 = false;
        return engine->normal64;
    }
    angle = two_pi * mt_uniform64(engine);
    radius = sqrt(-2 * log1p(-mt_uniform64(engine)));
    engine->normal64 = radius * sin(angle);
    engine->has_normal64 = true;
    return radius * cos(angle);
}

static void mt19937_put(uint8_t *state, size_t at, const void *value, size_t bytes)
{
    memcpy(state + at, value, bytes);
}

void mt_state_get(const struct mt19937 *engine, uint8_t out[ACRE_MT19937_STATE_BYTES])
{
    int32_t left = (int32_t)engine->left, seeded = 1, has64 = engine->has_normal64;
    uint64_t next = engine->next;
    uint8_t has32 = engine->has_normal32;

    memset(out, 0, ACRE_MT19937_STATE_BYTES);
    mt19937_put(out, AT_SEED, &engine->seed, 8);
    mt19937_put(out, AT_LEFT, &left, 4);
    mt19937_put(out, AT_SEEDED, &seeded, 4);
    mt19937_put(out, AT_NEXT, &next, 8);
    for (size_t i = 0; i < MT_WORDS; i++) {
        uint64_t word = engine->words[i];

        mt19937_put(out, AT_WORDS + 8 * i, &word, 8);
    }
    mt19937_put(out, AT_NORMAL64, &engine->normal64, 8);
    mt19937_put(out, AT_HAS_NORMAL64, &has64, 4);
    mt19937_put(out, AT_NORMAL32, &engine->normal32, 4);
    mt19937_put(out, AT_HAS_NORMAL32, &has32, 1);
}

static int32_t i32_at(const uint8_t *state, size_t at)
{
    int32_t value;

    memcpy(&value, state + at, 4);
    return value;
}

static uint64_t u64_at(const uint8_t *state, size_t at)
{
    uint64_t value;

    memcpy(&value, state + at, 8);
    return value;
}

/* A block holds 624 words, so next and left must not run past its end. */
static acre_status check_position(int32_t seeded, int32_t left, uint64_t next)
{
    if (!seeded)
        return status_fail(ACRE_ERR_FORMAT,
                           "mt19937 state: byte 12 says it was never seeded; it must be 1");
    if (left < 1 || left > MT_WORDS)
        return status_fail(ACRE_ERR_FORMAT, "mt19937 state: left at byte 8 is %d, not 1 to 624",
                           left);
    if (next > MT_WORDS || next + (uint64_t)left > MT_WORDS + 1)
        return status_fail(ACRE_ERR_FORMAT,
                           "mt19937 state: next at byte 16 is %llu, at most %d fits left %d",
                           (unsigned long long)next, MT_WORDS + 1 - left, left);
    return ACRE_OK;
}

acre_status mt_state_set(struct mt19937 *engine, const uint8_t state[ACRE_MT19937_STATE_BYTES])
{
    int32_t left = i32_at(state, AT_LEFT);
    uint64_t next = u64_at(state, AT_NEXT);
    struct mt19937 loaded = {.seed = u64_at(state, AT_SEED)};
    acre_status status = check_position(i32_at(state, AT_SEEDED), left, next);

    if (status != ACRE_OK)
        return status;
    for (size_t i = 0; i < MT_WORDS; i++) {
        uint64_t word = u64_at(state, AT_WORDS + 8 * i);

        if (word >> 32)
            return status_fail(ACRE_ERR_FORMAT,
                               "mt19937 state: word %zu at byte %zu exceeds 32 bits", i,
                               AT_WORDS + 8 * i);
        loaded.words[i] = (uint32_t)word;
    }
    loaded.left = (uint32_t)left;
    loaded.next = (uint32_t)next;
    memcpy(&loaded.normal64, state + AT_NORMAL64, 8);
    memcpy(&loaded.normal32, state + AT_NORMAL32, 4);
    loaded.has_normal64 = i32_at(state, AT_HAS_NORMAL64) != 0;
    loaded.has_normal32 = state[AT_HAS_NORMAL32] != 0;
    *engine = loaded;
    return ACRE_OK;
}
