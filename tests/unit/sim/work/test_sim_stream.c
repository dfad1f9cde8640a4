/* SPDX-License-Identifier: MIT */
/* Streams of the reference device: order, threads, waiting, misuse. */
#include "sim/work/sim_stream.h"

#include "tests/support/sim_rig.h"

#include <acre/device.h>

#include <stdatomic.h>
#include <unistd.h>

/* ---- Order ------------------------------------------------------------------------ */

struct step {
    uint64_t *value;
    uint64_t add;
};

/* Does not commute: the result tells the order. */
static void fold(void *arg)
{
    struct step *step = arg;

    *step->value = *step->value * 3 + step->add;
}

TEST(D32_tasks_of_a_stream_run_in_order)
{
    enum { COUNT = 500 };
    static struct step steps[COUNT];
    uint64_t value = 1, expected = 1;

    rig_open(NULL);
    void *stream = rig_stream(0);
    for (int i = 0; i < COUNT; i++) {
        steps[i] = (struct step){&value, (uint64_t)i};
        expected = expected * 3 + (uint64_t)i;
        REQUIRE_OK(OP(launch_host, 0, stream, fold, &steps[i]));
    }
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    EXPECT_EQ(value, expected);
    EXPECT_OK(OP(stream_destroy, 0, stream));
    rig_close();
}

TEST(D33_a_task_on_one_stream_releases_one_on_another)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;

    rig_open(NULL);
    void *a = rig_stream(0), *b = rig_stream(0);
    REQUIRE_OK(OP(launch_host, 0, a, rig_gate_task, &gate));
    rig_gate_await(&gate, 1);
    REQUIRE_OK(OP(launch_host, 0, b, (void (*)(void *))rig_gate_open, &gate));
    EXPECT_OK(OP(stream_synchronize, 0, a));
    EXPECT_OK(OP(stream_synchronize, 0, b));
    rig_close();
}

static void count_up(void *arg)
{
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

/* ---- Creating ---------------------------------------------------------------------- */

TEST(D30_priorities_in_range_are_accepted)
{
    void *stream = NULL;

    rig_open(NULL);
    EXPECT_STATUS(OP(stream_create, 0, 0, -1, &stream), ACRE_ERR_RANGE);
    EXPECT_STATUS(OP(stream_create, 0, 0, 2, &stream), ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "2");
    EXPECT_STATUS(OP(stream_create, 0, 0, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(stream_create, 2, 0, 0, &stream), ACRE_ERR_RANGE);
    EXPECT_STATUS(OP(stream_create, -1, 0, 0, &stream), ACRE_ERR_RANGE);
    EXPECT(!stream);
    EXPECT_OK(OP(stream_create, 0, 0xffffffffu, 0, &stream));
    EXPECT_OK(OP(stream_create, 1, ACRE_STREAM_NON_BLOCKING, 1, &stream));
    EXPECT_EQ(rig_usage().stream_count, 2);
    rig_close();
}

TEST(D31_the_priority_given_is_the_priority_told)
{
    rig_open(NULL);
    for (int priority = 0; priority <= 1; priority++) {
        void *stream;
        int told = -7;

        REQUIRE_OK(OP(stream_create, 0, 0, priority, &stream));
        EXPECT_OK(OP(stream_priority, 0, stream, &told));
        EXPECT_EQ(told, priority);
        EXPECT_STATUS(OP(stream_priority, 0, stream, NULL), ACRE_ERR_INVALID);
    }
    rig_close();
}

TEST(a_null_stream_is_the_default_stream_of_the_device)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    uint64_t value = 0;
    struct step steps[2] = {{&value, 1}, {&value, 2}};

    rig_open(NULL);
    REQUIRE_OK(OP(launch_host, 0, NULL, rig_gate_task, &gate));
    REQUIRE_OK(OP(launch_host, 0, NULL, fold, &steps[0]));
    REQUIRE_OK(OP(launch_host, 0, NULL, fold, &steps[1]));
    EXPECT_STATUS(OP(stream_query, 0, NULL), ACRE_ERR_NOT_READY);
    EXPECT_OK(OP(stream_query, 1, NULL)); /* another one */
    EXPECT_EQ(rig_usage().stream_count, 0);
    EXPECT_STATUS(OP(stream_destroy, 0, NULL), ACRE_ERR_INVALID);
    rig_gate_open(&gate);
    EXPECT_OK(OP(stream_synchronize, 0, NULL));
    EXPECT_EQ(value, 5);
    rig_close();
}

/* ---- Asking and waiting --------------------------------------------------------------- */

TEST(D35_synchronize_returns_after_all_tasks)
{
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *stream = rig_stream(0);
    for (int i = 0; i < 200; i++) {
        REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
        if (i % 20 == 0) {
            REQUIRE_OK(OP(stream_synchronize, 0, stream));
            EXPECT_EQ(atomic_load(&ran), i + 1);
        }
    }
    rig_close();
}

TEST(D36_synchronize_waits_whatever_device_is_current)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *stream = rig_stream(0), *other = rig_stream(1);
    REQUIRE_OK(OP(launch_host, 0, stream, rig_gate_task, &gate));
    REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
    REQUIRE_OK(OP(launch_host, 1, other, (void (*)(void *))rig_gate_open, &gate));
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    EXPECT_EQ(atomic_load(&ran), 1);
    rig_close();
}

TEST(D37_D38_query_counts_queued_and_running_tasks)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *stream = rig_stream(0);
    EXPECT_OK(OP(stream_query, 0, stream));
    REQUIRE_OK(OP(launch_host, 0, stream, rig_gate_task, &gate));
    rig_gate_await(&gate, 1); /* runs, nothing else is queued */
    EXPECT_STATUS(OP(stream_query, 0, stream), ACRE_ERR_NOT_READY);
    REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
    EXPECT_STATUS(OP(stream_query, 0, stream), ACRE_ERR_NOT_READY);
    rig_gate_open(&gate);
    REQUIRE_OK(OP(stream_synchronize, 0, stream));
    EXPECT_OK(OP(stream_query, 0, stream));
    rig_close();
}

TEST(D39_destroy_runs_what_is_queued)
{
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *stream = rig_stream(0);
    for (int i = 0; i < 300; i++)
        REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
    EXPECT_OK(OP(stream_destroy, 0, stream));
    EXPECT_EQ(atomic_load(&ran), 300);
    rig_close();
}

TEST(D40_D77_device_synchronize_waits_for_that_device_only)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    EXPECT_OK(OP(device_synchronize, 1)); /* without streams */
    void *blocked = rig_stream(0);
    void *streams[3] = {rig_stream(1), rig_stream(1), rig_stream(1)};
    REQUIRE_OK(OP(launch_host, 0, blocked, rig_gate_task, &gate));
    rig_gate_await(&gate, 1);
    for (int i = 0; i < 30; i++)
        REQUIRE_OK(OP(launch_host, 1, streams[i % 3], count_up, &ran));
    EXPECT_OK(OP(device_synchronize, 1));
    EXPECT_EQ(atomic_load(&ran), 30);
    EXPECT_STATUS(OP(stream_query, 0, blocked), ACRE_ERR_NOT_READY);
    rig_gate_open(&gate);
    rig_close();
}

static void *churn(void *arg)
{
    _Atomic uint64_t *ran = arg;

    for (int i = 0; i < 200; i++) {
        void *stream = NULL;

        if (OP(stream_create, 0, 0, i % 2, &stream) != ACRE_OK ||
            OP(launch_host, 0, stream, count_up, ran) != ACRE_OK ||
            OP(stream_destroy, 0, stream) != ACRE_OK)
            t_fail(__FILE__, __LINE__, "%s", acre_last_error());
    }
    return NULL;
}

TEST(device_synchronize_is_safe_against_destroy)
{
    _Atomic uint64_t ran = 0;
    pthread_t threads[3];

    rig_open(NULL);
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, churn, &ran), 0);
    for (int i = 0; i < 300; i++)
        EXPECT_OK(OP(device_synchronize, 0));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(atomic_load(&ran), 600);
    EXPECT_EQ(rig_usage().stream_count, 0);
    rig_close();
}

TEST(D42_a_failed_task_is_reported_once_by_the_next_synchronize)
{
    char host[16];

    rig_open(NULL);
    void *a = rig_stream(0), *b = rig_stream(0);
    EXPECT_OK(OP(copy_async, 0, host, host, 0, ACRE_COPY_HOST_TO_HOST, a));
    EXPECT_OK(OP(copy_async, 0, host, host, 1, (acre_copy_kind)9, a));
    EXPECT_OK(OP(copy_async, 0, host, NULL, 4, ACRE_COPY_HOST_TO_HOST, b));
    EXPECT_STATUS(OP(stream_synchronize, 0, a), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "0 bytes"); /* the first of the two */
    EXPECT_OK(OP(stream_synchronize, 0, a));
    EXPECT_STATUS(OP(device_synchronize, 0), ACRE_ERR_INVALID);
    EXPECT_OK(OP(device_synchronize, 0));
    EXPECT_OK(OP(stream_synchronize, 0, b));
    EXPECT_OK(OP(copy_async, 0, host, host, 1, (acre_copy_kind)9, b));
    EXPECT_OK(OP(stream_destroy, 0, b)); /* the failure goes to the log */
    rig_close();
}

/* ---- Inside of tasks ------------------------------------------------------------------ */

struct inside {
    void *stream, *event;
    acre_status synchronize, destroy, device, event_wait, other;
    int current;
};

static void call_inside(void *arg)
{
    struct inside *in = arg;

    in->synchronize = OP(stream_synchronize, 1, in->stream);
    in->destroy = OP(stream_destroy, 1, in->stream);
    in->device = OP(device_synchronize, 1);
    in->other = OP(device_synchronize, 0);
    in->event_wait = OP(event_record, 1, in->event, in->stream);
    if (in->event_wait == ACRE_OK)
        in->event_wait = OP(event_synchronize, 1, in->event);
}

TEST(a_task_cannot_wait_for_itself)
{
    struct inside in = {0};

    rig_open(NULL);
    in.stream = rig_stream(1);
    in.event = rig_event(1, 0);
    REQUIRE_OK(OP(launch_host, 1, in.stream, call_inside, &in));
    EXPECT_OK(OP(stream_synchronize, 1, in.stream));
    EXPECT_EQ(in.synchronize, ACRE_ERR_STATE);
    EXPECT_EQ(in.destroy, ACRE_ERR_STATE);
    EXPECT_EQ(in.device, ACRE_ERR_STATE);
    EXPECT_EQ(in.event_wait, ACRE_ERR_STATE);
    EXPECT_EQ(in.other, ACRE_OK);
    EXPECT_OK(OP(event_synchronize, 1, in.event));
    EXPECT_OK(OP(stream_destroy, 1, in.stream));
    rig_close();
}

static void ask_device(void *arg)
{
    if (acre_device_current(ACRE_DEVICE_PRIVATE, arg) != ACRE_OK)
        *(int *)arg = -1;
}

static void move_device(void *arg)
{
    (void)arg;
    acre_device_set(ACRE_DEVICE_PRIVATE, 1);
}

TEST(D5_a_task_sees_device_0_as_current)
{
    int seen[20];

    rig_open(NULL);
    void *stream = rig_stream(1);
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 1));
    for (int i = 0; i < 20; i++) {
        REQUIRE_OK(OP(launch_host, 1, stream, ask_device, &seen[i]));
        REQUIRE_OK(OP(launch_host, 1, stream, move_device, NULL));
    }
    EXPECT_OK(OP(stream_synchronize, 1, stream));
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(seen[i], 0);
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 0));
    rig_close();
}

/* ---- Misuse --------------------------------------------------------------------------- */

TEST(a_stream_of_another_device_is_refused)
{
    int priority;

    rig_open(NULL);
    void *stream = rig_stream(1);
    EXPECT_STATUS(OP(stream_query, 0, stream), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "device 1");
    EXPECT_STATUS(OP(stream_synchronize, 0, stream), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(stream_priority, 0, stream, &priority), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(stream_destroy, 0, stream), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(launch_host, 0, stream, count_up, NULL), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(launch_host, 1, stream, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_OK(OP(stream_destroy, 1, stream));
    rig_close();
}

/* ---- Ending --------------------------------------------------------------------------- */

static void slow_count(void *arg)
{
    usleep(100);
    count_up(arg);
}

TEST(unregister_waits_for_work_and_ends_threads)
{
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    for (int s = 0; s < 20; s++) {
        void *stream = rig_stream(s % 2);

        for (int i = 0; i < 10; i++)
            REQUIRE_OK(OP(launch_host, s % 2, stream, slow_count, &ran));
    }
    rig_close();
    EXPECT_EQ(atomic_load(&ran), 200);
}

TEST(unregister_gives_up_waits_for_values)
{
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *stream = rig_stream(0), *other = rig_stream(1), *event = rig_event(0, 0);
    void *value = rig_alloc(0, 4096);
    REQUIRE_OK(OP(wait_value32, 0, stream, value, 1, ACRE_WAIT_EQ));
    REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
    REQUIRE_OK(OP(event_record, 0, event, stream));
    REQUIRE_OK(OP(stream_wait_event, 1, other, event));
    REQUIRE_OK(OP(launch_host, 1, other, count_up, &ran));
    rig_close();
    EXPECT_EQ(atomic_load(&ran), 2);
}

static void in_child(void *arg)
{
    void *stream = NULL;

    EXPECT_STATUS(OP(stream_create, 0, 0, 0, &stream), ACRE_ERR_FORKED);
    EXPECT_STATUS(OP(stream_synchronize, 0, arg), ACRE_ERR_FORKED);
    EXPECT_STATUS(OP(stream_query, 0, arg), ACRE_ERR_FORKED);
    EXPECT_STATUS(OP(launch_host, 0, arg, count_up, NULL), ACRE_ERR_FORKED);
    EXPECT_STATUS(OP(device_synchronize, 0), ACRE_ERR_FORKED);
    acre_backend_unregister(rig.backend);
}

TEST(a_child_of_fork_is_told_so)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;

    rig_open(NULL);
    void *stream = rig_stream(0);
    REQUIRE_OK(OP(launch_host, 0, stream, rig_gate_task, &gate));
    rig_gate_await(&gate, 1);
    EXPECT_EQ(t_child(in_child, stream), 0);
    rig_gate_open(&gate);
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    rig_close();
}

T_MAIN()
