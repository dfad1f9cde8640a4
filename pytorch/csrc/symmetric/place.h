/* SPDX-License-Identifier: MIT */
/* A tensor of a process group that may lie in symmetric memory of that group. */
#pragma once

#include "symmetric/handle.h"

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <chrono>

namespace acre_torch::symm {

class InPlace {
  public:
    /* Looks whether the tensor lies in a block that met the group, and whether Acre's collectives
     * know its type and the reduction. */
    InPlace(const at::Tensor &tensor, c10d::ReduceOp::RedOpType reduce, const std::string &group);

    /* Equal on all ranks for one place in one block; 0: not in symmetric memory. */
    uint64_t identity() const { return identity_; }
    /* Sums the tensor where it lies; called by all ranks. */
    void all_reduce(std::chrono::milliseconds timeout) const;

  private:
    c10::intrusive_ptr<AcreSymmetricMemory> handle_;
    std::size_t offset_ = 0, count_ = 0;
    acre_dtype dtype_ = ACRE_DTYPE_F32;
    uint64_t identity_ = 0;
};

/* A handle that a rendezvous of a block with a group gave, and its number among the group's;
 * null when there was none. ptr is the storage's. */
c10::intrusive_ptr<AcreSymmetricMemory> handle_find(void *ptr, bool is_cpu,
                                                    const std::string &group,
                                                    uint64_t *out_number);

} // namespace acre_torch::symm
