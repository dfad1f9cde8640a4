/* SPDX-License-Identifier: MIT */
/* Work of the reference device: copies, fills, kernels, multicast. */
#include "sim/work/sim_stream.h"

#include "tests/support/sim_rig.h"

#include <stdatomic.h>

static void pattern(unsigned char *bytes, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + seed + i / 251);
}

/* Whether device memory holds the pattern. */
static int holds(const void *memory, size_t count, unsigned seed)
{
    unsigned char *seen = malloc(count), *wanted = malloc(count);
    int is_same;

    pattern(wanted, count, seed);
    rig_get(seen, memory, count);
    is_same = memcmp(seen, wanted, count) == 0;
    free(seen);
    free(wanted);
    return is_same;
}

/* ---- Copies --------------------------------------------------------------------------- */

TEST(D14_D21_bytes_survive_a_round_trip)
{
    enum { BYTES = 100000 };
    static unsigned char out[BYTES], back[BYTES];

    rig_open(NULL);
    for (int to = 0; to < 2; to++) {
        char *a = rig_alloc(0, 1 << 17), *b = rig_alloc(to, 1 << 17);

        rig_get(back, a, BYTES);
        for (int i = 0; i < BYTES; i++)
            REQUIRE_EQ(back[i], 0);
        pattern(out, BYTES, (unsigned)to);
        rig_put(a + 5, out, BYTES);
        EXPECT_OK(OP(copy, b + 77, a + 5, BYTES, ACRE_COPY_DEVICE_TO_DEVICE));
        rig_get(back, b + 77, BYTES);
        EXPECT(memcmp(out, back, BYTES) == 0);
        memset(back, 0, BYTES);
        EXPECT_OK(OP(copy, back, out, BYTES, ACRE_COPY_HOST_TO_HOST));
        EXPECT(memcmp(out, back, BYTES) == 0);
    }
    rig_close();
}

TEST(D15_the_twelve_wrong_pairings_move_nothing)
{
    unsigned char plain[64] = {0}, source[64];
    void *pinned;
    int refused = 0;

    rig_open(NULL);
    char *device = rig_alloc(0, 4096), *device2 = rig_alloc(1, 4096);
    REQUIRE_OK(OP(host_alloc, 4096, &pinned));
    memset(pinned, 0, 64);
    memset(source, 9, 64);
    void *dsts[3] = {plain, pinned, device}, *srcs[3] = {source, source, device2};
    rig_put(device2, source, 64);
    for (int d = 0; d < 3; d++) {
        for (int s = 0; s < 3; s += 2) {
            for (int kind = 0; kind < 4; kind++) {
                int fits = (d == 2) == (kind == 1 || kind == 3) &&
                           (s == 2) == (kind == 2 || kind == 3);

                if (fits)
                    continue;
                refused++;
                EXPECT_STATUS(OP(copy, dsts[d], srcs[s], 64, (acre_copy_kind)kind),
                              ACRE_ERR_INVALID);
                EXPECT_OK(OP(copy_async, 0, dsts[d], srcs[s], 64, (acre_copy_kind)kind, NULL));
                EXPECT_STATUS(OP(stream_synchronize, 0, NULL), ACRE_ERR_INVALID);
            }
        }
    }
    EXPECT_EQ(refused, 18); /* twelve, and the six with page-locked memory */
    for (int i = 0; i < 64; i++)
        EXPECT(plain[i] == 0 && ((char *)pinned)[i] == 0);
    rig_get(plain, device, 64);
    for (int i = 0; i < 64; i++)
        EXPECT_EQ(plain[i], 0);
    rig_close();
}

TEST(D16_D17_empty_copies_and_unknown_kinds_are_refused)
{
    char a[8], b[8];

    rig_open(NULL);
    EXPECT_STATUS(OP(copy, a, b, 0, ACRE_COPY_HOST_TO_HOST), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy, NULL, b, 8, ACRE_COPY_HOST_TO_HOST), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy, a, NULL, 8, ACRE_COPY_HOST_TO_HOST), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy, a, b, SIZE_MAX, ACRE_COPY_HOST_TO_HOST), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy, a, b, 8, (acre_copy_kind)4), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy, a, b, 8, (acre_copy_kind)7), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy, a, b, 8, (acre_copy_kind)-1), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "-1");
    rig_close();
}

TEST(D18_copies_past_the_end_move_nothing)
{
    static unsigned char host[8192];

    rig_open(NULL);
    char *memory = rig_alloc(0, 4096);
    memset(host, 1, sizeof host);
    EXPECT_STATUS(OP(copy, memory, host, 4097, ACRE_COPY_HOST_TO_DEVICE), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy, memory + 4000, host, 97, ACRE_COPY_HOST_TO_DEVICE), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy, host, memory, 4097, ACRE_COPY_DEVICE_TO_HOST), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy, host, memory, SIZE_MAX, ACRE_COPY_DEVICE_TO_HOST), ACRE_ERR_INVALID);
    EXPECT_OK(OP(fill_async, 0, memory + 1, 1, 4096, NULL));
    EXPECT_STATUS(OP(stream_synchronize, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(host[0], 1);
    rig_get(host, memory, 4096);
    for (int i = 0; i < 4096; i++)
        EXPECT_EQ(host[i], 0);
    EXPECT_OK(OP(copy, memory + 4000, host, 96, ACRE_COPY_HOST_TO_DEVICE));
    rig_close();
}

TEST(D19_overlapping_ranges_behave_as_through_a_temporary)
{
    enum { BYTES = 10000 };
    static unsigned char host[BYTES + 100], wanted[BYTES + 100];

    rig_open(NULL);
    char *memory = rig_alloc(0, 1 << 14);
    for (int shift = -50; shift <= 50; shift += 25) {
        pattern(host, sizeof host, 3);
        rig_put(memory, host, sizeof host);
        memcpy(wanted, host, sizeof host);
        memmove(wanted + 50 + shift, wanted + 50, BYTES);
        EXPECT_OK(OP(copy, memory + 50 + shift, memory + 50, BYTES, ACRE_COPY_DEVICE_TO_DEVICE));
        rig_get(host, memory, sizeof host);
        EXPECT(memcmp(host, wanted, sizeof host) == 0);
    }
    rig_close();
}

static void touch(void *arg)
{
    *(volatile char *)arg = 1;
}

TEST(D20_memory_is_inaccessible_after_any_copy)
{
    char host[16] = {0};

    rig_open(NULL);
    char *memory = rig_alloc(0, 4096);
    rig_put(memory, host, 16);
    EXPECT(t_faults(touch, memory));
    EXPECT_STATUS(OP(copy, memory, host, 16, ACRE_COPY_HOST_TO_HOST), ACRE_ERR_INVALID);
    EXPECT(t_faults(touch, memory));
    rig_close();
}

TEST(D41_arguments_are_taken_at_the_call)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    unsigned char host[64], other[64];

    rig_open(NULL);
    void *stream = rig_stream(0), *memory = rig_alloc(0, 4096);
    const void *source = host;
    pattern(host, 64, 1);
    pattern(other, 64, 2);
    REQUIRE_OK(OP(launch_host, 0, stream, rig_gate_task, &gate));
    REQUIRE_OK(OP(copy_async, 0, memory, source, 64, ACRE_COPY_HOST_TO_DEVICE, stream));
    source = other;
    rig_gate_open(&gate);
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    EXPECT(holds(memory, 64, 1));
    rig_close();
}

TEST(work_on_memory_freed_meanwhile_fails_cleanly)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    char host[64];

    rig_open(NULL);
    void *stream = rig_stream(0), *memory = rig_alloc(0, 4096);
    REQUIRE_OK(OP(launch_host, 0, stream, rig_gate_task, &gate));
    REQUIRE_OK(OP(copy_async, 0, host, memory, 64, ACRE_COPY_DEVICE_TO_HOST, stream));
    REQUIRE_OK(OP(fill_async, 0, memory, 1, 64, stream));
    REQUIRE_OK(OP(write_value32, 0, stream, memory, 64));
    REQUIRE_OK(OP(wait_value32, 0, stream, memory, 64, ACRE_WAIT_EQ));
    REQUIRE_OK(OP(free, 0, memory));
    rig_gate_open(&gate);
    EXPECT_STATUS(OP(stream_synchronize, 0, stream), ACRE_ERR_INVALID);
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    rig_close();
}

TEST(peer_copies_need_no_peer_access)
{
    acre_sim_config config = {.struct_size = sizeof config, .devices = 3,
                              .memory_bytes = 16 << 20, .peers = ACRE_SIM_PEERS_NONE};
    unsigned char host[256];

    rig_open(&config);
    void *a = rig_alloc(0, 4096), *b = rig_alloc(1, 4096), *third = rig_stream(2);
    pattern(host, 256, 5);
    rig_put(a, host, 256);
    EXPECT_OK(OP(copy_peer_async, b, 1, a, 0, 256, third));
    EXPECT_OK(OP(stream_synchronize, 2, third));
    EXPECT(holds(b, 256, 5));
    EXPECT_OK(OP(copy_peer_async, b, 0, a, 0, 256, NULL)); /* b is not of device 0 */
    EXPECT_STATUS(OP(stream_synchronize, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy_peer_async, b, 1, a, 3, 256, NULL), ACRE_ERR_RANGE);
    EXPECT_STATUS(OP(copy_peer_async, b, -1, a, 0, 256, NULL), ACRE_ERR_RANGE);
    EXPECT_OK(OP(copy_peer_async, b, 1, host, 0, 256, third));
    EXPECT_STATUS(OP(stream_synchronize, 2, third), ACRE_ERR_INVALID);
    rig_close();
}

TEST(fills_set_exactly_their_bytes)
{
    unsigned char host[300];

    rig_open(NULL);
    char *memory = rig_alloc(0, 4096);
    EXPECT_OK(OP(fill_async, 0, memory + 10, 0x1ab, 200, NULL));
    EXPECT_OK(OP(stream_synchronize, 0, NULL));
    rig_get(host, memory, 300);
    for (int i = 0; i < 300; i++)
        EXPECT_EQ(host[i], i >= 10 && i < 210 ? 0xab : 0);
    EXPECT_OK(OP(fill_async, 0, host, 1, 10, NULL)); /* not memory of the device */
    EXPECT_STATUS(OP(stream_synchronize, 0, NULL), ACRE_ERR_INVALID);
    rig_close();
}

/* ---- Kernels ---------------------------------------------------------------------------- */

struct scale {
    float *values;
    size_t count;
    float factor;
    int *is_null; /* host: whether the memory could not be reached */
    char padding[100]; /* more than a task holds inside */
};

static void scale_kernel(acre_kernel_context *context, void *args)
{
    struct scale *scale = args;
    float *values = context->pointer(context, scale->values, scale->count * sizeof *values);

    *scale->is_null = values == NULL;
    for (size_t i = 0; values && i < scale->count; i++)
        values[i] *= scale->factor;
}

TEST(kernels_work_on_device_memory_with_their_own_arguments)
{
    float host[100];
    int is_null = -1;

    rig_open(NULL);
    void *stream = rig_stream(0);
    struct scale scale = {rig_alloc(0, 4096), 100, 3, &is_null, {0}};
    for (int i = 0; i < 100; i++)
        host[i] = (float)i;
    rig_put(scale.values, host, sizeof host);
    REQUIRE_OK(OP(launch_kernel, 0, stream, scale_kernel, &scale, sizeof scale));
    REQUIRE_OK(OP(launch_kernel, 0, stream, scale_kernel, &scale, offsetof(struct scale, padding)));
    float *values = scale.values;
    scale = (struct scale){0}; /* the kernels have copies */
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    EXPECT_EQ(is_null, 0);
    rig_get(host, values, sizeof host);
    for (int i = 0; i < 100; i++)
        EXPECT(host[i] == (float)i * 9);
    EXPECT_STATUS(OP(launch_kernel, 0, stream, NULL, NULL, 0), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(launch_kernel, 0, stream, scale_kernel, NULL, 8), ACRE_ERR_INVALID);
    rig_close();
}

TEST(kernels_do_not_reach_what_they_must_not)
{
    float host[4];
    int is_null = -1;

    rig_open(NULL);
    struct scale scale = {rig_alloc(1, 4096), 4, 2, &is_null, {0}};
    void *other = scale.values;
    REQUIRE_OK(OP(launch_kernel, 0, NULL, scale_kernel, &scale, sizeof scale));
    EXPECT_OK(OP(stream_synchronize, 0, NULL));
    EXPECT_EQ(is_null, 1); /* no peer access */
    REQUIRE_OK(OP(peer_enable, 0, 1));
    REQUIRE_OK(OP(launch_kernel, 0, NULL, scale_kernel, &scale, sizeof scale));
    EXPECT_OK(OP(stream_synchronize, 0, NULL));
    EXPECT_EQ(is_null, 0);
    scale.count = 1025; /* past the end */
    REQUIRE_OK(OP(launch_kernel, 0, NULL, scale_kernel, &scale, sizeof scale));
    EXPECT_OK(OP(stream_synchronize, 0, NULL));
    EXPECT_EQ(is_null, 1);
    scale.values = host;
    scale.count = 4;
    REQUIRE_OK(OP(launch_kernel, 0, NULL, scale_kernel, &scale, sizeof scale));
    EXPECT_OK(OP(stream_synchronize, 0, NULL));
    EXPECT_EQ(is_null, 1);
    REQUIRE_OK(OP(free, 1, other));
    scale.values = other;
    REQUIRE_OK(OP(launch_kernel, 0, NULL, scale_kernel, &scale, sizeof scale));
    EXPECT_OK(OP(stream_synchronize, 0, NULL));
    EXPECT_EQ(is_null, 1);
    rig_close();
}

struct hold {
    void *memory;
    struct rig_gate *gate;
};

/* Has the memory in use for as long as the test wants. */
static void hold_kernel(acre_kernel_context *context, void *args)
{
    struct hold *hold = args;
    unsigned char *bytes = context->pointer(context, hold->memory, 4096);

    rig_gate_task(hold->gate);
    if (bytes)
        bytes[4095] = bytes[0];
}

TEST(no_lock_is_held_while_memory_is_worked_on)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    unsigned char host[64], last;

    rig_open(NULL);
    struct hold hold = {rig_alloc(0, 4096), &gate};
    pattern(host, 64, 8);
    REQUIRE_OK(OP(launch_kernel, 0, rig_stream(0), hold_kernel, &hold, sizeof hold));
    rig_gate_await(&gate, 1);
    rig_put(hold.memory, host, 64); /* the same memory */
    EXPECT(holds(hold.memory, 64, 8));
    void *other = rig_alloc(0, 4096);
    REQUIRE_OK(OP(fill_async, 0, other, 1, 4096, NULL));
    EXPECT_OK(OP(stream_synchronize, 0, NULL));
    EXPECT_OK(OP(free, 0, other));
    rig_gate_open(&gate);
    EXPECT_OK(OP(device_synchronize, 0));
    rig_get(&last, (char *)hold.memory + 4095, 1);
    EXPECT_EQ(last, host[0]);
    rig_close();
}

struct many {
    char *memory;
    int failed;
};

static void many_kernel(acre_kernel_context *context, void *args)
{
    struct many *many = *(struct many **)args;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 100; i++) {
            char *byte = context->pointer(context, many->memory + i, 1);

            many->failed += !byte;
            if (byte)
                *byte = (char)(*byte + i);
        }
    }
}

TEST(a_kernel_may_ask_for_many_pointers)
{
    struct many many = {0}, *args = &many;
    char host[100];

    rig_open(NULL);
    many.memory = rig_alloc(0, 4096);
    REQUIRE_OK(OP(launch_kernel, 0, NULL, many_kernel, &args, sizeof args));
    EXPECT_OK(OP(stream_synchronize, 0, NULL));
    EXPECT_EQ(many.failed, 0);
    rig_get(host, many.memory, 100);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(host[i], (char)(2 * i));
    REQUIRE_OK(OP(free, 0, many.memory)); /* all pins are gone */
    EXPECT_EQ(rig_usage().bytes_used, 0);
    rig_close();
}

/* ---- Multicast, dry devices, faults -------------------------------------------------------- */

TEST(a_multicast_write_reaches_every_member)
{
    enum { PAGE = 2 << 20 };
    const int devices[2] = {0, 1};
    unsigned char host[256];
    void *handle, *memory[2], *base[2];

    rig_open(NULL);
    REQUIRE_OK(OP(multicast_create, devices, 2, PAGE, &handle));
    void *src = rig_alloc(0, 4096);
    pattern(host, 256, 4);
    rig_put(src, host, 256);
    for (int d = 0; d < 2; d++) {
        REQUIRE_OK(OP(create, d, PAGE, ACRE_HANDLE_NONE, &memory[d]));
        REQUIRE_OK(OP(reserve, d, PAGE, &base[d]));
        REQUIRE_OK(OP(map, d, base[d], PAGE, 0, memory[d]));
        REQUIRE_OK(OP(set_access, d, base[d], PAGE, d, ACRE_ACCESS_READ_WRITE));
        if (d == 1) {
            EXPECT_OK(OP(multicast_write_async, 0, handle, 0, src, 256, NULL));
            EXPECT_STATUS(OP(stream_synchronize, 0, NULL), ACRE_ERR_INVALID); /* half bound */
        }
        REQUIRE_OK(OP(multicast_bind, handle, d, 0, base[d], PAGE));
    }
    EXPECT_OK(OP(multicast_write_async, 0, handle, 4096, src, 256, NULL));
    EXPECT_OK(OP(stream_synchronize, 0, NULL));
    for (int d = 0; d < 2; d++) {
        EXPECT(holds((char *)base[d] + 4096, 256, 4));
        REQUIRE_OK(OP(multicast_unbind, handle, d, 0, PAGE));
    }
    EXPECT_OK(OP(multicast_write_async, 0, handle, 0, host, 256, NULL));
    EXPECT_STATUS(OP(stream_synchronize, 0, NULL), ACRE_ERR_INVALID);
    rig_close();
}

static void count_up(void *arg)
{
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

static void kernel_count(acre_kernel_context *context, void *args)
{
    (void)context;
    count_up(*(void **)args);
}

TEST(dry_devices_check_everything_and_move_nothing)
{
    acre_sim_config config = {.struct_size = sizeof config, .dry = 1,
                              .memory_bytes = (uint64_t)80 << 30};
    _Atomic uint64_t ran = 0, kernels = 0;
    void *args = &kernels, *memory;
    char host[64] = "kept";

    rig_open(&config);
    void *stream = rig_stream(0), *event = rig_event(0, ACRE_EVENT_TIMING);
    REQUIRE_OK(OP(alloc, 0, (size_t)40 << 30, &memory));
    EXPECT_OK(OP(copy, host, memory, 64, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT_STR_EQ(host, "kept");
    EXPECT_STATUS(OP(copy, memory, host, ((size_t)40 << 30) + 1, ACRE_COPY_HOST_TO_DEVICE),
                  ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(copy, memory, host, 64, ACRE_COPY_HOST_TO_HOST), ACRE_ERR_INVALID);
    EXPECT_OK(OP(fill_async, 0, memory, 1, (size_t)40 << 30, stream));
    EXPECT_OK(OP(launch_host, 0, stream, count_up, &ran));
    EXPECT_OK(OP(launch_kernel, 0, stream, kernel_count, &args, sizeof args));
    EXPECT_OK(OP(write_value32, 0, stream, memory, 3));
    EXPECT_OK(OP(wait_value32, 0, stream, memory, 4, ACRE_WAIT_EQ));
    EXPECT_OK(OP(event_record, 0, event, stream));
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    EXPECT_OK(OP(event_query, 0, event));
    EXPECT_EQ(atomic_load(&ran), 1);
    EXPECT_EQ(atomic_load(&kernels), 0);
    EXPECT_OK(OP(fill_async, 0, host, 1, 64, stream));
    EXPECT_STATUS(OP(stream_synchronize, 0, stream), ACRE_ERR_INVALID);
    rig_close();
}

TEST(every_call_can_be_made_to_fail)
{
    struct {
        acre_sim_call call;
        acre_status status;
    } seen[16];
    int count = 0;
    char host[8] = {0};
    void *graph = NULL, *made = NULL;

    rig_open(NULL);
    void *stream = rig_stream(0), *event = rig_event(0, 0), *memory = rig_alloc(0, 4096);
#define FAILS(name, ...)                                                       \
    do {                                                                       \
        acre_sim_fault fault = {.struct_size = sizeof fault, .nth = 1,         \
                                .call = ACRE_SIM_##name, .status = ACRE_ERR_BUSY}; \
        REQUIRE_OK(acre_sim_fault_arm(rig.backend, &fault));                   \
        seen[count].call = fault.call;                                         \
        seen[count++].status = OP(__VA_ARGS__);                                \
        EXPECT_EQ(acre_sim_fault_disarm(rig.backend), 1);                      \
    } while (0)
    FAILS(STREAM_CREATE, stream_create, 0, 0, 0, &made);
    FAILS(STREAM_SYNC, stream_synchronize, 0, stream);
    FAILS(STREAM_SYNC, device_synchronize, 0);
    FAILS(STREAM_WAIT, stream_wait_event, 0, stream, event);
    FAILS(EVENT_CREATE, event_create, 0, 0, &made);
    FAILS(EVENT_RECORD, event_record, 0, event, stream);
    FAILS(EVENT_QUERY, event_query, 0, event);
    FAILS(EVENT_SYNC, event_synchronize, 0, event);
    FAILS(COPY, copy, memory, host, 8, ACRE_COPY_HOST_TO_DEVICE);
    FAILS(COPY, copy_async, 0, memory, host, 8, ACRE_COPY_HOST_TO_DEVICE, stream);
    FAILS(FILL, fill_async, 0, memory, 1, 8, stream);
    FAILS(LAUNCH, launch_host, 0, stream, count_up, NULL);
    FAILS(VALUE, write_value32, 0, stream, memory, 1);
    FAILS(VALUE, wait_value32, 0, stream, memory, 1, ACRE_WAIT_EQ);
    FAILS(CAPTURE, capture_begin, 0, stream);
    FAILS(GRAPH_LAUNCH, graph_launch, 0, graph, stream);
    for (int i = 0; i < count; i++)
        EXPECT_EQ(seen[i].status, ACRE_ERR_BUSY);
    EXPECT(!made);
    EXPECT_OK(OP(stream_synchronize, 0, stream)); /* nothing of it happened */
    EXPECT_EQ(rig_usage().stream_count, 1);
    rig_close();
}

T_MAIN()
