/* SPDX-License-Identifier: MIT */
/* Random allocate, clear, resize and free against a list of what must live, with every byte
 * checked: a million steps in the long form, with sanitizers too. */
#include "tests/support/t.h"

#include "hostmem/heap.h"

enum { SLOTS = 96 };

struct entry {
    unsigned char *pointer;
    size_t bytes;
    uint64_t seed;
};

/* Contents follow from a seed; two places in each 256 bytes are looked at. */
static unsigned char byte_of(uint64_t seed, size_t at)
{
    return (unsigned char)((seed + at) * 0x9E3779B97F4A7C15u >> 56);
}

static void entry_fill(struct entry *entry, size_t from)
{
    for (size_t at = from; at < entry->bytes; at += at % 256 ? 256 - at % 256 : 101)
        entry->pointer[at] = byte_of(entry->seed, at);
    if (entry->bytes > from)
        entry->pointer[entry->bytes - 1] = byte_of(entry->seed, entry->bytes - 1);
}

static void entry_check(const struct entry *entry, size_t to, bool has_last)
{
    for (size_t at = 0; at < to; at += at % 256 ? 256 - at % 256 : 101)
        REQUIRE_EQ(entry->pointer[at], byte_of(entry->seed, at));
    if (has_last && to)
        REQUIRE_EQ(entry->pointer[to - 1], byte_of(entry->seed, to - 1));
}

static size_t size_draw(uint64_t *state)
{
    uint64_t kind = t_random(state) % 100;

    if (kind < 70)
        return 1 + t_random(state) % 4200;
    if (kind < 97)
        return 1 + t_random(state) % 80000;
    return 1 + t_random(state) % (1 << 20);
}

static void entry_make(acre_hostmem *heap, struct entry *entry, uint64_t *state)
{
    entry->bytes = size_draw(state);
    entry->seed = t_random(state);
    if (t_random(state) % 8) {
        REQUIRE_OK(acre_hostmem_alloc(heap, entry->bytes, (void **)&entry->pointer));
    } else {
        REQUIRE_OK(acre_hostmem_calloc(heap, entry->bytes, 1, (void **)&entry->pointer));
        for (size_t at = 0; at < entry->bytes; at += 61)
            REQUIRE_EQ(entry->pointer[at], 0);
    }
    REQUIRE_EQ((uintptr_t)entry->pointer % ACRE_HOSTMEM_ALIGNMENT, 0);
    entry_fill(entry, 0);
}

static void entry_resize(acre_hostmem *heap, struct entry *entry, uint64_t *state)
{
    size_t before = entry->bytes, after = size_draw(state);

    if (t_random(state) % 4 == 0)
        after = before + before / 2;
    REQUIRE_OK(acre_hostmem_realloc(heap, entry->pointer, after, (void **)&entry->pointer));
    entry_check(entry, before < after ? before : after, before <= after);
    entry->bytes = after;
    entry_fill(entry, 0);
}

static void model_check(acre_hostmem *heap, const struct entry *entries)
{
    acre_hostmem_stats stats = {.struct_size = sizeof stats};
    const char *fact = "";
    int64_t live = 0, large = 0;

    for (int i = 0; i < SLOTS; i++) {
        live += entries[i].pointer != NULL;
        large += entries[i].pointer && !granule_find(entries[i].pointer);
    }
    REQUIRE_OK(acre_hostmem_stats_get(heap, &stats));
    EXPECT_EQ(stats.small_count, live - large);
    lock_take(&heap->lock);
    EXPECT(slabs_check_locked(&heap->slabs, &fact));
    EXPECT_EQ(stats.cache.allocation.all.current, large + (int64_t)heap->slabs.region_count);
    lock_drop(&heap->lock);
    REQUIRE_OK(acre_cache_check(acre_hostmem_cache(heap)));
}

TEST(a_million_steps_agree_with_the_model)
{
    T_NEEDS("MREMAP_DONTUNMAP");
    acre_hostmem_config config = {.struct_size = sizeof config, .flags = ACRE_HOSTMEM_NO_THREAD};
    struct entry entries[SLOTS] = {{0}};
    uint64_t state = t_seed(), steps = t_count(0, 1) ? 1000000 : t_count(200000, 200000);
    acre_hostmem *heap;

    REQUIRE_OK(acre_hostmem_create(&config, &heap));
    for (uint64_t step = 0; step < steps; step++) {
        struct entry *entry = &entries[t_random(&state) % SLOTS];
        if (!entry->pointer) {
            entry_make(heap, entry, &state);
        } else if (t_random(&state) % 3 == 0) {
            entry_resize(heap, entry, &state);
        } else {
            entry_check(entry, entry->bytes, true);
            REQUIRE_OK(acre_hostmem_free(heap, entry->pointer));
            entry->pointer = NULL;
        }
        if (step % 5003 == 0)
            acre_hostmem_trim(heap, t_random(&state) % (8 << 20), NULL);
        if (step % 20011 == 0)
            model_check(heap, entries);
    }
    for (int i = 0; i < SLOTS; i++) {
        REQUIRE_OK(acre_hostmem_free(heap, entries[i].pointer));
        entries[i].pointer = NULL;
    }
    model_check(heap, entries);
    acre_hostmem_destroy(heap);
}
T_MAIN()
