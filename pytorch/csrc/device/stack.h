/* SPDX-License-Identifier: MIT */
/* Python stacks for the history of the caches.
 *
 * PyTorch's own unwinder gathers a stack; each different frame is kept once and known to Acre
 * by a number. Numbers of Python frames have the top bit set; others are return addresses. */
#pragma once

#include "device/runtime.h"

namespace acre_torch {

/* A source of Python stacks, and of native ones in front of them when has_native. */
TORCH_ACRE_API const acre_context_source *stack_source(bool has_native);

} // namespace acre_torch
