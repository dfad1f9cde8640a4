/* SPDX-License-Identifier: MIT */
/* Tensors as plain host memory for as long as an operation needs them. */
#pragma once

#include "ops/window.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace acre_torch::group {

/* Refuses tensors that the group cannot serve: sparse, or on a device other than cpu and acre. */
void tensor_check(const at::Tensor &tensor, const char *call);

/* A list for a rank must hold one tensor per rank, each like the given one. */
void list_check(const std::vector<at::Tensor> &list, int size, const at::Tensor &like,
                const char *call);
/* Output and input of the forms in which one tensor holds the parts of all ranks. */
void base_check(const at::Tensor &whole, const at::Tensor &part, int size, const char *call);

/* One tensor in one piece. A tensor with gaps is copied; what was received goes back at the end. */
class Flat {
  public:
    enum class Use { IN, OUT, BOTH };
    Flat(const at::Tensor &tensor, Use use);
    /* Copies back where that is needed. */
    void finish();

    char *data() const { return static_cast<char *>(flat_.data_ptr()); }
    const at::Tensor &tensor() const { return flat_; }
    std::size_t bytes() const { return flat_.nbytes(); }
    std::size_t count() const { return static_cast<std::size_t>(flat_.numel()); }

  private:
    at::Tensor original_, flat_;
    bool is_copy_;
};

/* Makes the memory of tensors readable and writable for the host until it is destroyed; what was
 * queued on their streams has run by then. */
class Access {
  public:
    explicit Access(const std::vector<Flat> &flats);
    Access(const Access &) = delete;
    Access &operator=(const Access &) = delete;

  private:
    Windows windows_;
};

/* Waits for the caller's streams, so that a thread may work on its tensors. */
void tensors_wait();

} // namespace acre_torch::group
