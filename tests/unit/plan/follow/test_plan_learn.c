/* SPDX-License-Identifier: MIT */
/* Plans from recorded events, and whole traces. */
#include "backend/backend.h"
#include "tests/support/planner_ground.h"

#include <math.h>

/* ---- Learning --------------------------------------------------------------------------- */

TEST(a_recorded_sequence_is_followed_from_its_first_event)
{
    const acre_trace_event events[] = {
        {.kind = ACRE_TRACE_ALLOC, .bytes = 1000, .slot = 0},
        {.kind = ACRE_TRACE_ALLOC, .bytes = 2000, .slot = 1},
        {.kind = ACRE_TRACE_FREE, .slot = 0},
        {.kind = ACRE_TRACE_SYNC, .stream = ACRE_TRACE_ALL_STREAMS},
        {.kind = ACRE_TRACE_ALLOC, .bytes = 900, .slot = 0},
    };
    acre_planner_config config = {.struct_size = sizeof config, .flags = ACRE_PLANNER_KEEP};

    open_ground(&config, 0, true);
    REQUIRE_OK(acre_planner_learn(ground.planner, events, 5, NULL, 0));
    for (int round = 0; round < 3; round++) {
        char *first = take(0, 1000);
        take(1, 2000);
        give(0);
        EXPECT_PTR_EQ(take(2, 900), first);
        give(1);
        give(2);
    }
    EXPECT_EQ(stats().departures, 0);
    EXPECT_EQ(stats().arena_bytes, 1024 + 2048);
    take(0, 1000);
    EXPECT_EQ(acre_planner_learn(ground.planner, events, 5, NULL, 0), ACRE_ERR_STATE);
    give(0);
    REQUIRE_OK(acre_planner_learn(ground.planner, events, 5, NULL, 0));
    EXPECT_EQ(acre_planner_learn(ground.planner, events + 2, 1, NULL, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_planner_learn(ground.planner, events + 3, 1, NULL, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_planner_learn(ground.planner, NULL, 1, NULL, 0), ACRE_ERR_INVALID);
    close_ground();
}

TEST(learning_is_given_up_at_its_limit)
{
    enum { COUNT = 500 };
    static acre_trace_event events[COUNT];
    static char handles[COUNT];
    static void *streams[COUNT];
    acre_planner_config config = {
        .struct_size = sizeof config, .seconds = INFINITY, .limit = 1e-9};

    for (uint32_t i = 0; i < COUNT; i++) {
        events[i] = (acre_trace_event){
            .kind = ACRE_TRACE_ALLOC, .bytes = 512 * (1 + i % 7), .slot = i, .stream = i};
        streams[i] = &handles[i];
    }
    open_ground(&config, 0, true);
    EXPECT_EQ(acre_planner_learn(ground.planner, events, COUNT, streams, COUNT), ACRE_ERR_TIMEOUT);
    EXPECT_EQ(stats().plans, 0);
    take(0, 1000);
    give(0);
    close_ground();
    config.limit = -1;
    acre_planner *planner;
    EXPECT_EQ(acre_planner_create((void *)&config, &config, &planner), ACRE_ERR_INVALID);
}

/* ---- A device that refuses to take memory back ----------------------------------------------- */

static const acre_backend_ops *ops_before;
static int refusals;

static acre_status free_reluctantly(void *self, int device, void *base)
{
    if (refusals-- > 0)
        return acre_error_set(ACRE_ERR_DEVICE, 7, "not now");
    return ops_before->free(self, device, base);
}

TEST(an_arena_that_the_device_does_not_take_back_is_offered_again)
{
    const acre_trace_event events[] = {{.kind = ACRE_TRACE_ALLOC, .bytes = 5 << 20, .slot = 0},
                                       {.kind = ACRE_TRACE_FREE, .slot = 0}};
    acre_sim_usage usage = {.struct_size = sizeof usage};

    open_ground(NULL, 0, true);
    acre_backend_ops ops = *ground.device->ops;
    ops_before = ground.device->ops;
    ops.free = free_reluctantly;
    ground.device->ops = &ops;
    REQUIRE_OK(acre_planner_learn(ground.planner, events, 2, NULL, 0));
    refusals = 2;
    REQUIRE_OK(acre_planner_learn(ground.planner, events, 2, NULL, 0));
    EXPECT(refusals < 2);
    for (int i = 0; i < 3; i++) { /* requests that depart from the plan */
        take(0, 3000);
        give(0);
    }
    EXPECT(refusals < 0);
    REQUIRE_OK(acre_cache_empty(ground.cache));
    REQUIRE_OK(acre_sim_usage_get(ground.backend, &usage));
    EXPECT_EQ(usage.bytes_used, 5 << 20); /* the second arena alone */
    close_ground();
}

/* What the callback of a pool that gives memory back does with the planner. */
struct meanwhile {
    acre_allocator *allocator;
    acre_data_ptr kept; /* stays live, when that is asked for */
    bool is_keeping, is_done;
};

static void *source_alloc(void *arg, size_t bytes, int device, void *stream)
{
    (void)arg, (void)device, (void)stream;
    return aligned_alloc(4096, bytes);
}

/* Others ask for enough that a plan is made. */
static void source_free(void *arg, void *pointer, size_t bytes, int device, void *stream)
{
    struct meanwhile *meanwhile = arg;
    acre_data_ptr live[2] = {ACRE_DATA_PTR_EMPTY, ACRE_DATA_PTR_EMPTY};

    (void)bytes, (void)device, (void)stream;
    free(pointer);
    meanwhile->is_done = true;
    for (size_t i = 0; i < 205; i++) {
        acre_data_ptr_clear(&live[i % 2]);
        REQUIRE_OK(acre_allocator_allocate(meanwhile->allocator, 512 * (1 + i % 20), &live[i % 2]));
    }
    acre_data_ptr_clear(&live[1]);
    if (!meanwhile->is_keeping)
        acre_data_ptr_clear(&live[0]);
    meanwhile->kept = live[0];
}

static void learn_while_others_plan(bool is_keeping, acre_status expected)
{
    const acre_trace_event events[] = {{.kind = ACRE_TRACE_ALLOC, .bytes = 1000, .slot = 0}};
    struct meanwhile meanwhile = {.is_keeping = is_keeping};
    acre_pool_config config = {.struct_size = sizeof config, .alloc = source_alloc,
                               .free = source_free, .arg = &meanwhile,
                               .flags = ACRE_POOL_GIVES_BACK};
    acre_pool_id id = acre_pool_id_next();
    void *block;

    open_ground(NULL, 64 << 20, false);
    REQUIRE_OK(acre_planner_allocator(ground.planner, &meanwhile.allocator));
    REQUIRE_OK(acre_pool_create(ground.cache, id, &config));
    REQUIRE_OK(acre_pool_begin(ground.cache, id, NULL));
    REQUIRE_OK(acre_cache_alloc(ground.cache, 5000, NULL, &block));
    REQUIRE_OK(acre_pool_end(ground.cache, id));
    REQUIRE_OK(acre_cache_free(ground.cache, block));
    EXPECT_EQ(acre_planner_learn(ground.planner, events, 1, NULL, 0), expected);
    EXPECT(meanwhile.is_done);
    EXPECT_EQ(stats().drops, 1);
    EXPECT_EQ(stats().plans, expected == ACRE_OK ? 2 : 1);
    acre_data_ptr_clear(&meanwhile.kept);
    EXPECT_EQ(stats().allocated_bytes.current, 0);
    REQUIRE_OK(acre_pool_release(ground.cache, id));
    acre_allocator_destroy(meanwhile.allocator);
    close_ground();
}

/* Learning empties the cache, and has no lock meanwhile. */
TEST(a_plan_that_others_make_while_one_learns_is_dropped)
{
    learn_while_others_plan(false, ACRE_OK);
}

TEST(a_plan_that_others_make_while_one_learns_keeps_what_lives_in_it)
{
    learn_while_others_plan(true, ACRE_ERR_STATE);
}

/* Feeds a trace to a planner that does not know it. */
static void feed_file(const char *path, uint64_t *out_allocs)
{
    acre_trace_event events[256];
    acre_trace *trace;
    size_t count = 1;
    void *streams[2] = {NULL, NULL};
    void **pointers = calloc(100000, sizeof *pointers);

    REQUIRE_OK(acre_stream_native_create(ground.device, 0, 0, &streams[1]));
    REQUIRE_OK(acre_trace_open(path, &trace));
    *out_allocs = 0;
    while (count > 0) {
        REQUIRE_OK(acre_trace_read(trace, events, 256, &count));
        for (size_t i = 0; i < count; i++) {
            void **pointer = &pointers[events[i].slot];
            *out_allocs += events[i].kind == ACRE_TRACE_ALLOC;
            if (events[i].kind == ACRE_TRACE_ALLOC)
                REQUIRE_OK(acre_planner_alloc(ground.planner, events[i].bytes,
                                              streams[events[i].stream % 2], pointer));
            else if (events[i].kind == ACRE_TRACE_FREE)
                REQUIRE_OK(acre_planner_free(ground.planner, *pointer));
        }
    }
    acre_trace_close(trace);
    free(pointers);
}

/* Iterations of these repeat but for a smaller last batch or sampling in between. */
TEST(repeating_traces_are_followed_without_having_been_seen)
{
    static const char *const names[] = {"traces/public/resnet50_sgd.trace.gz",
                                        "traces/public/unet_ddpm.trace.gz"};

    acre_planner_config config = {.struct_size = sizeof config, .seconds = INFINITY};

    for (int n = 0; n < 2; n++) {
        const char *path = t_shared(names[n]);
        uint64_t allocs;
        if (!path)
            T_SKIP("%s is not at hand", names[n]);
        open_ground(&config, (uint64_t)80 << 30, true);
        feed_file(path, &allocs);
        acre_planner_stats now = stats();
        printf("%s: %llu plans, %llu dropped, %llu rounds, %llu of %llu depart, arena %+.3f %%\n",
               names[n], (unsigned long long)now.plans, (unsigned long long)now.drops,
               (unsigned long long)now.rounds, (unsigned long long)now.departures,
               (unsigned long long)allocs,
               100.0 * ((double)now.arena_bytes - (double)now.lower_bound) /
                   (double)(now.lower_bound + 1));
        EXPECT_GE(now.rounds, 6);
        EXPECT_LE(now.departures, allocs / 8);
        EXPECT_LE(now.arena_bytes, now.lower_bound + now.lower_bound / 1000);
        close_ground();
    }
}

TEST(whole_traces_placed_ahead_waste_next_to_nothing)
{
    static const char *const names[] = {
        "fasterrcnn_varsize", "gpt12_varlen_adam", "gpt12_varlen_ckpt", "kvcache_serving",
        "lstm_lm_tbptt",      "resnet50_sgd",      "unet_ddpm"};

    for (int n = 0; n < 7; n++) {
        acre_replay_config config = {.struct_size = sizeof config, .repeat = 2,
                                     .flags = ACRE_REPLAY_PLAN};
        acre_replay_result result = {.struct_size = sizeof result};
        char name[100];
        snprintf(name, sizeof name, "traces/public/%s.trace.gz", names[n]);
        const char *path = t_shared(name);
        if (!path)
            T_SKIP("%s is not at hand", name);
        REQUIRE_OK(acre_replay(path, &config, &result));
        EXPECT_LE(result.first.waste_ppm, 2000);
        EXPECT_LE(result.warm.waste_ppm, 2000);
        EXPECT_EQ(result.first.departures + result.warm.departures, 0);
        EXPECT_EQ(result.first.ooms, 0);
    }
}

T_MAIN()
