/* SPDX-License-Identifier: MIT */
/* CPU tensors on the memory of the device, and the way back. */
#pragma once

#include "device/runtime.h"

#include <ATen/core/Tensor.h>

namespace acre_torch {

inline bool is_acre(const at::Tensor &tensor)
{
    return tensor.defined() && tensor.device().is_privateuseone();
}

/* A CPU storage on the memory of a storage of the device; it owns nothing. A write makes
 * memory that is shared copy-on-write the storage's own first. */
c10::Storage alias_storage(const c10::Storage &storage, bool is_write);

/* A CPU tensor on a CPU storage, with sizes, strides and flags of another tensor. */
at::Tensor alias_on(c10::Storage storage, const at::Tensor &like);

/* A CPU tensor on the memory of a tensor. */
at::Tensor alias_make(const at::Tensor &tensor, bool is_write);

/* A tensor of the device on a storage of the device, shaped as another tensor. */
at::Tensor tensor_on(c10::Storage storage, const at::Tensor &like);

/* Waits until the device's current stream has done its work, so that the host may touch
 * memory that the stream used. */
TORCH_ACRE_API void stream_settle(int index);

/* Refuses when a graph is being captured on the device's current stream. */
void capture_refuse(int index, const char *name);

} // namespace acre_torch
