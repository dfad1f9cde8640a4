/* SPDX-License-Identifier: MIT */
/* Generators for torch.acre.random. */
#include "device/generator.h"
#include "python/binding.h"

#include <torch/csrc/Generator.h>

namespace {

using namespace acre_torch;

/* The Python object of a device's default generator. */
py::object default_generator(int index)
{
    PyObject *object = THPGenerator_Wrap(generator_default(static_cast<c10::DeviceIndex>(index)));

    if (!object)
        throw py::error_already_set();
    return py::reinterpret_steal<py::object>(object);
}

Binding generator_binding([](py::module_ &m) { m.def("_default_generator", &default_generator); });

} // namespace
