/* SPDX-License-Identifier: MIT */
/* D43 to D54: events. */
#include "tests/openreg/support.h"

TEST(D43_a_new_event_is_complete)
{
    orEvent_t event = NULL;

    OK(orEventCreate(&event));
    OK(orEventQuery(event));
    OK(orEventSynchronize(event));
    OK(orEventDestroy(event));
    REFUSED(orEventCreate(NULL));
    REFUSED(orEventCreateWithFlags(NULL, 0));
    REFUSED(orEventQuery(NULL));
    REFUSED(orEventSynchronize(NULL));
    REFUSED(orEventDestroy(NULL));
    REFUSED(orEventQuery(event));
    REFUSED(orEventSynchronize(event));
    REFUSED(orEventDestroy(event));
}

TEST(D44_a_recorded_event_completes_with_the_work_before_it)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t stream = new_stream(0);
    orEvent_t event = new_event(0, 0);
    pthread_t opener;

    OK(orLaunchHostFunc(stream, door_pass, &door));
    OK(orEventRecord(event, stream));
    BUSY(orEventQuery(event));
    opener = door_open_later(&door);
    OK(orEventSynchronize(event));
    EXPECT_EQ(door_passed(&door), 1);
    OK(orEventQuery(event));
    pthread_join(opener, NULL);
    OK(orEventDestroy(event));
    OK(orStreamDestroy(stream));
}

TEST(D45_recording_on_another_device_is_refused)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t mine = new_stream(0), other = new_stream(1);
    orEvent_t event = new_event(0, 0);

    OK(orLaunchHostFunc(other, door_pass, &door));
    REFUSED(orEventRecord(event, other));
    OK(orEventQuery(event));
    OK(orLaunchHostFunc(mine, door_pass, &door));
    OK(orEventRecord(event, mine));
    REFUSED(orEventRecord(event, other));
    BUSY(orEventQuery(event));
    door_open(&door);
    OK(orEventSynchronize(event));
    REFUSED(orEventRecord(NULL, mine));
    REFUSED(orEventRecord(event, NULL));
    OK(orStreamDestroy(mine));
    OK(orStreamDestroy(other));
    OK(orEventDestroy(event));
}

TEST(D46_elapsed_needs_two_complete_timing_events_of_one_device)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t streams[2] = {new_stream(0), new_stream(1)};
    orEvent_t timed = new_event(0, orEventEnableTiming), plain = new_event(0, 0);
    orEvent_t pending = new_event(0, orEventEnableTiming);
    orEvent_t other = new_event(1, orEventEnableTiming);
    float ms = 42;

    OK(orEventRecord(timed, streams[0]));
    OK(orEventRecord(plain, streams[0]));
    OK(orEventRecord(other, streams[1]));
    OK(orStreamSynchronize(streams[0]));
    OK(orStreamSynchronize(streams[1]));
    OK(orLaunchHostFunc(streams[0], door_pass, &door));
    OK(orEventRecord(pending, streams[0]));
    REFUSED(orEventElapsedTime(&ms, timed, plain));
    REFUSED(orEventElapsedTime(&ms, plain, timed));
    REFUSED(orEventElapsedTime(&ms, timed, other));
    REFUSED(orEventElapsedTime(&ms, other, timed));
    REFUSED(orEventElapsedTime(&ms, timed, pending));
    REFUSED(orEventElapsedTime(&ms, pending, timed));
    REFUSED(orEventElapsedTime(NULL, timed, timed));
    REFUSED(orEventElapsedTime(&ms, NULL, timed));
    REFUSED(orEventElapsedTime(&ms, timed, NULL));
    EXPECT(ms == 42);
    door_open(&door);
    OK(orEventSynchronize(pending));
    OK(orEventElapsedTime(&ms, timed, pending));
    OK(orEventElapsedTime(&ms, timed, timed));
    EXPECT(ms == 0);
    OK(orEventDestroy(timed));
    OK(orEventDestroy(plain));
    OK(orEventDestroy(pending));
    OK(orEventDestroy(other));
    OK(orStreamDestroy(streams[0]));
    OK(orStreamDestroy(streams[1]));
}

static void sleep_20_ms(void *arg)
{
    (void)arg;
    usleep(20000);
}

/* A sleep may take longer, never less. */
TEST(D47_elapsed_is_the_time_between)
{
    orStream_t stream = new_stream(0);
    orEvent_t start = new_event(0, 1), end = new_event(0, 1);
    float forward = 0, backward = 0;

    OK(orEventRecord(start, stream));
    OK(orLaunchHostFunc(stream, sleep_20_ms, NULL));
    OK(orEventRecord(end, stream));
    OK(orEventSynchronize(end));
    OK(orEventElapsedTime(&forward, start, end));
    OK(orEventElapsedTime(&backward, end, start));
    EXPECT(forward >= 19.99f);
    EXPECT(forward < 60000);
    EXPECT(backward == -forward);
    OK(orEventDestroy(start));
    OK(orEventDestroy(end));
    OK(orStreamDestroy(stream));
}

TEST(D48_elapsed_with_a_never_recorded_event_is_refused)
{
    orStream_t stream = new_stream(0);
    orEvent_t recorded = new_event(0, 1), never = new_event(0, 1), also = new_event(0, 1);
    float ms = 42;

    OK(orEventRecord(recorded, stream));
    OK(orEventSynchronize(recorded));
    REFUSED(orEventElapsedTime(&ms, recorded, never));
    REFUSED(orEventElapsedTime(&ms, never, recorded));
    REFUSED(orEventElapsedTime(&ms, never, also));
    EXPECT(ms == 42);
    OK(orEventDestroy(recorded));
    OK(orEventDestroy(never));
    OK(orEventDestroy(also));
    OK(orStreamDestroy(stream));
}

struct order {
    int next, first, second;
};

static void take_first(void *arg)
{
    struct order *order = (struct order *)arg;

    order->first = __atomic_add_fetch(&order->next, 1, __ATOMIC_ACQ_REL);
}

static void take_second(void *arg)
{
    struct order *order = (struct order *)arg;

    order->second = __atomic_add_fetch(&order->next, 1, __ATOMIC_ACQ_REL);
}

TEST(D49_a_waiting_stream_goes_on_after_the_record)
{
    for (int device = 0; device < 2; device++) {
        struct door door = DOOR_INITIALIZER;
        struct order order = {0, 0, 0};
        orStream_t a = new_stream(0), b = new_stream(device);
        orEvent_t event = new_event(0, 0);

        OK(orLaunchHostFunc(a, door_pass, &door));
        OK(orLaunchHostFunc(a, take_first, &order));
        OK(orEventRecord(event, a));
        OK(orStreamWaitEvent(b, event, 7));
        OK(orLaunchHostFunc(b, take_second, &order));
        BUSY(orStreamQuery(b));
        door_open(&door);
        OK(orStreamSynchronize(b));
        EXPECT_EQ(order.first, 1);
        EXPECT_EQ(order.second, 2);
        REFUSED(orStreamWaitEvent(NULL, event, 0));
        REFUSED(orStreamWaitEvent(a, NULL, 0));
        OK(orStreamDestroy(a));
        OK(orStreamDestroy(b));
        OK(orEventDestroy(event));
    }
}

TEST(D50_waiting_for_a_never_recorded_event_does_not_block)
{
    orStream_t stream = new_stream(0);
    orEvent_t event = new_event(0, 0), other = new_event(1, 0);
    int number = 0;

    OK(orStreamWaitEvent(stream, event, 0));
    OK(orStreamWaitEvent(stream, other, 0));
    OK(orLaunchHostFunc(stream, count_task, &number));
    OK(orStreamSynchronize(stream));
    EXPECT_EQ(number_at(&number), 1);
    OK(orEventDestroy(event));
    OK(orEventDestroy(other));
    OK(orStreamDestroy(stream));
}

TEST(D51_an_event_may_go_while_work_waits_for_it)
{
    struct door door = DOOR_INITIALIZER;
    struct order order = {0, 0, 0};
    orStream_t a = new_stream(0), b = new_stream(0);
    orEvent_t event = new_event(0, 1);

    OK(orLaunchHostFunc(a, door_pass, &door));
    OK(orLaunchHostFunc(a, take_first, &order));
    OK(orEventRecord(event, a));
    OK(orStreamWaitEvent(b, event, 0));
    OK(orLaunchHostFunc(b, take_second, &order));
    OK(orEventDestroy(event));
    door_open(&door);
    OK(orStreamSynchronize(b));
    EXPECT_EQ(order.first, 1);
    EXPECT_EQ(order.second, 2);
    OK(orStreamDestroy(a));
    OK(orStreamDestroy(b));
}

TEST(D52_synchronise_means_the_latest_record)
{
    struct door first = DOOR_INITIALIZER, second = DOOR_INITIALIZER;
    orStream_t stream = new_stream(0);
    orEvent_t event = new_event(0, 1);
    pthread_t opener;

    OK(orLaunchHostFunc(stream, door_pass, &first));
    OK(orEventRecord(event, stream));
    OK(orLaunchHostFunc(stream, door_pass, &second));
    OK(orEventRecord(event, stream));
    door_open(&first);
    door_await(&second, 1); /* the first record is behind us */
    BUSY(orEventQuery(event));
    opener = door_open_later(&second);
    OK(orEventSynchronize(event));
    EXPECT_EQ(door_passed(&second), 1);
    OK(orEventQuery(event));
    pthread_join(opener, NULL);
    OK(orEventDestroy(event));
    OK(orStreamDestroy(stream));
}

TEST(D52_a_wait_means_the_record_before_it)
{
    struct door door_a = DOOR_INITIALIZER, door_b = DOOR_INITIALIZER;
    orStream_t a = new_stream(0), b = new_stream(0);
    orEvent_t event = new_event(0, 0);

    OK(orEventRecord(event, a));
    OK(orStreamSynchronize(a));
    OK(orLaunchHostFunc(b, door_pass, &door_b));
    OK(orStreamWaitEvent(b, event, 0));
    OK(orLaunchHostFunc(a, door_pass, &door_a));
    OK(orEventRecord(event, a)); /* behind a closed door, and none of b's business */
    door_open(&door_b);
    OK(orStreamSynchronize(b));
    EXPECT_EQ(door_passed(&door_a), 0);
    door_open(&door_a);
    OK(orEventSynchronize(event));
    OK(orStreamDestroy(a));
    OK(orStreamDestroy(b));
    OK(orEventDestroy(event));
}

TEST(D53_wait_then_record_on_one_stream_completes)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t stream = new_stream(0);
    orEvent_t event = new_event(0, 0);
    int number = 0;

    for (int round = 0; round < 3; round++) {
        door_close(&door);
        OK(orLaunchHostFunc(stream, door_pass, &door));
        OK(orStreamWaitEvent(stream, event, 0));
        OK(orEventRecord(event, stream));
        OK(orStreamWaitEvent(stream, event, 0));
        OK(orLaunchHostFunc(stream, count_task, &number));
        door_open(&door);
        OK(orStreamSynchronize(stream));
        OK(orEventQuery(event));
    }
    EXPECT_EQ(number_at(&number), 3);
    OK(orEventDestroy(event));
    OK(orStreamDestroy(stream));
}

TEST(D54_only_bit_0_of_the_flags_counts)
{
    static const unsigned flags[] = {0, 2, 0xfffffffeu, 1, 3, 0xffffffffu};
    orStream_t stream = new_stream(0);

    for (int i = 0; i < 6; i++) {
        orEvent_t event = new_event(0, flags[i]);
        float ms = 1;

        OK(orEventRecord(event, stream));
        OK(orEventSynchronize(event));
        EXPECT_EQ(orEventElapsedTime(&ms, event, event),
                  flags[i] & 1 ? orSuccess : orErrorUnknown);
        OK(orEventDestroy(event));
    }
    OK(orStreamDestroy(stream));
}
