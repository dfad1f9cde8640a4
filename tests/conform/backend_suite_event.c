/* SPDX-License-Identifier: MIT */
/* Events: records, waits, times. */
#include "tests/conform/backend_suite.h"

#include <sched.h>
#include <time.h>

void suite_event(void)
{
}

/* Two streams of device 0, an event and a gate; most rules need no more. */
struct scene {
    struct suite s;
    void *a, *b;
    void *event;
    struct gate gate;
    _Atomic int done;
};

static void scene_begin(struct scene *scene, uint32_t capabilities, uint32_t event_flags)
{
    memset(scene, 0, sizeof *scene);
    scene->s = suite_begin(ACRE_CAP_STREAMS | capabilities);
    int priority = suite_info(scene->s.device).priority_least;

    REQUIRE_OK(acre_stream_native_create(scene->s.device, 0, priority, &scene->a));
    REQUIRE_OK(acre_stream_native_create(scene->s.device, 0, priority, &scene->b));
    REQUIRE_OK(acre_event_native_create(scene->s.device, event_flags, &scene->event));
}

static void scene_end(struct scene *scene)
{
    if (scene->event)
        EXPECT_OK(acre_event_native_destroy(scene->s.device, scene->event));
    EXPECT_OK(acre_stream_native_destroy(scene->s.device, scene->a));
    EXPECT_OK(acre_stream_native_destroy(scene->s.device, scene->b));
    suite_end(&scene->s);
}

static void set_flag(void *flag)
{
    atomic_store((_Atomic int *)flag, 1);
}

TEST(a_new_event_is_complete)
{
    struct scene c;

    scene_begin(&c, 0, 0);
    EXPECT_OK(acre_event_native_query(c.s.device, c.event));
    EXPECT_OK(acre_event_native_synchronize(c.s.device, c.event));
    EXPECT_OK(acre_stream_native_wait(c.s.device, c.a, c.event));
    EXPECT_OK(acre_stream_native_synchronize(c.s.device, c.a));
    EXPECT_EQ(acre_event_native_create(c.s.device, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_native_destroy(c.s.device, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_native_record(c.s.device, NULL, c.a), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_event_native_query(c.s.device, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_stream_native_wait(c.s.device, c.a, NULL), ACRE_ERR_INVALID);
    scene_end(&c);
}

TEST(an_event_completes_when_its_stream_gets_there)
{
    struct scene c;

    scene_begin(&c, SUITE_QUEUES | ACRE_CAP_LAUNCH, 0);
    EXPECT_OK(acre_launch_host(c.s.device, c.a, gate_task, &c.gate));
    EXPECT_OK(acre_event_native_record(c.s.device, c.event, c.a));
    EXPECT_EQ(acre_event_native_query(c.s.device, c.event), ACRE_ERR_NOT_READY);
    gate_open(&c.gate);
    EXPECT_OK(acre_event_native_synchronize(c.s.device, c.event));
    EXPECT_OK(acre_event_native_query(c.s.device, c.event));
    scene_end(&c);
}

TEST(a_waiting_stream_goes_on_after_the_record)
{
    struct scene c;

    scene_begin(&c, SUITE_QUEUES | ACRE_CAP_LAUNCH, 0);
    EXPECT_OK(acre_launch_host(c.s.device, c.a, gate_task, &c.gate));
    EXPECT_OK(acre_event_native_record(c.s.device, c.event, c.a));
    EXPECT_OK(acre_stream_native_wait(c.s.device, c.b, c.event));
    EXPECT_OK(acre_launch_host(c.s.device, c.b, set_flag, &c.done));
    gate_wait_reached(&c.gate);
    for (int spin = 0; spin < 50; spin++)
        sched_yield();
    EXPECT_EQ(c.done, 0);
    EXPECT_EQ(acre_stream_native_query(c.s.device, c.b), ACRE_ERR_NOT_READY);
    gate_open(&c.gate);
    EXPECT_OK(acre_stream_native_synchronize(c.s.device, c.b));
    EXPECT_EQ(c.done, 1);
    scene_end(&c);
}

TEST(waiting_works_across_devices)
{
    struct scene c;
    void *other;

    scene_begin(&c, SUITE_QUEUES | ACRE_CAP_LAUNCH, 0);
    if (!c.s.second) {
        scene_end(&c);
        T_SKIP("needs two devices");
    }
    REQUIRE_OK(acre_stream_native_create(c.s.second, 0, suite_info(c.s.second).priority_least,
                                         &other));
    EXPECT_OK(acre_launch_host(c.s.device, c.a, gate_task, &c.gate));
    EXPECT_OK(acre_event_native_record(c.s.device, c.event, c.a));
    EXPECT_REFUSED(acre_event_native_record(c.s.device, c.event, other));
    EXPECT_OK(acre_stream_native_wait(c.s.second, other, c.event));
    EXPECT_OK(acre_launch_host(c.s.second, other, set_flag, &c.done));
    gate_wait_reached(&c.gate);
    EXPECT_EQ(acre_stream_native_query(c.s.second, other), ACRE_ERR_NOT_READY);
    EXPECT_EQ(c.done, 0);
    gate_open(&c.gate);
    EXPECT_OK(acre_stream_native_synchronize(c.s.second, other));
    EXPECT_EQ(c.done, 1);
    EXPECT_OK(acre_stream_native_destroy(c.s.second, other));
    scene_end(&c);
}

/* The second record is what counts, though the first completes. */
TEST(recording_again_replaces_the_record)
{
    struct scene c;
    struct gate second = {0};

    scene_begin(&c, SUITE_QUEUES | ACRE_CAP_LAUNCH, 0);
    EXPECT_OK(acre_launch_host(c.s.device, c.a, gate_task, &c.gate));
    EXPECT_OK(acre_event_native_record(c.s.device, c.event, c.a));
    EXPECT_OK(acre_launch_host(c.s.device, c.a, gate_task, &second));
    EXPECT_OK(acre_event_native_record(c.s.device, c.event, c.a));
    gate_open(&c.gate);
    gate_wait_reached(&second);
    EXPECT_EQ(acre_event_native_query(c.s.device, c.event), ACRE_ERR_NOT_READY);
    gate_open(&second);
    EXPECT_OK(acre_event_native_synchronize(c.s.device, c.event));
    EXPECT_OK(acre_stream_native_query(c.s.device, c.a) == ACRE_ERR_NOT_READY
                  ? acre_stream_native_synchronize(c.s.device, c.a)
                  : ACRE_OK);
    scene_end(&c);
}

/* A wait means the record at the time of the call, not a later one. */
TEST(a_wait_is_for_the_record_before_it)
{
    struct scene c;
    struct gate later = {0};

    scene_begin(&c, SUITE_QUEUES | ACRE_CAP_LAUNCH, 0);
    EXPECT_OK(acre_launch_host(c.s.device, c.a, gate_task, &c.gate));
    EXPECT_OK(acre_event_native_record(c.s.device, c.event, c.a));
    EXPECT_OK(acre_stream_native_wait(c.s.device, c.b, c.event));
    EXPECT_OK(acre_launch_host(c.s.device, c.b, set_flag, &c.done));
    EXPECT_OK(acre_launch_host(c.s.device, c.a, gate_task, &later));
    EXPECT_OK(acre_event_native_record(c.s.device, c.event, c.a));
    gate_open(&c.gate);
    EXPECT_OK(acre_stream_native_synchronize(c.s.device, c.b));
    EXPECT_EQ(c.done, 1);
    gate_open(&later);
    EXPECT_OK(acre_device_synchronize(c.s.device));
    scene_end(&c);
}

TEST(waiting_then_recording_on_one_stream_completes)
{
    struct scene c;

    scene_begin(&c, SUITE_QUEUES | ACRE_CAP_LAUNCH, 0);
    EXPECT_OK(acre_launch_host(c.s.device, c.a, gate_task, &c.gate));
    EXPECT_OK(acre_stream_native_wait(c.s.device, c.a, c.event));
    EXPECT_OK(acre_event_native_record(c.s.device, c.event, c.a));
    EXPECT_OK(acre_stream_native_wait(c.s.device, c.a, c.event));
    gate_open(&c.gate);
    EXPECT_OK(acre_stream_native_synchronize(c.s.device, c.a));
    EXPECT_OK(acre_event_native_query(c.s.device, c.event));
    scene_end(&c);
}

TEST(an_event_may_go_while_it_is_awaited)
{
    struct scene c;

    scene_begin(&c, SUITE_QUEUES | ACRE_CAP_LAUNCH, 0);
    EXPECT_OK(acre_launch_host(c.s.device, c.a, gate_task, &c.gate));
    EXPECT_OK(acre_event_native_record(c.s.device, c.event, c.a));
    EXPECT_OK(acre_stream_native_wait(c.s.device, c.b, c.event));
    EXPECT_OK(acre_launch_host(c.s.device, c.b, set_flag, &c.done));
    EXPECT_OK(acre_event_native_destroy(c.s.device, c.event));
    c.event = NULL;
    gate_open(&c.gate);
    EXPECT_OK(acre_stream_native_synchronize(c.s.device, c.b));
    EXPECT_EQ(c.done, 1);
    scene_end(&c);
}

TEST(foreign_events_are_refused)
{
    struct scene c;
    int local = 0;
    void *gone;

    scene_begin(&c, 0, 0);
    if (backend_suite.is_trusting) {
        scene_end(&c);
        T_SKIP("the driver does not recognise foreign handles");
    }
    REQUIRE_OK(acre_event_native_create(c.s.device, 0, &gone));
    EXPECT_OK(acre_event_native_destroy(c.s.device, gone));
    EXPECT_REFUSED(acre_event_native_record(c.s.device, gone, c.a));
    EXPECT_REFUSED(acre_event_native_query(c.s.device, gone));
    EXPECT_REFUSED(acre_event_native_synchronize(c.s.device, gone));
    EXPECT_REFUSED(acre_event_native_destroy(c.s.device, gone));
    EXPECT_REFUSED(acre_event_native_query(c.s.device, &local));
    EXPECT_REFUSED(acre_stream_native_wait(c.s.device, c.a, &local));
    scene_end(&c);
}

static void sleep_task(void *unused)
{
    struct timespec nap = {0, 5000000};

    (void)unused;
    nanosleep(&nap, NULL);
}

TEST(timing_events_tell_the_time_between_them)
{
    struct scene c;
    void *end, *silent;
    double ms = -1, back = 1;

    scene_begin(&c, SUITE_QUEUES | ACRE_CAP_LAUNCH, ACRE_EVENT_TIMING);
    REQUIRE_OK(acre_event_native_create(c.s.device, ACRE_EVENT_TIMING, &end));
    REQUIRE_OK(acre_event_native_create(c.s.device, 0, &silent));
    EXPECT_REFUSED(acre_event_native_elapsed(c.s.device, c.event, end, &ms));
    EXPECT_OK(acre_event_native_record(c.s.device, c.event, c.a));
    EXPECT_REFUSED(acre_event_native_elapsed(c.s.device, c.event, end, &ms));
    EXPECT_OK(acre_launch_host(c.s.device, c.a, sleep_task, NULL));
    EXPECT_OK(acre_launch_host(c.s.device, c.a, gate_task, &c.gate));
    EXPECT_OK(acre_event_native_record(c.s.device, end, c.a));
    EXPECT_OK(acre_event_native_record(c.s.device, silent, c.a));
    EXPECT_EQ(acre_event_native_elapsed(c.s.device, c.event, end, &ms), ACRE_ERR_NOT_READY);
    gate_open(&c.gate);
    EXPECT_OK(acre_stream_native_synchronize(c.s.device, c.a));
    EXPECT_REFUSED(acre_event_native_elapsed(c.s.device, c.event, silent, &ms));
    EXPECT_EQ(ms, -1);
    EXPECT_OK(acre_event_native_elapsed(c.s.device, c.event, end, &ms));
    EXPECT_OK(acre_event_native_elapsed(c.s.device, end, c.event, &back));
    EXPECT(ms >= 4.9);
    EXPECT(back == -ms);
    EXPECT_EQ(acre_event_native_elapsed(c.s.device, c.event, end, NULL), ACRE_ERR_INVALID);
    EXPECT_OK(acre_event_native_destroy(c.s.device, end));
    EXPECT_OK(acre_event_native_destroy(c.s.device, silent));
    scene_end(&c);
}
