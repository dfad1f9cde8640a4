/* SPDX-License-Identifier: MIT */
/* Host functions whose calls of OpenCL fail: what is told, and what runs. */
#include "opencl/api.h"
#include "tests/support/gate.h"
#include "tests/support/opencl_bed.h"
#include "tests/support/t.h"

#include <acre/opencl.h>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

/* A stream of the first device. */
struct place {
    acre_backend *backend;
    acre_device *device;
    void *stream;
    uint64_t held_before;
};

static void place_begin(struct place *place)
{
    place->backend = bed_begin();
    place->held_before = bed_held(place->backend);
    REQUIRE_OK(acre_backend_device(place->backend, 0, &place->device));
    REQUIRE_OK(acre_stream_native_create(place->device, 0, 0, &place->stream));
}

static void place_end(struct place *place)
{
    REQUIRE_OK(acre_stream_native_destroy(place->device, place->stream));
    EXPECT_EQ(bed_held(place->backend), place->held_before);
    acre_backend_unregister(place->backend);
}

static ocl_int (*finish_before)(ocl_queue);
static struct place *finishing; /* where something is enqueued when a queue has been finished */
static struct gate finish_gate;

static ocl_int wait_in_vain(ocl_uint count, const ocl_event *events)
{
    (void)count;
    (void)events;
    return OCL_OUT_OF_RESOURCES;
}

static ocl_int finish_and_enqueue(ocl_queue queue)
{
    ocl_int code = finish_before(queue);

    if (finishing)
        EXPECT_EQ(acre_launch_host(finishing->device, finishing->stream, gate_task, &finish_gate),
                  ACRE_OK);
    finishing = NULL;
    return code;
}

TEST(a_function_that_did_not_run_is_told_although_more_was_enqueued)
{
    ocl_int (*wait_before)(ocl_uint, const ocl_event *);
    struct gate gate = {.is_open = 1};
    struct place place;
    void *queue;

    place_begin(&place);
    wait_before = ocl.WaitForEvents;
    ocl.WaitForEvents = wait_in_vain;
    REQUIRE_OK(acre_launch_host(place.device, place.stream, gate_task, &gate));
    finish_before = ocl.Finish;
    REQUIRE_OK(acre_opencl_queue(place.device, place.stream, &queue));
    REQUIRE_EQ(finish_before(queue), OCL_SUCCESS); /* its turn is over */
    ocl.WaitForEvents = wait_before;
    ocl.Finish = finish_and_enqueue;
    finishing = &place;
    EXPECT_EQ(acre_stream_native_synchronize(place.device, place.stream), ACRE_ERR_DEVICE);
    ocl.Finish = finish_before;
    EXPECT_EQ(gate.is_reached, 0);
    gate_open(&finish_gate);
    REQUIRE_OK(acre_stream_native_synchronize(place.device, place.stream));
    place_end(&place);
}

static ocl_int flush_in_vain(ocl_queue queue)
{
    (void)queue;
    return OCL_OUT_OF_RESOURCES;
}

TEST(a_function_that_is_refused_does_not_run)
{
    ocl_int (*flush_before)(ocl_queue);
    struct gate gate = {.is_open = 1};
    struct place place;

    place_begin(&place);
    flush_before = ocl.Flush;
    ocl.Flush = flush_in_vain;
    acre_status status = acre_launch_host(place.device, place.stream, gate_task, &gate);
    ocl.Flush = flush_before;
    REQUIRE_OK(acre_stream_native_synchronize(place.device, place.stream));
    EXPECT_EQ(gate.is_reached, status == ACRE_OK);
    place_end(&place);
}

/* ---- A stream that ends -------------------------------------------------------------------- */

struct ending {
    struct place place;
    struct gate gate;
    void *memory;
    _Atomic int has_freed;
};

static void *destroy_stream(void *arg)
{
    struct place *place = &((struct ending *)arg)->place;

    EXPECT_EQ(acre_stream_native_destroy(place->device, place->stream), ACRE_OK);
    return NULL;
}

static void *free_memory(void *arg)
{
    struct ending *ending = arg;

    EXPECT_EQ(acre_device_free(ending->place.device, ending->memory), ACRE_OK);
    EXPECT_EQ(ending->gate.is_open, 1); /* a fill stood behind the gate */
    ending->has_freed = 1;
    return NULL;
}

TEST(memory_is_freed_after_the_work_of_a_stream_that_is_being_destroyed)
{
    struct ending ending = {.gate = {.is_open = 0}};
    struct place *place = &ending.place;
    pthread_t threads[2];

    place_begin(place);
    REQUIRE_OK(acre_device_alloc(place->device, 4096, &ending.memory));
    REQUIRE_OK(acre_launch_host(place->device, place->stream, gate_task, &ending.gate));
    REQUIRE_OK(acre_fill_async(place->device, ending.memory, 1, 4096, place->stream));
    gate_wait_reached(&ending.gate);
    REQUIRE(pthread_create(&threads[0], NULL, destroy_stream, &ending) == 0);
    while (acre_stream_native_query(place->device, place->stream) == ACRE_ERR_NOT_READY)
        sched_yield();
    REQUIRE(pthread_create(&threads[1], NULL, free_memory, &ending) == 0);
    for (int i = 0; i < 20 && !ending.has_freed; i++)
        usleep(5000); /* time to be wrong in */
    gate_open(&ending.gate);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(bed_held(place->backend), place->held_before);
    acre_backend_unregister(place->backend);
}

T_MAIN()
