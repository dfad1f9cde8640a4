/* SPDX-License-Identifier: MIT */
/* Which Acre devices lie under torch.device("acre"), and their caches.
 *
 * ACRE_TORCH_DEVICE chooses a built-in backend (sim, host, opencl; the default is sim), and
 * ACRE_TORCH_BACKEND a shared library that brings its own. The backend starts when the first
 * device is needed; nothing here is ever destroyed, because tensors may be freed after main.
 */
#pragma once

#include <acre/acre.h>

#include <c10/core/Stream.h>

#include <cstdint>
#include <string>
#include <vector>

#define TORCH_ACRE_API __attribute__((visibility("default")))

namespace acre_torch {

struct Runtime {
    acre_backend *backend = nullptr;
    acre_device_type type = ACRE_DEVICE_PRIVATE;
    int count = 0;
    std::vector<acre_device *> devices;
    std::vector<acre_cache *> caches;
    acre_allocator *allocator = nullptr; /* serves the current device and stream    */
    acre_pinned *pinned = nullptr;       /* NULL: no page-locked host memory        */
    int64_t default_stream = 0; /* id of the default stream; PyTorch calls it 0      */
    bool has_streams = false;
    bool has_copies = false;
    bool has_windows = false; /* the host reaches memory only inside windows        */
    bool is_strict = false;   /* windows close after each operator                  */
};

/* The runtime, started by the first call. Throws when it cannot start: the text names the
 * variable, its value and what is possible. After a fork it throws as well. */
TORCH_ACRE_API Runtime &runtime();

/* Whether the runtime runs. */
TORCH_ACRE_API bool runtime_is_started();

/* Number of devices without starting any; 0 when there can be none. Never throws. */
TORCH_ACRE_API int runtime_count() noexcept;

/* Whether this process is a child of one that had started the runtime. */
TORCH_ACRE_API bool runtime_is_forked();

/* In a forked child, renews the pool of threads that PyTorch made before the fork. PyTorch does so
 * in whichever thread asks first, without a lock, and the threads of the autograd engine ask all
 * at once, one for each device. */
void fork_settle() noexcept;

/* The cache of a device, index -1 meaning the current one. Throws on a wrong index. */
TORCH_ACRE_API acre_cache *cache_of(int index);

/* A device of PyTorch by its index. */
inline c10::Device device_at(int index)
{
    return c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index));
}

/* The index of the current device. */
TORCH_ACRE_API int current_index();

/* The native stream that is current on a device. */
TORCH_ACRE_API void *current_native(int index);

/* How many graphs are being captured at this moment; the difference is added. */
TORCH_ACRE_API int captures_open(int difference = 0);

/* Between PyTorch's stream values and Acre's. */
TORCH_ACRE_API acre_stream stream_inner(const c10::Stream &stream);
TORCH_ACRE_API c10::Stream stream_outer(const acre_stream &stream);
TORCH_ACRE_API void *stream_native(const c10::Stream &stream);

} // namespace acre_torch
