/* SPDX-License-Identifier: MIT */
#include "group/claim.h"

#include <c10/util/Exception.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace acre_torch::group {

static constexpr const char *PREFIX = "acre-rank-";

/* Sockets that are held. A child of fork holds none: the name would outlive its process. */
static std::mutex claim_mutex;
static std::set<int> &claim_sockets()
{
    static auto *sockets = new std::set<int>;
    return *sockets;
}

[[maybe_unused]] static const int claim_watch = pthread_atfork(
    [] { claim_mutex.lock(); }, [] { claim_mutex.unlock(); },
    [] {
        for (int fd : claim_sockets())
            close(fd);
        claim_sockets().clear();
        claim_mutex.unlock();
    });

/* Holds a name until the descriptor is closed; -1 and errno when somebody else does. */
static int name_hold(const std::string &name)
{
    sockaddr_un address = {};
    int made = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(),
                std::min(name.size(), sizeof address.sun_path - 1));
    socklen_t bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (made >= 0 && bind(made, reinterpret_cast<sockaddr *>(&address), bytes) == 0)
        return made;
    int error = errno;
    if (made >= 0)
        close(made);
    errno = error;
    return -1;
}

/* The namespace in which this process has its number; 0: the system does not tell. */
static unsigned long long namespace_here()
{
    struct stat status;

    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

/* "acre-rank-PROCESS-NAMESPACE-RANDOM" */
static std::string name_make()
{
    uint64_t numbers[2] = {};
    char text[80];

    TORCH_CHECK(getrandom(numbers, sizeof numbers, 0) == sizeof numbers,
                "Acre: no random numbers from the system");
    std::snprintf(text, sizeof text, "%s%d-%llu-%016llx%016llx", PREFIX,
                  static_cast<int>(getpid()), namespace_here(),
                  static_cast<unsigned long long>(numbers[0]),
                  static_cast<unsigned long long>(numbers[1]));
    return text;
}

/* Whether somebody holds a name. */
static bool name_held(const std::string &name)
{
    int probe = name_hold(name);

    if (probe >= 0)
        close(probe);
    return probe < 0 && errno == EADDRINUSE;
}

/* Whether a process has ended, also when nobody has waited for it yet. */
static bool process_has_ended(pid_t pid)
{
    pollfd look = {static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};

    if (look.fd < 0)
        return kill(pid, 0) != 0 && errno == ESRCH;
    bool has_ended = poll(&look, 1, 0) > 0;
    close(look.fd);
    return has_ended;
}

/* The process that holds a name; 0: nobody does, or it is no name of ours. A process that was
   killed while it forked leaves the socket to a child that has not yet closed it, or that runs no
   handlers of fork and never will: nobody has the place of a process that has ended. Where that
   cannot be known, since the process is in another namespace, the name gets some time to become
   free. */
static int name_holder(const std::string &name)
{
    constexpr std::chrono::milliseconds PATIENCE(5000), PAUSE(2);
    auto end = std::chrono::steady_clock::now() + PATIENCE;
    std::size_t start = std::strlen(PREFIX);

    if (name.compare(0, start, PREFIX) != 0 || name.size() > 79)
        return 0;
    char *rest = nullptr;
    int holder = static_cast<int>(std::strtol(name.c_str() + start, &rest, 10));
    unsigned long long here = namespace_here();
    bool is_here = here != 0 && *rest == '-' && std::strtoull(rest + 1, nullptr, 10) == here;
    while (holder > 0 && name_held(name)) {
        bool has_ended = process_has_ended(holder);
        if (has_ended && is_here)
            return 0;
        if (!has_ended || std::chrono::steady_clock::now() >= end)
            return holder;
        std::this_thread::sleep_for(PAUSE);
    }
    return 0;
}

Claim::Claim(c10d::Store &store, int rank, int size)
{
    std::string key = "acre_rank/" + std::to_string(rank), mine = name_make(), found;

    {
        std::lock_guard<std::mutex> guard(claim_mutex);
        socket_ = name_hold(mine);
        if (socket_ >= 0)
            claim_sockets().insert(socket_);
    }
    TORCH_CHECK(socket_ >= 0, "Acre: process group \"acre\", rank ", rank, " of ", size,
                ": a socket cannot be made: ", std::strerror(errno));
    try {
        std::vector<uint8_t> desired(mine.begin(), mine.end());
        std::vector<uint8_t> there = store.compareSet(key, {}, desired);
        found.assign(there.begin(), there.end());
        int holder = found == mine ? 0 : name_holder(found);
        TORCH_CHECK_WITH(DistBackendError, holder == 0 || holder == getpid(),
                         "Acre: process group \"acre\", rank ", rank, " of ", size,
                         ": process ", holder, " is rank ", rank, " of a group in this store "
                         "already; give each job a store of its own (another file or port), and "
                         "each group another PrefixStore");
        if (found != mine)
            store.set(key, desired);
    } catch (...) {
        drop();
        throw;
    }
}

void Claim::drop()
{
    std::lock_guard<std::mutex> guard(claim_mutex);

    if (claim_sockets().erase(socket_))
        close(socket_);
    socket_ = -1;
}

} // namespace acre_torch::group
