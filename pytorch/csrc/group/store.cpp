/* SPDX-License-Identifier: MIT */
#include "group/store.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

namespace acre_torch::group {

/* PyTorch's stores throw; Acre's functions answer. */
template <class Function> static acre_status answer(const Function &function)
{
    try {
        return function();
    } catch (const c10::DistStoreError &error) {
        return std::strstr(error.what(), "imeout") ? ACRE_ERR_TIMEOUT : ACRE_ERR_PEER;
    } catch (const std::exception &) {
        return ACRE_ERR_PEER;
    }
}

static c10d::Store &store_of(void *self)
{
    return **static_cast<c10::intrusive_ptr<c10d::Store> *>(self);
}

static acre_status keys_set(void *self, const char *key, const void *value, size_t bytes)
{
    return answer([&] {
        const auto *first = static_cast<const uint8_t *>(value);
        store_of(self).set(key, std::vector<uint8_t>(first, first + bytes));
        return ACRE_OK;
    });
}

static acre_status keys_get(void *self, const char *key, uint64_t timeout_ms, acre_blob *out)
{
    using std::chrono::milliseconds;
    return answer([&] {
        c10d::Store &store = store_of(self);
        if (!store.check({key})) {
            milliseconds limit(timeout_ms ? static_cast<int64_t>(timeout_ms) : 3600000);
            try {
                store.wait({key}, limit);
            } catch (const std::exception &) {
                if (!store.check({key}))
                    return ACRE_ERR_TIMEOUT;
            }
        }
        std::vector<uint8_t> value = store.get(key);
        return acre_blob_set(out, value.data(), value.size());
    });
}

static acre_status keys_check(void *self, const char *key, bool *out)
{
    return answer([&] {
        *out = store_of(self).check({key});
        return ACRE_OK;
    });
}

static acre_status keys_remove(void *self, const char *key, bool *out_removed)
{
    return answer([&] {
        bool is_removed = store_of(self).deleteKey(key);
        if (out_removed)
            *out_removed = is_removed;
        return ACRE_OK;
    });
}

static void keys_destroy(void *self)
{
    delete static_cast<c10::intrusive_ptr<c10d::Store> *>(self);
}

acre_store *store_adapt(const c10::intrusive_ptr<c10d::Store> &store)
{
    acre_store_functions functions = {};
    acre_store *out = nullptr;

    functions.struct_size = sizeof functions;
    functions.self = new c10::intrusive_ptr<c10d::Store>(store);
    functions.set = keys_set;
    functions.get = keys_get;
    functions.check = keys_check;
    functions.remove = keys_remove;
    functions.destroy = keys_destroy;
    if (acre_store_create_custom(&functions, &out) != ACRE_OK) {
        keys_destroy(functions.self);
        TORCH_CHECK(false, "Acre: a store for the process group: ", acre_last_error());
    }
    return out;
}

} // namespace acre_torch::group
