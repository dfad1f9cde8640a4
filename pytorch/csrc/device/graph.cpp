/* SPDX-License-Identifier: MIT */
/* torch.accelerator.Graph: at::GraphImplInterface over Acre's recordings.
 *
 * What is queued on the current stream while capturing is recorded: copies and random fills.
 * Each replay fills with the numbers that its generator has next. Operators that run on the host
 * refuse by name meanwhile. */
#include "device/graph.h"

#include "device/runtime.h"
#include "device/status.h"

#include <ATen/core/GraphImplInterface.h>

#include <mutex>
#include <unordered_map>

namespace acre_torch {
namespace {

struct Graph;

/* Graphs whose capture is under way, by its number. Not destroyed at exit. */
struct OpenGraphs {
    std::mutex mutex;
    std::unordered_map<uint64_t, Graph *> all;
};
OpenGraphs &open_graphs = *new OpenGraphs;

/* Number of the capture that a stream is in; 0: none. */
uint64_t capture_number(int index, void *stream)
{
    auto info = sized<acre_capture_info>();

    if (acre_capture_info_get(runtime().devices[index], stream, &info) != ACRE_OK ||
        info.status != ACRE_CAPTURE_ACTIVE)
        return 0;
    return info.id;
}

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
        number_ = capture_number(index_, current_native(index_));
        std::lock_guard<std::mutex> guard(open_graphs.mutex);
        open_graphs.all[number_] = this;
    }

    void capture_end() override
    {
        TORCH_CHECK(is_open_, "capture_end: no capture is under way");
        close();
        acre_status status = acre_recording_end(recording_);
        if (status != ACRE_OK)
            draws_drop();
        status_check(status, "ending a capture");
    }

    void instantiate() override
    {
        TORCH_CHECK(recording_ && !is_open_, "instantiate: end a capture first");
    }

    void replay() override
    {
        TORCH_CHECK(recording_ && !is_open_, "replay: end a capture first");
        void *stream = current_native(index_);

        if (!draws_.empty())
            status_check(acre_stream_current(runtime().type, index_, &draws_stream_),
                         "asking for the current stream");
        for (acre_generator_capture *draw : draws_)
            status_check(acre_generator_capture_replay(draw, runtime().devices[index_], stream),
                         "drawing random numbers for a graph");
        status_check(acre_recording_launch(recording_, stream), "replaying a graph");
    }

    void reset() override
    {
        if (is_open_)
            close();
        acre_recording_destroy(recording_);
        recording_ = nullptr;
        draws_drop();
    }

    /* Fills from a generator are part of the graph from now on; a generator that cannot be, or
     * is already, is for the fill to tell. */
    void draw(acre_generator *generator, int index, void *stream)
    {
        acre_generator_capture *draw = nullptr;

        draws_.reserve(draws_.size() + 1);
        if (acre_generator_capture_begin(generator, runtime().devices[index], stream, &draw) ==
            ACRE_OK)
            draws_.push_back(draw);
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
        acre_output *output = nullptr;

        status_check(acre_output_open(path.c_str(), &output), "writing a dump");
        acre_status status = acre_cache_dump(cache_of(index_), acre_output_stream(output));
        if (status == ACRE_OK)
            status = acre_output_finish(output);
        else
            acre_output_abandon(output);
        status_check(status, "writing a dump");
    }

private:
    void close()
    {
        std::lock_guard<std::mutex> guard(open_graphs.mutex);

        open_graphs.all.erase(number_);
        is_open_ = false;
        captures_open(-1);
        for (acre_generator_capture *draw : draws_)
            (void)acre_generator_capture_end(draw, nullptr);
    }

    /* What the last replay draws from lives until that is over; for ever when it cannot be
     * waited for. */
    void draws_drop()
    {
        bool is_over = draws_stream_.id == 0 && draws_stream_.type == 0;

        if (!draws_.empty() && !is_over)
            is_over = acre_stream_synchronize(draws_stream_) == ACRE_OK;
        for (acre_generator_capture *draw : draws_)
            if (is_over)
                acre_generator_capture_destroy(draw);
        draws_.clear();
        draws_stream_ = {};
    }

    acre_recording *recording_ = nullptr;
    std::vector<acre_generator_capture *> draws_; /* one for each generator that it uses */
    acre_stream draws_stream_ = {};               /* of the last replay; its type is 0 before */
    uint64_t number_ = 0;
    int index_ = 0;
    bool is_open_ = false;
};

std::unique_ptr<at::GraphImplInterface> graph_make(at::GraphImplArgs arguments)
{
    return std::make_unique<Graph>(arguments);
}

} // namespace

void graph_draw(acre_generator *generator, int index)
{
    if (__builtin_expect(captures_open() == 0, 1))
        return;
    void *stream = current_native(index);
    uint64_t number = capture_number(index, stream);
    std::lock_guard<std::mutex> guard(open_graphs.mutex);
    auto found = open_graphs.all.find(number);

    if (number && found != open_graphs.all.end())
        found->second->draw(generator, index, stream);
}

void graph_serve(const std::string &name)
{
    if (!at::GraphImplRegistry()->Has(name))
        at::GraphImplRegistry()->Register(name, &graph_make);
}

} // namespace acre_torch
