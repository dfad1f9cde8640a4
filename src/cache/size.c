/* SPDX-License-Identifier: MIT */
#include "cache/size.h"

#include "base/check.h"

unsigned size_divisions(const struct cache_conf *conf, size_t bytes)
{
    unsigned log2 = bit_high(bytes), index;

    index = log2 <= 20 ? 0 : log2 - 20;
    if (index >= CONF_DIVISION_COUNT)
        index = CONF_DIVISION_COUNT - 1;
    return conf->divisions[index];
}

size_t size_round_division(size_t bytes, unsigned divisions)
{
    CHECK(divisions > 1 && is_power_of_two(divisions));
    if (is_power_of_two(bytes))
        return bytes;
    size_t floor = (size_t)1 << bit_high(bytes);
    size_t step = floor >> bit_high(divisions);
    if (!step)
        return floor << 1;
    return round_up(bytes, step);
}

size_t size_segment(const struct cache_conf *conf, size_t rounded)
{
    if (rounded <= SIZE_SMALL_MAX)
        return SIZE_SMALL_SEGMENT;
    if (rounded < SIZE_LARGE_MIN)
        return conf->large_segment_bytes;
    return round_up(rounded, SIZE_LARGE_UNIT);
}
