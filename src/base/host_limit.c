/* SPDX-License-Identifier: MIT */
#include "base/host_limit.h"

#include "base/status.h"

#include <stdatomic.h>

static _Atomic uint64_t limit_bytes; /* 0: no limit, and bytes are not counted */
static _Atomic int64_t live_bytes;   /* since a limit was set first            */

bool host_limit_is_set(void)
{
    return atomic_load_explicit(&limit_bytes, memory_order_relaxed) != 0;
}

void host_limit_count(int64_t bytes)
{
    atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed);
}

uint64_t acre_host_limit_count(int64_t bytes)
{
    uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed);

    if (limit == 0)
        return UINT64_MAX;
    if (bytes)
        host_limit_count(bytes);
    int64_t live = atomic_load_explicit(&live_bytes, memory_order_relaxed);
    uint64_t used = live < 0 ? 0 : (uint64_t)live;
    return used < limit ? limit - used : 0;
}

bool host_limit_refuses(size_t bytes)
{
    if (acre_host_limit_count(0) >= bytes)
        return false;
    status_fail(ACRE_ERR_HOST_MEMORY,
                "more than %llu MiB of host memory would be needed, which is the limit; raise it "
                "with --memory (acre_host_limit_set)",
                (unsigned long long)(acre_host_limit_get() >> 20));
    return true;
}

uint64_t acre_host_limit_get(void)
{
    return atomic_load_explicit(&limit_bytes, memory_order_relaxed);
}

void acre_host_limit_set(uint64_t bytes)
{
    atomic_store(&limit_bytes, bytes);
}
