/* SPDX-License-Identifier: MIT */
/* The symmetric memory in which the ranks of a group on one host exchange data.
 *
 * Every rank owns one block that all ranks can read:
 *
 *     | page of notes | slot 0 | slot 1 | mail ... |
 *
 * Collectives advance in steps, which all ranks count alike. In step s a rank writes to its own
 * slot s % 2, publishes s, waits until every other rank has published s, and reads the slots of
 * the others; an all-reduce also writes its results there. A rank that publishes s + 1 has finished
 * with what belongs to step s - 1 and s of others, so a slot may be written again two steps later,
 * and no second meeting is needed.
 *
 * A published word holds the step (40 bits) and a digest of the call (24 bits). Ranks that make
 * different calls therefore see it in the first step, before any data has moved, on all ranks;
 * the page of notes then tells what the other rank was doing. The group stays usable.
 *
 * A wait looks every 60 ms for ranks that have died and for failures that others report.
 *
 * Threads: one collective at a time (the group's queue sees to it); mail has its own lock.
 */
#pragma once

#include "group/call.h"

#include <acre/collective.h>
#include <acre/symm.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace acre_torch::group {

/* Bytes of one slot. */
inline constexpr std::size_t SLOT_BYTES = 1u << 20;

/* Instead of a rank: whichever it is. */
inline constexpr int ANY_RANK = -1;

/* How many forks lie between this process and its first ancestor that loaded this: what was made
 * when there were fewer is that of a parent. */
unsigned fork_generation();
/* Refuses a call in a child of fork, for what rank its parent is. */
[[noreturn]] void inherited_throw(const char *name, int rank);

class Room {
  public:
    /* Meets the other ranks through the store, which passes to the room. */
    Room(acre_store *store, int rank, int size, std::chrono::milliseconds timeout);
    ~Room();
    Room(const Room &) = delete;
    Room &operator=(const Room &) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    /* Whether there are more ranks than processors. */
    bool is_crowded() const { return is_crowded_; }

    /* Slot of a rank for the step that is about to be published, or was just published. */
    char *input(int rank) const { return inputs_[rank] + (step_ & 1) * SLOT_BYTES; }
    /* Slot of the step before. */
    char *input_before(int rank) const { return inputs_[rank] + (~step_ & 1) * SLOT_BYTES; }

    /* Begins a call: refuses when the group has failed before. Its first step follows. */
    void begin(const Call &call);
    /* Tells the others that this rank's slots are written. */
    void publish(const Call &call);
    /* Waits until all other ranks have published the present step, then goes to the next one:
     * from here on the slots that were just exchanged are the _before ones. */
    void meet(const Call &call);

    /* Whether all ranks named one symmetric memory in the step before. */
    bool is_symmetric() const;
    /* Whether some rank named one; all ranks get the same answer. */
    bool is_partly_symmetric() const;

    /* Mail: one ring per sender in the block of the receiver; see mail.h. */
    char *mail(int owner, int sender) const { return mails_[owner] + mail_bytes_ * sender; }
    std::size_t mail_bytes() const { return mail_bytes_; }
    /* Rings the bell of a rank, and waits up to 60 ms for one's own from a rank. */
    void bell_ring(int rank);
    uint64_t bell_count(int rank) const;
    void bell_wait(int rank, uint64_t seen);
    /* Throws if the group has failed or was aborted. */
    void mail_look(const Call &call);
    /* Why a message to or from a rank cannot come any more, or, of ANY_RANK, from none of them:
     * they are gone, or it is late. Empty if it can. */
    std::string mail_trouble(const Call &call, int rank, bool is_late);

    /* Whether this is a child of fork of the process that made the room. What it inherits is the
     * parent's: it has none of the threads, and would write in the parent's place. */
    bool is_inherited() const;
    /* Throws if it is. */
    void own_check(const char *name) const;
    /* Fails the group on all ranks, for a reason from outside. */
    void report(const std::string &text);
    /* The same, and throws it. */
    [[noreturn]] void fail(const std::string &text);
    /* Ends all waiting of this process with an exception. */
    void abort();
    /* What the calling thread waits for may take long: it gives its processor away at once. */
    static void be_patient() { is_patient_ = true; }
    bool is_failed() const { return is_failed_.load(std::memory_order_relaxed); }

  private:
    struct Notes;
    std::atomic<uint64_t> *flag(int owner, int sender, uint64_t step) const;
    std::size_t flag_index(int sender, uint64_t step) const;
    Notes *notes(int rank) const;
    void layout();
    bool spin(const std::atomic<uint64_t> &word, uint64_t value) const;
    void await(const Call &call, int rank, uint64_t value);
    bool is_missing(int rank, uint64_t value) const;
    void look_around(const Call &call, uint64_t value);
    void mismatch_check(const Call &call);
    std::string dead_text(const Call &call, int rank) const;
    [[noreturn]] void fail_late(const Call &call, uint64_t value);
    [[noreturn]] void fail_again(const Call &call);
    void failure_note(const std::string &text);
    void forget();

    static thread_local bool is_patient_;

    int rank_, size_;
    unsigned forks_; /* before this process made the room */
    bool is_crowded_ = false;
    uint64_t step_ = 1;
    std::size_t mail_bytes_ = 0, flag_stride_ = 8, bell_base_ = 0;
    acre_store *store_ = nullptr;
    acre_group *group_ = nullptr;
    void *block_ = nullptr;
    acre_symm *symm_ = nullptr;
    std::vector<char *> bases_, inputs_, mails_;
    std::vector<std::atomic<uint64_t> *> pads_;
    std::atomic<bool> is_failed_{false}, is_aborted_{false};
    std::mutex failure_mutex_; /* collectives and messages may fail at a time */
    std::string failure_;      /* the first, guarded by failure_mutex_        */
};

} // namespace acre_torch::group
