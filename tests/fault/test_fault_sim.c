/* SPDX-License-Identifier: MIT */
/* The reference device when something fails.
 *
 * Each scenario is run with its first host allocation failing, then its second, and so
 * on until none is left to fail; then the same with the calls of the device. Each time
 * one clean error must come back, and nothing may be left: no handles and bytes on the
 * device, no host memory, descriptors, mappings or threads.
 */
#include "tests/support/sim_rig.h"

#include <stdatomic.h>

enum { BYTES = 4096, MANY = 80 };

/* What a scenario made, so that it is cleaned up from anywhere. Streams and events of
 * an index belong to the device that is said for it. */
struct made {
    void *streams[MANY], *events[MANY], *graphs[4], *memory[2];
    int device[MANY];
};

static struct made made;
static _Atomic uint64_t ran;

#define TRY(call)                                                              \
    do {                                                                       \
        acre_status try_status = (call);                                       \
        if (try_status != ACRE_OK)                                             \
            return try_status;                                                 \
    } while (0)

static void count_up(void *arg)
{
    (void)arg;
    atomic_fetch_add(&ran, 1);
}

struct big {
    char bytes[200];
};

static void big_kernel(acre_kernel_context *context, void *args)
{
    void *memory = *(void **)args;

    if (context->pointer(context, memory, BYTES))
        atomic_fetch_add(&ran, 1);
}

/* ---- Scenarios -------------------------------------------------------------------------- */

/* More streams, events and tasks than fit what is there from the start. */
static acre_status many_handles(void)
{
    for (int i = 0; i < MANY; i++) {
        made.device[i] = i % 2;
        TRY(OP(stream_create, i % 2, 0, 0, &made.streams[i]));
        TRY(OP(event_create, i % 2, ACRE_EVENT_TIMING, &made.events[i]));
    }
    return ACRE_OK;
}

static acre_status deep_queue(void)
{
    static struct rig_gate gate; /* outlives its task whatever happens */
    acre_status status = ACRE_OK;

    gate = (struct rig_gate)RIG_GATE_INITIALIZER;
    TRY(OP(stream_create, 0, 0, 0, &made.streams[0]));
    TRY(OP(event_create, 0, ACRE_EVENT_TIMING, &made.events[0]));
    TRY(OP(launch_host, 0, made.streams[0], rig_gate_task, &gate));
    for (int i = 0; status == ACRE_OK && i < 20; i++)
        status = OP(launch_host, 0, made.streams[0], count_up, NULL);
    if (status == ACRE_OK)
        status = OP(event_record, 0, made.events[0], made.streams[0]);
    rig_gate_open(&gate);
    TRY(status);
    TRY(OP(stream_synchronize, 0, made.streams[0]));
    return OP(event_synchronize, 0, made.events[0]);
}

static acre_status work_of_all_kinds(void)
{
    static unsigned char host[BYTES];
    struct big args;
    uint32_t *value;

    TRY(OP(alloc, 0, BYTES, &made.memory[0]));
    TRY(OP(alloc, 1, BYTES, &made.memory[1]));
    TRY(OP(stream_create, 0, 0, 1, &made.streams[0]));
    TRY(OP(event_create, 0, 0, &made.events[0]));
    memcpy(&args, &made.memory[0], sizeof made.memory[0]);
    value = made.memory[0];
    TRY(OP(copy, made.memory[0], host, BYTES, ACRE_COPY_HOST_TO_DEVICE));
    /* Not the value: the default stream looks at it while this stream fills. */
    TRY(OP(fill_async, 0, (char *)made.memory[0] + 64, 1, BYTES - 64, made.streams[0]));
    TRY(OP(launch_kernel, 0, made.streams[0], big_kernel, &args, sizeof args));
    TRY(OP(write_value32, 0, made.streams[0], value, 5));
    TRY(OP(event_record, 0, made.events[0], made.streams[0]));
    /* The copy goes to the default stream of its source, which this call makes. */
    TRY(OP(stream_wait_event, 0, NULL, made.events[0]));
    TRY(OP(copy_peer_async, made.memory[1], 1, made.memory[0], 0, BYTES, NULL));
    TRY(OP(wait_value32, 0, NULL, value, 5, ACRE_WAIT_EQ));
    TRY(OP(device_synchronize, 0));
    TRY(OP(device_synchronize, 1));
    TRY(OP(copy, host, made.memory[1], BYTES, ACRE_COPY_DEVICE_TO_HOST));
    TRY(OP(event_query, 0, made.events[0]));
    if (host[0] != 5 || host[100] != 1)
        t_fail(__FILE__, __LINE__, "work went wrong without an error");
    memset(host, 0, sizeof host);
    return OP(stream_synchronize, 0, made.streams[0]);
}

static acre_status capture_and_graphs(void)
{
    struct big args = {{0}};

    TRY(OP(alloc, 0, BYTES, &made.memory[0]));
    memcpy(&args, &made.memory[0], sizeof made.memory[0]);
    for (int i = 0; i < 3; i++)
        TRY(OP(stream_create, 0, 0, 0, &made.streams[i]));
    for (int i = 0; i < 2; i++)
        TRY(OP(event_create, 0, 0, &made.events[i]));
    for (int g = 0; g < 2; g++) {
        TRY(OP(capture_begin, 0, made.streams[0]));
        if (g == 1)
            TRY(OP(graph_launch, 0, made.graphs[0], made.streams[0]));
        TRY(OP(launch_kernel, 0, made.streams[0], big_kernel, &args, sizeof args));
        TRY(OP(event_record, 0, made.events[0], made.streams[0]));
        TRY(OP(stream_wait_event, 0, made.streams[1], made.events[0]));
        for (int i = 0; i < 10; i++)
            TRY(OP(launch_host, 0, made.streams[1], count_up, NULL));
        TRY(OP(event_record, 0, made.events[1], made.streams[1]));
        TRY(OP(stream_wait_event, 0, made.streams[0], made.events[1]));
        TRY(OP(capture_end, 0, made.streams[0], &made.graphs[g]));
    }
    TRY(OP(graph_launch, 0, made.graphs[0], made.streams[2]));
    TRY(OP(graph_launch, 0, made.graphs[1], made.streams[2]));
    return OP(stream_synchronize, 0, made.streams[2]);
}

static const struct scenario {
    const char *name;
    acre_status (*run)(void);
} scenarios[] = {
    {"many handles", many_handles},
    {"deep queue", deep_queue},
    {"work of all kinds", work_of_all_kinds},
    {"capture and graphs", capture_and_graphs},
};

enum { SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

/* ---- Running them ----------------------------------------------------------------------- */

/* Destroys what was made; no fault is armed any more. */
static void clean(void)
{
    for (int i = 0; i < 4; i++)
        if (made.graphs[i])
            EXPECT_OK(OP(graph_destroy, 0, made.graphs[i]));
    for (int i = 0; i < MANY; i++) {
        if (made.streams[i])
            EXPECT_OK(OP(stream_destroy, made.device[i], made.streams[i]));
        if (made.events[i])
            EXPECT_OK(OP(event_destroy, made.device[i], made.events[i]));
    }
    EXPECT_OK(OP(device_synchronize, 0)); /* default streams */
    EXPECT_OK(OP(device_synchronize, 1));
    for (int i = 0; i < 2; i++)
        if (made.memory[i])
            EXPECT_OK(OP(free, i, made.memory[i]));
}

static void expect_nothing_held(const char *name)
{
    acre_sim_usage usage = rig_usage();

    if (usage.alloc_count || usage.stream_count || usage.event_count || usage.graph_count ||
        usage.bytes_used || usage.handle_count || usage.map_count || usage.window_count)
        t_fail(__FILE__, __LINE__, "%s: the device still holds something", name);
}

/* Runs a scenario on a device of its own. fail_heap and fail_call say which allocation
 * and which call of the device fail, 0 none. Tells whether one did. */
static bool run(const struct scenario *scenario, unsigned fail_heap, unsigned fail_call,
                acre_status *out)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_ANY, .nth = fail_call,
                            .status = ACRE_ERR_BUSY};
    uint64_t struck = 0;

    made = (struct made){0};
    heap_fail_nth(fail_heap);
    *out = rig_try(NULL);
    if (*out == ACRE_OK && fail_call)
        REQUIRE_OK(acre_sim_fault_arm(rig.backend, &fault));
    if (*out == ACRE_OK)
        *out = scenario->run();
    if (fail_heap)
        struck = (uint64_t)heap_fail_disarm();
    else if (fail_call)
        struck = acre_sim_fault_disarm(rig.backend);
    if (rig.backend) {
        clean();
        expect_nothing_held(scenario->name);
    }
    rig_close();
    return struck > 0;
}

/* Mappings are few and stay few; stacks and arenas of the C library are kept by it. */
#define MAPS_SLACK 64

TEST(every_host_allocation_may_fail)
{
    acre_status status;

    for (int s = 0; s < SCENARIOS; s++) {
        unsigned nth = 1;

        EXPECT(!run(&scenarios[s], 0, 0, &status));
        EXPECT_OK(status);
        int maps = t_map_count();
        for (; run(&scenarios[s], nth, 0, &status); nth++) {
            if (status != ACRE_ERR_HOST_MEMORY)
                t_fail(__FILE__, __LINE__, "%s, allocation %u: %s (%s)", scenarios[s].name, nth,
                       acre_status_name(status), acre_last_error());
        }
        EXPECT_OK(status);
        EXPECT_GT(nth, 5);
        EXPECT_LE(t_map_count(), maps + MAPS_SLACK);
        printf("  %s: %u allocations\n", scenarios[s].name, nth - 1);
    }
}

TEST(every_call_of_the_device_may_fail)
{
    acre_status status;

    for (int s = 0; s < SCENARIOS; s++) {
        unsigned nth = 1;

        for (; run(&scenarios[s], 0, nth, &status); nth++) {
            if (status != ACRE_ERR_BUSY)
                t_fail(__FILE__, __LINE__, "%s, call %u: %s (%s)", scenarios[s].name, nth,
                       acre_status_name(status), acre_last_error());
        }
        EXPECT_OK(status);
        EXPECT_GT(nth, 5);
        printf("  %s: %u calls\n", scenarios[s].name, nth - 1);
    }
}

T_MAIN()
