/* SPDX-License-Identifier: MIT */
#include "group/hosts.h"

#include "device/counted.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

namespace acre_torch::group {

using c10d::OpType;
using WorkPtr = ProcessGroupHosts::WorkPtr;

ProcessGroupHosts::ProcessGroupHosts(std::vector<int> hosts, int rank,
                                     std::chrono::milliseconds timeout,
                                     c10::intrusive_ptr<ProcessGroupAcre> near,
                                     BackendPtr leaders, BackendPtr far)
    : Backend(rank, static_cast<int>(hosts.size())), hosts_(std::move(hosts)),
      options_(c10::make_intrusive<Options>("acre", timeout)), near_(std::move(near)),
      leaders_(std::move(leaders)), far_(std::move(far)), queue_(std::make_shared<Queue>())
{
    TORCH_CHECK_VALUE(near_ && far_ && is_leader() == static_cast<bool>(leaders_), "Acre: a group "
                      "over several hosts needs a group of the host, one of the first ranks on a "
                      "first rank, and one of all ranks");
    init();
}

/* In a child of fork: the threads of the queue and of the groups of others are not here. */
void ProcessGroupHosts::leave_inherited()
{
    static_cast<void>(new std::shared_ptr<Queue>(queue_));
    static_cast<void>(new BackendPtr(far_));
    static_cast<void>(new BackendPtr(leaders_));
    near_->shutdown();
}

ProcessGroupHosts::~ProcessGroupHosts()
{
    if (near_->is_inherited()) {
        leave_inherited();
        return;
    }
    if (queue_->is_busy())
        near_->abort();
    queue_->stop();
}

void ProcessGroupHosts::setTimeout(std::chrono::milliseconds timeout)
{
    options_->timeout = timeout;
    near_->setTimeout(timeout);
}

void ProcessGroupHosts::abort()
{
    if (near_->is_inherited()) {
        leave_inherited();
        return;
    }
    near_->abort();
    far_->abort();
    if (leaders_)
        leaders_->abort();
    queue_->stop();
}

void ProcessGroupHosts::shutdown()
{
    if (near_->is_inherited()) {
        leave_inherited();
        return;
    }
    queue_->stop();
    near_->shutdown();
    far_->shutdown();
    if (leaders_)
        leaders_->shutdown();
}

/* The group of the host would name the rank that this one has there. */
void ProcessGroupHosts::own_check(const char *name) const
{
    if (near_->is_inherited())
        inherited_throw(name, rank_);
}

/* Runs body() in order. A failure is told to the ranks of this host, which else would wait. */
template <class Body>
WorkPtr ProcessGroupHosts::launch(OpType type, const char *name, bool is_async, Tensors outputs,
                                  Body body)
{
    own_check(name);
    uint64_t sequence = ++sequence_;
    auto work = c10::make_intrusive<AcreWork>(rank_, type, nullptr, std::nullopt,
                                              std::move(outputs), sequence);
    auto run = [near = near_, name, sequence, body = std::move(body)]() mutable {
        at::NoGradGuard no_grad;
        try {
            body();
        } catch (const std::exception &error) {
            std::string text = std::string(name) + " (sequence number " +
                               std::to_string(sequence) + ") between hosts: " +
                               std::string(error.what()).substr(0, 500);
            near->report(text);
            TORCH_CHECK_WITH(DistBackendError, false, "Acre: ", text);
        }
    };
    if (!is_async && queue_->run_here(run)) {
        work->complete();
        return work;
    }
    tensors_wait();
    queue_->add(name, std::move(run), work);
    return work;
}

/* ---- Two levels ----------------------------------------------------------------------- */

/* Contiguous, in host memory; what a backend for the CPU takes. */
static at::Tensor on_host(const at::Tensor &tensor)
{
    return tensor.cpu().contiguous();
}

static void run_wait(const WorkPtr &work)
{
    if (work)
        work->wait();
}

/* From the first rank of this host to its other ranks. */
void ProcessGroupHosts::spread(const at::Tensor &tensor, std::chrono::milliseconds timeout)
{
    c10d::BroadcastOptions options;
    Tensors tensors{tensor};

    options.timeout = timeout;
    options.asyncOp = false;
    run_wait(near_->broadcast(tensors, options));
}

void ProcessGroupHosts::reduce_levels(const at::Tensor &tensor,
                                      const c10d::AllreduceOptions &options)
{
    c10d::ReduceOptions near_options;
    Tensors tensors{tensor};
    bool is_average = options.reduceOp == c10d::ReduceOp::AVG;
    c10d::ReduceOp op = is_average ? c10d::ReduceOp(c10d::ReduceOp::SUM) : options.reduceOp;

    near_options.reduceOp = op;
    near_options.timeout = options.timeout;
    near_options.asyncOp = false;
    run_wait(near_->reduce(tensors, near_options));
    if (leaders_) {
        c10d::AllreduceOptions outer = options;
        outer.reduceOp = op;
        Tensors here{on_host(tensor)};
        if (tensor.scalar_type() == at::kBool)
            here[0] = here[0].to(at::kByte);
        run_wait(leaders_->allreduce(here, outer));
        if (is_average)
            here[0].div_(size_);
        if (!here[0].is_alias_of(tensor))
            tensor.copy_(here[0]);
    }
    spread(tensor, options.timeout);
}

WorkPtr ProcessGroupHosts::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    for (const at::Tensor &tensor : tensors) {
        tensor_check(tensor, "all_reduce");
        reduce_check(options.reduceOp, tensor.scalar_type());
    }
    return launch(OpType::ALLREDUCE, "all_reduce", options.asyncOp, tensors,
                  [this, tensors, options] {
                      for (const at::Tensor &tensor : tensors)
                          reduce_levels(tensor, options);
                  });
}

WorkPtr ProcessGroupHosts::allreduce_coalesced(Tensors &tensors,
                                               const c10d::AllreduceCoalescedOptions &options)
{
    return allreduce(tensors, options);
}

WorkPtr ProcessGroupHosts::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "Acre: broadcast takes one tensor");
    TORCH_CHECK_VALUE(options.rootRank >= 0 && options.rootRank < size_, "Acre: broadcast: root ",
                      options.rootRank, " is outside a group of ", counted(size_, "rank"));
    tensor_check(tensors[0], "broadcast");
    return launch(OpType::BROADCAST, "broadcast", options.asyncOp, tensors,
                  [this, tensor = tensors[0], options] {
                      int root = static_cast<int>(options.rootRank), host = hosts_[root];
                      c10d::BroadcastOptions step = options;
                      step.asyncOp = false;
                      if (hosts_[rank_] == host) { /* the first rank of root's host has it next */
                          step.rootRank = std::count(hosts_.begin(), hosts_.begin() + root, host);
                          Tensors here{tensor};
                          run_wait(near_->broadcast(here, step));
                      }
                      if (leaders_) {
                          step.rootRank = host;
                          Tensors here{on_host(tensor)};
                          run_wait(leaders_->broadcast(here, step));
                          if (!here[0].is_alias_of(tensor))
                              tensor.copy_(here[0]);
                      }
                      if (hosts_[rank_] != host)
                          spread(tensor, options.timeout);
                  });
}

WorkPtr ProcessGroupHosts::barrier(const c10d::BarrierOptions &options)
{
    return launch(OpType::BARRIER, "barrier", options.asyncOp, {}, [this, options] {
        c10d::BarrierOptions step = options;
        step.asyncOp = false;
        run_wait(near_->barrier(step));
        if (leaders_)
            run_wait(leaders_->barrier(step));
        run_wait(near_->barrier(step));
    });
}

void ProcessGroupHosts::monitoredBarrier(const c10d::BarrierOptions &options, bool waits_for_all)
{
    far_->monitoredBarrier(options, waits_for_all);
}

/* ---- As they are ---------------------------------------------------------------------- */

static std::vector<at::Tensor> all_on_host(const std::vector<at::Tensor> &tensors)
{
    std::vector<at::Tensor> out;
    for (const at::Tensor &tensor : tensors)
        out.push_back(on_host(tensor));
    return out;
}

static void all_back(const std::vector<at::Tensor> &from, const std::vector<at::Tensor> &to)
{
    for (std::size_t i = 0; i < from.size(); i++)
        if (!from[i].is_alias_of(to[i]))
            to[i].copy_(from[i]);
}

static std::vector<at::Tensor> first_of(const std::vector<std::vector<at::Tensor>> &lists)
{
    return lists.empty() ? std::vector<at::Tensor>{} : lists[0];
}

WorkPtr ProcessGroupHosts::reduce(Tensors &tensors, const c10d::ReduceOptions &options)
{
    for (const at::Tensor &tensor : tensors) {
        tensor_check(tensor, "reduce");
        reduce_check(options.reduceOp, tensor.scalar_type());
    }
    return launch(OpType::REDUCE, "reduce", options.asyncOp, tensors,
                  [this, tensors, options]() mutable {
                      Tensors here;
                      for (const at::Tensor &tensor : tensors)
                          here.push_back(on_host(tensor).clone());
                      run_wait(far_->reduce(here, options));
                      if (rank_ == options.rootRank)
                          all_back(here, tensors);
                  });
}

WorkPtr ProcessGroupHosts::allgather(Lists &outputs, Tensors &inputs,
                                     const c10d::AllgatherOptions &options)
{
    return launch(OpType::ALLGATHER, "all_gather", options.asyncOp, first_of(outputs),
                  [this, outputs, inputs, options]() mutable {
                      Lists outs{all_on_host(first_of(outputs))};
                      Tensors ins = all_on_host(inputs);
                      run_wait(far_->allgather(outs, ins, options));
                      all_back(outs[0], first_of(outputs));
                  });
}

WorkPtr ProcessGroupHosts::_allgather_base(at::Tensor &output, at::Tensor &input,
                                           const c10d::AllgatherOptions &options)
{
    Tensors outputs{output}, inputs{input};
    return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPtr ProcessGroupHosts::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                           const c10d::AllgatherOptions &options)
{
    return launch(OpType::_ALLGATHER_BASE, "all_gather_into_tensor", options.asyncOp, outputs,
                  [this, outputs, inputs, options]() mutable {
                      Tensors outs = all_on_host(outputs), ins = all_on_host(inputs);
                      for (std::size_t i = 0; i < ins.size(); i++)
                          run_wait(far_->_allgather_base(outs[i], ins[i], options));
                      all_back(outs, outputs);
                  });
}

WorkPtr ProcessGroupHosts::gather(Lists &outputs, Tensors &inputs,
                                  const c10d::GatherOptions &options)
{
    return launch(OpType::GATHER, "gather", options.asyncOp, first_of(outputs),
                  [this, outputs, inputs, options]() mutable {
                      Lists outs;
                      Tensors ins = all_on_host(inputs);
                      if (!outputs.empty())
                          outs.push_back(all_on_host(outputs[0]));
                      run_wait(far_->gather(outs, ins, options));
                      all_back(first_of(outs), first_of(outputs));
                  });
}

WorkPtr ProcessGroupHosts::scatter(Tensors &outputs, Lists &inputs,
                                   const c10d::ScatterOptions &options)
{
    return launch(OpType::SCATTER, "scatter", options.asyncOp, outputs,
                  [this, outputs, inputs, options]() mutable {
                      Tensors outs = all_on_host(outputs);
                      Lists ins;
                      if (!inputs.empty())
                          ins.push_back(all_on_host(inputs[0]));
                      run_wait(far_->scatter(outs, ins, options));
                      all_back(outs, outputs);
                  });
}

/* Gloo has no reduce-scatter of lists for every type: reduce all, keep the own part. */
static c10d::AllreduceOptions reduce_options(const c10d::ReduceScatterOptions &options)
{
    c10d::AllreduceOptions out;
    out.reduceOp = options.reduceOp;
    out.timeout = options.timeout;
    return out;
}

WorkPtr ProcessGroupHosts::reduce_scatter(Tensors &outputs, Lists &inputs,
                                          const c10d::ReduceScatterOptions &options)
{
    TORCH_CHECK_VALUE(outputs.size() == 1 && inputs.size() == 1, "Acre: reduce_scatter takes one "
                      "output and one list of inputs");
    tensor_check(outputs[0], "reduce_scatter");
    list_check(inputs[0], size_, outputs[0], "reduce_scatter");
    reduce_check(options.reduceOp, outputs[0].scalar_type());
    return launch(OpType::REDUCE_SCATTER, "reduce_scatter", options.asyncOp, outputs,
                  [this, outputs, inputs, options]() mutable {
                      for (std::size_t r = 0; r < inputs[0].size(); r++) {
                          at::Tensor part = inputs[0][r].clone();
                          reduce_levels(part, reduce_options(options));
                          if (static_cast<int>(r) == rank_)
                              outputs[0].copy_(part);
                      }
                  });
}

WorkPtr ProcessGroupHosts::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                const c10d::ReduceScatterOptions &options)
{
    Tensors outputs{output}, inputs{input};
    return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPtr ProcessGroupHosts::reduce_scatter_tensor_coalesced(
    Tensors &outputs, Tensors &inputs, const c10d::ReduceScatterOptions &options)
{
    const char *name = "reduce_scatter_tensor";

    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "Acre: ", name, ": ",
                      counted(outputs.size(), "output"), " given for ",
                      counted(inputs.size(), "input"));
    for (std::size_t i = 0; i < inputs.size(); i++) {
        base_check(inputs[i], outputs[i], size_, name);
        reduce_check(options.reduceOp, outputs[i].scalar_type());
    }
    return launch(OpType::_REDUCE_SCATTER_BASE, name, options.asyncOp, outputs,
                  [this, outputs, inputs, options]() mutable {
                      for (std::size_t i = 0; i < inputs.size(); i++) {
                          at::Tensor whole = inputs[i].contiguous().clone();
                          reduce_levels(whole, reduce_options(options));
                          int64_t count = outputs[i].numel();
                          outputs[i].copy_(whole.view({-1})
                                               .narrow(0, rank_ * count, count)
                                               .view(outputs[i].sizes()));
                      }
                  });
}

WorkPtr ProcessGroupHosts::alltoall_base(at::Tensor &output, at::Tensor &input,
                                         std::vector<int64_t> &output_splits,
                                         std::vector<int64_t> &input_splits,
                                         const c10d::AllToAllOptions &options)
{
    return launch(OpType::ALLTOALL_BASE, "all_to_all_single", options.asyncOp, {output},
                  [this, output, input, output_splits, input_splits, options]() mutable {
                      at::Tensor out = on_host(output), in = on_host(input);
                      run_wait(far_->alltoall_base(out, in, output_splits, input_splits,
                                                   options));
                      all_back({out}, {output});
                  });
}

WorkPtr ProcessGroupHosts::alltoall(Tensors &outputs, Tensors &inputs,
                                    const c10d::AllToAllOptions &options)
{
    return launch(OpType::ALLTOALL, "all_to_all", options.asyncOp, outputs,
                  [this, outputs, inputs, options]() mutable {
                      Tensors outs = all_on_host(outputs), ins = all_on_host(inputs);
                      run_wait(far_->alltoall(outs, ins, options));
                      all_back(outs, outputs);
                  });
}

/* ---- Messages ------------------------------------------------------------------------- */

/* Messages do not wait for the queue. What arrives for acre is copied when it is waited for. */
class ArrivalWork : public c10d::Work {
  public:
    ArrivalWork(int rank, OpType type, WorkPtr inner, at::Tensor here, at::Tensor target)
        : Work(rank, type), inner_(std::move(inner)), here_(std::move(here)),
          target_(std::move(target))
    {
    }
    bool wait(std::chrono::milliseconds timeout) override
    {
        at::NoGradGuard no_grad;
        if (forks_ != fork_generation() && !has_arrived_)
            inherited_throw("wait", rank_);
        bool is_done = has_arrived_ || inner_->wait(timeout);
        if (!is_done)
            return false;
        if (!has_arrived_.exchange(true) && !here_.is_alias_of(target_))
            target_.copy_(here_);
        finish();
        return true;
    }
    bool isCompleted() override { return inner_->isCompleted(); }
    int sourceRank() const override { return inner_->sourceRank(); }

  private:
    WorkPtr inner_;
    at::Tensor here_, target_;
    unsigned forks_ = fork_generation(); /* when it was made */
    std::atomic<bool> has_arrived_{false};
};

WorkPtr ProcessGroupHosts::send(Tensors &tensors, int rank, int tag)
{
    own_check("send");
    Tensors here = all_on_host(tensors);
    return c10::make_intrusive<ArrivalWork>(rank_, OpType::SEND, far_->send(here, rank, tag),
                                            here[0], here[0]);
}

WorkPtr ProcessGroupHosts::recv(Tensors &tensors, int rank, int tag)
{
    own_check("recv");
    Tensors here = all_on_host(tensors);
    return c10::make_intrusive<ArrivalWork>(rank_, OpType::RECV, far_->recv(here, rank, tag),
                                            here[0], tensors[0]);
}

WorkPtr ProcessGroupHosts::recvAnysource(Tensors &tensors, int tag)
{
    own_check("recv");
    Tensors here = all_on_host(tensors);
    return c10::make_intrusive<ArrivalWork>(rank_, OpType::RECVANYSOURCE,
                                            far_->recvAnysource(here, tag), here[0], tensors[0]);
}

} // namespace acre_torch::group
