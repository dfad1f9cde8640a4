/* SPDX-License-Identifier: MIT */
#include "device/stack.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <atomic>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace acre_torch {
namespace {

constexpr size_t native_most = 24; /* of ACRE_STACK_MAX; the rest is for Python */
constexpr uint64_t python_mark = UINT64_C(1) << 63;

/* Return addresses of native frames, then numbers of Python frames with the top bit set;
 * innermost first. */
using Words = std::vector<uint64_t>;

/* A stack. The history counts who holds it; equal stacks are one object. */
struct Trace {
    std::atomic<uint64_t> references{1};
    Words words;
};

/* All stacks that somebody holds, and all Python frames seen so far. Never destroyed: other
 * threads may still allocate at exit. */
struct Traces {
    std::mutex mutex;
    std::map<Words, Trace *> live;
    std::deque<torch::unwind::Frame> frames;
    std::unordered_map<std::string, uint64_t> numbers; /* by file, name and line */

    uint64_t number_of(const torch::unwind::Frame &frame)
    {
        std::string key = frame.filename + '\n' + frame.funcname + '\n' +
                          std::to_string(frame.lineno);
        auto [found, is_new] = numbers.emplace(std::move(key), frames.size());

        if (is_new)
            frames.push_back(frame);
        return found->second;
    }
};

Traces &traces()
{
    static auto *all = new Traces;
    return *all;
}

/* The stack with these words and a reference more. The mutex is held. */
Trace *trace_find(Words words)
{
    auto [found, is_new] = traces().live.emplace(words, nullptr);

    if (!is_new) {
        uint64_t count = found->second->references.load();

        while (count && !found->second->references.compare_exchange_weak(count, count + 1))
            ;
        if (count)
            return found->second;
    }
    /* There is none, or one that leaves at this moment. */
    found->second = new Trace;
    found->second->words = std::move(words);
    return found->second;
}

void *trace_take(void *has_native)
{
    try {
        std::shared_ptr<torch::CapturedTraceback> captured =
            torch::CapturedTraceback::gather(true, true, false);
        torch::SymbolizedTracebacks named = torch::symbolize({captured.get()});
        Words words;

        if (has_native) {
            const acre_context_source *native = acre_context_native();

            words.resize(native_most);
            words.resize(native->gather(native->arg, words.data(), native_most));
        }
        std::lock_guard<std::mutex> guard(traces().mutex);
        for (uint64_t index : named.tracebacks.at(0))
            words.push_back(python_mark | traces().number_of(named.all_frames.at(index)));
        return trace_find(std::move(words));
    } catch (...) {
        return nullptr; /* a stack that cannot be had never stops an allocation */
    }
}

void trace_retain(void *, void *object)
{
    static_cast<Trace *>(object)->references.fetch_add(1, std::memory_order_relaxed);
}

void trace_release(void *, void *object)
{
    auto *trace = static_cast<Trace *>(object);

    if (trace->references.fetch_sub(1, std::memory_order_acq_rel) != 1)
        return;
    {
        std::lock_guard<std::mutex> guard(traces().mutex);
        auto found = traces().live.find(trace->words);

        if (found != traces().live.end() && found->second == trace)
            traces().live.erase(found);
    }
    delete trace;
}

size_t trace_resolve(void *, void *object, acre_frame *out, size_t capacity)
{
    const acre_context_source *native = acre_context_native();
    std::lock_guard<std::mutex> guard(traces().mutex);
    size_t count = 0;

    for (uint64_t word : static_cast<Trace *>(object)->words) {
        if (count == capacity)
            break;
        acre_frame &to = out[count++];

        to = acre_frame{};
        if (!(word & python_mark)) {
            native->resolve(native->arg, word, &to);
            continue;
        }
        const torch::unwind::Frame &frame = traces().frames.at(word & ~python_mark);

        std::snprintf(to.name, sizeof to.name, "%s", frame.funcname.c_str());
        std::snprintf(to.file, sizeof to.file, "%s", frame.filename.c_str());
        to.line = static_cast<int32_t>(frame.lineno);
    }
    return count;
}

} // namespace

const acre_context_objects *stack_objects(bool has_native)
{
    static char yes;
    static const acre_context_objects python = {trace_take, trace_retain, trace_release,
                                                trace_resolve, nullptr};
    static const acre_context_objects all = {trace_take, trace_retain, trace_release,
                                             trace_resolve, &yes};

    return has_native ? &all : &python;
}

} // namespace acre_torch
