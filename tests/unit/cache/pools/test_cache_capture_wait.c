/* SPDX-License-Identifier: MIT */
#include "cache/pools/capture_wait.h"

#include "tests/support/capture_lab.h"

static acre_capture_info info_of(struct bench *bench, void *stream)
{
    acre_capture_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_capture_info_get(bench->device, stream, &info));
    return info;
}

/* A capture wait that waits for the present end of a stream. */
static struct capture_wait *marked(struct bench *bench, void *stream)
{
    acre_capture_info info = info_of(bench, stream);
    struct capture_wait *capture_wait = capture_wait_create(info.terminal_count);

    REQUIRE(capture_wait);
    capture_wait->marker_count = info.terminal_count;
    memcpy(capture_wait->markers, info.terminals,
           info.terminal_count * sizeof capture_wait->markers[0]);
    return capture_wait;
}

TEST(a_view_grows_with_its_capture)
{
    struct bench bench;
    struct capture_waits capture_waits;
    struct deferred deferred;
    void *memory, *graph;

    bench_open(&bench, ACRE_POLICY_TORCH, NULL);
    memory = bench_alloc(&bench, MIB, bench.c);
    capture_waits_init(&capture_waits);
    deferred_init(&deferred, bench.device);
    REQUIRE_OK(acre_capture_begin(bench.device, bench.a));
    for (int i = 0; i < 200; i++)
        bench_fill(&bench, memory, i, 512, bench.a);
    acre_capture_info info = info_of(&bench, bench.a);
    struct capture_wait *early = marked(&bench, bench.a), *empty = capture_wait_create(0);
    struct view *view = view_get(&capture_waits, info.id, bench.a);
    REQUIRE(view && empty);
    EXPECT_PTR_EQ(view_get(&capture_waits, info.id, bench.a), view);
    EXPECT(view_get(&capture_waits, info.id, bench.b) != view);
    EXPECT(!view_covers(view, early));
    REQUIRE_OK(view_extend(view, bench.device, &info));
    EXPECT(view_covers(view, early));
    EXPECT(!view_covers(view, empty)); /* nothing to wait for is not enough */
    EXPECT_EQ(view->nodes.count, 200);

    bench_join(&bench, bench.a, bench.b);
    bench_fill(&bench, memory, 1, 512, bench.b);
    struct capture_wait *side = marked(&bench, bench.b);
    bench_fill(&bench, memory, 1, 512, bench.a);
    info = info_of(&bench, bench.a);
    tracing_reset(bench.traced);
    REQUIRE_OK(view_extend(view, bench.device, &info));
    EXPECT_EQ(tracing_count(bench.traced, WRAP_capture_dependencies), 1); /* one is new */
    EXPECT(!view_covers(view, side));
    bench_join(&bench, bench.b, bench.a);
    info = info_of(&bench, bench.a);
    REQUIRE_OK(view_extend(view, bench.device, &info));
    EXPECT(view_covers(view, side));
    REQUIRE_OK(acre_capture_end(bench.device, bench.a, &graph));

    info.terminals[0] += 1000; /* unknown: less is in view, not more */
    EXPECT_EQ(view_extend(view, bench.device, &info), ACRE_ERR_NOT_FOUND);
    EXPECT(!view_covers(view, early));
    views_drop(&capture_waits, info.id);
    EXPECT(list_empty(&capture_waits.views));
    heap_free(early);
    heap_free(empty);
    heap_free(side);
    capture_waits_fini(&capture_waits, &deferred);
    deferred_fini(&deferred);
    REQUIRE_OK(acre_graph_destroy(bench.device, graph));
    bench_free(&bench, memory);
    bench_close(&bench);
}

TEST(a_block_that_is_parked_keeps_its_uses)
{
    struct block block = {.state = BLOCK_LIVE};
    struct capture_waits capture_waits;
    struct deferred deferred;
    const char *fact;
    int stream;

    capture_waits_init(&capture_waits);
    deferred_init(&deferred, NULL);
    REQUIRE_OK(deferred_use(&deferred, &block, &stream, 7));
    REQUIRE_OK(deferred_use(&deferred, &block, &stream, 7));
    REQUIRE_OK(deferred_use(&deferred, &block, &stream + 1, 0));
    struct capture_wait *capture_wait = capture_wait_create(0);
    REQUIRE(capture_wait);
    capture_wait_begin(&capture_waits, &deferred, capture_wait, &block);
    EXPECT_EQ(block.state, BLOCK_WAITING);
    EXPECT_EQ(block.event_count, 1);
    EXPECT_PTR_EQ(block.uses, NULL);
    EXPECT_EQ(deferred.pending_count, 1);
    EXPECT(deferred_check(&deferred, &fact));
    EXPECT_PTR_EQ(capture_wait_lift(capture_wait), &block);
    EXPECT_EQ(block.state, BLOCK_LIVE);
    deferred_forget_captured(&deferred, &block);
    EXPECT_PTR_EQ(block.uses->stream, &stream + 1);
    EXPECT_PTR_EQ(block.uses->next, NULL);
    capture_wait_lower(capture_wait);
    EXPECT_EQ(block.state, BLOCK_WAITING);
    capture_waits_fini(&capture_waits, &deferred);
    EXPECT_EQ(deferred.pending_count, 0);
    EXPECT_PTR_EQ(block.uses, NULL);
    deferred_fini(&deferred);
}

/* What was part of a capture and what runs, on one stream. */
TEST(work_that_runs_is_never_forgotten)
{
    struct block block = {.state = BLOCK_LIVE};
    struct deferred deferred;
    int stream;

    deferred_init(&deferred, NULL);
    REQUIRE_OK(deferred_use(&deferred, &block, &stream, 7));
    EXPECT_EQ(block.uses->capture_id, 7);
    REQUIRE_OK(deferred_use(&deferred, &block, &stream, 8));
    EXPECT_EQ(block.uses->capture_id, 8);
    REQUIRE_OK(deferred_use(&deferred, &block, &stream, 0));
    REQUIRE_OK(deferred_use(&deferred, &block, &stream, 9));
    EXPECT_EQ(block.uses->capture_id, 0);
    deferred_forget_captured(&deferred, &block);
    EXPECT(block.uses != NULL);
    deferred_forget_uses(&deferred, &block);
    deferred_fini(&deferred);
}

T_MAIN()
