/* SPDX-License-Identifier: MIT */
/* Stitched memory on a reference device with real memory: random work on little memory,
 * where every block is filled with words of its own and all of it is read again, at its
 * own address and at every other one where its pages are mapped. */
#include "base/bits.h"
#include "cache/cache.h"
#include "cache/acre/stitch.h"
#include "cache/engine.h"
#include "tests/support/dice.h"
#include "tests/support/standin_bed.h"
#include "tests/support/t.h"

#include <acre/sim.h>

#define PAGE ((size_t)128 << 10)
#define PAGES 96
#define UNITS (PAGES * 2 * PAGE / BLOCK_UNIT) /* more than the pages have numbers for */
#define LIVE_MAX 64
#define BYTES_MAX (12 * PAGE)
#define STREAMS 2

struct piece {
    char *base;
    size_t bytes;
    uint32_t id; /* of the words it is filled with */
};

static acre_device *device;
static acre_cache *cache;
static void *streams[STREAMS];
static struct piece live[LIVE_MAX];
static int live_count;
static uint32_t next_id;
static uint32_t words[BYTES_MAX / sizeof(uint32_t)], others[BYTES_MAX / sizeof(uint32_t)];
static int stitched_count; /* blocks so far that were stitched */

static uint32_t word_of(uint32_t id, size_t at)
{
    return id * 2654435761u + (uint32_t)at * 40503u;
}

static size_t random_size(void)
{
    static const size_t largest[] = {2 * KIB, 32 * KIB, PAGE, 3 * PAGE, 6 * PAGE, BYTES_MAX};

    return (1 + below(largest[below(6)] / 4)) * 4;
}

/* The first bytes at an address are the words of id, from the one at a place on. */
static void verify(const char *from, size_t bytes, uint32_t id, size_t at, const char *what)
{
    REQUIRE_OK(acre_copy(device, words, from, bytes, ACRE_COPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        if (words[i] != word_of(id, at + i)) {
            t_fail(__FILE__, __LINE__, "%s: word %zu of block %u is that of another", what,
                   at + i, id);
            return;
        }
}

/* ---- Steps --------------------------------------------------------------------- */

static void run_alloc(void)
{
    struct piece piece = {.bytes = random_size(), .id = ++next_id};
    void *base;

    if (live_count == LIVE_MAX)
        return;
    acre_status status = acre_cache_alloc(cache, piece.bytes, streams[below(STREAMS)], &base);
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return;
    REQUIRE_EQ(status, ACRE_OK);
    piece.base = base;
    for (size_t i = 0; i < piece.bytes / sizeof *words; i++)
        words[i] = word_of(piece.id, i);
    REQUIRE_OK(acre_copy(device, base, words, piece.bytes, ACRE_COPY_HOST_TO_DEVICE));
    live[live_count++] = piece;
    quick_lock_take(&cache->lock);
    stitched_count += engine_find_locked(cache, base)->is_stitched;
    quick_lock_drop(&cache->lock);
}

static void run_free(void)
{
    if (!live_count)
        return;
    int index = (int)below((uint64_t)live_count);
    struct piece piece = live[index];

    live[index] = live[--live_count];
    verify(piece.base, piece.bytes, piece.id, 0, "at its address");
    REQUIRE_OK(acre_cache_free(cache, piece.base));
}

static void run_step(void)
{
    uint64_t dice = below(100);

    if (dice < 52)
        run_alloc();
    else if (dice < 99)
        run_free();
    else
        REQUIRE_OK(acre_cache_empty(cache));
}

/* ---- What must hold --------------------------------------------------------------- */

/* Reads a block where its pages lie in the page space, and notes the memory that it has: no
 * other live block has any of it. */
static void check_home(const struct piece *piece, char *taken)
{
    quick_lock_take(&cache->lock);
    const struct block *block = engine_find_locked(cache, piece->base);
    struct stitch_span span = stitch_span_of(block);
    size_t rounded = block->bytes;
    quick_lock_drop(&cache->lock);
    REQUIRE_EQ(span.page_space->page_bytes, PAGE);
    size_t offset = (size_t)(piece->base - span.base);
    for (size_t done = 0, slot = 0; done < rounded; slot++) {
        size_t page = span.pages ? span.pages[slot] : span.first + slot;
        size_t part = PAGE - offset < rounded - done ? PAGE - offset : rounded - done;
        size_t filled = done >= piece->bytes ? 0
                        : part < piece->bytes - done ? part : piece->bytes - done;
        verify(span.page_space->base + page * PAGE + offset, filled, piece->id,
               done / sizeof *words, "in the page space");
        for (size_t at = 0; at < part; at += BLOCK_UNIT) {
            size_t unit = (page * PAGE + offset + at) / BLOCK_UNIT;
            REQUIRE(unit < UNITS);
            EXPECT_EQ(taken[unit], 0);
            taken[unit] = 1;
        }
        done += part;
        offset = 0;
    }
}

/* Addresses of pages by handle: the first is that in the page space. */
struct aliases {
    struct {
        void *handle;
        char *address;
    } of[4096];
    size_t count;
};

static acre_status note_alias(void *arg, void *handle, char *address)
{
    struct aliases *aliases = arg;

    REQUIRE(aliases->count < 4096);
    aliases->of[aliases->count].handle = handle;
    aliases->of[aliases->count++].address = address;
    return ACRE_OK;
}

/* Every address of a page shows the same bytes. */
static void check_aliases(void)
{
    static struct aliases aliases;

    aliases.count = 0;
    quick_lock_take(&cache->lock);
    REQUIRE_OK(stitch_pages_locked(cache->large.stitch, note_alias, &aliases));
    quick_lock_drop(&cache->lock);
    for (size_t i = 1; i < aliases.count; i++) {
        size_t page_space = 0;
        while (aliases.of[page_space].handle != aliases.of[i].handle)
            page_space++;
        if (page_space == i)
            continue;
        REQUIRE_OK(acre_copy(device, words, aliases.of[page_space].address, PAGE,
                             ACRE_COPY_DEVICE_TO_HOST));
        REQUIRE_OK(acre_copy(device, others, aliases.of[i].address, PAGE,
                             ACRE_COPY_DEVICE_TO_HOST));
        EXPECT_EQ(memcmp(words, others, PAGE), 0);
    }
}

static void check_all(void)
{
    static char taken[UNITS];

    memset(taken, 0, sizeof taken);
    REQUIRE_OK(acre_cache_check(cache));
    for (int i = 0; i < live_count; i++) {
        verify(live[i].base, live[i].bytes, live[i].id, 0, "at its address");
        check_home(&live[i], taken);
    }
    check_aliases();
}

/* ---- The test ------------------------------------------------------------------------ */

enum { STEPS_MIN = 480 }; /* before them nothing needs stitching yet */

static void run_model(int stream_count)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_ACRE,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_backend *backend = ground_create("memory:12MiB,page:128KiB");
    uint64_t steps = t_count(1600, 200000 / t_slowness());

    if (steps < STEPS_MIN)
        steps = STEPS_MIN;

    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    memset(streams, 0, sizeof streams);
    for (int i = 1; i < stream_count; i++)
        REQUIRE_OK(acre_stream_native_create(device, 0, 0, &streams[i]));
    REQUIRE_OK(acre_cache_create(device, &config, &cache));
    dice_begin();
    live_count = stitched_count = 0;
    for (uint64_t step = 1; step <= steps; step++) {
        run_step();
        if (step % 160 == 0)
            check_all();
    }
    EXPECT_GT(stitched_count, 0);
    while (live_count)
        REQUIRE_OK(acre_cache_free(cache, live[--live_count].base));
    acre_cache_destroy(cache);
    for (int i = 1; i < stream_count; i++)
        REQUIRE_OK(acre_stream_native_destroy(device, streams[i]));
    acre_sim_usage usage = ground_usage(backend);
    EXPECT_EQ(usage.bytes_used, 0);
    EXPECT_EQ(usage.map_count, 0);
    ground_destroy(backend);
}

TEST(contents_are_right_through_every_alias)
{
    run_model(1);
}

TEST(contents_are_right_on_two_streams)
{
    run_model(STREAMS);
}

T_MAIN()
