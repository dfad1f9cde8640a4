/* SPDX-License-Identifier: MIT */
#include "group/exchange.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

namespace acre_torch::group {

/* Up to this size every rank reads all data of all ranks: one meeting instead of two. */
static constexpr std::size_t ONE_SHOT_BYTES = 32u << 10;
/* Bytes of a piece that passes through the slots, so that the slots of two steps stay in the
 * second-level cache. */
static constexpr std::size_t PIECE_BYTES = 256u << 10;
/* The same of an all-reduce, which comes back to the piece of the tensor: that stays there, too,
 * in a cache of 512 KiB. */
static constexpr std::size_t PIECE_BYTES_SUM = 128u << 10;
/* The same where ranks share processors, and each meeting costs switches between them. */
static constexpr std::size_t PIECE_BYTES_CROWDED = SLOT_BYTES;
/* What is worked on at once, while the lines of the next block come from another processor. */
static constexpr std::size_t BLOCK_BYTES = 2048;

/* All ranks compute equal sizes. */
static std::size_t piece_bytes(const Room &room)
{
    return room.is_crowded() ? PIECE_BYTES_CROWDED : PIECE_BYTES;
}

/* A share of a slot for each rank, in whole lines. Nothing is staged for the rank itself, so that
 * two ranks exchange whole pieces. */
static std::size_t share_bytes(const Room &room, std::size_t element)
{
    std::size_t parts = std::max(room.size() - 1, 1), most = SLOT_BYTES / room.size();
    std::size_t bytes = std::min(piece_bytes(room) / parts, most) / 64 * 64;
    return bytes / element * element;
}

static void copy(void *to, const void *from, std::size_t bytes)
{
    if (bytes && to != from)
        std::memcpy(to, from, bytes);
}

/* Whether lines are worth asking for before they are written. Where cores share a cache behind
 * their own, as AMD's do, the question costs more than it saves. */
static bool is_taking_lines()
{
#if defined(__x86_64__)
    static const bool is_amd = __builtin_cpu_is("amd");
    return !is_amd;
#else
    return true;
#endif
}

/* Takes cache lines over from another processor, to be read and written. */
static void lines_take(const char *begin, std::size_t bytes)
{
    if (!is_taking_lines())
        return;
    for (std::size_t i = 0; i < bytes; i += 64) {
#if defined(__x86_64__)
        __asm__ volatile("prefetchw %0" : : "m"(begin[i]));
#else
        __builtin_prefetch(begin + i, 1);
#endif
    }
}

/* ---- Meeting -------------------------------------------------------------------------- */

void exchange_barrier(Room &room, const Call &call)
{
    room.begin(call);
    room.publish(call);
    room.meet(call);
}

/* ---- Reducing ------------------------------------------------------------------------- */

static void all_reduce_small(Room &room, const Call &call, char *data, std::size_t count,
                             Reduce reduce, c10::ScalarType type)
{
    const void *sources[256];

    copy(room.input(room.rank()), data, count * c10::elementSize(type));
    room.publish(call);
    room.meet(call);
    for (int r = 0; r < room.size(); r++)
        sources[r] = room.input_before(r);
    reduce_run(data, sources, room.size(), count, reduce, type);
}

/* Which elements of a piece a rank reduces: [first, second). */
struct Span {
    std::size_t begin, end;
};

static Span part_of(std::size_t count, int rank, int size, std::size_t element)
{
    std::size_t lines = 64 / std::min<std::size_t>(element, 64); /* elements of a cache line */
    std::size_t each = (count + size - 1) / size;

    each = (each + lines - 1) / lines * lines;
    return {std::min(each * rank, count), std::min(each * (rank + 1), count)};
}

/* One all-reduce under way, piece by piece. Each rank copies a piece into its slot. Rank r then
 * sums part r of all slots and stores the sum in all of them, and each rank copies the sums out of
 * its own slot. So a cache line crosses between processors twice, and stays writable where it is
 * needed next. */
struct Reduction {
    Room &room;
    char *data;
    std::size_t count, element, piece;
    Reduce reduce;
    c10::ScalarType type;

    std::size_t size_of(std::size_t k) const { return std::min(piece, count - k * piece); }
    char *place_of(std::size_t k) const { return data + k * piece * element; }
    Span part(std::size_t k, int rank) const
    {
        return part_of(size_of(k), rank, room.size(), element);
    }

    /* Copies piece k in, but for the part that this rank itself reduces. */
    void stage(std::size_t k) const
    {
        Span own = part(k, room.rank());
        char *slot = room.input(room.rank());
        const char *from = place_of(k);
        copy(slot, from, own.begin * element);
        copy(slot + own.end * element, from + own.end * element,
             (size_of(k) - own.end) * element);
    }

    void others_take(std::size_t offset, std::size_t bytes) const
    {
        for (int r = 0; r < room.size(); r++)
            if (r != room.rank())
                lines_take(room.input_before(r) + offset, bytes);
    }

    /* Reduces the own part of piece k, which was exchanged in the step before. */
    void combine(std::size_t k) const
    {
        Span own = part(k, room.rank());
        std::size_t begin = own.begin * element, end = own.end * element;
        const void *sources[256];
        alignas(64) char sum[BLOCK_BYTES];

        others_take(begin, std::min(BLOCK_BYTES, end - begin));
        for (std::size_t at = begin; at < end; at += BLOCK_BYTES) {
            std::size_t some = std::min(BLOCK_BYTES, end - at), next = at + some;
            others_take(next, std::min(BLOCK_BYTES, end - next));
            for (int r = 0; r < room.size(); r++)
                sources[r] = room.input_before(r) + at;
            sources[room.rank()] = place_of(k) + at;
            char *to = room.size() == 2 ? place_of(k) + at : sum;
            reduce_run(to, sources, room.size(), some / element, reduce, type);
            copy(place_of(k) + at, to, some);
            for (int r = 0; r < room.size(); r++)
                if (r != room.rank())
                    copy(room.input_before(r) + at, to, some);
        }
    }

    /* Copies out what the other ranks have reduced of piece k, which was staged two steps ago. */
    void collect(std::size_t k) const
    {
        const char *slot = room.input(room.rank());

        for (int i = 1; i < room.size(); i++) {
            Span theirs = part(k, (room.rank() + i) % room.size());
            std::size_t end = theirs.end * element, at = theirs.begin * element;
            lines_take(slot + at, std::min(BLOCK_BYTES, end - at));
            while (at < end) {
                std::size_t some = std::min(BLOCK_BYTES, end - at), next = at + some;
                lines_take(slot + next, std::min(BLOCK_BYTES, end - next));
                copy(place_of(k) + at, slot + at, some);
                at = next;
            }
        }
    }
};

bool exchange_all_reduce(Room &room, const Call &call, char *data, std::size_t count,
                         Reduce reduce, c10::ScalarType type)
{
    std::size_t element = c10::elementSize(type);
    std::size_t most = room.is_crowded() ? PIECE_BYTES_CROWDED : PIECE_BYTES_SUM;

    room.begin(call);
    if (count * element <= ONE_SHOT_BYTES) {
        all_reduce_small(room, call, data, count, reduce, type);
        return true;
    }
    /* Messages of a few pieces pass in at least two, so that copying and reducing overlap. */
    if (count * element > PIECE_BYTES_SUM)
        most = std::min(most, (count * element / 2 + 4095) / 4096 * 4096);
    Reduction work{room, data, count, element, most / element, reduce, type};
    std::size_t pieces = (count + work.piece - 1) / work.piece;
    for (std::size_t k = 0; k <= pieces; k++) {
        if (k > 0)
            work.combine(k - 1);
        if (k < pieces && (k > 0 || call.agreed.symmetric == 0))
            work.stage(k);
        room.publish(call);
        room.meet(call);
        if (k == 0 && room.is_symmetric())
            return false;
        if (k == 0 && room.is_partly_symmetric()) { /* some ranks have staged nothing */
            work.stage(k);
            room.publish(call);
            room.meet(call);
        }
        if (k > 0)
            work.collect(k - 1);
    }
    return true;
}

void exchange_reduce(Room &room, const Call &call, char *data, std::size_t count, int root,
                     Reduce reduce, c10::ScalarType type)
{
    std::size_t element = c10::elementSize(type);
    std::size_t piece = piece_bytes(room) / element;
    const void *sources[256];
    std::size_t k = 0;

    room.begin(call);
    do {
        std::size_t some = std::min(piece, count - k);
        char *at = data + k * element;
        copy(room.input(room.rank()), at, some * element);
        room.publish(call);
        room.meet(call);
        for (int r = 0; r < room.size(); r++)
            sources[r] = room.input_before(r);
        if (room.rank() == root)
            reduce_run(at, sources, room.size(), some, reduce, type);
        k += some;
    } while (k < count);
}

void exchange_reduce_scatter(Room &room, const Call &call, const std::vector<const char *> &ins,
                             char *out, std::size_t count, Reduce reduce, c10::ScalarType type)
{
    std::size_t element = c10::elementSize(type);
    std::size_t share = share_bytes(room, element);
    const void *sources[256];
    std::size_t k = 0, bytes = count * element;
    const char *own = ins[room.rank()];
    /* The own part is staged only if sums might be written over it before it is read. */
    bool is_apart = out + bytes <= own || own + bytes <= out || (out == own && room.size() == 2);

    room.begin(call);
    do {
        std::size_t some = std::min(share, bytes - k);
        for (int r = 0; r < room.size(); r++)
            if (r != room.rank() || !is_apart)
                copy(room.input(room.rank()) + r * share, ins[r] + k, some);
        room.publish(call);
        room.meet(call);
        for (int r = 0; r < room.size(); r++)
            sources[r] = room.input_before(r) + room.rank() * share;
        if (is_apart)
            sources[room.rank()] = own + k;
        reduce_run(out + k, sources, room.size(), some / element, reduce, type);
        k += some;
    } while (k < bytes);
}

/* ---- Moving --------------------------------------------------------------------------- */

void exchange_broadcast(Room &room, const Call &call, char *data, std::size_t bytes, int root)
{
    std::size_t k = 0;

    room.begin(call);
    do {
        std::size_t some = std::min(piece_bytes(room), bytes - k);
        if (room.rank() == root)
            copy(room.input(root), data + k, some);
        room.publish(call);
        room.meet(call);
        if (room.rank() != root)
            copy(data + k, room.input_before(root), some);
        k += some;
    } while (k < bytes);
}

void exchange_all_gather(Room &room, const Call &call, const char *in,
                         const std::vector<char *> &outs, std::size_t bytes)
{
    std::size_t k = 0;

    room.begin(call);
    do {
        std::size_t some = std::min(piece_bytes(room), bytes - k);
        copy(room.input(room.rank()), in + k, some);
        room.publish(call);
        copy(outs[room.rank()] + k, in + k, some);
        room.meet(call);
        for (int i = 1; i < room.size(); i++) {
            int r = (room.rank() + i) % room.size();
            copy(outs[r] + k, room.input_before(r), some);
        }
        k += some;
    } while (k < bytes);
}

void exchange_gather(Room &room, const Call &call, const char *in,
                     const std::vector<char *> &outs, std::size_t bytes, int root)
{
    std::size_t k = 0;

    room.begin(call);
    do {
        std::size_t some = std::min(piece_bytes(room), bytes - k);
        if (room.rank() != root)
            copy(room.input(room.rank()), in + k, some);
        room.publish(call);
        room.meet(call);
        for (int r = 0; room.rank() == root && r < room.size(); r++)
            copy(outs[r] + k, r == root ? in + k : room.input_before(r), some);
        k += some;
    } while (k < bytes);
}

void exchange_scatter(Room &room, const Call &call, const std::vector<const char *> &ins,
                      char *out, std::size_t bytes, int root)
{
    std::size_t share = share_bytes(room, 1), k = 0;

    room.begin(call);
    do {
        std::size_t some = std::min(share, bytes - k);
        for (int r = 0; room.rank() == root && r < room.size(); r++)
            copy(r == root ? out + k : room.input(root) + r * share, ins[r] + k, some);
        room.publish(call);
        room.meet(call);
        if (room.rank() != root)
            copy(out + k, room.input_before(root) + room.rank() * share, some);
        k += some;
    } while (k < bytes);
}

/* ---- All to all ----------------------------------------------------------------------- */

/* Compares what every rank sends with what every rank expects. Each rank's slot begins with its
 * in_bytes and out_bytes. Gives the largest size of a pair. */
static std::size_t sizes_check(const Room &room, const Call &call)
{
    int size = room.size();
    std::size_t most = 0;

    for (int from = 0; from < size; from++)
        for (int to = 0; to < size; to++) {
            auto *sends = reinterpret_cast<const std::size_t *>(room.input_before(from));
            auto *expects = reinterpret_cast<const std::size_t *>(room.input_before(to)) + size;
            TORCH_CHECK_WITH(DistBackendError, sends[to] == expects[from], "Acre: ", call.title(),
                             ": rank ", from, " sends ", sends[to], " bytes to rank ", to,
                             ", which expects ", expects[from], " bytes; make the split sizes "
                             "agree");
            most = std::max(most, sends[to]);
        }
    return most;
}

void exchange_all_to_all(Room &room, const Call &call, const Parts &parts)
{
    int size = room.size(), rank = room.rank();
    std::size_t row = size * sizeof(std::size_t), table = (2 * row + 63) / 64 * 64;
    std::size_t share = std::min(share_bytes(room, 1), (SLOT_BYTES - table) / size / 64 * 64);
    std::size_t most = 0, k = 0;

    room.begin(call);
    do {
        char *slot = room.input(rank);
        std::memcpy(slot, parts.in_bytes.data(), row);
        std::memcpy(slot + row, parts.out_bytes.data(), row);
        for (int r = 0; r < size; r++)
            if (r != rank && parts.in_bytes[r] > k)
                copy(slot + table + r * share, parts.ins[r] + k,
                     std::min(share, parts.in_bytes[r] - k));
        room.publish(call);
        room.meet(call);
        if (k == 0) {
            most = sizes_check(room, call);
            copy(parts.outs[rank], parts.ins[rank], parts.in_bytes[rank]);
        }
        for (int i = 1; i < size; i++) {
            int r = (rank + i) % size;
            if (parts.out_bytes[r] > k)
                copy(parts.outs[r] + k, room.input_before(r) + table + rank * share,
                     std::min(share, parts.out_bytes[r] - k));
        }
        k += share;
    } while (k < most);
}

} // namespace acre_torch::group
