/* SPDX-License-Identifier: MIT */
/* What PyTorch asks of a plug-in, in random order: tensors on streams of two devices, used on
 * other streams; graphs, several at a time, that share pools and are dropped; pools of users;
 * cached memory given back in between. Contents are looked at after every replay and at the end. */
#include "alloc/cxx_filter.h"
#include "tests/torch/bed.h"

#include <unistd.h>

enum { DEVICES = 2, STREAMS = 4, TENSORS = 40, GRAPHS = 6, POOLS = 3, RESULTS = 3, MOVES_MAX = 6 };

struct tensor {
    char *pointer; /* NULL: this place is free */
    size_t bytes;
    int device;
    void *stream;
    int value;
    bool is_known; /* what is in it: a result is known after a replay of its graph only */
};

/* One torch.cuda.CUDAGraph; its life: NONE, OPEN while it captures, READY. */
struct graph {
    enum { NONE, OPEN, READY } state;
    int device, pool;
    int stream, side;
    uint64_t capture_id;
    void *native, *event;
    struct tensor out; /* outside; gets "value" in each replay */
    struct tensor results[RESULTS];
};

struct world {
    uint64_t seed;
    int devices;
    acre_device *device[DEVICES];
    void *streams[DEVICES][STREAMS];
    bool is_taken[DEVICES][STREAMS]; /* takes part in a capture          */
    void *event[DEVICES];
    struct tensor tensors[TENSORS];
    struct graph graphs[GRAPHS];
    acre_pool_id pools[POOLS];
    int users[POOLS][DEVICES];   /* graphs that have not released it     */
    bool is_open[POOLS][DEVICES]; /* a graph captures into it            */
    uint64_t fault_every; /* of torch's calls, one in so many has a fault; 0: none */
};

static struct world w;

static unsigned draw(unsigned below)
{
    return (unsigned)(t_random(&w.seed) % below);
}

/* ---- Faults around calls of the library --------------------------------------------------- */

static bool fault_begin(void)
{
    bool is_armed = w.fault_every && draw((unsigned)w.fault_every) == 0;

    if (is_armed)
        faults_arm(1 + draw(4));
    return is_armed;
}

static char *take(size_t bytes, int at, void *stream)
{
    bool is_armed = fault_begin();
    char *pointer = torch.malloc((ssize_t)bytes, at, stream);

    if (is_armed)
        faults_end();
    if (!pointer && !is_armed)
        t_fail(__FILE__, __LINE__, "%zu bytes: %s", bytes, acre_last_error());
    return pointer;
}

static void give(struct tensor *tensor)
{
    bool is_armed = fault_begin();

    if (tensor->pointer)
        torch.free(tensor->pointer, (ssize_t)tensor->bytes, tensor->device, tensor->stream);
    if (is_armed)
        faults_end();
    *tensor = (struct tensor){0};
}

static void reset(void)
{
    bool is_armed = fault_begin();

    torch.reset();
    if (is_armed)
        faults_end();
}

/* ---- Tensors ------------------------------------------------------------------------------ */

static bool is_capturing(int at)
{
    for (int i = 0; i < GRAPHS; i++)
        if (w.graphs[i].state == OPEN && w.graphs[i].device == at)
            return true;
    return false;
}

static void look(const struct tensor *tensor, const char *what)
{
    unsigned char seen[3] = {0};
    size_t places[3] = {0, tensor->bytes / 2, tensor->bytes - 1};

    if (!tensor->pointer || !tensor->is_known)
        return;
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(acre_copy(w.device[tensor->device], &seen[i], tensor->pointer + places[i], 1,
                             ACRE_COPY_DEVICE_TO_HOST));
        if (seen[i] != tensor->value)
            t_fail(__FILE__, __LINE__, "%s: byte %zu of %zu is %d, not %d", what, places[i],
                   tensor->bytes, seen[i], tensor->value);
    }
}

static void look_at_all(int at)
{
    if (is_capturing(at))
        return;
    REQUIRE_OK(acre_device_synchronize(w.device[at]));
    for (int i = 0; i < TENSORS; i++)
        if (w.tensors[i].device == at)
            look(&w.tensors[i], "a tensor");
    for (int i = 0; i < GRAPHS; i++)
        for (int k = 0; k < RESULTS; k++)
            if (w.graphs[i].results[k].device == at)
                look(&w.graphs[i].results[k], "a result");
}

static size_t draw_bytes(void)
{
    static const size_t bytes[] = {512, 4000, 300000, 1 << 20, 3 << 20, 21 << 20};

    return bytes[draw(6)] + draw(2) * draw(5000);
}

/* A tensor with one value in all of its bytes. */
static struct tensor make(int at, void *stream)
{
    struct tensor tensor = {.bytes = draw_bytes(), .device = at, .stream = stream,
                            .value = 1 + (int)draw(250), .is_known = true};

    tensor.pointer = take(tensor.bytes, at, stream);
    if (tensor.pointer)
        REQUIRE_OK(acre_fill_async(w.device[at], tensor.pointer, tensor.value, tensor.bytes,
                                   stream));
    return tensor;
}

static int free_stream(int at)
{
    int first = (int)draw(STREAMS);

    for (int i = 0; i < STREAMS; i++)
        if (!w.is_taken[at][(first + i) % STREAMS])
            return (first + i) % STREAMS;
    return -1;
}

static void step_tensor(void)
{
    struct tensor *place = &w.tensors[draw(TENSORS)];
    int at = (int)draw((unsigned)w.devices), stream = free_stream(at);

    if (place->pointer)
        give(place);
    else if (stream >= 0)
        *place = make(at, w.streams[at][stream]);
}

static void nap(void *arg)
{
    (void)arg;
    usleep(200);
}

static void order(int at, void *event, void *first, void *then)
{
    REQUIRE_OK(acre_event_native_record(w.device[at], event, first));
    REQUIRE_OK(acre_stream_native_wait(w.device[at], then, event));
}

/* Copies a tensor to another one on a stream of its own, slowly, and frees it at once. */
static void step_use(void)
{
    struct tensor *from = &w.tensors[draw(TENSORS)], *to = &w.tensors[draw(TENSORS)];
    int at = from->device, other = free_stream(at);

    if (!from->pointer || to == from || !to->pointer || to->device != at || other < 0)
        return;
    for (int i = 0; i < STREAMS; i++)
        if (w.is_taken[at][i] &&
            (from->stream == w.streams[at][i] || to->stream == w.streams[at][i]))
            return;
    void *stream = w.streams[at][other];
    order(at, w.event[at], from->stream, stream);
    order(at, w.event[at], to->stream, stream);
    REQUIRE_OK(acre_launch_host(w.device[at], stream, nap, NULL));
    size_t bytes = from->bytes < to->bytes ? from->bytes : to->bytes;
    REQUIRE_OK(acre_fill_async(w.device[at], to->pointer, from->value, to->bytes, stream));
    REQUIRE_OK(acre_copy_async(w.device[at], to->pointer, from->pointer, bytes,
                               ACRE_COPY_DEVICE_TO_DEVICE, stream));
    to->value = from->value;
    torch.record_stream(from->pointer, stream);
    torch.record_stream(to->pointer, stream);
    order(at, w.event[at], stream, to->stream); /* later uses of it come behind */
    if (draw(2))
        give(from);
    else
        order(at, w.event[at], stream, from->stream);
}

/* ---- Graphs ------------------------------------------------------------------------------- */

static bool graph_passes(const void *target, void **stream)
{
    const struct graph *graph = *(struct graph *const *)target;
    acre_device *on = w.device[graph->device];
    acre_capture_info info = {.struct_size = sizeof info};

    if (!graph->capture_id)
        return false;
    /* PyTorch's throws when it gets no answer; here a fault hits one call only. */
    if (acre_capture_info_get(on, *stream, &info) != ACRE_OK)
        REQUIRE_OK(acre_capture_info_get(on, *stream, &info));
    return info.status == ACRE_CAPTURE_ACTIVE && info.id == graph->capture_id;
}

static bool graph_manage(void *to, const void *from, int wish)
{
    if (wish == CXX_FILTER_CLONE)
        *(const void **)to = *(void *const *)from;
    return false;
}

static void graph_begin(struct graph *graph)
{
    acre_capture_info info = {.struct_size = sizeof info};
    int at = (int)draw((unsigned)w.devices), stream = free_stream(at), pool = (int)draw(POOLS);
    struct cxx_filter filter = {{graph, NULL}, graph_manage, graph_passes};

    int users = 0;
    for (int i = 0; i < w.devices; i++)
        users += w.users[pool][i];
    /* A pool that all its graphs have released is refused, until it has ended. */
    if (stream < 0 || w.is_open[pool][at] || (users && !w.users[pool][at]))
        return;
    *graph = (struct graph){.device = at, .pool = pool, .stream = stream, .side = -1};
    graph->out = make(at, w.streams[at][stream]);
    if (!graph->out.pointer)
        return;
    REQUIRE_OK(acre_stream_native_synchronize(w.device[at], w.streams[at][stream]));
    if (draw(2))
        reset();
    if (!users)
        w.pools[pool] = acre_pool_id_next_graph();
    torch.begin(at, w.pools[pool], &filter);
    REQUIRE_OK(acre_capture_begin(w.device[at], w.streams[at][stream]));
    REQUIRE_OK(acre_capture_info_get(w.device[at], w.streams[at][stream], &info));
    graph->capture_id = info.id;
    graph->state = OPEN;
    w.is_taken[at][stream] = w.is_open[pool][at] = true;
    w.users[pool][at]++;
    REQUIRE_OK(acre_event_native_create(w.device[at], 0, &graph->event));
}

/* One more operation inside. */
static void graph_more(struct graph *graph)
{
    int at = graph->device, side;
    void *stream = w.streams[at][graph->stream];

    if (graph->side < 0 && draw(3) == 0 && (side = free_stream(at)) >= 0) {
        graph->side = side;
        w.is_taken[at][side] = true;
        order(at, graph->event, stream, w.streams[at][side]);
    }
    bool is_aside = graph->side >= 0 && draw(2);
    void *on = is_aside ? w.streams[at][graph->side] : stream;
    void *other = is_aside ? stream : graph->side >= 0 ? w.streams[at][graph->side] : NULL;
    struct tensor inside = make(at, on);
    if (!inside.pointer)
        return;
    inside.is_known = false;
    if (other && draw(2)) { /* used on the other stream, too */
        order(at, graph->event, on, other);
        torch.record_stream(inside.pointer, other);
        size_t bytes = inside.bytes < graph->out.bytes ? inside.bytes : graph->out.bytes;
        if (other == stream) {
            REQUIRE_OK(acre_fill_async(w.device[at], graph->out.pointer, inside.value,
                                       graph->out.bytes, other));
            REQUIRE_OK(acre_copy_async(w.device[at], graph->out.pointer, inside.pointer, bytes,
                                       ACRE_COPY_DEVICE_TO_DEVICE, other));
            graph->out.value = inside.value;
        }
    }
    struct tensor *place = &graph->results[draw(RESULTS)];
    if (draw(3) == 0 && !place->pointer)
        *place = inside;
    else
        give(&inside);
}

static void graph_end(struct graph *graph)
{
    int at = graph->device;
    void *stream = w.streams[at][graph->stream];
    bool is_early = draw(8) == 0; /* a user who drops the pool before the end */

    if (graph->side >= 0) {
        order(at, graph->event, w.streams[at][graph->side], stream);
        w.is_taken[at][graph->side] = false;
    }
    if (is_early)
        torch.release(at, w.pools[graph->pool]);
    REQUIRE_OK(acre_fill_async(w.device[at], graph->out.pointer, graph->out.value,
                               graph->out.bytes, stream));
    REQUIRE_OK(acre_capture_end(w.device[at], stream, &graph->native));
    torch.end(at, w.pools[graph->pool]);
    w.is_taken[at][graph->stream] = w.is_open[graph->pool][at] = false;
    graph->out.is_known = false;
    graph->state = READY;
    REQUIRE_OK(acre_event_native_destroy(w.device[at], graph->event));
    if (is_early) {
        REQUIRE_OK(acre_graph_destroy(w.device[at], graph->native));
        w.users[graph->pool][at]--;
        for (int i = 0; i < RESULTS; i++)
            give(&graph->results[i]);
        give(&graph->out);
        graph->state = NONE;
    }
}

static void graph_replay(struct graph *graph)
{
    int at = graph->device, stream = free_stream(at);

    if (stream < 0 || is_capturing(at))
        return;
    REQUIRE_OK(acre_device_synchronize(w.device[at]));
    for (int i = 0; i < GRAPHS; i++) /* others of the pool may lie where this one writes */
        for (int k = 0; k < RESULTS; k++)
            if (w.graphs[i].pool == graph->pool && w.graphs[i].device == at)
                w.graphs[i].results[k].is_known = &w.graphs[i] == graph;
    REQUIRE_OK(acre_graph_launch(w.device[at], graph->native, w.streams[at][stream]));
    REQUIRE_OK(acre_stream_native_synchronize(w.device[at], w.streams[at][stream]));
    graph->out.is_known = true;
    look(&graph->out, "the output of a graph");
    look_at_all(at);
}

static void graph_drop(struct graph *graph)
{
    int at = graph->device;

    if (is_capturing(at))
        return;
    REQUIRE_OK(acre_device_synchronize(w.device[at]));
    bool is_first = draw(2);
    for (int i = 0; is_first && i < RESULTS; i++)
        give(&graph->results[i]);
    torch.release(at, w.pools[graph->pool]);
    w.users[graph->pool][at]--;
    REQUIRE_OK(acre_graph_destroy(w.device[at], graph->native));
    if (draw(2))
        reset();
    for (int i = 0; i < RESULTS; i++)
        give(&graph->results[i]);
    give(&graph->out);
    graph->state = NONE;
}

static void step_graph(void)
{
    struct graph *graph = &w.graphs[draw(GRAPHS)];

    if (graph->state == NONE)
        graph_begin(graph);
    else if (graph->state == OPEN && draw(MOVES_MAX))
        graph_more(graph);
    else if (graph->state == OPEN)
        graph_end(graph);
    else if (draw(3))
        graph_replay(graph);
    else
        graph_drop(graph);
}

/* ---- The rest ----------------------------------------------------------------------------- */

/* torch.cuda.use_mem_pool(): what it takes from the pool is freed in it or after it. */
static void step_pool(void)
{
    struct cxx_filter all = {{NULL, NULL}, NULL, NULL};
    int at = (int)draw((unsigned)w.devices);
    acre_pool_id pool = acre_pool_id_next();

    if (is_capturing(at))
        return;
    torch.begin(at, pool, &all);
    for (int i = 0; i < 4; i++)
        step_tensor();
    torch.end(at, pool);
    torch.release(at, pool);
}

static void step_lesser(void)
{
    struct tensor *tensor = &w.tensors[draw(TENSORS)];
    size_t bytes = 0;
    int foreign;

    switch (draw(6)) {
    case 0:
        reset();
        break;
    case 1:
        EXPECT(!torch.malloc(0, (int)draw(2), NULL));
        torch.record_stream(&foreign, NULL);
        torch.free(&foreign, 4, 0, NULL);
        torch.free(NULL, 0, 0, NULL);
        break;
    case 2:
        if (tensor->pointer) {
            char *base = torch.base_alloc(tensor->pointer, &bytes);
            EXPECT(base <= tensor->pointer &&
                   tensor->pointer + tensor->bytes <= base + bytes);
        }
        break;
    case 3:
        torch.memory_fraction(draw(2) ? 0.9 : 1, (int)draw((unsigned)w.devices));
        break;
    default:
        for (int i = 0; i < w.devices; i++)
            look_at_all(i);
    }
}

static void world_begin(void)
{
    acre_backend *backend;

    start();
    acre_device_info info = {.struct_size = sizeof info};
    REQUIRE_OK(acre_device_info_get(device, &info));
    if (!has_streams || !(info.capabilities & ACRE_CAP_CAPTURE))
        T_SKIP("this backend has no captures");
    REQUIRE_OK(acre_backend_find(getenv("ACRE_BACKEND") ? getenv("ACRE_BACKEND") : "sim",
                                 &backend));
    w = (struct world){.seed = t_seed()};
    w.devices = acre_backend_device_count(backend) < DEVICES ? 1 : DEVICES;
    for (int i = 0; i < w.devices; i++) {
        w.device[i] = acre_cache_device(torch.cache(i));
        for (int k = 0; k < STREAMS; k++)
            REQUIRE_OK(acre_stream_native_create(w.device[i], 0, 0, &w.streams[i][k]));
        REQUIRE_OK(acre_event_native_create(w.device[i], 0, &w.event[i]));
    }
}

/* Everything is dropped; nothing may be left. */
static void world_end(void)
{
    w.fault_every = 0;
    for (int i = 0; i < GRAPHS; i++)
        if (w.graphs[i].state == OPEN)
            graph_end(&w.graphs[i]);
    for (int i = 0; i < w.devices; i++)
        look_at_all(i);
    for (int i = 0; i < GRAPHS; i++)
        if (w.graphs[i].state == READY)
            graph_drop(&w.graphs[i]);
    for (int i = 0; i < TENSORS; i++)
        give(&w.tensors[i]);
    for (int i = 0; i < w.devices; i++) {
        acre_cache_stats stats = {.struct_size = sizeof stats};

        REQUIRE_OK(acre_device_synchronize(w.device[i]));
        torch.memory_fraction(1, i);
        torch.reset();
        REQUIRE_OK(acre_cache_check(torch.cache(i)));
        REQUIRE_OK(acre_cache_stats_get(torch.cache(i), &stats));
        EXPECT_EQ(stats.allocated_bytes.all.current, 0);
        EXPECT_EQ(stats.active_bytes.all.current, 0);
        EXPECT_EQ(stats.reserved_bytes.all.current, 0);
        for (int k = 0; k < STREAMS; k++)
            REQUIRE_OK(acre_stream_native_destroy(w.device[i], w.streams[i][k]));
        REQUIRE_OK(acre_event_native_destroy(w.device[i], w.event[i]));
    }
}

static void steps(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        unsigned what = draw(16);

        if (what < 5)
            step_tensor();
        else if (what < 8)
            step_use();
        else if (what < 13)
            step_graph();
        else if (what < 14)
            step_pool();
        else
            step_lesser();
    }
}

TEST(steps_in_any_order)
{
    world_begin();
    steps(t_count(1500, 100000));
    world_end();
}

TEST(steps_in_any_order_with_faults)
{
    world_begin();
    if (!faults_find())
        T_SKIP("calls of this backend cannot be made to fail");
    w.fault_every = 8;
    steps(t_count(1500, 100000));
    world_end();
}
