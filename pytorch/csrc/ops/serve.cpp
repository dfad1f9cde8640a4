/* SPDX-License-Identifier: MIT */
/* Which operators take the fallback although PyTorch could decompose them.
 *
 * An operator with a kernel for the CPU may also have a decomposition for all devices, which
 * rounds differently or starts several operators. The device takes the CPU kernel, so that
 * results are those of the CPU to the bit. */
#include "ops/autocast.h"
#include "ops/fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <mutex>

namespace acre_torch {
namespace {

/* Decompositions that choose their kernels by the device; the CPU's choice is wanted. */
constexpr const char *chosen_by_device[] = {
    "aten::convolution", "aten::convolution_backward", "aten::_convolution",
};

bool is_decomposed(const c10::OperatorHandle &op)
{
    return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
           op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
           op.hasKernelForDispatchKey(
               c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
}

/* Registers the fallback for what the CPU computes on tensors of another kind. */
void kind_serve(c10::DispatchKey cpu, c10::DispatchKey own)
{
    auto *library =
        new torch::Library(torch::Library::IMPL, "aten", own, __FILE__, __LINE__);
    auto &dispatcher = c10::Dispatcher::singleton();

    for (const c10::OperatorName &name : dispatcher.getAllOpNames()) {
        auto op = dispatcher.findOp(name);

        if (name.name.compare(0, 6, "aten::") == 0 && op && op->hasSchema() &&
            op->hasKernelForDispatchKey(cpu) && !op->hasKernelForDispatchKey(own))
            library->impl(c10::toString(name).c_str(),
                          torch::CppFunction::makeFromBoxedFunction<&fallback>());
    }
}

bool is_chosen(const std::string &name)
{
    for (const char *chosen : chosen_by_device)
        if (name == chosen)
            return true;
    return false;
}

} // namespace

void fallback_serve()
{
    static std::once_flag once;

    std::call_once(once, [] {
        autocast_serve();
        kind_serve(c10::DispatchKey::SparseCPU, c10::DispatchKey::SparsePrivateUse1);
        kind_serve(c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::NestedTensorPrivateUse1);
        /* Kept for ever: a library that goes takes its kernels along. */
        auto *library = new torch::Library(torch::Library::IMPL, "aten",
                                           c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
        auto &dispatcher = c10::Dispatcher::singleton();

        for (const c10::OperatorName &name : dispatcher.getAllOpNames()) {
            auto op = dispatcher.findOp(name);

            if (name.name.compare(0, 6, "aten::") != 0 || !op || !op->hasSchema() ||
                op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
                continue;
            if (is_chosen(name.name) ||
                (op->hasKernelForDispatchKey(c10::DispatchKey::CPU) && is_decomposed(*op)))
                library->impl(c10::toString(name).c_str(),
                              torch::CppFunction::makeFromBoxedFunction<&fallback>());
        }
    });
}

} // namespace acre_torch
