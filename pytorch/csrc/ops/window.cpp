/* SPDX-License-Identifier: MIT */
#include "ops/window.h"

#include "device/status.h"

namespace acre_torch {

/* Calls fn for each allocation or mapping that a range touches: memory of a cache is joined of
 * pages, and each has a window of its own. */
acre_status Windows::range_each(const Range &range,
                                acre_status (*fn)(acre_device *, const void *))
{
    const char *at = range.base, *end = range.base + range.bytes;
    acre_status status = ACRE_OK;

    while (at < end && status == ACRE_OK) {
        auto info = sized<acre_pointer_info>();

        status = fn(range.device, at);
        if (status == ACRE_OK)
            status = acre_pointer_info_get(range.device, at, &info);
        const char *next = static_cast<const char *>(info.base) + info.bytes;
        if (next <= at)
            break;
        at = next;
    }
    return status;
}

Windows::~Windows()
{
    for (const Range &range : ranges_)
        range_each(range, acre_access_close);
}

void Windows::range_open(int index, const void *base, size_t bytes)
{
    acre_device *device = runtime().devices[index];

    if (!base || bytes == 0)
        return;
    Range range = {device, static_cast<const char *>(base), bytes};
    status_check(range_each(range, acre_access_open), "opening memory to the host");
    ranges_.push_back(range);
}

void Windows::memory_open(int index, const void *base, size_t bytes)
{
    status_check(range_each({runtime().devices[index], static_cast<const char *>(base), bytes},
                            acre_access_open), "opening memory to the host");
}

void Windows::memory_close(int index, const void *base, size_t bytes)
{
    (void)range_each({runtime().devices[index], static_cast<const char *>(base), bytes},
                     acre_access_close);
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
