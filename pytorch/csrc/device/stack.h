/* SPDX-License-Identifier: MIT */
/* Python stacks for the history of the caches.
 *
 * PyTorch's own unwinder gathers a stack where memory is allocated or freed. Equal stacks are one
 * object, which the history counts and whose frames it names in snapshots. */
#pragma once

#include "device/runtime.h"

namespace acre_torch {

/* Python stacks as objects behind entries, with native frames in front when has_native. */
TORCH_ACRE_API const acre_context_objects *stack_objects(bool has_native);

} // namespace acre_torch
