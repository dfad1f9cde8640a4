/* SPDX-License-Identifier: MIT */
/* The behaviours D30 to D54 of the reference device, through the calls of Acre.
 * tests/openreg has the same list through libopenreg.so. */
#include "tests/unit/device_behaviour.h"

static void *new_stream(acre_device *device)
{
    void *stream = NULL;

    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    return stream;
}

static void *new_event(acre_device *device, uint32_t flags)
{
    void *event = NULL;

    REQUIRE_OK(acre_event_native_create(device, flags, &event));
    return event;
}

static void run(acre_device *device, void *stream, void (*fn)(void *), void *arg)
{
    REQUIRE_OK(acre_launch_host(device, stream, fn, arg));
}

/* ---- Streams ------------------------------------------------------------------ */

DEVICE_TEST(D30_D31_priorities_are_checked_and_kept)
{
    void *stream = NULL;
    int priority = -1;

    for (int given = 0; given < 2; given++) {
        REQUIRE_OK(acre_stream_native_create(d[0], ~0u, given, &stream));
        REQUIRE_OK(acre_stream_native_priority(d[0], stream, &priority));
        EXPECT_EQ(priority, given);
        REFUSED(acre_stream_native_priority(d[0], stream, NULL));
        REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
        REFUSED(acre_stream_native_priority(d[0], stream, &priority));
    }
    EXPECT_EQ(acre_stream_native_create(d[0], 0, -1, &stream), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_native_create(d[0], 0, 2, &stream), ACRE_ERR_RANGE);
    REFUSED(acre_stream_native_create(d[0], 0, 0, NULL));
}

struct fold {
    uint64_t *sum;
    uint64_t step;
};

static void fold_task(void *arg)
{
    struct fold *fold = arg;

    *fold->sum = *fold->sum * 31 + fold->step;
}

DEVICE_TEST(D32_tasks_run_in_order)
{
    enum { N = 3000 };
    static struct fold folds[N];
    void *stream = new_stream(d[0]);
    uint64_t sum = 1, expected = 1;

    for (int i = 0; i < N; i++) {
        folds[i] = (struct fold){&sum, (uint64_t)i};
        expected = expected * 31 + (uint64_t)i;
        run(d[0], stream, fold_task, &folds[i]);
    }
    REQUIRE_OK(acre_stream_native_synchronize(d[0], stream));
    EXPECT(sum == expected);
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
}

DEVICE_TEST(D33_D34_streams_overlap_and_work_needs_a_function)
{
    struct door door = DOOR_INITIALIZER;
    void *a = new_stream(d[0]), *b = new_stream(d[1]);

    run(d[0], a, door_pass, &door);
    run(d[1], b, door_open, &door);
    REQUIRE_OK(acre_stream_native_synchronize(d[0], a));
    EXPECT_EQ(door_passed(&door), 1);
    REFUSED(acre_launch_host(d[0], a, NULL, NULL));
    REFUSED(acre_launch_host(d[0], b, door_open, &door)); /* of another device */
    REQUIRE_OK(acre_stream_native_destroy(d[0], a));
    REQUIRE_OK(acre_stream_native_destroy(d[1], b));
    REFUSED(acre_launch_host(d[0], a, door_open, &door));
}

DEVICE_TEST(D35_D36_synchronise_waits_whichever_device_is_current)
{
    for (int i = 0; i < 2; i++) {
        struct door door = DOOR_INITIALIZER;
        void *stream = new_stream(d[i]);
        pthread_t opener;
        int number = 0;

        REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 1 - i));
        run(d[i], stream, door_pass, &door);
        run(d[i], stream, count_task, &number);
        opener = door_open_later(&door);
        REQUIRE_OK(acre_stream_native_synchronize(d[i], stream));
        EXPECT_EQ(number_at(&number), 1);
        pthread_join(opener, NULL);
        REQUIRE_OK(acre_stream_native_destroy(d[i], stream));
    }
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 0));
}

DEVICE_TEST(D37_D38_query_tells_queued_and_running_work)
{
    struct door door = DOOR_INITIALIZER;
    void *stream = new_stream(d[0]);
    int number = 0;

    REQUIRE_OK(acre_stream_native_query(d[0], stream));
    run(d[0], stream, door_pass, &door);
    door_await(&door, 1);
    BUSY(acre_stream_native_query(d[0], stream));
    run(d[0], stream, count_task, &number);
    BUSY(acre_stream_native_query(d[0], stream));
    door_open(&door);
    REQUIRE_OK(acre_stream_native_synchronize(d[0], stream));
    REQUIRE_OK(acre_stream_native_query(d[0], stream));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
}

DEVICE_TEST(D39_destroy_runs_what_is_queued)
{
    struct door door = DOOR_INITIALIZER;
    void *stream = new_stream(d[0]);
    pthread_t opener;
    int number = 0;

    run(d[0], stream, door_pass, &door);
    for (int i = 0; i < 50; i++)
        run(d[0], stream, count_task, &number);
    opener = door_open_later(&door);
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
    EXPECT_EQ(number_at(&number), 50);
    pthread_join(opener, NULL);
    REFUSED(acre_stream_native_destroy(d[0], NULL));
    REFUSED(acre_stream_native_destroy(d[0], stream));
    REFUSED(acre_stream_native_synchronize(d[0], stream));
    REFUSED(acre_stream_native_query(d[0], stream));
}

DEVICE_TEST(D40_device_synchronise_waits_for_its_own_streams_only)
{
    struct door mine = DOOR_INITIALIZER, other = DOOR_INITIALIZER;
    void *a = new_stream(d[0]), *b = new_stream(d[1]);
    pthread_t opener;

    run(d[0], a, door_pass, &mine);
    run(d[1], b, door_pass, &other);
    opener = door_open_later(&mine);
    REQUIRE_OK(acre_device_synchronize(d[0]));
    EXPECT_EQ(door_passed(&mine), 1);
    EXPECT_EQ(door_passed(&other), 0);
    pthread_join(opener, NULL);
    door_open(&other);
    REQUIRE_OK(acre_device_synchronize(d[1]));
    EXPECT_EQ(door_passed(&other), 1);
    REQUIRE_OK(acre_stream_native_destroy(d[0], a));
    REQUIRE_OK(acre_stream_native_destroy(d[1], b));
    REQUIRE_OK(acre_device_synchronize(d[0]));
}

DEVICE_TEST(D41_async_copies_keep_the_arguments_they_were_given)
{
    struct door door = DOOR_INITIALIZER;
    void *stream = new_stream(d[0]), *first = new_block(d[0], 64, 1);
    void *second = new_block(d[0], 64, 2), *dst = first;
    char from[64], back[64] = {0};

    memset(from, 9, sizeof from);
    run(d[0], stream, door_pass, &door);
    REQUIRE_OK(acre_copy_async(d[0], dst, from, 64, ACRE_COPY_HOST_TO_DEVICE, stream));
    REQUIRE_OK(acre_copy_async(d[0], back, dst, 64, ACRE_COPY_DEVICE_TO_HOST, stream));
    dst = second;
    door_open(&door);
    REQUIRE_OK(acre_stream_native_synchronize(d[0], stream));
    EXPECT(block_is(d[0], first, 64, 9));
    EXPECT(block_is(d[0], dst, 64, 2));
    EXPECT_EQ(back[63], 9);
    REQUIRE_OK(acre_device_free(d[0], first));
    REQUIRE_OK(acre_device_free(d[0], second));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
}

/* The text of the failure comes along. */
DEVICE_TEST(D42_failed_async_copies_are_told_once_at_synchronise)
{
    void *stream = new_stream(d[0]), *block = new_block(d[0], 64, 1);
    char host[64] = {0};
    int number = 0;

    REQUIRE_OK(acre_copy_async(d[0], block, host, 1 << 20, ACRE_COPY_HOST_TO_DEVICE, stream));
    run(d[0], stream, count_task, &number);
    REFUSED(acre_stream_native_synchronize(d[0], stream));
    EXPECT_HAS(acre_last_error(), "1048576");
    EXPECT_EQ(number_at(&number), 1);
    REQUIRE_OK(acre_stream_native_synchronize(d[0], stream));
    REQUIRE_OK(acre_copy_async(d[0], block, host, 64, (acre_copy_kind)7, stream));
    REFUSED(acre_device_synchronize(d[0]));
    REQUIRE_OK(acre_device_synchronize(d[0]));
    EXPECT(block_is(d[0], block, 64, 1));
    REQUIRE_OK(acre_device_free(d[0], block));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
}

/* ---- Events ------------------------------------------------------------------- */

DEVICE_TEST(D43_a_new_event_is_complete)
{
    void *event = new_event(d[0], 0);

    REQUIRE_OK(acre_event_native_query(d[0], event));
    REQUIRE_OK(acre_event_native_synchronize(d[0], event));
    REQUIRE_OK(acre_event_native_destroy(d[0], event));
    REFUSED(acre_event_native_query(d[0], event));
    REFUSED(acre_event_native_destroy(d[0], event));
    REFUSED(acre_event_native_query(d[0], NULL));
}

DEVICE_TEST(D44_D45_records_complete_and_stay_on_their_device)
{
    struct door door = DOOR_INITIALIZER;
    void *mine = new_stream(d[0]), *other = new_stream(d[1]), *event = new_event(d[0], 0);

    REFUSED(acre_event_native_record(d[0], event, other));
    REFUSED(acre_event_native_record(d[1], event, other));
    REQUIRE_OK(acre_event_native_query(d[0], event));
    run(d[0], mine, door_pass, &door);
    REQUIRE_OK(acre_event_native_record(d[0], event, mine));
    BUSY(acre_event_native_query(d[0], event));
    REFUSED(acre_event_native_record(d[1], event, other));
    BUSY(acre_event_native_query(d[0], event));
    door_open(&door);
    REQUIRE_OK(acre_event_native_synchronize(d[0], event));
    REQUIRE_OK(acre_event_native_query(d[0], event));
    EXPECT_EQ(door_passed(&door), 1);
    REQUIRE_OK(acre_event_native_destroy(d[0], event));
    REQUIRE_OK(acre_stream_native_destroy(d[0], mine));
    REQUIRE_OK(acre_stream_native_destroy(d[1], other));
}

static void sleep_20_ms(void *arg)
{
    (void)arg;
    usleep(20000);
}

DEVICE_TEST(D47_elapsed_is_the_time_between)
{
    void *stream = new_stream(d[0]);
    void *start = new_event(d[0], ACRE_EVENT_TIMING), *end = new_event(d[0], ACRE_EVENT_TIMING);
    double forward = 0, backward = 0;

    REQUIRE_OK(acre_event_native_record(d[0], start, stream));
    run(d[0], stream, sleep_20_ms, NULL);
    REQUIRE_OK(acre_event_native_record(d[0], end, stream));
    REQUIRE_OK(acre_event_native_synchronize(d[0], end));
    REQUIRE_OK(acre_event_native_elapsed(d[0], start, end, &forward));
    REQUIRE_OK(acre_event_native_elapsed(d[0], end, start, &backward));
    EXPECT(forward >= 19.99 && forward < 60000);
    EXPECT(backward == -forward);
    REQUIRE_OK(acre_event_native_destroy(d[0], start));
    REQUIRE_OK(acre_event_native_destroy(d[0], end));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
}

DEVICE_TEST(D46_D48_elapsed_needs_two_complete_timing_events)
{
    struct door door = DOOR_INITIALIZER;
    void *stream = new_stream(d[0]), *plain = new_event(d[0], 0);
    void *timed = new_event(d[0], ACRE_EVENT_TIMING), *never = new_event(d[0], ACRE_EVENT_TIMING);
    void *pending = new_event(d[0], ACRE_EVENT_TIMING);
    double ms = 42;

    REQUIRE_OK(acre_event_native_record(d[0], timed, stream));
    REQUIRE_OK(acre_event_native_record(d[0], plain, stream));
    REQUIRE_OK(acre_stream_native_synchronize(d[0], stream));
    run(d[0], stream, door_pass, &door);
    REQUIRE_OK(acre_event_native_record(d[0], pending, stream));
    EXPECT_NE(acre_event_native_elapsed(d[0], timed, plain, &ms), ACRE_OK);
    EXPECT_NE(acre_event_native_elapsed(d[0], plain, timed, &ms), ACRE_OK);
    EXPECT_NE(acre_event_native_elapsed(d[0], timed, never, &ms), ACRE_OK);
    EXPECT_NE(acre_event_native_elapsed(d[0], never, timed, &ms), ACRE_OK);
    EXPECT_NE(acre_event_native_elapsed(d[0], never, never, &ms), ACRE_OK);
    BUSY(acre_event_native_elapsed(d[0], timed, pending, &ms));
    EXPECT(ms == 42);
    door_open(&door);
    REQUIRE_OK(acre_event_native_synchronize(d[0], pending));
    REQUIRE_OK(acre_event_native_elapsed(d[0], timed, pending, &ms));
    REQUIRE_OK(acre_event_native_destroy(d[0], plain));
    REQUIRE_OK(acre_event_native_destroy(d[0], timed));
    REQUIRE_OK(acre_event_native_destroy(d[0], never));
    REQUIRE_OK(acre_event_native_destroy(d[0], pending));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
}

struct order {
    int next, first, second;
};

static void take_first(void *arg)
{
    struct order *order = arg;

    order->first = __atomic_add_fetch(&order->next, 1, __ATOMIC_ACQ_REL);
}

static void take_second(void *arg)
{
    struct order *order = arg;

    order->second = __atomic_add_fetch(&order->next, 1, __ATOMIC_ACQ_REL);
}

/* The event may be destroyed as soon as everything that names it is queued. */
DEVICE_TEST(D49_D50_D51_streams_wait_for_events_of_any_device)
{
    for (int i = 0; i < 4; i++) {
        struct door door = DOOR_INITIALIZER;
        struct order order = {0, 0, 0};
        acre_device *other = d[i % 2];
        void *a = new_stream(d[0]), *b = new_stream(other), *event = new_event(d[0], i / 2);

        REQUIRE_OK(acre_stream_native_wait(other, b, event)); /* never recorded */
        REQUIRE_OK(acre_stream_native_synchronize(other, b));
        run(d[0], a, door_pass, &door);
        run(d[0], a, take_first, &order);
        REQUIRE_OK(acre_event_native_record(d[0], event, a));
        REQUIRE_OK(acre_stream_native_wait(other, b, event));
        run(other, b, take_second, &order);
        BUSY(acre_stream_native_query(other, b));
        REQUIRE_OK(acre_event_native_destroy(d[0], event));
        door_open(&door);
        REQUIRE_OK(acre_stream_native_synchronize(other, b));
        EXPECT_EQ(order.first, 1);
        EXPECT_EQ(order.second, 2);
        REQUIRE_OK(acre_stream_native_destroy(d[0], a));
        REQUIRE_OK(acre_stream_native_destroy(other, b));
    }
}

DEVICE_TEST(D52_synchronise_means_the_latest_record)
{
    struct door first = DOOR_INITIALIZER, second = DOOR_INITIALIZER;
    void *stream = new_stream(d[0]), *event = new_event(d[0], ACRE_EVENT_TIMING);
    pthread_t opener;

    run(d[0], stream, door_pass, &first);
    REQUIRE_OK(acre_event_native_record(d[0], event, stream));
    run(d[0], stream, door_pass, &second);
    REQUIRE_OK(acre_event_native_record(d[0], event, stream));
    door_open(&first);
    door_await(&second, 1);
    BUSY(acre_event_native_query(d[0], event));
    opener = door_open_later(&second);
    REQUIRE_OK(acre_event_native_synchronize(d[0], event));
    EXPECT_EQ(door_passed(&second), 1);
    pthread_join(opener, NULL);
    REQUIRE_OK(acre_event_native_destroy(d[0], event));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
}

DEVICE_TEST(D53_wait_then_record_on_one_stream_completes)
{
    struct door door = DOOR_INITIALIZER;
    void *stream = new_stream(d[0]), *event = new_event(d[0], 0);

    for (int round = 0; round < 3; round++) {
        door_close(&door);
        run(d[0], stream, door_pass, &door);
        REQUIRE_OK(acre_stream_native_wait(d[0], stream, event));
        REQUIRE_OK(acre_event_native_record(d[0], event, stream));
        REQUIRE_OK(acre_stream_native_wait(d[0], stream, event));
        door_open(&door);
        REQUIRE_OK(acre_stream_native_synchronize(d[0], stream));
    }
    REQUIRE_OK(acre_event_native_destroy(d[0], event));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
}

T_MAIN()
