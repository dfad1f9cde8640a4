/* SPDX-License-Identifier: MIT */
/* Factories, and the operators that change a tensor's shape or storage without its bytes. */
#include "device/allocator.h"
#include "ops/alias.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <torch/library.h>

namespace acre_torch {
namespace {

constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);

c10::Device device_check(std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory)
{
    c10::Device where = device.value_or(c10::Device(c10::DeviceType::PrivateUse1));
    int count = runtime().count;

    TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided,
                "only strided tensors can be made here, not ", layout.value());
    TORCH_CHECK(!pin_memory.value_or(false), "Pin memory can only be on CPU");
    TORCH_CHECK(where.is_privateuseone(), "expected a device of this backend, got ", where);
    TORCH_CHECK(where.index() < count, "The device index is out of range. It must be in [0, ",
                count, "), but got ", static_cast<int>(where.index()), ".");
    return where;
}

/* With deterministic algorithms, memory that nobody wrote holds what PyTorch says. */
at::Tensor known_fill(at::Tensor made)
{
    const at::Context &context = at::globalContext();

    if (C10_UNLIKELY(context.deterministicAlgorithms() &&
                     context.deterministicFillUninitializedMemory()))
        at::native::fill_empty_deterministic_(made);
    return made;
}

at::Tensor empty_memory_format(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout,
                               std::optional<at::Device> device, std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> format)
{
    c10::OptionalDeviceGuard guard;
    c10::Device where = device_check(layout, device, pin_memory);

    if (where.has_index())
        guard.reset_device(where);
    return known_fill(at::detail::empty_generic(size, allocator_get(), keys,
                                                c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory)
{
    c10::OptionalDeviceGuard guard;
    c10::Device where = device_check(layout, device, pin_memory);

    if (where.has_index())
        guard.reset_device(where);
    return known_fill(at::detail::empty_strided_generic(size, stride, allocator_get(), keys,
                                                        c10::dtype_or_default(dtype)));
}

const at::Tensor &resize(const at::Tensor &self, c10::IntArrayRef size,
                         std::optional<at::MemoryFormat> format)
{
    c10::TensorImpl *impl = self.unsafeGetTensorImpl();
    size_t bytes = at::detail::computeStorageNbytesContiguous(
        size, self.dtype().itemsize(), self.storage_offset());

    TORCH_CHECK(format.value_or(at::MemoryFormat::Contiguous) != at::MemoryFormat::Preserve,
                "Unsupported memory format ", *format);
    if (self.sizes() == size && !format.has_value())
        return self;
    int64_t before = static_cast<int64_t>(self.storage().nbytes());
    if (bytes > self.storage().nbytes())
        storage_resize(self.storage().unsafeGetStorageImpl(), bytes);
    impl->set_sizes_contiguous(size);
    if (format.has_value())
        impl->empty_tensor_restride(*format);
    if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() &&
                     at::globalContext().deterministicFillUninitializedMemory()))
        at::native::fill_resize_deterministic_(self, before);
    return self;
}

at::Tensor &set_storage(at::Tensor &self, at::Storage source, int64_t offset,
                        c10::IntArrayRef size, c10::IntArrayRef stride)
{
    c10::TensorImpl *impl = self.unsafeGetTensorImpl();
    size_t item = self.dtype().itemsize();
    size_t bytes = stride.data()
        ? at::detail::computeStorageNbytes(size, stride, item, offset)
        : at::detail::computeStorageNbytesContiguous(size, item, offset);

    at::native::checkSetStorage(self, source, offset, size, stride);
    if (bytes > self.storage().nbytes())
        storage_resize(self.storage().unsafeGetStorageImpl(), bytes);
    impl->set_storage_offset(offset);
    if (stride.data())
        impl->set_sizes_and_strides(size, stride);
    else
        impl->set_sizes_contiguous(size);
    return self;
}

at::Tensor &set_source(at::Tensor &self, at::Storage source)
{
    int64_t count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());

    return set_storage(self, std::move(source), 0, {count}, {});
}

/* Zeros without memory, as autograd makes them. */
at::Tensor zeros_without_memory(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                std::optional<at::Layout> layout,
                                std::optional<at::Device> device, std::optional<bool> pin_memory)
{
    c10::Device where = device_check(layout, device, pin_memory);

    if (!where.has_index())
        where.set_index(static_cast<c10::DeviceIndex>(current_index()));
    at::native::ZeroTensorAllocator allocator(where);
    at::Tensor made = at::detail::empty_generic(
        size, &allocator, keys.add(c10::DispatchKey::ZeroTensor),
        c10::dtype_or_default(dtype), std::nullopt);
    return made;
}

void record_stream(at::Tensor &self, c10::Stream stream)
{
    memory_record_stream(self.storage().data_ptr(), stream);
}

bool has_compatible_shallow_copy_type(const at::Tensor &self, const at::Tensor &from)
{
    return true;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("empty.memory_format", empty_memory_format);
    m.impl("empty_strided", empty_strided);
    m.impl("_efficientzerotensor", zeros_without_memory);
    m.impl("as_strided", at::native::as_strided_tensorimpl);
    m.impl("view", at::native::view);
    m.impl("_reshape_alias", at::native::_reshape_alias);
    m.impl("unfold", at::native::unfold);
    m.impl("view_as_real", at::native::view_as_real);
    m.impl("view_as_complex", at::native::view_as_complex);
    m.impl("resize_", resize);
    m.impl("set_.source_Tensor", at::native::set_tensor_);
    m.impl("set_.source_Storage", set_source);
    m.impl("set_.source_Storage_storage_offset", set_storage);
    m.impl("set_", at::native::set_cpu_);
    m.impl("record_stream", record_stream);
    m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

} // namespace
} // namespace acre_torch
