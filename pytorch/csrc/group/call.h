/* SPDX-License-Identifier: MIT */
/* One call of a process group, as far as the other ranks are concerned. */
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace acre_torch::group {

/* What all ranks must agree on. */
struct Agreement {
    uint32_t op = 0;     /* c10d::OpType                                     */
    int32_t type = -1;   /* c10::ScalarType; -1: none                        */
    int32_t reduce = -1; /* ReduceOp; -1: none                               */
    int32_t root = -1;   /* -1: none                                         */
    uint64_t count = 0;  /* of elements; 0 where ranks may differ            */
    uint64_t symmetric = 0; /* which symmetric memory holds the tensor; 0: none.
                               Ranks need not agree on it: it is not in the digest */
    uint64_t sequence = 0; /* for messages only                             */

    /* 24 bits that differ when agreements do, but for one chance in 16 million. */
    uint64_t digest() const;
    std::string text() const;
};

struct Call {
    const char *name; /* of PyTorch's function, for messages */
    Agreement agreed;
    std::chrono::milliseconds timeout;
    std::chrono::steady_clock::time_point deadline;
    uint64_t digest;

    Call(const char *name, const Agreement &agreed, std::chrono::milliseconds timeout);
    /* The same call about one tensor of several. */
    Call about(const Agreement &part) const;
    bool is_late() const { return std::chrono::steady_clock::now() >= deadline; }
    /* "all_reduce (sequence number 17)" */
    std::string title() const;
};

} // namespace acre_torch::group
