/* SPDX-License-Identifier: MIT */
/* What is kept for captures and after failures, and when it comes back. */
#include "backend/backend.h"
#include "tests/support/gate.h"
#include "tests/support/pinned_bed.h"
#include "tests/support/small_backend.h"

#include <unistd.h>

TEST(what_is_freed_after_its_pool_was_released_goes_with_it)
{
    struct pinned_bed bed;
    acre_pool_filter filter = {.kind = ACRE_POOL_ANY};

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        acre_pool_id id = acre_pool_id_next();
        void *graph;
        pinned_bed_open(&bed, policy, NULL);
        REQUIRE_OK(acre_pinned_pool_begin(bed.pinned, id, &filter));
        void *block = pinned_take(&bed, 4096);
        REQUIRE_OK(acre_capture_begin(bed.devices[0], bed.streams[0]));
        pinned_use(&bed, block, 0);
        REQUIRE_OK(acre_capture_end(bed.devices[0], bed.streams[0], &graph));
        REQUIRE_OK(acre_pinned_pool_end(bed.pinned, id));
        REQUIRE_OK(acre_graph_destroy(bed.devices[0], graph));
        REQUIRE_OK(acre_pinned_pool_release(bed.pinned, id));
        pinned_give(&bed, block);
        REQUIRE_OK(acre_pinned_empty(bed.pinned));
        EXPECT_EQ(pinned_stats(&bed).captured_bytes, 0);
        EXPECT_EQ(pinned_stats(&bed).allocations.current, 0);
        EXPECT_EQ(acre_pinned_pool_release(bed.pinned, id), ACRE_ERR_NOT_FOUND);
        pinned_bed_close(&bed);
    }
}

TEST(what_was_kept_after_a_failure_is_not_free_while_a_stream_uses_it)
{
    struct pinned_bed bed;

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_EVENT_RECORD,
                                .nth = 1, .status = ACRE_ERR_DEVICE};
        struct gate gate = {0};
        pinned_bed_open(&bed, policy, "pinned_free_catch_all:True");
        void *block = pinned_take(&bed, 4096);
        REQUIRE_OK(acre_launch_host(bed.devices[0], bed.streams[0], gate_task, &gate));
        pinned_use(&bed, block, 0);
        REQUIRE_OK(acre_sim_fault_arm(bed.sim, &fault));
        pinned_give(&bed, block);
        EXPECT_EQ(acre_sim_fault_disarm(bed.sim), 1);
        acre_pinned_captured_release(bed.pinned);
        void *other = pinned_take(&bed, 4096);
        EXPECT(other != block);
        gate_open(&gate);
        REQUIRE_OK(acre_stream_native_synchronize(bed.devices[0], bed.streams[0]));
        REQUIRE_OK(pinned_process(bed.pinned));
        EXPECT_PTR_EQ(pinned_take(&bed, 4096), block);
        pinned_bed_close(&bed);
    }
}

/* The n-th record fails, of a block that streams 0, 1 and 2 use. */
static void free_with_failing_record(acre_policy policy, uint64_t nth)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_EVENT_RECORD,
                            .nth = nth, .status = ACRE_ERR_DEVICE};
    struct pinned_bed bed;

    pinned_bed_open(&bed, policy, NULL);
    void *block = pinned_take(&bed, 4096);
    for (int i = 0; i < BED_STREAMS; i++)
        pinned_use(&bed, block, i);
    uint64_t before = heap_live_count();
    REQUIRE_OK(acre_sim_fault_arm(bed.sim, &fault));
    EXPECT_EQ(acre_pinned_free(bed.pinned, block), ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_sim_fault_disarm(bed.sim), 1);
    EXPECT_EQ(bed.pinned->shared.events.pending, 0);
    EXPECT(list_empty(&bed.pinned->shared.events.queues));
    EXPECT(heap_live_count() >= before); /* kept: events, for the next time */
    pinned_give(&bed, block);
    pinned_bed_close(&bed);
}

TEST(a_record_that_fails_gives_nothing_back_twice)
{
    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++)
        for (uint64_t nth = 1; nth <= BED_STREAMS; nth++)
            free_with_failing_record(policy, nth);
}

TEST(what_was_cut_off_the_reserve_in_vain_is_there_again)
{
    struct pinned_bed bed;

    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++)
        for (uint64_t nth = 1, is_over = 0; !is_over; nth++) {
            acre_sim_usage usage = {.struct_size = sizeof usage};
            void *block;
            pinned_bed_open(&bed, policy, "pinned_reserve_segment_size_mb:1");
            heap_fail_nth(nth);
            acre_status status = acre_pinned_alloc(bed.pinned, 900 * KIB, &block);
            is_over = !heap_fail_disarm();
            if (status != ACRE_OK)
                block = pinned_take(&bed, 900 * KIB);
            REQUIRE_OK(acre_sim_usage_get(bed.sim, &usage));
            EXPECT_EQ(usage.host_count, 1);
            pinned_give(&bed, block);
            pinned_bed_close(&bed);
        }
}

/* ---- A child of fork ------------------------------------------------------------------------ */

static void child_destroys(void *arg)
{
    struct pinned_bed *bed = arg;

    alarm(20);
    acre_pinned_destroy(bed->pinned);
}

TEST(a_child_destroys_a_cache_whose_thread_it_has_lost)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_TORCH, "pinned_use_background_threads:True");
    pinned_give(&bed, pinned_take(&bed, 4096));
    REQUIRE(bed.pinned->poller.is_running);
    usleep(100000); /* the thread is waiting by now, as it mostly does */
    EXPECT_EQ(t_child(child_destroys, &bed), 0);
    pinned_bed_close(&bed);
}

/* A device that works in a child: its work is done when a call returns. */
static acre_status plain_alloc(void *self, size_t bytes, void **out_base)
{
    (void)self;
    *out_base = aligned_alloc(4096, round_up(bytes, 4096));
    return *out_base ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

static acre_status plain_free(void *self, void *base)
{
    (void)self;
    free(base);
    return ACRE_OK;
}

static acre_status plain_register(void *self, void *base, size_t bytes)
{
    (void)self;
    (void)base;
    (void)bytes;
    return ACRE_OK;
}

static acre_status plain_unregister(void *self, void *base)
{
    (void)self;
    (void)base;
    return ACRE_OK;
}

struct scene {
    acre_device *device;
    acre_pinned *pinned;
};

static void child_frees(void *arg)
{
    struct scene *scene = arg;
    acre_pinned_stats stats = {.struct_size = sizeof stats};
    void *stream, *first, *second;

    alarm(20);
    REQUIRE_OK(acre_stream_native_create(scene->device, 0, 0, &stream));
    REQUIRE_OK(acre_pinned_alloc(scene->pinned, 4096, &first));
    REQUIRE_OK(acre_pinned_record_stream(scene->pinned, first, scene->device, stream));
    REQUIRE_OK(acre_pinned_free(scene->pinned, first));
    REQUIRE_OK(acre_pinned_alloc(scene->pinned, 4096, &second));
    REQUIRE(second == first);
    /* More than there is: the child gets a thread of its own. */
    REQUIRE_OK(acre_pinned_record_stream(scene->pinned, second, scene->device, stream));
    REQUIRE_OK(acre_pinned_alloc(scene->pinned, 1 << 20, &first));
    REQUIRE_OK(acre_pinned_free(scene->pinned, second));
    do {
        usleep(1000);
        REQUIRE_OK(acre_pinned_stats_get(scene->pinned, &stats));
    } while (stats.waiting_bytes);
    acre_pinned_destroy(scene->pinned);
}

TEST(a_child_looks_at_events_by_itself)
{
    const acre_pinned_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                       .conf = "pinned_use_background_threads:True",
                                       .flags = ACRE_PINNED_NO_ENVIRONMENT};
    struct small small = SMALL_INITIALIZER;
    acre_backend_desc desc = small_desc("plain", ACRE_DEVICE_PRIVATE, &small);
    acre_backend_ops ops = *desc.ops;
    acre_backend *backend;
    struct scene scene;
    void *block;

    T_NEEDS("fork beside threads");
#if defined(__SANITIZE_THREAD__)
    T_SKIP("ThreadSanitizer does not start threads in children of processes with threads");
#endif
    ops.host_alloc = plain_alloc;
    ops.host_free = plain_free;
    ops.host_register = plain_register;
    ops.host_unregister = plain_unregister;
    desc.ops = &ops;
    desc.flags |= ACRE_BACKEND_SYNCHRONOUS | ACRE_BACKEND_FORK_SAFE;
    REQUIRE_OK(acre_backend_register(&desc, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &scene.device));
    REQUIRE_OK(acre_pinned_create(scene.device, &config, &scene.pinned));
    REQUIRE_OK(acre_pinned_alloc(scene.pinned, 4096, &block));
    REQUIRE(scene.pinned->poller.is_running);
    REQUIRE_OK(acre_pinned_free(scene.pinned, block));
    EXPECT_EQ(t_child(child_frees, &scene), 0);
    acre_pinned_destroy(scene.pinned);
    acre_backend_unregister(backend);
}

/* A data pointer goes once and cannot say that it failed. */
TEST(what_a_data_pointer_frees_is_free_once_its_uses_can_be_recorded)
{
    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++) {
        acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_EVENT_RECORD,
                                .nth = 1, .status = ACRE_ERR_DEVICE};
        struct gate gate = {0};
        struct pinned_bed bed;
        acre_allocator *allocator;
        acre_data_ptr ptr;

        pinned_bed_open(&bed, policy, NULL);
        REQUIRE_OK(acre_pinned_allocator(bed.pinned, &allocator));
        REQUIRE_OK(acre_allocator_allocate(allocator, 4096, &ptr));
        void *block = ptr.data;
        REQUIRE_OK(acre_launch_host(bed.devices[0], bed.streams[0], gate_task, &gate));
        pinned_use(&bed, block, 0);
        REQUIRE_OK(acre_sim_fault_arm(bed.sim, &fault));
        acre_data_ptr_clear(&ptr);
        EXPECT_EQ(acre_sim_fault_disarm(bed.sim), 1);
        EXPECT_EQ(acre_pinned_free(bed.pinned, block), ACRE_ERR_INVALID);
        void *other = pinned_take(&bed, 4096);
        EXPECT(other != block); /* a stream uses it still */
        gate_open(&gate);
        REQUIRE_OK(acre_stream_native_synchronize(bed.devices[0], bed.streams[0]));
        REQUIRE_OK(pinned_process(bed.pinned));
        EXPECT_EQ(pinned_verify(bed.pinned), ACRE_OK);
        EXPECT_PTR_EQ(pinned_take(&bed, 4096), block);
        acre_allocator_destroy(allocator);
        pinned_bed_close(&bed);
    }
}

/* ---- A device that refuses to take memory back ---------------------------------------------- */

static const acre_backend_ops *ops_before;
static int refusals;

static acre_status free_reluctantly(void *self, void *base)
{
    if (refusals-- > 0)
        return acre_error_set(ACRE_ERR_DEVICE, 7, "not now");
    return ops_before->host_free(self, base);
}

static acre_status unregister_reluctantly(void *self, void *base)
{
    if (refusals-- > 0)
        return acre_error_set(ACRE_ERR_DEVICE, 7, "not now");
    return ops_before->host_unregister(self, base);
}

/* Allocates from a pool, frees, and empties twice. */
static void give_back_reluctantly(acre_policy policy, const char *conf, bool is_shared)
{
    acre_pool_id id = acre_pool_id_next();
    struct pinned_bed bed;

    pinned_bed_open(&bed, policy, conf);
    acre_backend_ops ops = *bed.devices[0]->ops;
    ops_before = bed.devices[0]->ops;
    ops.host_free = free_reluctantly;
    ops.host_unregister = unregister_reluctantly;
    bed.devices[0]->ops = &ops;
    if (!is_shared)
        REQUIRE_OK(acre_pinned_pool_begin(bed.pinned, id, NULL));
    pinned_give(&bed, pinned_take(&bed, 4096));
    if (!is_shared) {
        REQUIRE_OK(acre_pinned_pool_end(bed.pinned, id));
        REQUIRE_OK(acre_pinned_pool_release(bed.pinned, id));
    }
    refusals = 1;
    EXPECT_EQ(acre_pinned_empty(bed.pinned), ACRE_ERR_DEVICE);
    EXPECT_EQ(pinned_stats(&bed).allocations.current, 1);
    EXPECT_EQ(pinned_verify(bed.pinned), ACRE_OK);
    REQUIRE_OK(acre_pinned_empty(bed.pinned));
    EXPECT_EQ(pinned_stats(&bed).allocations.current, 0);
    EXPECT_EQ(pinned_stats(&bed).num_host_free, 1);
    pinned_bed_close(&bed);
}

TEST(what_the_device_does_not_take_back_is_offered_again)
{
    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++)
        for (int is_shared = 0; is_shared < 2; is_shared++) {
            give_back_reluctantly(policy, NULL, is_shared);
            give_back_reluctantly(policy, "pinned_use_cuda_host_register:True", is_shared);
        }
}

/* Frees of nothing take the slow way and do no more. */
TEST(what_the_device_goes_on_refusing_is_offered_ever_more_rarely)
{
    struct pinned_bed bed;

    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    acre_backend_ops ops = *bed.devices[0]->ops;
    ops_before = bed.devices[0]->ops;
    ops.host_free = free_reluctantly;
    bed.devices[0]->ops = &ops;
    pinned_give(&bed, pinned_take(&bed, 4096));
    refusals = 1000;
    EXPECT_EQ(acre_pinned_empty(bed.pinned), ACRE_ERR_DEVICE);
    for (int i = 0; i < 500; i++)
        EXPECT_EQ(acre_pinned_free(bed.pinned, &bed), ACRE_ERR_INVALID);
    EXPECT_EQ(1000 - refusals, 1 + 7); /* with pauses of 1, 3, 7 and up to 127 calls */
    EXPECT_EQ(acre_pinned_empty(bed.pinned), ACRE_ERR_DEVICE);
    EXPECT_EQ(1000 - refusals, 1 + 7 + 1); /* who asks for it gets a try at once */
    EXPECT_EQ(pinned_verify(bed.pinned), ACRE_OK);
    refusals = 0;
    for (int i = 0; i < 1024; i++)
        EXPECT_EQ(acre_pinned_free(bed.pinned, &bed), ACRE_ERR_INVALID);
    EXPECT_EQ(pinned_stats(&bed).allocations.current, 0);
    pinned_bed_close(&bed);
}

/* Host memory fails in an allocation, and the device does not take back what it has given; whether
 * host memory failed. */
static bool fail_reluctantly(acre_policy policy, const char *conf, uint64_t nth)
{
    struct pinned_bed bed;
    void *pointer;

    pinned_bed_open(&bed, policy, conf);
    acre_backend_ops ops = *bed.devices[0]->ops;
    ops_before = bed.devices[0]->ops;
    ops.host_free = free_reluctantly;
    ops.host_unregister = unregister_reluctantly;
    bed.devices[0]->ops = &ops;
    heap_fail_nth(nth);
    refusals = 2; /* the second try to allocate gives it back as well */
    acre_status status = acre_pinned_alloc(bed.pinned, 3 * MIB, &pointer);
    bool was_failed = heap_fail_disarm();
    refusals = 0;
    EXPECT_EQ(pinned_verify(bed.pinned), ACRE_OK);
    if (status == ACRE_OK)
        pinned_give(&bed, pointer);
    else
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
    REQUIRE_OK(acre_pinned_empty(bed.pinned));
    EXPECT_EQ(pinned_stats(&bed).allocations.current, 0);
    EXPECT_EQ(pinned_stats(&bed).allocated_bytes.current, 0);
    pinned_bed_close(&bed); /* nothing is left */
    return was_failed;
}

TEST(what_is_not_taken_back_without_host_memory_is_offered_again)
{
    for (acre_policy policy = ACRE_POLICY_TORCH; policy <= ACRE_POLICY_ACRE; policy++)
        for (int i = 0; i < 2; i++)
            for (uint64_t nth = 1;; nth++)
                if (!fail_reluctantly(policy, i ? "pinned_use_cuda_host_register:True" : NULL,
                                      nth))
                    break;
}

T_MAIN()
