/* SPDX-License-Identifier: MIT */
#include "symmetric/place.h"

namespace acre_torch::symm {

/* Acre's type, or false. */
static bool dtype_find(c10::ScalarType type, acre_dtype *out)
{
    switch (type) {
    case at::kFloat: *out = ACRE_DTYPE_F32; return true;
    case at::kHalf: *out = ACRE_DTYPE_F16; return true;
    case at::kBFloat16: *out = ACRE_DTYPE_BF16; return true;
    case at::kInt: *out = ACRE_DTYPE_I32; return true;
    default: return false;
    }
}

InPlace::InPlace(const at::Tensor &tensor, c10d::ReduceOp::RedOpType reduce,
                 const std::string &group)
{
    using Op = c10d::ReduceOp;

    if (!acre_symm_contains(tensor.storage().data()) || (reduce != Op::SUM && reduce != Op::AVG) ||
        !dtype_find(tensor.scalar_type(), &dtype_))
        return;
    offset_ = static_cast<std::size_t>(tensor.storage_offset()) * tensor.element_size();
    count_ = static_cast<std::size_t>(tensor.numel());
    if (tensor.nbytes() % 4 != 0 || offset_ % 4 != 0)
        return;
    uint64_t number = 0;
    handle_ = handle_find(tensor.storage().mutable_data(), tensor.is_cpu(), group, &number);
    if (handle_)
        identity_ = number << 48 | (handle_->get_offset() + offset_ + 1);
}

void InPlace::all_reduce(std::chrono::milliseconds timeout) const
{
    acre_collective_options options = {};

    options.struct_size = sizeof options;
    options.algorithm = ACRE_ALGORITHM_TWO_SHOT;
    options.timeout_ms = static_cast<uint64_t>(timeout.count());
    symm_check(acre_symm_all_reduce(handle_->symm(), offset_, count_, dtype_, nullptr, &options),
               "all_reduce in symmetric memory");
}

} // namespace acre_torch::symm
