/* SPDX-License-Identifier: MIT */
#include "cache/size.h"

#include "base/check.h"

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
