/* SPDX-License-Identifier: MIT */
/* Current device and guards: D58 to D61, D65, D66. */
#include "backend/backend.h"
#include "tests/support/sim_pair.h"
#include "tests/support/small_backend.h"
#include "tests/support/tracing_backend.h"

#include <pthread.h>

#define TYPE ACRE_DEVICE_PRIVATE

static acre_backend *backend;

static void begin(void)
{
    backend = sim_pair("guarded", TYPE, ACRE_STREAM_CODEC_REFERENCE);
}

static void end(void)
{
    acre_backend_unregister(backend);
}

static int current(void)
{
    int index = -99;

    EXPECT_EQ(acre_device_current(TYPE, &index), ACRE_OK);
    return index;
}

static acre_stream current_stream(int index)
{
    acre_stream stream = {-1, -1, -1};

    EXPECT_EQ(acre_stream_current(TYPE, index, &stream), ACRE_OK);
    return stream;
}

static acre_stream pooled(int index)
{
    acre_stream stream;

    REQUIRE_OK(acre_stream_from_pool(TYPE, index, 0, &stream));
    return stream;
}

/* Leaves early, through the guard's end. */
static acre_status fail_inside_guard(void)
{
    acre_guard guard;
    acre_status status = acre_guard_device(&guard, (acre_device_id){TYPE, 1});

    if (status == ACRE_OK)
        status = acre_device_set(TYPE, 99);
    acre_guard_end(&guard);
    return status;
}

TEST(D58_guard_restores_the_device)
{
    acre_guard guard;

    begin();
    EXPECT_EQ(current(), 0);
    REQUIRE_OK(acre_guard_device(&guard, (acre_device_id){TYPE, 1}));
    EXPECT_EQ(current(), 1);
    EXPECT_EQ(guard.device_original, 0);
    EXPECT_EQ(guard.device_now, 1);
    acre_guard_end(&guard);
    EXPECT_EQ(current(), 0);
    acre_guard_end(&guard);
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(fail_inside_guard(), ACRE_ERR_RANGE);
    EXPECT_EQ(current(), 0);
    REQUIRE_OK(acre_device_set(TYPE, 1));
    REQUIRE_OK(acre_guard_device(&guard, (acre_device_id){TYPE, -1}));
    EXPECT_EQ(current(), 1);
    REQUIRE_OK(acre_device_set(TYPE, 0));
    acre_guard_end(&guard);
    EXPECT_EQ(current(), 1);
    acre_guard_end(NULL);
    end();
}

TEST(D59_guard_of_another_type_is_refused_and_named)
{
    acre_guard guard;

    begin();
    EXPECT_EQ(acre_guard_device_of(&guard, TYPE, (acre_device_id){ACRE_DEVICE_CUDA, 1}),
              ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "cuda:1");
    acre_guard_end(&guard);
    EXPECT_EQ(acre_guard_device(&guard, (acre_device_id){ACRE_DEVICE_CUDA, 1}),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "cuda");
    acre_guard_end(&guard);
    EXPECT_EQ(backend_set_current(backend, (acre_device_id){ACRE_DEVICE_CUDA, 1}),
              ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "cuda:1");
    EXPECT_EQ(current(), 0);
    REQUIRE_OK(acre_guard_device_of(&guard, TYPE, (acre_device_id){TYPE, 1}));
    EXPECT_EQ(current(), 1);
    acre_guard_end(&guard);
    EXPECT_EQ(acre_guard_device(NULL, (acre_device_id){TYPE, 1}), ACRE_ERR_INVALID);
    end();
}

TEST(D60_set_refuses_what_exchange_passes_over)
{
    int previous = -99;

    begin();
    EXPECT_EQ(acre_device_set(TYPE, 2), ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "index 2");
    EXPECT_HAS(acre_last_error(), "[0, 2)");
    EXPECT_EQ(acre_device_set(TYPE, -1), ACRE_ERR_RANGE);
    EXPECT_EQ(current(), 0);
    REQUIRE_OK(acre_device_exchange(TYPE, 1, &previous));
    EXPECT_EQ(previous, 0);
    REQUIRE_OK(acre_device_exchange(TYPE, 5, &previous));
    EXPECT_EQ(previous, 1);
    EXPECT_EQ(current(), 1);
    REQUIRE_OK(acre_device_exchange(TYPE, -3, &previous));
    EXPECT_EQ(current(), 1);
    EXPECT_EQ(acre_device_exchange(TYPE, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_current(TYPE, NULL), ACRE_ERR_INVALID);
    end();
}

TEST(D61_maybe_exchange_has_two_contracts)
{
    int previous = -99;

    begin();
    REQUIRE_OK(acre_device_set(TYPE, 1));
    REQUIRE_OK(acre_hook_maybe_exchange_device(TYPE, 7, &previous));
    EXPECT_EQ(previous, 1);
    EXPECT_EQ(current(), 1);
    previous = -99;
    EXPECT_EQ(acre_device_maybe_exchange(TYPE, 7, &previous), ACRE_ERR_RANGE);
    EXPECT_EQ(previous, -99);
    EXPECT_EQ(current(), 1);
    REQUIRE_OK(acre_device_maybe_exchange(TYPE, -1, &previous));
    EXPECT_EQ(previous, 1);
    EXPECT_EQ(current(), 1);
    REQUIRE_OK(acre_device_maybe_exchange(TYPE, 0, &previous));
    EXPECT_EQ(previous, 1);
    EXPECT_EQ(current(), 0);
    end();
}

static void *other_thread(void *arg)
{
    acre_stream mine = pooled(1);

    (void)arg;
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(current_stream(0).id, 13);
    EXPECT_EQ(current_stream(1).id, 13);
    EXPECT_EQ(acre_stream_set_current(mine), ACRE_OK);
    EXPECT_EQ(acre_device_set(TYPE, 1), ACRE_OK);
    EXPECT_EQ(current_stream(1).id, mine.id);
    EXPECT_EQ(current_stream(-1).id, mine.id);
    return NULL;
}

TEST(D65_current_stream_is_per_thread_and_device)
{
    pthread_t thread;
    acre_stream mine;

    begin();
    EXPECT_EQ(current_stream(0).id, 13);
    EXPECT_EQ(current_stream(1).id, 13);
    mine = pooled(1);
    REQUIRE_OK(acre_stream_set_current(mine));
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(current_stream(0).id, 13);
    EXPECT_EQ(current_stream(1).id, mine.id);
    REQUIRE_EQ(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, NULL);
    EXPECT_EQ(current_stream(1).id, mine.id);
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(acre_stream_current(TYPE, 2, &mine), ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "[0, 2)");
    EXPECT_EQ(acre_stream_current(TYPE, 0, NULL), ACRE_ERR_INVALID);
    end();
}

/* Opens two guards, the second of which fails half-way. */
static acre_status fail_in_nested_guards(acre_stream outer, acre_stream bad)
{
    acre_guard first, second;
    acre_status status = acre_guard_stream(&first, outer);

    if (status == ACRE_OK)
        status = acre_guard_stream(&second, bad);
    if (status == ACRE_OK)
        acre_guard_end(&second);
    acre_guard_end(&first);
    return status;
}

TEST(D66_stream_guards_nest_and_unwind)
{
    acre_guard outer, inner;
    acre_stream a, b, bad;

    begin();
    a = pooled(1);
    b = pooled(0);
    bad = (acre_stream){.id = 5, .index = 1, .type = TYPE};
    REQUIRE_OK(acre_guard_stream(&outer, a));
    EXPECT_EQ(current(), 1);
    EXPECT_EQ(current_stream(1).id, a.id);
    REQUIRE_OK(acre_guard_stream(&inner, b));
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(current_stream(0).id, b.id);
    EXPECT_EQ(current_stream(1).id, a.id);
    acre_guard_end(&inner);
    EXPECT_EQ(current(), 1);
    EXPECT_EQ(current_stream(0).id, 13);
    acre_guard_end(&outer);
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(current_stream(1).id, 13);
    EXPECT_EQ(fail_in_nested_guards(a, bad), ACRE_ERR_INVALID);
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(current_stream(1).id, 13);
    end();
}

TEST(resetting_a_device_guard_keeps_the_first_original)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend *other;
    acre_guard guard;
    int index;

    begin();
    REQUIRE_OK(small_register("other", ACRE_DEVICE_OPENCL, &small, &other));
    REQUIRE_OK(acre_guard_device(&guard, (acre_device_id){TYPE, 1}));
    REQUIRE_OK(acre_guard_reset_device(&guard, (acre_device_id){TYPE, 0}));
    REQUIRE_OK(acre_guard_reset_device(&guard, (acre_device_id){TYPE, 1}));
    EXPECT_EQ(guard.device_original, 0);
    EXPECT_EQ(acre_guard_reset_device(&guard, (acre_device_id){TYPE, 9}), ACRE_ERR_RANGE);
    EXPECT_EQ(current(), 1);
    /* Another type: the first goes back at once, then the other is guarded. */
    REQUIRE_OK(acre_guard_reset_device(&guard, (acre_device_id){ACRE_DEVICE_OPENCL, 1}));
    EXPECT_EQ(current(), 0);
    REQUIRE_OK(acre_device_current(ACRE_DEVICE_OPENCL, &index));
    EXPECT_EQ(index, 1);
    acre_guard_end(&guard);
    REQUIRE_OK(acre_device_current(ACRE_DEVICE_OPENCL, &index));
    EXPECT_EQ(index, 0);
    EXPECT_EQ(acre_guard_reset_device(&guard, (acre_device_id){TYPE, 1}), ACRE_ERR_STATE);
    acre_backend_unregister(other);
    end();
}

TEST(resetting_a_stream_guard_restores_the_device_it_leaves)
{
    acre_stream a, b, c;
    acre_guard guard;

    begin();
    a = pooled(1);
    b = pooled(0);
    c = pooled(0);
    REQUIRE_OK(acre_guard_stream(&guard, a));
    REQUIRE_OK(acre_guard_reset_stream(&guard, b));
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(current_stream(1).id, 13);
    EXPECT_EQ(current_stream(0).id, b.id);
    REQUIRE_OK(acre_guard_reset_stream(&guard, c));
    EXPECT_EQ(current_stream(0).id, c.id);
    EXPECT_EQ(acre_guard_reset_stream(&guard, (acre_stream){7, 0, TYPE}), ACRE_ERR_INVALID);
    EXPECT_EQ(current_stream(0).id, c.id);
    REQUIRE_OK(acre_guard_reset_stream(&guard, a));
    EXPECT_EQ(current(), 1);
    EXPECT_EQ(current_stream(0).id, 13);
    acre_guard_end(&guard);
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(current_stream(1).id, 13);
    end();
}

TEST(several_streams_are_guarded_without_moving_the_device)
{
    acre_stream streams[2], originals[2];

    begin();
    streams[0] = pooled(0);
    streams[1] = pooled(1);
    REQUIRE_OK(acre_guard_multi_begin(streams, 2, originals));
    EXPECT_EQ(current(), 0);
    EXPECT_EQ(current_stream(0).id, streams[0].id);
    EXPECT_EQ(current_stream(1).id, streams[1].id);
    acre_guard_multi_end(originals, 2);
    EXPECT_EQ(current_stream(0).id, 13);
    EXPECT_EQ(current_stream(1).id, 13);
    /* Mixed types: an error that names both, and nothing changes. */
    streams[1].type = ACRE_DEVICE_CUDA;
    EXPECT_EQ(acre_guard_multi_begin(streams, 2, originals), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "cuda:1");
    EXPECT_HAS(acre_last_error(), "openreg:0");
    /* A bad second stream: the first goes back. */
    streams[1] = (acre_stream){.id = 1, .index = 9, .type = TYPE};
    EXPECT_EQ(acre_guard_multi_begin(streams, 2, originals), ACRE_ERR_RANGE);
    EXPECT_EQ(current_stream(0).id, 13);
    REQUIRE_OK(acre_guard_multi_begin(NULL, 0, NULL));
    EXPECT_EQ(acre_guard_multi_begin(NULL, 2, originals), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_guard_multi_begin(streams, -1, originals), ACRE_ERR_RANGE);
    end();
}

TEST(drivers_are_told_when_the_device_changes_and_only_then)
{
    const struct wrap_config config = {
        .name = "told", .type = ACRE_DEVICE_OPENCL, .has_current = true};
    acre_backend *told;
    acre_guard guard;

    begin();
    REQUIRE_OK(tracing_create(backend, &config, &told));
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_OPENCL, 0));
    EXPECT_EQ(tracing_count(told, WRAP_set_current), 0);
    REQUIRE_OK(acre_guard_device(&guard, (acre_device_id){ACRE_DEVICE_OPENCL, 1}));
    EXPECT_EQ(wrap_current(), 1);
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_OPENCL, 1));
    EXPECT_EQ(tracing_count(told, WRAP_set_current), 1);
    acre_guard_end(&guard);
    EXPECT_EQ(wrap_current(), 0);
    EXPECT_EQ(tracing_count(told, WRAP_set_current), 2);
    acre_backend_unregister(told);
    end();
}

T_MAIN()
