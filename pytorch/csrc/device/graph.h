/* SPDX-License-Identifier: MIT */
/* Graphs under the name of the backend. */
#pragma once

#include "device/runtime.h"

namespace acre_torch {

/* Called before a fill on the current stream of a device: while that captures into a graph, the
 * generator becomes part of the graph. */
void graph_draw(acre_generator *generator, int index);

/* Registers graphs for a backend; PyTorch looks for its name in capitals. */
TORCH_ACRE_API void graph_serve(const std::string &name);

} // namespace acre_torch
