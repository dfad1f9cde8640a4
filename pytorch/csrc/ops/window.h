/* SPDX-License-Identifier: MIT */
/* Windows through which the host reaches the memory of the device.
 *
 * Without ACRE_TORCH_STRICT=1 the reference device is open to the host all the time, and
 * nothing is to be done. With it, the memory of each operand is open while its operator runs.
 */
#pragma once

#include "device/runtime.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace acre_torch {

class Windows {
public:
    Windows() = default;
    ~Windows();
    Windows(const Windows &) = delete;
    Windows &operator=(const Windows &) = delete;

    /* Opens the memory of a tensor of the device until this object goes. */
    void open(const at::Tensor &tensor);
    /* Opens a storage. */
    void open(const c10::Storage &storage);
    /* Opens memory of a device, and closes it again, for callers that do both themselves. */
    static void memory_open(int index, const void *base, size_t bytes);
    static void memory_close(int index, const void *base, size_t bytes);
    /* Whether windows are needed at all. */
    static bool are_needed()
    {
        Runtime &here = runtime();
        return here.has_windows && here.is_strict;
    }

private:
    struct Range {
        acre_device *device;
        const char *base;
        size_t bytes;
    };
    static acre_status range_each(const Range &range,
                                  acre_status (*fn)(acre_device *, const void *));
    void range_open(int index, const void *base, size_t bytes);
    std::vector<Range> ranges_;
};

} // namespace acre_torch
