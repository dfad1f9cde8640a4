/* SPDX-License-Identifier: MIT */
/* One measure of Acre's statistics as PyTorch keeps it. */
#pragma once

#include <acre/allocator.h>

#include <c10/core/Allocator.h>

namespace acre_torch {

inline void stat_fill(c10::CachingAllocator::Stat &to, const acre_stat &from)
{
    to.current = from.current;
    to.peak = from.peak;
    to.allocated = from.allocated;
    to.freed = from.freed;
}

} // namespace acre_torch
