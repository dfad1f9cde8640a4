/* SPDX-License-Identifier: MIT */
/* Random captures against a naive picture of their graphs: for every node, the
 * set of all nodes before it. Memory is handed out well when every node that
 * touches a block comes after all nodes that touched what lay there before, in
 * the same capture; nothing else would hold at replay. Meanwhile threads outside
 * allocate on a stream of their own. No capture may break, memory of a graph
 * stays while the graph lives, and nothing is lost at the end. */
#include "tests/support/capture_lab.h"
#include "tests/support/dice.h"

#include <pthread.h>

#define STREAMS 3
#define NODES_MAX 192
#define BLOCKS_MAX 160
#define EVENTS 4
#define GRAPHS 3

typedef uint64_t set[NODES_MAX / 64];

struct piece {
    char *base;
    uint64_t bytes;
    int stream;
    bool is_live, uses[STREAMS];
    set touched;          /* nodes */
};

/* A stream: the nodes that come before its next one, and whether it captures. */
struct lane {
    void *native;
    bool is_inside;
    set before;
};

static struct bench bench;
static struct lane lanes[STREAMS];
static struct {
    void *native;
    bool is_set;
    set before;
} events[EVENTS];
static set ancestors[NODES_MAX]; /* of each node, itself included */
static int node_count;
static struct piece pieces[BLOCKS_MAX];
static int piece_count;
static acre_recording *graphs[GRAPHS];
static uint64_t reuse_count;
static void *outside; /* a stream that never takes part */

static void set_add(set to, const set from)
{
    for (int i = 0; i < NODES_MAX / 64; i++)
        to[i] |= from[i];
}

static bool set_within(const set part, const set whole)
{
    for (int i = 0; i < NODES_MAX / 64; i++)
        if (part[i] & ~whole[i])
            return false;
    return true;
}

static bool overlap(const struct piece *a, const struct piece *b)
{
    return a->base < b->base + b->bytes && b->base < a->base + a->bytes;
}

/* Captures a node on a stream that touches a piece. */
static void touch(struct piece *piece, int stream)
{
    int node = node_count;

    if (node == NODES_MAX)
        return;
    node_count++;
    bench_fill(&bench, piece->base, 1, 512, lanes[stream].native);
    memset(ancestors[node], 0, sizeof ancestors[node]);
    set_add(ancestors[node], lanes[stream].before);
    ancestors[node][node / 64] |= (uint64_t)1 << node % 64;
    memcpy(lanes[stream].before, ancestors[node], sizeof(set));
    piece->touched[node / 64] |= (uint64_t)1 << node % 64;
    for (int i = 0; &pieces[i] < piece; i++) {
        if (!overlap(&pieces[i], piece))
            continue;
        reuse_count++;
        if (set_within(pieces[i].touched, ancestors[node]))
            continue;
        t_fail(__FILE__, __LINE__, "node %d does not come after all that used its memory", node);
        t_leave();
    }
}

static int random_inside(void)
{
    int stream = (int)below(STREAMS);

    while (!lanes[stream].is_inside)
        stream = (stream + 1) % STREAMS;
    return stream;
}

static void run_alloc(void)
{
    int stream = random_inside();
    struct piece *piece = &pieces[piece_count];
    static const size_t sizes[] = {512, 4096, MIB, 3 * MIB, 12 * MIB};

    if (piece_count == BLOCKS_MAX)
        return;
    *piece = (struct piece){.stream = stream, .is_live = true};
    piece->base = bench_alloc(&bench, sizes[below(5)], lanes[stream].native);
    REQUIRE_OK(acre_cache_block_bytes(bench.cache, piece->base, &piece->bytes));
    for (int i = 0; i < piece_count; i++)
        REQUIRE(!pieces[i].is_live || !overlap(&pieces[i], piece));
    piece_count++;
    touch(piece, stream);
}

static struct piece *random_live(void)
{
    for (int tries = 0; tries < 8 && piece_count; tries++) {
        struct piece *piece = &pieces[below((uint64_t)piece_count)];
        if (piece->is_live)
            return piece;
    }
    return NULL;
}

/* Works with a piece on a stream that knows of it, and says so. */
static void run_use(void)
{
    struct piece *piece = random_live();
    int stream = random_inside();

    if (!piece || !set_within(piece->touched, lanes[stream].before))
        return;
    if (stream != piece->stream) {
        bench_use(&bench, piece->base, lanes[stream].native);
        piece->uses[stream] = true;
    }
    touch(piece, stream);
}

static void run_free(void)
{
    struct piece *piece = random_live();

    if (!piece)
        return;
    bench_free(&bench, piece->base);
    piece->is_live = false;
}

/* One stream waits for another, which may bring it into the capture. */
static void run_join(void)
{
    int from = random_inside(), to = (int)below(STREAMS), which = (int)below(EVENTS);

    if (below(2) || !events[which].is_set) {
        REQUIRE_OK(acre_event_native_record(bench.device, events[which].native,
                                            lanes[from].native));
        memcpy(events[which].before, lanes[from].before, sizeof(set));
        events[which].is_set = true;
    }
    if (below(2))
        return;
    REQUIRE_OK(acre_stream_native_wait(bench.device, lanes[to].native, events[which].native));
    lanes[to].is_inside = true;
    set_add(lanes[to].before, events[which].before);
}

/* Outside, from a thread that does not capture, as far as the cache can tell. */
static void *alloc_outside(void *arg)
{
    void *pointer = bench_alloc(&bench, 1 + *(uint64_t *)arg % (4 * MIB), outside);

    bench_free(&bench, pointer);
    if (*(uint64_t *)arg % 16 == 0)
        EXPECT_EQ(acre_cache_empty(bench.cache), ACRE_OK);
    return NULL;
}

static void run_outside(void)
{
    uint64_t dice = below(UINT32_MAX);
    pthread_t thread;

    REQUIRE(pthread_create(&thread, NULL, alloc_outside, &dice) == 0);
    pthread_join(thread, NULL);
}

static void run_step(void)
{
    uint64_t dice = below(100);

    if (dice < 35)
        run_alloc();
    else if (dice < 55)
        run_free();
    else if (dice < 75)
        run_use();
    else if (dice < 97)
        run_join();
    else if (dice < 98)
        run_outside();
}

/* All other streams join, which they must before the end. */
static void join_all(void)
{
    for (int i = 1; i < STREAMS; i++)
        if (lanes[i].is_inside)
            bench_join(&bench, lanes[i].native, lanes[0].native);
}

static void run_capture(const acre_pool_id *pool, int steps)
{
    int slot = (int)below(GRAPHS);

    node_count = piece_count = 0;
    memset(lanes, 0, sizeof lanes);
    lanes[0].native = bench.a;
    lanes[1].native = bench.b;
    lanes[2].native = bench.c;
    for (int i = 0; i < EVENTS; i++)
        events[i].is_set = false;
    acre_recording_destroy(graphs[slot]);
    graphs[slot] = NULL;
    if (below(4) == 0)
        REQUIRE_OK(acre_cache_empty(bench.cache));
    graphs[slot] = bench_record(&bench, pool);
    lanes[0].is_inside = true;
    for (int i = 0; i < steps; i++)
        run_step();
    join_all();
    REQUIRE_OK(acre_recording_end(graphs[slot])); /* nothing has broken it */
    for (int i = 0; i < piece_count; i++)
        if (pieces[i].is_live)
            bench_free(&bench, pieces[i].base);
    if (acre_cache_check(bench.cache) != ACRE_OK)
        t_fail(__FILE__, __LINE__, "%s", acre_last_error());
    REQUIRE_OK(acre_recording_launch(graphs[slot], bench.a));
}

static void run_model(acre_policy policy, const char *conf, bool is_shared)
{
    acre_pool_id id = acre_pool_id_next();
    uint64_t captures = t_count(300, 20000 / t_slowness());

    dice_begin();
    reuse_count = 0;
    bench_open(&bench, policy, conf);
    REQUIRE_OK(acre_stream_native_create(bench.device, 0, 0, &outside));
    for (int i = 0; i < EVENTS; i++)
        REQUIRE_OK(acre_event_native_create(bench.device, 0, &events[i].native));
    REQUIRE_OK(acre_pool_create(bench.cache, id, NULL));
    for (uint64_t i = 0; i < captures; i++)
        run_capture(is_shared ? &id : NULL, 20 + (int)below(300));
    EXPECT_GT(reuse_count, captures); /* or it would be easy */
    for (int i = 0; i < GRAPHS; i++) {
        acre_recording_destroy(graphs[i]);
        graphs[i] = NULL;
    }
    REQUIRE_OK(acre_pool_release(bench.cache, id));
    REQUIRE_OK(acre_cache_empty(bench.cache));
    EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 0);
    EXPECT_EQ(bench_stats(&bench).active.all.current, 0);
    for (int i = 0; i < EVENTS; i++)
        REQUIRE_OK(acre_event_native_destroy(bench.device, events[i].native));
    REQUIRE_OK(acre_stream_native_destroy(bench.device, outside));
    bench_close(&bench);
}

TEST(torch_frees_at_the_end)
{
    run_model(ACRE_POLICY_TORCH, NULL, false);
}

TEST(torch_reuses_by_topology)
{
    run_model(ACRE_POLICY_TORCH, "graph_capture_record_stream_reuse:True", false);
}

TEST(torch_with_expandable_segments_and_one_pool)
{
    run_model(ACRE_POLICY_TORCH,
              "expandable_segments:True,graph_capture_record_stream_reuse:True", true);
}

TEST(acre_reuses_by_topology)
{
    run_model(ACRE_POLICY_ACRE, "graph_capture_record_stream_reuse:True", false);
}

TEST(acre_with_one_pool)
{
    run_model(ACRE_POLICY_ACRE, "graph_capture_record_stream_reuse:True", true);
}

T_MAIN()
