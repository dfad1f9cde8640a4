/* SPDX-License-Identifier: MIT */
/* The place of a rank in a store, so that two jobs do not mix their ranks.
 *
 * Who makes a group writes a name into the store under its rank, and holds that name as an
 * abstract socket for as long as the group lives. Who finds a name that is held by another
 * process is refused; a name that nobody holds was left by a group that has ended.
 */
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace acre_torch::group {

class Claim {
  public:
    Claim(c10d::Store &store, int rank, int size);
    ~Claim() { drop(); }
    Claim(const Claim &) = delete;
    Claim &operator=(const Claim &) = delete;
    /* Gives the place back. */
    void drop();

  private:
    int socket_ = -1;
};

} // namespace acre_torch::group
