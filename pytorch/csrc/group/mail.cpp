/* SPDX-License-Identifier: MIT */
#include "group/mail.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <system_error>

namespace acre_torch::group {

/* Between looks at who has died, while any rank may send: one takes 60 ms when nobody has. */
static constexpr std::chrono::milliseconds LOOK_TIME{500};

void (*thread_join)(std::thread &thread) = [](std::thread &thread) { thread.join(); };

SignalMask::SignalMask(const sigset_t *mask) : is_set_(mask)
{
    if (is_set_)
        pthread_sigmask(SIG_SETMASK, mask, &before_);
}

SignalMask::~SignalMask()
{
    if (is_set_)
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

static thread_local const sigset_t *starter_mask; /* in threads of thread_start */

const sigset_t *callback_mask()
{
    return starter_mask;
}

std::thread thread_start(const char *name, std::function<void()> body)
{
    sigset_t blocked;

    sigfillset(&blocked);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
        sigdelset(&blocked, fault);
    SignalMask mask(&blocked);
    try {
        const sigset_t *programs = starter_mask ? starter_mask : &mask.before();
        return std::thread([before = *programs, body = std::move(body)] {
            starter_mask = &before;
            body();
            starter_mask = nullptr;
        });
    } catch (const std::system_error &error) {
        TORCH_CHECK_WITH(DistBackendError, false, "Acre: ", name, ": no thread can be started: ",
                         error.what());
    }
    return {};
}

struct Mail::Ring {
    alignas(64) std::atomic<uint64_t> written; /* by the sender   */
    alignas(64) std::atomic<uint64_t> taken;   /* by the receiver */
    alignas(64) char data[];
};

/* Headers and the bytes behind them begin at multiples of 32, so that no header is cut. */
struct Mail::Header {
    uint64_t bytes;
    int64_t tag;
    uint64_t reserved[2];
};

/* A message on its way in. */
struct Mail::Incoming {
    Header header;
    std::size_t moved = 0;
    LetterPtr letter;        /* who gets it; null: nobody yet          */
    std::vector<char> bytes; /* where it is kept as long as it is nobody's */
    bool is_whole() const { return moved == (header.bytes + 31) / 32 * 32; }
};

Mail::Mail(std::shared_ptr<Room> room)
    : owner_(std::move(room)), room_(*owner_), sends_(room_.size()), now_(room_.size()),
      stored_(room_.size())
{
}

Mail::~Mail()
{
    stop();
}

Mail::Ring *Mail::ring(int owner, int sender) const
{
    return reinterpret_cast<Ring *>(room_.mail(owner, sender));
}

static std::size_t ring_room(const Room &room)
{
    return room.mail_bytes() - 128;
}

/* Copies into or out of a ring at a position that counts all bytes ever. */
static void ring_copy(char *data, std::size_t capacity, uint64_t position, char *memory,
                      std::size_t bytes, bool is_in)
{
    std::size_t at = position % capacity, first = std::min(bytes, capacity - at);

    if (bytes == 0)
        return;
    if (is_in) {
        std::memcpy(data + at, memory, first);
        std::memcpy(data, memory + first, bytes - first);
    } else {
        std::memcpy(memory, data + at, first);
        std::memcpy(memory + first, data, bytes - first);
    }
}

/* ---- Sending -------------------------------------------------------------------------- */

/* Writes what fits. moved counts the header and the padded bytes. */
bool Mail::send_locked(int rank, std::vector<LetterPtr> &done)
{
    Ring *out = ring(rank, room_.rank());
    std::size_t capacity = ring_room(room_) / 32 * 32;
    uint64_t written = out->written.load(std::memory_order_relaxed);
    bool has_moved = false;

    while (!sends_[rank].empty()) {
        Letter &letter = *sends_[rank].front();
        std::size_t space = capacity - (written - out->taken.load(std::memory_order_acquire));
        if (space == 0)
            break;
        if (letter.moved == 0) {
            Header header = {letter.bytes, letter.tag, {0, 0}};
            ring_copy(out->data, capacity, written, reinterpret_cast<char *>(&header),
                      sizeof header, true);
            written += sizeof header;
            space -= sizeof header;
            letter.moved = sizeof header;
        }
        std::size_t at = letter.moved - sizeof(Header), padded = (letter.bytes + 31) / 32 * 32;
        std::size_t some = std::min(space, padded - at);
        if (at < letter.bytes)
            ring_copy(out->data, capacity, written, letter.data + at,
                      std::min(some, letter.bytes - at), true);
        written += some;
        letter.moved += some;
        has_moved = true;
        out->written.store(written, std::memory_order_release);
        if (at + some < padded)
            break;
        done.push_back(sends_[rank].front());
        sends_[rank].pop_front();
    }
    if (has_moved)
        room_.bell_ring(rank);
    return has_moved;
}

/* ---- Receiving ------------------------------------------------------------------------ */

/* Refuses a message whose size is not the one asked for; its bytes are dropped. */
static void size_check(Letter &letter, std::size_t bytes, int rank)
{
    if (letter.bytes == bytes)
        return;
    try {
        TORCH_CHECK_WITH(DistBackendError, false, "Acre: ", letter.call.title(), ": rank ", rank,
                         " sent ", bytes, " bytes, and the tensor has ", letter.bytes,
                         " bytes; make both tensors equally large");
    } catch (...) {
        letter.error = std::current_exception();
    }
}

/* Begins with the next message of a rank: finds who has asked for it. */
bool Mail::open_locked(int rank, std::vector<LetterPtr> &done)
{
    Ring *in = ring(room_.rank(), rank);
    std::size_t capacity = ring_room(room_) / 32 * 32;
    uint64_t taken = in->taken.load(std::memory_order_relaxed);

    if (in->written.load(std::memory_order_acquire) - taken < sizeof(Header))
        return false;
    Header header;
    ring_copy(in->data, capacity, taken, reinterpret_cast<char *>(&header), sizeof header, false);
    auto found = std::find_if(receives_.begin(), receives_.end(), [&](const LetterPtr &letter) {
        return (letter->rank == rank || letter->rank == ANY_RANK) && letter->tag == header.tag;
    });
    /* Nobody's: it stays in the ring, unless somebody waits for a message behind it. */
    bool is_wanted = found != receives_.end();
    bool is_in_the_way = std::any_of(receives_.begin(), receives_.end(), [&](const auto &letter) {
        return letter->rank == rank || letter->rank == ANY_RANK;
    });
    if (!is_wanted && !is_in_the_way)
        return false;
    auto incoming = std::make_unique<Incoming>();
    incoming->header = header;
    if (is_wanted) {
        incoming->letter = *found;
        receives_.erase(found);
        incoming->letter->rank = rank;
        size_check(*incoming->letter, header.bytes, rank);
    } else {
        incoming->bytes.resize(header.bytes);
    }
    in->taken.store(taken + sizeof header, std::memory_order_release);
    now_[rank] = std::move(incoming);
    return true;
}

bool Mail::receive_locked(int rank, std::vector<LetterPtr> &done)
{
    Ring *in = ring(room_.rank(), rank);
    std::size_t capacity = ring_room(room_) / 32 * 32;
    bool has_moved = false;

    while (now_[rank] || open_locked(rank, done)) {
        Incoming &message = *now_[rank];
        Letter *letter = message.letter.get();
        uint64_t taken = in->taken.load(std::memory_order_relaxed);
        std::size_t here = in->written.load(std::memory_order_acquire) - taken;
        std::size_t padded = (message.header.bytes + 31) / 32 * 32;
        std::size_t some = std::min(here, padded - message.moved);
        char *to = letter ? letter->data : message.bytes.data();
        if (message.moved < message.header.bytes && !(letter && letter->error))
            ring_copy(in->data, capacity, taken, to + message.moved,
                      std::min<std::size_t>(some, message.header.bytes - message.moved), false);
        in->taken.store(taken + some, std::memory_order_release);
        message.moved += some;
        has_moved = true;
        if (!message.is_whole())
            break;
        if (letter)
            done.push_back(message.letter);
        else
            stored_[rank].push_back(std::move(now_[rank]));
        now_[rank] = nullptr;
    }
    if (has_moved)
        room_.bell_ring(rank);
    return has_moved;
}

/* Whether the message came earlier and was put aside. */
bool Mail::match_stored_locked(const LetterPtr &letter, std::vector<LetterPtr> &done)
{
    for (int r = 0; r < room_.size(); r++) {
        if (letter->rank != r && letter->rank != ANY_RANK)
            continue;
        for (auto it = stored_[r].begin(); it != stored_[r].end(); ++it) {
            Incoming &message = **it;
            if (message.header.tag != letter->tag)
                continue;
            letter->rank = r;
            size_check(*letter, message.header.bytes, r);
            if (!letter->error && letter->bytes)
                std::memcpy(letter->data, message.bytes.data(), letter->bytes);
            stored_[r].erase(it);
            done.push_back(letter);
            return true;
        }
        /* One that is being put aside right now may be taken over in the middle. */
        Incoming *now = now_[r].get();
        if (now && !now->letter && now->header.tag == letter->tag) {
            letter->rank = r;
            size_check(*letter, now->header.bytes, r);
            if (!letter->error)
                std::memcpy(letter->data, now->bytes.data(),
                            std::min<std::size_t>(now->moved, letter->bytes));
            now->letter = letter;
            return true;
        }
    }
    return false;
}

/* ---- Progress ------------------------------------------------------------------------- */

bool Mail::progress_locked(std::vector<LetterPtr> &done)
{
    bool has_moved = false;

    for (int r = 0; r < room_.size(); r++) {
        if (!sends_[r].empty())
            has_moved |= send_locked(r, done);
        if (now_[r] || !receives_.empty())
            has_moved |= receive_locked(r, done);
    }
    return has_moved;
}

/* Tells owners that their letters are done; no lock is held. */
void Mail::settle(std::vector<LetterPtr> &done)
{
    for (const LetterPtr &letter : done) {
        if (letter->finished)
            letter->finished(*letter);
        letter->is_done.store(true, std::memory_order_release);
    }
    done.clear();
}

bool Mail::step()
{
    std::vector<LetterPtr> done;
    bool has_moved;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        has_moved = progress_locked(done);
    }
    settle(done);
    return has_moved;
}

bool Mail::has_pending_locked() const
{
    if (!receives_.empty())
        return true;
    for (int r = 0; r < room_.size(); r++)
        if (!sends_[r].empty() || (now_[r] && now_[r]->letter))
            return true;
    return false;
}

/* Sees to a thread for what is pending. Without one a letter is refused, unless it has begun to
 * move: that one goes on with the next call that waits. */
void Mail::thread_ensure_locked(const LetterPtr &letter)
{
    if (thread_.joinable())
        return;
    try {
        thread_ = thread_start(letter->call.name, [self = shared_from_this()] {
            self->thread_main();
        });
    } catch (...) {
        if (take_back_locked(letter))
            throw;
    }
}

void Mail::post(const LetterPtr &letter)
{
    std::vector<LetterPtr> done;
    std::exception_ptr error;
    bool needs_thread;

    room_.begin(letter->call);
    {
        std::lock_guard<std::mutex> guard(mutex_);
        TORCH_CHECK(!is_stopping_, "Acre: ", letter->call.title(), ": the process group was shut "
                    "down");
        if (letter->is_send)
            sends_[letter->rank].push_back(letter);
        else if (!match_stored_locked(letter, done))
            receives_.push_back(letter);
        progress_locked(done);
        needs_thread = has_pending_locked();
        try {
            if (needs_thread)
                thread_ensure_locked(letter);
        } catch (...) {
            error = std::current_exception();
        }
    }
    settle(done);
    if (error)
        std::rethrow_exception(error);
    if (needs_thread)
        wake_.notify_one();
}

/* One that has begun to move stays: the ring has to have all of it. Whether it was taken back. */
bool Mail::take_back_locked(const LetterPtr &letter)
{
    if (letter->is_send && letter->moved == 0) {
        std::deque<LetterPtr> &sends = sends_[letter->rank];
        sends.erase(std::remove(sends.begin(), sends.end(), letter), sends.end());
        return true;
    }
    auto found = std::find(receives_.begin(), receives_.end(), letter);
    bool is_there = found != receives_.end();
    if (is_there)
        receives_.erase(found);
    return is_there;
}

bool Mail::wait(const LetterPtr &letter)
{
    struct Waiter {
        Mail &mail;
        explicit Waiter(Mail &mail) : mail(mail) { add(1); }
        ~Waiter() { add(-1); }
        void add(int amount)
        {
            std::lock_guard<std::mutex> guard(mail.mutex_);
            mail.waiters_ += amount;
            mail.wake_.notify_one();
        }
    };
    if (letter->is_done.load(std::memory_order_acquire))
        return true;
    Waiter waiter(*this);
    auto look_at = std::chrono::steady_clock::now() + LOOK_TIME;
    while (!letter->is_done.load(std::memory_order_acquire)) {
        int rank = letter->rank == ANY_RANK ? (room_.rank() + 1) % room_.size() : letter->rank;
        uint64_t seen = room_.bell_count(rank);
        if (step() || letter->is_done.load(std::memory_order_acquire))
            continue;
        if (letter->rank == ANY_RANK)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        else
            room_.bell_wait(rank, seen);
        bool is_late = letter->call.is_late();
        if (letter->is_done || (room_.bell_count(rank) != seen && !is_late))
            continue;
        auto now = std::chrono::steady_clock::now();
        if (letter->rank == ANY_RANK && !is_late && now < look_at)
            continue;
        look_at = now + LOOK_TIME;
        if (letter->is_gentle && is_late) {
            std::lock_guard<std::mutex> guard(mutex_);
            take_back_locked(letter);
            return false;
        }
        check_all();
    }
    return true;
}

/* ---- Failing -------------------------------------------------------------------------- */

/* Fails all letters if the group has failed, or a rank they need is gone or late. */
void Mail::check_all()
{
    std::vector<LetterPtr> pending;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        pending.assign(receives_.begin(), receives_.end());
        for (int r = 0; r < room_.size(); r++) {
            pending.insert(pending.end(), sends_[r].begin(), sends_[r].end());
            if (now_[r] && now_[r]->letter)
                pending.push_back(now_[r]->letter);
        }
    }
    for (const LetterPtr &letter : pending) {
        if (letter->is_done)
            continue;
        try {
            room_.mail_look(letter->call);
            std::string why = room_.mail_trouble(letter->call, letter->rank,
                                                 letter->call.is_late() && !letter->is_gentle);
            /* Who is gone may have sent before. */
            if (!why.empty() && !step() && !letter->is_done)
                room_.fail(why);
        } catch (...) {
            if (!step() && !letter->is_done)
                return fail_all(std::current_exception());
        }
    }
}

void Mail::fail_all(std::exception_ptr error)
{
    std::vector<LetterPtr> done;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        done.assign(receives_.begin(), receives_.end());
        receives_.clear();
        for (int r = 0; r < room_.size(); r++) {
            done.insert(done.end(), sends_[r].begin(), sends_[r].end());
            sends_[r].clear();
            if (now_[r] && now_[r]->letter)
                done.push_back(now_[r]->letter);
            now_[r] = nullptr;
        }
    }
    for (const LetterPtr &letter : done)
        letter->error = error;
    settle(done);
}

void Mail::thread_main()
{
    int idle = 0;
    std::unique_lock<std::mutex> lock(mutex_);

    while (!is_stopping_) {
        if (!has_pending_locked() || waiters_ > 0) {
            wake_.wait(lock);
            idle = 0;
            continue;
        }
        std::vector<LetterPtr> done;
        bool has_moved = progress_locked(done);
        lock.unlock();
        settle(done);
        idle = has_moved ? 0 : idle + 1;
        if (idle % 1000 == 999)
            check_all();
        else if (!has_moved)
            std::this_thread::sleep_for(std::chrono::microseconds(idle < 100 ? 20 : 100));
        lock.lock();
    }
}

void Mail::stop()
{
    std::thread thread; /* taken by one of those who stop at a time */
    {
        std::lock_guard<std::mutex> guard(mutex_);
        is_stopping_ = true;
        thread.swap(thread_);
    }
    wake_.notify_all();
    if (thread.get_id() == std::this_thread::get_id())
        thread.detach(); /* what hangs on a message stops this */
    else if (thread.joinable())
        thread_join(thread);
    try {
        TORCH_CHECK_WITH(DistBackendError, false, "Acre: the process group was shut down while a "
                         "message was under way");
    } catch (...) {
        fail_all(std::current_exception());
    }
}

} // namespace acre_torch::group
