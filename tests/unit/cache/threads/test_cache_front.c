/* SPDX-License-Identifier: MIT */
/* Thread caches through the public calls: reuse, mistakes of users, what other
 * threads keep, statistics exact to the byte. */
#include "cache/threads/front.h"

#include "base/heap.h"
#include "cache/threads/lane.h"
#include "cache/observe/stats.h"
#include "tests/support/lab.h"

#include <pthread.h>

static void open_acre(struct lab *lab, const struct fake_config *device, const char *conf)
{
    acre_cache_config config = {.policy = ACRE_POLICY_ACRE, .conf = conf};

    lab_open_with(lab, device, &config);
}

/* Runs fn on a thread of its own and waits for its end. */
static void on_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    REQUIRE_EQ(pthread_create(&thread, NULL, fn, arg), 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
}

static void expect_refused(struct lab *lab, void *pointer)
{
    acre_cache_stats before = *lab_stats(lab);

    EXPECT_EQ(acre_cache_free(lab->cache, pointer), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "invalid device pointer");
    EXPECT_EQ(memcmp(&before, lab_stats(lab), sizeof before), 0);
}

/* The class under which policy acre counts a request. */
static bool is_small(size_t bytes)
{
    return round_up(bytes, 512) < 64 * 1024;
}

TEST(acre_is_the_default)
{
    struct lab lab;
    acre_cache_config config = {0};

    lab_open_with(&lab, NULL, &config);
    EXPECT_EQ(acre_cache_policy(lab.cache), ACRE_POLICY_ACRE);
    lab_close(&lab);
}

TEST(a_freed_block_is_handed_out_again)
{
    static const size_t sizes[] = {1, 512, 4096, 1 << 20, 20 << 20};
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    for (int i = 0; i < 5; i++) {
        char *a = lab_alloc(&lab, sizes[i]);
        lab_free(&lab, a);
        uint64_t calls = fake_calls(lab.fake, FAKE_ALLOC);
        for (int k = 0; k < 100; k++) {
            char *b = lab_alloc(&lab, sizes[i]);
            EXPECT_PTR_EQ(a, b);
            lab_free(&lab, b);
        }
        EXPECT_EQ(fake_calls(lab.fake, FAKE_ALLOC), calls);
    }
    EXPECT_EQ(lab_stats(&lab)->allocation.all.allocated, 505);
    EXPECT_EQ(lab_stats(&lab)->allocation.all.peak, 1);
    lab_close(&lab);
}

TEST(sizes_are_rounded_to_512_only)
{
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    for (size_t bytes = 1; bytes < 3 * MIB; bytes += 12345) {
        void *a = lab_alloc(&lab, bytes);
        EXPECT_EQ(lab_block_bytes(&lab, a), round_up(bytes, 512));
        lab_free(&lab, a);
    }
    lab_close(&lab);
}

TEST(double_frees_are_refused_wherever_the_block_is)
{
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    void *a = lab_alloc(&lab, 1000), *b = lab_alloc(&lab, 5 * MIB);
    lab_free(&lab, a);
    lab_free(&lab, b);
    expect_refused(&lab, a); /* kept by the thread */
    expect_refused(&lab, b);
    uint64_t largest, device_free;
    /* Gives back what threads keep. */
    REQUIRE_OK(acre_cache_info(lab.cache, &largest, &device_free));
    expect_refused(&lab, a); /* free in its arena */
    expect_refused(&lab, b);
    void *big = lab_alloc(&lab, 1 * MIB); /* cut where a was */
    expect_refused(&lab, (char *)big + 512);
    lab_free(&lab, big);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    expect_refused(&lab, a); /* given back to the device */
    expect_refused(&lab, b);
    lab_close(&lab);
}

TEST(interior_and_foreign_pointers_are_refused)
{
    struct lab lab;
    int host;

    open_acre(&lab, NULL, NULL);
    char *a = lab_alloc(&lab, 4 * MIB);
    expect_refused(&lab, a + 1);
    expect_refused(&lab, a + 511);
    expect_refused(&lab, a + 512);
    expect_refused(&lab, a + 2 * MIB);
    expect_refused(&lab, a - 512);
    expect_refused(&lab, &host);
    expect_refused(&lab, (void *)1);
    expect_refused(&lab, (void *)((uintptr_t)a | (uintptr_t)1 << 63));
    expect_refused(&lab, (void *)((uintptr_t)a | (uintptr_t)1 << 50));
    expect_refused(&lab, (void *)UINTPTR_MAX);
    REQUIRE_OK(acre_cache_free(lab.cache, NULL));
    lab_free(&lab, a);
    lab_close(&lab);
}

TEST(a_pointer_of_another_cache_is_refused)
{
    struct lab one, two;

    open_acre(&one, NULL, NULL);
    open_acre(&two, NULL, NULL);
    void *a = lab_alloc(&one, 4096), *b = lab_alloc(&two, 8192);
    if (a != b)
        expect_refused(&two, a);
    lab_free(&one, a);
    lab_free(&two, b);
    acre_cache_destroy(two.cache);
    fake_destroy(two.fake);
    lab_close(&one);
}

TEST(record_stream_defers_the_free_and_double_frees_stay_refused)
{
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    void *a = lab_alloc(&lab, 4096);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    lab_free(&lab, a);
    EXPECT_EQ(CURRENT(&lab, allocation), 0);
    EXPECT_EQ(CURRENT(&lab, active), 1);
    EXPECT_EQ(CURRENT(&lab, requested_bytes), 4096);
    expect_refused(&lab, a);
    EXPECT_EQ(acre_cache_record_stream(lab.cache, a, fake_stream(2)), ACRE_ERR_INVALID);
    void *b = lab_alloc(&lab, 4096);
    EXPECT(b != a);
    fake_finish(lab.fake, fake_stream(1));
    lab_free(&lab, lab_alloc(&lab, 8192)); /* a miss looks at the events */
    EXPECT_EQ(CURRENT(&lab, active), 1);
    EXPECT_EQ(lab_stats(&lab)->active.all.peak, 2);
    EXPECT_EQ(lab_stats(&lab)->allocation.all.peak, 2);
    lab_free(&lab, b);
    lab_close(&lab);
}

TEST(record_stream_of_a_freed_block_is_refused)
{
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    void *a = lab_alloc(&lab, 4096);
    lab_free(&lab, a);
    EXPECT_EQ(acre_cache_record_stream(lab.cache, a, fake_stream(1)), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_record_stream(lab.cache, &lab, fake_stream(1)), ACRE_ERR_INVALID);
    uint64_t bytes;
    void *base;
    EXPECT_EQ(acre_cache_block_bytes(lab.cache, a, &bytes), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_base(lab.cache, a, &base, &bytes), ACRE_ERR_INVALID);
    lab_close(&lab);
}

TEST(a_failing_event_leaves_the_block_live)
{
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    void *a = lab_alloc(&lab, 4096);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, a, fake_stream(1)));
    fake_fail(lab.fake, FAKE_EVENT_RECORD, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_cache_free(lab.cache, a), ACRE_ERR_DEVICE);
    EXPECT_EQ(CURRENT(&lab, allocation), 1);
    lab_free(&lab, a);
    EXPECT_EQ(CURRENT(&lab, active), 1);
    fake_finish(lab.fake, fake_stream(1));
    lab_close(&lab);
}

/* ---- Several threads ------------------------------------------------------------- */

static struct lab shared;
static void *passed[64];

static void *alloc_and_leave(void *arg)
{
    size_t bytes = *(size_t *)arg;

    for (int i = 0; i < 8; i++)
        passed[i] = lab_alloc(&shared, bytes);
    for (int i = 0; i < 8; i++)
        lab_free(&shared, passed[i]);
    return NULL;
}

TEST(a_thread_that_ends_gives_its_blocks_back)
{
    size_t bytes = 30 * MIB;

    open_acre(&shared, NULL, NULL);
    on_thread(alloc_and_leave, &bytes);
    EXPECT_EQ(shared.cache->front->lane_count, 0);
    EXPECT_EQ(CURRENT(&shared, allocated_bytes), 0);
    EXPECT_EQ(lab_stats(&shared)->allocated_bytes.all.peak, 8 * bytes);
    uint64_t calls = fake_calls(shared.fake, FAKE_ALLOC);
    lab_free(&shared, lab_alloc(&shared, bytes));
    EXPECT_EQ(fake_calls(shared.fake, FAKE_ALLOC), calls);
    REQUIRE_OK(acre_cache_empty(shared.cache));
    EXPECT_EQ(fake_bytes(shared.fake), 0);
    lab_close(&shared);
}

static void *free_passed(void *arg)
{
    (void)arg;
    for (int i = 0; i < 8; i++)
        lab_free(&shared, passed[i]);
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(acre_cache_free(shared.cache, passed[i]), ACRE_ERR_INVALID);
    return NULL;
}

TEST(any_thread_frees_what_another_allocated)
{
    open_acre(&shared, NULL, NULL);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 8; i++)
            passed[i] = lab_alloc(&shared, (size_t)(i + 1) * 100000);
        EXPECT_EQ(CURRENT(&shared, allocation), 8);
        on_thread(free_passed, NULL);
        EXPECT_EQ(CURRENT(&shared, allocation), 0);
    }
    EXPECT_EQ(lab_stats(&shared)->allocation.all.peak, 8);
    EXPECT_EQ(lab_stats(&shared)->allocation.all.freed, 160);
    lab_close(&shared);
}

/* Two threads that take turns: step n is done by thread n % 2. */
static pthread_mutex_t turn_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void turn_wait(int number)
{
    pthread_mutex_lock(&turn_mutex);
    while (turn != number)
        pthread_cond_wait(&turn_changed, &turn_mutex);
    pthread_mutex_unlock(&turn_mutex);
}

static void turn_next(void)
{
    pthread_mutex_lock(&turn_mutex);
    turn++;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&turn_mutex);
}

static void *keeper(void *arg)
{
    (void)arg;
    turn_wait(1);
    for (int i = 0; i < 4; i++)
        passed[i] = lab_alloc(&shared, 200 * MIB);
    for (int i = 0; i < 4; i++)
        lab_free(&shared, passed[i]);
    turn_next();
    turn_wait(3);
    lab_free(&shared, lab_alloc(&shared, 200 * MIB)); /* its lane is empty, and works */
    turn_next();
    return NULL;
}

TEST(no_oom_while_a_thread_keeps_what_is_needed)
{
    struct fake_config device = {.bytes = 900 * MIB};
    pthread_t thread;

    open_acre(&shared, &device, NULL);
    turn = 0;
    REQUIRE_EQ(pthread_create(&thread, NULL, keeper, NULL), 0);
    lab_free(&shared, lab_alloc(&shared, 4096)); /* this thread has a lane too */
    turn_next();
    turn_wait(2);
    uint64_t held = fake_bytes(shared.fake);
    void *a = lab_alloc(&shared, 200 * MIB), *b = lab_alloc(&shared, 200 * MIB);
    EXPECT_EQ(fake_bytes(shared.fake), held);
    lab_free(&shared, a);
    lab_free(&shared, b);
    void *large = lab_alloc(&shared, 700 * MIB); /* needs all segments released */
    lab_free(&shared, large);
    REQUIRE_OK(acre_cache_empty(shared.cache));
    turn_next();
    turn_wait(4);
    pthread_join(thread, NULL);
    EXPECT_EQ(lab_stats(&shared)->num_ooms, 0);
    lab_close(&shared);
}

/* The same steps as a plain oracle, on two threads in turn. */
static acre_cache_stats oracle;
enum { LOCKSTEPS = 4000 };
static struct lockstep {
    void *pointer;
    size_t bytes;
} held[256];
static int held_count;
static uint64_t lockstep_seed;

static int same_live(const acre_cache_stats *a, const acre_cache_stats *b)
{
    return memcmp(&a->allocation, &b->allocation, sizeof a->allocation) == 0 &&
           memcmp(&a->active, &b->active, sizeof a->active) == 0 &&
           memcmp(&a->allocated_bytes, &b->allocated_bytes, sizeof a->active) == 0 &&
           memcmp(&a->active_bytes, &b->active_bytes, sizeof a->active) == 0 &&
           memcmp(&a->requested_bytes, &b->requested_bytes, sizeof a->active) == 0;
}

static void lockstep(void)
{
    uint64_t r = t_random(&lockstep_seed);
    size_t spread = r & 64 ? 3 * MIB : 4096;

    for (uint64_t left = r % 7; left > 0; left--) {
        r = t_random(&lockstep_seed);
        if (held_count == 0 || (held_count < 256 && r % 100 < 52)) {
            size_t bytes = 1 + (r >> 20) % spread;
            struct lockstep *step = &held[held_count++];
            step->bytes = bytes;
            step->pointer = lab_alloc_on(&shared, bytes, (int)((r >> 10) % 3));
            stats_live_add(&oracle, is_small(bytes), round_up(bytes, 512), bytes);
        } else {
            int at = (int)((r >> 20) % (uint64_t)held_count);
            size_t bytes = held[at].bytes;
            lab_free(&shared, held[at].pointer);
            held[at] = held[--held_count];
            stats_live_drop(&oracle, is_small(bytes), round_up(bytes, 512));
            stats_live_retire(&oracle, is_small(bytes), round_up(bytes, 512), bytes);
        }
    }
}

static void *lockstep_thread(void *arg)
{
    int me = *(int *)arg;

    for (int step = me; step < LOCKSTEPS; step += 2) {
        turn_wait(step);
        lockstep();
        if (step % 97 == 0 && !same_live(lab_stats(&shared), &oracle))
            t_fail(__FILE__, __LINE__, "statistics differ after step %d", step);
        if (step % 701 == 0) {
            acre_cache_stats_reset_peak(shared.cache);
            stats_reset_peak(&oracle);
        }
        if (step % 809 == 0) {
            acre_cache_stats_reset_accumulated(shared.cache);
            stats_reset_accumulated(&oracle);
        }
        turn_next();
    }
    return NULL;
}

TEST(two_threads_in_turn_have_exact_statistics_and_peaks)
{
    pthread_t threads[2];
    int numbers[] = {0, 1};

    open_acre(&shared, NULL, NULL);
    memset(&oracle, 0, sizeof oracle);
    held_count = turn = 0;
    lockstep_seed = t_seed();
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, lockstep_thread, &numbers[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    EXPECT(same_live(lab_stats(&shared), &oracle));
    while (held_count)
        lab_free(&shared, held[--held_count].pointer);
    lab_close(&shared);
}

static struct lab second;

static void *use_two_caches(void *arg)
{
    (void)arg;
    lab_free(&shared, lab_alloc(&shared, 4096));
    lab_free(&second, lab_alloc(&second, 4096));
    lab_free(&shared, lab_alloc(&shared, 4096));
    turn_next();
    turn_wait(2); /* meanwhile the first cache ends */
    for (int i = 0; i < 10; i++)
        lab_free(&second, lab_alloc_on(&second, 4096, i % 3));
    return NULL;
}

TEST(a_cache_may_end_before_a_thread_that_used_it)
{
    pthread_t thread;
    uint64_t before = heap_live_count();

    open_acre(&shared, NULL, NULL);
    open_acre(&second, NULL, NULL);
    turn = 0;
    REQUIRE_EQ(pthread_create(&thread, NULL, use_two_caches, NULL), 0);
    turn_wait(1);
    acre_cache_destroy(shared.cache);
    fake_destroy(shared.fake);
    turn_next();
    pthread_join(thread, NULL);
    acre_cache_destroy(second.cache);
    fake_destroy(second.fake);
    EXPECT_EQ(heap_live_count(), before);
}

/* ---- Statistics of one thread ------------------------------------------------------ */

struct piece {
    void *pointer;
    size_t bytes;
    int is_used; /* on stream 7 as well */
};

static void oracle_drop(const struct piece *p)
{
    stats_live_drop(&oracle, is_small(p->bytes), round_up(p->bytes, 512));
    if (!p->is_used)
        stats_live_retire(&oracle, is_small(p->bytes), round_up(p->bytes, 512), p->bytes);
}

TEST(random_work_has_exact_statistics_and_peaks)
{
    static struct piece live[400], waiting[400];
    int live_count = 0, waiting_count = 0;
    uint64_t seed = t_seed();
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    memset(&oracle, 0, sizeof oracle);
    for (uint64_t step = 0; step < t_count(60000, 3000000); step++) {
        uint64_t r = t_random(&seed);
        if (live_count < 400 && (live_count == 0 || r % 100 < 50)) {
            size_t bytes = 1 + (r >> 24) % (r & 256 ? 3000 : 6 * MIB);
            void *pointer = lab_alloc_on(&lab, bytes, (int)((r >> 16) % 3));
            live[live_count++] = (struct piece){pointer, bytes, 0};
            stats_live_add(&oracle, is_small(bytes), round_up(bytes, 512), bytes);
        } else {
            int at = (int)((r >> 24) % (uint64_t)live_count);
            if (r % 16 == 0 && waiting_count < 400) {
                REQUIRE_OK(acre_cache_record_stream(lab.cache, live[at].pointer,
                                                    fake_stream(7)));
                live[at].is_used = 1;
                waiting[waiting_count++] = live[at];
            }
            lab_free(&lab, live[at].pointer);
            oracle_drop(&live[at]);
            live[at] = live[--live_count];
        }
        if (r % 4001 == 0) {
            fake_finish(lab.fake, fake_stream(7));
            REQUIRE_OK(acre_cache_empty(lab.cache)); /* sees the events */
            while (waiting_count > 0) {
                struct piece *p = &waiting[--waiting_count];
                stats_live_retire(&oracle, is_small(p->bytes), round_up(p->bytes, 512), p->bytes);
            }
        }
        if (r % 61 == 0)
            REQUIRE(same_live(lab_stats(&lab), &oracle));
        if (r % 997 == 0)
            REQUIRE_OK(acre_cache_check(lab.cache));
    }
    REQUIRE(same_live(lab_stats(&lab), &oracle));
    fake_finish(lab.fake, fake_stream(7));
    while (live_count)
        lab_free(&lab, live[--live_count].pointer);
    lab_close(&lab);
}

/* Streams that differ; the device takes 256 neighbours for one. */
static void *far_stream(int i)
{
    return (void *)(uintptr_t)(i ? 256 + i : 0);
}

TEST(a_thread_has_a_bounded_number_of_lanes)
{
    enum { STREAMS = 2 * LANE_MOST };
    static void *blocks[STREAMS];
    struct lab lab;

    open_acre(&lab, NULL, NULL);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < STREAMS; i++)
            REQUIRE_OK(acre_cache_alloc(lab.cache, 512, far_stream(i), &blocks[i]));
        EXPECT_EQ(lab.cache->front->lane_count, LANE_MOST);
        EXPECT_EQ(CURRENT(&lab, allocation), STREAMS);
        for (int i = 0; i < STREAMS; i++)
            lab_free(&lab, blocks[i]);
        expect_refused(&lab, blocks[STREAMS - 1]);
        EXPECT_EQ(CURRENT(&lab, allocation), 0);
    }
    for (int i = 0; i < STREAMS; i++) {
        struct arena *arena = arena_find(&lab.cache->small, far_stream(i));
        EXPECT(arena && arena->stream == far_stream(i));
    }
    EXPECT(!arena_find(&lab.cache->small, &lab));
    lab_close(&lab);
}

T_MAIN()
