/* SPDX-License-Identifier: MIT */
/* Counts in sentences. */
#pragma once

#include <string>

namespace acre_torch {

/* A count with its noun: "1 rank", "2 ranks". */
template <class T>
std::string counted(T count, const char *noun)
{
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

} // namespace acre_torch
