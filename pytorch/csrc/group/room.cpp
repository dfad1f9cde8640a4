/* SPDX-License-Identifier: MIT */
#include "group/room.h"

#include <c10/util/Exception.h>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace acre_torch::group {

static constexpr std::size_t NOTES_BYTES = 4096;
static constexpr int DIGEST_BITS = 24;
static constexpr uint64_t SLICE_MS = 60; /* between looks at who has died           */
static constexpr int SPIN_COUNT = 3000;  /* looks at a word, about 100 microseconds */
static constexpr int YIELD_COUNT = 200;  /* the same where processors are scarce    */
static constexpr int SIZE_MAX_HOST = 256;
static constexpr std::size_t PAD_WORDS = 1152; /* 64-bit words of a default signal pad */

/* What a rank tells others about itself; each has one at the start of its block. */
struct Room::Notes {
    Agreement calls[2]; /* of the step, by its parity                                */
    char text[1024];    /* of this rank's failure, written before it is reported     */
    std::atomic<uint64_t> failure; /* reporter + 1, written by the first who reports  */
};

static std::string last_error(acre_status status)
{
    const char *text = acre_last_error();
    return *text ? text : acre_status_text(status);
}

[[noreturn]] static void backend_throw(const std::string &text)
{
    TORCH_CHECK_WITH(DistBackendError, false, "Acre: ", text);
}

static std::atomic<unsigned> fork_count{0};
[[maybe_unused]] static const int fork_watch =
    pthread_atfork(nullptr, nullptr, [] { fork_count++; });

unsigned fork_generation()
{
    return fork_count.load(std::memory_order_relaxed);
}

void inherited_throw(const char *name, int rank)
{
    backend_throw(std::string(name) + ": this process was forked from rank " +
                  std::to_string(rank) + ", whose process group \"acre\" does not work in it; "
                  "make a new group here, or start processes with spawn");
}

/* ---- Coming and going ----------------------------------------------------------------- */

Room::Room(acre_store *store, int rank, int size, std::chrono::milliseconds timeout)
    : rank_(rank), size_(size), forks_(fork_generation()), store_(store)
{
    static std::atomic<unsigned> counter{0};
    std::string name = "torch-room-" + std::to_string(counter++);
    acre_group_config config = {};
    acre_symm_config block = {};

    try {
        TORCH_CHECK(size <= SIZE_MAX_HOST, "Acre: ", size, " ranks on one host are more than the ",
                    SIZE_MAX_HOST, " that process group \"acre\" serves");
        config.struct_size = sizeof config;
        config.flags = ACRE_GROUP_ALLOW_OVERLAP;
        config.rank = rank;
        config.world_size = size;
        config.name = name.c_str();
        config.store_name = "room";
        config.store = store;
        config.timeout_ms = static_cast<uint64_t>(std::max<int64_t>(timeout.count(), 1));
        mail_bytes_ = size <= 8 ? 256u << 10 : 32u << 10;
        std::size_t bytes = NOTES_BYTES + 2 * SLOT_BYTES + size * mail_bytes_;
        block.struct_size = sizeof block;
        block.group = name.c_str();
        acre_status status = acre_group_create(&config, &group_);
        if (status == ACRE_OK)
            status = acre_symm_alloc(&block, bytes, &block_);
        if (status == ACRE_OK)
            status = acre_symm_rendezvous(block_, nullptr, &symm_);
        if (status != ACRE_OK)
            backend_throw("process group \"acre\", rank " + std::to_string(rank) + " of " +
                          std::to_string(size) + ": " + last_error(status));
        layout();
    } catch (...) {
        forget();
        throw;
    }
}

void Room::layout()
{
    for (int r = 0; r < size_; r++) {
        void *base = nullptr, *pad = nullptr;
        std::size_t words = 0;
        acre_status status = acre_symm_buffer(symm_, r, 0, NOTES_BYTES, &base);
        if (status == ACRE_OK)
            status = acre_symm_pad(symm_, r, 8, 0, 0, &pad, &words);
        if (status != ACRE_OK)
            backend_throw("memory of rank " + std::to_string(r) + ": " + last_error(status));
        TORCH_CHECK(words >= 3u * size_, "Acre: signal pads of ", words * 8, " bytes are too small "
                    "for ", size_, " ranks; leave symm_mem.set_signal_pad_size() at its default");
        flag_stride_ = words >= 17u * size_ ? 8 : 1;
        bell_base_ = 2 * flag_stride_ * size_;
        bases_.push_back(static_cast<char *>(base));
        inputs_.push_back(bases_[r] + NOTES_BYTES);
        mails_.push_back(inputs_[r] + 2 * SLOT_BYTES);
        pads_.push_back(static_cast<std::atomic<uint64_t> *>(pad));
    }
    is_crowded_ = size_ > sysconf(_SC_NPROCESSORS_ONLN);
}

void Room::forget()
{
    acre_symm_release(symm_);
    acre_symm_free(block_);
    acre_group_destroy(group_);
    acre_store_destroy(store_);
}

Room::~Room()
{
    forget();
}

/* ---- Steps ---------------------------------------------------------------------------- */

Room::Notes *Room::notes(int rank) const
{
    return reinterpret_cast<Notes *>(bases_[rank]);
}

std::size_t Room::flag_index(int sender, uint64_t step) const
{
    return ((step & 1) * size_ + sender) * flag_stride_;
}

std::atomic<uint64_t> *Room::flag(int owner, int sender, uint64_t step) const
{
    return pads_[owner] + flag_index(sender, step);
}

bool Room::is_inherited() const
{
    return forks_ != fork_generation();
}

void Room::own_check(const char *name) const
{
    if (__builtin_expect(is_inherited(), 0))
        inherited_throw(name, rank_);
}

void Room::begin(const Call &call)
{
    own_check(call.name);
    if (is_failed_.load(std::memory_order_acquire) || is_aborted_.load(std::memory_order_relaxed))
        fail_again(call);
    if (notes(rank_)->failure.load(std::memory_order_relaxed) != 0)
        look_around(call, 0);
}

void Room::publish(const Call &call)
{
    uint64_t value = step_ << DIGEST_BITS | call.digest;

    notes(rank_)->calls[step_ & 1] = call.agreed;
    for (int i = 1; i < size_; i++) {
        int r = (rank_ + i) % size_;
        acre_symm_put_with_signal(symm_, r, 0, nullptr, 0, flag_index(rank_, step_), value,
                                  nullptr);
    }
}

void Room::meet(const Call &call)
{
    uint64_t least = step_ << DIGEST_BITS, same = least | call.digest;
    bool is_different = false;

    for (int i = 1; i < size_; i++) {
        int r = (rank_ + i) % size_;
        std::atomic<uint64_t> &word = *flag(rank_, r, step_);
        uint64_t seen = word.load(std::memory_order_acquire);
        if (seen < least && !spin(word, least))
            await(call, r, least);
        is_different |= word.load(std::memory_order_acquire) != same;
    }
    if (__builtin_expect(is_different, 0))
        mismatch_check(call);
    step_++;
}

bool Room::is_symmetric() const
{
    uint64_t own = notes(rank_)->calls[~step_ & 1].symmetric;

    for (int r = 0; own && r < size_; r++)
        if (notes(r)->calls[~step_ & 1].symmetric != own)
            return false;
    return own != 0;
}

bool Room::is_partly_symmetric() const
{
    for (int r = 0; r < size_; r++)
        if (notes(r)->calls[~step_ & 1].symmetric != 0)
            return true;
    return false;
}

thread_local bool Room::is_patient_ = false;

/* Looks at a word for a while; whether it has come. */
bool Room::spin(const std::atomic<uint64_t> &word, uint64_t value) const
{
    if (is_patient_)
        return false;
    for (int i = 0; i < (is_crowded_ ? YIELD_COUNT : SPIN_COUNT); i++) {
        if (is_crowded_)
            sched_yield();
        else
            __builtin_ia32_pause();
        if (word.load(std::memory_order_acquire) >= value)
            return true;
    }
    return false;
}

/* ---- Waiting longer ------------------------------------------------------------------- */

bool Room::is_missing(int rank, uint64_t value) const
{
    return rank != rank_ && flag(rank_, rank, step_)->load(std::memory_order_acquire) < value;
}

/* Sleeps until a rank's word has come. Each slice of time also watches another missing rank. */
void Room::await(const Call &call, int rank, uint64_t value)
{
    acre_collective_options options = {};
    int watched = rank;

    options.struct_size = sizeof options;
    options.timeout_ms = SLICE_MS;
    for (;;) {
        acre_status status = acre_symm_wait_for_signal(
            symm_, watched, flag_index(rank, step_), value, ACRE_WAIT_GEQ, &options);
        if (status == ACRE_OK)
            return;
        if (status == ACRE_ERR_PEER && is_missing(watched, value))
            fail(dead_text(call, watched));
        if (status != ACRE_ERR_PEER && status != ACRE_ERR_TIMEOUT)
            fail(call.title() + ": " + last_error(status));
        look_around(call, value);
        if (call.is_late() && is_missing(rank, value))
            fail_late(call, value);
        do
            watched = (watched + 1) % size_;
        while (watched != rank && !is_missing(watched, value));
    }
}

/* Notices what another rank or thread has reported. */
void Room::look_around(const Call &call, uint64_t value)
{
    if (is_aborted_.load(std::memory_order_relaxed))
        fail_again(call);
    uint64_t reporter = notes(rank_)->failure.load(std::memory_order_acquire);
    if (reporter == 0 || reporter > static_cast<uint64_t>(size_))
        return;
    const Notes *theirs = notes(static_cast<int>(reporter) - 1);
    std::string text(theirs->text, strnlen(theirs->text, sizeof theirs->text));
    failure_note(text);
    backend_throw(call.title() + " on rank " + std::to_string(rank_) + " cannot finish; rank " +
                  std::to_string(reporter - 1) + " reports: " + text);
}

/* Right after the call that noticed it. */
std::string Room::dead_text(const Call &call, int rank) const
{
    std::string why = last_error(ACRE_ERR_PEER);
    auto at = why.find("rank ");
    return call.title() + " on rank " + std::to_string(rank_) + ": " +
           (at == std::string::npos ? "rank " + std::to_string(rank) + " is gone"
                                    : why.substr(at));
}

void Room::fail_late(const Call &call, uint64_t value)
{
    std::string missing;

    for (int r = 0; r < size_; r++)
        if (is_missing(r, value))
            missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(r);
    fail(call.title() + " on rank " + std::to_string(rank_) + ": Timed out after " +
             std::to_string(call.timeout.count()) + " ms waiting for " + missing +
             ", which did not call it");
}

void Room::fail(const std::string &text)
{
    report(text);
    backend_throw(text);
}

void Room::failure_note(const std::string &text)
{
    std::lock_guard<std::mutex> guard(failure_mutex_);

    if (failure_.empty())
        failure_ = text;
    is_failed_.store(true, std::memory_order_release);
}

/* Tells the others, so that nobody waits for this rank. */
void Room::report(const std::string &text)
{
    Notes *own = notes(rank_);

    failure_note(text);
    std::lock_guard<std::mutex> guard(failure_mutex_);
    std::size_t bytes = std::min(text.size(), sizeof own->text - 1);
    std::memcpy(own->text, text.data(), bytes);
    own->text[bytes] = 0;
    for (int r = 0; r < size_; r++) {
        uint64_t none = 0;
        if (r != rank_)
            notes(r)->failure.compare_exchange_strong(none, rank_ + 1);
    }
}

void Room::fail_again(const Call &call)
{
    if (is_aborted_)
        backend_throw(call.title() + ": process group \"acre\" was aborted on this rank; make a "
                      "new group");
    std::lock_guard<std::mutex> guard(failure_mutex_);
    backend_throw(call.title() + ": process group \"acre\" has failed before (" + failure_ +
                  "); make a new group");
}

/* All ranks come here in the same step, since each differs from some other. */
void Room::mismatch_check(const Call &call)
{
    uint64_t same = step_ << DIGEST_BITS | call.digest;
    std::string text;

    for (int r = 0; r < size_; r++)
        if (r != rank_ && flag(rank_, r, step_)->load(std::memory_order_acquire) != same)
            text += (text.empty() ? "" : ", ") + std::string("rank ") + std::to_string(r) +
                    " called " + notes(r)->calls[step_ & 1].text();
    step_++;
    backend_throw("ranks made different calls: rank " + std::to_string(rank_) + " called " +
                  call.agreed.text() + ", " + text +
                  "; all ranks of a group must make equal calls in equal order");
}

/* ---- Mail ----------------------------------------------------------------------------- */

void Room::bell_ring(int rank)
{
    std::size_t index = bell_base_ + rank_;
    uint64_t count = pads_[rank][index].load(std::memory_order_relaxed) + 1;
    acre_symm_put_with_signal(symm_, rank, 0, nullptr, 0, index, count, nullptr);
}

uint64_t Room::bell_count(int rank) const
{
    return pads_[rank_][bell_base_ + rank].load(std::memory_order_acquire);
}

void Room::bell_wait(int rank, uint64_t seen)
{
    acre_collective_options options = {};

    if (spin(pads_[rank_][bell_base_ + rank], seen + 1))
        return;
    options.struct_size = sizeof options;
    options.timeout_ms = SLICE_MS;
    acre_symm_wait_for_signal(symm_, rank, bell_base_ + rank, seen + 1, ACRE_WAIT_GEQ, &options);
}

void Room::mail_look(const Call &call)
{
    if (is_failed() || is_aborted_)
        fail_again(call);
    look_around(call, 0);
}

std::string Room::mail_trouble(const Call &call, int rank, bool is_late)
{
    acre_collective_options options = {};
    acre_status status = ACRE_OK;
    std::string why;

    options.struct_size = sizeof options;
    options.timeout_ms = SLICE_MS;
    for (int i = 1; i < size_ && (i == 1 || (rank == ANY_RANK && status == ACRE_ERR_PEER)); i++) {
        int r = rank == ANY_RANK ? (rank_ + i) % size_ : rank;
        status = acre_symm_wait_for_signal(symm_, r, bell_base_ + r, bell_count(r) + 1,
                                           ACRE_WAIT_GEQ, &options);
        if (status == ACRE_ERR_PEER && why.empty())
            why = dead_text(call, r);
    }
    if (status == ACRE_ERR_PEER)
        return why;
    if (!is_late)
        return "";
    return call.title() + " on rank " + std::to_string(rank_) + ": Timed out after " +
           std::to_string(call.timeout.count()) + " ms waiting for " +
           (rank == ANY_RANK ? "any rank" : "rank " + std::to_string(rank));
}

void Room::abort()
{
    is_aborted_ = true;
}

} // namespace acre_torch::group
