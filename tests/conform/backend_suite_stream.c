/* SPDX-License-Identifier: MIT */
/* Streams, launches, values. */
#include "tests/conform/backend_suite.h"

#include <pthread.h>
#include <sched.h>

void suite_stream(void)
{
}

static void *stream_take(acre_device *device)
{
    void *stream;

    REQUIRE_OK(acre_stream_native_create(device, 0, suite_info(device).priority_least, &stream));
    return stream;
}

static void stream_put(acre_device *device, void *stream)
{
    EXPECT_OK(acre_stream_native_destroy(device, stream));
}

static void set_flag(void *flag)
{
    atomic_store((_Atomic int *)flag, 1);
}

TEST(streams_have_the_priority_they_were_made_with)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS);
    int least = suite_info(s.device).priority_least;
    int greatest = suite_info(s.device).priority_greatest;
    int step = least <= greatest ? 1 : -1, low = step > 0 ? least : greatest,
        high = step > 0 ? greatest : least;
    void *stream, *untouched = &s;

    for (int priority = least;; priority += step) {
        int got = 12345;

        REQUIRE_OK(acre_stream_native_create(s.device, ACRE_STREAM_NON_BLOCKING, priority,
                                             &stream));
        EXPECT_OK(acre_stream_native_priority(s.device, stream, &got));
        EXPECT_EQ(got, priority);
        stream_put(s.device, stream);
        if (priority == greatest)
            break;
    }
    EXPECT_EQ(acre_stream_native_create(s.device, 0, low - 1, &untouched), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_native_create(s.device, 0, high + 1, &untouched), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_stream_native_create(s.device, 0, least, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_stream_native_destroy(s.device, NULL), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(untouched, &s);
    suite_end(&s);
}

TEST(an_idle_stream_is_done)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS);
    void *stream = stream_take(s.device);

    EXPECT_OK(acre_stream_native_query(s.device, stream));
    EXPECT_OK(acre_stream_native_synchronize(s.device, stream));
    EXPECT_OK(acre_device_synchronize(s.device));
    stream_put(s.device, stream);
    suite_end(&s);
}

TEST(destroyed_and_foreign_streams_are_refused)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS);
    void *stream;
    int local = 0, priority;

    if (backend_suite.is_trusting) {
        suite_end(&s);
        T_SKIP("the driver does not recognise foreign handles");
    }
    stream = stream_take(s.device);
    stream_put(s.device, stream);
    EXPECT_REFUSED(acre_stream_native_query(s.device, stream));
    EXPECT_REFUSED(acre_stream_native_synchronize(s.device, stream));
    EXPECT_REFUSED(acre_stream_native_priority(s.device, stream, &priority));
    EXPECT_REFUSED(acre_stream_native_destroy(s.device, stream));
    EXPECT_REFUSED(acre_stream_native_query(s.device, &local));
    EXPECT_REFUSED(acre_stream_native_destroy(s.device, &local));
    suite_end(&s);
}

TEST(the_null_stream_is_the_default_or_refused)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS);

    if (s.flags & ACRE_BACKEND_NULL_STREAM) {
        EXPECT_OK(acre_stream_native_query(s.device, NULL));
        EXPECT_OK(acre_stream_native_synchronize(s.device, NULL));
    } else {
        EXPECT_REFUSED(acre_stream_native_query(s.device, NULL));
        EXPECT_REFUSED(acre_stream_native_synchronize(s.device, NULL));
    }
    suite_end(&s);
}

/* ---- Launches ------------------------------------------------------------------------ */

struct fold {
    uint64_t value;
    uint64_t digit;
};

static void fold_task(void *arg)
{
    struct fold *fold = arg;

    fold->value = fold->value * 31 + ++fold->digit;
}

TEST(tasks_of_a_stream_run_in_order)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS | ACRE_CAP_LAUNCH);
    void *stream = stream_take(s.device);
    struct fold got = {0}, want = {0};

    for (int i = 0; i < 1000; i++) {
        EXPECT_OK(acre_launch_host(s.device, stream, fold_task, &got));
        fold_task(&want);
    }
    EXPECT_OK(acre_stream_native_synchronize(s.device, stream));
    EXPECT_EQ(got.value, want.value);
    EXPECT_EQ(acre_launch_host(s.device, stream, NULL, &got), ACRE_ERR_INVALID);
    stream_put(s.device, stream);
    suite_end(&s);
}

TEST(a_running_task_makes_its_stream_busy)
{
    struct suite s = suite_begin(SUITE_QUEUES | ACRE_CAP_STREAMS | ACRE_CAP_LAUNCH);
    void *stream = stream_take(s.device);
    struct gate gate = {0};
    _Atomic int done = 0;

    EXPECT_OK(acre_launch_host(s.device, stream, gate_task, &gate));
    EXPECT_OK(acre_launch_host(s.device, stream, set_flag, &done));
    EXPECT_EQ(acre_stream_native_query(s.device, stream), ACRE_ERR_NOT_READY);
    gate_wait_reached(&gate);
    EXPECT_EQ(acre_stream_native_query(s.device, stream), ACRE_ERR_NOT_READY);
    EXPECT_EQ(done, 0);
    gate_open(&gate);
    EXPECT_OK(acre_stream_native_synchronize(s.device, stream));
    EXPECT_EQ(done, 1);
    EXPECT_OK(acre_stream_native_query(s.device, stream));
    stream_put(s.device, stream);
    suite_end(&s);
}

TEST(streams_do_not_hold_each_other_up)
{
    struct suite s = suite_begin(SUITE_QUEUES | ACRE_CAP_STREAMS | ACRE_CAP_LAUNCH);
    void *streams[9];
    struct gate gates[8] = {{0}};
    _Atomic int done = 0;

    for (int i = 0; i < 9; i++)
        streams[i] = stream_take(s.device);
    for (int i = 0; i < 8; i++)
        EXPECT_OK(acre_launch_host(s.device, streams[i], gate_task, &gates[i]));
    EXPECT_OK(acre_launch_host(s.device, streams[8], set_flag, &done));
    EXPECT_OK(acre_stream_native_synchronize(s.device, streams[8]));
    EXPECT_EQ(done, 1);
    for (int i = 0; i < 8; i++)
        gate_open(&gates[i]);
    EXPECT_OK(acre_device_synchronize(s.device));
    for (int i = 0; i < 9; i++) {
        EXPECT_OK(acre_stream_native_query(s.device, streams[i]));
        stream_put(s.device, streams[i]);
    }
    suite_end(&s);
}

TEST(destroying_a_stream_finishes_its_work)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS | ACRE_CAP_LAUNCH);
    void *stream = stream_take(s.device);
    struct fold fold = {0};

    for (int i = 0; i < 200; i++)
        EXPECT_OK(acre_launch_host(s.device, stream, fold_task, &fold));
    stream_put(s.device, stream);
    EXPECT_EQ(fold.digit, 200);
    suite_end(&s);
}

TEST(synchronizing_a_device_leaves_the_other_alone)
{
    struct suite s = suite_begin(SUITE_QUEUES | ACRE_CAP_STREAMS | ACRE_CAP_LAUNCH);
    struct gate gate = {0};
    void *mine, *others;
    _Atomic int done = 0;

    if (!s.second) {
        suite_end(&s);
        T_SKIP("needs two devices");
    }
    mine = stream_take(s.device);
    others = stream_take(s.second);
    EXPECT_OK(acre_launch_host(s.second, others, gate_task, &gate));
    EXPECT_OK(acre_launch_host(s.device, mine, set_flag, &done));
    EXPECT_OK(acre_device_synchronize(s.device));
    EXPECT_EQ(done, 1);
    EXPECT_EQ(acre_stream_native_query(s.second, others), ACRE_ERR_NOT_READY);
    gate_open(&gate);
    EXPECT_OK(acre_device_synchronize(s.second));
    EXPECT_OK(acre_stream_native_query(s.second, others));
    stream_put(s.device, mine);
    stream_put(s.second, others);
    suite_end(&s);
}

struct kernel_args {
    void *at;        /* device memory                   */
    void *beyond;    /* not memory of the device        */
    size_t bytes;
    unsigned char value;
    _Atomic int *ran;       /* 1: as expected; 2: not   */
};

static void fill_kernel(acre_kernel_context *context, void *args)
{
    struct kernel_args *a = args;
    unsigned char *at = acre_kernel_pointer(context, a->at, a->bytes);

    if (at)
        memset(at, a->value, a->bytes);
    atomic_store(a->ran, at && context->device == 0 ? 1 : 2);
}

TEST(kernels_get_a_copy_of_their_arguments)
{
    struct suite s = suite_begin(SUITE_QUEUES | ACRE_CAP_STREAMS | ACRE_CAP_LAUNCH | ACRE_CAP_COPY |
                                 ACRE_CAP_KERNELS);
    void *stream = stream_take(s.device);
    _Atomic int ran = 0;
    struct gate gate = {0};
    struct kernel_args args = {.bytes = 100, .value = 0x42, .ran = &ran};
    unsigned char host[100];

    REQUIRE_OK(acre_device_alloc(s.device, 100, &args.at));
    EXPECT_OK(acre_launch_host(s.device, stream, gate_task, &gate));
    EXPECT_OK(acre_launch_kernel(s.device, stream, fill_kernel, &args, sizeof args));
    args.value = 0;
    gate_open(&gate);
    EXPECT_OK(acre_stream_native_synchronize(s.device, stream));
    EXPECT_EQ(ran, !backend_suite.is_dry);
    EXPECT_OK(acre_copy(s.device, host, args.at, 100, ACRE_COPY_DEVICE_TO_HOST));
    if (!backend_suite.is_dry)
        EXPECT_EQ(host[99], 0x42);
    EXPECT_EQ(acre_launch_kernel(s.device, stream, NULL, NULL, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_launch_kernel(s.device, stream, fill_kernel, NULL, 8), ACRE_ERR_INVALID);
    stream_put(s.device, stream);
    EXPECT_OK(acre_device_free(s.device, args.at));
    suite_end(&s);
}

static void beyond_kernel(acre_kernel_context *context, void *args)
{
    struct kernel_args *a = args;
    int refused = !acre_kernel_pointer(context, a->beyond, a->bytes) &&
                  !acre_kernel_pointer(context, NULL, 1);

    atomic_store(a->ran, refused ? 1 : 2);
}

TEST(kernels_do_not_reach_past_their_memory)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS | ACRE_CAP_KERNELS);
    void *stream = stream_take(s.device);
    _Atomic int ran = 0;
    struct kernel_args args = {.bytes = 1 << 22, .ran = &ran};

    REQUIRE_OK(acre_device_alloc(s.device, 1 << 21, &args.beyond));
    EXPECT_OK(acre_launch_kernel(s.device, stream, beyond_kernel, &args, sizeof args));
    acre_stream_native_synchronize(s.device, stream);
    EXPECT_EQ(ran, !backend_suite.is_dry);
    stream_put(s.device, stream);
    EXPECT_OK(acre_device_free(s.device, args.beyond));
    suite_end(&s);
}

/* ---- Values --------------------------------------------------------------------------- */

TEST(values_are_waited_for)
{
    struct suite s = suite_begin(SUITE_QUEUES | ACRE_CAP_STREAMS | ACRE_CAP_VALUES |
                                 ACRE_CAP_LAUNCH);
    static const struct {
        acre_wait_condition condition;
        uint32_t value, not_yet, reached;
    } cases[] = {
        {ACRE_WAIT_GEQ, 5, 4, 6},          {ACRE_WAIT_EQ, 7, 8, 7},
        {ACRE_WAIT_AND, 0x10, 0x0f, 0x30}, {ACRE_WAIT_NOR, 0x0f, 0xfffffff0u, 0xefffffffu},
        {ACRE_WAIT_GEQ, 0, 0xffffffffu, 1}, /* the difference is signed */
    };
    void *waiter = stream_take(s.device), *writer = stream_take(s.device);
    void *address;

    if (backend_suite.is_dry) {
        stream_put(s.device, waiter);
        stream_put(s.device, writer);
        suite_end(&s);
        T_SKIP("a dry device keeps no values");
    }
    REQUIRE_OK(acre_device_alloc(s.device, 4096, &address));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        _Atomic int done = 0;

        EXPECT_OK(acre_write_value32(s.device, writer, address, cases[i].not_yet));
        EXPECT_OK(acre_stream_native_synchronize(s.device, writer));
        EXPECT_OK(acre_wait_value32(s.device, waiter, address, cases[i].value,
                                    cases[i].condition));
        EXPECT_OK(acre_launch_host(s.device, waiter, set_flag, &done));
        for (int spin = 0; spin < 50; spin++)
            sched_yield();
        EXPECT_EQ(done, 0);
        EXPECT_EQ(acre_stream_native_query(s.device, waiter), ACRE_ERR_NOT_READY);
        EXPECT_OK(acre_write_value32(s.device, writer, address, cases[i].reached));
        EXPECT_OK(acre_stream_native_synchronize(s.device, waiter));
        EXPECT_EQ(done, 1);
    }
    EXPECT_EQ(acre_write_value32(s.device, writer, (char *)address + 2, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_wait_value32(s.device, writer, NULL, 1, ACRE_WAIT_EQ), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_wait_value32(s.device, writer, address, 1, (acre_wait_condition)9),
              ACRE_ERR_INVALID);
    stream_put(s.device, waiter);
    stream_put(s.device, writer);
    EXPECT_OK(acre_device_free(s.device, address));
    suite_end(&s);
}

/* ---- Threads --------------------------------------------------------------------------- */

static void count_task(void *count)
{
    atomic_fetch_add((_Atomic int *)count, 1);
}

struct submitter {
    acre_device *device;
    void *stream;
    _Atomic int *count;
};

static void *submit(void *arg)
{
    struct submitter *s = arg;

    for (int i = 0; i < 250; i++)
        EXPECT_OK(acre_launch_host(s->device, s->stream, count_task, s->count));
    EXPECT_OK(acre_stream_native_synchronize(s->device, s->stream));
    return NULL;
}

TEST(threads_submit_to_one_stream)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS | ACRE_CAP_LAUNCH);
    _Atomic int count = 0;
    struct submitter submitter = {s.device, stream_take(s.device), &count};
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, submit, &submitter), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(count, 1000);
    stream_put(s.device, submitter.stream);
    suite_end(&s);
}
