/* SPDX-License-Identifier: MIT */
/* Kernels built from source on memory of Acre's caches, queues lent to the caller,
 * settings, several devices. One program serves all cases: compiling is slow. */
#include "backend/backend.h"
#include "base/bits.h"
#include "base/heap.h"
#include "opencl/api.h"
#include "tests/support/gate.h"
#include "tests/support/opencl_bed.h"
#include "tests/support/t.h"

#include <acre/opencl.h>

#include <pthread.h>
#include <unistd.h>

static const char source[] =
    "__kernel void ramp(__global uint *out, uint first, uint count) {\n"
    "    uint i = get_global_id(0);\n"
    "    if (i < count) out[i] = first + i;\n"
    "}\n"
    "__kernel void add(__global const uint *a, __global const uint *b, __global uint *out,\n"
    "                  uint count) {\n"
    "    uint i = get_global_id(0);\n"
    "    if (i < count) out[i] = a[i] + b[i];\n"
    "}\n"
    "__kernel void sums(__global const uint *in, __global uint *out, __local uint *part) {\n"
    "    uint i = get_local_id(0), n = get_local_size(0);\n"
    "    part[i] = in[get_global_id(0)];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (i == 0) {\n"
    "        uint sum = 0;\n"
    "        for (uint j = 0; j < n; j++) sum += part[j];\n"
    "        out[get_group_id(0)] = sum;\n"
    "    }\n"
    "}\n";

struct scene {
    acre_backend *backend;
    acre_device *device;
    acre_opencl_program *program;
    acre_opencl_kernel *ramp, *add, *sums;
    void *stream;
    void *memory; /* of some tests */
    uint64_t heap_before, held_before;
};

static void scene_begin(struct scene *s, bool is_built)
{
    memset(s, 0, sizeof *s);
    s->heap_before = heap_live_count();
    s->backend = bed_begin();
    s->held_before = bed_held(s->backend);
    REQUIRE_OK(acre_backend_device(s->backend, 0, &s->device));
    REQUIRE_OK(acre_stream_native_create(s->device, 0, 0, &s->stream));
    if (!is_built)
        return;
    REQUIRE_OK(acre_opencl_program_build(s->device, source, NULL, &s->program));
    REQUIRE_OK(acre_opencl_kernel_create(s->program, "ramp", &s->ramp));
    REQUIRE_OK(acre_opencl_kernel_create(s->program, "add", &s->add));
    REQUIRE_OK(acre_opencl_kernel_create(s->program, "sums", &s->sums));
}

static void scene_end(struct scene *s)
{
    acre_opencl_kernel_destroy(s->ramp);
    acre_opencl_kernel_destroy(s->add);
    acre_opencl_kernel_destroy(s->sums);
    acre_opencl_program_destroy(s->program);
    REQUIRE_OK(acre_stream_native_destroy(s->device, s->stream));
    EXPECT_EQ(bed_held(s->backend), s->held_before);
    acre_backend_unregister(s->backend);
    EXPECT_EQ(heap_live_count(), s->heap_before);
}

/* Groups of one size, because PoCL compiles a kernel anew for each. */
static acre_opencl_range whole_groups(uint32_t count)
{
    return (acre_opencl_range){.global = {round_up(count, 64)}, .local = {64}};
}

static acre_status ramp(struct scene *s, void *stream, void *out, uint32_t first, uint32_t count)
{
    const acre_opencl_arg args[] = {{.value = out},
                                    {ACRE_OPENCL_VALUE, &first, sizeof first},
                                    {ACRE_OPENCL_VALUE, &count, sizeof count}};
    const acre_opencl_range range = whole_groups(count);

    return acre_opencl_launch(s->ramp, stream, &range, args, 3);
}

static acre_status add(struct scene *s, void *stream, void *a, void *b, void *out, uint32_t count)
{
    const acre_opencl_arg args[] = {{.value = a}, {.value = b}, {.value = out},
                                    {ACRE_OPENCL_VALUE, &count, sizeof count}};
    const acre_opencl_range range = whole_groups(count);

    return acre_opencl_launch(s->add, stream, &range, args, 4);
}

static acre_cache *cache_open(struct scene *s, acre_policy policy)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_cache *cache;

    REQUIRE_OK(acre_cache_create(s->device, &config, &cache));
    return cache;
}

/* Many rounds over a few sizes: blocks are interior pointers of few segments, and
 * each round finds them where the rounds before left their numbers. */
static void reuse(struct scene *s, acre_policy policy)
{
    enum { COUNT_MAX = 3000 };
    static uint32_t host[COUNT_MAX];
    acre_cache *cache = cache_open(s, policy);
    acre_cache_stats stats = {.struct_size = sizeof stats};
    uint64_t wrong = 0, interior = 0, rounds = t_count(300, 20000);

    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t count = 1 + round * 61 % COUNT_MAX;
        void *a, *b, *out, *base;
        uint64_t bytes;

        REQUIRE_OK(acre_cache_alloc(cache, count * 4, s->stream, &a));
        REQUIRE_OK(acre_cache_alloc(cache, count * 4, s->stream, &b));
        REQUIRE_OK(acre_cache_alloc(cache, count * 4, s->stream, &out));
        REQUIRE_OK(ramp(s, s->stream, a, round, count));
        REQUIRE_OK(ramp(s, s->stream, b, 1000000, count));
        REQUIRE_OK(add(s, s->stream, a, b, out, count));
        REQUIRE_OK(acre_copy_async(s->device, host, out, count * 4, ACRE_COPY_DEVICE_TO_HOST,
                                   s->stream));
        REQUIRE_OK(acre_cache_base(cache, out, &base, &bytes));
        interior += base != out;
        REQUIRE_OK(acre_cache_free(cache, a));
        REQUIRE_OK(acre_cache_free(cache, b));
        REQUIRE_OK(acre_cache_free(cache, out));
        REQUIRE_OK(acre_stream_native_synchronize(s->device, s->stream));
        for (uint32_t i = 0; i < count; i++)
            wrong += host[i] != round + 1000000 + 2 * i;
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(interior, rounds / 2);
    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    EXPECT_LE(stats.num_device_alloc, 4);
    EXPECT_EQ(acre_cache_check(cache), ACRE_OK);
    acre_cache_destroy(cache);
}

/* A block in use on a second stream is not given away before that is done. */
static void other_stream(struct scene *s)
{
    acre_cache *cache = cache_open(s, ACRE_POLICY_ACRE);
    struct gate gate = {0};
    uint32_t host[256];
    void *second, *block, *next;

    REQUIRE_OK(acre_stream_native_create(s->device, 0, 0, &second));
    REQUIRE_OK(acre_cache_alloc(cache, sizeof host, s->stream, &block));
    REQUIRE_OK(acre_launch_host(s->device, second, gate_task, &gate));
    REQUIRE_OK(ramp(s, second, block, 7, 256));
    REQUIRE_OK(acre_copy_async(s->device, host, block, sizeof host, ACRE_COPY_DEVICE_TO_HOST,
                               second));
    REQUIRE_OK(acre_cache_record_stream(cache, block, second));
    REQUIRE_OK(acre_cache_free(cache, block));
    REQUIRE_OK(acre_cache_alloc(cache, sizeof host, s->stream, &next));
    EXPECT(next != block);
    REQUIRE_OK(acre_fill_async(s->device, next, 0xee, sizeof host, s->stream));
    REQUIRE_OK(acre_stream_native_synchronize(s->device, s->stream));
    gate_open(&gate);
    REQUIRE_OK(acre_stream_native_synchronize(s->device, second));
    for (uint32_t i = 0; i < 256; i++)
        EXPECT_EQ(host[i], 7 + i);
    REQUIRE_OK(acre_cache_free(cache, next));
    acre_cache_destroy(cache);
    REQUIRE_OK(acre_stream_native_destroy(s->device, second));
}

/* Local memory, two dimensions, NULL for a pointer. */
static void shapes(struct scene *s)
{
    const acre_opencl_range rows = {.global = {64, 2}, .local = {64, 1}};
    uint32_t host[4], first = 9, none = 0;
    char *memory;

    REQUIRE_OK(acre_device_alloc(s->device, 4096, (void **)&memory));
    REQUIRE_OK(ramp(s, s->stream, memory + 4, 1, 256));
    const acre_opencl_range range = whole_groups(256);
    const acre_opencl_arg sums[] = {{.value = memory + 4}, {.value = memory + 2048},
                                    {ACRE_OPENCL_LOCAL, NULL, 64 * 4}};
    REQUIRE_OK(acre_opencl_launch(s->sums, s->stream, &range, sums, 3));
    const acre_opencl_arg null[] = {{.value = NULL}, {ACRE_OPENCL_VALUE, &first, 4},
                                    {ACRE_OPENCL_VALUE, &none, 4}};
    REQUIRE_OK(acre_opencl_launch(s->ramp, s->stream, &rows, null, 3));
    REQUIRE_OK(acre_stream_native_synchronize(s->device, s->stream));
    REQUIRE_OK(acre_copy(s->device, host, memory + 2048, 16, ACRE_COPY_DEVICE_TO_HOST));
    for (uint32_t i = 0; i < 4; i++)
        EXPECT_EQ(host[i], 64 * (64 * i + 1) + 2016);
    REQUIRE_OK(acre_device_free(s->device, memory));
}

/* Launches of one kernel from several threads do not mix their arguments. */
struct launcher {
    struct scene *s;
    void *stream;
    uint32_t first;
    uint32_t *memory;
};

static void *launch_many(void *arg)
{
    struct launcher *launcher = arg;

    for (uint32_t i = 0; i < 64; i++)
        if (ramp(launcher->s, launcher->stream, launcher->memory + i * 64, launcher->first + i,
                 64) != ACRE_OK)
            t_fail(__FILE__, __LINE__, "%s", acre_last_error());
    return NULL;
}

static void threads(struct scene *s)
{
    struct launcher launchers[3];
    pthread_t ids[3];
    uint32_t host[64 * 64];

    for (uint32_t t = 0; t < 3; t++) {
        launchers[t] = (struct launcher){.s = s, .first = 1000 * (t + 1)};
        REQUIRE_OK(acre_stream_native_create(s->device, 0, 0, &launchers[t].stream));
        REQUIRE_OK(acre_device_alloc(s->device, sizeof host, (void **)&launchers[t].memory));
        REQUIRE_EQ(pthread_create(&ids[t], NULL, launch_many, &launchers[t]), 0);
    }
    for (uint32_t t = 0; t < 3; t++) {
        uint32_t wrong = 0;

        pthread_join(ids[t], NULL);
        REQUIRE_OK(acre_stream_native_destroy(s->device, launchers[t].stream));
        REQUIRE_OK(acre_copy(s->device, host, launchers[t].memory, sizeof host,
                             ACRE_COPY_DEVICE_TO_HOST));
        for (uint32_t i = 0; i < 64 * 64; i++)
            wrong += host[i] != launchers[t].first + i / 64 + i % 64;
        EXPECT_EQ(wrong, 0);
        REQUIRE_OK(acre_device_free(s->device, launchers[t].memory));
    }
}

static void bad_launches(struct scene *s)
{
    const acre_opencl_range range = {.global = {4}}, none = {.global = {0}};
    uint32_t value = 1;
    void *memory, *untouched = s;
    int local;

    REQUIRE_OK(acre_device_alloc(s->device, 4096, &memory));
    acre_opencl_arg args[] = {{.value = memory}, {ACRE_OPENCL_VALUE, &value, 4},
                              {ACRE_OPENCL_VALUE, &value, 4}};
    EXPECT_EQ(acre_opencl_launch(NULL, s->stream, &range, args, 3), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_opencl_launch(s->ramp, s->stream, NULL, args, 3), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_opencl_launch(s->ramp, s->stream, &range, NULL, 3), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_opencl_launch(s->ramp, s->stream, &none, args, 3), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_opencl_launch(s->ramp, s->stream, &range, args, 2), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "the kernel takes 3 arguments, not 2");
    EXPECT_EQ(acre_opencl_launch(s->ramp, &local, &range, args, 3), ACRE_ERR_INVALID);
    args[0].value = &local;
    EXPECT_EQ(acre_opencl_launch(s->ramp, s->stream, &range, args, 3), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "argument 0");
    args[0].value = memory;
    args[1] = (acre_opencl_arg){ACRE_OPENCL_VALUE, NULL, 4};
    EXPECT_EQ(acre_opencl_launch(s->ramp, s->stream, &range, args, 3), ACRE_ERR_INVALID);
    args[1] = (acre_opencl_arg){(acre_opencl_arg_kind)9, &value, 4};
    EXPECT_EQ(acre_opencl_launch(s->ramp, s->stream, &range, args, 3), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_opencl_kernel_create(s->program, "nothing", (acre_opencl_kernel **)&untouched),
              ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_opencl_kernel_create(s->program, NULL, (acre_opencl_kernel **)&untouched),
              ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(untouched, s);
    REQUIRE_OK(acre_stream_native_synchronize(s->device, s->stream));
    REQUIRE_OK(acre_device_free(s->device, memory));
}

TEST(kernels_run_on_memory_of_the_cache)
{
    struct scene s;

    scene_begin(&s, true);
    reuse(&s, ACRE_POLICY_ACRE);
    reuse(&s, ACRE_POLICY_TORCH);
    other_stream(&s);
    shapes(&s);
    threads(&s);
    bad_launches(&s);
    scene_end(&s);
}

TEST(what_does_not_compile_says_why)
{
    acre_opencl_program *program = NULL;
    struct scene s;

    scene_begin(&s, false);
    EXPECT_EQ(acre_opencl_program_build(s.device, "__kernel void f( { }", NULL, &program),
              ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "error");
    EXPECT(!strchr(acre_last_error(), '\n'));
    EXPECT_EQ(acre_opencl_program_build(s.device, NULL, NULL, &program), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_opencl_program_build(s.device, source, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_opencl_program_build(NULL, source, NULL, &program), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(program, NULL);
    acre_opencl_program_destroy(NULL);
    acre_opencl_kernel_destroy(NULL);
    scene_end(&s);
}

/* The caller enqueues on a stream's queue: events and waits cover it. */
TEST(a_lent_queue_is_waited_for)
{
    acre_opencl_native native = {0};
    struct scene s;
    acre_device *host;
    void *queue = NULL, *event;
    ocl_event door;
    ocl_int code;
    char *memory;

    scene_begin(&s, false);
    REQUIRE_OK(acre_opencl_native_get(s.device, &native));
    EXPECT(native.platform && native.context && native.device);
    REQUIRE_OK(acre_opencl_queue(s.device, s.stream, &queue));
    REQUIRE_OK(acre_device_alloc(s.device, 4096, (void **)&memory));
    REQUIRE_OK(acre_event_native_create(s.device, 0, &event));
    door = ocl.CreateUserEvent(native.context, &code);
    REQUIRE_EQ(ocl.EnqueueSVMMemFill(queue, memory, "x", 1, 4096, 1, &door, NULL), OCL_SUCCESS);
    EXPECT_EQ(acre_stream_native_query(s.device, s.stream), ACRE_ERR_NOT_READY);
    EXPECT_EQ(acre_stream_native_query(s.device, s.stream), ACRE_ERR_NOT_READY);
    REQUIRE_OK(acre_event_native_record(s.device, event, s.stream));
    EXPECT_EQ(acre_event_native_query(s.device, event), ACRE_ERR_NOT_READY);
    REQUIRE_EQ(ocl.SetUserEventStatus(door, OCL_COMPLETE), OCL_SUCCESS);
    REQUIRE_OK(acre_event_native_synchronize(s.device, event));
    while (acre_stream_native_query(s.device, s.stream) == ACRE_ERR_NOT_READY)
        ;
    REQUIRE_OK(acre_device_free(s.device, memory));
    REQUIRE_OK(acre_event_native_destroy(s.device, event));
    ocl.ReleaseEvent(door);
    EXPECT_EQ(acre_opencl_queue(s.device, &s, &queue), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_opencl_queue(s.device, s.stream, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_opencl_native_get(NULL, &native), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_opencl_native_get(s.device, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &host));
    EXPECT_EQ(acre_opencl_native_get(host, &native), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "\"host\" is not one of backend \"opencl\"");
    acre_backend_unregister(host->backend);
    scene_end(&s);
}

/* Queued behind a gate, so that the call has returned before anything moves. */
TEST(overlapping_copies_may_be_queued)
{
    struct scene s;
    struct gate gate = {0};
    unsigned char host[1000], back[1000];
    char *memory;

    scene_begin(&s, false);
    for (int i = 0; i < 1000; i++)
        host[i] = (unsigned char)(i * 7);
    REQUIRE_OK(acre_device_alloc(s.device, 1000, (void **)&memory));
    REQUIRE_OK(acre_copy(s.device, memory, host, 1000, ACRE_COPY_HOST_TO_DEVICE));
    REQUIRE_OK(acre_launch_host(s.device, s.stream, gate_task, &gate));
    for (int i = 0; i < 8; i++)
        REQUIRE_OK(acre_copy_async(s.device, memory + 1, memory, 999, ACRE_COPY_DEVICE_TO_DEVICE,
                                   s.stream));
    gate_open(&gate);
    REQUIRE_OK(acre_stream_native_synchronize(s.device, s.stream));
    REQUIRE_OK(acre_copy(s.device, back, memory, 1000, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT_EQ(memcmp(back + 8, host, 992), 0);
    REQUIRE_OK(acre_device_free(s.device, memory));
    scene_end(&s);
}

TEST(devices_of_a_platform_reach_each_other)
{
    struct scene s;
    acre_device *second;
    uint32_t host[64];
    void *stream, *memory;
    bool can = false;

    scene_begin(&s, false);
    if (acre_backend_device_count(s.backend) < 2) {
        scene_end(&s);
        T_SKIP("needs two devices");
    }
    REQUIRE_OK(acre_backend_device(s.backend, 1, &second));
    REQUIRE_OK(s.device->ops->peer_query(s.device->self, 0, 1, &can));
    EXPECT(can);
    REQUIRE_OK(acre_stream_native_create(second, 0, 0, &stream));
    REQUIRE_OK(acre_device_alloc(second, sizeof host, &memory));
    REQUIRE_OK(acre_fill_async(s.device, memory, 5, sizeof host, s.stream));
    REQUIRE_OK(acre_stream_native_synchronize(s.device, s.stream));
    REQUIRE_OK(acre_copy_async(second, host, memory, sizeof host, ACRE_COPY_DEVICE_TO_HOST,
                               stream));
    REQUIRE_OK(acre_stream_native_synchronize(second, stream));
    EXPECT_EQ(host[63], 0x05050505);
    EXPECT_EQ(acre_copy_async(s.device, host, memory, 4, ACRE_COPY_DEVICE_TO_HOST, stream),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_free(s.device, memory), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_device_free(second, memory));
    REQUIRE_OK(acre_stream_native_destroy(second, stream));
    scene_end(&s);
}

/* Devices of two platforms: what needs a common context is unsupported, the rest
 * works on either. */
TEST(platforms_share_nothing)
{
    struct scene s;
    acre_device *far;
    void *stream, *event, *near_memory, *far_memory, *pinned;
    char host[512];
    bool can = true;
    int index;

    bed_pretend(BED_TWO_PLATFORMS);
    scene_begin(&s, false);
    bed_pretend(0);
    index = acre_backend_device_count(s.backend) / 2;
    REQUIRE_OK(acre_backend_device(s.backend, index, &far));
    REQUIRE_OK(acre_stream_native_create(far, 0, 0, &stream));
    REQUIRE_OK(acre_event_native_create(far, 0, &event));
    REQUIRE_OK(acre_device_alloc(s.device, 512, &near_memory));
    REQUIRE_OK(acre_device_alloc(far, 512, &far_memory));
    REQUIRE_OK(acre_host_alloc(far, 512, &pinned));
    REQUIRE_OK(acre_fill_async(far, far_memory, 9, 512, stream));
    REQUIRE_OK(acre_copy_async(far, pinned, far_memory, 512, ACRE_COPY_DEVICE_TO_HOST, stream));
    REQUIRE_OK(acre_event_native_record(far, event, stream));
    REQUIRE_OK(acre_event_native_synchronize(far, event));
    REQUIRE_OK(acre_copy(s.device, near_memory, pinned, 512, ACRE_COPY_HOST_TO_DEVICE));
    REQUIRE_OK(acre_copy(s.device, host, near_memory, 512, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT_EQ(host[511], 9);
    EXPECT_EQ(acre_copy(far, far_memory, near_memory, 512, ACRE_COPY_DEVICE_TO_DEVICE),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "of another platform; copy through host memory");
    EXPECT_EQ(acre_copy_peer_async(far, far_memory, far, near_memory, s.device, 512, stream),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_fill_async(far, near_memory, 1, 512, stream), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_stream_native_wait(s.device, s.stream, event), ACRE_ERR_UNSUPPORTED);
    REQUIRE_OK(far->ops->peer_query(far->self, index, 0, &can));
    EXPECT(!can);
    EXPECT_EQ(far->ops->peer_enable(far->self, index, 0), ACRE_ERR_UNSUPPORTED);
    REQUIRE_OK(acre_host_free(s.device, pinned));
    REQUIRE_OK(acre_device_free(s.device, near_memory));
    REQUIRE_OK(acre_device_free(far, far_memory));
    REQUIRE_OK(acre_event_native_destroy(far, event));
    REQUIRE_OK(acre_stream_native_destroy(far, stream));
    scene_end(&s);
}

static void no_kernel(acre_kernel_context *context, void *args)
{
    (void)context;
    (void)args;
}

TEST(functions_of_c_need_a_device_that_runs_them)
{
    struct gate gate = {.is_open = 1};
    struct scene s;

    bed_pretend(BED_NO_FUNCTIONS);
    scene_begin(&s, false);
    bed_pretend(0);
    EXPECT_EQ(acre_launch_kernel(s.device, s.stream, no_kernel, NULL, 0), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "acre_opencl_program_build");
    REQUIRE_OK(acre_launch_host(s.device, s.stream, gate_task, &gate));
    REQUIRE_OK(acre_stream_native_synchronize(s.device, s.stream));
    EXPECT_EQ(gate.is_reached, 1);
    scene_end(&s);
}

static void use_in_child(void *arg)
{
    struct scene *s = arg;
    acre_opencl_kernel *kernel;

    alarm(20);
    EXPECT_EQ(ramp(s, s->stream, s->memory, 0, 1), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_opencl_kernel_create(s->program, "add", &kernel), ACRE_ERR_FORKED);
    acre_opencl_kernel_destroy(s->ramp);
    acre_opencl_program_destroy(s->program);
    acre_backend_unregister(s->backend);
}

TEST(a_child_of_fork_is_told_and_may_end_what_there_is)
{
    struct gate gate = {.is_open = 1};
    struct scene s;

    scene_begin(&s, true);
    REQUIRE_OK(acre_device_alloc(s.device, 4096, &s.memory));
    REQUIRE_OK(acre_launch_host(s.device, s.stream, gate_task, &gate)); /* which starts a thread */
    REQUIRE_OK(acre_stream_native_synchronize(s.device, s.stream));
    EXPECT_EQ(t_child(use_in_child, &s), 0);
    REQUIRE_OK(acre_device_free(s.device, s.memory));
    scene_end(&s);
}

/* The size of the device is kept to, whatever the driver does. */
TEST(memory_runs_out_where_the_settings_say)
{
    acre_cache *cache;
    struct scene s;
    void *blocks[4], *more;

    setenv("ACRE_OPENCL", "memory:64MiB,grain:fine", 1);
    scene_begin(&s, false);
    EXPECT_EQ(s.device->info.total_bytes, 64 * MIB);
    cache = cache_open(&s, ACRE_POLICY_ACRE);
    for (int i = 0; i < 4; i++) {
        REQUIRE_OK(acre_cache_alloc(cache, 15 * MIB, s.stream, &blocks[i]));
        memset(blocks[i], i, 15 * MIB); /* fine-grained: the host may */
    }
    EXPECT_EQ(acre_cache_alloc(cache, 15 * MIB, s.stream, &more), ACRE_ERR_DEVICE_MEMORY);
    for (int i = 0; i < 4; i++)
        REQUIRE_OK(acre_cache_free(cache, blocks[i]));
    REQUIRE_OK(acre_cache_alloc(cache, 60 * MIB, s.stream, &more));
    REQUIRE_OK(acre_cache_free(cache, more));
    acre_cache_destroy(cache);
    scene_end(&s);
    unsetenv("ACRE_OPENCL");
}

TEST(bad_settings_are_refused)
{
    static const char *const bad[] = {"memory:1", "memory:x", "grain:none", "kind:tpu", "x:1"};
    acre_backend *backend = bed_begin();

    acre_backend_unregister(backend);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("ACRE_OPENCL", bad[i], 1);
        EXPECT_EQ(acre_backend_find("opencl", &backend), ACRE_ERR_CONFIG);
        EXPECT_HAS(acre_last_error(), "ACRE_OPENCL");
    }
    setenv("ACRE_OPENCL", "kind:accelerator", 1);
    EXPECT_EQ(acre_backend_find("opencl", &backend), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "0 devices of kind accelerator");
    unsetenv("ACRE_OPENCL");
}

T_MAIN()
