/* SPDX-License-Identifier: MIT */
/* Work whose caller stops waiting: it has a place for its result as long as it is queued. */
#include "base/heap.h"
#include "tests/support/sim_rig.h"

#include <acre/collective.h>

struct bench {
    acre_device *device;
    acre_store *store;
    acre_group *group;
    acre_symm *symm;
    void *memory, *stream;
};

static void bench_open(struct bench *bench)
{
    rig_open(NULL);
    REQUIRE_OK(acre_backend_device(rig.backend, 0, &bench->device));
    REQUIRE_OK(acre_store_create_local(&bench->store));
    acre_group_config group = {.struct_size = sizeof group, .world_size = 1, .name = "one",
                               .store = bench->store};
    REQUIRE_OK(acre_group_create(&group, &bench->group));
    acre_symm_config config = {.struct_size = sizeof config, .device = bench->device};
    REQUIRE_OK(acre_symm_alloc(&config, 4096, &bench->memory));
    REQUIRE_OK(acre_symm_rendezvous(bench->memory, "one", &bench->symm));
    bench->stream = rig_stream(0);
}

static void bench_close(struct bench *bench)
{
    acre_symm_release(bench->symm);
    acre_symm_free(bench->memory);
    acre_group_destroy(bench->group);
    acre_store_destroy(bench->store);
    REQUIRE_OK(OP(stream_destroy, 0, bench->stream));
    rig_close();
}

static acre_status bench_reduce(struct bench *bench, uint32_t is_async)
{
    acre_collective_options options = {.struct_size = sizeof options, .stream = bench->stream,
                                       .is_async = is_async};

    return acre_symm_all_reduce(bench->symm, 0, 64, ACRE_DTYPE_F32, NULL, &options);
}

/* Fills the stack below the caller, waits for the stream, and counts what changed. */
static __attribute__((noinline)) int frame_damage(struct bench *bench, struct rig_gate *gate)
{
    volatile long frame[512];
    int damage = 0;

    for (int i = 0; i < 512; i++)
        frame[i] = 0x5151515151515151;
    rig_gate_open(gate);
    REQUIRE_OK(OP(stream_synchronize, 0, bench->stream));
    for (int i = 0; i < 512; i++)
        damage += frame[i] != 0x5151515151515151;
    return damage;
}

TEST(a_failed_wait_leaves_queued_work_nothing_of_the_stack)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_STREAM_SYNC};
    struct bench bench;

    bench_open(&bench);
    uint64_t before = heap_live_count();
    REQUIRE_OK(OP(launch_host, 0, bench.stream, rig_gate_task, &gate));
    rig_gate_await(&gate, 1);
    REQUIRE_OK(acre_sim_fault_arm(rig.backend, &fault));
    EXPECT_EQ(bench_reduce(&bench, 0), ACRE_ERR_DEVICE);
    acre_sim_fault_disarm(rig.backend);
    EXPECT_EQ(frame_damage(&bench, &gate), 0);
    EXPECT_EQ(heap_live_count(), before); /* the work freed its result */
    EXPECT_EQ(bench_reduce(&bench, 0), ACRE_OK);
    bench_close(&bench);
}

/* A graph would tell a caller that has long returned, at each launch. */
TEST(work_on_a_captured_stream_is_not_waited_for)
{
    struct bench bench;
    void *graph = NULL;

    bench_open(&bench);
    REQUIRE_OK(OP(capture_begin, 0, bench.stream));
    EXPECT_EQ(bench_reduce(&bench, 0), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "is_async");
    EXPECT_EQ(bench_reduce(&bench, 1), ACRE_OK);
    REQUIRE_OK(OP(capture_end, 0, bench.stream, &graph));
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(OP(graph_launch, 0, graph, bench.stream));
    REQUIRE_OK(OP(stream_synchronize, 0, bench.stream));
    EXPECT_EQ(acre_symm_status(bench.symm), ACRE_OK);
    REQUIRE_OK(OP(graph_destroy, 0, graph));
    bench_close(&bench);
}

T_MAIN()
