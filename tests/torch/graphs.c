/* SPDX-License-Identifier: MIT */
/* Graphs as PyTorch captures them with a plug-in as its allocator. Its order of calls:
 *
 *   capture_begin   begin_allocate_to_pool(device, pool, filter), then the stream captures
 *   ...             allocations and frees, on the stream and on streams that wait for it
 *   capture_end     the stream ends its capture, then end_allocate_to_pool(device, pool)
 *   reset           release_pool(device, pool), once for every graph
 *
 * The filter passes streams that take part in the capture. Nobody tells the plug-in that a
 * capture begins or ends, and several graphs may have one pool. */
#include "alloc/cxx_filter.h"
#include "tests/torch/bed.h"

#include <pthread.h>

enum { BYTES = 4 << 20 };

/* One torch.cuda.CUDAGraph. */
struct graph {
    int index; /* of the device */
    acre_device *device;
    acre_pool_id pool;
    void *stream;
    _Atomic uint64_t capture_id; /* 0 until the capture has begun; threads read it */
    void *native;
};

static bool graph_passes(const void *target, void **stream)
{
    const struct graph *graph = *(struct graph *const *)target;
    acre_capture_info info = {.struct_size = sizeof info};

    return graph->capture_id &&
           acre_capture_info_get(graph->device, *stream, &info) == ACRE_OK &&
           info.status == ACRE_CAPTURE_ACTIVE && info.id == graph->capture_id;
}

/* A function object that is one pointer. */
static bool graph_manage(void *to, const void *from, int wish)
{
    if (wish == CXX_FILTER_CLONE)
        *(const void **)to = *(void *const *)from;
    return false;
}

static void graph_begin(struct graph *graph, int index, acre_pool_id pool, void *stream)
{
    acre_capture_info info = {.struct_size = sizeof info};

    *graph = (struct graph){.index = index, .device = acre_cache_device(torch.cache(index)),
                            .pool = pool, .stream = stream};
    struct cxx_filter filter = {{graph, NULL}, graph_manage, graph_passes};
    torch.begin(index, pool, &filter);
    REQUIRE_OK(acre_capture_begin(graph->device, stream));
    REQUIRE_OK(acre_capture_info_get(graph->device, stream, &info));
    graph->capture_id = info.id;
}

static void graph_end(struct graph *graph)
{
    REQUIRE_OK(acre_capture_end(graph->device, graph->stream, &graph->native));
    torch.end(graph->index, graph->pool);
}

static void graph_replay(struct graph *graph)
{
    REQUIRE_OK(acre_graph_launch(graph->device, graph->native, graph->stream));
    REQUIRE_OK(acre_stream_native_synchronize(graph->device, graph->stream));
}

static void graph_reset(struct graph *graph)
{
    torch.release(graph->index, graph->pool);
    REQUIRE_OK(acre_graph_destroy(graph->device, graph->native));
}

static bool has_captures(void)
{
    acre_device_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_device_info_get(device, &info));
    return has_streams && (info.capabilities & ACRE_CAP_CAPTURE);
}

static void *stream_of(int index)
{
    void *stream = NULL;

    REQUIRE_OK(acre_stream_native_create(acre_cache_device(torch.cache(index)), 0, 0, &stream));
    return stream;
}

/* The first byte of some memory, and its last one, once everything has run. */
static int value_of(acre_device *of, const char *pointer, size_t bytes)
{
    unsigned char first = 0, last = 0;

    REQUIRE_OK(acre_device_synchronize(of));
    REQUIRE_OK(acre_copy(of, &first, pointer, 1, ACRE_COPY_DEVICE_TO_HOST));
    REQUIRE_OK(acre_copy(of, &last, pointer + bytes - 1, 1, ACRE_COPY_DEVICE_TO_HOST));
    return first == last ? first : -1;
}

/* Lets stream "then" wait for what is queued, or captured, on stream "first". */
static void order(acre_device *of, void *event, void *first, void *then)
{
    REQUIRE_OK(acre_event_native_record(of, event, first));
    REQUIRE_OK(acre_stream_native_wait(of, then, event));
}

/* ---- Pools that graphs share --------------------------------------------------------- */

/* A graph whose private memory gets a value and goes to a place outside. */
static void capture_fill(struct graph *graph, acre_pool_id pool, void *stream, char *out, int value)
{
    graph_begin(graph, 0, pool, stream);
    void *inside = torch.malloc(BYTES, 0, stream);
    REQUIRE(inside);
    REQUIRE_OK(acre_fill_async(device, inside, value, BYTES, stream));
    REQUIRE_OK(acre_copy_async(device, out, inside, BYTES, ACRE_COPY_DEVICE_TO_DEVICE, stream));
    torch.free(inside, BYTES, 0, stream);
    graph_end(graph);
}

TEST(each_graph_holds_the_pool_that_it_shares)
{
    struct graph one, two;

    start();
    if (!has_captures())
        T_SKIP("this backend has no captures");
    void *stream = new_stream();
    acre_pool_id pool = acre_pool_id_next_graph();
    char *out = torch.malloc(BYTES, 0, stream);
    capture_fill(&one, pool, stream, out, 1);
    EXPECT_EQ(uses_of(0, pool), 1);
    capture_fill(&two, pool, stream, out, 2);
    EXPECT_EQ(uses_of(0, pool), 2);
    graph_replay(&one);
    EXPECT_EQ(value_of(device, out, BYTES), 1);
    graph_reset(&one);
    torch.reset(); /* torch.cuda.empty_cache() */
    EXPECT_EQ(uses_of(0, pool), 1);
    /* Tensors that come now must not be where the other graph writes. */
    void *tensors[16];
    for (int i = 0; i < 16; i++) {
        tensors[i] = torch.malloc(BYTES, 0, stream);
        REQUIRE(tensors[i]);
        REQUIRE_OK(acre_fill_async(device, tensors[i], 0x77, BYTES, stream));
    }
    graph_replay(&two);
    EXPECT_EQ(value_of(device, out, BYTES), 2);
    for (int i = 0; i < 16; i++) {
        EXPECT_EQ(value_of(device, tensors[i], BYTES), 0x77);
        torch.free(tensors[i], BYTES, 0, stream);
    }
    graph_reset(&two);
    EXPECT_EQ(uses_of(0, pool), 0);
    torch.free(out, BYTES, 0, stream);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
    end_stream(stream);
}

/* What a graph keeps alive outlives the graph, as a tensor that it returned does. */
TEST(what_is_live_in_a_pool_outlives_its_graphs)
{
    struct graph graph;

    start();
    if (!has_captures())
        T_SKIP("this backend has no captures");
    void *stream = new_stream();
    acre_pool_id pool = acre_pool_id_next_graph();
    graph_begin(&graph, 0, pool, stream);
    char *result = torch.malloc(BYTES, 0, stream);
    REQUIRE_OK(acre_fill_async(device, result, 9, BYTES, stream));
    graph_end(&graph);
    graph_replay(&graph);
    graph_reset(&graph);
    torch.reset();
    EXPECT_EQ(value_of(device, result, BYTES), 9);
    torch.free(result, BYTES, 0, stream);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
    end_stream(stream);
}

TEST(one_id_names_a_pool_on_each_device)
{
    struct graph graphs[2];
    char *results[2];
    void *streams[2];
    acre_backend *backend;

    start();
    REQUIRE_OK(acre_backend_find(getenv("ACRE_BACKEND") ? getenv("ACRE_BACKEND") : "sim",
                                 &backend));
    if (!has_captures() || acre_backend_device_count(backend) < 2)
        T_SKIP("two devices with captures are needed");
    acre_pool_id pool = acre_pool_id_next_graph();
    for (int i = 0; i < 2; i++) {
        streams[i] = stream_of(i);
        graph_begin(&graphs[i], i, pool, streams[i]);
    }
    for (int i = 0; i < 2; i++) {
        results[i] = torch.malloc(BYTES, i, streams[i]);
        REQUIRE(results[i]);
        REQUIRE_OK(acre_fill_async(graphs[i].device, results[i], 5 + i, BYTES, streams[i]));
    }
    for (int i = 0; i < 2; i++) {
        graph_end(&graphs[i]);
        graph_replay(&graphs[i]);
    }
    graph_reset(&graphs[0]);
    torch.reset();
    EXPECT_EQ(uses_of(0, pool), 0);
    EXPECT_EQ(uses_of(1, pool), 1);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(value_of(graphs[i].device, results[i], BYTES), 5 + i);
        torch.free(results[i], BYTES, i, streams[i]);
    }
    graph_reset(&graphs[1]);
    torch.reset();
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(acre_stream_native_destroy(acre_cache_device(torch.cache(i)), streams[i]));
    EXPECT_EQ(reserved_now(), 0);
}

/* ---- Captures with a side stream ------------------------------------------------------ */

/* A block of the capture is used on a side stream, and freed before the capture ends. */
TEST(a_recorded_block_is_freed_inside_a_capture)
{
    struct graph graph;
    void *event;

    start();
    if (!has_captures())
        T_SKIP("this backend has no captures");
    void *stream = new_stream(), *side = new_stream(), *outside = new_stream();
    REQUIRE_OK(acre_event_native_create(device, 0, &event));
    char *out = torch.malloc(BYTES, 0, outside);
    acre_pool_id pool = acre_pool_id_next_graph();
    graph_begin(&graph, 0, pool, stream);
    void *inside = torch.malloc(BYTES, 0, stream);
    REQUIRE_OK(acre_fill_async(device, inside, 3, BYTES, stream));
    order(device, event, stream, side);
    torch.record_stream(inside, side);
    REQUIRE_OK(acre_copy_async(device, out, inside, BYTES, ACRE_COPY_DEVICE_TO_DEVICE, side));
    torch.free(inside, BYTES, 0, stream);
    void *next = torch.malloc(BYTES, 0, stream);
    EXPECT(next && next != inside); /* the side stream may still read it */
    REQUIRE_OK(acre_fill_async(device, next, 4, BYTES, stream));
    torch.free(next, BYTES, 0, stream);
    order(device, event, side, stream);
    graph_end(&graph);
    for (int i = 0; i < 3; i++) {
        graph_replay(&graph);
        EXPECT_EQ(value_of(device, out, BYTES), 3);
    }
    void *after = torch.malloc(BYTES, 0, outside); /* and nothing is in the way */
    EXPECT(after);
    torch.free(after, BYTES, 0, outside);
    torch.free(out, BYTES, 0, outside);
    graph_reset(&graph);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
    REQUIRE_OK(acre_event_native_destroy(device, event));
    end_stream(stream);
    end_stream(side);
    end_stream(outside);
}

/* A block from before the capture, used on a stream that joins the capture later; the free is
 * the first that the allocator hears after the capture began. */
TEST(a_block_from_before_is_freed_inside_a_capture)
{
    struct graph graph;
    void *event;

    start();
    if (!has_captures())
        T_SKIP("this backend has no captures");
    void *stream = new_stream(), *side = new_stream(), *outside = new_stream();
    REQUIRE_OK(acre_event_native_create(device, 0, &event));
    void *before = torch.malloc(BYTES, 0, outside);
    char *out = torch.malloc(BYTES, 0, stream);
    REQUIRE_OK(acre_fill_async(device, before, 6, BYTES, side));
    torch.record_stream(before, side);
    graph_begin(&graph, 0, acre_pool_id_next_graph(), stream);
    order(device, event, stream, side);
    torch.free(before, BYTES, 0, outside);
    torch.reset(); /* waits for nothing in a capture, and breaks nothing */
    REQUIRE_OK(acre_fill_async(device, out, 8, BYTES, side));
    order(device, event, side, stream);
    graph_end(&graph);
    graph_replay(&graph);
    EXPECT_EQ(value_of(device, out, BYTES), 8);
    void *after = torch.malloc(BYTES, 0, outside);
    EXPECT(after);
    torch.free(after, BYTES, 0, outside);
    torch.free(out, BYTES, 0, stream);
    graph_reset(&graph);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
    REQUIRE_OK(acre_event_native_destroy(device, event));
    end_stream(stream);
    end_stream(side);
    end_stream(outside);
}

/* A capture without a scope, as a library makes it on its own: nobody can know of it. The event
 * that is recorded into it never answers; that is no reason to refuse anything later. */
TEST(an_event_that_was_captured_blocks_nobody)
{
    void *native = NULL, *event;

    start();
    if (!has_captures())
        T_SKIP("this backend has no captures");
    void *stream = new_stream(), *outside = new_stream();
    REQUIRE_OK(acre_event_native_create(device, 0, &event));
    void *block = torch.malloc(BYTES, 0, outside);
    torch.record_stream(block, stream);
    REQUIRE_OK(acre_capture_begin(device, stream));
    torch.free(block, BYTES, 0, outside);
    if (acre_capture_end(device, stream, &native) == ACRE_OK)
        REQUIRE_OK(acre_graph_destroy(device, native));
    for (int i = 0; i < 4; i++) {
        void *other = torch.malloc(BYTES, 0, i % 2 ? outside : stream);
        EXPECT(other && other != block);
        torch.free(other, BYTES, 0, i % 2 ? outside : stream);
    }
    torch.reset(); /* records the event anew, outside of the capture */
    EXPECT_EQ(allocated_now(), 0);
    EXPECT_EQ(reserved_now(), 0);
    REQUIRE_OK(acre_event_native_destroy(device, event));
    end_stream(stream);
    end_stream(outside);
}

/* ---- Pools of users ------------------------------------------------------------------- */

/* torch.cuda.use_mem_pool: begin, end and release each time, while the pool object lives. */
TEST(a_users_pool_is_entered_again_and_again)
{
    struct cxx_filter all = {{NULL, NULL}, NULL, NULL};
    void *held[3];

    start();
    acre_pool_id pool = acre_pool_id_next();
    torch.begin(0, pool, &all); /* nested in nothing: keeps the pool, as its object does */
    torch.end(0, pool);
    for (int i = 0; i < 3; i++) {
        torch.begin(0, pool, &all);
        held[i] = torch.malloc(BYTES, 0, NULL);
        EXPECT_EQ(live_in(pool), i + 1);
        torch.end(0, pool);
        torch.release(0, pool);
        EXPECT_EQ(uses_of(0, pool), 1);
    }
    torch.reset();
    for (int i = 0; i < 3; i++)
        torch.free(held[i], BYTES, 0, NULL);
    torch.release(0, pool);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
}

/* PyTorch cannot be told that a begin failed, and releases once for it all the same. */
TEST(a_begin_that_fails_takes_no_use_from_others)
{
    struct cxx_filter all = {{NULL, NULL}, NULL, NULL};

    start();
    acre_pool_id pool = acre_pool_id_next();
    torch.begin(0, pool, &all);
    void *held = torch.malloc(BYTES, 0, NULL);
    torch.begin(0, pool, &all); /* refused: the pool has a scope */
    torch.end(0, pool);
    torch.end(0, pool);
    EXPECT_EQ(uses_of(0, pool), 2);
    torch.release(0, pool);
    torch.free(held, BYTES, 0, NULL);
    torch.reset();
    EXPECT_EQ(uses_of(0, pool), 1); /* the first user still replays into it */
    EXPECT_GT(reserved_now(), 0);
    torch.release(0, pool);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
}

TEST(a_begin_that_fails_ends_no_scope_of_others)
{
    acre_pool_stats stats = {.struct_size = sizeof stats};
    struct cxx_filter all = {{NULL, NULL}, NULL, NULL};

    start();
    acre_pool_id pool = acre_pool_id_next();
    torch.begin(0, pool, &all);
    torch.begin(0, pool, &all); /* refused: the pool has a scope */
    torch.end(0, pool);
    void *held = torch.malloc(BYTES, 0, NULL);
    REQUIRE_OK(acre_pool_stats_get(torch.cache(0), pool, &stats));
    EXPECT_EQ(stats.live_count, 1); /* the first user is still at it */
    torch.end(0, pool);
    void *outside = torch.malloc(BYTES, 0, NULL);
    REQUIRE_OK(acre_pool_stats_get(torch.cache(0), pool, &stats));
    EXPECT_EQ(stats.live_count, 1);
    torch.free(held, BYTES, 0, NULL);
    torch.free(outside, BYTES, 0, NULL);
    torch.release(0, pool);
    torch.release(0, pool);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
}

/* A capture that becomes invalid: its graph is never there, and nothing stays of it. */
TEST(a_capture_that_fails_is_in_nobodys_way)
{
    struct graph graph;
    void *event, *block;

    start();
    if (!has_captures())
        T_SKIP("this backend has no captures");
    void *stream = new_stream(), *side = new_stream(), *outside = new_stream();
    REQUIRE_OK(acre_event_native_create(device, 0, &event));
    for (int round = 0; round < 3; round++) {
        acre_pool_id pool = acre_pool_id_next_graph();
        graph_begin(&graph, 0, pool, stream);
        void *inside = torch.malloc(BYTES, 0, stream);
        order(device, event, stream, side);
        torch.record_stream(inside, side);
        EXPECT(acre_stream_native_synchronize(device, stream) != ACRE_OK); /* ends it */
        torch.free(inside, BYTES, 0, stream);
        block = torch.malloc(BYTES, 0, round == 1 ? stream : outside);
        torch.free(block, BYTES, 0, round == 1 ? stream : outside);
        if (round == 2)
            torch.reset();
        EXPECT(acre_capture_end(device, stream, &graph.native) != ACRE_OK);
        torch.end(0, pool);
        torch.release(0, pool);
        for (int i = 0; i < 3; i++) {
            void *on = i == 0 ? stream : i == 1 ? side : outside;
            block = torch.malloc(BYTES, 0, on);
            EXPECT(block);
            torch.record_stream(block, stream);
            torch.free(block, BYTES, 0, on);
        }
    }
    REQUIRE_OK(acre_device_synchronize(device));
    torch.reset();
    EXPECT_EQ(allocated_now(), 0);
    EXPECT_EQ(reserved_now(), 0);
    REQUIRE_OK(acre_cache_check(torch.cache(0)));
    REQUIRE_OK(acre_event_native_destroy(device, event));
    end_stream(stream);
    end_stream(side);
    end_stream(outside);
}

/* ---- Faults ---------------------------------------------------------------------------- */

/* One graph from begin to release, whatever fails on the way. */
static void graph_life(acre_pool_id pool, void *stream, void *side, void *event)
{
    acre_capture_info info = {.struct_size = sizeof info};
    struct graph graph = {.device = device, .pool = pool, .stream = stream};
    struct cxx_filter filter = {{&graph, NULL}, graph_manage, graph_passes};

    torch.begin(0, pool, &filter);
    bool captures = acre_capture_begin(device, stream) == ACRE_OK;
    if (captures && acre_capture_info_get(device, stream, &info) == ACRE_OK)
        graph.capture_id = info.id;
    void *inside = torch.malloc(BYTES, 0, stream);
    if (inside && acre_event_native_record(device, event, stream) == ACRE_OK &&
        acre_stream_native_wait(device, side, event) == ACRE_OK) {
        torch.record_stream(inside, side);
        if (acre_event_native_record(device, event, side) == ACRE_OK)
            (void)acre_stream_native_wait(device, stream, event);
    }
    torch.free(inside, BYTES, 0, stream);
    void *next = torch.malloc(300000, 0, stream);
    torch.free(next, 300000, 0, stream);
    if (captures && acre_capture_end(device, stream, &graph.native) != ACRE_OK) {
        faults_end();
        if (acre_capture_info_get(device, stream, &info) == ACRE_OK &&
            info.status != ACRE_CAPTURE_NONE)
            (void)acre_capture_end(device, stream, &graph.native);
    }
    torch.end(0, pool);
    if (graph.native && acre_graph_launch(device, graph.native, stream) == ACRE_OK)
        (void)acre_stream_native_synchronize(device, stream);
    torch.release(0, pool);
    torch.reset();
    if (graph.native && acre_graph_destroy(device, graph.native) != ACRE_OK) {
        faults_end();
        REQUIRE_OK(acre_graph_destroy(device, graph.native));
    }
}

TEST(every_call_in_the_life_of_a_graph_may_fail)
{
    bool is_hit = true;
    uint64_t nth;
    void *event;

    start();
    if (!has_captures() || !faults_find())
        T_SKIP("this backend has no captures, or its calls cannot be made to fail");
    torch.reset();
    for (nth = 1; is_hit; nth++) {
        void *stream = new_stream(), *side = new_stream();
        acre_pool_id pool = acre_pool_id_next_graph();
        REQUIRE_OK(acre_event_native_create(device, 0, &event));
        faults_arm(nth);
        graph_life(pool, stream, side, event);
        is_hit = faults_end();
        REQUIRE_OK(acre_device_synchronize(device));
        torch.reset();
        EXPECT_EQ(uses_of(0, pool), 0);
        EXPECT_EQ(allocated_now(), 0);
        EXPECT_EQ(reserved_now(), 0);
        REQUIRE_OK(acre_cache_check(torch.cache(0)));
        REQUIRE_OK(acre_event_native_destroy(device, event));
        end_stream(stream);
        end_stream(side);
        REQUIRE(nth < 1000);
    }
    EXPECT_GT(nth, 5);
}

/* ---- Threads -------------------------------------------------------------------------- */

static _Atomic int is_over;

/* Allocates, uses on two streams and frees, while others capture. */
static void *run_outside(void *arg)
{
    void *mine = stream_of(0), *other = stream_of(0);

    (void)arg;
    while (!is_over) {
        void *pointer = torch.malloc(300000, 0, mine);
        if (!pointer)
            t_fail(__FILE__, __LINE__, "%s", acre_last_error());
        torch.record_stream(pointer, other);
        torch.free(pointer, 300000, 0, mine);
    }
    acre_stream_native_synchronize(device, mine);
    acre_stream_native_synchronize(device, other);
    acre_stream_native_destroy(device, mine);
    acre_stream_native_destroy(device, other);
    return NULL;
}

TEST(threads_go_on_while_one_captures)
{
    pthread_t threads[2];
    struct graph graph;

    start();
    if (!has_captures())
        T_SKIP("this backend has no captures");
    void *stream = new_stream();
    char *out = torch.malloc(BYTES, 0, stream);
    is_over = 0;
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, run_outside, NULL) == 0);
    for (uint64_t i = 0; i < t_count(40, 1000); i++) {
        torch.reset(); /* as torch.cuda.graph does before a capture begins */
        capture_fill(&graph, acre_pool_id_next_graph(), stream, out, (int)(i % 200));
        graph_replay(&graph);
        EXPECT_EQ(value_of(device, out, BYTES), (int)(i % 200));
        graph_reset(&graph);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    torch.free(out, BYTES, 0, stream);
    REQUIRE_OK(acre_device_synchronize(device));
    torch.reset();
    REQUIRE_OK(acre_cache_check(torch.cache(0)));
    EXPECT_EQ(reserved_now(), 0);
    end_stream(stream);
}
