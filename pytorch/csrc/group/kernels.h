/* SPDX-License-Identifier: MIT */
/* Reductions of plain host memory, for every type and operation that PyTorch's groups offer. */
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>

namespace acre_torch::group {

using Reduce = c10d::ReduceOp::RedOpType;

/* Refuses what cannot be reduced, with a sentence that names the operation and the type. */
void reduce_check(Reduce reduce, c10::ScalarType type);

/* out[i] = sources[0][i] op sources[1][i] op ..., in this order, so that every rank that reduces
 * the same sources gets the same bits. 16-bit floats are rounded after each operation. An average
 * divides the sum at the end. out may be one of the sources only if there are at most two. */
void reduce_run(void *out, const void *const *sources, int source_count, std::size_t count,
                Reduce reduce, c10::ScalarType type);

/* Divides count elements, as an average does. */
void average_run(void *data, std::size_t count, int divisor, c10::ScalarType type);

} /* namespace acre_torch::group */
