/* SPDX-License-Identifier: MIT */
#include "tests/support/capture_lab.h"
#include "tests/support/pool_lab.h"

#include <pthread.h>

static const acre_policy policies[] = {ACRE_POLICY_TORCH, ACRE_POLICY_ACRE};
#define EACH_POLICY(i) for (int i = 0; i < 2; i++)

TEST(a_device_without_captures_has_none)
{
    acre_pool_filter filter = {.kind = ACRE_POOL_CAPTURE, .capture_id = 1};
    acre_recording *recording;
    struct lab lab;

    lab_open(&lab, NULL);
    acre_pool_id id = new_pool(&lab, 0);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, &filter));
    void *block = lab_alloc(&lab, MIB);
    EXPECT_EQ(pool_of(&lab, block), 0);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    lab_free(&lab, block);
    EXPECT_EQ(acre_capture_mark_begin(lab.cache, fake_stream(1)), ACRE_ERR_STATE);
    EXPECT_EQ(acre_recording_begin(lab.cache, fake_stream(1), NULL, &recording),
              ACRE_ERR_UNSUPPORTED);
    lab_close(&lab);
}

TEST(B76_its_own_stream_is_no_use)
{
    struct lab lab;

    lab_open(&lab, NULL);
    void *block = lab_alloc_on(&lab, 512, 1);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, block, fake_stream(1)));
    lab_free(&lab, block);
    EXPECT_EQ(fake_calls(lab.fake, FAKE_EVENT_RECORD), 0);
    lab_close(&lab);
}

TEST(B82_in_a_capture_nothing_is_recorded_asked_or_reused)
{
    EACH_POLICY(i) {
        struct bench bench;
        bench_open(&bench, policies[i], NULL);
        acre_recording *recording = bench_record(&bench, NULL);
        void *block = bench_alloc(&bench, MIB, bench.a);
        bench_fill(&bench, block, 1, MIB, bench.a);
        bench_join(&bench, bench.a, bench.b);
        bench_use(&bench, block, bench.b);
        uint64_t records = tracing_count(bench.traced, WRAP_event_record);
        uint64_t breakers = bench_breakers(&bench);
        bench_free(&bench, block);
        void *next = bench_alloc(&bench, MIB, bench.a);
        EXPECT(next != block);
        EXPECT_EQ(tracing_count(bench.traced, WRAP_event_record), records);
        EXPECT_EQ(bench_breakers(&bench), breakers);
        acre_cache_stats stats = bench_stats(&bench);
        EXPECT_EQ(stats.allocation.all.current, 1);
        EXPECT_EQ(stats.active.all.current, 2);
        EXPECT_EQ(bench_pool(&bench, acre_recording_pool(recording)).waiting_bytes, MIB);
        REQUIRE_OK(acre_cache_check(bench.cache));
        bench_join(&bench, bench.b, bench.a);
        REQUIRE_OK(acre_recording_end(recording));
        EXPECT_EQ(bench_stats(&bench).active.all.current, 1); /* free with its capture */
        bench_free(&bench, next);
        acre_recording_destroy(recording);
        bench_close(&bench);
    }
}

/* W7 wins over what the reference does here with pools that are freeable. */
TEST(B83_W7_emptying_in_a_capture_releases_nothing)
{
    EACH_POLICY(i) {
        struct bench bench;
        acre_pool_id id = acre_pool_id_next();
        bench_open(&bench, policies[i], NULL);
        bench_free(&bench, bench_alloc(&bench, 30 * MIB, bench.c));
        REQUIRE_OK(acre_pool_begin(bench.cache, id, NULL));
        bench_free(&bench, bench_alloc(&bench, 32 * MIB, bench.c));
        REQUIRE_OK(acre_pool_end(bench.cache, id)); /* freeable */
        acre_recording *recording = bench_record(&bench, NULL);
        uint64_t breakers = bench_breakers(&bench);
        REQUIRE_OK(acre_cache_empty(bench.cache));
        REQUIRE_OK(acre_pool_empty(bench.cache, id));
        EXPECT_EQ(bench_breakers(&bench), breakers);
        EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 62 * MIB);
        REQUIRE_OK(acre_recording_end(recording)); /* the capture is whole */
        REQUIRE_OK(acre_cache_empty(bench.cache));
        EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 0);
        acre_recording_destroy(recording);
        bench_close(&bench);
    }
}

TEST(B84_after_the_capture_earlier_uses_are_waited_for)
{
    EACH_POLICY(i) {
        struct gate gate = {0};
        struct bench bench;
        bench_open(&bench, policies[i], "cross_stream_reuse:False");
        void *before = bench_alloc(&bench, MIB, bench.c), *inside = NULL;
        bench_use(&bench, before, bench.b); /* work that runs, before the capture */
        REQUIRE_OK(acre_launch_host(bench.device, bench.b, gate_task, &gate));
        REQUIRE_OK(acre_capture_begin(bench.device, bench.a));
        REQUIRE_OK(acre_capture_mark_begin(bench.cache, bench.a));
        inside = bench_alloc(&bench, 2 * MIB, bench.c);
        bench_use(&bench, inside, bench.a); /* part of the capture only */
        uint64_t records = tracing_count(bench.traced, WRAP_event_record);
        bench_free(&bench, before);
        bench_free(&bench, inside);
        EXPECT_EQ(tracing_count(bench.traced, WRAP_event_record), records);
        void *graph;
        REQUIRE_OK(acre_capture_end(bench.device, bench.a, &graph));
        REQUIRE_OK(acre_capture_mark_end(bench.cache, bench.a));
        EXPECT_EQ(bench_stats(&bench).active.all.current, 2);
        void *next = bench_alloc(&bench, 2 * MIB, bench.c);
        EXPECT_PTR_EQ(next, inside);
        EXPECT_EQ(tracing_count(bench.traced, WRAP_event_record), records + 1);
        EXPECT_EQ(bench_stats(&bench).active.all.current, 2); /* next, and before */
        void *other = bench_alloc(&bench, MIB, bench.c);
        EXPECT(other != before);
        gate_open(&gate);
        REQUIRE_OK(acre_stream_native_synchronize(bench.device, bench.b));
        bench_free(&bench, next);
        bench_free(&bench, other);
        REQUIRE_OK(acre_cache_empty(bench.cache));
        EXPECT_EQ(bench_stats(&bench).active.all.current, 0);
        REQUIRE_OK(acre_graph_destroy(bench.device, graph));
        bench_close(&bench);
    }
}

TEST(B85_reuse_by_topology)
{
    EACH_POLICY(i) {
        struct bench bench;
        bench_open(&bench, policies[i], "graph_capture_record_stream_reuse:True");
        acre_recording *recording = bench_record(&bench, NULL);
        void *block = bench_alloc(&bench, 3 * MIB, bench.a), *last;
        bench_fill(&bench, block, 1, MIB, bench.a);
        bench_join(&bench, bench.a, bench.b);
        bench_use(&bench, block, bench.b);
        bench_fill(&bench, block, 2, MIB, bench.b);
        bench_free(&bench, block);
        void *early = bench_alloc(&bench, 3 * MIB, bench.a);
        EXPECT(early != block); /* b has not joined */
        bench_fill(&bench, early, 3, MIB, bench.a);
        bench_join(&bench, bench.b, bench.a);
        bench_fill(&bench, early, 4, MIB, bench.a);
        void *late = bench_alloc(&bench, 3 * MIB, bench.a);
        EXPECT_PTR_EQ(late, block);
        bench_use(&bench, early, bench.b);
        bench_fill(&bench, early, 5, MIB, bench.b);
        bench_free(&bench, early); /* b goes on without joining until the end */
        last = bench_alloc(&bench, 3 * MIB, bench.a);
        EXPECT(last != early);
        bench_join(&bench, bench.b, bench.a);
        REQUIRE_OK(acre_cache_check(bench.cache));
        REQUIRE_OK(acre_recording_end(recording));
        EXPECT_EQ(bench_pool(&bench, acre_recording_pool(recording)).waiting_bytes, 0);
        bench_free(&bench, late);
        bench_free(&bench, last);
        acre_recording_destroy(recording);
        bench_close(&bench);
    }
}

TEST(B86_an_end_without_a_begin)
{
    struct bench bench;

    bench_open(&bench, ACRE_POLICY_TORCH, NULL);
    EXPECT_EQ(acre_capture_mark_end(bench.cache, bench.a), ACRE_ERR_STATE);
    EXPECT_EQ(acre_capture_mark_begin(bench.cache, bench.a), ACRE_ERR_STATE);
    EXPECT_EQ(acre_capture_mark_begin(NULL, bench.a), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_capture_mark_end(NULL, bench.a), ACRE_ERR_INVALID);
    bench_close(&bench);
}

TEST(B88_no_memory_in_a_capture_flushes_nothing)
{
    EACH_POLICY(i) {
        struct bench bench;
        void *pointer;
        bench_open(&bench, policies[i], NULL);
        acre_cache_limit_set(bench.cache, 100 * MIB);
        bench_free(&bench, bench_alloc(&bench, 60 * MIB, bench.c));
        acre_recording *recording = bench_record(&bench, NULL);
        uint64_t breakers = bench_breakers(&bench);
        EXPECT_EQ(acre_cache_alloc(bench.cache, 80 * MIB, bench.a, &pointer),
                  ACRE_ERR_DEVICE_MEMORY);
        EXPECT_EQ(bench_breakers(&bench), breakers);
        EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 60 * MIB);
        EXPECT_EQ(bench_stats(&bench).num_alloc_retries, 0);
        REQUIRE_OK(acre_recording_end(recording));
        acre_recording_destroy(recording);
        bench_close(&bench);
    }
}

/* Memory of pools that have ended stays until the cache is emptied, which no capture allows: the
 * report says so instead of proposing options. */
TEST(B88_the_report_tells_of_pools_that_have_ended)
{
    EACH_POLICY(i) {
        struct bench bench;
        acre_pool_id id = acre_pool_id_next();
        void *pointer;
        bench_open(&bench, policies[i], NULL);
        acre_cache_limit_set(bench.cache, 100 * MIB);
        acre_recording *first = bench_record(&bench, &id);
        bench_free(&bench, bench_alloc(&bench, 80 * MIB, bench.a));
        REQUIRE_OK(acre_recording_end(first));
        acre_recording_destroy(first);
        acre_recording *second = bench_record(&bench, NULL);
        EXPECT_EQ(acre_cache_alloc(bench.cache, 60 * MIB, bench.a, &pointer),
                  ACRE_ERR_DEVICE_MEMORY);
        EXPECT_HAS(acre_last_error(), "Pools that have ended hold 80.00 MiB");
        EXPECT_HAS(acre_last_error(), "empty the cache before it begins");
        REQUIRE_OK(acre_recording_end(second));
        acre_recording_destroy(second);
        /* Outside it is taken without being asked for. */
        bench_free(&bench, bench_alloc(&bench, 60 * MIB, bench.a));
        bench_close(&bench);
    }
}

/* ---- What the reference does wrong ---------------------------------------------------- */

struct outsider {
    struct bench *bench;
    void *pointer;
};

static void *alloc_outside(void *arg)
{
    struct outsider *outsider = arg;

    EXPECT_EQ(acre_cache_alloc(outsider->bench->cache, 3 * MIB, outsider->bench->c,
                               &outsider->pointer), ACRE_OK);
    EXPECT_EQ(acre_cache_empty(outsider->bench->cache), ACRE_OK);
    return NULL;
}

TEST(W4_another_thread_frees_nothing_of_a_running_capture)
{
    EACH_POLICY(i) {
        struct bench bench;
        struct outsider outsider = {.bench = &bench};
        pthread_t thread;
        bench_open(&bench, policies[i], NULL);
        bench_free(&bench, bench_alloc(&bench, 30 * MIB, bench.c));
        acre_recording *recording = bench_record(&bench, NULL);
        void *block = bench_alloc(&bench, 3 * MIB, bench.a);
        bench_fill(&bench, block, 1, MIB, bench.a);
        bench_join(&bench, bench.a, bench.b);
        bench_use(&bench, block, bench.b);
        bench_fill(&bench, block, 2, MIB, bench.b);
        bench_free(&bench, block);
        REQUIRE(pthread_create(&thread, NULL, alloc_outside, &outsider) == 0);
        pthread_join(thread, NULL);
        EXPECT_EQ(bench_pool(&bench, acre_recording_pool(recording)).waiting_bytes, 3 * MIB);
        void *next = bench_alloc(&bench, 3 * MIB, bench.a);
        EXPECT(next != block);
        bench_join(&bench, bench.b, bench.a);
        REQUIRE_OK(acre_recording_end(recording)); /* not broken by the other thread */
        bench_free(&bench, next);
        bench_free(&bench, outsider.pointer);
        acre_recording_destroy(recording);
        bench_close(&bench);
    }
}

TEST(W5_a_use_in_a_capture_hides_no_later_one)
{
    EACH_POLICY(i) {
        struct gate gate = {0};
        struct bench bench;
        bench_open(&bench, policies[i], "cross_stream_reuse:False");
        void *block = bench_alloc(&bench, 3 * MIB, bench.c), *graph;
        REQUIRE_OK(acre_capture_begin(bench.device, bench.a));
        REQUIRE_OK(acre_capture_mark_begin(bench.cache, bench.a));
        bench_use(&bench, block, bench.a); /* in the capture */
        REQUIRE_OK(acre_capture_end(bench.device, bench.a, &graph));
        REQUIRE_OK(acre_capture_mark_end(bench.cache, bench.a));
        REQUIRE_OK(acre_launch_host(bench.device, bench.a, gate_task, &gate));
        bench_use(&bench, block, bench.a); /* work that runs */
        bench_free(&bench, block);
        void *next = bench_alloc(&bench, 3 * MIB, bench.c);
        EXPECT(next != block);

        /* The same when it is freed inside the next capture. */
        void *second = bench_alloc(&bench, 5 * MIB, bench.c);
        bench_use(&bench, second, bench.a);
        REQUIRE_OK(acre_capture_begin(bench.device, bench.b));
        REQUIRE_OK(acre_capture_mark_begin(bench.cache, bench.b));
        bench_free(&bench, second);
        void *graph_b;
        REQUIRE_OK(acre_capture_end(bench.device, bench.b, &graph_b));
        REQUIRE_OK(acre_capture_mark_end(bench.cache, bench.b));
        void *third = bench_alloc(&bench, 5 * MIB, bench.c);
        EXPECT(third != second);
        gate_open(&gate);
        bench_free(&bench, next);
        bench_free(&bench, third);
        REQUIRE_OK(acre_graph_destroy(bench.device, graph));
        REQUIRE_OK(acre_graph_destroy(bench.device, graph_b));
        bench_close(&bench);
    }
}

TEST(W6_a_pool_with_addresses_in_graphs_gives_nothing_back)
{
    struct bench bench;
    acre_pool_id id = acre_pool_id_next();
    void *pointer;

    bench_open(&bench, ACRE_POLICY_TORCH, "max_split_size_mb:20");
    acre_cache_limit_set(bench.cache, 100 * MIB);
    acre_recording *recording = bench_record(&bench, &id);
    void *block = bench_alloc(&bench, 60 * MIB, bench.a);
    bench_fill(&bench, block, 7, MIB, bench.a);
    bench_free(&bench, block);
    uint64_t breakers = bench_breakers(&bench);
    EXPECT_EQ(acre_cache_alloc(bench.cache, 90 * MIB, bench.a, &pointer),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bench_breakers(&bench), breakers);
    REQUIRE_OK(acre_recording_end(recording));

    /* Nor outside of captures, as long as the graph lives. */
    REQUIRE_OK(acre_pool_begin(bench.cache, id, NULL));
    EXPECT_EQ(acre_cache_alloc(bench.cache, 90 * MIB, bench.a, &pointer),
              ACRE_ERR_DEVICE_MEMORY);
    REQUIRE_OK(acre_pool_end(bench.cache, id));
    REQUIRE_OK(acre_cache_empty(bench.cache));
    EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 60 * MIB);
    REQUIRE_OK(acre_recording_launch(recording, bench.a));
    EXPECT_EQ(bench_read(&bench, block), 7);
    acre_recording_destroy(recording);
    REQUIRE_OK(acre_cache_empty(bench.cache));
    EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 0);
    bench_close(&bench);
}

TEST(W6_an_oversize_half_is_never_released)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_limit(&lab, 100 * MIB);
    void *half = lab_alloc(&lab, 40 * MIB), *rest;
    lab_free(&lab, half);
    lab_cache_mib(&lab, (const int[]){88, 0});
    half = lab_alloc(&lab, 44 * MIB);
    rest = lab_alloc(&lab, 43 * MIB);
    lab_free(&lab, half);
    REQUIRE_OK(acre_cache_conf_set(lab.cache, "max_split_size_mb:20"));
    int64_t frees = COUNT(&lab, num_device_free);
    EXPECT_EQ(lab_try(&lab, 60 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(COUNT(&lab, num_device_free), frees);
    REQUIRE_OK(acre_cache_check(lab.cache));
    lab_free(&lab, rest);
    lab_close(&lab);
}

TEST(W7_garbage_collection_rests_in_a_capture)
{
    struct bench bench;

    bench_open(&bench, ACRE_POLICY_TORCH, "garbage_collection_threshold:0.2");
    acre_cache_limit_set(bench.cache, 200 * MIB);
    bench_free(&bench, bench_alloc(&bench, 60 * MIB, bench.c));
    acre_recording *recording = bench_record(&bench, NULL);
    uint64_t breakers = bench_breakers(&bench);
    void *block = bench_alloc(&bench, 30 * MIB, bench.a);
    EXPECT_EQ(bench_breakers(&bench), breakers);
    EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 90 * MIB);
    REQUIRE_OK(acre_recording_end(recording));
    bench_free(&bench, block);
    bench_free(&bench, bench_alloc(&bench, 40 * MIB, bench.c)); /* fits what is cached */
    bench_free(&bench, bench_alloc(&bench, 80 * MIB, bench.c)); /* collects */
    EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 110 * MIB);
    acre_recording_destroy(recording);
    bench_close(&bench);
}

TEST(W7_releasing_pools_in_a_capture_is_left_for_later)
{
    EACH_POLICY(i) {
        struct bench bench;
        acre_pool_id id = acre_pool_id_next();
        bench_open(&bench, policies[i], NULL);
        acre_recording *first = bench_record(&bench, &id);
        void *block = bench_alloc(&bench, 30 * MIB, bench.a);
        REQUIRE_OK(acre_recording_end(first));
        bench_free(&bench, block);
        acre_recording *second = bench_record(&bench, NULL);
        acre_recording_destroy(first); /* its pool becomes freeable in a capture */
        REQUIRE_OK(acre_pool_empty(bench.cache, id));
        EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 30 * MIB);
        REQUIRE_OK(acre_recording_end(second));
        REQUIRE_OK(acre_pool_empty(bench.cache, id));
        EXPECT_EQ(bench_stats(&bench).reserved_bytes.all.current, 0);
        acre_recording_destroy(second);
        bench_close(&bench);
    }
}

static void *alloc_much_outside(void *arg)
{
    struct outsider *outsider = arg;

    EXPECT_EQ(acre_cache_alloc(outsider->bench->cache, 40 * MIB, outsider->bench->c,
                               &outsider->pointer), ACRE_OK);
    return NULL;
}

TEST(policy_acre_asks_nothing_of_streams_that_capture)
{
    struct bench bench;
    struct outsider outsider = {.bench = &bench};
    pthread_t thread;

    bench_open(&bench, ACRE_POLICY_ACRE, NULL);
    void *a = bench_alloc(&bench, 30 * MIB, bench.a), *c = bench_alloc(&bench, MIB, bench.c);
    void *b = bench_alloc(&bench, 32 * MIB, bench.b);
    bench_free(&bench, a);
    bench_free(&bench, b);
    acre_recording *recording = bench_record(&bench, NULL);
    REQUIRE(pthread_create(&thread, NULL, alloc_much_outside, &outsider) == 0);
    pthread_join(thread, NULL);
    REQUIRE_OK(acre_recording_end(recording));
    acre_recording_destroy(recording);
    bench_free(&bench, outsider.pointer);
    bench_free(&bench, c);
    bench_close(&bench);
}

TEST(policy_acre_asks_nothing_in_a_capture)
{
    struct bench bench;
    void *graph;

    bench_open(&bench, ACRE_POLICY_ACRE, NULL);
    void *b = bench_alloc(&bench, 30 * MIB, bench.b), *c = bench_alloc(&bench, MIB, bench.c);
    bench_free(&bench, b);
    REQUIRE_OK(acre_capture_begin(bench.device, bench.a));
    REQUIRE_OK(acre_capture_mark_begin(bench.cache, bench.a));
    uint64_t breakers = bench_breakers(&bench);
    uint64_t records = tracing_count(bench.traced, WRAP_event_record);
    void *a = bench_alloc(&bench, 30 * MIB, bench.a); /* from the shared pool */
    void *d = bench_alloc(&bench, 20 * MIB, bench.c);
    EXPECT_EQ(bench_breakers(&bench), breakers);
    EXPECT_EQ(tracing_count(bench.traced, WRAP_event_record), records);
    REQUIRE_OK(acre_capture_end(bench.device, bench.a, &graph));
    REQUIRE_OK(acre_capture_mark_end(bench.cache, bench.a));
    REQUIRE_OK(acre_graph_destroy(bench.device, graph));
    bench_free(&bench, a);
    bench_free(&bench, c);
    bench_free(&bench, d);
    bench_close(&bench);
}

/* Free pages are joined in an idle range; whether its stream still works on it is not asked. */
TEST(policy_acre_asks_nothing_about_stitched_memory_in_a_capture)
{
    enum { COUNT = 80, KEPT = 8 };
    const size_t page = 2 * MIB;
    void *blocks[COUNT], *kept[KEPT], *graph;
    struct bench bench;

    bench_open(&bench, ACRE_POLICY_ACRE, NULL);
    acre_cache_limit_set(bench.cache, COUNT * page);
    for (int i = 0; i < COUNT; i++)
        blocks[i] = bench_alloc(&bench, page, bench.c);
    for (int i = 0; i < COUNT; i += 2)
        bench_free(&bench, blocks[i]);
    bench_free(&bench, bench_alloc(&bench, 40 * page, bench.c)); /* the range */
    for (int i = 0; i < KEPT; i++)
        kept[i] = bench_alloc(&bench, page, bench.c);
    for (int i = COUNT - 2 * KEPT + 1; i < COUNT; i += 2)
        bench_free(&bench, blocks[i]);
    REQUIRE_OK(acre_capture_begin(bench.device, bench.a));
    REQUIRE_OK(acre_capture_mark_begin(bench.cache, bench.a));
    uint64_t breakers = bench_breakers(&bench);
    uint64_t records = tracing_count(bench.traced, WRAP_event_record);
    void *big = bench_alloc(&bench, 40 * page, bench.c); /* changing it would be cheapest */
    EXPECT_EQ(bench_breakers(&bench), breakers);
    EXPECT_EQ(tracing_count(bench.traced, WRAP_event_record), records);
    REQUIRE_OK(acre_capture_end(bench.device, bench.a, &graph));
    REQUIRE_OK(acre_capture_mark_end(bench.cache, bench.a));
    REQUIRE_OK(acre_graph_destroy(bench.device, graph));
    bench_free(&bench, big);
    for (int i = 0; i < KEPT; i++)
        bench_free(&bench, kept[i]);
    for (int i = 1; i < COUNT - 2 * KEPT + 1; i += 2)
        bench_free(&bench, blocks[i]);
    bench_close(&bench);
}

/* A capture that nobody tells the cache of, with a scope that is not about stream c. */
struct quiet_capture {
    struct bench bench;
    acre_pool_id id;
    void *live; /* by which the stream that captures is known */
    void *late; /* to be freed after the capture; or NULL     */
};

static void quiet_open(struct quiet_capture *quiet, acre_policy policy, const char *conf)
{
    bench_open(&quiet->bench, policy, conf);
    quiet->late = NULL;
    quiet->live = bench_alloc(&quiet->bench, 30 * MIB, quiet->bench.a);
}

static void quiet_begin(struct quiet_capture *quiet)
{
    acre_pool_filter filter = {.kind = ACRE_POOL_STREAM, .stream = quiet->bench.a};

    quiet->id = acre_pool_id_next();
    REQUIRE_OK(acre_pool_begin(quiet->bench.cache, quiet->id, &filter));
    REQUIRE_OK(acre_capture_begin(quiet->bench.device, quiet->bench.a));
}

/* The capture was left alone. */
static void quiet_close(struct quiet_capture *quiet)
{
    struct bench *bench = &quiet->bench;
    void *graph = NULL;

    REQUIRE_OK(acre_capture_end(bench->device, bench->a, &graph));
    REQUIRE_OK(acre_graph_destroy(bench->device, graph));
    REQUIRE_OK(acre_pool_end(bench->cache, quiet->id));
    bench_free(bench, quiet->live);
    bench_free(bench, quiet->late);
    bench_close(bench);
}

TEST(without_memory_to_note_a_capture_nothing_is_emptied)
{
    EACH_POLICY(i) {
        struct quiet_capture quiet;
        quiet_open(&quiet, policies[i], NULL);
        bench_free(&quiet.bench, bench_alloc(&quiet.bench, 40 * MIB, quiet.bench.c));
        quiet_begin(&quiet);
        heap_fail_nth(1);
        acre_status status = acre_cache_empty(quiet.bench.cache);
        EXPECT(heap_fail_disarm());
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        REQUIRE_OK(acre_cache_empty(quiet.bench.cache));
        quiet_close(&quiet);
    }
}

TEST(garbage_collection_spares_a_capture_that_nobody_told_of)
{
    EACH_POLICY(i) {
        struct quiet_capture quiet;
        quiet_open(&quiet, policies[i],
                   "garbage_collection_threshold:0.1,stitched_memory:False");
        acre_cache_limit_set(quiet.bench.cache, 200 * MIB);
        bench_free(&quiet.bench, bench_alloc(&quiet.bench, 40 * MIB, quiet.bench.c));
        quiet_begin(&quiet);
        void *c = bench_alloc(&quiet.bench, 50 * MIB, quiet.bench.c);
        EXPECT_EQ(bench_stats(&quiet.bench).reserved_bytes.all.current, 80 * MIB);
        bench_free(&quiet.bench, c);
        quiet_close(&quiet);
    }
}

TEST(releasing_oversize_blocks_spares_a_capture_that_nobody_told_of)
{
    struct quiet_capture quiet;

    quiet_open(&quiet, ACRE_POLICY_TORCH, "max_split_size_mb:20");
    acre_cache_limit_set(quiet.bench.cache, 100 * MIB);
    bench_free(&quiet.bench, bench_alloc(&quiet.bench, 40 * MIB, quiet.bench.c));
    quiet_begin(&quiet);
    bench_free(&quiet.bench, bench_alloc(&quiet.bench, 50 * MIB, quiet.bench.c));
    quiet_close(&quiet);
}

TEST(memory_without_caching_stays_during_a_capture_that_nobody_told_of)
{
    EACH_POLICY(i) {
        struct quiet_capture quiet;
        quiet_open(&quiet, policies[i], NULL);
        acre_cache_enable(quiet.bench.cache, false);
        quiet.late = bench_alloc(&quiet.bench, MIB, quiet.bench.c);
        acre_cache_enable(quiet.bench.cache, true);
        quiet_begin(&quiet);
        EXPECT_EQ(acre_cache_free(quiet.bench.cache, quiet.late), ACRE_ERR_STATE);
        quiet_close(&quiet);
    }
}

T_MAIN()
