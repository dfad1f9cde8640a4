/* SPDX-License-Identifier: MIT */
/* Memory of one process in another, through the drivers' stand-ins: plain device
 * memory, blocks of caches of each kind, physical memory as descriptors, events.
 * Each process has a driver of its own; what is written on one side is read on the
 * other, and neither driver holds anything in the end. */
#include "base/bits.h"
#include "tests/standin/cuda_map.h"
#include "tests/standin/cuda_types.h"
#include "tests/support/standin_bed.h"
#include "tests/support/t.h"

#include <acre/acre.h>

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* One process: its end of the channel, its device, the kind of cache it has. */
struct side {
    int channel;
    acre_backend *backend;
    acre_device *device;
    acre_policy policy;
    const char *conf;
};

static void say(struct side *side, const void *bytes, size_t count)
{
    REQUIRE(write(side->channel, bytes, count) == (ssize_t)count);
}

static void hear(struct side *side, void *bytes, size_t count)
{
    REQUIRE(read(side->channel, bytes, count) == (ssize_t)count);
}

/* One word, to keep step. */
static void step_say(struct side *side, char word)
{
    say(side, &word, 1);
}

static void step_hear(struct side *side, char word)
{
    char heard = 0;

    hear(side, &heard, 1);
    EXPECT_EQ(heard, word);
}

static void side_open(struct side *side)
{
    REQUIRE_OK(standin_backend(standin_vendor(), "devices:2,memory:128MiB", &side->backend));
    REQUIRE_OK(acre_backend_device(side->backend, 0, &side->device));
}

static void side_close(struct side *side)
{
    acre_backend_unregister(side->backend);
    standin_end();
}

static void fill(struct side *side, void *to, int value, size_t bytes)
{
    REQUIRE_OK(acre_fill_async(side->device, to, value, bytes, NULL));
    REQUIRE_OK(acre_device_synchronize(side->device));
}

static void expect(struct side *side, const void *from, int value, size_t bytes)
{
    unsigned char *copy = malloc(bytes);

    REQUIRE(copy);
    REQUIRE_OK(acre_copy(side->device, copy, from, bytes, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT(copy[0] == value && memcmp(copy, copy + 1, bytes - 1) == 0);
    free(copy);
}

/* Runs both sides as processes. */
static void run(void (*giver)(void *), void (*taker)(void *), acre_policy policy,
                const char *conf)
{
    int channels[2];

    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channels) == 0);
    struct side sides[2] = {{.channel = channels[0], .policy = policy, .conf = conf},
                            {.channel = channels[1], .policy = policy, .conf = conf}};
    pid_t pids[2] = {t_start(giver, &sides[0]), t_start(taker, &sides[1])};
    close(channels[0]);
    close(channels[1]);
    for (int i = 0; i < 2; i++) {
        int status = t_join(pids[i]);

        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* ---- Plain memory of a device -------------------------------------------------------- */

static void plain_giver(void *arg)
{
    struct side *side = arg;
    uint8_t handle[64];
    void *memory;

    side_open(side);
    REQUIRE_OK(acre_device_alloc(side->device, MIB, &memory));
    fill(side, memory, 'a', MIB);
    REQUIRE_OK(acre_ipc_export(side->device, memory, handle));
    say(side, handle, sizeof handle);
    step_hear(side, 'w');
    expect(side, memory, 'b', MIB);
    step_say(side, 'r');
    step_hear(side, 'c');
    REQUIRE_OK(acre_device_free(side->device, memory));
    step_say(side, 'f');
    side_close(side);
}

static void plain_taker(void *arg)
{
    struct side *side = arg;
    uint8_t handle[64];
    uint64_t bytes;
    void *memory;

    side_open(side);
    hear(side, handle, sizeof handle);
    REQUIRE_OK(acre_ipc_open(side->device, handle, &memory, &bytes));
    EXPECT_GE(bytes, MIB);
    expect(side, memory, 'a', MIB);
    fill(side, memory, 'b', MIB);
    step_say(side, 'w');
    step_hear(side, 'r');
    EXPECT(acre_device_free(side->device, memory) != ACRE_OK);
    REQUIRE_OK(acre_ipc_close(side->device, memory));
    step_say(side, 'c');
    step_hear(side, 'f');
    EXPECT(acre_ipc_open(side->device, handle, &memory, &bytes) != ACRE_OK);
    side_close(side);
}

TEST(plain_memory_is_seen_by_another_process)
{
    run(plain_giver, plain_taker, ACRE_POLICY_ACRE, NULL);
}

/* ---- Blocks of caches ------------------------------------------------------------------ */

struct parcel {
    uint8_t handle[ACRE_SHARE_HANDLE_MAX];
    size_t bytes;
    uint64_t offset;
};

static void block_giver(void *arg)
{
    struct side *side = arg;
    acre_cache_config config = {.struct_size = sizeof config, .policy = side->policy,
                                .conf = side->conf, .flags = ACRE_CACHE_NO_ENVIRONMENT};
    struct parcel parcel;
    acre_cache *cache;
    void *before, *block;

    side_open(side);
    REQUIRE_OK(acre_cache_create(side->device, &config, &cache));
    REQUIRE_OK(acre_cache_alloc(cache, 70000, NULL, &before));
    REQUIRE_OK(acre_cache_alloc(cache, 3 * MIB, NULL, &block));
    fill(side, block, 'a', 3 * MIB);
    REQUIRE_OK(acre_share_export(cache, block, parcel.handle, sizeof parcel.handle,
                                 &parcel.bytes, &parcel.offset));
    say(side, &parcel, sizeof parcel);
    step_hear(side, 'w');
    expect(side, block, 'b', 3 * MIB);
    step_say(side, 'r');
    step_hear(side, 'c');
    REQUIRE_OK(acre_cache_free(cache, block));
    REQUIRE_OK(acre_cache_free(cache, before));
    REQUIRE_OK(acre_cache_check(cache));
    acre_cache_destroy(cache);
    side_close(side);
}

static void block_taker(void *arg)
{
    struct side *side = arg;
    struct parcel parcel;
    uint64_t bytes;
    void *base;

    side_open(side);
    hear(side, &parcel, sizeof parcel);
    REQUIRE_OK(acre_share_open(side->device, parcel.handle, parcel.bytes, &base, &bytes));
    EXPECT_GE(bytes, parcel.offset + 3 * MIB);
    expect(side, (char *)base + parcel.offset, 'a', 3 * MIB);
    fill(side, (char *)base + parcel.offset, 'b', 3 * MIB);
    step_say(side, 'w');
    step_hear(side, 'r');
    REQUIRE_OK(acre_share_close(side->device, base));
    step_say(side, 'c');
    side_close(side);
}

TEST(a_block_of_a_segment_is_seen_by_another_process)
{
    run(block_giver, block_taker, ACRE_POLICY_TORCH, NULL);
}

TEST(a_block_of_an_expandable_segment_is_seen_by_another_process)
{
    run(block_giver, block_taker, ACRE_POLICY_TORCH, "expandable_segments:True");
}

TEST(a_block_of_stitched_memory_is_seen_by_another_process)
{
    run(block_giver, block_taker, ACRE_POLICY_ACRE, NULL);
}

/* ---- Events of the CUDA driver itself --------------------------------------------------- */

static struct cuda {
#define FIELD(name, parameters) CUresult(*name) parameters;
    CUDA_MAP(FIELD)
#undef FIELD
} cu;
static struct standin_control control;

static void raw_open(void)
{
    CUcontext context = NULL;

    control = standin_open(STANDIN_CUDA);
#define FIND(name, parameters) *(void **)&cu.name = dlsym(control.library, #name);
    CUDA_MAP(FIND)
#undef FIND
    REQUIRE_EQ(cu.cuInit(0), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuCtxSetCurrent(context), CUDA_SUCCESS);
}

static void wait_for_word(void *arg)
{
    step_hear(arg, 'g');
}

static void event_giver(void *arg)
{
    CUipcEventHandle handle;
    CUevent event = NULL;

    raw_open();
    REQUIRE_EQ(cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING),
               CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuIpcGetEventHandle(&handle, event), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuLaunchHostFunc(NULL, wait_for_word, arg), CUDA_SUCCESS);
    REQUIRE_EQ(cu.cuEventRecord(event, NULL), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
    say(arg, &handle, sizeof handle);
    EXPECT_EQ(cu.cuStreamSynchronize(NULL), CUDA_SUCCESS);
    step_hear(arg, 'e');
    EXPECT_EQ(cu.cuEventDestroy_v2(event), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    EXPECT_EQ(control.restart(NULL), 0); /* nothing is held; the threads end */
}

static void event_taker(void *arg)
{
    CUipcEventHandle handle;
    CUevent event = NULL;

    raw_open();
    hear(arg, &handle, sizeof handle);
    REQUIRE_EQ(cu.cuIpcOpenEventHandle(&event, handle), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cu.cuStreamWaitEvent(NULL, event, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    step_say(arg, 'g');
    EXPECT_EQ(cu.cuStreamSynchronize(NULL), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventQuery(event), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuEventDestroy_v2(event), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    EXPECT_EQ(control.restart(NULL), 0); /* nothing is held; the threads end */
    step_say(arg, 'e');
}

TEST(events_are_seen_by_another_process)
{
    run(event_giver, event_taker, ACRE_POLICY_ACRE, NULL);
}

T_MAIN()
