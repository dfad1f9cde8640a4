/* SPDX-License-Identifier: MIT */
/* torch_acre._C: CPU tensors. */
#include "cpu/cpu_allocator.h"
#include "python/binding.h"

namespace {

void cpu_bind(py::module_ &m)
{
    m.def("_cpu_enable", [](uintptr_t heap) {
        acre_torch::cpu_enable(reinterpret_cast<acre_hostmem *>(heap));
    });
    m.def("_cpu_disable", &acre_torch::cpu_disable);
    m.def("_cpu_library_mark", &acre_torch::cpu_library_mark);
}

acre_torch::Binding cpu_binding(cpu_bind);

} // namespace
