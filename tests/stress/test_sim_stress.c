/* SPDX-License-Identifier: MIT */
/* Eight threads work on 64 streams of two devices at random, and every byte is checked.
 *
 * Each stream has a buffer on the device and a model of it on the host. A thread that
 * queues work does so with the stream's test lock held and does the same to the model,
 * so the model is the content of the buffer after all queued work. Checks are queued
 * too: a copy to the host, and a host function that compares it with the model as it
 * was at that time.
 */
#include "tests/support/sim_rig.h"

#include <stdatomic.h>

enum { THREADS = 8, STREAMS = 64, EVENTS = 64, BYTES = 2048, POOL = 1 << 16 };

struct lane {
    pthread_mutex_t lock;
    int index, device;
    void *stream;
    unsigned char *memory; /* BYTES, then the value others wait for */
    unsigned char model[BYTES];
    uint32_t value;        /* written last to memory + BYTES */
    uint64_t ran, queued;  /* host functions; ran belongs to the stream */
};

static struct lane lanes[STREAMS];
static void *events[EVENTS];
static unsigned char pool[POOL]; /* constant source of copies */
static _Atomic uint64_t wrong, checks, spoilt;

struct worker_state {
    uint64_t random;
    uint64_t operations;
};

static uint64_t below(uint64_t *random, uint64_t limit)
{
    return t_random(random) % limit;
}

#define GO(call)                                                               \
    do {                                                                       \
        acre_status go = (call);                                               \
        if (go != ACRE_OK)                                                     \
            t_fail(__FILE__, __LINE__, "%s: %s (%s)", #call, acre_status_name(go), \
                   acre_last_error());                                         \
    } while (0)

/* ---- Single operations; the lane is locked -------------------------------------------- */

struct range {
    size_t from, bytes;
};

static struct range some_range(uint64_t *random)
{
    struct range range;

    range.from = below(random, BYTES);
    range.bytes = 1 + below(random, BYTES - range.from);
    return range;
}

static acre_status do_fill(struct lane *lane, uint64_t *random, unsigned char *model)
{
    struct range r = some_range(random);
    int value = (int)below(random, 256);

    memset(model + r.from, value, r.bytes);
    return OP(fill_async, lane->device, lane->memory + r.from, value, r.bytes, lane->stream);
}

static acre_status do_upload(struct lane *lane, uint64_t *random, unsigned char *model)
{
    struct range r = some_range(random);
    const unsigned char *source = pool + below(random, POOL - BYTES);

    memcpy(model + r.from, source, r.bytes);
    return OP(copy_async, lane->device, lane->memory + r.from, source, r.bytes,
              ACRE_COPY_HOST_TO_DEVICE, lane->stream);
}

static acre_status do_move(struct lane *lane, uint64_t *random, unsigned char *model)
{
    struct range r = some_range(random);
    size_t to = below(random, BYTES - r.bytes + 1);

    memmove(model + to, model + r.from, r.bytes);
    return OP(copy_async, lane->device, lane->memory + to, lane->memory + r.from, r.bytes,
              ACRE_COPY_DEVICE_TO_DEVICE, lane->stream);
}

struct mix {
    unsigned char *memory;
    size_t bytes;
    unsigned char factor, add;
};

static void mix_bytes(unsigned char *bytes, const struct mix *mix)
{
    for (size_t i = 0; i < mix->bytes; i++)
        bytes[i] = (unsigned char)(bytes[i] * mix->factor + mix->add);
}

static void mix_kernel(acre_kernel_context *context, void *args)
{
    struct mix *mix = args;
    unsigned char *bytes = context->pointer(context, mix->memory, mix->bytes);

    if (bytes)
        mix_bytes(bytes, mix);
    else
        atomic_fetch_add(&wrong, 1);
}

static acre_status do_kernel(struct lane *lane, uint64_t *random, unsigned char *model)
{
    struct range r = some_range(random);
    struct mix mix = {lane->memory + r.from, r.bytes, (unsigned char)(1 + 2 * below(random, 100)),
                      (unsigned char)below(random, 256)};

    mix_bytes(model + r.from, &mix);
    return OP(launch_kernel, lane->device, lane->stream, mix_kernel, &mix, sizeof mix);
}

static acre_status do_simple(struct lane *lane, uint64_t *random, unsigned char *model)
{
    switch (below(random, 4)) {
    case 0:
        return do_fill(lane, random, model);
    case 1:
        return do_upload(lane, random, model);
    case 2:
        return do_move(lane, random, model);
    default:
        return do_kernel(lane, random, model);
    }
}

static void run_count(void *arg)
{
    ((struct lane *)arg)->ran++; /* not atomic: tasks of a stream never overlap */
}

struct check {
    unsigned char seen[BYTES], wanted[BYTES];
    struct lane *lane;
    uint64_t ran;
};

static void run_check(void *arg)
{
    struct check *check = arg;

    if (memcmp(check->seen, check->wanted, BYTES) != 0 || check->lane->ran != check->ran)
        atomic_fetch_add(&wrong, 1);
    atomic_fetch_add(&checks, 1);
    free(check);
}

static void do_check(struct lane *lane)
{
    struct check *check = malloc(sizeof *check);

    memcpy(check->wanted, lane->model, BYTES);
    check->lane = lane;
    check->ran = lane->queued;
    GO(OP(copy_async, lane->device, check->seen, lane->memory, BYTES, ACRE_COPY_DEVICE_TO_HOST,
          lane->stream));
    GO(OP(launch_host, lane->device, lane->stream, run_check, check));
}

/* A capture that another thread's device_synchronize spoils leaves nothing. */
static void do_graph(struct lane *lane, uint64_t *random)
{
    unsigned char model[BYTES];
    uint64_t random_first = 0;
    unsigned count = 1 + (unsigned)below(random, 5), launches = (unsigned)below(random, 3);
    void *graph = NULL;
    acre_status status;

    memcpy(model, lane->model, BYTES);
    GO(OP(capture_begin, lane->device, lane->stream));
    random_first = *random;
    for (unsigned i = 0; i < count; i++)
        do_simple(lane, random, model);
    status = OP(capture_end, lane->device, lane->stream, &graph);
    if (status != ACRE_OK) {
        if (status != ACRE_ERR_STATE)
            t_fail(__FILE__, __LINE__, "capture_end: %s", acre_last_error());
        atomic_fetch_add(&spoilt, 1);
        return;
    }
    for (unsigned n = 0; n < launches; n++)
        GO(OP(graph_launch, lane->device, graph, lane->stream));
    GO(OP(graph_destroy, lane->device, graph));
    for (unsigned n = 0; n < launches; n++) {
        /* The model only: no stream has this handle. */
        struct lane quiet = {.device = lane->device, .memory = lane->memory,
                             .stream = (void *)-1};
        uint64_t again = random_first;

        for (unsigned i = 0; i < count; i++)
            do_simple(&quiet, &again, lane->model);
    }
}

static void do_replace(struct lane *lane, uint64_t *random)
{
    GO(OP(stream_destroy, lane->device, lane->stream));
    GO(OP(stream_create, lane->device, 0, (int)below(random, 2), &lane->stream));
}

static void do_event(struct lane *lane, uint64_t *random)
{
    int index = (int)below(random, EVENTS);
    acre_status status;

    switch (below(random, 4)) {
    case 0:
        GO(OP(event_record, lane->device, events[index / 2 * 2 + lane->device], lane->stream));
        break;
    case 1:
        GO(OP(stream_wait_event, lane->device, lane->stream, events[index]));
        break;
    case 2:
        status = OP(event_query, index % 2, events[index]);
        if (status != ACRE_OK && status != ACRE_ERR_NOT_READY)
            t_fail(__FILE__, __LINE__, "event_query: %s", acre_last_error());
        break;
    default:
        GO(OP(event_synchronize, index % 2, events[index]));
    }
}

/* ---- Operations on two lanes; both are locked ------------------------------------------- */

/* to takes over from's content when from has it; from goes on when that is done. */
static void do_cross(struct lane *from, struct lane *to, uint64_t *random)
{
    void *ready, *taken;

    GO(OP(event_create, from->device, 0, &ready));
    GO(OP(event_create, to->device, (uint32_t)below(random, 2), &taken));
    GO(OP(event_record, from->device, ready, from->stream));
    GO(OP(stream_wait_event, to->device, to->stream, ready));
    if (below(random, 2))
        GO(OP(copy_peer_async, to->memory, to->device, from->memory, from->device, BYTES,
              to->stream));
    else
        GO(OP(copy_async, to->device, to->memory, from->memory, BYTES,
              ACRE_COPY_DEVICE_TO_DEVICE, to->stream));
    GO(OP(event_record, to->device, taken, to->stream));
    GO(OP(stream_wait_event, from->device, from->stream, taken));
    GO(OP(event_destroy, from->device, ready));
    GO(OP(event_destroy, to->device, taken));
    memcpy(to->model, from->model, BYTES);
}

/* from waits for a value that to writes. */
static void do_value(struct lane *from, struct lane *to)
{
    void *address = to->memory + BYTES;

    to->value++;
    if (from->device != to->device)
        return;
    GO(OP(wait_value32, from->device, from->stream, address, to->value, ACRE_WAIT_GEQ));
    GO(OP(write_value32, to->device, to->stream, address, to->value));
}

/* ---- Threads --------------------------------------------------------------------------- */

static void two_lanes(uint64_t *random)
{
    struct lane *a = &lanes[below(random, STREAMS)], *b = &lanes[below(random, STREAMS)];

    if (a == b)
        return;
    pthread_mutex_lock(a < b ? &a->lock : &b->lock);
    pthread_mutex_lock(a < b ? &b->lock : &a->lock);
    if (below(random, 3))
        do_cross(a, b, random);
    else
        do_value(a, b);
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_unlock(&b->lock);
}

static void one_lane(uint64_t *random)
{
    struct lane *lane = &lanes[below(random, STREAMS)];
    uint64_t choice = below(random, 1000);
    acre_status status;

    pthread_mutex_lock(&lane->lock);
    if (choice < 600) {
        GO(do_simple(lane, random, lane->model));
    } else if (choice < 700) {
        lane->queued++;
        GO(OP(launch_host, lane->device, lane->stream, run_count, lane));
    } else if (choice < 800) {
        do_check(lane);
    } else if (choice < 900) {
        do_event(lane, random);
    } else if (choice < 930) {
        do_graph(lane, random);
    } else if (choice < 960) {
        status = OP(stream_query, lane->device, lane->stream);
        if (status != ACRE_OK && status != ACRE_ERR_NOT_READY)
            t_fail(__FILE__, __LINE__, "stream_query: %s", acre_last_error());
    } else if (choice < 985) {
        GO(OP(stream_synchronize, lane->device, lane->stream));
    } else if (choice < 998) {
        do_replace(lane, random);
    } else {
        status = OP(device_synchronize, lane->device);
        if (status != ACRE_OK && status != ACRE_ERR_STATE)
            t_fail(__FILE__, __LINE__, "device_synchronize: %s", acre_last_error());
    }
    pthread_mutex_unlock(&lane->lock);
}

static void *work(void *arg)
{
    struct worker_state *state = arg;

    for (uint64_t i = 0; i < state->operations; i++) {
        if (below(&state->random, 10) == 0)
            two_lanes(&state->random);
        else
            one_lane(&state->random);
    }
    return NULL;
}

static void lane_open(struct lane *lane, int index)
{
    *lane = (struct lane){.lock = PTHREAD_MUTEX_INITIALIZER, .index = index, .device = index % 2};
    lane->stream = rig_stream(lane->device);
    lane->memory = rig_alloc(lane->device, 4096);
}

/* Device_synchronize with a lane locked would wait for ever on a value wait whose write
 * is queued by the same pair of locks, so both are always queued together. */
TEST(random_work_on_64_streams_by_8_threads)
{
    struct worker_state states[THREADS];
    pthread_t threads[THREADS];
    uint64_t operations = t_count(20000, 1000000), seed = t_seed();

    rig_open(NULL);
    for (int i = 0; i < POOL; i++)
        pool[i] = (unsigned char)t_random(&seed);
    for (int i = 0; i < STREAMS; i++)
        lane_open(&lanes[i], i);
    for (int i = 0; i < EVENTS; i++)
        events[i] = rig_event(i % 2, i % 4 == 0 ? ACRE_EVENT_TIMING : 0);
    for (int i = 0; i < THREADS; i++) {
        states[i] = (struct worker_state){t_random(&seed), operations / THREADS};
        REQUIRE_EQ(pthread_create(&threads[i], NULL, work, &states[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < STREAMS; i++)
        do_check(&lanes[i]);
    EXPECT_OK(OP(device_synchronize, 0));
    EXPECT_OK(OP(device_synchronize, 1));
    EXPECT_EQ(atomic_load(&wrong), 0);
    EXPECT_GE(atomic_load(&checks), operations / 20);
    for (int i = 0; i < STREAMS; i++)
        EXPECT_EQ(lanes[i].ran, lanes[i].queued);
    EXPECT_EQ(rig_usage().stream_count, STREAMS);
    EXPECT_EQ(rig_usage().event_count, EVENTS);
    EXPECT_EQ(rig_usage().graph_count, 0);
    printf("  %llu checks, %llu captures spoilt, %llu threads\n",
           (unsigned long long)atomic_load(&checks), (unsigned long long)atomic_load(&spoilt),
           (unsigned long long)rig_usage().thread_count);
    rig_close();
}

T_MAIN()
