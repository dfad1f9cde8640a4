/* SPDX-License-Identifier: MIT */
#include "tests/support/rig.h"

#include "base/heap.h"

void rig_open_with(struct rig *rig, const struct fake_config *device,
                   const acre_cache_config *config)
{
    acre_cache_config own = {.policy = ACRE_POLICY_TORCH};

    if (config)
        own = *config;
    own.struct_size = sizeof own;
    own.flags |= ACRE_CACHE_NO_ENVIRONMENT;
    memset(rig, 0, sizeof *rig);
    rig->heap_before = heap_live_count();
    rig->fake = fake_create(device);
    REQUIRE_OK(acre_cache_create(fake_device(rig->fake, 0), &own, &rig->cache));
}

void rig_open(struct rig *rig, const char *conf)
{
    acre_cache_config config = {.policy = ACRE_POLICY_TORCH, .conf = conf};

    rig_open_with(rig, NULL, &config);
}

void rig_close(struct rig *rig)
{
    REQUIRE_OK(acre_cache_check(rig->cache));
    acre_cache_destroy(rig->cache);
    EXPECT_EQ(fake_alloc_count(rig->fake), 0);
    EXPECT_EQ(fake_event_count(rig->fake), 0);
    fake_destroy(rig->fake);
    EXPECT_EQ(heap_live_count(), rig->heap_before);
}

void *rig_alloc_on(struct rig *rig, size_t bytes, int stream)
{
    void *pointer = NULL;

    REQUIRE_OK(acre_cache_alloc(rig->cache, bytes, fake_stream(stream), &pointer));
    return pointer;
}

void *rig_alloc(struct rig *rig, size_t bytes)
{
    return rig_alloc_on(rig, bytes, 0);
}

void rig_free(struct rig *rig, void *pointer)
{
    REQUIRE_OK(acre_cache_free(rig->cache, pointer));
}

void rig_cache_mib(struct rig *rig, const int *mib)
{
    void *pointers[16];
    int count = 0;

    for (; mib[count]; count++)
        pointers[count] = rig_alloc(rig, (size_t)mib[count] * MIB);
    for (int i = 0; i < count; i++)
        rig_free(rig, pointers[i]);
}

acre_status rig_try(struct rig *rig, size_t bytes)
{
    void *pointer;
    acre_status status = acre_cache_alloc(rig->cache, bytes, NULL, &pointer);

    if (status == ACRE_OK)
        rig_free(rig, pointer);
    return status;
}

void rig_limit(struct rig *rig, uint64_t bytes)
{
    acre_device_info info;

    REQUIRE_OK(acre_device_info_get(acre_cache_device(rig->cache), &info));
    REQUIRE_OK(acre_cache_memory_fraction_set(rig->cache,
                                              (double)bytes / (double)info.total_bytes));
    REQUIRE_EQ(acre_cache_limit_get(rig->cache), bytes);
}

const char *rig_layout(struct rig *rig)
{
    static const char *const marks[] = {"", "*", "~", "?"};
    static char text[8192];
    acre_cache_layout *layout;
    size_t length = 0;

    REQUIRE_OK(acre_cache_layout_create(rig->cache, &layout));
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

uint64_t rig_block_bytes(struct rig *rig, void *pointer)
{
    uint64_t bytes = 0;

    REQUIRE_OK(acre_cache_block_bytes(rig->cache, pointer, &bytes));
    return bytes;
}

const acre_cache_stats *rig_stats(struct rig *rig)
{
    rig->stats.struct_size = sizeof rig->stats;
    REQUIRE_OK(acre_cache_stats_get(rig->cache, &rig->stats));
    return &rig->stats;
}
