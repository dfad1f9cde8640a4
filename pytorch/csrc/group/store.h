/* SPDX-License-Identifier: MIT */
/* PyTorch's stores as Acre's: the ranks of a group find each other through the store that
 * init_process_group() was given. */
#pragma once

#include <acre/store.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace acre_torch::group {

/* An acre_store over a store of PyTorch, which it keeps alive. */
acre_store *store_adapt(const c10::intrusive_ptr<c10d::Store> &store);

} // namespace acre_torch::group
