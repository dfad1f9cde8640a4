/* SPDX-License-Identifier: MIT */
#include "ops/exchange.h"

#include "device/allocator.h"
#include "device/scratch.h"

#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>

namespace acre_torch {
namespace {

/* From this many operands on, a table finds them. */
constexpr size_t many = 24;

/* A copy of the bytes of a CPU storage in memory of the device. */
c10::DataPtr memory_copy(c10::StorageImpl *from, size_t bytes, c10::Device device)
{
    void *pointer = memory_allocate(bytes, device.index());

    if (bytes && Windows::are_needed())
        Windows::memory_open(device.index(), pointer, bytes);
    if (bytes)
        std::memcpy(pointer, from->data(), bytes);
    if (bytes && Windows::are_needed())
        Windows::memory_close(device.index(), pointer, bytes);
    return {pointer, pointer, memory_deleter(), device};
}

/* Memory of the device for the bytes of a CPU storage, which gives its own away if it can. */
c10::DataPtr memory_place(c10::StorageImpl *from, c10::Device device)
{
    c10::DataPtr fresh = scratch_take(from->_mutable_data_ptr_no_checks(), device);

    if (fresh)
        return fresh;
    if (from->nbytes() == 0)
        return c10::DataPtr(nullptr, device);
    return memory_copy(from, from->nbytes(), device);
}

} // namespace

/* ---- In ------------------------------------------------------------------------------ */

size_t Exchange::memory_enter(const c10::Storage &storage, bool is_write)
{
    const c10::StorageImpl *impl = storage.unsafeGetStorageImpl();
    size_t found = memories_.size();

    if (memories_.size() < many) {
        for (size_t i = 0; i < memories_.size() && found == memories_.size(); i++)
            if (memories_[i].own.unsafeGetStorageImpl() == impl)
                found = i;
    } else {
        if (memory_index_.empty())
            for (size_t i = 0; i < memories_.size(); i++)
                memory_index_[memories_[i].own.unsafeGetStorageImpl()] = i;
        found = memory_index_.emplace(impl, found).first->second;
    }
    if (found == memories_.size()) {
        c10::Storage alias = alias_storage(storage, is_write);
        const void *data = alias.data();

        windows_.open(storage);
        memories_.push_back({storage, std::move(alias), data});
    } else if (is_write && memories_[found].own.mutable_data() != memories_[found].data) {
        /* The storage shared its memory copy-on-write until now. */
        Memory &memory = memories_[found];

        memory.data = memory.own.data();
        memory.alias.set_data_ptr_noswap(c10::DataPtr(memory.own.mutable_data(),
                                                      c10::Device(c10::DeviceType::CPU)));
        windows_.open(storage);
    }
    return found;
}

Exchange::Operand *Exchange::operand_of(const c10::TensorImpl *own)
{
    if (operands_.size() < many) {
        for (Operand &operand : operands_)
            if (operand.own.unsafeGetTensorImpl() == own)
                return &operand;
        return nullptr;
    }
    if (operand_index_.empty())
        for (size_t i = 0; i < operands_.size(); i++)
            operand_index_[operands_[i].own.unsafeGetTensorImpl()] = i;
    auto [found, is_new] = operand_index_.emplace(own, operands_.size());
    return is_new ? nullptr : &operands_[found->second];
}

at::Tensor Exchange::enter(const at::Tensor &tensor, bool is_write)
{
    if (!is_acre(tensor))
        return tensor;
    if (tensor.is_sparse())
        return sparse_enter(tensor, is_write);
    if (Operand *known = operand_of(tensor.unsafeGetTensorImpl())) {
        if (is_write && !known->is_write)
            memory_enter(tensor.storage(), true);
        known->is_write |= is_write;
        return known->alias;
    }
    size_t memory = memory_enter(tensor.storage(), is_write);
    at::Tensor alias = alias_on(memories_[memory].alias, tensor);
    operands_.push_back({tensor, alias, is_write});
    return alias;
}

/* A CPU tensor whose indices and values stand for those of a sparse tensor. */
at::Tensor Exchange::sparse_enter(const at::Tensor &tensor, bool is_write)
{
    at::SparseTensorImpl *own = at::sparse::get_sparse_impl(tensor);
    at::Tensor indices = enter(own->indices(), is_write);
    at::Tensor values = enter(own->values(), is_write);

    if (Operand *known = operand_of(own)) {
        known->is_write |= is_write;
        return known->alias;
    }
    at::Tensor alias = at::detail::make_tensor<at::SparseTensorImpl>(
        c10::DispatchKeySet(c10::DispatchKey::SparseCPU), tensor.dtype());
    at::SparseTensorImpl *impl = at::sparse::get_sparse_impl(alias);
    impl->raw_resize_(own->sparse_dim(), own->dense_dim(), tensor.sizes());
    impl->set_indices_and_values_unsafe(indices, values);
    impl->set_coalesced(own->coalesced());
    operands_.push_back({tensor, alias, is_write});
    return alias;
}

/* ---- Out ----------------------------------------------------------------------------- */

void Exchange::update()
{
    for (Memory &memory : memories_) {
        c10::StorageImpl *alias = memory.alias.unsafeGetStorageImpl();
        c10::StorageImpl *own = memory.own.unsafeGetStorageImpl();
        size_t bytes = alias->nbytes();

        if (alias->data() == memory.data && bytes == own->nbytes())
            continue;
        own->set_data_ptr_noswap(memory_place(alias, own->device()));
        own->set_nbytes(bytes);
    }
    for (Operand &operand : operands_)
        if (operand.is_write && operand.own.is_sparse())
            sparse_update(operand);
        else if (operand.is_write && !operand.own.is_nested() &&
                 (operand.own.sizes() != operand.alias.sizes() ||
                  operand.own.strides() != operand.alias.strides()))
            operand.own.unsafeGetTensorImpl()->set_sizes_and_strides(
                operand.alias.sizes(), operand.alias.strides(), operand.alias.storage_offset());
}

/* A sparse tensor takes over what its CPU tensor has become. */
void Exchange::sparse_update(const Operand &operand)
{
    at::SparseTensorImpl *from = at::sparse::get_sparse_impl(operand.alias);
    at::SparseTensorImpl *to = at::sparse::get_sparse_impl(operand.own);

    to->raw_resize_(from->sparse_dim(), from->dense_dim(), operand.alias.sizes());
    to->set_indices_and_values_unsafe(leave(from->indices()), leave(from->values()));
    to->set_coalesced(from->coalesced());
}

void Exchange::count(const at::Tensor &result)
{
    if (result.defined() && result.has_storage() && result.storage().use_count() > 1)
        result_counts_[result.storage().unsafeGetStorageImpl()]++;
}

Exchange::Operand *Exchange::operand_of_alias(const c10::TensorImpl *alias)
{
    if (operands_.size() < many) {
        for (Operand &operand : operands_)
            if (operand.alias.unsafeGetTensorImpl() == alias)
                return &operand;
        return nullptr;
    }
    if (alias_index_.empty())
        for (size_t i = 0; i < operands_.size(); i++)
            alias_index_[operands_[i].alias.unsafeGetTensorImpl()] = i;
    auto found = alias_index_.find(alias);
    return found == alias_index_.end() ? nullptr : &operands_[found->second];
}

/* Makes a result's memory that of the device, in place. False when the memory came from
 * elsewhere or somebody besides the results holds it. */
bool Exchange::memory_take(const at::Tensor &result)
{
    c10::StorageImpl *storage = result.storage().unsafeGetStorageImpl();
    size_t known = 1;

    if (result.use_count() != 1)
        return false;
    if (auto found = result_counts_.find(storage); found != result_counts_.end())
        known = found->second;
    if (static_cast<size_t>(result.storage().use_count()) != known)
        return false;
    c10::DataPtr taken = scratch_take(storage->_mutable_data_ptr_no_checks(), device_);
    if (!taken)
        return false;
    storage->set_data_ptr_noswap(std::move(taken));
    storage->set_allocator(allocator_get());
    return true;
}

at::Tensor Exchange::leave(at::Tensor result)
{
    if (!result.defined())
        return result;
    if (Operand *operand = operand_of_alias(result.unsafeGetTensorImpl()))
        return operand->own;
    if (result.is_sparse() && result.device().is_cpu())
        return sparse_leave(std::move(result));
    if (!result.device().is_cpu() || result.layout() != at::kStrided || !result.has_storage())
        return result;
    c10::StorageImpl *storage = result.storage().unsafeGetStorageImpl();
    for (Memory &memory : memories_)
        if (memory.alias.unsafeGetStorageImpl() == storage)
            return tensor_on(memory.own, result);
    auto found = placed_.find(storage);
    if (found != placed_.end())
        return tensor_on(found->second, result);
    c10::Storage place;
    if (memory_take(result)) {
        place = result.storage();
    } else {
        size_t bytes = storage->data() ? storage->nbytes() : 0;

        place = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
            c10::StorageImpl::use_byte_size_t(), bytes, memory_copy(storage, bytes, device_),
            allocator_get(), true));
    }
    if (result_counts_.count(storage))
        placed_[storage] = place;
    return tensor_on(std::move(place), result);
}

at::Tensor Exchange::sparse_leave(at::Tensor result)
{
    at::SparseTensorImpl *impl = at::sparse::get_sparse_impl(result);
    int64_t sparse_dim = impl->sparse_dim(), dense_dim = impl->dense_dim();
    std::vector<int64_t> sizes = result.sizes().vec();
    at::Tensor indices = impl->indices(), values = impl->values();
    bool is_coalesced = impl->coalesced();
    at::ScalarType type = result.scalar_type();

    result.reset(); /* the parts are ours alone when nobody else holds the result */
    indices = leave(std::move(indices));
    values = leave(std::move(values));
    c10::DeviceGuard guard(device_);
    return at::native::new_with_dims_and_tensor_sparse_symint(
        sparse_dim, dense_dim, c10::fromIntArrayRefSlow(sizes), indices, values, type,
        at::kSparse, device_, std::nullopt, is_coalesced);
}

} // namespace acre_torch
