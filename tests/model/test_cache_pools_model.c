/* SPDX-License-Identifier: MIT */
/* Random operations on private pools against a naive picture: use counts, a list
 * of open scopes, which pool every live block came from. Each allocation must
 * come from the pool the picture says (or, when memory is short, from one that
 * helps out), no two live blocks overlap, a pool that is used keeps what it
 * holds, and at the end nothing is lost. */
#include "base/bits.h"
#include "tests/support/dice.h"
#include "tests/support/fake.h"
#include "tests/support/t.h"

#include <acre/pool.h>

#define POOLS 5 /* the last has a source of its own; 0 stands for the shared one */
#define STREAMS 3
#define LIVE_MAX 96
#define PENDING_MAX 200
#define USES_MAX 4 /* else counts drift upwards, and pools that never end hold all memory */
#define DEVICE_BYTES (400 * MIB)

struct side_pool {
    acre_pool_id id;
    bool exists, has_scope, helps;
    acre_pool_filter filter;
    uint64_t begun;            /* step at which the scope was opened */
    uint64_t use_count, live;
};

struct piece {
    char *base;
    uint64_t bytes;
    int pool, stream;
    bool uses[STREAMS];
    uint64_t tickets[STREAMS];
};

static struct fake *fake;
static acre_cache *cache;
static struct side_pool pools[POOLS]; /* pools[0]: the shared one */
static struct piece live[LIVE_MAX], pending[PENDING_MAX];
static int live_count, pending_count;
static uint64_t step, ends, served[POOLS], lent;
static bool answer; /* of the filter that is a function */

static void wrong(const char *what)
{
    t_fail(__FILE__, __LINE__, "step %llu: %s", (unsigned long long)step, what);
    t_leave();
}

#define GOOD(fact)                                                             \
    do {                                                                       \
        if (!(fact))                                                           \
            wrong(#fact);                                                      \
    } while (0)

static bool overlap(const struct piece *a, const struct piece *b)
{
    return a->base < b->base + b->bytes && b->base < a->base + a->bytes;
}

/* ---- The picture ------------------------------------------------------------------- */

static bool passes(const struct side_pool *pool, int stream)
{
    switch (pool->filter.kind) {
    case ACRE_POOL_STREAM:
        return pool->filter.stream == fake_stream(stream);
    case ACRE_POOL_CALLBACK:
        return answer;
    case ACRE_POOL_CAPTURE:
        return false; /* the device has no captures */
    default:
        return true;
    }
}

/* The pool that serves: the newest scope that passes. */
static int expected_pool(int stream)
{
    int best = 0;

    for (int i = 1; i < POOLS; i++)
        if (pools[i].has_scope && passes(&pools[i], stream) &&
            (!best || pools[i].begun > pools[best].begun))
            best = i;
    return best;
}

/* The pool whose count of live blocks has grown. */
static int actual_pool(void)
{
    for (int i = 1; i < POOLS; i++) {
        acre_pool_stats stats = {.struct_size = sizeof stats};
        if (pools[i].exists && acre_pool_stats_get(cache, pools[i].id, &stats) == ACRE_OK &&
            stats.live_count != pools[i].live)
            return i;
    }
    return 0;
}

/* ---- Operations --------------------------------------------------------------------- */

static bool ask(void *arg, void *stream)
{
    (void)arg;
    (void)stream;
    return answer;
}

static void *source_alloc(void *arg, size_t bytes, int device, void *stream)
{
    void *pointer = NULL;

    (void)arg;
    (void)stream;
    return acre_device_alloc(fake_device(fake, device), bytes, &pointer) == ACRE_OK ? pointer
                                                                                     : NULL;
}

static void source_free(void *arg, void *pointer, size_t bytes, int device, void *stream)
{
    (void)arg;
    (void)bytes;
    (void)stream;
    if (acre_device_free(fake_device(fake, device), pointer) != ACRE_OK)
        wrong("what a source gave does not come back");
}

/* Forgets pending pieces whose streams are done. */
static void settle(void)
{
    for (int i = 0; i < pending_count; i++) {
        bool is_done = true;
        for (int s = 0; s < STREAMS; s++)
            is_done &= !pending[i].uses[s] ||
                       fake_done(fake, fake_stream(s)) >= pending[i].tickets[s];
        if (is_done)
            pending[i--] = pending[--pending_count];
    }
}

static void run_alloc(void)
{
    struct piece piece = {.stream = (int)below(STREAMS)};
    size_t bytes = 1 + below(below(3) ? 20000 : 24 * MIB);
    int expected = expected_pool(piece.stream);
    void *pointer;

    if (live_count == LIVE_MAX)
        return;
    acre_status status = acre_cache_alloc(cache, bytes, fake_stream(piece.stream), &pointer);
    settle();
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return;
    GOOD(status == ACRE_OK);
    piece.base = pointer;
    GOOD(acre_cache_block_bytes(cache, pointer, &piece.bytes) == ACRE_OK);
    GOOD(piece.bytes >= bytes);
    piece.pool = actual_pool();
    if (piece.pool != expected) {
        GOOD(expected == 0 && pools[piece.pool].helps && !pools[piece.pool].has_scope);
        lent++;
    }
    for (int i = 0; i < live_count; i++)
        GOOD(!overlap(&piece, &live[i]));
    for (int i = 0; i < pending_count; i++)
        GOOD(!overlap(&piece, &pending[i]));
    GOOD(fake_owns(fake, 0, piece.base, piece.bytes));
    live[live_count++] = piece;
    pools[piece.pool].live++;
    served[piece.pool]++;
}

static void run_free(void)
{
    bool is_used = false;

    if (!live_count || pending_count == PENDING_MAX)
        return;
    int index = (int)below((uint64_t)live_count);
    struct piece piece = live[index];
    GOOD(acre_cache_free(cache, piece.base) == ACRE_OK);
    GOOD(acre_cache_free(cache, piece.base) == ACRE_ERR_INVALID);
    live[index] = live[--live_count];
    pools[piece.pool].live--;
    for (int s = 0; s < STREAMS; s++) {
        piece.tickets[s] = fake_submitted(fake, fake_stream(s));
        is_used |= piece.uses[s];
    }
    if (is_used)
        pending[pending_count++] = piece;
}

static void run_record(void)
{
    int stream = (int)below(STREAMS);

    if (!live_count)
        return;
    struct piece *piece = &live[below((uint64_t)live_count)];
    GOOD(acre_cache_record_stream(cache, piece->base, fake_stream(stream)) == ACRE_OK);
    piece->uses[stream] |= stream != piece->stream;
}

static void run_create(struct side_pool *pool, bool has_source)
{
    acre_pool_config config = {.struct_size = sizeof config};

    if (pool->use_count >= USES_MAX)
        return;
    if (pool->exists) {
        GOOD((acre_pool_create(cache, pool->id, NULL) == ACRE_OK) == (pool->use_count > 0));
        pool->use_count += pool->use_count > 0;
        return;
    }
    config.flags = (uint32_t)below(4);
    if (has_source) {
        config.alloc = source_alloc;
        config.free = source_free;
    }
    pool->id = acre_pool_id_next();
    GOOD(acre_pool_create(cache, pool->id, &config) == ACRE_OK);
    pool->exists = true;
    pool->helps = config.flags & ACRE_POOL_USE_ON_OOM;
    pool->use_count = 1;
}

static void run_begin(struct side_pool *pool)
{
    acre_pool_filter filter = {.kind = (acre_pool_filter_kind)below(5), .fn = ask,
                               .stream = fake_stream((int)below(STREAMS)), .capture_id = 1};

    if (!pool->exists)
        return;
    bool is_good = !pool->has_scope && pool->use_count > 0;
    GOOD((acre_pool_begin(cache, pool->id, &filter) == ACRE_OK) == is_good);
    if (!is_good)
        return;
    pool->has_scope = true;
    pool->filter = filter;
    pool->begun = step;
    pool->use_count++;
}

static void run_end(struct side_pool *pool)
{
    if (!pool->exists)
        return;
    GOOD((acre_pool_end(cache, pool->id) == ACRE_OK) == pool->has_scope);
    pool->use_count -= pool->has_scope;
    pool->has_scope = false;
}

static void run_release(struct side_pool *pool)
{
    if (!pool->exists)
        return;
    bool is_good = pool->use_count > pool->has_scope;
    GOOD((acre_pool_release(cache, pool->id) == ACRE_OK) == is_good);
    pool->use_count -= is_good;
}

/* Which pools have ended: freeable ones without anything live or pending. */
static void check_ends(void)
{
    for (int i = 1; i < POOLS; i++) {
        uint64_t count = 0;
        if (!pools[i].exists)
            continue;
        acre_status status = acre_pool_use_count(cache, pools[i].id, &count);
        GOOD(status == ACRE_OK || (!pools[i].use_count && !pools[i].live));
        if (status == ACRE_OK) {
            GOOD(count == pools[i].use_count);
            continue;
        }
        pools[i].exists = false;
        ends++;
    }
}

/* Empties one pool or all; what is used keeps what it holds. */
static void run_empty(void)
{
    acre_pool_stats before[POOLS], after;
    int which = (int)below(POOLS);

    for (int i = 1; i < POOLS; i++) {
        before[i] = (acre_pool_stats){.struct_size = sizeof before[i]};
        if (pools[i].exists)
            GOOD(acre_pool_stats_get(cache, pools[i].id, &before[i]) == ACRE_OK);
    }
    if (which && pools[which].exists)
        GOOD(acre_pool_empty(cache, pools[which].id) == ACRE_OK);
    else
        GOOD(acre_cache_empty(cache) == ACRE_OK);
    settle();
    for (int i = 1; i < POOLS; i++) {
        after = (acre_pool_stats){.struct_size = sizeof after};
        if (!pools[i].exists || !pools[i].use_count)
            continue;
        GOOD(acre_pool_stats_get(cache, pools[i].id, &after) == ACRE_OK);
        GOOD(after.reserved_bytes.all.current == before[i].reserved_bytes.all.current);
    }
}

static void run_step(void)
{
    uint64_t dice = below(1000);
    int which = 1 + (int)below(POOLS - 1);

    answer = below(2);
    if (dice < 400)
        run_alloc();
    else if (dice < 760)
        run_free();
    else if (dice < 820)
        run_record();
    else if (dice < 860)
        fake_finish(fake, fake_stream((int)below(STREAMS)));
    else if (dice < 880)
        run_create(&pools[which], which == POOLS - 1);
    else if (dice < 920)
        run_begin(&pools[which]);
    else if (dice < 955)
        run_end(&pools[which]);
    else if (dice < 975)
        run_release(&pools[which]);
    else if (dice < 985)
        run_empty();
    check_ends();
    settle();
}

static void check_sums(void)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};
    uint64_t bytes = 0;

    GOOD(acre_cache_stats_get(cache, &stats) == ACRE_OK);
    for (int i = 0; i < live_count; i++)
        bytes += live[i].bytes;
    GOOD(stats.allocation.all.current == live_count);
    GOOD(stats.allocated_bytes.all.current == (int64_t)bytes);
    GOOD(stats.reserved_bytes.all.current == (int64_t)fake_device_bytes(fake, 0));
}

static void run_model(acre_policy policy, const char *conf)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    uint64_t steps = t_count(40000, 2000000 / t_slowness());

    dice_begin();
    memset(pools, 0, sizeof pools);
    memset(served, 0, sizeof served);
    live_count = pending_count = 0;
    ends = lent = 0;
    fake = fake_create(&(struct fake_config){.bytes = DEVICE_BYTES});
    REQUIRE_OK(acre_cache_create(fake_device(fake, 0), &config, &cache));
    for (step = 0; step < steps; step++) {
        run_step();
        check_sums();
        if (step % 64 == 0 && acre_cache_check(cache) != ACRE_OK)
            wrong(acre_last_error());
    }
    for (int i = 0; i < POOLS; i++)
        EXPECT_GT(served[i], steps / 1000);
    EXPECT_GT(ends, steps / 1000);
    while (live_count)
        REQUIRE_OK(acre_cache_free(cache, live[--live_count].base));
    for (int i = 1; i < POOLS; i++) {
        if (pools[i].has_scope)
            run_end(&pools[i]);
        while (pools[i].exists && pools[i].use_count)
            run_release(&pools[i]);
    }
    REQUIRE_OK(acre_cache_empty(cache));
    EXPECT_EQ(fake_device_bytes(fake, 0), 0);
    acre_cache_destroy(cache);
    EXPECT_EQ(fake_event_count(fake), 0);
    fake_destroy(fake);
}

/* The walk met what it is for; a shortened one need not. */
static void expect_lent(void)
{
    if (!getenv("ACRE_TEST_SHORT"))
        EXPECT_GT(lent, 0);
}

TEST(torch)
{
    run_model(ACRE_POLICY_TORCH, "");
    expect_lent();
}

TEST(torch_with_max_split)
{
    run_model(ACRE_POLICY_TORCH, "max_split_size_mb:20,release_lock_on_cudamalloc:True");
}

TEST(acre)
{
    run_model(ACRE_POLICY_ACRE, "cross_stream_reuse:False");
    expect_lent();
}

T_MAIN()
