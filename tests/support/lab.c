/* SPDX-License-Identifier: MIT */
#include "tests/support/lab.h"

#include "base/heap.h"

void lab_open_with(struct lab *lab, const struct fake_config *device,
                   const acre_cache_config *config)
{
    acre_cache_config own = {.policy = ACRE_POLICY_TORCH};

    if (config)
        own = *config;
    own.struct_size = sizeof own;
    own.flags |= ACRE_CACHE_NO_ENVIRONMENT;
    memset(lab, 0, sizeof *lab);
    lab->heap_before = heap_live_count();
    lab->fake = fake_create(device);
    REQUIRE_OK(acre_cache_create(fake_device(lab->fake, 0), &own, &lab->cache));
}

void lab_open(struct lab *lab, const char *conf)
{
    acre_cache_config config = {.policy = ACRE_POLICY_TORCH, .conf = conf};

    lab_open_with(lab, NULL, &config);
}

void lab_close(struct lab *lab)
{
    REQUIRE_OK(acre_cache_check(lab->cache));
    acre_cache_destroy(lab->cache);
    EXPECT_EQ(fake_alloc_count(lab->fake), 0);
    EXPECT_EQ(fake_event_count(lab->fake), 0);
    fake_destroy(lab->fake);
    EXPECT_EQ(heap_live_count(), lab->heap_before);
}

void *lab_alloc_on(struct lab *lab, size_t bytes, int stream)
{
    void *pointer = NULL;

    REQUIRE_OK(acre_cache_alloc(lab->cache, bytes, fake_stream(stream), &pointer));
    return pointer;
}

void *lab_alloc(struct lab *lab, size_t bytes)
{
    return lab_alloc_on(lab, bytes, 0);
}

void lab_free(struct lab *lab, void *pointer)
{
    REQUIRE_OK(acre_cache_free(lab->cache, pointer));
}

void lab_cache_mib(struct lab *lab, const int *mib)
{
    void *pointers[16];
    int count = 0;

    for (; mib[count]; count++)
        pointers[count] = lab_alloc(lab, (size_t)mib[count] * MIB);
    for (int i = 0; i < count; i++)
        lab_free(lab, pointers[i]);
}

acre_status lab_try(struct lab *lab, size_t bytes)
{
    void *pointer;
    acre_status status = acre_cache_alloc(lab->cache, bytes, NULL, &pointer);

    if (status == ACRE_OK)
        lab_free(lab, pointer);
    return status;
}

void lab_limit(struct lab *lab, uint64_t bytes)
{
    acre_device_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_device_info_get(acre_cache_device(lab->cache), &info));
    REQUIRE_OK(acre_cache_memory_fraction_set(lab->cache,
                                              (double)bytes / (double)info.total_bytes));
    REQUIRE_EQ(acre_cache_limit_get(lab->cache), bytes);
}

const char *lab_layout(struct lab *lab)
{
    static const char *const marks[] = {"", "*", "~", "?"};
    static char text[8192];
    acre_cache_layout *layout;
    size_t length = 0;

    REQUIRE_OK(acre_cache_layout_create(lab->cache, &layout));
    text[0] = '\0';
    for (uint64_t order = 0, shown = 0; shown < layout->segment_count; order++) {
        for (uint64_t i = 0; i < layout->segment_count; i++) {
            const acre_segment_info *segment = &layout->segments[i];
            if (segment->order != order)
                continue;
            for (uint64_t k = 0; k < segment->block_count; k++) {
                const acre_block_info *block = &layout->blocks[segment->first_block + k];
                length += (size_t)snprintf(text + length, sizeof text - length, "%s%llu%s",
                                           k ? "," : shown ? "|" : "",
                                           (unsigned long long)block->bytes,
                                           marks[block->state]);
            }
            shown++;
        }
    }
    acre_cache_layout_destroy(layout);
    return text;
}

uint64_t lab_block_bytes(struct lab *lab, void *pointer)
{
    uint64_t bytes = 0;

    REQUIRE_OK(acre_cache_block_bytes(lab->cache, pointer, &bytes));
    return bytes;
}

const acre_cache_stats *lab_stats(struct lab *lab)
{
    lab->stats.struct_size = sizeof lab->stats;
    REQUIRE_OK(acre_cache_stats_get(lab->cache, &lab->stats));
    return &lab->stats;
}
