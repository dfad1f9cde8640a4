/* SPDX-License-Identifier: MIT */
/* Random allocations, uses, frees and held-up streams against a naive oracle: blocks are
 * large enough, never overlap one that is live or that a stream is still behind with, and
 * keep what was written to them; statistics are the sums of what the oracle knows. */
#include "tests/support/pinned_bed.h"

enum { SLOTS = 96, WAITERS = 4096 };

struct held {
    char *base;
    uint64_t bytes;    /* of the block                                  */
    size_t requested;
    unsigned streams;  /* bit per stream that uses it                   */
    unsigned char value;
};

struct model {
    struct pinned_bed bed;
    struct held slots[SLOTS];    /* live; base NULL: empty              */
    struct held waiters[WAITERS]; /* freed, streams have not passed yet */
    int waiter_count;
    unsigned held_up;            /* bit per stream                      */
    unsigned char next_value;
    uint64_t random;
    acre_pool_id pool;           /* private pool, or 0                  */
};

static size_t random_size(uint64_t *random)
{
    switch (t_random(random) % 4) {
    case 0:
        return 1 + t_random(random) % 5000;
    case 1:
        return 1 + t_random(random) % 40000;
    default:
        return 1 + t_random(random) % (600 * KIB);
    }
}

static bool overlaps(const struct held *a, const struct held *b)
{
    return a->base < b->base + b->bytes && b->base < a->base + a->bytes;
}

static void expect_apart(const struct model *model, const struct held *fresh)
{
    for (int i = 0; i < SLOTS; i++)
        if (model->slots[i].base && overlaps(&model->slots[i], fresh))
            t_fail(__FILE__, __LINE__, "a block overlaps a live one");
    for (int i = 0; i < model->waiter_count; i++)
        if (overlaps(&model->waiters[i], fresh))
            t_fail(__FILE__, __LINE__, "a block is reused although a stream is behind with it");
}

/* The ends and one byte between tell enough, and cost little. */
static void paint(const struct held *held)
{
    memset(held->base, held->value, held->requested < 256 ? held->requested : 256);
    held->base[held->requested / 2] = (char)held->value;
    held->base[held->requested - 1] = (char)held->value;
}

static void expect_painted(const struct held *held)
{
    char value = (char)held->value;

    EXPECT(held->base[0] == value && held->base[held->requested / 2] == value &&
           held->base[held->requested - 1] == value);
}

static void take(struct model *model, struct held *slot)
{
    size_t bytes = random_size(&model->random);
    char *base = pinned_take(&model->bed, bytes);

    *slot = (struct held){.requested = bytes, .bytes = pinned_bytes(&model->bed, base),
                          .value = ++model->next_value};
    struct held fresh = *slot;
    fresh.base = base;
    EXPECT_GE(fresh.bytes, bytes);
    expect_apart(model, &fresh);
    *slot = fresh;
    paint(slot);
}

static void give(struct model *model, struct held *slot)
{
    expect_painted(slot);
    pinned_give(&model->bed, slot->base);
    slot->streams &= model->held_up;
    if (slot->streams && model->waiter_count < WAITERS)
        model->waiters[model->waiter_count++] = *slot;
    slot->base = NULL;
}

static void toggle(struct model *model, int stream)
{
    unsigned bit = 1u << stream;

    if (!(model->held_up & bit)) {
        pinned_hold_up(&model->bed, stream);
        model->held_up |= bit;
        return;
    }
    pinned_let_go(&model->bed, stream);
    model->held_up &= ~bit;
    int kept = 0;
    for (int i = 0; i < model->waiter_count; i++) {
        model->waiters[i].streams &= ~bit;
        if (model->waiters[i].streams)
            model->waiters[kept++] = model->waiters[i];
    }
    model->waiter_count = kept;
}

static void pool_step(struct model *model)
{
    if (model->pool.user) {
        REQUIRE_OK(acre_pinned_pool_end(model->bed.pinned, model->pool));
        REQUIRE_OK(acre_pinned_pool_release(model->bed.pinned, model->pool));
        model->pool.user = 0;
        return;
    }
    model->pool = acre_pool_id_next();
    REQUIRE_OK(acre_pinned_pool_begin(model->bed.pinned, model->pool, NULL));
}

static void expect_sums(struct model *model)
{
    acre_pinned_stats stats = pinned_stats(&model->bed);
    uint64_t live = 0, requested = 0, count = 0;

    for (int i = 0; i < SLOTS; i++)
        if (model->slots[i].base) {
            live += model->slots[i].bytes;
            requested += model->slots[i].requested;
            count++;
        }
    EXPECT_EQ(stats.active_bytes.current - stats.waiting_bytes, live);
    EXPECT_GE(stats.active_requests.current, count);
    EXPECT_GE(stats.requested_bytes.current, requested);
    EXPECT_EQ(stats.active_bytes.current, stats.active_bytes.allocated - stats.active_bytes.freed);
    EXPECT_LE(stats.active_bytes.current, stats.allocated_bytes.current);
    EXPECT_EQ(pinned_verify(model->bed.pinned), ACRE_OK);
}

static void step(struct model *model)
{
    struct held *slot = &model->slots[t_random(&model->random) % SLOTS];
    uint64_t dice = t_random(&model->random) % 100;
    int stream = (int)(t_random(&model->random) % BED_STREAMS);

    if (dice < 70 && !slot->base)
        take(model, slot);
    else if (dice < 70)
        give(model, slot);
    else if (dice < 88 && slot->base) {
        pinned_use(&model->bed, slot->base, stream);
        slot->streams |= 1u << stream;
    } else if (dice < 94)
        toggle(model, stream);
    else if (dice < 95)
        REQUIRE_OK(acre_pinned_empty(model->bed.pinned));
    else if (dice < 96)
        REQUIRE_OK(acre_pinned_trim(model->bed.pinned, 1 * MIB, NULL));
    else if (dice < 97)
        pool_step(model);
    else
        REQUIRE_OK(pinned_process(model->bed.pinned));
}

static void run(acre_policy policy, const char *conf)
{
    struct model *model = calloc(1, sizeof *model);
    uint64_t count = t_count(3000, 300000);

    REQUIRE(model != NULL);
    model->random = getenv("ACRE_TEST_LONG") ? t_seed() : 20261116;
    pinned_bed_open(&model->bed, policy, conf);
    for (uint64_t i = 0; i < count; i++) {
        step(model);
        if (i % 64 == 0)
            expect_sums(model);
    }
    for (int i = 0; i < BED_STREAMS; i++)
        if (model->held_up >> i & 1)
            toggle(model, i);
    for (int i = 0; i < SLOTS; i++)
        if (model->slots[i].base)
            give(model, &model->slots[i]);
    if (model->pool.user)
        pool_step(model);
    for (int i = 0; i < BED_STREAMS; i++)
        REQUIRE_OK(acre_stream_native_synchronize(pinned_bed_device(&model->bed, i),
                                                  model->bed.streams[i]));
    REQUIRE_OK(pinned_process(model->bed.pinned));
    REQUIRE_OK(acre_pinned_empty(model->bed.pinned));
    acre_pinned_stats stats = pinned_stats(&model->bed);
    EXPECT_EQ(stats.active_requests.current, 0);
    EXPECT_EQ(stats.requested_bytes.current, 0);
    EXPECT_EQ(stats.allocated_bytes.current, 0);
    pinned_bed_close(&model->bed);
    free(model);
}

TEST(policy_acre)
{
    run(ACRE_POLICY_ACRE, NULL);
}

TEST(policy_torch)
{
    run(ACRE_POLICY_TORCH, NULL);
}

TEST(policy_acre_with_limits_and_registered_memory)
{
    run(ACRE_POLICY_ACRE, "pinned_max_cached_size_mb:0,pinned_use_cuda_host_register:True,"
                          "pinned_num_register_threads:2");
}

TEST(policy_torch_with_thresholds_and_a_background_thread)
{
    run(ACRE_POLICY_TORCH, "pinned_max_round_threshold_mb:0,pinned_use_background_threads:True");
}

T_MAIN()
