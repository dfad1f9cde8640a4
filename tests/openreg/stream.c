/* SPDX-License-Identifier: MIT */
/* D30 to D42: streams. */
#include "tests/openreg/support.h"

TEST(D30_creation_checks_priority_and_nothing_else)
{
    static const unsigned flags[] = {0, 1, 0x80000000u, ~0u};
    orStream_t stream = NULL;

    for (int i = 0; i < 8; i++) {
        OK(orStreamCreateWithPriority(&stream, flags[i / 2], i % 2));
        OK(orStreamDestroy(stream));
    }
    stream = NULL;
    REFUSED(orStreamCreateWithPriority(&stream, 0, -1));
    REFUSED(orStreamCreateWithPriority(&stream, 0, 2));
    EXPECT_PTR_EQ(stream, NULL);
    REFUSED(orStreamCreateWithPriority(NULL, 0, 0));
    REFUSED(orStreamCreate(NULL));
}

TEST(D31_a_stream_knows_its_priority)
{
    orStream_t stream = NULL;
    int priority = -1;

    for (int given = 0; given < 2; given++) {
        OK(orStreamCreateWithPriority(&stream, 0, given));
        OK(orStreamGetPriority(stream, &priority));
        EXPECT_EQ(priority, given);
        REFUSED(orStreamGetPriority(stream, NULL));
        REFUSED(orStreamGetPriority(NULL, &priority));
        EXPECT_EQ(priority, given);
        OK(orStreamDestroy(stream));
    }
    OK(orStreamCreate(&stream));
    OK(orStreamGetPriority(stream, &priority));
    EXPECT_EQ(priority, 0);
    OK(orStreamDestroy(stream));
}

struct fold {
    uint64_t *sum;
    uint64_t step;
};

static void fold_task(void *arg)
{
    struct fold *fold = (struct fold *)arg;

    *fold->sum = *fold->sum * 31 + fold->step;
}

TEST(D32_tasks_run_in_order)
{
    enum { N = 3000 };
    static struct fold folds[N];
    orStream_t stream = new_stream(0);
    uint64_t sum = 1, expected = 1;

    for (int i = 0; i < N; i++) {
        folds[i].sum = &sum;
        folds[i].step = (uint64_t)i;
        expected = expected * 31 + (uint64_t)i;
        OK(orLaunchHostFunc(stream, fold_task, &folds[i]));
    }
    OK(orStreamSynchronize(stream));
    EXPECT(sum == expected);
    OK(orStreamDestroy(stream));
}

TEST(D33_streams_overlap)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t a = new_stream(0), b = new_stream(0);

    OK(orLaunchHostFunc(a, door_pass, &door));
    OK(orLaunchHostFunc(b, door_open, &door));
    OK(orStreamSynchronize(a));
    EXPECT_EQ(door_passed(&door), 1);
    OK(orStreamDestroy(a));
    OK(orStreamDestroy(b));
}

/* A stream with work gets a thread even when all others block. */
TEST(D33_many_blocked_streams_do_not_stop_another)
{
    enum { N = 100 };
    struct door door = DOOR_INITIALIZER;
    orStream_t streams[N], last;

    for (int i = 0; i < N; i++) {
        streams[i] = new_stream(i % 2);
        OK(orLaunchHostFunc(streams[i], door_pass, &door));
    }
    last = new_stream(0);
    OK(orLaunchHostFunc(last, door_open, &door));
    for (int i = 0; i < N; i++)
        OK(orStreamDestroy(streams[i]));
    EXPECT_EQ(door_passed(&door), N);
    OK(orStreamDestroy(last));
}

TEST(D34_a_null_stream_takes_no_work)
{
    orStream_t stream = new_stream(0);
    int number = 0;

    REFUSED(orLaunchHostFunc(NULL, count_task, &number));
    REFUSED(orLaunchHostFunc(stream, NULL, &number));
    OK(orStreamDestroy(stream));
    EXPECT_EQ(number_at(&number), 0);
}

TEST(D35_synchronise_waits_for_all_that_was_queued)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t stream = new_stream(0);
    pthread_t opener;
    int number = 0;

    OK(orLaunchHostFunc(stream, door_pass, &door));
    for (int i = 0; i < 100; i++)
        OK(orLaunchHostFunc(stream, count_task, &number));
    opener = door_open_later(&door);
    OK(orStreamSynchronize(stream));
    EXPECT_EQ(number_at(&number), 100);
    pthread_join(opener, NULL);
    REFUSED(orStreamSynchronize(NULL));
    OK(orStreamDestroy(stream));
}

TEST(D36_synchronise_waits_whichever_device_is_current)
{
    struct door door = DOOR_INITIALIZER;
    pthread_t opener;

    for (int device = 0; device < 2; device++) {
        orStream_t stream = new_stream(device);
        int number = 0;

        door_close(&door);
        OK(orSetDevice(1 - device));
        OK(orLaunchHostFunc(stream, door_pass, &door));
        OK(orLaunchHostFunc(stream, count_task, &number));
        opener = door_open_later(&door);
        OK(orStreamSynchronize(stream));
        EXPECT_EQ(number_at(&number), 1);
        pthread_join(opener, NULL);
        OK(orStreamDestroy(stream));
        OK(orSetDevice(0));
    }
}

TEST(D37_query_tells_queued_work)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t stream = new_stream(0);
    int number = 0;

    OK(orStreamQuery(stream));
    OK(orLaunchHostFunc(stream, door_pass, &door));
    for (int i = 0; i < 3; i++)
        OK(orLaunchHostFunc(stream, count_task, &number));
    BUSY(orStreamQuery(stream));
    door_open(&door);
    OK(orStreamSynchronize(stream));
    OK(orStreamQuery(stream));
    REFUSED(orStreamQuery(NULL));
    OK(orStreamDestroy(stream));
}

TEST(D38_query_tells_running_work)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t stream = new_stream(0);

    OK(orLaunchHostFunc(stream, door_pass, &door));
    door_await(&door, 1); /* the only task runs now, nothing is queued */
    BUSY(orStreamQuery(stream));
    door_open(&door);
    OK(orStreamSynchronize(stream));
    OK(orStreamQuery(stream));
    OK(orStreamDestroy(stream));
}

TEST(D39_destroy_runs_what_is_queued)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t stream = new_stream(0);
    pthread_t opener;
    int number = 0;

    OK(orLaunchHostFunc(stream, door_pass, &door));
    for (int i = 0; i < 50; i++)
        OK(orLaunchHostFunc(stream, count_task, &number));
    opener = door_open_later(&door);
    OK(orStreamDestroy(stream));
    EXPECT_EQ(number_at(&number), 50);
    pthread_join(opener, NULL);
    REFUSED(orStreamDestroy(NULL));
}

TEST(D39_a_destroyed_stream_is_refused_everywhere)
{
    orStream_t stream = new_stream(0), again;
    orEvent_t event = new_event(0, 0);
    void *block = device_block(8, 0);
    char host[8] = {0};
    int number = 0;

    OK(orStreamDestroy(stream));
    again = new_stream(0); /* may not be mistaken for it */
    REFUSED(orStreamDestroy(stream));
    REFUSED(orStreamQuery(stream));
    REFUSED(orStreamSynchronize(stream));
    REFUSED(orStreamGetPriority(stream, &number));
    REFUSED(orStreamWaitEvent(stream, event, 0));
    REFUSED(orEventRecord(event, stream));
    REFUSED(orLaunchHostFunc(stream, count_task, &number));
    REFUSED(orMemcpyAsync(block, host, 8, orMemcpyHostToDevice, stream));
    REFUSED(orStreamQuery((orStream_t)event));
    REFUSED(orStreamQuery((orStream_t)&number));
    EXPECT_EQ(number, 0);
    OK(orStreamDestroy(again));
    OK(orEventDestroy(event));
    OK(orFree(block));
}

struct own {
    orStream_t stream;
    orError_t destroyed, waited, device_waited;
};

static void harm_own_stream(void *arg)
{
    struct own *own = (struct own *)arg;

    own->destroyed = orStreamDestroy(own->stream);
    own->waited = orStreamSynchronize(own->stream);
    own->device_waited = orDeviceSynchronize();
}

/* OpenReg forbids these to a task; here they are refused instead of hanging. */
TEST(D39_a_task_may_not_end_or_await_its_own_stream)
{
    struct own own = {NULL, orSuccess, orSuccess, orSuccess};

    own.stream = new_stream(0);
    OK(orLaunchHostFunc(own.stream, harm_own_stream, &own));
    OK(orStreamSynchronize(own.stream));
    EXPECT_EQ(own.destroyed, orErrorUnknown);
    EXPECT_EQ(own.waited, orErrorUnknown);
    EXPECT_EQ(own.device_waited, orErrorUnknown);
    OK(orStreamDestroy(own.stream));
}

TEST(D40_device_synchronise_waits_for_its_own_streams_only)
{
    struct door mine = DOOR_INITIALIZER, other = DOOR_INITIALIZER;
    orStream_t streams[3] = {new_stream(0), new_stream(0), new_stream(1)};
    pthread_t opener;

    OK(orLaunchHostFunc(streams[0], door_pass, &mine));
    OK(orLaunchHostFunc(streams[1], door_pass, &mine));
    OK(orLaunchHostFunc(streams[2], door_pass, &other));
    opener = door_open_later(&mine);
    OK(orDeviceSynchronize()); /* the other device stays blocked meanwhile */
    EXPECT_EQ(door_passed(&mine), 2);
    EXPECT_EQ(door_passed(&other), 0);
    BUSY(orStreamQuery(streams[2]));
    pthread_join(opener, NULL);
    opener = door_open_later(&other);
    OK(orSetDevice(1));
    OK(orDeviceSynchronize());
    OK(orSetDevice(0));
    EXPECT_EQ(door_passed(&other), 1);
    pthread_join(opener, NULL);
    for (int i = 0; i < 3; i++)
        OK(orStreamDestroy(streams[i]));
    OK(orDeviceSynchronize());
}

TEST(D41_async_copies_keep_the_arguments_they_were_given)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t stream = new_stream(0);
    void *first = device_block(64, 1), *second = device_block(64, 2), *dst = first;
    char from[64], back[64] = {0};
    size_t count = 64;

    memset(from, 9, sizeof from);
    OK(orLaunchHostFunc(stream, door_pass, &door));
    OK(orMemcpyAsync(dst, from, count, orMemcpyHostToDevice, stream));
    OK(orMemcpyAsync(back, dst, count, orMemcpyDeviceToHost, stream));
    dst = second;
    count = 1;
    EXPECT_EQ(back[0], 0);
    door_open(&door);
    OK(orStreamSynchronize(stream));
    EXPECT(block_is(first, 64, 9));
    EXPECT(block_is(second, 64, 2));
    EXPECT_EQ(back[63], 9);
    EXPECT_EQ(count, 1);
    EXPECT_PTR_EQ(dst, second);
    OK(orFree(first));
    OK(orFree(second));
    OK(orStreamDestroy(stream));
}

TEST(D41_async_copies_between_devices)
{
    orStream_t stream = new_stream(0);
    void *first = device_block(5000, 1), *second = NULL;

    OK(orSetDevice(1));
    OK(orMalloc(&second, 5000));
    OK(orSetDevice(0));
    OK(orMemcpyAsync(second, first, 5000, orMemcpyDeviceToDevice, stream));
    OK(orStreamSynchronize(stream));
    EXPECT(block_is(second, 5000, 1));
    EXPECT(read_faults(first));
    OK(orFree(first));
    OK(orFree(second));
    OK(orStreamDestroy(stream));
}

/* Queued without a word, told once, and later work is not held up. */
static void expect_told_once(orStream_t stream, void *dst, const void *src, size_t count,
                             int kind_number)
{
    orMemcpyKind kind;
    int number = 0;

    memcpy(&kind, &kind_number, sizeof kind);
    OK(orMemcpyAsync(dst, src, count, kind, stream));
    OK(orLaunchHostFunc(stream, count_task, &number));
    REFUSED(orStreamSynchronize(stream));
    EXPECT_EQ(number_at(&number), 1);
    OK(orStreamSynchronize(stream));
}

TEST(D42_failed_async_copies_are_told_at_synchronise)
{
    orStream_t stream = new_stream(0);
    void *block = device_block(64, 1);
    char host[64] = {0};

    REFUSED(orMemcpyAsync(block, host, 64, orMemcpyHostToDevice, NULL));
    expect_told_once(stream, block, host, 64, orMemcpyDeviceToHost);
    expect_told_once(stream, block, host, 0, orMemcpyHostToDevice);
    expect_told_once(stream, NULL, host, 64, orMemcpyHostToDevice);
    expect_told_once(stream, block, NULL, 64, orMemcpyHostToDevice);
    expect_told_once(stream, block, host, 1 << 20, orMemcpyHostToDevice);
#ifndef __cplusplus /* where a value that the type has not cannot be passed */
    expect_told_once(stream, block, host, 64, 7);
#endif
    EXPECT(block_is(block, 64, 1));
    OK(orMemcpyAsync(block, host, 64, orMemcpyDeviceToHost, stream));
    REFUSED(orDeviceSynchronize());
    OK(orDeviceSynchronize());
    OK(orFree(block));
    OK(orStreamDestroy(stream));
}
