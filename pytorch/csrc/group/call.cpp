/* SPDX-License-Identifier: MIT */
#include "group/call.h"

#include "device/counted.h"

#include <sstream>

namespace acre_torch::group {

/* What is a century away never comes: the clock's nanoseconds do not reach much farther. */
static constexpr std::chrono::milliseconds NEVER = std::chrono::hours(876000);

uint64_t Agreement::digest() const
{
    uint64_t mixed = op | static_cast<uint64_t>(static_cast<uint8_t>(type)) << 8 |
                     static_cast<uint64_t>(static_cast<uint8_t>(reduce)) << 16 |
                     static_cast<uint64_t>(static_cast<uint32_t>(root)) << 32;

    mixed = (mixed ^ count * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 31) * 0x94d049bb133111ebull;
    return mixed >> 40;
}

static const char *reduce_text(int32_t reduce)
{
    static const char *const names[] = {"sum", "avg", "product", "min", "max",
                                        "band", "bor", "bxor"};
    return reduce >= 0 && reduce < 8 ? names[reduce] : "unknown";
}

std::string Agreement::text() const
{
    std::ostringstream out;

    out << c10d::opTypeToString(static_cast<c10d::OpType>(op)) << " (sequence number " << sequence;
    if (count)
        out << ", " << counted(count, "element");
    if (type >= 0 && type < static_cast<int32_t>(c10::ScalarType::NumOptions))
        out << " of " << c10::toString(static_cast<c10::ScalarType>(type));
    if (reduce >= 0)
        out << ", reduction " << reduce_text(reduce);
    if (root >= 0)
        out << ", root " << root;
    out << ")";
    return out.str();
}

Call::Call(const char *name, const Agreement &agreed, std::chrono::milliseconds timeout)
    : name(name), agreed(agreed), timeout(timeout),
      deadline(timeout.count() > 0 && timeout < NEVER
                   ? std::chrono::steady_clock::now() + timeout
                   : std::chrono::steady_clock::time_point::max()),
      digest(agreed.digest())
{
}

Call Call::about(const Agreement &part) const
{
    Call copy = *this;

    copy.agreed = part;
    copy.agreed.op = agreed.op;
    copy.agreed.sequence = agreed.sequence;
    copy.digest = copy.agreed.digest();
    return copy;
}

std::string Call::title() const
{
    return std::string(name) + " (sequence number " + std::to_string(agreed.sequence) + ")";
}

} // namespace acre_torch::group
