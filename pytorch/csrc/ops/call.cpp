/* SPDX-License-Identifier: MIT */
#include "ops/call.h"

#include "device/allocator.h"
#include "device/generator.h"
#include "device/scratch.h"
#include "ops/alias.h"

#include <ATen/ops/empty_strided.h>

#include <cstring>
#include <string_view>

namespace acre_torch {
namespace {

/* From this many operands on, a table finds them. */
constexpr size_t many = 24;

/* Operators that take tensors of the host beside those of the device, as on other
 * accelerators: indices, lengths, and steps of optimizers. */
bool takes_host(std::string_view name)
{
    static constexpr std::string_view prefixes[] = {
        "aten::index", "aten::_index_put_impl_", "aten::_unsafe_index", "aten::_unsafe_masked",
        "aten::_pack_padded", "aten::_pad_packed", "aten::lstm", "aten::gru", "aten::rnn",
        "aten::_ctc_loss", "aten::ctc_loss", "aten::_fused_", "aten::_foreach_",
        "aten::segment_reduce", "aten::_segment_reduce", "aten::_thnn_",
    };

    for (std::string_view prefix : prefixes)
        if (name.starts_with(prefix))
            return true;
    return false;
}

} // namespace

/* ---- The device ---------------------------------------------------------------------- */

void Call::see_tensor(const at::Tensor &tensor)
{
    if (!tensor.defined())
        return;
    if (!tensor.device().is_privateuseone()) {
        if (tensor.dim() > 0 && tensor.device().is_cpu())
            host_ = tensor;
        return;
    }
    if (!has_device_) {
        has_device_ = true;
        device_ = tensor.device();
    }
    TORCH_CHECK(device_ == tensor.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                device_, " and ", tensor.device(), "! (when checking arguments of ",
                op_.operator_name(), ")");
}

void Call::see_value(const c10::IValue &value)
{
    if (value.isTensor()) {
        see_tensor(value.toTensor());
    } else if (value.isTensorList()) {
        for (const at::Tensor &tensor : value.toTensorList())
            see_tensor(tensor);
    } else if (value.isOptionalTensorList()) {
        for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorList())
            if (tensor)
                see_tensor(*tensor);
    }
}

void Call::find_device(const torch::jit::Stack &stack, size_t begin)
{
    for (size_t i = begin; i < stack.size(); i++)
        see_value(stack[i]);
    for (size_t i = begin; !has_device_ && i < stack.size(); i++)
        if (stack[i].isDevice() && stack[i].toDevice().is_privateuseone()) {
            has_device_ = true;
            device_ = stack[i].toDevice();
        }
    if (!device_.has_index())
        device_.set_index(static_cast<c10::DeviceIndex>(current_index()));
    TORCH_CHECK(!host_.defined() || takes_host(op_.schema().name()),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                device_, " and cpu! (when checking arguments of ", op_.operator_name(), ")");
}

/* ---- Arguments ----------------------------------------------------------------------- */

size_t Call::memory_enter(const c10::Storage &storage, bool is_write)
{
    const c10::StorageImpl *impl = storage.unsafeGetStorageImpl();

    if (memories_.size() < many) {
        for (size_t i = 0; i < memories_.size(); i++)
            if (memories_[i].own.unsafeGetStorageImpl() == impl) {
                if (is_write)
                    memories_[i].own.mutable_data();
                return i;
            }
    } else {
        if (memory_index_.empty())
            for (size_t i = 0; i < memories_.size(); i++)
                memory_index_[memories_[i].own.unsafeGetStorageImpl()] = i;
        auto found = memory_index_.find(impl);
        if (found != memory_index_.end())
            return found->second;
        memory_index_[impl] = memories_.size();
    }
    c10::Storage alias = alias_storage(storage, is_write);
    windows_.open(storage);
    const void *data = alias.data();
    memories_.push_back({storage, std::move(alias), data});
    return memories_.size() - 1;
}

at::Tensor Call::tensor_enter(const at::Tensor &tensor, bool is_write)
{
    const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();

    if (!is_acre(tensor))
        return tensor;
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.has_storage() && tensor.layout() == at::kStrided,
                                "Operator '", op_.operator_name(), "' is not served on this "
                                "device for tensors of layout ", tensor.layout(), ".");
    if (operands_.size() < many) {
        for (Operand &operand : operands_)
            if (operand.own.unsafeGetTensorImpl() == impl) {
                operand.is_write |= is_write;
                return operand.alias;
            }
    } else {
        if (operand_index_.empty())
            for (size_t i = 0; i < operands_.size(); i++)
                operand_index_[operands_[i].own.unsafeGetTensorImpl()] = i;
        auto found = operand_index_.find(impl);
        if (found != operand_index_.end()) {
            operands_[found->second].is_write |= is_write;
            return operands_[found->second].alias;
        }
        operand_index_[impl] = operands_.size();
    }
    at::Tensor alias = alias_on(memories_[memory_enter(tensor.storage(), is_write)].alias, tensor);
    operands_.push_back({tensor, alias, is_write});
    return alias;
}

void Call::value_enter(c10::IValue &value, bool is_write)
{
    if (value.isTensor()) {
        if (is_acre(value.toTensor()))
            value = tensor_enter(value.toTensor(), is_write);
    } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;

        for (const at::Tensor &tensor : value.toTensorList())
            list.push_back(tensor_enter(tensor, is_write));
        value = std::move(list);
    } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;

        for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorList())
            list.push_back(tensor ? std::optional<at::Tensor>(tensor_enter(*tensor, is_write))
                                  : std::nullopt);
        value = std::move(list);
    } else if (value.isDevice() && value.toDevice().is_privateuseone()) {
        value = c10::Device(c10::DeviceType::CPU);
    } else if (value.isGenerator()) {
        value = generator_twin(value.toGenerator(), device_.index());
    }
}

void Call::enter(torch::jit::Stack &stack, size_t begin)
{
    const auto &arguments = op_.schema().arguments();

    memories_.reserve(4);
    operands_.reserve(4);
    for (size_t i = 0; i < arguments.size(); i++) {
        c10::IValue &value = stack[begin + i];
        const c10::AliasInfo *info = arguments[i].alias_info();

        if (!value.isNone())
            value_enter(value, info && info->isWrite());
        else if (*arguments[i].type() == *c10::OptionalType::create(c10::GeneratorType::get()))
            value = generator_twin({}, device_.index());
    }
}

/* ---- Results ------------------------------------------------------------------------- */

/* Memory of the device for bytes that a kernel left elsewhere. */
static c10::DataPtr memory_place(c10::StorageImpl *from, c10::Device device)
{
    c10::DataPtr fresh = scratch_take(from->_mutable_data_ptr_no_checks(), device);

    if (fresh || from->nbytes() == 0)
        return fresh ? std::move(fresh) : c10::DataPtr(nullptr, device);
    fresh = {memory_allocate(from->nbytes(), device.index()), nullptr, nullptr, device};
    void *pointer = fresh.get();
    fresh = {pointer, pointer, memory_deleter(), device};
    std::memcpy(pointer, from->data(), from->nbytes());
    return fresh;
}

void Call::operands_update()
{
    for (Memory &memory : memories_) {
        c10::StorageImpl *alias = memory.alias.unsafeGetStorageImpl();
        c10::StorageImpl *own = memory.own.unsafeGetStorageImpl();

        if (alias->data() == memory.data && alias->nbytes() == own->nbytes())
            continue;
        size_t bytes = alias->nbytes();
        own->set_data_ptr_noswap(memory_place(alias, device_));
        own->set_nbytes(bytes);
    }
    for (Operand &operand : operands_) {
        if (!operand.is_write)
            continue;
        if (operand.own.sizes() != operand.alias.sizes() ||
            operand.own.strides() != operand.alias.strides())
            operand.own.unsafeGetTensorImpl()->set_sizes_and_strides(
                operand.alias.sizes(), operand.alias.strides(),
                operand.alias.storage_offset());
    }
}

Call::Operand *Call::operand_find(const c10::TensorImpl *alias)
{
    if (operands_.size() >= many) {
        if (alias_index_.empty())
            for (size_t i = 0; i < operands_.size(); i++)
                alias_index_[operands_[i].alias.unsafeGetTensorImpl()] = i;
        auto found = alias_index_.find(alias);
        return found == alias_index_.end() ? nullptr : &operands_[found->second];
    }
    for (Operand &operand : operands_)
        if (operand.alias.unsafeGetTensorImpl() == alias)
            return &operand;
    return nullptr;
}

/* Makes a result's memory that of the device, in place. False when the memory came from
 * elsewhere or somebody besides the results holds it. */
bool Call::tensor_steal(const at::Tensor &result)
{
    c10::StorageImpl *storage = result.storage().unsafeGetStorageImpl();
    size_t known = 1;

    if (result.use_count() != 1)
        return false;
    if (auto found = result_counts_.find(storage); found != result_counts_.end())
        known = found->second;
    if (result.storage().use_count() != known)
        return false;
    c10::DataPtr taken = scratch_take(storage->_mutable_data_ptr_no_checks(), device_);
    if (!taken)
        return false;
    storage->set_data_ptr_noswap(std::move(taken));
    storage->set_allocator(allocator_get());
    return true;
}

at::Tensor Call::tensor_leave(at::Tensor result)
{
    if (!result.defined())
        return result;
    if (Operand *operand = operand_find(result.unsafeGetTensorImpl()))
        return operand->own;
    if (!result.device().is_cpu() || result.layout() != at::kStrided)
        return result;
    const c10::StorageImpl *storage = result.storage().unsafeGetStorageImpl();
    for (Memory &memory : memories_)
        if (memory.alias.unsafeGetStorageImpl() == storage)
            return tensor_on(memory.own, result);
    if (auto found = placed_.find(storage); found != placed_.end())
        return tensor_on(found->second, result);
    if (tensor_steal(result)) {
        if (result_counts_.count(storage))
            placed_[storage] = result.storage();
        return tensor_on(result.storage(), result);
    }
    c10::DeviceGuard guard(device_);
    c10::Storage fresh(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), storage->nbytes(), allocator_get(), true));
    if (storage->nbytes())
        std::memcpy(fresh.mutable_data(), storage->data(), storage->nbytes());
    if (result_counts_.count(storage))
        placed_[storage] = fresh;
    return tensor_on(std::move(fresh), result);
}

void Call::count_results(const torch::jit::Stack &stack, size_t begin)
{
    auto count = [&](const at::Tensor &tensor) {
        if (tensor.defined() && tensor.has_storage() && tensor.storage().use_count() > 1)
            result_counts_[tensor.storage().unsafeGetStorageImpl()]++;
    };

    for (size_t i = begin; i < stack.size(); i++) {
        if (stack[i].isTensor())
            count(stack[i].toTensor());
        else if (stack[i].isTensorList())
            for (const at::Tensor &tensor : stack[i].toTensorList())
                count(tensor);
    }
}

void Call::leave(torch::jit::Stack &stack, size_t begin)
{
    operands_update();
    count_results(stack, begin);
    for (size_t i = begin; i < stack.size(); i++) {
        if (stack[i].isTensor()) {
            stack[i] = tensor_leave(std::move(stack[i]).toTensor());
        } else if (stack[i].isTensorList()) {
            std::vector<at::Tensor> results = stack[i].toTensorVector();
            c10::List<at::Tensor> list;

            stack[i] = c10::IValue();
            for (at::Tensor &result : results)
                list.push_back(tensor_leave(std::move(result)));
            stack[i] = std::move(list);
        }
    }
}

} // namespace acre_torch
