/* SPDX-License-Identifier: MIT */
/* Random operations on caches of two devices against a naive picture: a list of
 * what is live and a list of what other streams still use. After every step: no
 * two of them overlap, each lies in memory of the right device, and every live
 * statistic is the sum over the lists. At the end nothing is lost. */
#include "base/bits.h"
#include "cache/size.h"
#include "tests/support/dice.h"
#include "tests/support/fake.h"
#include "tests/support/t.h"

#include <acre/cache.h>

#define DEVICES 2
#define STREAMS 4
#define LIVE_MAX 160
#define PENDING_MAX 400
#define DEVICE_BYTES (600 * MIB)

/* Memory in use; while pending, until every ticket of its streams is done. */
struct piece {
    char *base;
    uint64_t bytes, requested;
    int stream;
    bool uses[STREAMS];
    uint64_t tickets[STREAMS];
};

struct side {
    acre_cache *cache;
    struct piece live[LIVE_MAX], pending[PENDING_MAX];
    int live_count, pending_count;
    int64_t allocs, frees, allocated_peak, allocated_bytes, ooms;
};

static struct fake *fake;
static struct side sides[DEVICES];
static uint64_t step;
static acre_policy policy;
static bool is_exact_oom; /* the segment of a request can be foretold */
static bool is_paged;     /* expandable segments, switched off and on   */

static void wrong(const char *what)
{
    t_fail(__FILE__, __LINE__, "step %llu: %s", (unsigned long long)step, what);
    t_leave();
}

static bool overlap(const struct piece *a, const struct piece *b)
{
    return a->base < b->base + b->bytes && b->base < a->base + a->bytes;
}

/* Forgets pending pieces whose streams are done. */
static void settle(struct side *side)
{
    for (int i = 0; i < side->pending_count; i++) {
        bool is_done = true;
        for (int s = 0; s < STREAMS; s++)
            is_done &= !side->pending[i].uses[s] ||
                       fake_done(fake, fake_stream(s)) >= side->pending[i].tickets[s];
        if (is_done)
            side->pending[i--] = side->pending[--side->pending_count];
    }
}

/* A request may only fail when the memory really is not there. */
static void check_oom(int device, size_t bytes)
{
    struct side *side = &sides[device];
    acre_cache_stats stats = {.struct_size = sizeof stats};
    struct cache_conf conf;
    uint64_t limit = acre_cache_limit_get(side->cache);

    side->ooms++;
    if (!is_exact_oom)
        return;
    cache_conf_init(&conf);
    acre_cache_stats_get(side->cache, &stats);
    size_t segment = size_segment(&conf, size_round(&conf, bytes));
    uint64_t held = (uint64_t)stats.reserved_bytes.all.current;
    if (size_fits(held, segment, limit) && size_fits(held, segment, DEVICE_BYTES))
        wrong("a request failed although there was room");
}

static size_t random_size(void)
{
    static const size_t edges[] = {1, 511, 512, 513, MIB - 1, MIB, MIB + 1, 2 * MIB,
                                   10 * MIB - 512, 10 * MIB, 10 * MIB + 1, 20 * MIB};

    switch (below(8)) {
    case 0:
        return edges[below(sizeof edges / sizeof edges[0])];
    case 1:
    case 2:
        return 1 + below(30 * MIB);
    case 3:
        return 1 + below(3 * MIB);
    default:
        return (size_t)1 + below((uint64_t)1 << (1 + below(20)));
    }
}

static void run_alloc(int device)
{
    struct side *side = &sides[device];
    struct piece piece = {.requested = random_size(), .stream = (int)below(STREAMS)};
    void *pointer;

    if (side->live_count == LIVE_MAX)
        return;
    acre_status status = acre_cache_alloc(side->cache, piece.requested,
                                          fake_stream(piece.stream), &pointer);
    settle(side);
    if (status == ACRE_ERR_DEVICE_MEMORY) {
        check_oom(device, piece.requested);
        return;
    }
    if (status != ACRE_OK)
        wrong(acre_last_error());
    piece.base = pointer;
    if (acre_cache_block_bytes(side->cache, pointer, &piece.bytes) != ACRE_OK)
        wrong("a live block has no size");
    if (piece.bytes < piece.requested || (uintptr_t)pointer % 512)
        wrong("a block is too small or badly aligned");
    for (int i = 0; i < side->live_count; i++)
        if (overlap(&piece, &side->live[i]))
            wrong("two live blocks overlap");
    for (int i = 0; i < side->pending_count; i++)
        if (overlap(&piece, &side->pending[i]))
            wrong("a block is handed out while a stream uses it");
    if (!fake_owns(fake, device, piece.base, piece.bytes))
        wrong("a block lies outside the device's memory");
    side->live[side->live_count++] = piece;
    side->allocs++;
    side->allocated_bytes += (int64_t)piece.bytes;
    if (side->allocated_bytes > side->allocated_peak)
        side->allocated_peak = side->allocated_bytes;
}

static void run_free(int device)
{
    struct side *side = &sides[device];
    bool is_used = false;

    if (!side->live_count || side->pending_count == PENDING_MAX)
        return;
    int index = (int)below((uint64_t)side->live_count);
    struct piece piece = side->live[index];
    if (acre_cache_free(side->cache, piece.base) != ACRE_OK)
        wrong(acre_last_error());
    if (acre_cache_free(side->cache, piece.base) != ACRE_ERR_INVALID)
        wrong("a block could be freed twice");
    side->live[index] = side->live[--side->live_count];
    side->frees++;
    side->allocated_bytes -= (int64_t)piece.bytes;
    for (int s = 0; s < STREAMS; s++) {
        piece.tickets[s] = fake_submitted(fake, fake_stream(s));
        is_used |= piece.uses[s];
    }
    if (is_used)
        side->pending[side->pending_count++] = piece;
}

static void run_record(int device)
{
    struct side *side = &sides[device];

    if (!side->live_count)
        return;
    struct piece *piece = &side->live[below((uint64_t)side->live_count)];
    int stream = (int)below(STREAMS);
    if (acre_cache_record_stream(side->cache, piece->base, fake_stream(stream)) != ACRE_OK)
        wrong(acre_last_error());
    if (stream != piece->stream)
        piece->uses[stream] = true;
}

static void run_limit(int device)
{
    uint64_t limit = below(3) ? below(DEVICE_BYTES) : ACRE_CACHE_NO_LIMIT;

    acre_cache_limit_set(sides[device].cache, limit);
}

/* Pointers that were never handed out, or point inside. */
static void run_bad_free(int device)
{
    struct side *side = &sides[device];

    if (!side->live_count)
        return;
    struct piece *piece = &side->live[below((uint64_t)side->live_count)];
    uint64_t inside = 1 + below(piece->bytes - 1);
    if (acre_cache_free(side->cache, piece->base + inside) != ACRE_ERR_INVALID ||
        acre_cache_free(sides[!device].cache, piece->base) != ACRE_ERR_INVALID)
        wrong("a wrong pointer could be freed");
}

/* Current values of the five live statistics, and the totals. */
static void check_stats(int device)
{
    struct side *side = &sides[device];
    acre_cache_stats stats = {.struct_size = sizeof stats};
    int64_t requested = 0, bytes = 0;

    acre_cache_stats_get(side->cache, &stats);
    for (int i = 0; i < side->live_count; i++) {
        requested += (int64_t)side->live[i].requested;
        bytes += (int64_t)side->live[i].bytes;
    }
    if (stats.allocation.all.current != side->live_count ||
        stats.allocation.all.allocated != side->allocs ||
        stats.allocation.all.freed != side->frees)
        wrong("allocation is not the number of live blocks");
    if (stats.allocated_bytes.all.current != bytes || bytes != side->allocated_bytes)
        wrong("allocated_bytes is not the sum of live blocks");
    if (stats.allocated_bytes.all.peak != side->allocated_peak)
        wrong("the peak of allocated_bytes is not the highest sum");
    if (stats.active.all.current < side->live_count + side->pending_count ||
        stats.requested_bytes.all.current < requested ||
        (!side->pending_count && stats.active_bytes.all.current < bytes))
        wrong("active misses blocks");
    if (stats.reserved_bytes.all.current != (int64_t)fake_device_bytes(fake, device))
        wrong("reserved_bytes is not what the device gave");
    if (stats.num_ooms != side->ooms)
        wrong("num_ooms is not the number of failures");
    if (!is_paged && stats.segment.all.current != stats.num_device_alloc - stats.num_device_free)
        wrong("segments were lost");
}

/* Mostly on; now and then with blocks that are kept whole. */
static void run_toggle(int device)
{
    static const char *const confs[] = {"expandable_segments:True", "expandable_segments:False",
                                        "expandable_segments:True,max_split_size_mb:20",
                                        "expandable_segments:True,large_segment_size_mb:12"};

    REQUIRE_OK(acre_cache_conf_set(sides[device].cache, confs[below(4)]));
}

static void run_step(void)
{
    int device = (int)below(DEVICES);
    uint64_t dice = below(1000);

    if (dice < 450)
        run_alloc(device);
    else if (dice < 850)
        run_free(device);
    else if (dice < 930)
        run_record(device);
    else if (dice < 970)
        fake_finish(fake, fake_stream((int)below(STREAMS)));
    else if (dice < 975)
        run_limit(device);
    else if (dice < 985)
        run_bad_free(device);
    else if (dice < 987 && acre_cache_empty(sides[device].cache) != ACRE_OK)
        wrong(acre_last_error());
    else if (dice >= 995 && is_paged)
        run_toggle(device);
    for (int i = 0; i < DEVICES; i++)
        settle(&sides[i]);
}

static void open_sides(const char *conf)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};

    fake = fake_create(&(struct fake_config){.bytes = DEVICE_BYTES, .devices = DEVICES,
                                             .page_bytes = is_paged ? 2 * MIB : 0});
    for (int i = 0; i < DEVICES; i++) {
        memset(&sides[i], 0, sizeof sides[i]);
        REQUIRE_OK(acre_cache_create(fake_device(fake, i), &config, &sides[i].cache));
    }
}

/* Frees everything; nothing may be left. */
static void close_sides(void)
{
    for (int i = 0; i < DEVICES; i++) {
        struct side *side = &sides[i];
        acre_cache_stats stats = {.struct_size = sizeof stats};
        while (side->live_count)
            REQUIRE_OK(acre_cache_free(side->cache, side->live[--side->live_count].base));
        REQUIRE_OK(acre_cache_empty(side->cache));
        acre_cache_stats_get(side->cache, &stats);
        EXPECT_EQ(stats.active.all.current, 0);
        EXPECT_EQ(stats.requested_bytes.all.current, 0);
        EXPECT_EQ(stats.reserved_bytes.all.current, 0);
        EXPECT_EQ(stats.inactive_split_bytes.all.current, 0);
        EXPECT_EQ(fake_device_bytes(fake, i), 0);
        acre_cache_destroy(side->cache);
    }
    EXPECT_EQ(fake_alloc_count(fake), 0);
    EXPECT_EQ(fake_event_count(fake), 0);
    fake_destroy(fake);
}

static void run_model(acre_policy which, const char *conf, bool is_exact)
{
    uint64_t steps = t_count(100000, 5000000 / t_slowness());

    dice_begin();
    policy = which;
    is_exact_oom = is_exact;
    open_sides(conf);
    for (step = 0; step < steps; step++) {
        run_step();
        check_stats((int)(step % DEVICES));
        if (step % 64 == 0 && (acre_cache_check(sides[0].cache) != ACRE_OK ||
                               acre_cache_check(sides[1].cache) != ACRE_OK))
            wrong(acre_last_error());
    }
    close_sides();
}

TEST(torch_with_defaults)
{
    run_model(ACRE_POLICY_TORCH, "", true);
}

TEST(torch_with_max_split)
{
    run_model(ACRE_POLICY_TORCH, "max_split_size_mb:20,release_lock_on_cudamalloc:True", false);
}

TEST(torch_with_collection_and_divisions)
{
    run_model(ACRE_POLICY_TORCH,
              "garbage_collection_threshold:0.3,roundup_power2_divisions:4", false);
}

TEST(torch_with_expandable_segments)
{
    is_paged = true;
    run_model(ACRE_POLICY_TORCH, "expandable_segments:True", false);
    is_paged = false;
}

TEST(acre_with_defaults)
{
    run_model(ACRE_POLICY_ACRE, "cross_stream_reuse:False", false);
}

T_MAIN()
