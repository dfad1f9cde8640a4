/* SPDX-License-Identifier: MIT */
/* Every operator without a kernel of its own: the CPU kernel, on the same memory.
 *
 *   1. wait for the current stream of the device
 *   2. replace each tensor of the device by a CPU tensor on its memory
 *   3. run the CPU kernel; what it allocates comes from the device's cache
 *   4. give results back: an argument as itself, a view of an argument as a view, new memory
 *      as a tensor of the device; only memory from elsewhere is copied
 */
#include "ops/fallback.h"

#include "device/allocator.h"
#include "device/scratch.h"
#include "ops/alias.h"
#include "ops/call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace acre_torch {

void fallback(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack)
{
    const c10::FunctionSchema &schema = op.schema();
    size_t begin = stack->size() - schema.arguments().size();
    Call call(op);

    call.find_device(*stack, begin);
    TORCH_CHECK_NOT_IMPLEMENTED(
        op.hasComputedKernelForDispatchKey(call.key()), "Operator '",
        op.operator_name(), "' is not served on this device: PyTorch has no CPU kernel for it "
        "that could work on the device's memory.");
    capture_refuse(call.device().index(), schema.name().c_str());
    stream_settle(call.device().index());
    {
        c10::DeviceGuard device_guard(call.device());
        at::AutoDispatchBelowADInplaceOrView guard;
        Scratch scratch(call.device().index());

        call.enter(*stack, begin);
        op.redispatchBoxed(c10::DispatchKeySet(call.key()), stack);
    }
    call.leave(*stack, stack->size() - schema.returns().size());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

} // namespace acre_torch
