/* SPDX-License-Identifier: MIT */
/* Nested tensors: what concerns their shapes, which stay on the host, and copies. What
 * computes goes through the fallback, which runs the CPU kernel on the same memory. */
#include <ATen/ops/_nested_tensor_size_native.h>
#include <ATen/ops/_nested_tensor_storage_offsets_native.h>
#include <ATen/ops/_nested_tensor_strides_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/detach_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/is_same_size_native.h>
#include <torch/library.h>

namespace acre_torch {
namespace {

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m)
{
    m.impl("_nested_tensor_size", at::native::_nested_tensor_size);
    m.impl("_nested_tensor_strides", at::native::_nested_tensor_strides);
    m.impl("_nested_tensor_storage_offsets", at::native::_nested_tensor_storage_offsets);
    m.impl("_to_copy", at::native::_to_copy_nested);
    m.impl("alias", at::native::alias_nested);
    m.impl("clone", at::native::clone_nested);
    m.impl("copy_", at::native::copy_nested_);
    m.impl("detach", at::native::detach);
    m.impl("empty_like", at::native::empty_like_nested);
    m.impl("is_same_size", at::native::nested_is_same_size);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_nested_view_from_buffer", at::native::_nested_view_from_buffer);
}

} // namespace
} // namespace acre_torch
