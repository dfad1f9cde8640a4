/* SPDX-License-Identifier: MIT */
/* History, snapshots, advice and pictures for torch.acre.memory. */
#include "device/stack.h"
#include "device/status.h"
#include "python/binding.h"

#include <c10/util/Exception.h>

namespace {

using namespace acre_torch;

void history_start(int index, int level, uint64_t max_entries, bool has_native,
                   const std::string &skip, bool clear)
{
    acre_history_config config = {};

    config.struct_size = sizeof config;
    config.level = static_cast<acre_context_level>(level);
    config.max_entries = max_entries;
    config.objects = stack_objects(has_native);
    config.skip_actions = skip.empty() ? nullptr : skip.c_str();
    config.clear = clear;
    status_check(acre_cache_history_start(cache_of(index), &config), "recording history");
}

/* Writes a snapshot of all devices, or of one, to a path that may be a pipe. */
void snapshot_write(const std::string &path, bool is_json, int index, bool no_history,
                    std::pair<uint64_t, uint64_t> pool)
{
    std::vector<acre_cache *> caches = runtime().caches;
    acre_snapshot_choice choice = {};
    acre_snapshot *snapshot = nullptr;
    acre_status status;

    if (index >= 0)
        caches = {cache_of(index)};
    choice.struct_size = sizeof choice;
    choice.no_history = no_history;
    choice.pool[0] = pool.first;
    choice.pool[1] = pool.second;
    status_check(acre_cache_snapshot(caches.data(), caches.size(), &choice, &snapshot),
                 "taking a snapshot");
    status = acre_snapshot_write(snapshot, path.c_str(),
                                 is_json ? ACRE_SNAPSHOT_JSON : ACRE_SNAPSHOT_PICKLE);
    acre_snapshot_close(snapshot);
    status_check(status, "writing a snapshot");
}

py::dict setting_dict(const acre_setting &setting)
{
    py::dict out;

    out["conf"] = std::string(setting.conf);
    out["note"] = std::string(setting.note);
    out["policy"] = setting.policy == ACRE_POLICY_TORCH ? "torch" : "acre";
    out["is_recorded"] = (setting.flags & ACRE_SETTING_RECORDED) != 0;
    out["is_plan"] = (setting.flags & ACRE_SETTING_PLAN) != 0;
    out["reserved_peak"] = setting.bytes_reserved_peak;
    out["min_capacity"] = setting.min_capacity_bytes;
    return out;
}

py::dict advise(const std::string &path, int index, uint64_t capacity)
{
    acre_advise_config config = {};
    acre_advice *advice = nullptr;
    py::dict out;
    py::list settings;

    config.struct_size = sizeof config;
    config.device = static_cast<uint32_t>(index);
    config.device_bytes = capacity;
    {
        py::gil_scoped_release release;
        status_check(acre_advise(path.c_str(), &config, &advice), "comparing settings");
    }
    out["events"] = advice->events;
    out["requested_peak"] = advice->bytes_requested_peak;
    out["recorded_reserved_peak"] = advice->recorded_reserved_peak;
    out["recorded_conf"] = std::string(advice->recorded_conf);
    out["saves_bytes"] = advice->saves_bytes;
    out["recommended"] = advice->recommended;
    out["why"] = std::string(advice->why ? advice->why : "");
    for (uint64_t i = 0; i < advice->setting_count; i++)
        settings.append(setting_dict(advice->settings[i]));
    out["settings"] = settings;
    acre_advice_destroy(advice);
    return out;
}

void view_write(const std::string &from, const std::string &to, const std::string &title)
{
    acre_view_config config = {};
    acre_view *view = nullptr;
    acre_status status;

    config.struct_size = sizeof config;
    status_check(acre_view_create(title.c_str(), &view), "making a page");
    status = acre_view_read(view, from.c_str(), &config);
    if (status == ACRE_OK)
        status = acre_view_write(view, to.c_str());
    acre_view_destroy(view);
    status_check(status, "writing a page");
}

void history_bind(py::module_ &m)
{
    m.def("_history_start", &history_start);
    m.def("_history_stop", [](int index) { acre_cache_history_stop(cache_of(index)); });
    m.def("_history_is_on",
          [](int index) { return acre_cache_history_is_on(cache_of(index)); });
    m.def("_snapshot_write", &snapshot_write, py::call_guard<py::gil_scoped_release>());
    m.def("_advise", &advise);
    m.def("_view_write", &view_write, py::call_guard<py::gil_scoped_release>());
    m.def("_metadata_set", [](const std::string &text) {
        status_check(acre_history_metadata_set(text.c_str()), "setting metadata");
    });
    m.def("_metadata_get", [] { return std::string(acre_history_metadata_get()); });
}

Binding history_binding(history_bind);

} // namespace
