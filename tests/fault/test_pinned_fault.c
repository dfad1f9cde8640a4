/* SPDX-License-Identifier: MIT */
/* Every device call and every host allocation of a scenario fails in turn. A call that
 * meets the failure goes on without what failed, or gives one clean error and leaves
 * everything as it was; the same call then succeeds. At the end nothing is left. */
#include "pinned/pinned.h"
#include "tests/support/pinned_bed.h"

static struct pinned_bed bed;

/* Repeats a call that failed; the first failure is the injected one. */
static void retry(acre_status status, acre_status (*call)(void *), void *arg)
{
    EXPECT_EQ(pinned_verify(bed.pinned), ACRE_OK);
    if (status == ACRE_OK)
        return;
    EXPECT(status == ACRE_ERR_HOST_MEMORY || status == ACRE_ERR_DEVICE);
    EXPECT(*acre_last_error());
    status = call(arg);
    if (status != ACRE_OK)
        t_fail(__FILE__, __LINE__, "again: %s", acre_last_error());
}

struct step {
    void *pointer;
    size_t bytes;
    int stream;
};

static acre_status do_alloc(void *arg)
{
    struct step *step = arg;

    return acre_pinned_alloc(bed.pinned, step->bytes, &step->pointer);
}

static acre_status do_use(void *arg)
{
    struct step *step = arg;

    return acre_pinned_record_stream(bed.pinned, step->pointer,
                                     pinned_bed_device(&bed, step->stream),
                                     bed.streams[step->stream]);
}

static acre_status do_free(void *arg)
{
    return acre_pinned_free(bed.pinned, ((struct step *)arg)->pointer);
}

static acre_status do_process(void *arg)
{
    (void)arg;
    return pinned_process(bed.pinned);
}

static acre_status do_begin(void *arg)
{
    return acre_pinned_pool_begin(bed.pinned, *(acre_pool_id *)arg, NULL);
}

static acre_status do_history(void *arg)
{
    acre_history_config config = {.struct_size = sizeof config, .max_entries = 20,
                                  .level = ACRE_CONTEXT_ALL};

    (void)arg;
    return acre_pinned_history_start(bed.pinned, &config);
}

static acre_status do_snapshot(void *arg)
{
    acre_snapshot *snapshot;
    acre_status status = acre_pinned_snapshot(bed.pinned, NULL, &snapshot);

    (void)arg;
    if (status == ACRE_OK)
        acre_snapshot_close(snapshot);
    return status;
}

#define RETRY(call, arg) retry(call(arg), call, arg)

static void scenario(void)
{
    struct step steps[] = {{.bytes = 100}, {.bytes = 5000, .stream = 1}, {.bytes = 300000},
                           {.bytes = 3 << 20, .stream = 2}, {.bytes = 100000, .stream = 1}};
    enum { STEPS = sizeof steps / sizeof steps[0] };
    acre_pool_id id = acre_pool_id_next();

    for (int i = 0; i < STEPS; i++)
        RETRY(do_alloc, &steps[i]);
    for (int i = 0; i < STEPS; i++)
        RETRY(do_use, &steps[i]);
    RETRY(do_history, NULL);
    for (int i = 0; i < STEPS; i++)
        RETRY(do_free, &steps[i]);
    for (int i = 0; i < BED_STREAMS; i++)
        while (acre_stream_native_synchronize(pinned_bed_device(&bed, i), bed.streams[i]))
            ;
    RETRY(do_process, NULL);
    RETRY(do_begin, &id);
    RETRY(do_alloc, &steps[2]);
    RETRY(do_free, &steps[2]);
    RETRY(do_snapshot, NULL);
    REQUIRE_OK(acre_pinned_pool_end(bed.pinned, id));
    REQUIRE_OK(acre_pinned_pool_release(bed.pinned, id));
    REQUIRE_OK(acre_pinned_empty(bed.pinned));
    acre_pinned_history_stop(bed.pinned);
}

static void expect_nothing(void)
{
    acre_pinned_stats stats = pinned_stats(&bed);
    bool has_reserve = bed.pinned->reserve.base && !pinned_is_torch(bed.pinned);

    EXPECT_EQ(stats.active_requests.current, 0);
    EXPECT_EQ(stats.allocated_bytes.current, has_reserve ? 1 * MIB : 0);
    EXPECT_EQ(stats.waiting_bytes, 0);
}

/* Sanitizers look at every fifth. */
static uint64_t stride(void)
{
    return getenv("ACRE_TEST_SHORT") ? 5 : 1;
}

static void fail_device_calls(acre_policy policy, const char *conf)
{
    pinned_bed_open(&bed, policy, conf);
    for (uint64_t nth = 1;; nth += stride()) {
        acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_ANY, .nth = nth,
                                .status = nth % 2 ? ACRE_ERR_DEVICE : ACRE_ERR_HOST_MEMORY};
        REQUIRE_OK(acre_sim_fault_arm(bed.sim, &fault));
        scenario();
        uint64_t failed = acre_sim_fault_disarm(bed.sim);
        expect_nothing();
        if (!failed)
            break;
        pinned_bed_end(&bed);
        pinned_bed_begin(&bed, policy, conf);
    }
    pinned_bed_close(&bed);
}

static void fail_host_allocations(acre_policy policy, const char *conf)
{
    pinned_bed_open(&bed, policy, conf);
    for (uint64_t nth = 1;; nth += stride()) {
        heap_fail_nth(nth);
        scenario();
        int failed = heap_fail_disarm();
        expect_nothing();
        if (!failed)
            break;
        pinned_bed_end(&bed);
        pinned_bed_begin(&bed, policy, conf);
    }
    pinned_bed_close(&bed);
}

TEST(every_device_call_may_fail)
{
    fail_device_calls(ACRE_POLICY_ACRE, NULL);
    fail_device_calls(ACRE_POLICY_TORCH, NULL);
}

TEST(every_host_allocation_may_fail)
{
    fail_host_allocations(ACRE_POLICY_ACRE, NULL);
    fail_host_allocations(ACRE_POLICY_TORCH, NULL);
}

TEST(registering_and_the_reserve_may_fail)
{
    static const char conf[] = "pinned_use_cuda_host_register:True,"
                               "pinned_reserve_segment_size_mb:1,pinned_num_register_threads:2";

    fail_device_calls(ACRE_POLICY_ACRE, conf);
    fail_host_allocations(ACRE_POLICY_TORCH, conf);
    fail_host_allocations(ACRE_POLICY_ACRE, conf);
}

TEST(creating_may_fail)
{
    acre_pinned_config config = {.struct_size = sizeof config,
                                 .flags = ACRE_PINNED_NO_ENVIRONMENT};

    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    for (uint64_t nth = 1;; nth++) {
        acre_allocator *allocator;
        acre_pinned *pinned;
        uint64_t before = heap_live_count();
        heap_fail_nth(nth);
        acre_status status = acre_pinned_create(bed.devices[0], &config, &pinned);
        if (status == ACRE_OK) {
            status = acre_pinned_allocator(pinned, &allocator);
            if (status == ACRE_OK)
                acre_allocator_destroy(allocator);
            acre_pinned_destroy(pinned);
        }
        EXPECT_EQ(heap_live_count(), before);
        if (!heap_fail_disarm())
            break;
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
    }
    pinned_bed_close(&bed);
}

T_MAIN()
