/* SPDX-License-Identifier: MIT */
/* Sparse tensors (COO): what concerns their parts only, whatever device these are on. What
 * computes goes through the fallback, which runs the CPU kernel on indices and values. */
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_dimI_native.h>
#include <ATen/ops/_dimV_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/resize_as_sparse_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/sparse_resize_and_clear_native.h>
#include <ATen/ops/sparse_resize_native.h>
#include <ATen/ops/values_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace acre_torch {
namespace {

using Type = std::optional<at::ScalarType>;
using Layout = std::optional<at::Layout>;
using Device = std::optional<at::Device>;
using Format = std::optional<at::MemoryFormat>;

/* A sparse tensor without elements is of the device that is current when it is made. */
at::Tensor sparse_empty(c10::IntArrayRef size, Type type, Layout layout, Device device,
                        std::optional<bool> pin_memory, Format format)
{
    c10::OptionalDeviceGuard guard(device);

    return at::native::empty_sparse(size, type, layout, device, pin_memory, format);
}

at::Tensor sparse_empty_like(const at::Tensor &self, Type type, Layout layout, Device device,
                             std::optional<bool> pin_memory, Format format)
{
    c10::DeviceGuard guard(device.value_or(self.device()));

    return at::native::empty_like_sparse_coo(self, type, layout, device, pin_memory, format);
}

at::Tensor sparse_with_dims(int64_t sparse_dim, int64_t dense_dim, c10::IntArrayRef size,
                            Type type, Layout layout, Device device,
                            std::optional<bool> pin_memory)
{
    c10::OptionalDeviceGuard guard(device);

    return at::native::new_with_dims_sparse(sparse_dim, dense_dim, size, type, layout, device,
                                            pin_memory);
}

at::Tensor sparse_with_tensors(int64_t sparse_dim, int64_t dense_dim, c10::SymIntArrayRef size,
                               const at::Tensor &indices, const at::Tensor &values, Type type,
                               Layout layout, Device device, std::optional<bool> pin_memory,
                               std::optional<bool> is_coalesced)
{
    c10::DeviceGuard guard(values.device());

    return at::native::new_with_dims_and_tensor_sparse_symint(
        sparse_dim, dense_dim, size, indices, values, type, layout, device, pin_memory,
        is_coalesced);
}

at::Tensor sparse_clone(const at::Tensor &self, Format format)
{
    c10::DeviceGuard guard(self.device());

    return at::native::clone_sparse(self, format);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m)
{
    m.impl("empty.memory_format", sparse_empty);
    m.impl("empty_like", sparse_empty_like);
    m.impl("_sparse_coo_tensor_with_dims", sparse_with_dims);
    m.impl("_sparse_coo_tensor_with_dims_and_tensors", sparse_with_tensors);
    m.impl("_indices", at::native::_indices_sparse);
    m.impl("_values", at::native::_values_sparse);
    m.impl("indices", at::native::indices_sparse);
    m.impl("values", at::native::values_sparse);
    m.impl("sparse_dim", at::native::sparse_dim_sparse);
    m.impl("_dimI", at::native::sparse_dim_sparse);
    m.impl("dense_dim", at::native::dense_dim_sparse);
    m.impl("_dimV", at::native::dense_dim_sparse);
    m.impl("_nnz", at::native::_nnz_sparse);
    m.impl("is_coalesced", at::native::is_coalesced_sparse);
    m.impl("_coalesced_", at::native::_coalesced_sparse_);
    m.impl("clone", sparse_clone);
    m.impl("copy_", at::native::copy_sparse_wrapper_);
    m.impl("copy_sparse_to_sparse_", at::native::copy_sparse_);
    m.impl("sparse_resize_", at::native::sparse_resize_);
    m.impl("sparse_resize_and_clear_", at::native::sparse_resize_and_clear_);
    m.impl("resize_as_sparse_", at::native::resize_as_sparse_);
}

} // namespace
} // namespace acre_torch
