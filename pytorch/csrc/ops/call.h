/* SPDX-License-Identifier: MIT */
/* The arguments and results of an operator that runs on the host for the device. */
#pragma once

#include "ops/exchange.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace acre_torch {

class Call {
public:
    explicit Call(const c10::OperatorHandle &op) : op_(op) {}

    /* Finds the device that the call is for. Refuses operands of several devices, and
     * operands on the host except scalars and what the operator wants there. */
    void find_device(const torch::jit::Stack &stack, size_t begin);
    c10::Device device() const
    {
        return device_;
    }
    /* The CPU's key for these arguments. */
    c10::DispatchKey key() const
    {
        return has_sparse_   ? c10::DispatchKey::SparseCPU
               : has_nested_ ? c10::DispatchKey::NestedTensorCPU
                             : c10::DispatchKey::CPU;
    }

    /* Replaces what belongs to the device in the arguments from begin on. */
    void enter(torch::jit::Stack &stack, size_t begin);

    /* Gives results from begin on back, and tells arguments what the kernel changed. */
    void leave(torch::jit::Stack &stack, size_t begin);

private:
    void see_tensor(const at::Tensor &tensor, bool is_write);
    void see_value(const c10::IValue &value, bool is_write);
    void indexed_check(const torch::jit::Stack &stack, size_t begin) const;
    at::Tensor tensor_enter(const at::Tensor &tensor, bool is_write);
    void result_check(const at::Tensor &result) const;
    void value_enter(c10::IValue &value, bool is_write);

    const c10::OperatorHandle &op_;
    Exchange exchange_;
    c10::Device device_{c10::DeviceType::PrivateUse1, -1};
    bool has_device_ = false;
    bool has_host_ = false; /* one on the host that is written or no scalar */
    bool has_sparse_ = false; /* an operand of layout sparse            */
    bool has_nested_ = false; /* an operand of tensors of several sizes */
};

} // namespace acre_torch
