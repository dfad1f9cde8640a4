/* SPDX-License-Identifier: MIT */
/* Random allocations, frees, exports, openings, sleeps and wakes against a plain
 * picture: which byte each block was filled with, who has it open, who sleeps.
 * Everything that can be read is read again after every step that moves memory. */
#include "tests/support/share_bed.h"

enum { SLOTS = 24, POOLS = 3, IMPORTS = 8 };

struct slot {
    char *pointer; /* NULL: none */
    size_t bytes;
    int value;
    int pool;      /* 0: the shared one, else index of pools + 1 */
    int opened;    /* imports of it that are open               */
};

struct opened {
    void *base;
    char *there;
    size_t bytes;
    int value; /* of the block, also after its free */
    int slot;  /* -1: freed meanwhile               */
};

struct model {
    struct share_bed bed;
    acre_pool_id pools[POOLS];
    bool is_asleep[POOLS];
    struct slot slots[SLOTS];
    struct opened imports[IMPORTS];
    uint64_t seed;
};

static uint64_t pick(struct model *model, uint64_t count)
{
    return t_random(&model->seed) % count;
}

static bool sleeps(const struct model *model, const struct slot *slot)
{
    return slot->pool && model->is_asleep[slot->pool - 1];
}

static void expect_contents(struct model *model)
{
    for (int i = 0; i < SLOTS; i++) {
        const struct slot *slot = &model->slots[i];
        if (slot->pointer && !sleeps(model, slot))
            EXPECT(share_bed_has(&model->bed, slot->pointer, slot->value, slot->bytes));
    }
    for (int i = 0; i < IMPORTS; i++) {
        const struct opened *opened = &model->imports[i];
        if (opened->base)
            EXPECT(share_bed_has(&model->bed, opened->there, opened->value, opened->bytes));
    }
}

static void step_alloc(struct model *model, struct slot *slot)
{
    int pool = (int)pick(model, POOLS + 1);
    void *pointer = NULL;

    if (slot->pointer)
        return;
    slot->bytes = 1 + pick(model, pick(model, 2) ? 20000 : 3 * MIB);
    if (pool)
        REQUIRE_OK(acre_pool_begin(model->bed.cache, model->pools[pool - 1], NULL));
    acre_status status = acre_cache_alloc(model->bed.cache, slot->bytes, NULL, &pointer);
    if (pool)
        REQUIRE_OK(acre_pool_end(model->bed.cache, model->pools[pool - 1]));
    if (pool && model->is_asleep[pool - 1]) {
        EXPECT_EQ(status, ACRE_ERR_STATE);
        return;
    }
    REQUIRE_OK(status);
    slot->pointer = pointer;
    slot->pool = pool;
    slot->value = (int)pick(model, 255) + 1;
    share_bed_fill(&model->bed, pointer, slot->value, slot->bytes);
}

static void step_free(struct model *model, int index)
{
    struct slot *slot = &model->slots[index];

    if (!slot->pointer)
        return;
    acre_status status = acre_cache_free(model->bed.cache, slot->pointer);
    EXPECT_EQ(status, sleeps(model, slot) ? ACRE_ERR_STATE : ACRE_OK);
    if (status != ACRE_OK)
        return;
    for (int i = 0; i < IMPORTS; i++)
        if (model->imports[i].base && model->imports[i].slot == index)
            model->imports[i].slot = -1;
    *slot = (struct slot){.pointer = NULL};
}

static void step_open(struct model *model, int index, struct opened *opened)
{
    struct slot *slot = &model->slots[index];
    struct parcel parcel;
    uint64_t bytes;

    if (!slot->pointer || opened->base)
        return;
    acre_status status = acre_share_export(model->bed.cache, slot->pointer, parcel.handle,
                                           sizeof parcel.handle, &parcel.bytes, &parcel.offset);
    EXPECT_EQ(status, sleeps(model, slot) ? ACRE_ERR_STATE : ACRE_OK);
    if (status != ACRE_OK)
        return;
    REQUIRE_OK(acre_share_open(model->bed.device, parcel.handle, parcel.bytes, &opened->base,
                               &bytes));
    *opened = (struct opened){opened->base, (char *)opened->base + parcel.offset, slot->bytes,
                              slot->value, index};
    slot->opened++;
}

static void step_close(struct model *model, struct opened *opened)
{
    if (!opened->base)
        return;
    REQUIRE_OK(acre_share_close(model->bed.device, opened->base));
    if (opened->slot >= 0)
        model->slots[opened->slot].opened--;
    opened->base = NULL;
}

/* Ends exports that nobody has open any more, so that their pools may sleep. */
static void step_revoke(struct model *model)
{
    for (int i = 0; i < SLOTS; i++) {
        uint64_t count = 0;
        struct slot *slot = &model->slots[i];

        if (slot->pointer && !slot->opened)
            for (int look = 0; look < 20000; look++) { /* the service hears of it soon */
                REQUIRE_OK(acre_share_revoke(model->bed.cache, slot->pointer, &count));
                if (!count)
                    break;
                usleep(100);
            }
        EXPECT_EQ(count, 0);
    }
}

static void step_sleep(struct model *model, int pool)
{
    bool is_open = false;

    for (int i = 0; i < SLOTS; i++)
        is_open |= model->slots[i].pool == pool + 1 && model->slots[i].opened;
    step_revoke(model);
    acre_status status = acre_cache_sleep(model->bed.cache, &model->pools[pool], NULL,
                                          ACRE_SLEEP_SAVE);
    /* A freed block that is still open somewhere also keeps its pool awake. */
    if (is_open && !model->is_asleep[pool])
        EXPECT_EQ(status, ACRE_ERR_BUSY);
    else
        EXPECT(status == ACRE_OK || status == ACRE_ERR_BUSY);
    model->is_asleep[pool] |= status == ACRE_OK;
}

static void step_wake(struct model *model, int pool)
{
    REQUIRE_OK(acre_cache_wake(model->bed.cache, &model->pools[pool], NULL));
    model->is_asleep[pool] = false;
}

static void step(struct model *model)
{
    int index = (int)pick(model, SLOTS), pool = (int)pick(model, POOLS);
    struct opened *opened = &model->imports[pick(model, IMPORTS)];

    switch (pick(model, 8)) {
    case 0: case 1: case 2:
        step_alloc(model, &model->slots[index]);
        return;
    case 3:
        step_free(model, index);
        return;
    case 4:
        step_open(model, index, opened);
        return;
    case 5:
        step_close(model, opened);
        return;
    case 6:
        step_sleep(model, pool);
        break;
    default:
        step_wake(model, pool);
    }
    expect_contents(model);
}

static void model_end(struct model *model)
{
    for (int i = 0; i < POOLS; i++)
        step_wake(model, i);
    expect_contents(model);
    for (int i = 0; i < IMPORTS; i++)
        step_close(model, &model->imports[i]);
    for (int i = 0; i < SLOTS; i++)
        step_free(model, i);
    share_bed_settle(&model->bed, 0);
    for (int i = 0; i < POOLS; i++)
        REQUIRE_OK(acre_pool_release(model->bed.cache, model->pools[i]));
    REQUIRE_OK(acre_cache_empty(model->bed.cache));
    share_bed_close(&model->bed);
}

static void run(acre_policy policy, const char *conf)
{
    static struct model model;
    acre_pool_config config = {.struct_size = sizeof config, .flags = ACRE_POOL_STITCHED};
    uint64_t steps = t_count(400, 20000);

    memset(&model, 0, sizeof model);
    model.seed = t_seed();
    model.bed = share_bed_open("memory:1GiB", policy, conf);
    for (int i = 0; i < POOLS; i++) {
        model.pools[i] = acre_pool_id_next();
        REQUIRE_OK(acre_pool_create(model.bed.cache, model.pools[i], &config));
    }
    for (uint64_t i = 0; i < steps; i++) {
        step(&model);
        if (i % 16 == 0)
            REQUIRE_OK(acre_cache_check(model.bed.cache));
    }
    model_end(&model);
}

TEST(expandable_memory_shared_and_asleep)
{
    run(ACRE_POLICY_TORCH, "expandable_segments:True");
}

TEST(stitched_memory_shared_and_asleep)
{
    run(ACRE_POLICY_ACRE, NULL);
}

T_MAIN()
