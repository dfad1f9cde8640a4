/* SPDX-License-Identifier: MIT */
/* How the operations of ProcessGroupAcre start; included by the files that implement them. */
#pragma once

#include "group/group.h"

#include <ATen/record_function.h>

namespace acre_torch::group {

/* Runs body(room, call, flats) in the caller or in the group's thread. */
template <class Body>
ProcessGroupAcre::WorkPtr ProcessGroupAcre::launch(const Kind &kind, Agreement agreed,
                                                   std::vector<Flat> flats, Tensors outputs,
                                                   Body body)
{
    room_->own_check(kind.name);
    std::chrono::milliseconds limit =
        kind.timeout == c10d::kUnsetTimeout ? options_->timeout : kind.timeout;

    agreed.op = static_cast<uint32_t>(kind.type);
    agreed.sequence = ++sequence_;
    auto work = c10::make_intrusive<AcreWork>(rank_, kind.type,
                                              at::hasCallbacks() ? kind.title : nullptr, outputs,
                                              outputs, agreed.sequence);
    auto run = [room = room_, name = kind.name, agreed, limit, flats = std::move(flats),
                body = std::move(body)]() mutable {
        Call call(name, agreed, limit);
        {
            Access access(flats);
            body(*room, call, flats);
        }
        for (Flat &flat : flats)
            flat.finish();
    };
    if (!kind.is_async && queue_->run_here(run)) {
        work->complete();
        return work;
    }
    tensors_wait();
    queue_->add(kind.name, std::move(run), work);
    return work;
}

} // namespace acre_torch::group
