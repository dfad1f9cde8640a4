/* SPDX-License-Identifier: MIT */
#include "ops/alias.h"

#include "device/scratch.h"
#include "device/status.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/ops/clone.h>
#include <c10/core/StorageImpl.h>

namespace acre_torch {

c10::Storage alias_storage(const c10::Storage &storage, bool is_write)
{
    c10::StorageImpl *impl = storage.unsafeGetStorageImpl();
    void *data = is_write ? impl->mutable_data() : const_cast<void *>(impl->data());

    return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), impl->nbytes(),
        c10::DataPtr(data, c10::Device(c10::DeviceType::CPU)), scratch_allocator(),
        impl->resizable()));
}

/* A nested tensor: shapes are small tensors on the host, whatever device the memory is on. */
static at::Tensor nested_shape(const at::Tensor &memory, const at::Tensor &like)
{
    const at::native::NestedTensorImpl *from = at::native::get_nested_tensor_impl(like);
    ScratchPause pause;

    return at::detail::make_tensor<at::native::NestedTensorImpl>(
        memory, from->get_nested_sizes().clone(), from->get_nested_strides().clone(),
        from->get_storage_offsets().clone());
}

static at::Tensor tensor_shape(c10::Storage storage, c10::DispatchKey key,
                               const at::Tensor &like)
{
    at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(key), like.dtype());
    c10::TensorImpl *impl = made.unsafeGetTensorImpl();

    if (like.is_nested()) {
        impl->set_sizes_contiguous(
            {static_cast<int64_t>(made.storage().nbytes() / like.dtype().itemsize())});
        return nested_shape(made, like);
    }
    impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    if (like.unsafeGetTensorImpl()->is_wrapped_number())
        impl->set_wrapped_number(true);
    if (like.is_conj())
        impl->_set_conj(true);
    if (like.is_neg())
        impl->_set_neg(true);
    return made;
}

at::Tensor alias_on(c10::Storage storage, const at::Tensor &like)
{
    return tensor_shape(std::move(storage), c10::DispatchKey::CPU, like);
}

at::Tensor tensor_on(c10::Storage storage, const at::Tensor &like)
{
    return tensor_shape(std::move(storage), c10::DispatchKey::PrivateUse1, like);
}

at::Tensor alias_make(const at::Tensor &tensor, bool is_write)
{
    return alias_on(alias_storage(tensor.storage(), is_write), tensor);
}

void stream_settle(int index)
{
    Runtime &here = runtime();
    acre_stream stream;

    if (!here.has_streams)
        return;
    status_check(acre_stream_current(here.type, index, &stream), "asking for a stream");
    status_check(acre_stream_synchronize(stream), "waiting for a stream");
}

void capture_refuse(int index, const char *name)
{
    auto info = sized<acre_capture_info>();
    info.struct_size = sizeof info;

    if (__builtin_expect(captures_open() == 0, 1))
        return;
    if (acre_capture_info_get(runtime().devices[index], current_native(index), &info) ==
            ACRE_OK && info.status != ACRE_CAPTURE_NONE)
        TORCH_CHECK(false, "Operator '", name, "' runs on the host and cannot be captured into "
                    "a graph; run it before or after the capture");
}

} // namespace acre_torch
