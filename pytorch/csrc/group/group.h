/* SPDX-License-Identifier: MIT */
/* PyTorch's process group "acre": collectives and messages through symmetric memory.
 *
 * A synchronous operation runs in the caller. An asynchronous one runs in the group's thread,
 * after everything that was started before it. All checks come before the first contact with
 * other ranks; an operation that is refused has changed nothing.
 */
#pragma once

#include "device/runtime.h"
#include "group/claim.h"
#include "group/exchange.h"
#include "group/memory.h"
#include "group/work.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace acre_torch::group {

class TORCH_ACRE_API ProcessGroupAcre : public c10d::Backend {
  public:
    using Tensors = std::vector<at::Tensor>;
    using Lists = std::vector<Tensors>;
    using WorkPtr = c10::intrusive_ptr<c10d::Work>;

    ProcessGroupAcre(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                     std::chrono::milliseconds timeout);
    ~ProcessGroupAcre() override;

    const std::string getBackendName() const override { return "acre"; }
    c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
    void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
    c10d::ErrorType getError() override;
    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override { return sequence_; }
    void abort() override;
    /* How many all-reduces were done in place in symmetric memory. */
    uint64_t in_place_count() const { return *in_place_count_; }
    /* Fails the group on all of its ranks, for a reason from outside. */
    void report(const std::string &text) { room_->report(text); }
    /* Whether this is a child of fork, and what it inherits the parent's; see room.h. */
    bool is_inherited() const { return room_->is_inherited(); }
    void own_check(const char *name) const { room_->own_check(name); }
    void shutdown() override;

    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPtr allreduce_coalesced(Tensors &tensors,
                                const c10d::AllreduceCoalescedOptions &options) override;
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
    WorkPtr allgather(Lists &outputs, Tensors &inputs,
                      const c10d::AllgatherOptions &options) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                            const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_coalesced(Lists &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &options) override;
    WorkPtr gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &options) override;
    WorkPtr scatter(Tensors &outputs, Lists &inputs,
                    const c10d::ScatterOptions &options) override;
    WorkPtr reduce_scatter(Tensors &outputs, Lists &inputs,
                           const c10d::ReduceScatterOptions &options) override;
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &options) override;
    WorkPtr reduce_scatter_tensor_coalesced(
        Tensors &outputs, Tensors &inputs,
        const c10d::ReduceScatterOptions &options) override;
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input,
                          std::vector<int64_t> &output_splits,
                          std::vector<int64_t> &input_splits,
                          const c10d::AllToAllOptions &options) override;
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs,
                     const c10d::AllToAllOptions &options) override;
    WorkPtr send(Tensors &tensors, int rank, int tag) override;
    WorkPtr recv(Tensors &tensors, int rank, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;
    WorkPtr barrier(const c10d::BarrierOptions &options) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool waits_for_all) override;

  private:
    /* How PyTorch's profiler and messages name an operation, and how it is to run. */
    struct Kind {
        c10d::OpType type;
        const char *name, *title;
        std::chrono::milliseconds timeout;
        bool is_async;
    };

    template <class Body>
    WorkPtr launch(const Kind &kind, Agreement agreed, std::vector<Flat> flats, Tensors outputs,
                   Body body);
    WorkPtr gather_all(const Kind &kind, const Lists &outputs, const Tensors &inputs);
    WorkPtr scatter_reduced(const Kind &kind, const Tensors &outputs, const Lists &inputs,
                            Reduce reduce);
    WorkPtr exchange_parts(const Kind &kind, std::vector<Flat> flats, Parts parts,
                           const at::Tensor &like, Tensors outputs);
    WorkPtr letter_start(const Kind &kind, Tensors &tensors, bool is_send, int rank, int tag);
    void root_check(const char *call, int64_t root) const;
    void leave_inherited();

    c10::intrusive_ptr<Options> options_;
    std::unique_ptr<Claim> claim_;
    std::shared_ptr<Room> room_;
    std::shared_ptr<Mail> mail_;
    std::shared_ptr<Queue> queue_, callbacks_; /* callbacks_: of messages */
    std::atomic<uint64_t> sequence_{0};
    std::atomic<uint64_t> monitored_{0}; /* monitored barriers so far */
    std::shared_ptr<std::atomic<uint64_t>> in_place_count_ =
        std::make_shared<std::atomic<uint64_t>>(0);
};

} // namespace acre_torch::group
