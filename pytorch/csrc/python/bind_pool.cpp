/* SPDX-License-Identifier: MIT */
/* Private pools, sleep, and memory of other processes for torch.acre. */
#include "device/allocator.h"
#include "device/status.h"
#include "ops/alias.h"
#include "python/binding.h"

#include <torch/csrc/autograd/python_variable.h>

namespace {

using namespace acre_torch;
using Id = std::pair<uint64_t, uint64_t>;

acre_pool_id inner(const Id &id)
{
    return {id.first, id.second};
}

void pool_create(int index, const Id &id, uint32_t flags, const std::string &tag)
{
    acre_pool_config config = {};
    acre_cache *cache = cache_of(index);
    acre_status status;

    config.struct_size = sizeof config;
    config.flags = flags;
    status_check(acre_pool_create(cache, inner(id), &config), "making a pool");
    if (tag.empty())
        return;
    status = acre_pool_tag_set(cache, inner(id), tag.c_str());
    if (status != ACRE_OK) {
        std::string said = acre_last_error();

        (void)acre_pool_release(cache, inner(id));
        TORCH_CHECK(false, "naming a pool: ", said);
    }
}

py::dict pool_stats(int index, const Id &id)
{
    acre_pool_stats stats = {};
    py::dict out;

    stats.struct_size = sizeof stats;
    status_check(acre_pool_stats_get(cache_of(index), inner(id), &stats), "reading a pool");
    out["use_count"] = stats.use_count;
    out["segment_count"] = stats.segment_count;
    out["live_count"] = stats.live_count;
    out["live_bytes"] = stats.live_bytes;
    out["reserved_bytes"] = stats.reserved_bytes.all.current;
    return out;
}

/* Tries every device; true when some device had pools with the tag. */
template <class F>
void tag_apply(const std::string &tag, const char *what, F apply)
{
    bool is_found = false;

    for (acre_cache *cache : runtime().caches) {
        acre_status status = apply(cache);

        if (status == ACRE_ERR_NOT_FOUND)
            continue;
        status_check(status, what);
        is_found = true;
    }
    TORCH_CHECK(is_found, what, ": no pool has the tag \"", tag, "\"; make one with "
                "torch.acre.MemPool(tag=...) and allocate in it");
}

void pools_sleep(const std::string &tag, bool is_discard)
{
    tag_apply(tag, "putting pools to sleep", [&](acre_cache *cache) {
        return acre_cache_sleep(cache, nullptr, tag.c_str(),
                                is_discard ? ACRE_SLEEP_DISCARD : ACRE_SLEEP_SAVE);
    });
}

void pools_wake(const std::string &tag)
{
    tag_apply(tag, "waking pools", [&](acre_cache *cache) {
        return acre_cache_wake(cache, nullptr, tag.c_str());
    });
}

/* ---- Sharing ---- */

std::pair<py::bytes, uint64_t> share_export(const at::Tensor &tensor)
{
    char handle[ACRE_SHARE_HANDLE_MAX];
    size_t bytes = 0;
    uint64_t offset = 0;
    int index = tensor.device().index();

    TORCH_CHECK(is_acre(tensor), "share: the tensor is on ", tensor.device(),
                ", not on a device of Acre");
    stream_settle(index);
    status_check(acre_share_export(cache_of(index), tensor.storage().data(), handle,
                                   sizeof handle, &bytes, &offset), "sharing a tensor");
    return {py::bytes(handle, bytes), offset};
}

uint64_t share_users(const at::Tensor &tensor)
{
    uint64_t count = 0;

    status_check(acre_share_users(cache_of(tensor.device().index()), tensor.storage().data(),
                                  &count), "counting users of a tensor");
    return count;
}

/* What an opened tensor holds on to. */
struct Opening {
    acre_device *device;
    void *base;
};

void opening_close(void *context)
{
    auto *opening = static_cast<Opening *>(context);

    if (!runtime_is_forked())
        (void)acre_share_close(opening->device, opening->base);
    delete opening;
}

/* Bytes of another process as a tensor of the device. */
at::Tensor share_open(int index, const std::string &handle, uint64_t offset, uint64_t bytes)
{
    acre_device *device = acre_cache_device(cache_of(index));
    c10::Device where(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index));
    uint64_t found = 0;
    void *base = nullptr;

    status_check(acre_share_open(device, handle.data(), handle.size(), &base, &found),
                 "opening a shared tensor");
    c10::DataPtr pointer(static_cast<char *>(base) + offset, new Opening{device, base},
                         &opening_close, where);
    TORCH_CHECK(offset <= found && bytes <= found - offset, "open: the tensor has ", bytes,
                " bytes at ", offset, ", but what is shared has ", found);
    at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(c10::make_intrusive<c10::StorageImpl>(
            c10::StorageImpl::use_byte_size_t(), bytes, std::move(pointer), nullptr, false)),
        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), caffe2::TypeMeta::Make<uint8_t>());
    made.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<int64_t>(bytes)});
    return made;
}

void pool_bind(py::module_ &m)
{
    m.def("_pool_id_next", [] {
        acre_pool_id id = acre_pool_id_next();
        return Id(id.graph, id.user);
    });
    m.def("_pool_create", &pool_create);
    m.def("_pool_begin", [](int index, const Id &id) {
        status_check(acre_pool_begin(cache_of(index), inner(id), nullptr), "using a pool");
    });
    m.def("_pool_end", [](int index, const Id &id) {
        status_check(acre_pool_end(cache_of(index), inner(id)), "leaving a pool");
    });
    m.def("_pool_release", [](int index, const Id &id) {
        (void)acre_pool_release(cache_of(index), inner(id));
    });
    m.def("_pool_use_count", [](int index, const Id &id) {
        uint64_t count = 0;

        status_check(acre_pool_use_count(cache_of(index), inner(id), &count), "reading a pool");
        return count;
    });
    m.def("_pool_stats", &pool_stats);
    m.def("_pools_sleep", &pools_sleep, py::call_guard<py::gil_scoped_release>());
    m.def("_pools_wake", &pools_wake, py::call_guard<py::gil_scoped_release>());
    m.def("_share_export", &share_export);
    m.def("_share_users", &share_users);
    m.def("_share_open", &share_open);
    m.attr("POOL_NO_SPLIT") = static_cast<uint32_t>(ACRE_POOL_NO_SPLIT);
    m.attr("POOL_USE_ON_OOM") = static_cast<uint32_t>(ACRE_POOL_USE_ON_OOM);
    m.attr("POOL_STITCHED") = static_cast<uint32_t>(ACRE_POOL_STITCHED);
}

Binding pool_binding(pool_bind);

} // namespace
