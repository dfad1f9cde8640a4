/* SPDX-License-Identifier: MIT */
/* Events of the reference device: versions, waits, times, misuse. */
#include "sim/work/sim_event.h"

#include "tests/support/sim_rig.h"

#include <stdatomic.h>
#include <time.h>

static void count_up(void *arg)
{
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

TEST(D43_a_new_event_is_complete)
{
    rig_open(NULL);
    void *event = rig_event(0, 0);
    EXPECT_OK(OP(event_query, 0, event));
    EXPECT_OK(OP(event_synchronize, 0, event));
    EXPECT_EQ(rig_usage().event_count, 1);
    EXPECT_OK(OP(event_destroy, 0, event));
    EXPECT_EQ(rig_usage().event_count, 0);
    rig_close();
}

static void record_behind_gate(uint32_t flags)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;

    rig_open(NULL);
    void *stream = rig_stream(0), *event = rig_event(0, flags);
    REQUIRE_OK(OP(launch_host, 0, stream, rig_gate_task, &gate));
    REQUIRE_OK(OP(event_record, 0, event, stream));
    EXPECT_STATUS(OP(event_query, 0, event), ACRE_ERR_NOT_READY);
    rig_gate_open(&gate);
    EXPECT_OK(OP(event_synchronize, 0, event));
    EXPECT_OK(OP(event_query, 0, event));
    rig_close();
}

TEST(D44_a_record_behind_a_slow_task_is_pending)
{
    record_behind_gate(0);
    record_behind_gate(ACRE_EVENT_TIMING);
}

TEST(D45_recording_on_another_device_is_refused_and_changes_nothing)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;

    rig_open(NULL);
    void *own = rig_stream(0), *other = rig_stream(1), *event = rig_event(0, 0);
    EXPECT_STATUS(OP(event_record, 0, event, other), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_record, 1, event, other), ACRE_ERR_INVALID);
    EXPECT_OK(OP(event_query, 0, event));
    REQUIRE_OK(OP(launch_host, 0, own, rig_gate_task, &gate));
    REQUIRE_OK(OP(event_record, 0, event, own));
    EXPECT_STATUS(OP(event_record, 1, event, other), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_query, 0, event), ACRE_ERR_NOT_READY);
    rig_gate_open(&gate);
    rig_close();
}

/* ---- Times ------------------------------------------------------------------------- */

TEST(D46_D48_elapsed_is_refused_when_there_is_no_time)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    double ms = -1;

    rig_open(NULL);
    void *stream = rig_stream(0);
    void *a = rig_event(0, ACRE_EVENT_TIMING), *b = rig_event(0, ACRE_EVENT_TIMING);
    void *plain = rig_event(0, 0), *other = rig_event(1, ACRE_EVENT_TIMING);
    EXPECT_STATUS(OP(event_elapsed, 0, a, b, &ms), ACRE_ERR_INVALID); /* never recorded */
    EXPECT_HAS(acre_last_error(), "never recorded");
    REQUIRE_OK(OP(event_record, 0, a, stream));
    REQUIRE_OK(OP(event_record, 0, plain, stream));
    REQUIRE_OK(OP(event_record, 1, other, NULL));
    EXPECT_STATUS(OP(event_elapsed, 0, a, b, &ms), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_elapsed, 0, b, a, &ms), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_elapsed, 0, a, plain, &ms), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_elapsed, 0, plain, a, &ms), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "ACRE_EVENT_TIMING");
    EXPECT_STATUS(OP(event_elapsed, 0, a, other, &ms), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_elapsed, 1, a, other, &ms), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_elapsed, 0, NULL, a, &ms), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_elapsed, 0, a, NULL, &ms), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_elapsed, 0, a, a, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(OP(launch_host, 0, stream, rig_gate_task, &gate));
    REQUIRE_OK(OP(event_record, 0, b, stream));
    EXPECT_STATUS(OP(event_elapsed, 0, a, b, &ms), ACRE_ERR_NOT_READY);
    EXPECT_EQ(ms, -1);
    rig_gate_open(&gate);
    REQUIRE_OK(OP(event_synchronize, 0, b));
    EXPECT_OK(OP(event_elapsed, 0, a, b, &ms));
    EXPECT(ms >= 0);
    rig_close();
}

static void sleep_20ms(void *arg)
{
    struct timespec time = {0, 20000000};

    (void)arg;
    nanosleep(&time, NULL);
}

TEST(D47_elapsed_is_what_the_task_took)
{
    double ms = 0, back = 0;

    rig_open(NULL);
    void *stream = rig_stream(0);
    void *a = rig_event(0, ACRE_EVENT_TIMING), *b = rig_event(0, ACRE_EVENT_TIMING);
    REQUIRE_OK(OP(event_record, 0, a, stream)); /* idle: at once */
    REQUIRE_OK(OP(launch_host, 0, stream, sleep_20ms, NULL));
    REQUIRE_OK(OP(event_record, 0, b, stream));
    REQUIRE_OK(OP(event_synchronize, 0, b));
    EXPECT_OK(OP(event_elapsed, 0, a, b, &ms));
    EXPECT_OK(OP(event_elapsed, 0, b, a, &back));
    EXPECT(ms >= 20);
    EXPECT(back == -ms);
    EXPECT_OK(OP(event_elapsed, 0, a, a, &ms));
    EXPECT(ms == 0);
    rig_close();
}

TEST(D54_only_bit_0_of_the_flags_matters)
{
    double ms;

    rig_open(NULL);
    void *with = rig_event(0, 0xffu), *without = rig_event(0, 0xfeu);
    REQUIRE_OK(OP(event_record, 0, with, NULL));
    REQUIRE_OK(OP(event_record, 0, without, NULL));
    EXPECT_OK(OP(event_elapsed, 0, with, with, &ms));
    EXPECT_STATUS(OP(event_elapsed, 0, without, without, &ms), ACRE_ERR_INVALID);
    rig_close();
}

/* ---- Waits --------------------------------------------------------------------------- */

static void wait_between(int from, int to)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *a = rig_stream(from), *b = rig_stream(to), *event = rig_event(from, 0);
    REQUIRE_OK(OP(launch_host, from, a, rig_gate_task, &gate));
    REQUIRE_OK(OP(event_record, from, event, a));
    REQUIRE_OK(OP(stream_wait_event, to, b, event));
    REQUIRE_OK(OP(launch_host, to, b, count_up, &ran));
    rig_gate_await(&gate, 1);
    EXPECT_STATUS(OP(stream_query, to, b), ACRE_ERR_NOT_READY);
    EXPECT_EQ(atomic_load(&ran), 0);
    rig_gate_open(&gate);
    EXPECT_OK(OP(stream_synchronize, to, b));
    EXPECT_EQ(atomic_load(&ran), 1);
    EXPECT_OK(OP(event_query, from, event));
    rig_close();
}

TEST(D49_a_stream_waits_for_what_another_recorded)
{
    wait_between(0, 0);
    wait_between(0, 1);
    wait_between(1, 0);
}

TEST(D50_waiting_for_a_never_recorded_event_does_not_block)
{
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *stream = rig_stream(0), *event = rig_event(1, 0);
    REQUIRE_OK(OP(stream_wait_event, 0, stream, event));
    REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    EXPECT_EQ(atomic_load(&ran), 1);
    rig_close();
}

TEST(D51_destroying_an_event_releases_its_waiters)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *a = rig_stream(0), *b = rig_stream(0);
    void *event = rig_event(0, ACRE_EVENT_TIMING);
    REQUIRE_OK(OP(launch_host, 0, a, rig_gate_task, &gate));
    REQUIRE_OK(OP(event_record, 0, event, a));
    REQUIRE_OK(OP(stream_wait_event, 0, b, event));
    REQUIRE_OK(OP(launch_host, 0, b, count_up, &ran));
    EXPECT_OK(OP(event_destroy, 0, event));
    EXPECT_EQ(rig_usage().event_count, 0);
    void *young = rig_event(0, ACRE_EVENT_TIMING); /* may use the same slot */
    rig_gate_open(&gate);
    EXPECT_OK(OP(stream_synchronize, 0, b));
    EXPECT_EQ(atomic_load(&ran), 1);
    EXPECT_OK(OP(event_query, 0, young));
    rig_close();
}

TEST(D52_synchronize_waits_for_the_latest_record)
{
    struct rig_gate first = RIG_GATE_INITIALIZER, second = RIG_GATE_INITIALIZER;

    rig_open(NULL);
    void *a = rig_stream(0), *b = rig_stream(0), *event = rig_event(0, 0);
    REQUIRE_OK(OP(launch_host, 0, a, rig_gate_task, &first));
    REQUIRE_OK(OP(event_record, 0, event, a));
    REQUIRE_OK(OP(launch_host, 0, b, rig_gate_task, &second));
    REQUIRE_OK(OP(event_record, 0, event, b));
    rig_gate_open(&first);
    REQUIRE_OK(OP(stream_synchronize, 0, a)); /* the first record is passed */
    EXPECT_STATUS(OP(event_query, 0, event), ACRE_ERR_NOT_READY);
    rig_gate_open(&second);
    EXPECT_OK(OP(event_synchronize, 0, event));
    EXPECT_OK(OP(stream_query, 0, b));
    rig_close();
}

TEST(a_wait_keeps_the_record_of_its_call)
{
    struct rig_gate first = RIG_GATE_INITIALIZER, second = RIG_GATE_INITIALIZER;

    rig_open(NULL);
    void *a = rig_stream(0), *b = rig_stream(0), *c = rig_stream(0), *event = rig_event(0, 0);
    REQUIRE_OK(OP(launch_host, 0, a, rig_gate_task, &first));
    REQUIRE_OK(OP(event_record, 0, event, a));
    REQUIRE_OK(OP(stream_wait_event, 0, c, event));
    REQUIRE_OK(OP(launch_host, 0, b, rig_gate_task, &second));
    REQUIRE_OK(OP(event_record, 0, event, b)); /* c does not wait for this one */
    rig_gate_open(&first);
    EXPECT_OK(OP(stream_synchronize, 0, c));
    EXPECT_STATUS(OP(event_query, 0, event), ACRE_ERR_NOT_READY);
    rig_gate_open(&second);
    rig_close();
}

TEST(D53_wait_then_record_on_one_busy_stream_completes)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;

    rig_open(NULL);
    void *stream = rig_stream(0), *event = rig_event(0, 0);
    REQUIRE_OK(OP(launch_host, 0, stream, rig_gate_task, &gate));
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(OP(stream_wait_event, 0, stream, event));
        REQUIRE_OK(OP(event_record, 0, event, stream));
    }
    rig_gate_open(&gate);
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    EXPECT_OK(OP(event_query, 0, event));
    rig_close();
}

/* A wait that ends lets the next stream go, a thousand times over: no recursion. */
TEST(chains_of_waits_are_passed_on)
{
    enum { COUNT = 2000 };
    static void *streams[COUNT];
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *event = rig_event(0, 0);
    for (int i = 0; i < COUNT; i++) {
        streams[i] = rig_stream(0);
        if (i == 0)
            REQUIRE_OK(OP(launch_host, 0, streams[0], rig_gate_task, &gate));
        else
            REQUIRE_OK(OP(stream_wait_event, 0, streams[i], event));
        REQUIRE_OK(OP(event_record, 0, event, streams[i]));
    }
    REQUIRE_OK(OP(launch_host, 0, streams[COUNT - 1], count_up, &ran));
    rig_gate_open(&gate);
    EXPECT_OK(OP(stream_synchronize, 0, streams[COUNT - 1]));
    EXPECT_EQ(atomic_load(&ran), 1);
    rig_close();
}

TEST(waiting_for_a_destroyed_stream_is_over)
{
    rig_open(NULL);
    void *a = rig_stream(0), *b = rig_stream(0), *event = rig_event(0, ACRE_EVENT_TIMING);
    REQUIRE_OK(OP(launch_host, 0, a, sleep_20ms, NULL));
    REQUIRE_OK(OP(event_record, 0, event, a));
    REQUIRE_OK(OP(stream_destroy, 0, a));
    void *young = rig_stream(0);
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    REQUIRE_OK(OP(launch_host, 0, young, rig_gate_task, &gate));
    EXPECT_OK(OP(event_query, 0, event));
    REQUIRE_OK(OP(stream_wait_event, 0, b, event));
    EXPECT_OK(OP(stream_synchronize, 0, b));
    rig_gate_open(&gate);
    rig_close();
}

/* ---- Misuse --------------------------------------------------------------------------- */

static void expect_refused(void *event)
{
    double ms;

    EXPECT_STATUS(OP(event_query, 0, event), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_synchronize, 0, event), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_record, 0, event, NULL), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(stream_wait_event, 0, NULL, event), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_elapsed, 0, event, event, &ms), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_destroy, 0, event), ACRE_ERR_INVALID);
}

TEST(events_that_are_none_are_refused)
{
    acre_backend *backend;
    acre_device *device;
    void *foreign;
    int on_stack;

    rig_open(NULL);
    void *dead = rig_event(0, ACRE_EVENT_TIMING);
    REQUIRE_OK(OP(event_destroy, 0, dead));
    rig_event(0, ACRE_EVENT_TIMING);
    REQUIRE_OK(acre_sim_create(NULL, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(device->ops->event_create(device->self, 0, 1, &foreign));
    expect_refused(NULL);
    expect_refused(dead);
    expect_refused(foreign);
    expect_refused(rig_stream(0));
    expect_refused(&on_stack);
    void *other = rig_event(1, 0);
    EXPECT_STATUS(OP(event_query, 0, other), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_destroy, 0, other), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_create, 0, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(event_query, 7, other), ACRE_ERR_RANGE);
    acre_backend_unregister(backend);
    rig_close();
}

T_MAIN()
