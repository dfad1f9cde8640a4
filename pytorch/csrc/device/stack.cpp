/* SPDX-License-Identifier: MIT */
#include "device/stack.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace acre_torch {
namespace {

constexpr uint64_t python_mark = UINT64_C(1) << 63;
constexpr size_t native_most = 24; /* of ACRE_STACK_MAX; the rest is for Python */

/* All frames seen so far. Never destroyed: other threads may still allocate at exit. */
struct Frames {
    std::mutex mutex;
    std::deque<torch::unwind::Frame> all;
    std::unordered_map<std::string, uint64_t> numbers; /* by file, name and line */

    uint64_t number_of(const torch::unwind::Frame &frame)
    {
        std::string key = frame.filename + '\n' + frame.funcname + '\n' +
                          std::to_string(frame.lineno);
        std::lock_guard<std::mutex> guard(mutex);
        auto [found, is_new] = numbers.emplace(std::move(key), all.size());

        if (is_new)
            all.push_back(frame);
        return found->second;
    }
};

Frames &frames()
{
    static auto *all = new Frames;
    return *all;
}

size_t python_gather(uint64_t *out, size_t capacity)
{
    size_t count = 0;

    try {
        std::shared_ptr<torch::CapturedTraceback> captured =
            torch::CapturedTraceback::gather(true, true, false);
        torch::SymbolizedTracebacks named = torch::symbolize({captured.get()});

        for (uint64_t index : named.tracebacks.at(0))
            if (count < capacity)
                out[count++] = python_mark | frames().number_of(named.all_frames.at(index));
    } catch (...) {
        return 0; /* a stack that cannot be had never stops an allocation */
    }
    return count;
}

size_t gather_python(void *, uint64_t *out, size_t capacity)
{
    return python_gather(out, capacity);
}

size_t gather_all(void *, uint64_t *out, size_t capacity)
{
    const acre_context_source *native = acre_context_native();
    size_t count = native->gather(native->arg, out, std::min(capacity, native_most));

    return count + python_gather(out + count, capacity - count);
}

void frame_resolve(void *, uint64_t word, acre_frame *out)
{
    const acre_context_source *native = acre_context_native();

    if (!(word & python_mark)) {
        native->resolve(native->arg, word, out);
        return;
    }
    std::lock_guard<std::mutex> guard(frames().mutex);
    uint64_t number = word & ~python_mark;

    if (number >= frames().all.size())
        return;
    const torch::unwind::Frame &frame = frames().all[number];
    std::snprintf(out->name, sizeof out->name, "%s", frame.funcname.c_str());
    std::snprintf(out->file, sizeof out->file, "%s", frame.filename.c_str());
    out->line = static_cast<int32_t>(frame.lineno);
}

} // namespace

const acre_context_source *stack_source(bool has_native)
{
    static const acre_context_source python = {gather_python, frame_resolve, nullptr};
    static const acre_context_source all = {gather_all, frame_resolve, nullptr};

    return has_native ? &all : &python;
}

} // namespace acre_torch
