/* SPDX-License-Identifier: MIT */
#include "symmetric/handle.h"

#include "device/runtime.h"
#include "device/status.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

namespace acre_torch::symm {

void symm_check(acre_status status, const char *what)
{
    if (status == ACRE_OK)
        return;
    if (status == ACRE_ERR_PEER || status == ACRE_ERR_TIMEOUT)
        TORCH_CHECK_WITH(DistBackendError, false, "Acre: ", what, ": ", acre_last_error());
    status_throw(status, what);
}

AcreSymmetricMemory::AcreSymmetricMemory(acre_symm *symm, c10::Device device,
                                         std::vector<int> global_ranks)
    : symm_(symm), device_(device), global_ranks_(std::move(global_ranks))
{
    info_.struct_size = sizeof info_;
    symm_check(acre_symm_info_get(symm, &info_), "symmetric memory");
}

AcreSymmetricMemory::~AcreSymmetricMemory()
{
    if (!c10d::symmetric_memory::is_finalizing())
        acre_symm_release(symm_);
}

std::vector<void *> AcreSymmetricMemory::get_buffer_ptrs()
{
    std::vector<void *> out(static_cast<size_t>(info_.world_size));

    for (int r = 0; r < info_.world_size; r++)
        symm_check(acre_symm_buffer(symm_, r, 0, info_.buffer_bytes, &out[r]), "get_buffer");
    return out;
}

std::vector<void *> AcreSymmetricMemory::get_signal_pad_ptrs()
{
    std::vector<void *> out(static_cast<size_t>(info_.world_size));

    for (int r = 0; r < info_.world_size; r++)
        symm_check(acre_symm_pad(symm_, r, 4, 0, 0, &out[r], nullptr), "get_signal_pad");
    return out;
}

/* An array in memory of the device, made once. */
template <class T>
static T *array_on(c10::Device device, const std::vector<T> &values, at::Tensor &kept)
{
    if (!kept.defined()) {
        auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
        at::Tensor here = at::from_blob(const_cast<T *>(values.data()), {bytes}, at::kByte);
        kept = at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
        kept.copy_(here);
    }
    return static_cast<T *>(kept.data_ptr());
}

void **AcreSymmetricMemory::get_buffer_ptrs_dev()
{
    return array_on(device_, get_buffer_ptrs(), buffers_dev_);
}

void **AcreSymmetricMemory::get_signal_pad_ptrs_dev()
{
    return array_on(device_, get_signal_pad_ptrs(), pads_dev_);
}

int *AcreSymmetricMemory::get_rank_to_global_rank_dev()
{
    return array_on(device_, global_ranks_, ranks_dev_);
}

/* Signals come after what is queued on the current stream. */
void AcreSymmetricMemory::stream_wait() const
{
    if (device_.is_cpu())
        return;
    int index = device_.index();
    status_check(acre_stream_native_synchronize(runtime().devices[index], current_native(index)),
                 "waiting for the current stream");
}

void AcreSymmetricMemory::barrier(int channel, size_t timeout_ms)
{
    stream_wait();
    symm_check(acre_symm_barrier(symm_, channel, timeout_ms), "barrier");
}

void AcreSymmetricMemory::put_signal(int rank, int channel, size_t timeout_ms)
{
    stream_wait();
    symm_check(acre_symm_put_signal(symm_, rank, channel, timeout_ms), "put_signal");
}

void AcreSymmetricMemory::wait_signal(int rank, int channel, size_t timeout_ms)
{
    stream_wait();
    symm_check(acre_symm_wait_signal(symm_, rank, channel, timeout_ms), "wait_signal");
}

c10::intrusive_ptr<AcreSymmetricMemory> handle_of(const at::Tensor &tensor,
                                                  const std::string &group, const char *call)
{
    auto memory = c10d::symmetric_memory::rendezvous(tensor, group);
    auto ours = c10::dynamic_intrusive_pointer_cast<AcreSymmetricMemory>(memory);

    TORCH_CHECK(ours, call, ": the tensor is not in symmetric memory; make it with "
                "torch.distributed._symmetric_memory.empty()");
    return ours;
}

} // namespace acre_torch::symm
