/* SPDX-License-Identifier: MIT */
/* Several threads drive OpenReg at once, and every byte is accounted for.
 *
 * Each thread owns some blocks, on both devices, and a model of their contents.
 * It queues random copies on streams that all threads share; each operation
 * first waits for an event behind the one before, so that in the thread's own
 * order the model is always right, whatever streams and devices are involved.
 * Meanwhile streams, events, blocks and windows come and go.
 */
#include "tests/openreg/support.h"

enum { THREADS = 4, BLOCKS = 6, BYTES = 9000, STREAMS = 8, STAGES = 16 };

static orStream_t shared[STREAMS]; /* even ones on device 0, odd ones on device 1 */

struct worker {
    uint64_t random;
    uint64_t steps;
    void *block[BLOCKS]; /* device memory; block i is on device i % 2 */
    unsigned char model[BLOCKS][BYTES];
    unsigned char *stage[STAGES]; /* pinned; read by copies under way */
    int stage_next;
    orEvent_t behind[2]; /* one per device; behind[device_last] is the latest */
    int device_last;
    int tasks_run; /* counted by tasks */
    int tasks_expected;
};

#define CALL(call) EXPECT_EQ(call, orSuccess)

static unsigned pick(struct worker *w, unsigned bound)
{
    return (unsigned)(t_random(&w->random) % bound);
}

/* A stream on which everything this thread queued so far is done first. */
static int next_stream(struct worker *w)
{
    int index = (int)pick(w, STREAMS);

    CALL(orStreamWaitEvent(shared[index], w->behind[w->device_last], 0));
    return index;
}

static void done_on(struct worker *w, int index)
{
    w->device_last = index % 2;
    CALL(orEventRecord(w->behind[w->device_last], shared[index]));
}

static void drain(struct worker *w)
{
    CALL(orEventSynchronize(w->behind[w->device_last]));
    CALL(orEventQuery(w->behind[w->device_last]));
}

static void upload(struct worker *w)
{
    unsigned block = pick(w, BLOCKS), at = pick(w, BYTES), count = 1 + pick(w, BYTES - at);
    unsigned char *stage = w->stage[w->stage_next], value = (unsigned char)t_random(&w->random);
    int index;

    for (unsigned i = 0; i < count; i++)
        stage[i] = w->model[block][at + i] = (unsigned char)(value + i);
    index = next_stream(w);
    CALL(orMemcpyAsync((char *)w->block[block] + at, stage, count, orMemcpyHostToDevice,
                       shared[index]));
    done_on(w, index);
    w->stage_next = (w->stage_next + 1) % STAGES;
    if (w->stage_next == 0)
        drain(w); /* stages are free again */
}

static void move(struct worker *w)
{
    unsigned to = pick(w, BLOCKS), from = pick(w, BLOCKS), count = 1 + pick(w, BYTES);
    unsigned at = pick(w, BYTES - count + 1), source = pick(w, BYTES - count + 1);
    int index = next_stream(w);

    memmove(w->model[to] + at, w->model[from] + source, count);
    CALL(orMemcpyAsync((char *)w->block[to] + at, (char *)w->block[from] + source, count,
                       orMemcpyDeviceToDevice, shared[index]));
    done_on(w, index);
}

static void verify_block(struct worker *w, unsigned block)
{
    unsigned char back[BYTES];
    int index = next_stream(w);

    CALL(orMemcpyAsync(back, w->block[block], BYTES, orMemcpyDeviceToHost, shared[index]));
    done_on(w, index);
    drain(w);
    EXPECT_EQ(memcmp(back, w->model[block], BYTES), 0);
}

static void verify(struct worker *w)
{
    verify_block(w, pick(w, BLOCKS));
}

/* The same through a window, while other threads have theirs. */
static void look(struct worker *w)
{
    unsigned block = pick(w, BLOCKS), at = pick(w, BYTES);
    unsigned char *bytes = (unsigned char *)w->block[block];

    drain(w);
    CALL(orMemoryUnprotect(bytes + at));
    EXPECT_EQ(memcmp(bytes, w->model[block], BYTES), 0);
    bytes[at] = ++w->model[block][at];
    CALL(orMemoryProtect(bytes));
}

static void replace_block(struct worker *w)
{
    unsigned block = pick(w, BLOCKS);
    orPointerAttributes about;

    drain(w);
    CALL(orPointerGetAttributes(&about, (char *)w->block[block] + BYTES - 1));
    EXPECT_EQ(about.device, block % 2);
    EXPECT_PTR_EQ(about.pointer, w->block[block]);
    CALL(orFree(w->block[block]));
    CALL(orSetDevice((int)block % 2));
    CALL(orMalloc(&w->block[block], BYTES));
    CALL(orSetDevice(0));
    memset(w->model[block], 0, BYTES);
}

static void count_on_shared(struct worker *w)
{
    int index = next_stream(w);

    w->tasks_expected++;
    CALL(orLaunchHostFunc(shared[index], count_task, &w->tasks_run));
    done_on(w, index);
}

static void short_lived_stream(struct worker *w)
{
    orStream_t stream = NULL;
    orEvent_t event = NULL;
    int device = (int)pick(w, 2);

    CALL(orSetDevice(device));
    CALL(orStreamCreateWithPriority(&stream, 0, (int)pick(w, 2)));
    CALL(orEventCreateWithFlags(&event, pick(w, 2)));
    CALL(orStreamWaitEvent(stream, w->behind[w->device_last], 0));
    for (int i = 0; i < 5; i++)
        CALL(orLaunchHostFunc(stream, count_task, &w->tasks_run));
    w->tasks_expected += 5;
    CALL(orEventRecord(event, stream));
    CALL(orStreamWaitEvent(shared[1 - device], event, 0));
    CALL(orEventDestroy(event));
    if (pick(w, 2))
        CALL(orStreamSynchronize(stream));
    CALL(orStreamDestroy(stream));
    EXPECT_EQ(orStreamQuery(stream), orErrorUnknown);
    CALL(orSetDevice(0));
}

static void wait_for_device(struct worker *w)
{
    CALL(orSetDevice((int)pick(w, 2)));
    CALL(orDeviceSynchronize());
    CALL(orSetDevice(0));
}

static void (*const operations[])(struct worker *) = {
    upload, upload, upload, move, move, move, verify, look, replace_block,
    count_on_shared, count_on_shared, short_lived_stream, wait_for_device,
};

static int create_all(struct worker *w)
{
    int error = 0;

    for (int device = 0; device < 2; device++) {
        error |= orSetDevice(device);
        error |= orEventCreate(&w->behind[device]);
        for (int i = device; i < BLOCKS; i += 2)
            error |= orMalloc(&w->block[i], BYTES);
    }
    error |= orSetDevice(0);
    for (int i = 0; i < STAGES; i++) {
        void *stage = NULL;

        error |= orMallocHost(&stage, BYTES);
        w->stage[i] = (unsigned char *)stage;
    }
    return error;
}

static void destroy_all(struct worker *w)
{
    for (int i = 0; i < BLOCKS; i++)
        CALL(orFree(w->block[i]));
    for (int i = 0; i < STAGES; i++)
        CALL(orFreeHost(w->stage[i]));
    CALL(orEventDestroy(w->behind[0]));
    CALL(orEventDestroy(w->behind[1]));
}

static void *work(void *arg)
{
    struct worker *w = (struct worker *)arg;
    unsigned kinds = sizeof operations / sizeof operations[0];

    EXPECT_EQ(create_all(w), 0);
    for (uint64_t i = 0; i < w->steps; i++)
        operations[pick(w, kinds)](w);
    for (unsigned i = 0; i < BLOCKS; i++)
        verify_block(w, i);
    EXPECT_EQ(number_at(&w->tasks_run), w->tasks_expected);
    destroy_all(w);
    return NULL;
}

TEST(threads_share_streams_and_every_byte_is_right)
{
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t steps = t_count(8000, 200000);

    for (int i = 0; i < STREAMS; i++)
        shared[i] = new_stream(i % 2);
    for (int i = 0; i < THREADS; i++) {
        workers[i].random = t_seed() + (uint64_t)i * 1000003;
        workers[i].steps = steps;
        REQUIRE_EQ(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < STREAMS; i++)
        OK(orStreamDestroy(shared[i]));
}

static int started; /* threads that found two devices */

static void *first_use(void *arg)
{
    int count = 0;
    void *block = NULL;

    (void)arg;
    if (orGetDeviceCount(&count) == orSuccess && count == 2 &&
        orMalloc(&block, 1) == orSuccess && orFree(block) == orSuccess)
        count_task(&started);
    return NULL;
}

/* The very first calls of a process come from eight threads at once. */
static int race_to_start(void)
{
    pthread_t threads[8];

    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, first_use, NULL) != 0)
            return 3;
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    return number_at(&started) == 8 ? 0 : 4;
}

TEST(the_devices_start_once_whoever_comes_first)
{
    T_NEEDS("a program that starts itself");
    char command[64];

    snprintf(command, sizeof command, "/proc/%d/exe --race", (int)getpid());
    for (int i = 0; i < 20; i++)
        REQUIRE_EQ(system(command), 0);
}

int main(int argc, char **argv)
{
    unsetenv("OPENREG_SIM");
    if (argc == 2 && strcmp(argv[1], "--race") == 0)
        return race_to_start();
    return t_main(argc, argv);
}
