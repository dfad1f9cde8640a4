/* SPDX-License-Identifier: MIT */
/* Symmetric memory as PyTorch's torch.distributed._symmetric_memory sees it. */
#pragma once

#include <acre/collective.h>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <vector>

namespace acre_torch::symm {

/* Throws DistBackendError for lost and late ranks, else what status_throw() throws. */
void symm_check(acre_status status, const char *what);

/* What rendezvous gives. */
class AcreSymmetricMemory : public c10d::symmetric_memory::SymmetricMemory {
  public:
    /* Takes over the handle. */
    AcreSymmetricMemory(acre_symm *symm, c10::Device device, std::vector<int> global_ranks);
    ~AcreSymmetricMemory() override;

    std::vector<void *> get_buffer_ptrs() override;
    std::vector<void *> get_signal_pad_ptrs() override;
    void **get_buffer_ptrs_dev() override;
    void **get_signal_pad_ptrs_dev() override;
    size_t get_buffer_size() override { return info_.buffer_bytes; }
    size_t get_offset() override { return info_.offset; }
    bool has_multicast_support() override { return info_.has_multicast; }
    /* Multicast operations are emulated: there is no address to write to. */
    void *get_multicast_ptr() override { return nullptr; }
    void barrier(int channel, size_t timeout_ms) override;
    void put_signal(int rank, int channel, size_t timeout_ms) override;
    void wait_signal(int rank, int channel, size_t timeout_ms) override;
    int get_rank() override { return info_.rank; }
    int get_world_size() override { return info_.world_size; }
    c10::Device get_device() override { return device_; }
    const std::vector<int> &get_rank_to_global_rank() override { return global_ranks_; }
    int *get_rank_to_global_rank_dev() override;
    bool world_within_direct_access() override { return info_.is_direct; }

    acre_symm *symm() const { return symm_; }

  private:
    void stream_wait() const;

    acre_symm *symm_;
    acre_symm_info info_ = {};
    c10::Device device_;
    std::vector<int> global_ranks_;
    at::Tensor buffers_dev_, pads_dev_, ranks_dev_;
};

/* Meets the other ranks of a group around the block of a tensor. Throws when the tensor is not
 * in symmetric memory of Acre. */
c10::intrusive_ptr<AcreSymmetricMemory> handle_of(const at::Tensor &tensor,
                                                  const std::string &group, const char *call);

} // namespace acre_torch::symm
