/* SPDX-License-Identifier: MIT */
/* Tensors of the device as CPU tensors on the same memory, and results on their way back.
 *
 *   enter    a CPU tensor stands for a tensor of the device; two tensors on one storage get CPU
 *            tensors on one storage, so that kernels see what overlaps
 *   update   tells the tensors of the device when a kernel gave theirs another size
 *   leave    an argument comes back as itself, a view of an argument as a view, new memory as
 *            a tensor of the device; only memory from elsewhere is copied
 *
 * A sparse tensor (COO) goes as its indices and values do, a nested one as its memory does.
 */
#pragma once

#include "ops/alias.h"
#include "ops/window.h"

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

namespace acre_torch {

class Exchange {
public:
    /* The CPU tensor that stands for a tensor of the device; others are given as they are. */
    at::Tensor enter(const at::Tensor &tensor, bool is_write = false);

    /* Where results go. */
    void device_set(c10::Device device)
    {
        device_ = device;
    }
    c10::Device device() const
    {
        return device_;
    }

    /* Takes over what kernels changed about the tensors that were entered for writing. */
    void update();

    /* Says that a result exists, before any of them leaves. */
    void count(const at::Tensor &result);

    /* A result as a tensor of the device; the caller gives its reference away. */
    at::Tensor leave(at::Tensor result);

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

    size_t memory_enter(const c10::Storage &storage, bool is_write);
    at::Tensor sparse_enter(const at::Tensor &tensor, bool is_write);
    void sparse_update(const Operand &operand);
    at::Tensor sparse_leave(at::Tensor result);
    Operand *operand_of(const c10::TensorImpl *own);
    Operand *operand_of_alias(const c10::TensorImpl *alias);
    bool memory_take(const at::Tensor &result);

    c10::Device device_{c10::DeviceType::PrivateUse1, 0};
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
