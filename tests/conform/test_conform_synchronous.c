/* SPDX-License-Identifier: MIT */
/* The rules for backends, kept by ten entries and what Acre adds to them: the table of
 * examples/synchronous.c. */
#include "tests/conform/backend_suite.h"

#include "backend/ops_map.h"

#define EXAMPLE_LIBRARY
#include "examples/synchronous.c"

BACKEND_SUITE(.describe = acre_backend_describe, .is_exact = true)

/* How many entries a table has. */
static int entry_count(const acre_backend_ops *ops)
{
    int count = 0;

#define COUNT(group, entry, parameters, arguments) count += ops->entry != NULL;
    OPS_MAP(COUNT)
#undef COUNT
    return count;
}

TEST(ten_entries_are_a_device_with_streams_copies_and_launches)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS | ACRE_CAP_COPY | ACRE_CAP_LAUNCH |
                                 ACRE_CAP_KERNELS | ACRE_CAP_POINTERS | ACRE_CAP_CURRENT);

    EXPECT_EQ(entry_count(s.ops), 10);
    suite_end(&s);
}

TEST(work_is_finished_when_its_call_returns)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS | ACRE_CAP_LAUNCH);
    struct gate gate = {.is_open = 1};
    void *stream, *event, *other;
    double ms = -1, back = 1;

    REQUIRE_OK(acre_stream_native_create(s.device, 0, 0, &stream));
    REQUIRE_OK(acre_event_native_create(s.device, ACRE_EVENT_TIMING, &event));
    REQUIRE_OK(acre_event_native_create(s.device, ACRE_EVENT_TIMING, &other));
    EXPECT_REFUSED(acre_event_native_elapsed(s.device, event, other, &ms));
    EXPECT_OK(acre_event_native_record(s.device, event, stream));
    EXPECT_REFUSED(acre_event_native_elapsed(s.device, event, other, &ms));
    EXPECT_OK(acre_launch_host(s.device, stream, gate_task, &gate));
    EXPECT_EQ(gate.is_reached, 1);
    EXPECT_OK(acre_event_native_record(s.device, other, stream));
    EXPECT_OK(acre_event_native_query(s.device, other));
    EXPECT_EQ(ms, -1);
    EXPECT_OK(acre_event_native_elapsed(s.device, event, other, &ms));
    EXPECT_OK(acre_event_native_elapsed(s.device, other, event, &back));
    EXPECT(ms >= 0 && back == -ms);
    EXPECT_EQ(acre_event_native_create(s.device, ACRE_EVENT_SHARED, &other), ACRE_ERR_UNSUPPORTED);
    EXPECT_OK(acre_event_native_destroy(s.device, other));
    EXPECT_OK(acre_event_native_destroy(s.device, event));
    EXPECT_OK(acre_stream_native_destroy(s.device, stream));
    suite_end(&s);
}

TEST(host_functions_get_no_destroyed_stream)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS | ACRE_CAP_LAUNCH);
    struct gate gate = {.is_open = 1};
    void *stream;

    REQUIRE_OK(acre_stream_native_create(s.device, 0, 0, &stream));
    EXPECT_OK(acre_stream_native_destroy(s.device, stream));
    EXPECT_REFUSED(acre_launch_host(s.device, stream, gate_task, &gate));
    EXPECT_EQ(gate.is_reached, 0);
    suite_end(&s);
}

TEST(a_cache_on_it_serves_several_streams)
{
    struct suite s = suite_begin(ACRE_CAP_STREAMS);
    void *streams[2], *pointer, *again;
    acre_cache *cache;

    for (int i = 0; i < 2; i++)
        REQUIRE_OK(acre_stream_native_create(s.device, 0, 0, &streams[i]));
    REQUIRE_OK(acre_cache_create(s.device, NULL, &cache));
    REQUIRE_OK(acre_cache_alloc(cache, 4096, streams[0], &pointer));
    EXPECT_OK(acre_cache_record_stream(cache, pointer, streams[1]));
    EXPECT_OK(acre_cache_free(cache, pointer));
    REQUIRE_OK(acre_cache_alloc(cache, 4096, streams[0], &again));
    EXPECT_PTR_EQ(again, pointer); /* the other stream is done */
    EXPECT_OK(acre_cache_free(cache, again));
    acre_cache_destroy(cache);
    for (int i = 0; i < 2; i++)
        EXPECT_OK(acre_stream_native_destroy(s.device, streams[i]));
    suite_end(&s);
}

T_MAIN()
