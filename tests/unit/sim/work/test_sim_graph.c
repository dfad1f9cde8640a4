/* SPDX-License-Identifier: MIT */
/* Capture and graphs of the reference device. */
#include "sim/work/sim_capture.h"

#include "tests/support/sim_rig.h"

static void count_up(void *arg)
{
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

static acre_capture_info info_of(int device, void *stream)
{
    acre_capture_info info = {.struct_size = sizeof info};

    REQUIRE_OK(OP(capture_info, device, stream, &info));
    return info;
}

/* Appends a character to a text: tells the order of nodes. */
struct letter {
    char *text;
    char letter;
};

static void write_letter(acre_kernel_context *context, void *args)
{
    struct letter *letter = args;
    size_t length = strlen(letter->text);

    (void)context;
    letter->text[length] = letter->letter;
    letter->text[length + 1] = 0;
}

static void queue_letter(int device, void *stream, char *text, char letter)
{
    struct letter args = {text, letter};

    REQUIRE_OK(OP(launch_kernel, device, stream, write_letter, &args, sizeof args));
}

/* ---- One stream ------------------------------------------------------------------------ */

TEST(captured_work_is_recorded_and_not_run)
{
    char text[32] = "";
    void *graph = NULL;

    rig_open(NULL);
    void *stream = rig_stream(0);
    EXPECT_EQ(info_of(0, stream).status, ACRE_CAPTURE_NONE);
    REQUIRE_OK(OP(capture_begin, 0, stream));
    EXPECT_EQ(info_of(0, stream).status, ACRE_CAPTURE_ACTIVE);
    for (char c = 'a'; c <= 'e'; c++)
        queue_letter(0, stream, text, c);
    REQUIRE_OK(OP(capture_end, 0, stream, &graph));
    EXPECT_EQ(info_of(0, stream).status, ACRE_CAPTURE_NONE);
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    EXPECT_STR_EQ(text, "");
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(OP(graph_launch, 0, graph, stream));
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    EXPECT_STR_EQ(text, "abcdeabcdeabcde");
    EXPECT_EQ(rig_usage().graph_count, 1);
    EXPECT_OK(OP(graph_destroy, 0, graph));
    EXPECT_EQ(rig_usage().graph_count, 0);
    rig_close();
}

/* Counts down its own argument; large is larger than any room inside a task. */
struct countdown {
    int64_t left;
    _Atomic int64_t *seen;
    char large[4096];
};

static void count_down(acre_kernel_context *context, void *args)
{
    struct countdown *countdown = args;

    (void)context;
    atomic_fetch_add(countdown->seen, countdown->left--);
}

TEST(every_launch_has_arguments_of_its_own)
{
    static const size_t sizes[] = {offsetof(struct countdown, large), sizeof(struct countdown)};

    rig_open(NULL);
    void *stream = rig_stream(0), *other = rig_stream(0);
    for (int i = 0; i < 2; i++) {
        _Atomic int64_t seen = 0;
        struct countdown args = {.left = 10, .seen = &seen};
        void *graph = NULL;

        REQUIRE_OK(OP(capture_begin, 0, stream));
        REQUIRE_OK(OP(launch_kernel, 0, stream, count_down, &args, sizes[i]));
        REQUIRE_OK(OP(capture_end, 0, stream, &graph));
        for (int k = 0; k < 20; k++)
            REQUIRE_OK(OP(graph_launch, 0, graph, k % 2 ? stream : other));
        EXPECT_OK(OP(stream_synchronize, 0, stream));
        EXPECT_OK(OP(stream_synchronize, 0, other));
        EXPECT_EQ(atomic_load(&seen), 200);
        EXPECT_OK(OP(graph_destroy, 0, graph));
    }
    rig_close();
}

TEST(every_kind_of_work_can_be_captured)
{
    unsigned char host[64], back[64] = {0};
    _Atomic uint64_t ran = 0;
    uint32_t flag = 0;
    void *graph;

    rig_open(NULL);
    void *stream = rig_stream(0), *other = rig_stream(0);
    char *a = rig_alloc(0, 4096), *b = rig_alloc(1, 4096);
    uint32_t *value = rig_alloc(0, 4096);
    memset(host, 7, sizeof host);
    REQUIRE_OK(OP(capture_begin, 0, stream));
    REQUIRE_OK(OP(copy_async, 0, a, host, 64, ACRE_COPY_HOST_TO_DEVICE, stream));
    REQUIRE_OK(OP(fill_async, 0, a + 8, 1, 8, stream));
    REQUIRE_OK(OP(copy_peer_async, b, 1, a, 0, 64, stream));
    REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
    REQUIRE_OK(OP(write_value32, 0, stream, value, 5));
    REQUIRE_OK(OP(wait_value32, 0, stream, value + 1, 6, ACRE_WAIT_GEQ));
    REQUIRE_OK(OP(copy_async, 0, back, b, 64, ACRE_COPY_DEVICE_TO_HOST, stream));
    REQUIRE_OK(OP(capture_end, 0, stream, &graph));
    for (int i = 0; i < 3; i++) {
        memset(back, 0, sizeof back);
        rig_put(value + 1, &flag, 4);
        REQUIRE_OK(OP(graph_launch, 0, graph, stream));
        REQUIRE_OK(OP(wait_value32, 0, other, value, 5, ACRE_WAIT_EQ));
        REQUIRE_OK(OP(stream_synchronize, 0, other));
        EXPECT_STATUS(OP(stream_query, 0, stream), ACRE_ERR_NOT_READY); /* parked inside */
        EXPECT_EQ(back[0], 0);
        REQUIRE_OK(OP(write_value32, 0, other, value + 1, 6));
        EXPECT_OK(OP(stream_synchronize, 0, stream));
        for (int k = 0; k < 64; k++)
            EXPECT_EQ(back[k], k >= 8 && k < 16 ? 1 : 7);
        EXPECT_EQ(atomic_load(&ran), i + 1);
        REQUIRE_OK(OP(write_value32, 0, other, value, 0));
        REQUIRE_OK(OP(stream_synchronize, 0, other));
    }
    rig_close();
}

TEST(nodes_and_captures_have_numbers_of_their_own)
{
    char text[32] = "";
    uint64_t before = 0, dependency[4];
    uint32_t count = 9;
    void *graph;

    rig_open(NULL);
    void *stream = rig_stream(0);
    uint64_t last_capture = 0;
    for (int round = 0; round < 3; round++) {
        REQUIRE_OK(OP(capture_begin, 0, stream));
        acre_capture_info info = info_of(0, stream);
        EXPECT_GT(info.id, last_capture);
        last_capture = info.id;
        EXPECT_EQ(info.terminal_count, 0);
        queue_letter(0, stream, text, 'a');
        info = info_of(0, stream);
        uint64_t first = info.terminals[0];
        EXPECT_EQ(info.terminal_count, 1);
        EXPECT_GT(first, before);
        EXPECT_OK(OP(capture_dependencies, 0, info.id, first, dependency, 4, &count));
        EXPECT_EQ(count, 0);
        queue_letter(0, stream, text, 'b');
        before = info_of(0, stream).terminals[0];
        EXPECT_GT(before, first);
        EXPECT_OK(OP(capture_dependencies, 0, info.id, before, dependency, 4, &count));
        EXPECT_EQ(count, 1);
        EXPECT_EQ(dependency[0], first);
        EXPECT_OK(OP(capture_dependencies, 0, info.id, before, NULL, 0, &count));
        EXPECT_STATUS(OP(capture_dependencies, 0, info.id, before, NULL, 1, &count),
                      ACRE_ERR_INVALID);
        EXPECT_STATUS(OP(capture_dependencies, 0, info.id, before, dependency, 4, NULL),
                      ACRE_ERR_INVALID);
        EXPECT_STATUS(OP(capture_dependencies, 0, info.id, before + 1, dependency, 4, &count),
                      ACRE_ERR_NOT_FOUND);
        EXPECT_STATUS(OP(capture_dependencies, 0, info.id + 1, before, dependency, 4, &count),
                      ACRE_ERR_NOT_FOUND);
        REQUIRE_OK(OP(capture_end, 0, stream, &graph));
        EXPECT_STATUS(OP(capture_dependencies, 0, info.id, before, dependency, 4, &count),
                      ACRE_ERR_NOT_FOUND);
        REQUIRE_OK(OP(graph_destroy, 0, graph));
    }
    rig_close();
}

TEST(an_empty_graph_can_be_launched)
{
    void *graph;

    rig_open(NULL);
    void *stream = rig_stream(0);
    REQUIRE_OK(OP(capture_begin, 0, stream));
    REQUIRE_OK(OP(capture_end, 0, stream, &graph));
    EXPECT_OK(OP(graph_launch, 0, graph, stream));
    EXPECT_STATUS(OP(graph_launch, 0, graph, (void *)16), ACRE_ERR_INVALID);
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    rig_close();
}

TEST(a_graph_may_be_destroyed_while_it_runs)
{
    struct rig_gate gate = RIG_GATE_INITIALIZER;
    _Atomic uint64_t ran = 0;
    void *graph;

    rig_open(NULL);
    void *stream = rig_stream(0);
    REQUIRE_OK(OP(capture_begin, 0, stream));
    REQUIRE_OK(OP(launch_host, 0, stream, rig_gate_task, &gate));
    REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
    REQUIRE_OK(OP(capture_end, 0, stream, &graph));
    REQUIRE_OK(OP(graph_launch, 0, graph, stream));
    REQUIRE_OK(OP(graph_launch, 0, graph, stream));
    rig_gate_await(&gate, 1);
    EXPECT_OK(OP(graph_destroy, 0, graph));
    EXPECT_STATUS(OP(graph_launch, 0, graph, stream), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(graph_destroy, 0, graph), ACRE_ERR_INVALID);
    rig_gate_open(&gate);
    EXPECT_OK(OP(stream_synchronize, 0, stream));
    EXPECT_EQ(atomic_load(&ran), 2);
    rig_close();
}

TEST(a_failing_node_is_reported_and_the_rest_runs)
{
    _Atomic uint64_t ran = 0;
    char host[8];
    void *graph;

    rig_open(NULL);
    void *stream = rig_stream(0);
    REQUIRE_OK(OP(capture_begin, 0, stream));
    REQUIRE_OK(OP(copy_async, 0, host, NULL, 8, ACRE_COPY_HOST_TO_HOST, stream));
    REQUIRE_OK(OP(launch_host, 0, stream, count_up, &ran));
    REQUIRE_OK(OP(capture_end, 0, stream, &graph));
    REQUIRE_OK(OP(graph_launch, 0, graph, stream));
    EXPECT_STATUS(OP(stream_synchronize, 0, stream), ACRE_ERR_INVALID);
    EXPECT_EQ(atomic_load(&ran), 1);
    rig_close();
}

/* ---- Fork and join ------------------------------------------------------------------------ */

/* origin: a, then fork; side: b; origin: c; join; origin: d. */
static void fork_and_join(int side_device, int is_joined, void **out_graph, acre_status expected,
                          char *text)
{
    void *origin = rig_stream(0), *side = rig_stream(side_device);
    void *fork = rig_event(0, 0), *join = rig_event(side_device, ACRE_EVENT_TIMING);

    REQUIRE_OK(OP(capture_begin, 0, origin));
    queue_letter(0, origin, text, 'a');
    REQUIRE_OK(OP(event_record, 0, fork, origin));
    REQUIRE_OK(OP(stream_wait_event, side_device, side, fork));
    EXPECT_EQ(info_of(side_device, side).status, ACRE_CAPTURE_ACTIVE);
    EXPECT_EQ(info_of(side_device, side).id, info_of(0, origin).id);
    EXPECT_EQ(info_of(side_device, side).terminals[0], info_of(0, origin).terminals[0]);
    queue_letter(side_device, side, text, 'b');
    queue_letter(0, origin, text, 'c');
    if (is_joined) {
        uint64_t needs[4];
        uint32_t count;

        REQUIRE_OK(OP(event_record, side_device, join, side));
        REQUIRE_OK(OP(stream_wait_event, 0, origin, join));
        acre_capture_info info = info_of(0, origin);
        EXPECT_EQ(info.terminal_count, 2);
        queue_letter(0, origin, text, 'd');
        REQUIRE_OK(OP(capture_dependencies, 0, info.id, info_of(0, origin).terminals[0], needs, 4,
                      &count));
        EXPECT_EQ(count, 2);
        EXPECT_EQ(needs[0], info.terminals[0]);
        EXPECT_EQ(needs[1], info.terminals[1]);
    }
    EXPECT_EQ(OP(capture_end, 0, origin, out_graph), expected);
    EXPECT_EQ(info_of(0, origin).status, ACRE_CAPTURE_NONE);
    EXPECT_EQ(info_of(side_device, side).status, ACRE_CAPTURE_NONE);
    REQUIRE_OK(OP(stream_synchronize, side_device, side));
    EXPECT_STR_EQ(text, "");
}

TEST(waiting_for_a_captured_event_joins_the_capture)
{
    rig_open(NULL);
    for (int device = 0; device < 2; device++) {
        char text[32] = "";
        void *graph, *stream = rig_stream(0);

        fork_and_join(device, 1, &graph, ACRE_OK, text);
        REQUIRE_OK(OP(graph_launch, 0, graph, stream));
        REQUIRE_OK(OP(graph_launch, 0, graph, stream));
        REQUIRE_OK(OP(stream_synchronize, 0, stream));
        EXPECT_EQ(strlen(text), 8);
        EXPECT(text[0] == 'a' && text[3] == 'd' && text[4] == 'a' && text[7] == 'd');
    }
    rig_close();
}

TEST(a_stream_that_was_not_joined_spoils_the_capture)
{
    char text[32] = "";
    void *graph = NULL;

    rig_open(NULL);
    fork_and_join(0, 0, &graph, ACRE_ERR_STATE, text);
    EXPECT_HAS(acre_last_error(), "join");
    EXPECT(!graph);
    EXPECT_EQ(rig_usage().graph_count, 0);
    rig_close();
}

TEST(only_the_stream_that_began_may_end)
{
    char text[32] = "";
    void *graph = NULL;

    rig_open(NULL);
    void *origin = rig_stream(0), *side = rig_stream(0), *event = rig_event(0, 0);
    EXPECT_STATUS(OP(capture_end, 0, origin, &graph), ACRE_ERR_STATE);
    REQUIRE_OK(OP(capture_begin, 0, origin));
    EXPECT_STATUS(OP(capture_begin, 0, origin), ACRE_ERR_STATE);
    EXPECT_EQ(info_of(0, origin).status, ACRE_CAPTURE_ACTIVE);
    REQUIRE_OK(OP(event_record, 0, event, origin));
    REQUIRE_OK(OP(stream_wait_event, 0, side, event));
    EXPECT_STATUS(OP(capture_end, 0, side, &graph), ACRE_ERR_STATE);
    EXPECT_EQ(info_of(0, origin).status, ACRE_CAPTURE_INVALIDATED);
    struct letter args = {text, 'x'};
    EXPECT_STATUS(OP(launch_kernel, 0, origin, write_letter, &args, sizeof args), ACRE_ERR_STATE);
    EXPECT_STATUS(OP(capture_end, 0, origin, &graph), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "invalidated");
    EXPECT(!graph);
    EXPECT_EQ(info_of(0, side).status, ACRE_CAPTURE_NONE);
    EXPECT_STR_EQ(text, "");
    rig_close();
}

TEST(a_graph_launched_inside_a_capture_is_copied_into_it)
{
    char text[64] = "";
    void *inner, *outer;

    rig_open(NULL);
    void *stream = rig_stream(0);
    fork_and_join(0, 1, &inner, ACRE_OK, text);
    REQUIRE_OK(OP(capture_begin, 0, stream));
    queue_letter(0, stream, text, '(');
    REQUIRE_OK(OP(graph_launch, 0, inner, stream));
    queue_letter(0, stream, text, ')');
    REQUIRE_OK(OP(capture_end, 0, stream, &outer));
    REQUIRE_OK(OP(graph_destroy, 0, inner));
    REQUIRE_OK(OP(graph_launch, 0, outer, stream));
    REQUIRE_OK(OP(stream_synchronize, 0, stream));
    EXPECT_EQ(strlen(text), 6);
    EXPECT(text[0] == '(' && text[1] == 'a' && text[4] == 'd' && text[5] == ')');
    rig_close();
}

/* ---- What a capture does not survive ------------------------------------------------------- */

/* Each call is refused, and the capture cannot be ended well. */
#define EXPECT_SPOILS(call)                                                    \
    do {                                                                       \
        void *spoiled = NULL;                                                  \
        REQUIRE_OK(OP(capture_begin, 0, stream));                              \
        REQUIRE_OK(OP(event_record, 0, captured, stream));                     \
        EXPECT_STATUS(call, ACRE_ERR_STATE);                                   \
        EXPECT_EQ(info_of(0, stream).status, ACRE_CAPTURE_INVALIDATED);        \
        EXPECT_STATUS(OP(capture_end, 0, stream, &spoiled), ACRE_ERR_STATE);   \
        EXPECT(!spoiled);                                                      \
        EXPECT_EQ(info_of(0, stream).status, ACRE_CAPTURE_NONE);               \
    } while (0)

TEST(asking_and_waiting_spoil_a_capture)
{
    double ms;

    rig_open(NULL);
    void *stream = rig_stream(0), *captured = rig_event(0, ACRE_EVENT_TIMING);
    void *outside = rig_event(0, 0);
    REQUIRE_OK(OP(event_record, 0, outside, NULL));
    EXPECT_SPOILS(OP(stream_query, 0, stream));
    EXPECT_SPOILS(OP(stream_synchronize, 0, stream));
    EXPECT_SPOILS(OP(device_synchronize, 0));
    EXPECT_SPOILS(OP(event_query, 0, captured));
    EXPECT_SPOILS(OP(event_synchronize, 0, captured));
    EXPECT_SPOILS(OP(event_elapsed, 0, captured, captured, &ms));
    EXPECT_SPOILS(OP(stream_wait_event, 0, stream, outside));
    rig_close();
}

TEST(what_has_nothing_to_do_with_a_capture_leaves_it_alone)
{
    void *graph;

    rig_open(NULL);
    void *stream = rig_stream(0), *free_stream = rig_stream(0);
    void *never = rig_event(0, 0), *outside = rig_event(0, 0);
    REQUIRE_OK(OP(capture_begin, 0, stream));
    EXPECT_OK(OP(event_record, 0, outside, free_stream));
    EXPECT_OK(OP(event_query, 0, outside));
    EXPECT_OK(OP(stream_synchronize, 0, free_stream));
    EXPECT_OK(OP(device_synchronize, 1));
    EXPECT_OK(OP(stream_wait_event, 0, stream, never));
    EXPECT_OK(OP(stream_query, 0, NULL));
    EXPECT_OK(OP(capture_end, 0, stream, &graph));
    rig_close();
}

TEST(an_event_of_an_ended_capture_is_refused_until_recorded_again)
{
    void *graph;

    rig_open(NULL);
    void *stream = rig_stream(0), *other = rig_stream(0), *event = rig_event(0, 0);
    REQUIRE_OK(OP(capture_begin, 0, stream));
    REQUIRE_OK(OP(event_record, 0, event, stream));
    REQUIRE_OK(OP(capture_end, 0, stream, &graph));
    EXPECT_STATUS(OP(event_query, 0, event), ACRE_ERR_STATE);
    EXPECT_STATUS(OP(stream_wait_event, 0, other, event), ACRE_ERR_STATE);
    EXPECT_EQ(info_of(0, other).status, ACRE_CAPTURE_NONE);
    REQUIRE_OK(OP(event_record, 0, event, stream));
    EXPECT_OK(OP(event_query, 0, event));
    EXPECT_OK(OP(stream_wait_event, 0, other, event));
    rig_close();
}

TEST(two_captures_cannot_be_joined)
{
    void *graph;

    rig_open(NULL);
    void *a = rig_stream(0), *b = rig_stream(0), *event = rig_event(0, 0);
    REQUIRE_OK(OP(capture_begin, 0, a));
    REQUIRE_OK(OP(capture_begin, 0, b));
    EXPECT_NE(info_of(0, a).id, info_of(0, b).id);
    REQUIRE_OK(OP(event_record, 0, event, a));
    EXPECT_STATUS(OP(stream_wait_event, 0, b, event), ACRE_ERR_STATE);
    EXPECT_EQ(info_of(0, a).status, ACRE_CAPTURE_INVALIDATED);
    EXPECT_EQ(info_of(0, b).status, ACRE_CAPTURE_INVALIDATED);
    EXPECT_STATUS(OP(capture_end, 0, a, &graph), ACRE_ERR_STATE);
    EXPECT_STATUS(OP(capture_end, 0, b, &graph), ACRE_ERR_STATE);
    rig_close();
}

TEST(destroying_a_capturing_stream_spoils_the_capture)
{
    _Atomic uint64_t ran = 0;
    void *graph;

    rig_open(NULL);
    for (int round = 0; round < 2; round++) {
        void *origin = rig_stream(0), *side = rig_stream(0), *event = rig_event(0, 0);

        REQUIRE_OK(OP(capture_begin, 0, origin));
        REQUIRE_OK(OP(launch_host, 0, origin, count_up, &ran));
        REQUIRE_OK(OP(event_record, 0, event, origin));
        REQUIRE_OK(OP(stream_wait_event, 0, side, event));
        EXPECT_OK(OP(stream_destroy, 0, round ? origin : side));
        if (round) {
            EXPECT_EQ(info_of(0, side).status, ACRE_CAPTURE_NONE);
        } else {
            EXPECT_EQ(info_of(0, origin).status, ACRE_CAPTURE_INVALIDATED);
            EXPECT_STATUS(OP(capture_end, 0, origin, &graph), ACRE_ERR_STATE);
        }
    }
    EXPECT_EQ(atomic_load(&ran), 0);
    rig_close();
}

TEST(a_backend_may_go_in_the_middle_of_a_capture)
{
    char text[32] = "";

    rig_open(NULL);
    void *stream = rig_stream(0), *event = rig_event(0, 0);
    REQUIRE_OK(OP(capture_begin, 0, stream));
    queue_letter(0, stream, text, 'a');
    REQUIRE_OK(OP(event_record, 0, event, stream));
    rig_close();
    EXPECT_STR_EQ(text, "");
}

TEST(graphs_that_are_none_are_refused)
{
    void *graph;

    rig_open(NULL);
    void *stream = rig_stream(0);
    EXPECT_STATUS(OP(graph_launch, 0, NULL, stream), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(graph_launch, 0, stream, stream), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(graph_destroy, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(capture_end, 0, stream, NULL), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(capture_info, 0, stream, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(OP(capture_begin, 0, stream));
    REQUIRE_OK(OP(capture_end, 0, stream, &graph));
    EXPECT_STATUS(OP(graph_launch, 1, graph, NULL), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(graph_destroy, 1, graph), ACRE_ERR_INVALID);
    EXPECT_OK(OP(graph_destroy, 0, graph));
    rig_close();
}

T_MAIN()
