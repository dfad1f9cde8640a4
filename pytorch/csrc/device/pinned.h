/* SPDX-License-Identifier: MIT */
/* Page-locked host memory as the rest of the glue uses it. */
#pragma once

#include "device/runtime.h"

#include <c10/core/Allocator.h>

namespace acre_torch {

/* The cache of page-locked memory. Throws when the backend has none. */
TORCH_ACRE_API acre_pinned *pinned_get();

/* Keeps page-locked memory until work that is queued on a stream is done; false for memory
 * that is not ours. */
TORCH_ACRE_API bool pinned_record(const c10::DataPtr &pointer, const c10::Stream &stream);

/* Whether memory is page-locked, ours or the user's. */
TORCH_ACRE_API bool pinned_is(const void *pointer);

} // namespace acre_torch
