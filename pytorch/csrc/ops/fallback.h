/* SPDX-License-Identifier: MIT */
/* Runs an operator's CPU kernel on the memory of the device. */
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace acre_torch {

void fallback(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);

} // namespace acre_torch
