/* SPDX-License-Identifier: MIT */
#include "group/bridge.h"

#include "group/work.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace acre_torch::group {

using c10d::OpType;

/* Bytes of a piece; the block has room for two. */
static constexpr std::size_t BRIDGE_BYTES = 4u << 20;
static constexpr int CHANNEL = 0;
static constexpr uint64_t CONNECT_MS = 5000; /* for one of several addresses */
static constexpr const char *KEY = "acre_bridge";

static void status_pass(acre_status status, const char *doing)
{
    if (status == ACRE_OK)
        return;
    std::string text = acre_last_error();
    TORCH_CHECK_WITH(DistBackendError, false, "Acre: ", doing, " over the wire between hosts: ",
                     text.empty() ? acre_status_text(status) : text.c_str());
}

/* The addresses of this host, that of the host itself last. */
static std::vector<std::string> addresses_own()
{
    std::vector<std::string> out;
    ifaddrs *first = nullptr;

    if (getifaddrs(&first) == 0)
        for (ifaddrs *at = first; at; at = at->ifa_next) {
            char text[INET_ADDRSTRLEN];
            if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET ||
                (at->ifa_flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP)
                continue;
            auto *address = reinterpret_cast<sockaddr_in *>(at->ifa_addr);
            if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof text))
                out.push_back(text);
        }
    freeifaddrs(first);
    out.push_back("127.0.0.1");
    return out;
}

static std::string secret_make()
{
    uint8_t bytes[16];
    char text[33];

    TORCH_CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes,
                "Acre: no random numbers from the system");
    for (std::size_t i = 0; i < sizeof bytes; i++)
        std::snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

/* PyTorch's store tells where the first host serves one of Acre's, and its secret: a wire needs
 * counters, which not every store of PyTorch keeps for others. */
void HostBridge::store_open(c10d::Store &store)
{
    std::string secret, address;
    uint16_t port = 0;

    if (rank_ == 0) {
        std::ostringstream where;
        secret = secret_make();
        status_pass(acre_store_server_create("0.0.0.0", 0, secret.c_str(), &server_), "serving");
        where << acre_store_server_port(server_) << " " << secret;
        for (const std::string &own : addresses_own())
            where << " " << own;
        std::string text = where.str();
        store.set(KEY, std::vector<uint8_t>(text.begin(), text.end()));
    }
    std::vector<uint8_t> told = store.get(KEY);
    std::istringstream where(std::string(told.begin(), told.end()));
    acre_status status = ACRE_ERR_PEER;
    where >> port >> secret;
    while (status != ACRE_OK && where >> address)
        status = acre_store_connect(address.c_str(), port, secret.c_str(),
                                    std::min(CONNECT_MS, limit_of(timeout_)), &store_);
    status_pass(status, "connecting");
    status_pass(acre_store_set_timeout(store_, limit_of(timeout_)), "connecting");
}

HostBridge::HostBridge(const c10::intrusive_ptr<c10d::Store> &store, int host, int count,
                       std::chrono::milliseconds timeout)
    : Backend(host, count), timeout_(timeout)
{
    static std::atomic<unsigned> counter{0};
    std::string name = "torch-bridge-" + std::to_string(counter++);
    acre_group_config config = {};
    acre_symm_config block = {};

    config.struct_size = sizeof config;
    config.flags = ACRE_GROUP_ALLOW_OVERLAP;
    config.rank = host;
    config.world_size = count;
    config.name = name.c_str();
    config.store_name = "bridge";
    config.timeout_ms = limit_of(timeout);
    block.struct_size = sizeof block;
    block.group = name.c_str();
    try {
        store_open(*store);
        config.store = store_;
        status_pass(acre_group_create(&config, &group_), "meeting");
        status_pass(acre_symm_alloc(&block, 2 * BRIDGE_BYTES, &block_), "making room");
        status_pass(acre_symm_rendezvous(block_, nullptr, &symm_), "meeting");
    } catch (...) {
        forget();
        throw;
    }
    brought_.resize((BRIDGE_BYTES / count + 64) * count);
}

HostBridge::~HostBridge()
{
    forget();
}

void HostBridge::forget()
{
    acre_symm_release(symm_);
    acre_symm_free(block_);
    acre_group_destroy(group_);
    acre_store_destroy(store_);
    acre_store_server_destroy(server_);
}

uint64_t HostBridge::limit_of(std::chrono::milliseconds timeout) const
{
    if (timeout == c10d::kUnsetTimeout)
        timeout = timeout_;
    return static_cast<uint64_t>(std::max<int64_t>(timeout.count(), 1));
}

/* ---- Steps ---------------------------------------------------------------------------- */

void HostBridge::meet(uint64_t limit_ms)
{
    status_pass(acre_symm_barrier(symm_, CHANNEL, limit_ms), "meeting");
}

void HostBridge::get(int host, std::size_t offset, void *out, std::size_t bytes, uint64_t limit_ms)
{
    acre_collective_options options = {};

    options.struct_size = sizeof options;
    options.timeout_ms = limit_ms;
    if (bytes == 0)
        return;
    status_pass(acre_symm_get(symm_, host, offset, out, bytes, &options), "reading");
    received_ += bytes;
}

/* Reduces one piece in place. */
void HostBridge::reduce_piece(char *data, std::size_t count, Reduce reduce, c10::ScalarType type,
                              uint64_t limit_ms)
{
    std::size_t element = c10::elementSize(type), each = (count + size_ - 1) / size_;
    char *contributed = static_cast<char *>(block_), *reduced = contributed + BRIDGE_BYTES;
    auto begin_of = [&](int host) { return std::min(each * host, count) * element; };
    auto bytes_of = [&](int host) { return begin_of(host + 1) - begin_of(host); };
    std::vector<const void *> sources(size_);
    std::size_t own = begin_of(rank_), bytes = bytes_of(rank_);

    std::memcpy(contributed, data, count * element);
    meet(limit_ms);
    for (int h = 0; h < size_; h++) {
        char *place = brought_.data() + h * (BRIDGE_BYTES / size_ + 64);
        sources[h] = h == rank_ ? data + own : place;
        if (h != rank_)
            get(h, own, place, bytes, limit_ms);
    }
    if (bytes)
        reduce_run(reduced + own, sources.data(), size_, bytes / element, reduce, type);
    meet(limit_ms);
    std::memcpy(data + own, reduced + own, bytes);
    for (int h = 0; h < size_; h++)
        if (h != rank_)
            get(h, BRIDGE_BYTES + begin_of(h), data + begin_of(h), bytes_of(h), limit_ms);
}

HostBridge::WorkPtr HostBridge::done(OpType type, const Tensors &tensors)
{
    auto work = c10::make_intrusive<AcreWork>(rank_, type, nullptr, std::nullopt, tensors, 0);
    work->complete();
    return work;
}

/* ---- Operations ----------------------------------------------------------------------- */

HostBridge::WorkPtr HostBridge::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    uint64_t limit = limit_of(options.timeout);

    for (at::Tensor &tensor : tensors) {
        std::size_t element = tensor.element_size(), piece = BRIDGE_BYTES / element;
        std::size_t count = static_cast<std::size_t>(tensor.numel());
        char *data = static_cast<char *>(tensor.data_ptr());
        for (std::size_t k = 0; k < count; k += piece)
            reduce_piece(data + k * element, std::min(piece, count - k), options.reduceOp,
                         tensor.scalar_type(), limit);
    }
    return done(OpType::ALLREDUCE, tensors);
}

HostBridge::WorkPtr HostBridge::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
    uint64_t limit = limit_of(options.timeout);
    int root = static_cast<int>(options.rootRank);

    for (at::Tensor &tensor : tensors) {
        char *data = static_cast<char *>(tensor.data_ptr());
        for (std::size_t k = 0; k < tensor.nbytes(); k += BRIDGE_BYTES) {
            std::size_t some = std::min(BRIDGE_BYTES, tensor.nbytes() - k);
            if (rank_ == root)
                std::memcpy(block_, data + k, some);
            meet(limit);
            if (rank_ != root)
                get(root, 0, data + k, some, limit);
            meet(limit);
        }
    }
    return done(OpType::BROADCAST, tensors);
}

HostBridge::WorkPtr HostBridge::barrier(const c10d::BarrierOptions &options)
{
    meet(limit_of(options.timeout));
    return done(OpType::BARRIER, {});
}

} // namespace acre_torch::group
