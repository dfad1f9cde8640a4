/* SPDX-License-Identifier: MIT */
#include "ops/window.h"

#include "device/status.h"

namespace acre_torch {

Windows::~Windows()
{
    for (const Range &range : ranges_)
        (void)acre_access_close(range.device, range.base);
}

void Windows::range_open(int index, const void *base, size_t bytes)
{
    acre_device *device = runtime().devices[index];

    if (!base || bytes == 0)
        return;
    status_check(acre_access_open(device, base), "opening memory to the host");
    ranges_.push_back({device, base, bytes});
}

void Windows::open(const c10::Storage &storage)
{
    if (are_needed() && storage.device().is_privateuseone())
        range_open(storage.device().index(), storage.data(), storage.nbytes());
}

void Windows::open(const at::Tensor &tensor)
{
    if (are_needed())
        open(tensor.storage());
}

} // namespace acre_torch
