/* SPDX-License-Identifier: MIT */
/* Graphs under the name of the backend. */
#pragma once

#include "device/runtime.h"

namespace acre_torch {

/* Registers graphs for a backend; PyTorch looks for its name in capitals. */
TORCH_ACRE_API void graph_serve(const std::string &name);

} // namespace acre_torch
