/* SPDX-License-Identifier: MIT */
/* Philox elements are made block by block: four floats, or two doubles, from
 * the four words of a block. Offsets are multiples of 4, so that element 0
 * always stands at the start of a block, and a pair of normals never straddles
 * two. The arithmetic is in double, so that no device rounds differently.
 */
#include "generator/numbers.h"

#include "base/check.h"
#include "generator/philox.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925286766559;

size_t numbers_element_bytes(acre_real_type type)
{
    return type == ACRE_REAL_F32 ? sizeof(float) : sizeof(double);
}

uint64_t numbers_words(const struct numbers *numbers, uint64_t count)
{
    uint64_t words = numbers->type == ACRE_REAL_F32 ? count : 2 * count;

    return numbers->is_normal ? words + (words & 1) : words;
}

/* Rounding must not turn a number below the upper bound into the bound. */
static float uniform_in32(const struct numbers *numbers, double unit)
{
    float low = (float)numbers->first, high = (float)numbers->second;
    float value = (float)(numbers->first + (numbers->second - numbers->first) * unit);

    return value >= high && low < high ? nextafterf(high, low) : value;
}

static double uniform_in64(const struct numbers *numbers, double unit)
{
    double low = numbers->first, high = numbers->second;
    double value = low + (high - low) * unit;

    return value >= high && low < high ? nextafter(high, low) : value;
}

static double normal_in(const struct numbers *numbers, double standard)
{
    return numbers->first + numbers->second * standard;
}

static uint64_t numbers_join64(uint32_t first, uint32_t second)
{
    return (uint64_t)first << 32 | second;
}

/* Two standard normals from two numbers of (0, 1). */
static void normal_pair(double radial, double angular, double *out_first, double *out_second)
{
    double radius = sqrt(-2 * log(radial)), angle = two_pi * angular;

    *out_first = radius * cos(angle);
    *out_second = radius * sin(angle);
}

/* The middle of the interval that a word stands for: never 0, never 1. */
static double numbers_open32(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

static double numbers_open64(uint64_t bits)
{
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

static void numbers_block32(const struct numbers *numbers, const uint32_t words[4], float out[4])
{
    for (int i = 0; i < 4 && !numbers->is_normal; i++)
        out[i] = uniform_in32(numbers, (double)acre_philox_uniform(words[i]));
    for (int i = 0; i < 4 && numbers->is_normal; i += 2) {
        double first, second;

        normal_pair(numbers_open32(words[i]), numbers_open32(words[i + 1]), &first, &second);
        out[i] = (float)normal_in(numbers, first);
        out[i + 1] = (float)normal_in(numbers, second);
    }
}

static void numbers_block64(const struct numbers *numbers, const uint32_t words[4], double out[2])
{
    uint64_t first = numbers_join64(words[0], words[1]),
             second = numbers_join64(words[2], words[3]);

    if (numbers->is_normal) {
        normal_pair(numbers_open64(first), numbers_open64(second), &out[0], &out[1]);
        out[0] = normal_in(numbers, out[0]);
        out[1] = normal_in(numbers, out[1]);
    } else {
        out[0] = uniform_in64(numbers, (double)(first >> 11) * 0x1p-53);
        out[1] = uniform_in64(numbers, (double)(second >> 11) * 0x1p-53);
    }
}

static void numbers_philox32(const struct numbers *numbers, uint64_t seed, uint64_t block,
                             uint64_t count, float *dst)
{
    for (uint64_t i = 0; i < count; i += 4) {
        uint32_t words[4];
        float made[4];

        philox_block_at(seed, block++, words);
        numbers_block32(numbers, words, made);
        for (uint64_t k = 0; k < 4 && i + k < count; k++)
            dst[i + k] = made[k];
    }
}

static void numbers_philox64(const struct numbers *numbers, uint64_t seed, uint64_t block,
                             uint64_t count, double *dst)
{
    for (uint64_t i = 0; i < count; i += 2) {
        uint32_t words[4];
        double made[2];

        philox_block_at(seed, block++, words);
        numbers_block64(numbers, words, made);
        for (uint64_t k = 0; k < 2 && i + k < count; k++)
            dst[i + k] = made[k];
    }
}

void numbers_philox(const struct numbers *numbers, uint64_t seed, uint64_t offset, uint64_t count,
                    void *dst)
{
    CHECK(offset % 4 == 0);
    if (numbers->type == ACRE_REAL_F32)
        numbers_philox32(numbers, seed, offset / 4, count, dst);
    else
        numbers_philox64(numbers, seed, offset / 4, count, dst);
}

static float mt_draw32(const struct numbers *numbers, struct mt19937 *engine)
{
    return numbers->is_normal ? (float)normal_in(numbers, (double)mt_normal32(engine))
                              : uniform_in32(numbers, (double)mt_uniform32(engine));
}

static double mt_draw64(const struct numbers *numbers, struct mt19937 *engine)
{
    return numbers->is_normal ? normal_in(numbers, mt_normal64(engine))
                              : uniform_in64(numbers, mt_uniform64(engine));
}

void numbers_mt(const struct numbers *numbers, struct mt19937 *engine, uint64_t count, void *dst)
{
    float *floats = dst;
    double *doubles = dst;

    for (uint64_t i = 0; i < count; i++) {
        if (numbers->type == ACRE_REAL_F32) {
            float value = mt_draw32(numbers, engine);

            if (floats)
                floats[i] = value;
        } else {
            double value = mt_draw64(numbers, engine);

            if (doubles)
                doubles[i] = value;
        }
    }
}
