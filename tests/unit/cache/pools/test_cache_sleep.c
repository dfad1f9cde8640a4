/* SPDX-License-Identifier: MIT */
/* Pools that sleep and wake: contents, addresses, accounts, refusals, failures. */
#include "tests/support/nest.h"

#include <pthread.h>

static int level_of(struct share_bed *bed, acre_pool_id id)
{
    int level = -1;

    REQUIRE_OK(acre_pool_sleep_get(bed->cache, id, &level, NULL));
    return level;
}

TEST_BOTH(contents_and_addresses_survive)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "weights");
    acre_cache_stats before = stats_of(&bed), asleep;
    uint64_t saved = 0, used = bed_usage(&bed.sim).bytes_used;

    for (int round = 0; round < 3; round++) {
        REQUIRE_OK(acre_cache_sleep(bed.cache, &nest.id, NULL, ACRE_SLEEP_SAVE));
        REQUIRE_OK(acre_cache_check(bed.cache));
        EXPECT_EQ(level_of(&bed, nest.id), 1);
        REQUIRE_OK(acre_pool_sleep_get(bed.cache, nest.id, NULL, &saved));
        EXPECT_GE(saved, 21 * MIB + 70000 + 5096);
        EXPECT_EQ(bed_usage(&bed.sim).bytes_used, 0);
        EXPECT_EQ(bed_usage(&bed.sim).handle_count, 0);
        asleep = stats_of(&bed);
        EXPECT_EQ(asleep.reserved_bytes.all.current, 0);
        EXPECT_EQ(asleep.allocated_bytes.all.current, before.allocated_bytes.all.current);
        EXPECT_EQ(asleep.allocation.all.current, before.allocation.all.current);
        REQUIRE_OK(acre_cache_wake(bed.cache, &nest.id, NULL));
        REQUIRE_OK(acre_cache_check(bed.cache));
        EXPECT_EQ(level_of(&bed, nest.id), 0);
        EXPECT_EQ(bed_usage(&bed.sim).bytes_used, used);
        EXPECT_EQ(bed_usage(&bed.sim).host_count, 0);
        EXPECT_EQ(stats_of(&bed).reserved_bytes.all.current,
                  before.reserved_bytes.all.current);
        nest_expect(&bed, &nest);
    }
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

TEST_BOTH(discarded_contents_are_not_kept_anywhere)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "kv");
    uint64_t saved = 7;

    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "kv", ACRE_SLEEP_DISCARD));
    REQUIRE_OK(acre_pool_sleep_get(bed.cache, nest.id, NULL, &saved));
    EXPECT_EQ(saved, 0);
    EXPECT_EQ(bed_usage(&bed.sim).host_count, 0);
    EXPECT_EQ(bed_usage(&bed.sim).bytes_used, 0);
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "kv"));
    for (int i = 0; i < 5; i++)
        if (i != NEST_FREED)
            share_bed_fill(&bed, nest.blocks[i], 'a' + i, nest.bytes[i]);
    nest_expect(&bed, &nest);
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

TEST_BOTH(a_tag_names_several_pools_and_nothing_else)
{
    struct share_bed bed = bed_make();
    struct nest a = nest_make(&bed, "weights"), b = nest_make(&bed, "weights");
    struct nest kv = nest_make(&bed, "kv");
    char *shared = share_bed_alloc(&bed, 5 * MIB, 's'), tag[ACRE_TAG_BYTES];

    REQUIRE_OK(acre_pool_tag_get(bed.cache, kv.id, tag));
    EXPECT_STR_EQ(tag, "kv");
    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "weights", ACRE_SLEEP_SAVE));
    EXPECT_EQ(level_of(&bed, a.id), 1);
    EXPECT_EQ(level_of(&bed, b.id), 1);
    EXPECT_EQ(level_of(&bed, kv.id), 0);
    nest_expect(&bed, &kv); /* and the others go on */
    EXPECT(share_bed_has(&bed, shared, 's', 5 * MIB));
    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "weights", ACRE_SLEEP_SAVE)); /* as it is */
    REQUIRE_OK(acre_cache_wake(bed.cache, &a.id, NULL));
    nest_expect(&bed, &a);
    EXPECT_EQ(level_of(&bed, b.id), 1);
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "weights"));
    nest_expect(&bed, &b);
    REQUIRE_OK(acre_cache_free(bed.cache, shared));
    nest_free(&bed, &a);
    nest_free(&bed, &b);
    nest_free(&bed, &kv);
    share_bed_close(&bed);
}

TEST_BOTH(free_memory_of_a_pool_is_there_again_after_waking)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");

    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    uint64_t creates = bed_usage(&bed.sim).calls[ACRE_SIM_CREATE];
    REQUIRE_OK(acre_pool_begin(bed.cache, nest.id, NULL));
    void *again = share_bed_alloc(&bed, nest.bytes[NEST_FREED], 'n');
    REQUIRE_OK(acre_pool_end(bed.cache, nest.id));
    EXPECT_PTR_EQ(again, nest.blocks[NEST_FREED]);
    EXPECT_EQ(bed_usage(&bed.sim).calls[ACRE_SIM_CREATE], creates);
    REQUIRE_OK(acre_cache_free(bed.cache, again));
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

TEST_BOTH(waking_heeds_the_limit)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");
    uint64_t nest_bytes = (uint64_t)stats_of(&bed).reserved_bytes.all.current;
    int level;

    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    void *other = share_bed_alloc(&bed, 30 * MIB, 'o');
    uint64_t other_bytes = (uint64_t)stats_of(&bed).reserved_bytes.all.current;
    acre_cache_limit_set(bed.cache, nest_bytes + other_bytes - 1);
    EXPECT_EQ(acre_cache_wake(bed.cache, NULL, "w"), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "limit");
    EXPECT_EQ(stats_of(&bed).reserved_bytes.all.current, (int64_t)other_bytes);
    REQUIRE_OK(acre_pool_sleep_get(bed.cache, nest.id, &level, NULL));
    EXPECT_EQ(level, ACRE_SLEEP_SAVE);
    EXPECT(share_bed_has(&bed, other, 'o', 30 * MIB));
    REQUIRE_OK(acre_cache_check(bed.cache));
    acre_cache_limit_set(bed.cache, nest_bytes); /* what is idle goes to make room */
    REQUIRE_OK(acre_cache_free(bed.cache, other));
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    EXPECT_EQ(stats_of(&bed).reserved_bytes.all.current, (int64_t)nest_bytes);
    nest_expect(&bed, &nest);
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

TEST_BOTH(sleeping_memory_is_left_alone)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");
    struct parcel parcel;
    char host[16];
    void *pointer;

    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    EXPECT_EQ(acre_cache_free(bed.cache, nest.blocks[0]), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "sleeps; wake it first");
    EXPECT_EQ(acre_share_export(bed.cache, nest.blocks[0], parcel.handle, 66, &parcel.bytes,
                                &parcel.offset), ACRE_ERR_STATE);
    EXPECT_EQ(acre_copy(bed.device, host, nest.blocks[0], 16, ACRE_COPY_DEVICE_TO_HOST),
              ACRE_ERR_INVALID);
    REQUIRE_OK(acre_pool_begin(bed.cache, nest.id, NULL));
    EXPECT_EQ(acre_cache_alloc(bed.cache, 512, NULL, &pointer), ACRE_ERR_STATE);
    EXPECT_EQ(acre_cache_alloc_at(bed.cache, 512, NULL, nest.blocks[NEST_FREED]),
              ACRE_ERR_STATE);
    REQUIRE_OK(acre_pool_end(bed.cache, nest.id));
    REQUIRE_OK(acre_cache_empty(bed.cache));
    REQUIRE_OK(acre_pool_empty(bed.cache, nest.id));
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    nest_expect(&bed, &nest);
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

TEST_BOTH(a_pool_released_while_it_sleeps_does_not_end)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");

    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    REQUIRE_OK(acre_pool_release(bed.cache, nest.id));
    REQUIRE_OK(acre_cache_empty(bed.cache));
    REQUIRE_OK(acre_cache_wake(bed.cache, &nest.id, NULL));
    nest_expect(&bed, &nest);
    for (int i = 0; i < 5; i++)
        if (i != NEST_FREED)
            REQUIRE_OK(acre_cache_free(bed.cache, nest.blocks[i]));
    REQUIRE_OK(acre_cache_empty(bed.cache));
    EXPECT_EQ(acre_cache_wake(bed.cache, &nest.id, NULL), ACRE_ERR_NOT_FOUND);
    share_bed_close(&bed);
}

TEST_BOTH(what_cannot_sleep_is_refused)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");
    acre_pool_id shared = {0}, none = acre_pool_id_next();
    uint64_t count;

#define SLEEP(pool, tag) acre_cache_sleep(bed.cache, pool, tag, ACRE_SLEEP_SAVE)
    EXPECT_EQ(SLEEP(NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(SLEEP(&nest.id, "w"), ACRE_ERR_INVALID);
    EXPECT_EQ(SLEEP(NULL, ""), ACRE_ERR_INVALID);
    EXPECT_EQ(SLEEP(NULL, "x"), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(SLEEP(&none, NULL), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(SLEEP(&shared, NULL), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_cache_sleep(bed.cache, NULL, "w", 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_sleep(bed.cache, NULL, "w", 3), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_wake(bed.cache, NULL, "x"), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_cache_wake(bed.cache, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_tag_set(bed.cache, shared, "w"), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pool_tag_set(bed.cache, none, "w"), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_pool_tag_set(bed.cache, nest.id, "0123456789012345678901234567890x"),
              ACRE_ERR_INVALID);
    share_bed_export(&bed, nest.blocks[3]);
    EXPECT_EQ(SLEEP(NULL, "w"), ACRE_ERR_BUSY);
    EXPECT_HAS(acre_last_error(), "acre_share_revoke");
    REQUIRE_OK(acre_share_revoke(bed.cache, nest.blocks[3], &count));
    EXPECT_EQ(count, 0);
    nest_expect(&bed, &nest);
    REQUIRE_OK(SLEEP(NULL, "w"));
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

TEST(plain_segments_are_refused_with_the_remedy)
{
    struct share_bed bed = share_bed_open("memory:256MiB", ACRE_POLICY_TORCH, NULL);
    struct nest nest = nest_make(&bed, "w");

    EXPECT_EQ(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "expandable_segments");
    nest_expect(&bed, &nest);
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

/* Either all pools of a tag sleep or none: here the second one is exported. */
TEST_BOTH(one_pool_that_cannot_keeps_all_awake)
{
    struct share_bed bed = bed_make();
    struct nest a = nest_make(&bed, "w"), b = nest_make(&bed, "w");
    uint64_t used = bed_usage(&bed.sim).bytes_used;

    share_bed_export(&bed, b.blocks[0]);
    EXPECT_EQ(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE), ACRE_ERR_BUSY);
    EXPECT_EQ(level_of(&bed, a.id), 0);
    EXPECT_EQ(level_of(&bed, b.id), 0);
    EXPECT_EQ(bed_usage(&bed.sim).bytes_used, used);
    EXPECT_EQ(bed_usage(&bed.sim).host_count, 0);
    nest_expect(&bed, &a);
    nest_expect(&bed, &b);
    nest_free(&bed, &a);
    nest_free(&bed, &b);
    share_bed_close(&bed);
}

TEST_BOTH(waking_takes_what_is_idle_and_else_waits_for_memory)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");
    void *hog;

    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    /* The cache itself has the rest of the device, idle. */
    void *rest;
    REQUIRE_OK(acre_cache_alloc(bed.cache, 490 * MIB, NULL, &rest));
    REQUIRE_OK(acre_cache_free(bed.cache, rest));
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    nest_expect(&bed, &nest);
    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    REQUIRE_OK(acre_device_alloc(bed.device, 490 * MIB, &hog));
    EXPECT_EQ(acre_cache_wake(bed.cache, NULL, "w"), ACRE_ERR_DEVICE_MEMORY);
    REQUIRE_OK(acre_cache_check(bed.cache));
    EXPECT_EQ(level_of(&bed, nest.id), 1);
    EXPECT_EQ(bed_usage(&bed.sim).bytes_used, 490 * MIB);
    REQUIRE_OK(acre_device_free(bed.device, hog));
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    nest_expect(&bed, &nest);
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

TEST_BOTH(a_pool_of_the_tag_may_end_while_others_wake)
{
    struct share_bed bed = bed_make();
    acre_pool_id idle = acre_pool_id_next();
    uint64_t count;
    void *rest;

    REQUIRE_OK(acre_pool_create(bed.cache, idle, NULL));
    REQUIRE_OK(acre_pool_tag_set(bed.cache, idle, "w"));
    struct nest nest = nest_make(&bed, "w");
    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    REQUIRE_OK(acre_pool_release(bed.cache, idle));
    REQUIRE_OK(acre_cache_alloc(bed.cache, 490 * MIB, NULL, &rest));
    REQUIRE_OK(acre_cache_free(bed.cache, rest));
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w")); /* what is idle goes back first */
    EXPECT_EQ(acre_pool_use_count(bed.cache, idle, &count), ACRE_ERR_NOT_FOUND);
    nest_expect(&bed, &nest);
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

TEST_BOTH(a_cache_may_end_asleep)
{
    struct share_bed bed = bed_make();

    nest_make(&bed, "w");
    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    share_bed_close(&bed);
}

TEST_BOTH(devices_that_got_access_meanwhile_have_it_after_waking)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");
    acre_device *other;
    void *stream;

    REQUIRE_OK(acre_backend_device(bed.sim.backend, 1, &other));
    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    REQUIRE_OK(acre_cache_peer_enable(bed.cache, other));
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    REQUIRE_OK(acre_stream_native_create(other, 0, 0, &stream));
    REQUIRE_OK(acre_fill_async(other, nest.blocks[3], 'd', nest.bytes[3], stream));
    REQUIRE_OK(acre_stream_native_synchronize(other, stream));
    nest_expect(&bed, &nest);
    REQUIRE_OK(acre_stream_native_destroy(other, stream));
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

/* ---- Graphs ------------------------------------------------------------------------ */

TEST(graphs_captured_into_a_pool_work_after_waking)
{
    is_stitched = false;
    struct share_bed bed = bed_make();
    acre_recording *recording;
    acre_pool_id id;
    void *stream, *block;

    REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &stream));
    REQUIRE_OK(acre_recording_begin(bed.cache, stream, NULL, &recording));
    REQUIRE_OK(acre_cache_alloc(bed.cache, 3 * MIB, stream, &block));
    REQUIRE_OK(acre_fill_async(bed.device, block, 'g', 3 * MIB, stream));
    id = acre_recording_pool(recording);
    EXPECT_EQ(acre_cache_sleep(bed.cache, &id, NULL, ACRE_SLEEP_SAVE), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "capture is under way");
    REQUIRE_OK(acre_recording_end(recording));
    REQUIRE_OK(acre_recording_launch(recording, stream));
    REQUIRE_OK(acre_stream_native_synchronize(bed.device, stream));
    share_bed_fill(&bed, block, 'x', 3 * MIB);
    REQUIRE_OK(acre_cache_sleep(bed.cache, &id, NULL, ACRE_SLEEP_SAVE));
    EXPECT_EQ(acre_recording_launch(recording, stream), ACRE_ERR_STATE);
    REQUIRE_OK(acre_cache_wake(bed.cache, &id, NULL));
    EXPECT(share_bed_has(&bed, block, 'x', 3 * MIB));
    REQUIRE_OK(acre_recording_launch(recording, stream));
    REQUIRE_OK(acre_stream_native_synchronize(bed.device, stream));
    EXPECT(share_bed_has(&bed, block, 'g', 3 * MIB));
    REQUIRE_OK(acre_cache_free(bed.cache, block));
    acre_recording_destroy(recording);
    REQUIRE_OK(acre_cache_empty(bed.cache));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
    share_bed_close(&bed);
}

/* A graph that works on weights, which sleep in between. */
/* The device as it is, and what a pool was told that was put to sleep in the middle of a launch. */
static const acre_backend_ops *launch_ops;
static acre_cache *launch_cache;
static acre_pool_id launch_pool;
static acre_status launch_said;

static acre_status launch_hook(void *self, int index, void *graph, void *stream)
{
    launch_said = acre_cache_sleep(launch_cache, &launch_pool, NULL, ACRE_SLEEP_SAVE);
    return launch_ops->graph_launch(self, index, graph, stream);
}

TEST_BOTH(a_pool_does_not_fall_asleep_in_the_middle_of_a_launch)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");
    acre_recording *recording;
    void *stream;

    REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &stream));
    REQUIRE_OK(acre_recording_begin(bed.cache, stream, &nest.id, &recording));
    REQUIRE_OK(acre_fill_async(bed.device, nest.blocks[3], 'g', nest.bytes[3], stream));
    REQUIRE_OK(acre_recording_end(recording));
    acre_backend_ops hooked = *(launch_ops = bed.device->ops);
    hooked.graph_launch = launch_hook;
    launch_cache = bed.cache;
    launch_pool = nest.id;
    bed.device->ops = &hooked;
    REQUIRE_OK(acre_recording_launch(recording, stream));
    EXPECT_EQ(launch_said, ACRE_ERR_BUSY);
    bed.device->ops = launch_ops;
    REQUIRE_OK(acre_stream_native_synchronize(bed.device, stream));
    EXPECT(share_bed_has(&bed, nest.blocks[3], 'g', nest.bytes[3]));
    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    EXPECT_EQ(acre_recording_launch(recording, stream), ACRE_ERR_STATE);
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    acre_recording_destroy(recording);
    REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
    nest_free(&bed, &nest);
    share_bed_close(&bed);
}

TEST_BOTH(graphs_that_use_a_pool_work_after_waking)
{
    struct share_bed bed = bed_make();
    struct nest nest = nest_make(&bed, "w");
    acre_recording *recording;
    void *stream, *pointer;

    REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &stream));
    REQUIRE_OK(acre_recording_begin(bed.cache, stream, NULL, &recording));
    REQUIRE_OK(acre_fill_async(bed.device, nest.blocks[3], 'd', nest.bytes[3], stream));
    EXPECT_EQ(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE), ACRE_ERR_STATE);
    REQUIRE_OK(acre_recording_end(recording));
    REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    share_bed_fill(&bed, nest.blocks[3], 'x', nest.bytes[3]);
    REQUIRE_OK(acre_recording_launch(recording, stream));
    REQUIRE_OK(acre_stream_native_synchronize(bed.device, stream));
    nest_expect(&bed, &nest);
    acre_recording_destroy(recording);
    if (is_stitched) { /* free addresses of such a pool may change */
        REQUIRE_OK(acre_recording_begin(bed.cache, stream, &nest.id, &recording));
        EXPECT_EQ(acre_cache_alloc(bed.cache, 4096, stream, &pointer), ACRE_ERR_STATE);
        EXPECT_HAS(acre_last_error(), "ACRE_POOL_STITCHED");
        acre_recording_destroy(recording);
    }
    nest_free(&bed, &nest);
    REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
    share_bed_close(&bed);
}

/* ---- Failures ------------------------------------------------------------------------ */

/* Fails the n-th call of a kind: 0 the host's heap, 1 any call of the device. */
static void fault_arm(struct share_bed *bed, int kind, uint64_t nth)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_ANY, .nth = nth,
                            .status = ACRE_ERR_DEVICE};

    if (kind && ground_is_driver())
        standin_now.fail_nth(nth, STANDIN_UNKNOWN);
    else if (kind)
        REQUIRE_OK(acre_sim_fault_arm(bed->sim.backend, &fault));
    else
        heap_fail_nth(nth);
}

static bool fault_disarm(struct share_bed *bed, int kind)
{
    if (kind && ground_is_driver())
        return standin_now.fail_end() > 0;
    return kind ? acre_sim_fault_disarm(bed->sim.backend) > 0 : heap_fail_disarm();
}

/* Sleeps or wakes with one call failing; whether one did. */
static bool fail_once(int kind, bool is_waking, uint64_t nth)
{
    struct share_bed bed = bed_make();
    struct nest a = nest_make(&bed, "w"), b = nest_make(&bed, "w");
    acre_sim_usage before = {.struct_size = sizeof before};

    if (is_waking)
        REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    before = bed_usage(&bed.sim);
    fault_arm(&bed, kind, nth);
    acre_status status = is_waking ? acre_cache_wake(bed.cache, NULL, "w")
                                   : acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE);
    bool was_failed = fault_disarm(&bed, kind);
    REQUIRE_OK(acre_cache_check(bed.cache));
    if (status != ACRE_OK) {
        EXPECT(was_failed);
        EXPECT_EQ(status, kind ? ACRE_ERR_DEVICE : ACRE_ERR_HOST_MEMORY);
        acre_sim_usage after = bed_usage(&bed.sim);
        EXPECT_EQ(after.bytes_used, before.bytes_used);
        EXPECT_EQ(after.handle_count, before.handle_count);
        EXPECT_EQ(after.map_count, before.map_count);
        EXPECT_EQ(after.host_count, before.host_count);
        EXPECT_EQ(level_of(&bed, a.id), is_waking ? 1 : 0);
        EXPECT_EQ(level_of(&bed, b.id), is_waking ? 1 : 0);
        if (!is_waking)
            REQUIRE_OK(acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE));
    }
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    nest_expect(&bed, &a);
    nest_expect(&bed, &b);
    nest_free(&bed, &a);
    nest_free(&bed, &b);
    share_bed_close(&bed);
    return was_failed;
}

/* All of them in the plain build; of a driver, which needs more, in the long one. */
TEST_BOTH(every_call_may_fail)
{
    nest_large = 2 * MIB;
    for (int kind = 0; kind < 2; kind++)
        for (int is_waking = 0; is_waking < 2; is_waking++)
            for (uint64_t nth = 1; fail_once(kind, is_waking, nth);)
                nth += t_slowness() > 1 ? 20 : ground_is_driver() ? t_count(19, 1) : 1;
    nest_large = 21 * MIB;
}

/* Pages cannot be taken out, and then not put back at once either: contents and accounts are right,
 * whether the pool sleeps after all or not. How many calls failed. */
static uint64_t fail_twice(uint64_t unmap_nth, uint64_t map_nth)
{
    struct share_bed bed = bed_make();
    struct nest a = nest_make(&bed, "w"), b = nest_make(&bed, "w");
    acre_sim_fault unmap = {.struct_size = sizeof unmap, .call = ACRE_SIM_UNMAP, .nth = unmap_nth};
    acre_sim_fault map = {.struct_size = sizeof map, .call = ACRE_SIM_MAP, .nth = map_nth};

    REQUIRE_OK(acre_sim_fault_arm(bed.sim.backend, &unmap));
    REQUIRE_OK(acre_sim_fault_arm(bed.sim.backend, &map));
    acre_status status = acre_cache_sleep(bed.cache, NULL, "w", ACRE_SLEEP_SAVE);
    uint64_t failed = acre_sim_fault_disarm(bed.sim.backend);
    EXPECT(status == ACRE_OK || status == ACRE_ERR_DEVICE);
    REQUIRE_OK(acre_cache_check(bed.cache));
    REQUIRE_OK(acre_cache_wake(bed.cache, NULL, "w"));
    REQUIRE_OK(acre_cache_check(bed.cache));
    nest_expect(&bed, &a);
    nest_expect(&bed, &b);
    nest_free(&bed, &a);
    nest_free(&bed, &b);
    share_bed_close(&bed);
    return failed;
}

TEST_BOTH(pages_may_neither_go_nor_come)
{
    if (ground_is_driver())
        T_SKIP("calls of a driver fail in test_driver_fault");
    uint64_t failed = 1;
    nest_large = 5 * MIB;
    for (uint64_t unmap_nth = 1; failed; unmap_nth++)
        for (uint64_t map_nth = 1; (failed = fail_twice(unmap_nth, map_nth)) == 2;)
            map_nth++;
    nest_large = 21 * MIB;
}

T_MAIN()
