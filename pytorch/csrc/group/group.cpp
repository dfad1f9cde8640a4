/* SPDX-License-Identifier: MIT */
/* Coming, going, messages and barriers of the process group; see group.h. */
#include "group/group.h"

#include "device/counted.h"
#include "group/launch.h"
#include "group/store.h"

namespace acre_torch::group {

using c10d::OpType;

ProcessGroupAcre::ProcessGroupAcre(const c10::intrusive_ptr<c10d::Store> &store, int rank,
                                   int size, std::chrono::milliseconds timeout)
    : Backend(rank, size), options_(c10::make_intrusive<Options>("acre", timeout))
{
    TORCH_CHECK_VALUE(size > 0 && rank >= 0 && rank < size, "Acre: rank ", rank, " is outside a "
                      "world of ", counted(size, "rank"));
    TORCH_CHECK_VALUE(store, "Acre: process group \"acre\" needs a store");
    claim_ = std::make_unique<Claim>(*store, rank, size);
    room_ = std::make_shared<Room>(store_adapt(store), rank, size, timeout);
    mail_ = std::make_shared<Mail>(room_);
    queue_ = std::make_shared<Queue>();
    callbacks_ = std::make_shared<Queue>();
    init();
}

/* In a child of fork: the threads of queues and mail are not here, and a lock of theirs may never
 * be dropped. */
void ProcessGroupAcre::leave_inherited()
{
    static_cast<void>(new std::shared_ptr<Queue>(queue_));
    static_cast<void>(new std::shared_ptr<Queue>(callbacks_));
    static_cast<void>(new std::shared_ptr<Mail>(mail_));
    claim_->drop();
}

ProcessGroupAcre::~ProcessGroupAcre()
{
    if (is_inherited()) {
        leave_inherited();
        return;
    }
    if (queue_->is_busy())
        room_->abort();
    queue_->stop();
    mail_->stop();
    callbacks_->stop();
}

c10d::ErrorType ProcessGroupAcre::getError()
{
    return room_->is_failed() ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

void ProcessGroupAcre::abort()
{
    if (!is_inherited())
        room_->abort();
    shutdown();
}

void ProcessGroupAcre::shutdown()
{
    if (is_inherited()) {
        leave_inherited();
        return;
    }
    queue_->stop();
    mail_->stop();
    callbacks_->stop();
    claim_->drop();
}

void ProcessGroupAcre::root_check(const char *call, int64_t root) const
{
    TORCH_CHECK_VALUE(root >= 0 && root < size_, "Acre: ", call, ": root ", root, " is outside a "
                      "group of ", counted(size_, "rank"));
}

/* ---- Meetings ------------------------------------------------------------------------- */

ProcessGroupAcre::WorkPtr ProcessGroupAcre::barrier(const c10d::BarrierOptions &options)
{
    Kind kind{OpType::BARRIER, "barrier", "acre:barrier", options.timeout, options.asyncOp};
    return launch(kind, {}, {}, {}, [](Room &room, const Call &call, std::vector<Flat> &) {
        exchange_barrier(room, call);
    });
}

/* Tags of the group's own messages; PyTorch's are 32-bit numbers. */
static constexpr int64_t MONITOR_TAG = int64_t{1} << 40;

void ProcessGroupAcre::monitoredBarrier(const c10d::BarrierOptions &options, bool waits_for_all)
{
    Agreement agreed;
    std::chrono::milliseconds limit =
        options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
    std::vector<int> missing;

    agreed.op = static_cast<uint32_t>(OpType::BARRIER);
    agreed.sequence = ++sequence_;
    TORCH_CHECK_WITH(DistBackendError, limit.count() > 0 || rank_ != 0, "Acre: [Rank 0]: Rank 0 "
                     "timed out in monitoredBarrier after 0 ms (sequence number ",
                     agreed.sequence, "); give it a longer time limit");
    Call call("monitored_barrier", agreed, limit);
    /* Ranks need not have sent equally many messages, which the sequence counts as well. */
    int64_t tag = MONITOR_TAG + static_cast<int64_t>(++monitored_), word = 0;
    auto carry = [&](bool is_send, int rank) {
        /* A letter that is given up in the middle may move on later. */
        auto memory = std::make_shared<int64_t>(word);
        auto letter = std::make_shared<Letter>(call, is_send, rank, tag,
                                               reinterpret_cast<char *>(memory.get()),
                                               sizeof *memory);
        letter->is_gentle = true;
        letter->finished = [memory](Letter &) {};
        mail_->post(letter);
        bool has_come = mail_->wait(letter);
        if (has_come && letter->error)
            std::rethrow_exception(letter->error);
        if (has_come && !is_send)
            word = *memory;
        return has_come;
    };
    if (rank_ != 0) {
        bool has_passed = carry(true, 0) && carry(false, 0);
        TORCH_CHECK_WITH(DistBackendError, has_passed && word == 0, "Acre: [Rank ", rank_,
                         "]: Rank ", rank_, " successfully reached monitoredBarrier, but received "
                         "errors while waiting for send/recv from rank 0: ",
                         has_passed ? "other ranks did not come" : "it did not answer in time",
                         " (sequence number ", agreed.sequence, "). Please check rank 0 logs for "
                         "the rank that is missing.");
        return;
    }
    for (int r = 1; r < size_ && (missing.empty() || waits_for_all); r++)
        if (!carry(false, r))
            missing.push_back(r);
    word = !missing.empty();
    for (int r = 1; r < size_; r++)
        if (std::find(missing.begin(), missing.end(), r) == missing.end())
            carry(true, r);
    std::string names;
    for (int r : missing)
        names += (names.empty() ? "" : ", ") + std::to_string(r);
    TORCH_CHECK_WITH(DistBackendError, missing.empty(), "Acre: [Rank 0]: Rank",
                     missing.size() > 1 ? "s " : " ", names, " failed to pass monitoredBarrier in ",
                     limit.count(), " ms (sequence number ", agreed.sequence, ")");
}

/* ---- Messages ------------------------------------------------------------------------- */

ProcessGroupAcre::WorkPtr ProcessGroupAcre::letter_start(const Kind &kind, Tensors &tensors,
                                                         bool is_send, int rank, int tag)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "Acre: ", kind.name, " takes one tensor, not ",
                      tensors.size());
    TORCH_CHECK_VALUE(rank == ANY_RANK || (rank >= 0 && rank < size_ && rank != rank_), "Acre: ",
                      kind.name, ": rank ", rank, " is not another rank of a group of ", size_);
    tensor_check(tensors[0], kind.name);
    Agreement agreed;
    agreed.op = static_cast<uint32_t>(kind.type);
    agreed.sequence = ++sequence_;
    auto flats = std::make_shared<std::vector<Flat>>();
    flats->emplace_back(tensors[0], is_send ? Flat::Use::IN : Flat::Use::OUT);
    auto access = std::make_shared<Access>(*flats);
    auto work = c10::make_intrusive<LetterWork>(rank_, kind.type,
                                                at::hasCallbacks() ? kind.title : nullptr,
                                                tensors, agreed.sequence, mail_, callbacks_);
    auto letter = std::make_shared<Letter>(Call(kind.name, agreed, options_->timeout), is_send,
                                           rank, tag, flats->front().data(),
                                           flats->front().bytes());
    letter->finished = [flats, access, work](Letter &done) mutable {
        access.reset();
        try {
            if (!done.error)
                flats->front().finish();
        } catch (...) {
            done.error = std::current_exception();
        }
        flats.reset();
        work->arrive(done.error);
        work.reset();
    };
    work->attach(letter);
    try {
        mail_->post(letter);
    } catch (...) {
        letter->finished = nullptr; /* which holds the work, and that the letter */
        throw;
    }
    return work;
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::send(Tensors &tensors, int rank, int tag)
{
    Kind kind{OpType::SEND, "send", "acre:send", c10d::kUnsetTimeout, true};
    return letter_start(kind, tensors, true, rank, tag);
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::recv(Tensors &tensors, int rank, int tag)
{
    Kind kind{OpType::RECV, "recv", "acre:recv", c10d::kUnsetTimeout, true};
    return letter_start(kind, tensors, false, rank, tag);
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::recvAnysource(Tensors &tensors, int tag)
{
    Kind kind{OpType::RECVANYSOURCE, "recv", "acre:recvAnySource", c10d::kUnsetTimeout, true};
    return letter_start(kind, tensors, false, ANY_RANK, tag);
}

} // namespace acre_torch::group
