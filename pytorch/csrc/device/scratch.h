/* SPDX-License-Identifier: MIT */
/* CPU memory that comes from a device's cache while a CPU kernel works for that device.
 *
 * PyTorch's CPU kernels allocate their results through the CPU allocator. An allocator in
 * front of it serves the thread from a device's cache while a Scratch is in scope; results
 * then become tensors of the device without a copy. Elsewhere it passes requests on.
 */
#pragma once

#include "device/runtime.h"

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

namespace acre_torch {

/* Serves the calling thread's CPU allocations from a device while it lives; nests. */
class Scratch {
public:
    explicit Scratch(int index);
    ~Scratch();
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

private:
    int previous_;
};

/* Serves the thread from the plain CPU allocator again while it lives. */
class ScratchPause : Scratch {
public:
    ScratchPause() : Scratch(-1) {}
};

/* Works with scratch memory that outlives the call which allocated it, such as what a graph
 * saves for its gradients. With ACRE_TORCH_STRICT=1 the host reaches what belongs to an owner
 * only while one of these lives for that owner; what this thread allocates meanwhile belongs to
 * it too. Nests. */
class ScratchOwner {
public:
    explicit ScratchOwner(const void *owner);
    ~ScratchOwner();
    ScratchOwner(const ScratchOwner &) = delete;
    ScratchOwner &operator=(const ScratchOwner &) = delete;

private:
    const void *owner_;
    const void *previous_;
};

/* Puts the allocator in front of the CPU allocator; once, when the runtime starts. */
void scratch_install();

/* The allocator in front, and what it passes other requests on to. A library that replaces
 * the CPU allocator hands its own to scratch_base_set() instead of registering it; before the
 * runtime starts, that registers it. */
TORCH_ACRE_API c10::Allocator *scratch_allocator();
TORCH_ACRE_API c10::Allocator *scratch_base();
TORCH_ACRE_API void scratch_base_set(c10::Allocator *base);

/* Takes memory that a Scratch served out of its data pointer, as memory of the device. The
 * result is empty when the memory came from elsewhere; the data pointer then keeps it. */
c10::DataPtr scratch_take(c10::DataPtr &from, c10::Device device);

} // namespace acre_torch
