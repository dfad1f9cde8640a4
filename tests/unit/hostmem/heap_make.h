/* SPDX-License-Identifier: MIT */
/* What the tests of heaps share. */
#ifndef TESTS_UNIT_HOSTMEM_HEAP_MAKE_H
#define TESTS_UNIT_HOSTMEM_HEAP_MAKE_H

#include "tests/support/t.h"

#include "hostmem/heap.h"

/* A heap without a thread unless idle_ms is given. */
static inline acre_hostmem *heap_make(uint64_t limit, uint32_t idle_ms)
{
    acre_hostmem_config config = {.struct_size = sizeof config,
                                  .flags = idle_ms ? 0 : ACRE_HOSTMEM_NO_THREAD,
                                  .limit_bytes = limit,
                                  .idle_ms = idle_ms};
    acre_hostmem *heap;

    REQUIRE_OK(acre_hostmem_create(&config, &heap));
    return heap;
}

static inline void *block_make(acre_hostmem *heap, size_t bytes)
{
    void *pointer = NULL;

    REQUIRE_OK(acre_hostmem_alloc(heap, bytes, &pointer));
    return pointer;
}

static inline acre_hostmem_stats stats_of(acre_hostmem *heap)
{
    acre_hostmem_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_hostmem_stats_get(heap, &stats));
    return stats;
}

#endif
