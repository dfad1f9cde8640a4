/* SPDX-License-Identifier: MIT */
/* Runs an operator's CPU kernel on the memory of the device. */
#pragma once

#include "device/runtime.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace acre_torch {

/* Registers the fallback for operators that PyTorch would decompose otherwise; once, after
 * the kernels of this library are registered. */
TORCH_ACRE_API void fallback_serve();

void fallback(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);

} // namespace acre_torch
