/* SPDX-License-Identifier: MIT */
/* Green contexts, on the CUDA driver backend over its stand-in. */
#include "tests/support/driver_bed.h"

#include "backend/stream.h"
#include "tests/support/gate.h"
#include "tests/support/small_backend.h"

#include <acre/acre.h>

#include <pthread.h>

#define EXPECT_OK(call) EXPECT_EQ(call, ACRE_OK)

struct bed {
    acre_backend *backend;
    acre_device *device;
    uint64_t held;
};

static struct bed green_bed(void)
{
    struct bed bed;

    REQUIRE_OK(bed_open(&vendor_cuda, &bed.backend));
    REQUIRE_OK(acre_backend_device(bed.backend, 1, &bed.device));
    bed.held = bed_held(&vendor_cuda);
    return bed;
}

static void green_bed_close(struct bed *bed)
{
    EXPECT_EQ(bed_held(&vendor_cuda), bed->held);
    bed_close(&vendor_cuda, bed->backend);
}

static acre_green *green_of(const struct bed *bed, uint32_t units)
{
    const acre_green_config config = {.struct_size = sizeof config, .units = units};
    acre_green *green;

    REQUIRE_OK(acre_green_create(bed->device, &config, &green));
    return green;
}

/* A stream that is captured cannot be destroyed; it outlives its green context. */
TEST(a_capture_may_end_after_its_green_context)
{
    struct bed bed = green_bed();
    acre_green *green = green_of(&bed, 4), *other = green_of(&bed, 4);
    void *stream = acre_green_default_stream(green), *graph = NULL;

    REQUIRE_OK(acre_capture_begin(bed.device, stream));
    acre_green_destroy(green);
    EXPECT(acre_capture_end(bed.device, stream, &graph) != ACRE_OK); /* destroying spoiled it */
    EXPECT_OK(acre_stream_native_destroy(bed.device, stream));
    acre_green_destroy(other);
    green_bed_close(&bed);
}

TEST(D99_bad_green_contexts_are_refused)
{
    struct bed bed = green_bed();
    acre_device_info info = {.struct_size = sizeof info};
    acre_green_config config = {.struct_size = sizeof config};
    acre_green *green = NULL;
    char both[64];

    REQUIRE_OK(acre_device_info_get(bed.device, &info));
    EXPECT_EQ(acre_green_create(bed.device, &config, &green), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "neither units nor a scope");
    config.units = (uint32_t)info.compute_units + 1;
    EXPECT_EQ(acre_green_create(bed.device, &config, &green), ACRE_ERR_RANGE);
    snprintf(both, sizeof both, "has %d", info.compute_units);
    EXPECT_HAS(acre_last_error(), both);
    config.units = 8;
    config.queue_limit = 4;
    EXPECT_EQ(acre_green_create(bed.device, &config, &green), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "queue_limit 4 needs a scope");
    config.scope = (acre_green_scope)3;
    EXPECT_EQ(acre_green_create(bed.device, &config, &green), ACRE_ERR_INVALID);
    config.scope = (acre_green_scope)-1;
    EXPECT_EQ(acre_green_create(bed.device, &config, &green), ACRE_ERR_INVALID);
    config.scope = ACRE_GREEN_SCOPE_BALANCED; /* in order, but this driver is of 13.0 */
    EXPECT_EQ(acre_green_create(bed.device, &config, &green), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "CUDA 13.1");
    EXPECT_EQ(acre_green_queue_limit(bed.device, &config.units), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_green_create(bed.device, NULL, &green), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_green_create(NULL, &config, &green), ACRE_ERR_INVALID);
    EXPECT(green == NULL);
    acre_green_destroy(NULL);
    green_bed_close(&bed);
}

TEST(devices_without_green_contexts_say_so)
{
    acre_green_config config = {.struct_size = sizeof config, .units = 1};
    acre_green *green;
    acre_device *sim;

    REQUIRE_OK(acre_device_get(ACRE_DEVICE_PRIVATE, 0, &sim));
    EXPECT_EQ(acre_green_create(sim, &config, &green), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "green contexts");
}

TEST(units_are_rounded_as_the_device_does)
{
    struct bed bed = green_bed();
    acre_green *small = green_of(&bed, 1), *whole;
    acre_device_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_device_info_get(bed.device, &info));
    whole = green_of(&bed, (uint32_t)info.compute_units);
    EXPECT_GE(acre_green_units(small), 1);
    EXPECT_EQ(acre_green_units(whole), (uint32_t)info.compute_units);
    acre_green_destroy(small);
    acre_green_destroy(whole);
    green_bed_close(&bed);
}

/* ---- Order ----------------------------------------------------------------------------- */

struct note {
    _Atomic int *turn;
    int at; /* -1 until it ran */
};

static void note_task(void *arg)
{
    struct note *note = arg;

    note->at = atomic_fetch_add(note->turn, 1);
}

static void queue_on_current(acre_device *device, void (*task)(void *), void *arg)
{
    void *stream;

    REQUIRE_OK(stream_current_native(device, &stream));
    REQUIRE_OK(acre_launch_host(device, stream, task, arg));
}

TEST(D100_work_is_ordered_through_a_green_context)
{
    struct bed bed = green_bed();
    acre_green *green = green_of(&bed, 16);
    _Atomic int turn = 0;
    struct note before = {&turn, -1}, inside = {&turn, -1}, after = {&turn, -1};
    struct gate gate = {0};
    void *first, *now;
    driver_context context = NULL;
    struct driver *driver = NULL;

    REQUIRE_OK(driver_of("test", bed.device, &driver));
    REQUIRE_OK(stream_current_native(bed.device, &first));
    queue_on_current(bed.device, gate_task, &gate);
    queue_on_current(bed.device, note_task, &before);
    REQUIRE_OK(acre_green_push(green));
    REQUIRE_OK(stream_current_native(bed.device, &now));
    EXPECT_PTR_EQ(now, acre_green_default_stream(green));
    EXPECT_EQ(driver->library.call.cuda_context_get(&context), 0);
    EXPECT(context != NULL);
    queue_on_current(bed.device, note_task, &inside);
    REQUIRE_OK(acre_green_pop(green));
    EXPECT_EQ(driver->library.call.cuda_context_get(&context), 0);
    EXPECT(context == NULL);
    REQUIRE_OK(stream_current_native(bed.device, &now));
    EXPECT_PTR_EQ(now, first);
    queue_on_current(bed.device, note_task, &after);
    EXPECT_EQ(atomic_load(&turn), 0);
    gate_open(&gate);
    REQUIRE_OK(acre_device_synchronize(bed.device));
    EXPECT_EQ(before.at, 0);
    EXPECT_EQ(inside.at, 1);
    EXPECT_EQ(after.at, 2);
    acre_green_destroy(green);
    green_bed_close(&bed);
}

TEST(D100_the_33rd_side_stream_is_the_first)
{
    struct bed bed = green_bed();
    acre_green *green = green_of(&bed, 16);
    void *streams[ACRE_GREEN_STREAMS_MAX], *again;

    for (int i = 0; i < ACRE_GREEN_STREAMS_MAX; i++) {
        REQUIRE_OK(acre_green_stream(green, &streams[i]));
        EXPECT(streams[i] != acre_green_default_stream(green));
        for (int j = 0; j < i; j++)
            EXPECT(streams[i] != streams[j]);
    }
    for (int i = 0; i < ACRE_GREEN_STREAMS_MAX + 2; i++) {
        REQUIRE_OK(acre_green_stream(green, &again));
        EXPECT_PTR_EQ(again, streams[i % ACRE_GREEN_STREAMS_MAX]);
    }
    acre_green_destroy(green);
    green_bed_close(&bed);
}

static void *pop_elsewhere(void *green)
{
    EXPECT_EQ(acre_green_pop(green), ACRE_ERR_STATE);
    EXPECT_EQ(acre_green_push(green), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "by another thread");
    return NULL;
}

TEST(pushes_and_pops_come_in_pairs)
{
    struct bed bed = green_bed();
    acre_green *outer = green_of(&bed, 16), *inner = green_of(&bed, 32);
    pthread_t thread;

    EXPECT_EQ(acre_green_pop(outer), ACRE_ERR_STATE);
    REQUIRE_OK(acre_green_push(outer));
    EXPECT_EQ(acre_green_push(outer), ACRE_ERR_STATE);
    REQUIRE_EQ(pthread_create(&thread, NULL, pop_elsewhere, outer), 0);
    pthread_join(thread, NULL);
    REQUIRE_OK(acre_green_push(inner));
    EXPECT_EQ(acre_green_pop(outer), ACRE_ERR_STATE); /* inner is current */
    REQUIRE_OK(acre_green_pop(inner));
    acre_green_destroy(outer); /* left alone: it is pushed */
    REQUIRE_OK(acre_green_pop(outer));
    acre_green_destroy(outer);
    acre_green_destroy(inner);
    green_bed_close(&bed);
}

/* Every driver call of a life may fail, once; afterwards nothing is held. */
TEST(every_driver_call_may_fail)
{
    struct standin_control control = bed_control(&vendor_cuda);
    struct bed bed = green_bed();
    const acre_green_config config = {.struct_size = sizeof config, .units = 16};
    uint64_t failed;

    control.spare(1);
    for (uint64_t nth = 1;; nth++) {
        acre_green *green = NULL;
        void *stream;
        acre_status status;

        control.fail_nth(nth, 999);
        status = acre_green_create(bed.device, &config, &green);
        if (status == ACRE_OK)
            status = acre_green_stream(green, &stream);
        if (status == ACRE_OK)
            status = acre_green_push(green);
        if (status == ACRE_OK)
            while ((status = acre_green_pop(green)) != ACRE_OK && nth < 500)
                nth += 500; /* again: what failed was before the pop */
        failed = control.fail_end();
        acre_green_destroy(green);
        EXPECT_EQ(bed_held(&vendor_cuda), bed.held);
        if (nth >= 500)
            nth -= 500;
        if (failed == 0)
            break;
        REQUIRE(nth < 500);
    }
    control.spare(0);
    green_bed_close(&bed);
}

/* ---- A child of fork, of a backend that works there ------------------------------------------ */

static _Atomic int is_asked, may_end;

static acre_status part_create(void *self, int device, const acre_green_config *config,
                               void **out_green, uint32_t *out_units)
{
    (void)self;
    (void)device;
    *out_green = &is_asked;
    *out_units = config->units;
    return ACRE_OK;
}

static acre_status part_do(void *self, int device, void *green)
{
    (void)self;
    (void)device;
    (void)green;
    return ACRE_OK;
}

/* The first one is made with the context, the second slowly. */
static acre_status part_stream(void *self, int device, void *green, uint32_t flags, int priority,
                               void **out_stream)
{
    static _Atomic int made;

    (void)self;
    (void)device;
    (void)green;
    (void)flags;
    (void)priority;
    if (made++ == 1) {
        is_asked = 1;
        usleep(100000);
    }
    *out_stream = &made;
    return ACRE_OK;
}

static acre_status part_queues(void *self, int device, uint32_t *out_count)
{
    (void)self;
    (void)device;
    *out_count = 1;
    return ACRE_OK;
}

static void *ask_stream(void *green)
{
    void *stream;

    EXPECT_OK(acre_green_stream(green, &stream));
    return NULL;
}

/* Stays until the child is gone: ThreadSanitizer takes one that ends as the child starts for lost
 * there. */
static void *ask_and_stay(void *green)
{
    ask_stream(green);
    while (!may_end)
        usleep(100);
    return NULL;
}

static void child_asks(void *green)
{
    alarm(20);
    ask_stream(green);
}

TEST(a_child_gets_streams_although_its_parent_was_getting_one)
{
    const acre_green_config config = {.struct_size = sizeof config, .units = 1};
    struct small small = SMALL_INITIALIZER;
    acre_backend_desc desc = small_desc("parts", ACRE_DEVICE_PRIVATE, &small);
    acre_backend_ops ops = *desc.ops;
    acre_backend *backend;
    acre_device *device;
    acre_green *green;
    pthread_t thread;

    small.info.compute_units = 1;
    ops.green_create = part_create;
    ops.green_destroy = ops.green_push = ops.green_pop = part_do;
    ops.green_stream = part_stream;
    ops.green_queues = part_queues;
    desc.ops = &ops;
    desc.flags |= ACRE_BACKEND_SYNCHRONOUS | ACRE_BACKEND_FORK_SAFE;
    REQUIRE_OK(acre_backend_register(&desc, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_green_create(device, &config, &green));
    REQUIRE_EQ(pthread_create(&thread, NULL, ask_and_stay, green), 0);
    while (!is_asked)
        usleep(100);
    EXPECT_EQ(t_child(child_asks, green), 0);
    may_end = 1;
    pthread_join(thread, NULL);
    acre_green_destroy(green);
    acre_backend_unregister(backend);
}

T_MAIN()
