/* SPDX-License-Identifier: MIT */
/* What is saved beside a tensor: version and format of the device's data. */
#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

namespace acre_torch {
namespace {

using Map = std::unordered_map<std::string, bool>;

struct Metadata final : c10::BackendMeta {
    bool has_version = true;
    bool has_format = true;

    c10::intrusive_ptr<c10::BackendMeta>
    clone(const c10::intrusive_ptr<c10::BackendMeta> &) const override
    {
        return c10::make_intrusive<Metadata>(*this);
    }
};

void metadata_get(const at::Tensor &tensor, Map &out)
{
    auto *found = dynamic_cast<Metadata *>(tensor.unsafeGetTensorImpl()->get_backend_meta());

    if (!found)
        return;
    if (found->has_version)
        out["version_number"] = true;
    if (found->has_format)
        out["format_number"] = true;
}

void metadata_set(const at::Tensor &tensor, Map &given)
{
    auto made = c10::make_intrusive<Metadata>();

    made->has_version = given.count("version_number") != 0;
    made->has_format = given.count("format_number") != 0;
    if (made->has_version || made->has_format)
        tensor.unsafeGetTensorImpl()->set_backend_meta(std::move(made));
}

const bool is_metadata_registered = [] {
    torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, &metadata_get,
                                          &metadata_set);
    return true;
}();

} // namespace
} // namespace acre_torch
