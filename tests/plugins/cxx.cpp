/* SPDX-License-Identifier: MIT */
/* Hooks as PyTorch declares them, with a std::function by value: a plug-in in C++
 * that keeps the filter it is given, and one that hands filters out. */
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>

#include <sys/types.h>

using Filter = std::function<bool(void *)>;
using Id = std::pair<unsigned long long, unsigned long long>;
static_assert(sizeof(Filter) == 4 * sizeof(void *), "src/alloc/cxx_filter.h says otherwise");

static Filter kept;
static Id kept_id;
static int kept_device;

#define CXX_API extern "C" __attribute__((visibility("default")))

CXX_API void cxx_begin(int device, Id id, Filter filter)
{
    kept = std::move(filter);
    kept_id = id;
    kept_device = device;
}

/* Whether the filter that is kept passes, for the pool and device it was given for. */
CXX_API bool cxx_ask(int device, unsigned long long graph, unsigned long long user, void *stream)
{
    return kept && kept_device == device && kept_id == Id(graph, user) && kept(stream);
}

CXX_API void cxx_forget()
{
    kept = nullptr;
}

static int filters_alive;

/* A functor that is too large to lie in the function itself. */
struct Large {
    void *wanted[5];
    explicit Large(void *stream) : wanted{nullptr, nullptr, stream, nullptr, nullptr}
    {
        filters_alive++;
    }
    Large(const Large &other) : wanted{nullptr, nullptr, other.wanted[2], nullptr, nullptr}
    {
        filters_alive++;
    }
    ~Large() { filters_alive--; }
    bool operator()(void *stream) const { return stream == wanted[2]; }
};

/* Calls a begin_allocate_to_pool as PyTorch does; the filter passes one stream. */
CXX_API void cxx_call_begin(void (*begin)(int, Id, Filter), int device, unsigned long long graph,
                            unsigned long long user, void *stream, bool is_large)
{
    if (is_large)
        begin(device, Id(graph, user), Large(stream));
    else
        begin(device, Id(graph, user), [stream](void *asked) { return asked == stream; });
}

CXX_API int cxx_filters_alive()
{
    return filters_alive;
}

/* A filter that throws for one stream and passes the others, as PyTorch's throws when the driver
 * does not tell whether a stream captures. */
CXX_API void cxx_call_begin_throwing(void (*begin)(int, Id, Filter), int device,
                                     unsigned long long graph, unsigned long long user,
                                     void *stream)
{
    begin(device, Id(graph, user), [stream](void *asked) {
        if (asked == stream)
            throw std::runtime_error("no answer");
        return true;
    });
}

/* Allocates as PyTorch does; whether an exception came out of it. */
CXX_API bool cxx_call_malloc(void *(*malloc_fn)(ssize_t, int, void *), ssize_t bytes, int device,
                             void *stream, void **out)
{
    *out = nullptr;
    try {
        *out = malloc_fn(bytes, device, stream);
        return false;
    } catch (const std::runtime_error &) {
        return true;
    }
}
