/* SPDX-License-Identifier: MIT */
/* Messages from one rank to another.
 *
 * Each pair of ranks has a ring in the block of the receiver. A message is a header and its
 * bytes, which pass through the ring in as many pieces as needed. Messages of a sender arrive in
 * order; a receive takes the first one with its tag. What nobody has asked for yet moves to
 * plain memory when something behind it is asked for.
 *
 * Progress happens wherever somebody posts or waits, and in a thread while messages are under
 * way and nobody waits for them.
 */
#pragma once

#include "group/room.h"

#include <condition_variable>
#include <csignal>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace acre_torch::group {

/* Waits until a thread has ended. The Python module has it give up the interpreter's lock
 * meanwhile: the thread may need that lock to drop a tensor that Python knows. */
extern __attribute__((visibility("default"))) void (*thread_join)(std::thread &thread);

/* Starts a thread for a call, or says which one cannot go on without. The thread blocks all
 * signals but faults, so that they reach the threads of the program. */
std::thread thread_start(const char *name, std::function<void()> body);

/* Gives the calling thread a signal mask for as long as this lives; none: leaves it as it is. */
class SignalMask {
  public:
    explicit SignalMask(const sigset_t *mask);
    ~SignalMask();
    SignalMask(const SignalMask &) = delete;
    const sigset_t &before() const { return before_; }

  private:
    bool is_set_;
    sigset_t before_;
};

/* For what users hang on operations, which may start processes that inherit the mask: in a thread
 * of thread_start the mask of the program's thread that started it or the first before it,
 * elsewhere none. */
const sigset_t *callback_mask();

/* A message that is to be sent or received. */
struct Letter {
    Call call;
    bool is_send;
    int rank; /* of the other side; ANY_RANK until a message has come */
    int64_t tag;
    char *data;
    std::size_t bytes;
    bool is_gentle = false; /* it is given up at its deadline, and the group goes on */
    std::size_t moved = 0;
    std::atomic<bool> is_done{false};
    std::exception_ptr error;
    std::function<void(Letter &)> finished; /* called once, without locks */

    Letter(const Call &call, bool is_send, int rank, int64_t tag, char *data, std::size_t bytes)
        : call(call), is_send(is_send), rank(rank), tag(tag), data(data), bytes(bytes)
    {
    }
};

using LetterPtr = std::shared_ptr<Letter>;

/* Its thread holds it: what hangs on a message may drop the group. */
class Mail : public std::enable_shared_from_this<Mail> {
  public:
    explicit Mail(std::shared_ptr<Room> room);
    ~Mail();

    /* Hands a letter over and moves what can be moved at once. */
    void post(const LetterPtr &letter);
    /* Waits for a letter. At its deadline the group fails, unless the letter is gentle: then it is
     * taken back and the answer is false. */
    bool wait(const LetterPtr &letter);
    /* Ends the thread; letters under way fail. */
    void stop();

  private:
    struct Ring;
    struct Header;
    struct Incoming;

    Ring *ring(int owner, int sender) const;
    bool progress_locked(std::vector<LetterPtr> &done);
    bool send_locked(int rank, std::vector<LetterPtr> &done);
    bool receive_locked(int rank, std::vector<LetterPtr> &done);
    bool open_locked(int rank, std::vector<LetterPtr> &done);
    bool match_stored_locked(const LetterPtr &letter, std::vector<LetterPtr> &done);
    bool take_back_locked(const LetterPtr &letter);
    void thread_ensure_locked(const LetterPtr &letter);
    void settle(std::vector<LetterPtr> &done);
    bool step();
    void fail_all(std::exception_ptr error);
    void check_all();
    void thread_main();
    bool has_pending_locked() const;

    std::shared_ptr<Room> owner_;
    Room &room_;
    std::mutex mutex_;
    std::vector<std::deque<LetterPtr>> sends_;    /* by receiver                            */
    std::list<LetterPtr> receives_;               /* posted and not matched, in order       */
    std::vector<std::unique_ptr<Incoming>> now_;  /* by sender: message that is coming in   */
    std::vector<std::list<std::unique_ptr<Incoming>>> stored_; /* whole, nobody's, by sender */
    std::condition_variable wake_;
    std::thread thread_;
    int waiters_ = 0;
    bool is_stopping_ = false;
};

} // namespace acre_torch::group
