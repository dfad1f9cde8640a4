/* SPDX-License-Identifier: MIT */
/* What nearly every file of libtorch_acre.so includes, compiled once. */
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <acre/acre.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>
