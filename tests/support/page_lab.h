/* SPDX-License-Identifier: MIT */
/* Short ways to use expandable segments, beside lab.h. */
#ifndef TESTS_SUPPORT_PAGE_LAB_H
#define TESTS_SUPPORT_PAGE_LAB_H

#include "tests/support/lab.h"
#include "tests/support/pool_lab.h"

#define ON "expandable_segments:True"

/* A cache of policy torch on a fake device with pages of 2 MiB. */
HELPER void open_pages(struct lab *lab, const char *conf)
{
    acre_cache_config config = {.policy = ACRE_POLICY_TORCH, .conf = conf};

    lab_open_with(lab, &(struct fake_config){.page_bytes = 2 * MIB}, &config);
}

/* The layout in MiB as "block,block*|block": runs of pages by address. */
HELPER const char *layout_mib(struct lab *lab)
{
    static char text[4096];
    acre_cache_layout *layout;
    size_t length = 0;

    REQUIRE_OK(acre_cache_layout_create(lab->cache, &layout));
    text[0] = '\0';
    for (uint64_t i = 0; i < layout->segment_count; i++) {
        const acre_segment_info *segment = &layout->segments[i];
        for (uint64_t k = 0; k < segment->block_count; k++) {
            const acre_block_info *block = &layout->blocks[segment->first_block + k];
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%g%s",
                                       k ? "," : i ? "|" : "",
                                       (double)block->bytes / (double)MIB,
                                       block->state == ACRE_BLOCK_LIVE ? "*" : "");
        }
    }
    acre_cache_layout_destroy(layout);
    return text;
}

/* Where the first run of pages begins. */
HELPER void *first_base(struct lab *lab)
{
    acre_cache_layout *layout;

    REQUIRE_OK(acre_cache_layout_create(lab->cache, &layout));
    REQUIRE(layout->segment_count > 0);
    void *base = layout->segments[0].base;
    EXPECT_EQ(layout->segments[0].is_expandable, 1);
    acre_cache_layout_destroy(layout);
    return base;
}

/* Sizes of expandable segments; how many there are. */
HELPER uint64_t sizes(struct lab *lab, acre_stream_segment_size *out, uint64_t capacity)
{
    uint64_t count = 0;

    REQUIRE_OK(acre_cache_stream_segment_sizes(lab->cache, out, capacity, &count));
    return count;
}

#endif
