/* SPDX-License-Identifier: MIT */
/* Capture and graphs. */
#include "tests/conform/backend_suite.h"

void suite_graph(void)
{
}

struct scene {
    struct suite s;
    acre_device *device;
    void *a, *b;
    void *event;
};

static void scene_begin(struct scene *c)
{
    memset(c, 0, sizeof *c);
    c->s = suite_begin(ACRE_CAP_STREAMS | ACRE_CAP_LAUNCH | ACRE_CAP_CAPTURE);
    c->device = c->s.device;
    int priority = suite_info(c->device).priority_least;

    REQUIRE_OK(acre_stream_native_create(c->device, 0, priority, &c->a));
    REQUIRE_OK(acre_stream_native_create(c->device, 0, priority, &c->b));
    REQUIRE_OK(acre_event_native_create(c->device, 0, &c->event));
}

static void scene_end(struct scene *c)
{
    EXPECT_OK(acre_event_native_destroy(c->device, c->event));
    EXPECT_OK(acre_stream_native_destroy(c->device, c->a));
    EXPECT_OK(acre_stream_native_destroy(c->device, c->b));
    suite_end(&c->s);
}

static void count_task(void *count)
{
    atomic_fetch_add((_Atomic int *)count, 1);
}

static acre_capture_info info_of(struct scene *c, void *stream)
{
    acre_capture_info info = {.struct_size = sizeof info, .status = (acre_capture_status)77};

    EXPECT_OK(acre_capture_info_get(c->device, stream, &info));
    return info;
}

TEST(captured_work_is_recorded_and_runs_at_each_launch)
{
    struct scene c;
    _Atomic int count = 0;
    void *graph;

    scene_begin(&c);
    EXPECT_EQ(info_of(&c, c.a).status, ACRE_CAPTURE_NONE);
    REQUIRE_OK(acre_capture_begin(c.device, c.a));
    EXPECT_EQ(info_of(&c, c.a).status, ACRE_CAPTURE_ACTIVE);
    EXPECT_EQ(info_of(&c, c.b).status, ACRE_CAPTURE_NONE);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(acre_launch_host(c.device, c.a, count_task, &count));
    EXPECT_EQ(count, 0);
    REQUIRE_OK(acre_capture_end(c.device, c.a, &graph));
    EXPECT_EQ(info_of(&c, c.a).status, ACRE_CAPTURE_NONE);
    EXPECT_OK(acre_stream_native_synchronize(c.device, c.a));
    EXPECT_EQ(count, 0);
    for (int i = 1; i <= 5; i++) {
        EXPECT_OK(acre_graph_launch(c.device, graph, c.a));
        EXPECT_OK(acre_stream_native_synchronize(c.device, c.a));
        EXPECT_EQ(count, 3 * i);
    }
    EXPECT_OK(acre_graph_launch(c.device, graph, c.b));
    EXPECT_OK(acre_graph_destroy(c.device, graph));
    EXPECT_OK(acre_stream_native_synchronize(c.device, c.b));
    EXPECT_EQ(count, 18);
    scene_end(&c);
}

TEST(captures_have_numbers_of_their_own)
{
    struct scene c;
    acre_capture_info first = {.struct_size = sizeof first};
    acre_capture_info second = {.struct_size = sizeof second};
    void *graph;

    scene_begin(&c);
    REQUIRE_OK(acre_capture_begin(c.device, c.a));
    REQUIRE_OK(acre_capture_begin(c.device, c.b));
    first = info_of(&c, c.a);
    second = info_of(&c, c.b);
    EXPECT_NE(first.id, second.id);
    REQUIRE_OK(acre_capture_end(c.device, c.b, &graph));
    EXPECT_OK(acre_graph_destroy(c.device, graph));
    EXPECT_EQ(info_of(&c, c.a).id, first.id);
    REQUIRE_OK(acre_capture_end(c.device, c.a, &graph));
    EXPECT_OK(acre_graph_destroy(c.device, graph));
    REQUIRE_OK(acre_capture_begin(c.device, c.a));
    EXPECT_NE(info_of(&c, c.a).id, first.id);
    EXPECT_NE(info_of(&c, c.a).id, second.id);
    REQUIRE_OK(acre_capture_end(c.device, c.a, &graph));
    EXPECT_OK(acre_graph_destroy(c.device, graph));
    scene_end(&c);
}

TEST(events_fork_and_join_a_capture)
{
    struct scene c;
    _Atomic int count = 0;
    void *graph, *back;

    scene_begin(&c);
    REQUIRE_OK(acre_event_native_create(c.device, 0, &back));
    REQUIRE_OK(acre_capture_begin(c.device, c.a));
    EXPECT_OK(acre_launch_host(c.device, c.a, count_task, &count));
    EXPECT_OK(acre_event_native_record(c.device, c.event, c.a));
    EXPECT_OK(acre_stream_native_wait(c.device, c.b, c.event));
    EXPECT_EQ(info_of(&c, c.b).status, ACRE_CAPTURE_ACTIVE);
    EXPECT_EQ(info_of(&c, c.b).id, info_of(&c, c.a).id);
    EXPECT_OK(acre_launch_host(c.device, c.b, count_task, &count));
    EXPECT_OK(acre_event_native_record(c.device, back, c.b));
    EXPECT_OK(acre_stream_native_wait(c.device, c.a, back));
    REQUIRE_OK(acre_capture_end(c.device, c.a, &graph));
    EXPECT_EQ(info_of(&c, c.b).status, ACRE_CAPTURE_NONE);
    EXPECT_OK(acre_graph_launch(c.device, graph, c.a));
    EXPECT_OK(acre_stream_native_synchronize(c.device, c.a));
    EXPECT_EQ(count, 2);
    EXPECT_OK(acre_graph_destroy(c.device, graph));
    EXPECT_OK(acre_event_native_destroy(c.device, back));
    scene_end(&c);
}

TEST(a_branch_left_out_spoils_the_capture)
{
    struct scene c;
    _Atomic int count = 0;
    void *graph = &c;

    scene_begin(&c);
    REQUIRE_OK(acre_capture_begin(c.device, c.a));
    EXPECT_OK(acre_launch_host(c.device, c.a, count_task, &count));
    EXPECT_OK(acre_event_native_record(c.device, c.event, c.a));
    EXPECT_OK(acre_stream_native_wait(c.device, c.b, c.event));
    EXPECT_OK(acre_launch_host(c.device, c.b, count_task, &count));
    EXPECT_REFUSED(acre_capture_end(c.device, c.a, &graph));
    EXPECT_PTR_EQ(graph, &c);
    EXPECT_EQ(info_of(&c, c.a).status, ACRE_CAPTURE_NONE);
    EXPECT_EQ(info_of(&c, c.b).status, ACRE_CAPTURE_NONE);
    EXPECT_OK(acre_launch_host(c.device, c.b, count_task, &count));
    EXPECT_OK(acre_stream_native_synchronize(c.device, c.b));
    EXPECT_EQ(count, 1);
    scene_end(&c);
}

TEST(a_capture_ends_on_the_stream_that_began_it)
{
    struct scene c;
    void *graph = &c;

    scene_begin(&c);
    REQUIRE_OK(acre_capture_begin(c.device, c.a));
    EXPECT_OK(acre_event_native_record(c.device, c.event, c.a));
    EXPECT_OK(acre_stream_native_wait(c.device, c.b, c.event));
    EXPECT_REFUSED(acre_capture_end(c.device, c.b, &graph));
    EXPECT_PTR_EQ(graph, &c);
    if (acre_capture_end(c.device, c.a, &graph) == ACRE_OK)
        EXPECT_OK(acre_graph_destroy(c.device, graph));
    EXPECT_EQ(info_of(&c, c.a).status, ACRE_CAPTURE_NONE);
    EXPECT_EQ(info_of(&c, c.b).status, ACRE_CAPTURE_NONE);
    scene_end(&c);
}

TEST(nodes_tell_what_they_depend_on)
{
    struct scene c;
    _Atomic int count = 0;
    uint64_t nodes[4] = {0}, first;
    uint32_t node_count = 99;
    acre_capture_info info = {.struct_size = sizeof info};
    void *graph;

    scene_begin(&c);
    REQUIRE_OK(acre_capture_begin(c.device, c.a));
    EXPECT_EQ(info_of(&c, c.a).terminal_count, 0);
    EXPECT_OK(acre_launch_host(c.device, c.a, count_task, &count));
    info = info_of(&c, c.a);
    REQUIRE_EQ(info.terminal_count, 1);
    first = info.terminals[0];
    EXPECT_OK(acre_launch_host(c.device, c.a, count_task, &count));
    info = info_of(&c, c.a);
    REQUIRE_EQ(info.terminal_count, 1);
    EXPECT_NE(info.terminals[0], first);
    EXPECT_OK(acre_capture_dependencies(c.device, info.id, info.terminals[0], nodes, 4,
                                        &node_count));
    EXPECT_EQ(node_count, 1);
    EXPECT_EQ(nodes[0], first);
    EXPECT_OK(acre_capture_dependencies(c.device, info.id, first, nodes, 4, &node_count));
    EXPECT_EQ(node_count, 0);
    EXPECT_OK(acre_capture_dependencies(c.device, info.id, info.terminals[0], NULL, 0,
                                        &node_count));
    EXPECT_EQ(node_count, 1);
    REQUIRE_OK(acre_capture_end(c.device, c.a, &graph));
    EXPECT_OK(acre_graph_destroy(c.device, graph));
    scene_end(&c);
}

TEST(captures_begin_and_end_in_pairs)
{
    struct scene c;
    void *graph = &c;

    scene_begin(&c);
    EXPECT_REFUSED(acre_capture_end(c.device, c.a, &graph));
    REQUIRE_OK(acre_capture_begin(c.device, c.a));
    EXPECT_REFUSED(acre_capture_begin(c.device, c.a));
    EXPECT_EQ(acre_capture_end(c.device, c.a, NULL), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(graph, &c);
    if (acre_capture_end(c.device, c.a, &graph) == ACRE_OK)
        EXPECT_OK(acre_graph_destroy(c.device, graph));
    EXPECT_EQ(acre_graph_launch(c.device, NULL, c.a), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_graph_destroy(c.device, NULL), ACRE_ERR_INVALID);
    if (!backend_suite.is_trusting) {
        EXPECT_REFUSED(acre_graph_launch(c.device, &c, c.a));
        EXPECT_REFUSED(acre_graph_destroy(c.device, &c));
    }
    scene_end(&c);
}

/* Waiting for a capture makes no sense; drivers refuse and may spoil it. */
TEST(a_captured_stream_cannot_be_waited_for)
{
    struct scene c;
    _Atomic int count = 0;
    void *graph = NULL;

    scene_begin(&c);
    REQUIRE_OK(acre_capture_begin(c.device, c.a));
    EXPECT_OK(acre_launch_host(c.device, c.a, count_task, &count));
    EXPECT_REFUSED(acre_stream_native_synchronize(c.device, c.a));
    if (acre_capture_end(c.device, c.a, &graph) == ACRE_OK)
        EXPECT_OK(acre_graph_destroy(c.device, graph));
    EXPECT_EQ(info_of(&c, c.a).status, ACRE_CAPTURE_NONE);
    EXPECT_EQ(count, 0);
    scene_end(&c);
}
