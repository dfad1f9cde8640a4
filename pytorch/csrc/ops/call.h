/* SPDX-License-Identifier: MIT */
/* One call of a CPU kernel on behalf of the device: which CPU tensor stands for which tensor
 * of the device, and how results find their way back. */
#pragma once

#include "ops/window.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <unordered_map>
#include <vector>

namespace acre_torch {

class Call {
public:
    explicit Call(const c10::OperatorHandle &op) : op_(op) {}

    /* Finds the device that the call is for; refuses operands of several devices. */
    void find_device(const torch::jit::Stack &stack, size_t begin);
    c10::Device device() const
    {
        return device_;
    }

    /* Replaces what belongs to the device in the arguments from begin on. */
    void enter(torch::jit::Stack &stack, size_t begin);

    /* Gives results from begin on back, and tells arguments what the kernel changed. */
    void leave(torch::jit::Stack &stack, size_t begin);

private:
    /* A storage of the device and the CPU storage on its memory. */
    struct Memory {
        c10::Storage own;
        c10::Storage alias;
        const void *data; /* of the alias when it was made */
    };
    /* A tensor of the device and the CPU tensor that stands for it. */
    struct Operand {
        at::Tensor own;
        at::Tensor alias;
        bool is_write;
    };

    void see_tensor(const at::Tensor &tensor);
    void see_value(const c10::IValue &value);
    size_t memory_enter(const c10::Storage &storage, bool is_write);
    at::Tensor tensor_enter(const at::Tensor &tensor, bool is_write);
    void value_enter(c10::IValue &value, bool is_write);

    void operands_update();
    Operand *operand_find(const c10::TensorImpl *alias);
    at::Tensor tensor_leave(at::Tensor result);
    bool tensor_steal(const at::Tensor &result);
    void count_results(const torch::jit::Stack &stack, size_t begin);

    const c10::OperatorHandle &op_;
    c10::Device device_{c10::DeviceType::PrivateUse1, -1};
    bool has_device_ = false;
    at::Tensor host_; /* an operand on the host that is no scalar */
    Windows windows_;
    std::vector<Memory> memories_;
    std::vector<Operand> operands_;
    /* Filled when there are many; by address of what stands in the vectors above. */
    std::unordered_map<const void *, size_t> memory_index_, operand_index_, alias_index_;
    /* Storages that several results may share: how many do, and where they went. */
    std::unordered_map<const c10::StorageImpl *, size_t> result_counts_;
    std::unordered_map<const c10::StorageImpl *, c10::Storage> placed_;
};

} // namespace acre_torch
