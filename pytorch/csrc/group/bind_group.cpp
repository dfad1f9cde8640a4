/* SPDX-License-Identifier: MIT */
/* torch_acre._C.ProcessGroupAcre. */
#include "python/binding.h"
#include "group/bridge.h"
#include "group/group.h"
#include "group/hosts.h"

#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

namespace {

using acre_torch::group::HostBridge;
using acre_torch::group::ProcessGroupAcre;
using acre_torch::group::ProcessGroupHosts;

void thread_join_unlocked(std::thread &thread)
{
    if (Py_IsInitialized() && PyGILState_Check()) {
        py::gil_scoped_release unlocked;

        thread.join();
    } else {
        thread.join();
    }
}

void group_bind(py::module_ &m)
{
    acre_torch::group::thread_join = thread_join_unlocked;
    py::module_::import("torch._C._distributed_c10d");
    py::class_<ProcessGroupAcre, c10d::Backend, c10::intrusive_ptr<ProcessGroupAcre>>(
        m, "ProcessGroupAcre")
        .def(py::init([](const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                         std::chrono::milliseconds timeout) {
                 return c10::make_intrusive<ProcessGroupAcre>(store, rank, size, timeout);
             }),
             py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout") = kBackendDefaultTimeout,
             py::call_guard<py::gil_scoped_release>())
        .def_property_readonly("options", &ProcessGroupAcre::getBackendOptions)
        .def_property_readonly("in_place_count", &ProcessGroupAcre::in_place_count);
    py::class_<HostBridge, c10d::Backend, c10::intrusive_ptr<HostBridge>>(m, "HostBridge")
        .def(py::init([](const c10::intrusive_ptr<c10d::Store> &store, int host, int count,
                         std::chrono::milliseconds timeout) {
                 return c10::make_intrusive<HostBridge>(store, host, count, timeout);
             }),
             py::arg("store"), py::arg("host"), py::arg("count"), py::arg("timeout"),
             py::call_guard<py::gil_scoped_release>())
        .def_property_readonly("received_bytes", &HostBridge::received_bytes);
    py::class_<ProcessGroupHosts, c10d::Backend, c10::intrusive_ptr<ProcessGroupHosts>>(
        m, "ProcessGroupHosts")
        .def(py::init([](std::vector<int> hosts, int rank, std::chrono::milliseconds timeout,
                         c10::intrusive_ptr<ProcessGroupAcre> near,
                         c10::intrusive_ptr<c10d::Backend> leaders,
                         c10::intrusive_ptr<c10d::Backend> far) {
                 return c10::make_intrusive<ProcessGroupHosts>(std::move(hosts), rank, timeout,
                                                               std::move(near),
                                                               std::move(leaders),
                                                               std::move(far));
             }),
             py::arg("hosts"), py::arg("rank"), py::arg("timeout"), py::arg("near"),
             py::arg("leaders"), py::arg("far"))
        .def_property_readonly("leaders", &ProcessGroupHosts::leaders)
        .def_property_readonly("options", &ProcessGroupHosts::getBackendOptions);
}

acre_torch::Binding group_binding(group_bind);

} // namespace
