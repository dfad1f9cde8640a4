/* SPDX-License-Identifier: MIT */
/* The first ranks of several hosts, over Acre's wire (MPI's one-sided windows).
 *
 * Each has a block of symmetric memory that the others reach with put and get, in two parts: what
 * it contributes, and what it has reduced. An all-reduce passes in pieces. Host h reduces part h
 * of a piece, in the order of the hosts, and collects the other parts; so a host receives its
 * data twice less its own share, and all hosts get equal bits.
 *
 * Calls run in the caller, one at a time: ProcessGroupHosts sees to it.
 */
#pragma once

#include "device/runtime.h"
#include "group/kernels.h"

#include <acre/collective.h>
#include <acre/store.h>
#include <acre/symm.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <vector>

namespace acre_torch::group {

class TORCH_ACRE_API HostBridge : public c10d::Backend {
  public:
    using Tensors = std::vector<at::Tensor>;
    using WorkPtr = c10::intrusive_ptr<c10d::Work>;

    /* Meets the first ranks of the other hosts; fails where no wire leads to them. */
    HostBridge(const c10::intrusive_ptr<c10d::Store> &store, int host, int count,
               std::chrono::milliseconds timeout);
    ~HostBridge() override;

    const std::string getBackendName() const override { return "acre"; }
    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPtr barrier(const c10d::BarrierOptions &options) override;
    void abort() override {}
    void shutdown() override {}
    /* Bytes of collectives that have passed over the wire to this host. */
    uint64_t received_bytes() const { return received_; }

  private:
    void store_open(c10d::Store &store);
    void forget();
    uint64_t limit_of(std::chrono::milliseconds timeout) const;
    void meet(uint64_t limit_ms);
    void get(int host, std::size_t offset, void *out, std::size_t bytes, uint64_t limit_ms);
    void reduce_piece(char *data, std::size_t count, Reduce reduce, c10::ScalarType type,
                      uint64_t limit_ms);
    WorkPtr done(c10d::OpType type, const Tensors &tensors);

    std::chrono::milliseconds timeout_;
    acre_store_server *server_ = nullptr; /* on the first host */
    acre_store *store_ = nullptr;
    acre_group *group_ = nullptr;
    void *block_ = nullptr;
    acre_symm *symm_ = nullptr;
    std::vector<char> brought_; /* parts of the other hosts */
    uint64_t received_ = 0;
};

} // namespace acre_torch::group
