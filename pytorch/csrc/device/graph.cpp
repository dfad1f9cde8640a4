/* SPDX-License-Identifier: MIT */
/* torch.accelerator.Graph: at::GraphImplInterface over Acre's recordings.
 *
 * What is queued on the current stream while capturing is recorded: copies and random fills.
 * Operators that run on the host refuse by name meanwhile. */
#include "device/graph.h"

#include "device/runtime.h"
#include "device/status.h"

#include <ATen/core/GraphImplInterface.h>

namespace acre_torch {
namespace {

struct Graph final : at::GraphImplInterface {
    explicit Graph(const at::GraphImplArgs &) {}

    ~Graph() override
    {
        reset();
    }

    void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override
    {
        acre_pool_id id = {pool.first, pool.second};
        bool is_named = pool.first || pool.second;

        TORCH_CHECK(!recording_, "capture_begin: this graph holds a capture already; call "
                    "reset() first");
        index_ = current_index();
        status_check(acre_recording_begin(cache_of(index_), current_native(index_),
                                          is_named ? &id : nullptr, &recording_),
                     "beginning a capture");
        captures_open(1);
        is_open_ = true;
    }

    void capture_end() override
    {
        TORCH_CHECK(is_open_, "capture_end: no capture is under way");
        is_open_ = false;
        captures_open(-1);
        status_check(acre_recording_end(recording_), "ending a capture");
    }

    void instantiate() override
    {
        TORCH_CHECK(recording_ && !is_open_, "instantiate: end a capture first");
    }

    void replay() override
    {
        TORCH_CHECK(recording_ && !is_open_, "replay: end a capture first");
        status_check(acre_recording_launch(recording_, current_native(index_)),
                     "replaying a graph");
    }

    void reset() override
    {
        if (is_open_)
            captures_open(-1);
        is_open_ = false;
        acre_recording_destroy(recording_);
        recording_ = nullptr;
    }

    c10::MempoolId_t pool() const override
    {
        TORCH_CHECK(recording_, "pool: capture something first");
        acre_pool_id id = acre_recording_pool(recording_);

        return {id.graph, id.user};
    }

    void enable_debug_mode() override {}

    void debug_dump(const std::string &path) override
    {
        FILE *file = std::fopen(path.c_str(), "we");

        TORCH_CHECK(file, "debug_dump: ", path, " cannot be written");
        acre_status status = acre_cache_dump(cache_of(index_), file);
        std::fclose(file);
        status_check(status, "writing a dump");
    }

private:
    acre_recording *recording_ = nullptr;
    int index_ = 0;
    bool is_open_ = false;
};

std::unique_ptr<at::GraphImplInterface> graph_make(at::GraphImplArgs arguments)
{
    return std::make_unique<Graph>(arguments);
}

} // namespace

void graph_serve(const std::string &name)
{
    if (!at::GraphImplRegistry()->Has(name))
        at::GraphImplRegistry()->Register(name, &graph_make);
}

} // namespace acre_torch
