/* SPDX-License-Identifier: MIT */
#include "cache/pools/private_pool.h"

#include "tests/support/pool_lab.h"

/* A source of memory that counts and remembers. */
struct source {
    struct fake *fake;
    int allocs, frees, fails;
    bool is_any; /* what comes back need not be what was given last */
    size_t bytes;
    int device;
    void *stream;
};

static void *source_alloc(void *arg, size_t bytes, int device, void *stream)
{
    struct source *source = arg;
    void *pointer = NULL;

    source->allocs++;
    source->bytes = bytes;
    source->device = device;
    source->stream = stream;
    if (source->fails)
        return NULL;
    if (acre_device_alloc(fake_device(source->fake, 0), bytes, &pointer) != ACRE_OK)
        return NULL;
    return pointer;
}

static void source_free(void *arg, void *pointer, size_t bytes, int device, void *stream)
{
    struct source *source = arg;

    source->frees++;
    EXPECT(source->is_any || bytes == source->bytes);
    EXPECT_EQ(device, source->device);
    EXPECT_PTR_EQ(stream, source->stream);
    EXPECT_EQ(acre_device_free(fake_device(source->fake, 0), pointer), ACRE_OK);
}

static acre_pool_id new_source_pool(struct lab *lab, struct source *source)
{
    acre_pool_config config = {.struct_size = sizeof config, .alloc = source_alloc,
                               .free = source_free, .arg = source};
    acre_pool_id id = acre_pool_id_next();

    source->fake = lab->fake;
    REQUIRE_OK(acre_pool_create(lab->cache, id, &config));
    return id;
}

TEST(B94_a_live_block_keeps_its_segment_and_pool)
{
    struct source source = {.allocs = 0};
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_source_pool(&lab, &source);
    void *live = alloc_in(&lab, id, 30 * MIB);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(source.frees, 0);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 30 * MIB);
    lab_free(&lab, live);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(source.frees, 1);
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 0);
    EXPECT_EQ(acre_pool_release(lab.cache, id), ACRE_ERR_NOT_FOUND);
    lab_close(&lab);
}

TEST(B102_a_source_without_memory_is_asked_twice)
{
    struct source source = {.fails = 1};
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_source_pool(&lab, &source);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    EXPECT_EQ(lab_try(&lab, 3 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(source.allocs, 2);
    EXPECT_EQ(source.bytes, 20 * MIB);
    EXPECT_EQ(COUNT(&lab, num_ooms), 1);
    EXPECT_EQ(COUNT(&lab, num_alloc_retries), 1);
    source.fails = 0;
    EXPECT_EQ(lab_try(&lab, 3 * MIB), ACRE_OK);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    lab_close(&lab);
    EXPECT_EQ(source.frees, 1);
}

TEST(W20_a_source_gets_the_stream_of_the_block)
{
    struct source source = {.allocs = 0};
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_source_pool(&lab, &source);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    void *block = lab_alloc_on(&lab, 3 * MIB, 2);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    EXPECT_PTR_EQ(source.stream, fake_stream(2));
    EXPECT_EQ(source.device, 0);
    lab_free(&lab, block);
    lab_close(&lab); /* source_free checks that it gets the same */
    EXPECT_EQ(source.frees, 1);
}

TEST(a_source_has_back_at_once_what_makes_room_for_a_request)
{
    acre_cache_config config = {.policy = ACRE_POLICY_TORCH, .conf = "max_split_size_mb:32"};
    struct source source = {.allocs = 0};
    struct lab lab;

    lab_open_with(&lab, NULL, &config);
    lab_limit(&lab, 150 * MIB);
    acre_pool_id id = new_source_pool(&lab, &source);
    fill(&lab, id, 100 * MIB);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    source.is_any = true; /* the two segments differ */
    void *block = lab_alloc(&lab, 60 * MIB); /* too small to be cut off the first one */
    EXPECT_EQ(source.frees, 1);
    EXPECT_EQ(fake_bytes(lab.fake), 60 * MIB);
    lab_free(&lab, block);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    lab_close(&lab);
    EXPECT_EQ(source.frees, 2);
}

TEST(B104_a_pool_that_exists_takes_no_configuration)
{
    acre_pool_config config = {.struct_size = sizeof config, .alloc = source_alloc,
                               .free = source_free};
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    EXPECT_EQ(acre_pool_create(lab.cache, id, &config), ACRE_ERR_INVALID);
    EXPECT_EQ(use_count(&lab, id), 1);
    config.free = NULL;
    EXPECT_EQ(acre_pool_create(lab.cache, acre_pool_id_next(), &config), ACRE_ERR_INVALID);
    config = (acre_pool_config){.struct_size = sizeof config, .flags = 64};
    EXPECT_EQ(acre_pool_create(lab.cache, acre_pool_id_next(), &config), ACRE_ERR_INVALID);
    lab_close(&lab);
}

TEST(W1_what_a_pool_holds_balances_however_it_is_cut)
{
    struct lab lab;
    void *pieces[3];

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    fill(&lab, id, 60 * MIB);
    for (int i = 0; i < 3; i++)
        pieces[i] = alloc_in(&lab, id, 20 * MIB);
    EXPECT_EQ(pool_stats(&lab, id).segment_count, 1);
    lab_free(&lab, pieces[0]);
    lab_free(&lab, pieces[2]);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(acre_cache_empty(lab.cache)); /* the live piece keeps the pool */
    EXPECT_EQ(pool_of(&lab, pieces[1]), id.user);
    EXPECT_EQ(pool_stats(&lab, id).live_count, 1);
    REQUIRE_OK(acre_cache_check(lab.cache));
    lab_free(&lab, pieces[1]);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT_EQ(CURRENT(&lab, reserved_bytes), 0);
    EXPECT_EQ(acre_pool_release(lab.cache, id), ACRE_ERR_NOT_FOUND);
    lab_close(&lab);
}

T_MAIN()
