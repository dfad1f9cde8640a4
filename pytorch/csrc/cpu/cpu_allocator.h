/* SPDX-License-Identifier: MIT */
/* CPU tensors from a heap of host memory. */
#pragma once

#include "device/runtime.h"

#include <acre/hostmem.h>

#include <cstdint>

namespace acre_torch {

/* Makes PyTorch allocate CPU tensors from a heap that lives as long as the process. The
 * first call keeps PyTorch's own allocator for cpu_disable. */
TORCH_ACRE_API void cpu_enable(acre_hostmem *heap);

/* Makes PyTorch's own allocator serve again. Tensors of the heap are freed there. */
TORCH_ACRE_API void cpu_disable();

/* Address of a function of the library that this extension uses: two copies of the library
 * in one process have different ones, and must not exchange heaps. */
TORCH_ACRE_API uintptr_t cpu_library_mark();

} // namespace acre_torch
