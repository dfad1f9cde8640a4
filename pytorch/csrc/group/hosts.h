/* SPDX-License-Identifier: MIT */
/* Process group "acre" whose ranks live on several hosts.
 *
 * Ranks of one host form a group of their own, in shared memory. Other backends carry what crosses
 * hosts: gloo, and between the first ranks Acre's wire where there is one (bridge.h). An
 * all-reduce has two levels: each host reduces into its first rank, the first ranks reduce among
 * each other, and each host spreads the result; so a host sends its part once, however many ranks
 * it has. Barriers work alike, broadcasts too. The other operations go to gloo as they are;
 * tensors on acre pass through host memory then.
 *
 * Operations run in the order in which they were started, in the caller or in a thread.
 */
#pragma once

#include "group/group.h"

namespace acre_torch::group {

class TORCH_ACRE_API ProcessGroupHosts : public c10d::Backend {
  public:
    using Tensors = std::vector<at::Tensor>;
    using Lists = std::vector<Tensors>;
    using WorkPtr = c10::intrusive_ptr<c10d::Work>;
    using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

    /* hosts[r] is the number of the host of rank r; leaders is null but on the first rank of
     * each host. */
    ProcessGroupHosts(std::vector<int> hosts, int rank, std::chrono::milliseconds timeout,
                      c10::intrusive_ptr<ProcessGroupAcre> near, BackendPtr leaders,
                      BackendPtr far);
    ~ProcessGroupHosts() override;

    const std::string getBackendName() const override { return "acre"; }
    c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
    void setTimeout(std::chrono::milliseconds timeout) override;
    c10d::ErrorType getError() override { return near_->getError(); }
    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override { return sequence_; }
    /* What joins the first ranks; null on other ranks. */
    BackendPtr leaders() const { return leaders_; }
    void abort() override;
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
    template <class Body>
    WorkPtr launch(c10d::OpType type, const char *name, bool is_async, Tensors outputs, Body body);
    void reduce_levels(const at::Tensor &tensor, const c10d::AllreduceOptions &options);
    void spread(const at::Tensor &tensor, std::chrono::milliseconds timeout);
    void leave_inherited();
    void own_check(const char *name) const;
    bool is_leader() const { return near_->getRank() == 0; }

    std::vector<int> hosts_;
    c10::intrusive_ptr<Options> options_;
    c10::intrusive_ptr<ProcessGroupAcre> near_;
    BackendPtr leaders_, far_;
    std::shared_ptr<Queue> queue_;
    std::atomic<uint64_t> sequence_{0};
};

} // namespace acre_torch::group
