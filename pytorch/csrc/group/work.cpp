/* SPDX-License-Identifier: MIT */
#include "group/work.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <unistd.h>

namespace acre_torch::group {

/* ---- Work ----------------------------------------------------------------------------- */

AcreWork::AcreWork(int rank, c10d::OpType type, const char *title,
                   const std::optional<std::vector<at::Tensor>> &inputs,
                   std::vector<at::Tensor> outputs, uint64_t sequence)
    : Work(rank, type, title, inputs), outputs_(std::move(outputs)), sequence_(sequence)
{
}

void AcreWork::complete(std::exception_ptr error, const std::function<bool()> &may_call_back)
{
    if (!has_ended_) {
        finish(error);
        has_ended_ = true;
    }
    bool has_futures;
    {
        std::lock_guard<std::mutex> guard(future_mutex_);
        has_futures = future_ || result_;
    }
    if (has_futures && (!may_call_back || may_call_back()))
        call_back();
}

void AcreWork::call_back()
{
    c10::intrusive_ptr<c10::ivalue::Future> future, result;
    {
        std::lock_guard<std::mutex> guard(future_mutex_);
        future = future_;
        result = result_;
    }
    SignalMask mask(callback_mask());
    if (future && !future->completed())
        future_mark(*future);
    if (result && !result->completed())
        result->markCompleted(result_of());
}

c10::IValue AcreWork::result_of() const
{
    return static_cast<int64_t>(exception() ? c10d::WorkResult::COMM_ERROR
                                            : c10d::WorkResult::SUCCESS);
}

void AcreWork::own_check(const char *name) const
{
    if (is_inherited() && !has_ended_)
        inherited_throw(name, rank_);
}

bool AcreWork::wait(std::chrono::milliseconds timeout)
{
    own_check("wait");
    bool is_done = Work::wait(timeout);
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
        std::lock_guard<std::mutex> guard(future_mutex_);
        future = future_;
    }
    if (future)
        future->wait(); /* it is marked right after the work has ended, before its callbacks run */
    return is_done;
}

bool AcreWork::isCompleted()
{
    own_check("is_completed");
    return Work::isCompleted();
}

void AcreWork::future_mark(c10::ivalue::Future &future)
{
    std::exception_ptr error = exception();

    if (error)
        future.setErrorIfNeeded(error);
    else
        future.markCompleted(c10::IValue(outputs_));
}

c10::intrusive_ptr<c10::ivalue::Future> AcreWork::getFuture()
{
    own_check("get_future");
    std::lock_guard<std::mutex> guard(future_mutex_);

    if (!future_) {
        std::vector<c10::Device> devices;
        for (const at::Tensor &tensor : outputs_)
            if (!tensor.is_cpu() && devices.empty())
                devices.push_back(tensor.device());
        future_ = c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()), devices);
        if (isCompleted())
            future_mark(*future_);
    }
    return future_;
}

c10::intrusive_ptr<c10::ivalue::Future> AcreWork::getFutureResult()
{
    own_check("get_future_result");
    std::lock_guard<std::mutex> guard(future_mutex_);

    if (!result_) {
        result_ = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
        if (isCompleted())
            result_->markCompleted(result_of());
    }
    return result_;
}

void AcreWork::abort()
{
    TORCH_CHECK(false, "Acre: one operation cannot be aborted; abort() of the process group ends "
                "all of them");
}

/* ---- Messages ------------------------------------------------------------------------- */

LetterWork::LetterWork(int rank, c10d::OpType type, const char *title,
                       const std::vector<at::Tensor> &tensors, uint64_t sequence,
                       std::shared_ptr<Mail> mail, std::shared_ptr<Queue> callbacks)
    : AcreWork(rank, type, title, tensors, tensors, sequence), mail_(std::move(mail)),
      callbacks_(std::move(callbacks))
{
}

void LetterWork::arrive(std::exception_ptr error)
{
    complete(error, [this] {
        try { /* with nothing to do but its callbacks, as it has ended */
            callbacks_->add("callback", [] {}, c10::intrusive_ptr<AcreWork>::reclaim_copy(this));
        } catch (const std::exception &) {
            return true; /* no thread for them can be started: they run here */
        }
        return false;
    });
}

bool LetterWork::wait(std::chrono::milliseconds timeout)
{
    if (timeout == kNoTimeout && letter_ && !is_inherited())
        mail_->wait(letter_);
    return AcreWork::wait(timeout);
}

c10::intrusive_ptr<c10::ivalue::Future> LetterWork::getFuture()
{
    own_check("get_future");
    if (!isCompleted())
        callbacks_->prepare("get_future");
    return AcreWork::getFuture();
}

c10::intrusive_ptr<c10::ivalue::Future> LetterWork::getFutureResult()
{
    own_check("get_future_result");
    if (!isCompleted())
        callbacks_->prepare("get_future_result");
    return AcreWork::getFutureResult();
}

int LetterWork::sourceRank() const
{
    return letter_ ? letter_->rank : -1;
}

/* ---- Queue ---------------------------------------------------------------------------- */

void Queue::add(const char *name, std::function<void()> body, c10::intrusive_ptr<AcreWork> work)
{
    {
        std::lock_guard<std::mutex> guard(mutex_);
        TORCH_CHECK(!is_stopping_, "Acre: the process group was shut down");
        thread_ensure_locked(name);
        pending_.fetch_add(1, std::memory_order_acq_rel);
        tasks_.push_back({std::move(body), std::move(work)});
    }
    wake_.notify_one();
}

void Queue::prepare(const char *name)
{
    std::lock_guard<std::mutex> guard(mutex_);

    if (!is_stopping_)
        thread_ensure_locked(name);
}

/* Sees to a thread that is not held up by callbacks. */
void Queue::thread_ensure_locked(const char *name)
{
    if (thread_count_ != calling_back_)
        return;
    threads_.push_back(thread_start(name, [self = shared_from_this()] { self->thread_main(); }));
    thread_count_++;
}

/* The lock is dropped meanwhile. */
void Queue::run(std::unique_lock<std::mutex> &lock, Task task)
{
    std::exception_ptr error;
    bool calls_back = false;

    is_running_ = true;
    lock.unlock();
    {
        std::lock_guard<std::mutex> turn(turn_);
        try {
            task.body();
        } catch (...) {
            error = std::current_exception();
        }
    }
    task.body = nullptr;
    pending_.fetch_sub(1, std::memory_order_acq_rel);
    lock.lock();
    is_running_ = false;
    lock.unlock();
    task.work->complete(error, [&] {
        std::lock_guard<std::mutex> guard(mutex_);
        calls_back = call_back_begin_locked();
        if (!calls_back)
            late_.push_back(task.work);
        return calls_back;
    });
    task.work.reset();
    error = nullptr;
    lock.lock();
    calling_back_ -= calls_back;
}

/* Whether this thread may run callbacks, which may wait for what is queued: somebody else goes on
 * with that. If no thread can be started for it, the callbacks come later. */
bool Queue::call_back_begin_locked()
{
    calling_back_++;
    try {
        if (!tasks_.empty())
            thread_ensure_locked("callback");
    } catch (const std::exception &) {
        calling_back_--;
        return false;
    }
    wake_.notify_one();
    return true;
}

/* Nothing is queued: runs the callbacks of a work that ended before. The last one comes first,
 * since a callback may wait for the futures of what was queued behind its work. The lock is
 * dropped meanwhile. */
void Queue::call_back_late(std::unique_lock<std::mutex> &lock)
{
    c10::intrusive_ptr<AcreWork> work = std::move(late_.back());

    late_.pop_back();
    calling_back_++;
    lock.unlock();
    work->call_back();
    work.reset();
    lock.lock();
    calling_back_--;
}

void Queue::thread_main()
{
    std::unique_lock<std::mutex> lock(mutex_);

    Room::be_patient();
    for (;;) {
        if (!is_running_ && !tasks_.empty()) {
            Task task = std::move(tasks_.front());
            tasks_.pop_front();
            run(lock, std::move(task));
        } else if (tasks_.empty() && !late_.empty()) {
            call_back_late(lock);
        } else if (is_stopping_ && tasks_.empty()) {
            wake_.notify_all(); /* others may have waited for the last task */
            return;
        } else {
            wake_.wait(lock);
        }
    }
}

void Queue::stop()
{
    std::list<std::thread> threads;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        is_stopping_ = true;
    }
    wake_.notify_all();
    for (;;) {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            if (threads_.empty())
                return;
            threads.splice(threads.end(), threads_, threads_.begin());
        }
        std::thread &thread = threads.back();
        if (thread.get_id() == std::this_thread::get_id())
            thread.detach();
        else
            thread_join(thread);
    }
}

} // namespace acre_torch::group
