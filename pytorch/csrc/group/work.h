/* SPDX-License-Identifier: MIT */
/* What an operation of the process group gives back, and the thread that runs what is queued. */
#pragma once

#include "group/mail.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace acre_torch::group {

class AcreWork : public c10d::Work {
  public:
    AcreWork(int rank, c10d::OpType type, const char *title,
             const std::optional<std::vector<at::Tensor>> &inputs,
             std::vector<at::Tensor> outputs, uint64_t sequence);

    /* Ends the work, with an exception or without; if it has ended, it stays as it is. Where
     * somebody has asked for a future, what hangs on it runs in here, unless may_call_back, which
     * is asked first, puts that off. */
    void complete(std::exception_ptr error = nullptr,
                  const std::function<bool()> &may_call_back = {});
    /* Runs what hangs on the futures of a work that has ended. */
    void call_back();

    /* In a child of fork nothing ends that its parent has under way: waiting, and asking for what
     * could be waited for, is refused there. */
    bool wait(std::chrono::milliseconds timeout) override;
    bool isCompleted() override;
    std::vector<at::Tensor> result() override { return outputs_; }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
    uint64_t getSequencenumber() const override { return sequence_; }
    void abort() override;

  protected:
    bool is_inherited() const { return forks_ != fork_generation(); }
    /* Refuses a call where the work will never end. */
    void own_check(const char *name) const;

    std::vector<at::Tensor> outputs_;

  private:
    void future_mark(c10::ivalue::Future &future);
    c10::IValue result_of() const;

    uint64_t sequence_;
    unsigned forks_ = fork_generation(); /* when it was made */
    std::atomic<bool> has_ended_{false}; /* readable in a child of fork, whatever is locked */
    std::mutex future_mutex_;
    c10::intrusive_ptr<c10::ivalue::Future> future_, result_;
};

/* Tasks that run one after the other, in order. What hangs on the future of a work may add another
 * and wait for it, as PowerSGD does: then a second thread goes on with the tasks. If none can be
 * started, the tasks come first, and those that a callback adds are refused. It may also drop the
 * group: threads hold their queue, and who makes one calls stop() in the end. */
class Queue : public std::enable_shared_from_this<Queue> {
  public:
    /* Runs a task and completes its work with what the task throws. */
    void add(const char *name, std::function<void()> task, c10::intrusive_ptr<AcreWork> work);
    /* Sees to a thread for what will be added. */
    void prepare(const char *name);
    /* Runs a function in the caller, if nothing is queued; whether it did. */
    template <class Function> bool run_here(Function &function)
    {
        if (pending_.load(std::memory_order_acquire) != 0)
            return false;
        std::lock_guard<std::mutex> turn(turn_);
        if (pending_.load(std::memory_order_acquire) != 0)
            return false;
        function();
        return true;
    }
    bool is_busy() const { return pending_.load(std::memory_order_acquire) != 0; }
    /* Runs what is left and ends the threads. */
    void stop();

  private:
    struct Task {
        std::function<void()> body;
        c10::intrusive_ptr<AcreWork> work;
    };
    void thread_main();
    void thread_ensure_locked(const char *name);
    void run(std::unique_lock<std::mutex> &lock, Task task);
    bool call_back_begin_locked();
    void call_back_late(std::unique_lock<std::mutex> &lock);

    std::atomic<int> pending_{0}; /* queued or running in a thread             */
    std::mutex turn_;             /* held while something runs                 */
    std::mutex mutex_;            /* guards the rest                           */
    std::condition_variable wake_;
    std::deque<Task> tasks_;
    std::vector<c10::intrusive_ptr<AcreWork>> late_; /* their callbacks are put off */
    std::list<std::thread> threads_;
    std::size_t thread_count_ = 0; /* ever                                     */
    std::size_t calling_back_ = 0; /* threads in which callbacks run           */
    bool is_running_ = false;      /* a task, in some thread                   */
    bool is_stopping_ = false;
};

/* A message under way; waiting for it moves messages. What hangs on it runs in the threads of a
 * queue, not where messages are moved: it may wait for another message. */
class LetterWork : public AcreWork {
  public:
    LetterWork(int rank, c10d::OpType type, const char *title,
               const std::vector<at::Tensor> &tensors, uint64_t sequence,
               std::shared_ptr<Mail> mail, std::shared_ptr<Queue> callbacks);
    void attach(LetterPtr letter) { letter_ = std::move(letter); }
    /* Ends the work. */
    void arrive(std::exception_ptr error);
    bool wait(std::chrono::milliseconds timeout) override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
    int sourceRank() const override;

  private:
    std::shared_ptr<Mail> mail_;
    std::shared_ptr<Queue> callbacks_;
    LetterPtr letter_;
};

} // namespace acre_torch::group
