/* SPDX-License-Identifier: MIT */
/* Threads of the reference device: how many, for which streams, in which order. */
#include "sim/work/sim_worker.h"

#include "base/process/thread.h"
#include "sim/work/sim_queue.h"
#include "tests/support/sim_rig.h"

#include <unistd.h>

/* Each task waits for all others: every stream must have a thread of its own. */
TEST(a_stream_with_work_gets_a_thread_when_all_others_block)
{
    enum { COUNT = 100 };
    struct rig_gate gate = RIG_GATE_INITIALIZER;

    rig_open(NULL);
    for (int i = 0; i < COUNT; i++) {
        void *stream = rig_stream(i % 2);

        REQUIRE_OK(OP(launch_host, i % 2, stream, rig_gate_task, &gate));
    }
    rig_gate_await(&gate, COUNT);
    EXPECT_GE(rig_usage().thread_count, COUNT);
    rig_gate_open(&gate);
    EXPECT_OK(OP(device_synchronize, 0));
    EXPECT_OK(OP(device_synchronize, 1));
    rig_close();
}

static void count_up(void *arg)
{
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

/* A worker that ended for lack of work is nobody's to join: a process that ends now leaks none. */
TEST(an_idle_worker_ends_and_waits_for_nobody)
{
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    struct sim_workers *workers = &((struct sim *)rig.self)->streams->workers;
    REQUIRE_OK(OP(launch_host, 0, rig_stream(0), count_up, &ran));
    EXPECT_OK(OP(device_synchronize, 0));
    EXPECT_EQ(ran, 1);
    for (int i = 0; i < 10000 && rig_usage().thread_count > 1; i++)
        usleep(1000);
    EXPECT_EQ(rig_usage().thread_count, 1); /* the watcher */
    lock_take(&workers->lock);
    EXPECT(!workers->has_dead);
    lock_drop(&workers->lock);
    rig_close();
}

/* The process has as many threads as it may: the first stream is refused, later work is done
 * by the threads there are. */
TEST(without_new_threads_there_is_a_status_and_no_waiting_for_ever)
{
    _Atomic uint64_t ran = 0;
    void *stream = NULL;

    rig_open(NULL);
    thread_refuse(true);
    EXPECT_EQ(OP(stream_create, 0, 0, 0, &stream), ACRE_ERR_HOST_MEMORY);
    EXPECT_HAS(acre_last_error(), "thread");
    thread_refuse(false);
    stream = rig_stream(0); /* has the thread that looks after streams */
    thread_refuse(true);
    void *other = rig_stream(1);
    for (int i = 0; i < 100; i++) {
        REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
        REQUIRE_OK(OP(launch_host, 1, other, count_up, &ran));
    }
    REQUIRE_OK(OP(stream_synchronize, 0, stream));
    REQUIRE_OK(OP(device_synchronize, 1));
    EXPECT_EQ(ran, 200);
    thread_refuse(false);
    REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
    REQUIRE_OK(OP(stream_synchronize, 0, stream));
    EXPECT_EQ(ran, 201);
    rig_close();
}

static void gate_open_task(void *gate)
{
    rig_gate_open(gate);
}

/* All threads there are stand in functions that wait for work of other streams. */
TEST(without_new_threads_one_that_blocks_holds_up_no_other_stream)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *blocked = rig_stream(0), *other = rig_stream(0);
    REQUIRE_OK(OP(launch_host, 0, blocked, rig_gate_task, &gate));
    rig_gate_await(&gate, 1);
    thread_refuse(true);
    REQUIRE_OK(OP(launch_host, 0, other, gate_open_task, &gate));
    REQUIRE_OK(OP(launch_host, 0, other, count_up, &ran));
    for (int i = 0; i < 10000 && ran == 0; i++)
        usleep(1000);
    EXPECT_EQ(ran, 1);
    rig_gate_open(&gate);
    EXPECT_OK(OP(device_synchronize, 0));
    thread_refuse(false);
    rig_close();
}

TEST(thousands_of_streams_are_served_by_few_threads)
{
    enum { COUNT = 3000 };
    static void *streams[COUNT];
    _Atomic uint64_t ran = 0;
    uint64_t threads = 0;

    rig_open(NULL);
    for (int i = 0; i < COUNT; i++)
        streams[i] = rig_stream(0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            REQUIRE_OK(OP(launch_host, 0, streams[i], count_up, &ran));
        uint64_t now = rig_usage().thread_count;
        threads = now > threads ? now : threads;
    }
    EXPECT_OK(OP(device_synchronize, 0));
    EXPECT_EQ(atomic_load(&ran), 3 * COUNT);
    EXPECT_LE(threads, COUNT / 6);
    EXPECT_EQ(rig_usage().stream_count, COUNT);
    for (int i = 0; i < COUNT; i++)
        REQUIRE_OK(OP(stream_destroy, 0, streams[i]));
    EXPECT_EQ(rig_usage().stream_count, 0);
    rig_close();
}

TEST(parked_streams_occupy_no_thread)
{
    enum { COUNT = 1000 };
    static void *streams[COUNT];
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    _Atomic uint64_t ran = 0;

    rig_open(NULL);
    void *first = rig_stream(0), *event = rig_event(0, 0);
    uint32_t *value = rig_alloc(0, 4096);
    REQUIRE_OK(OP(launch_host, 0, first, rig_gate_task, &gate));
    rig_gate_await(&gate, 1);
    REQUIRE_OK(OP(event_record, 0, event, first));
    for (int i = 0; i < COUNT; i++) {
        streams[i] = rig_stream(0);
        if (i % 2)
            REQUIRE_OK(OP(stream_wait_event, 0, streams[i], event));
        else
            REQUIRE_OK(OP(wait_value32, 0, streams[i], value, 7, ACRE_WAIT_EQ));
        REQUIRE_OK(OP(launch_host, 0, streams[i], count_up, &ran));
    }
    EXPECT_LE(rig_usage().thread_count, 3); /* the one in the gate, the watcher, an idle one */
    EXPECT_EQ(atomic_load(&ran), 0);
    REQUIRE_OK(OP(write_value32, 0, first, value, 7));
    rig_gate_open(&gate);
    EXPECT_OK(OP(device_synchronize, 0));
    EXPECT_EQ(atomic_load(&ran), COUNT);
    rig_close();
}

struct trace {
    pthread_mutex_t mutex;
    int count;
    int seen[16];
};

struct mark {
    struct trace *trace;
    int number;
};

static void leave_mark(void *arg)
{
    struct mark *mark = arg;

    pthread_mutex_lock(&mark->trace->mutex);
    mark->trace->seen[mark->trace->count++] = mark->number;
    pthread_mutex_unlock(&mark->trace->mutex);
}

/* One worker, and it is busy while the others become ready. */
TEST(streams_of_higher_priority_are_picked_first)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    struct trace trace = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct mark marks[4];
    void *stream;

    rig_open(NULL);
    struct sim_workers *workers = &((struct sim *)rig.self)->streams->workers;
    workers->count_free = 1;
    workers->tick_ns = 3600000000000LL;
    REQUIRE_OK(OP(launch_host, 0, rig_stream(0), rig_gate_task, &gate));
    rig_gate_await(&gate, 1);
    for (int i = 0; i < 4; i++) {
        marks[i] = (struct mark){&trace, i};
        REQUIRE_OK(OP(stream_create, i % 2, 0, i / 2, &stream));
        REQUIRE_OK(OP(launch_host, i % 2, stream, leave_mark, &marks[i]));
    }
    rig_gate_open(&gate);
    EXPECT_OK(OP(device_synchronize, 0));
    EXPECT_OK(OP(device_synchronize, 1));
    EXPECT_EQ(trace.count, 4);
    EXPECT(trace.seen[0] == 2 && trace.seen[1] == 3 && trace.seen[2] == 0 && trace.seen[3] == 1);
    rig_close();
}

T_MAIN()
