/* SPDX-License-Identifier: MIT */
/* torch_acre._C.ProcessGroupAcre. */
#include "python/binding.h"
#include "group/group.h"

#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

namespace {

using acre_torch::group::ProcessGroupAcre;

void group_bind(py::module_ &m)
{
    py::module_::import("torch._C._distributed_c10d");
    py::class_<ProcessGroupAcre, c10d::Backend, c10::intrusive_ptr<ProcessGroupAcre>>(
        m, "ProcessGroupAcre")
        .def(py::init([](const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                         std::chrono::milliseconds timeout) {
                 return c10::make_intrusive<ProcessGroupAcre>(store, rank, size, timeout);
             }),
             py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout") = kBackendDefaultTimeout,
             py::call_guard<py::gil_scoped_release>());
}

acre_torch::Binding binding(group_bind);

} // namespace
