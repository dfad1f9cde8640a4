/* SPDX-License-Identifier: MIT */
/* How a part of the glue adds itself to the Python module torch_acre._C.
 *
 * A file bind_NAME.cpp in any folder of csrc is compiled into the module. A Binding at
 * namespace scope registers its function, which is called with the module at import:
 *
 *     static acre_torch::Binding name_binding([](py::module_ &m) { m.def("name", ...); });
 */
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <vector>

namespace acre_torch {

struct Binding {
    using Function = void (*)(py::module_ &);

    explicit Binding(Function function)
    {
        all().push_back(function);
    }
    static std::vector<Function> &all()
    {
        static auto *functions = new std::vector<Function>;
        return *functions;
    }
};

} // namespace acre_torch
