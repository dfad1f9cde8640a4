/* SPDX-License-Identifier: MIT */
/* torch_acre._C: device calls for torch_acre's Python part. */
#include "python/binding.h"
#include "device/generator.h"
#include "device/graph.h"
#include "device/runtime.h"
#include "ops/fallback.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/device_lazy_init.h>

namespace {

using namespace acre_torch;

void device_init(py::module_ &m)
{
    m.def("_init", [] { (void)runtime(); });
    m.def("_is_started", &runtime_is_started);
    m.def("_is_in_bad_fork", &runtime_is_forked);
    m.def("_device_count", &runtime_count);
    m.def("_seed_first", &generator_seed_first);
    m.def("_graph_serve", &graph_serve);
    m.def("_version", [] { return std::string(acre_version()); });
}

Binding module_binding(device_init);

} // namespace

PYBIND11_MODULE(_C, m)
{
    fallback_serve();
    for (Binding::Function function : Binding::all())
        function(m);
}
