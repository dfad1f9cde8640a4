/* SPDX-License-Identifier: MIT */
/* Short ways to use private pools of a lab; see lab.h. */
#ifndef TESTS_SUPPORT_POOL_LAB_H
#define TESTS_SUPPORT_POOL_LAB_H

#include "tests/support/lab.h"

#include <acre/pool.h>

#define HELPER __attribute__((unused)) static

HELPER const acre_pool_filter pool_any = {.kind = ACRE_POOL_ANY};

HELPER uint64_t use_count(struct lab *lab, acre_pool_id id)
{
    uint64_t count = 0;

    REQUIRE_OK(acre_pool_use_count(lab->cache, id, &count));
    return count;
}

HELPER acre_pool_id new_pool(struct lab *lab, uint32_t flags)
{
    acre_pool_config config = {.struct_size = sizeof config, .flags = flags};
    acre_pool_id id = acre_pool_id_next();

    REQUIRE_OK(acre_pool_create(lab->cache, id, &config));
    return id;
}

HELPER acre_pool_stats pool_stats(struct lab *lab, acre_pool_id id)
{
    acre_pool_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_pool_stats_get(lab->cache, id, &stats));
    return stats;
}

/* A block of so many bytes from a pool. */
HELPER void *alloc_in(struct lab *lab, acre_pool_id id, size_t bytes)
{
    REQUIRE_OK(acre_pool_begin(lab->cache, id, NULL));
    void *pointer = lab_alloc(lab, bytes);
    REQUIRE_OK(acre_pool_end(lab->cache, id));
    return pointer;
}

/* A pool with so many bytes idle. */
HELPER void fill(struct lab *lab, acre_pool_id id, size_t bytes)
{
    lab_free(lab, alloc_in(lab, id, bytes));
}

/* The user number of the pool of a block. */
HELPER uint64_t pool_of(struct lab *lab, void *pointer)
{
    acre_cache_layout *layout;
    uint64_t found = UINT64_MAX;

    REQUIRE_OK(acre_cache_layout_create(lab->cache, &layout));
    for (uint64_t i = 0; i < layout->segment_count; i++) {
        const acre_segment_info *segment = &layout->segments[i];
        char *base = segment->base;
        if ((char *)pointer >= base && (char *)pointer < base + segment->bytes)
            found = segment->pool[0] + segment->pool[1];
    }
    acre_cache_layout_destroy(layout);
    return found;
}

HELPER void open_acre(struct lab *lab, const char *conf)
{
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE, .conf = conf};

    lab_open_with(lab, NULL, &config);
}

#endif
