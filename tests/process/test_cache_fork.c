/* SPDX-License-Identifier: MIT */
/* Children of fork, made while threads of the parent are inside calls: caches of the host go on,
 * those of other devices refuse at once and can be destroyed. A child that hangs is killed by the
 * alarm and fails its test. */
#include "base/heap.h"
#include "cache/cache.h"
#include "cache/fork.h"
#include "pinned/pinned.h"
#include "tests/support/t.h"

#include <acre/acre.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, SLOTS = 8 };

static acre_cache *cache;
static acre_device *device;
static _Atomic int is_over, warm_count;

static void cache_open(acre_device_type type, const char *conf, acre_policy policy)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};

    REQUIRE_OK(acre_device_get(type, 0, &device));
    REQUIRE_OK(acre_cache_create(device, &config, &cache));
}

/* Waits until threads have been round once: a sanitizer's allocator is not made for forks, and
 * threads need it to start. */
static void warm_wait(int count)
{
    while (warm_count < count)
        sched_yield();
}

/* Allocates and frees as fast as it can. */
static void *hammer(void *arg)
{
    uint64_t seed = t_seed() + (uintptr_t)arg;
    void *held[SLOTS] = {NULL};

    for (int i = 0; !is_over; i++) {
        warm_count += i == 100;
        void **slot = &held[t_random(&seed) % SLOTS];
        acre_cache_free(cache, *slot);
        *slot = NULL;
        size_t bytes = 1 + t_random(&seed) % (t_random(&seed) % 4 ? 10000 : 3000000);
        if (acre_cache_alloc(cache, bytes, NULL, slot) != ACRE_OK)
            t_fail(__FILE__, __LINE__, "%s", acre_last_error());
        if (t_random(&seed) % 64 == 0)
            acre_cache_empty(cache);
    }
    for (int i = 0; i < SLOTS; i++)
        acre_cache_free(cache, held[i]);
    return NULL;
}

/* Forks again and again while threads hammer. */
static void forks_run(void (*child)(void *))
{
    pthread_t threads[THREADS];

    is_over = warm_count = 0;
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, hammer, (void *)(uintptr_t)i) == 0);
    warm_wait(THREADS);
    for (uint64_t i = 0; i < t_count(24, 400); i++) {
        int status = t_child(child, NULL);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    is_over = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    REQUIRE_OK(acre_cache_check(cache));
    acre_cache_destroy(cache);
}

/* ---- Memory of the host ----------------------------------------------------------------- */

static int64_t reserved_now(void)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_cache_stats_get(cache, &stats));
    return stats.reserved_bytes.all.current;
}

/* Everything works, on the inherited cache and on a new one. */
static void child_uses(void *arg)
{
    void *pointers[3];
    acre_cache *own;

    (void)arg;
    alarm(20);
    REQUIRE_OK(acre_cache_check(cache));
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(acre_cache_alloc(cache, 4096u << 4 * i, NULL, &pointers[i]));
        memset(pointers[i], i, 4096u << 4 * i);
    }
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(acre_cache_free(cache, pointers[i]));
    REQUIRE_OK(acre_cache_empty(cache));
    REQUIRE_OK(acre_cache_check(cache));
    REQUIRE_OK(acre_cache_create(device, NULL, &own));
    REQUIRE_OK(acre_cache_alloc(own, 1000, NULL, &pointers[0]));
    acre_cache_destroy(own);
    acre_cache_destroy(cache);
}

TEST(a_child_uses_memory_of_the_host_policy_acre)
{
    cache_open(ACRE_DEVICE_CPU, NULL, ACRE_POLICY_ACRE);
    forks_run(child_uses);
}

TEST(a_child_uses_memory_of_the_host_policy_torch)
{
    cache_open(ACRE_DEVICE_CPU, NULL, ACRE_POLICY_TORCH);
    forks_run(child_uses);
}

static pthread_barrier_t filled, forked;

/* Leaves free blocks in the caches of this thread. */
static void *fill(void *arg)
{
    void *held[64];

    (void)arg;
    for (int i = 0; i < 64; i++)
        REQUIRE_OK(acre_cache_alloc(cache, 60000, NULL, &held[i]));
    for (int i = 0; i < 64; i++)
        REQUIRE_OK(acre_cache_free(cache, held[i]));
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&forked);
    return NULL;
}

static void child_empties(void *arg)
{
    (void)arg;
    alarm(20);
    uint64_t before = heap_live_count();
    REQUIRE_OK(acre_cache_empty(cache));
    EXPECT_EQ(reserved_now(), 0);
    REQUIRE_OK(acre_cache_check(cache));
    EXPECT(heap_live_count() <= before);
    acre_cache_destroy(cache);
}

TEST(lanes_of_threads_that_are_gone_are_taken_over)
{
    uint64_t heap_before = heap_live_count();
    pthread_t thread;

    cache_open(ACRE_DEVICE_CPU, NULL, ACRE_POLICY_ACRE);
    pthread_barrier_init(&filled, NULL, 2);
    pthread_barrier_init(&forked, NULL, 2);
    REQUIRE(pthread_create(&thread, NULL, fill, NULL) == 0);
    pthread_barrier_wait(&filled);
    EXPECT_GT(reserved_now(), 0);
    int status = t_child(child_empties, NULL);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pthread_barrier_wait(&forked);
    pthread_join(thread, NULL);
    acre_cache_destroy(cache);
    EXPECT(heap_live_count() <= heap_before + 64); /* the backend of the host stays */
}

/* ---- Devices that cannot live in a child -------------------------------------------------- */

static void *live_block, *stream;
static acre_pool_id pool;

#define EXPECT_FORKED(call) EXPECT_EQ((call), ACRE_ERR_FORKED)

static void child_is_refused(void *arg)
{
    acre_capture_info info = {.struct_size = sizeof info};
    acre_recording *recording;
    acre_pool_state *state;
    char handle[128];
    size_t length;
    uint64_t a, b;
    void *out;

    (void)arg;
    alarm(20);
    EXPECT_FORKED(acre_cache_alloc(cache, 100, NULL, &out));
    EXPECT_FORKED(acre_cache_alloc(cache, 3 << 20, stream, &out));
    EXPECT_FORKED(acre_cache_free(cache, live_block));
    EXPECT_HAS(acre_last_error(), "fork");
    EXPECT_FORKED(acre_cache_record_stream(cache, live_block, stream));
    EXPECT_FORKED(acre_cache_empty(cache));
    EXPECT_FORKED(acre_pool_create(cache, acre_pool_id_next(), NULL));
    EXPECT_FORKED(acre_pool_begin(cache, pool, NULL));
    EXPECT_FORKED(acre_pool_release(cache, pool));
    EXPECT_FORKED(acre_pool_save(cache, pool, &state));
    EXPECT_FORKED(acre_capture_mark_begin(cache, stream));
    EXPECT_FORKED(acre_recording_begin(cache, stream, NULL, &recording));
    EXPECT_FORKED(acre_cache_sleep(cache, &pool, NULL, ACRE_SLEEP_SAVE));
    EXPECT_FORKED(acre_share_export(cache, live_block, handle, sizeof handle, &length, &a));
    EXPECT_FORKED(acre_device_memory(device, &a, &b));
    EXPECT_FORKED(acre_device_alloc(device, 4096, &out));
    EXPECT_FORKED(acre_device_free(device, live_block));
    EXPECT_FORKED(acre_stream_native_synchronize(device, stream));
    EXPECT_FORKED(acre_stream_native_destroy(device, stream));
    EXPECT_FORKED(acre_event_native_create(device, 0, &out));
    EXPECT_FORKED(acre_capture_info_get(device, stream, &info));
    EXPECT_FORKED(acre_cache_create(device, NULL, (acre_cache **)&out));
    uint64_t before = heap_live_count();
    acre_cache_destroy(cache); /* of host memory only */
    EXPECT(heap_live_count() < before);
}

static void refuse_with(const char *conf, acre_policy policy)
{
    cache_open(ACRE_DEVICE_PRIVATE, conf, policy);
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    pool = acre_pool_id_next();
    REQUIRE_OK(acre_pool_create(cache, pool, NULL));
    REQUIRE_OK(acre_cache_alloc(cache, 70000, NULL, &live_block));
    forks_run(child_is_refused);
    REQUIRE_OK(acre_stream_native_destroy(device, stream));
}

TEST(a_child_is_refused_at_once)
{
    refuse_with(NULL, ACRE_POLICY_ACRE);
}

TEST(a_child_is_refused_at_once_plain_segments)
{
    refuse_with("stitched_memory:False", ACRE_POLICY_ACRE);
}

TEST(a_child_is_refused_at_once_policy_torch)
{
    refuse_with("expandable_segments:True", ACRE_POLICY_TORCH);
}

/* What a child does to its copy of a cache does not reach the memory of the parent. */
static void child_destroys(void *arg)
{
    (void)arg;
    alarm(20);
    EXPECT_FORKED(acre_cache_free(cache, live_block));
    acre_cache_destroy(cache);
}

TEST(the_parent_keeps_its_memory)
{
    char text[8] = "";

    cache_open(ACRE_DEVICE_PRIVATE, NULL, ACRE_POLICY_ACRE);
    REQUIRE_OK(acre_cache_alloc(cache, 70000, NULL, &live_block));
    REQUIRE_OK(acre_copy(device, live_block, "parent", 7, ACRE_COPY_HOST_TO_DEVICE));
    int status = t_child(child_destroys, NULL);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    REQUIRE_OK(acre_copy(device, text, live_block, 7, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT_STR_EQ(text, "parent");
    REQUIRE_OK(acre_cache_free(cache, live_block));
    acre_cache_destroy(cache);
}

/* ---- Pinned memory of a device ------------------------------------------------------------- */

static acre_pinned *device_pinned;
static void *staging, *used;
static acre_pool_id host_pool;

/* Whether memory is at hand or not, and whatever streams have used. */
static void child_is_refused_pinned(void *arg)
{
    acre_pinned_stats stats = {.struct_size = sizeof stats};
    void *out = NULL;

    (void)arg;
    alarm(20);
    EXPECT_FORKED(acre_pinned_alloc(device_pinned, 5000, &out)); /* at hand */
    EXPECT_FORKED(acre_pinned_alloc(device_pinned, 40 << 20, &out));
    EXPECT_PTR_EQ(out, NULL);
    EXPECT_FORKED(acre_pinned_free(device_pinned, staging));
    EXPECT_FORKED(acre_pinned_record_stream(device_pinned, staging, NULL, stream));
    EXPECT_FORKED(pinned_process(device_pinned));
    EXPECT_FORKED(acre_pinned_empty(device_pinned));
    EXPECT_FORKED(acre_pinned_trim(device_pinned, 0, NULL));
    EXPECT_FORKED(acre_pinned_pool_begin(device_pinned, acre_pool_id_next(), NULL));
    EXPECT_FORKED(acre_pinned_pool_end(device_pinned, host_pool));
    EXPECT_FORKED(acre_pinned_pool_release(device_pinned, host_pool));
    EXPECT_FORKED(acre_pinned_conf_set(device_pinned, "pinned_use_background_threads:True"));
    EXPECT_FORKED(acre_pinned_create(device, NULL, (acre_pinned **)&out));
    REQUIRE_OK(acre_pinned_stats_get(device_pinned, &stats));
    EXPECT(stats.active_bytes.current >= 70000);
    uint64_t before = heap_live_count();
    acre_pinned_destroy(device_pinned); /* of what it noted only */
    EXPECT(heap_live_count() < before);
}

static void refuse_pinned(acre_policy policy)
{
    acre_pinned_config config = {.struct_size = sizeof config, .policy = policy,
                                 .flags = ACRE_PINNED_NO_ENVIRONMENT};
    void *small;

    REQUIRE_OK(acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device));
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    REQUIRE_OK(acre_pinned_create(device, &config, &device_pinned));
    host_pool = acre_pool_id_next();
    REQUIRE_OK(acre_pinned_pool_begin(device_pinned, host_pool, NULL));
    REQUIRE_OK(acre_pinned_pool_end(device_pinned, host_pool));
    REQUIRE_OK(acre_pinned_alloc(device_pinned, 70000, &staging));
    REQUIRE_OK(acre_pinned_alloc(device_pinned, 60000, &used));
    REQUIRE_OK(acre_pinned_record_stream(device_pinned, used, NULL, stream));
    REQUIRE_OK(acre_pinned_free(device_pinned, used)); /* waits for an event */
    REQUIRE_OK(acre_pinned_alloc(device_pinned, 5000, &small));
    REQUIRE_OK(acre_pinned_free(device_pinned, small));
    memcpy(staging, "parent", 7);
    int status = t_child(child_is_refused_pinned, NULL);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_STR_EQ((char *)staging, "parent");
    REQUIRE_OK(acre_pinned_alloc(device_pinned, 5000, &small)); /* the parent goes on */
    REQUIRE_OK(acre_pinned_free(device_pinned, small));
    REQUIRE_OK(acre_pinned_free(device_pinned, staging));
    REQUIRE_OK(acre_pinned_pool_release(device_pinned, host_pool));
    REQUIRE_OK(acre_pinned_empty(device_pinned));
    REQUIRE_OK(pinned_verify(device_pinned));
    acre_pinned_destroy(device_pinned);
    REQUIRE_OK(acre_stream_native_destroy(device, stream));
}

TEST(a_child_is_refused_pinned_memory_of_a_device)
{
    refuse_pinned(ACRE_POLICY_ACRE);
}

TEST(a_child_is_refused_pinned_memory_of_a_device_policy_torch)
{
    refuse_pinned(ACRE_POLICY_TORCH);
}

/* ---- Others that have locks or threads ----------------------------------------------------- */

static acre_pinned *pinned;
static acre_generator *generator;
static acre_store_server *server;

static void *hammer_others(void *arg)
{
    uint32_t numbers[64];
    void *block;

    (void)arg;
    for (int i = 0; !is_over; i++) {
        warm_count += i == 100;
        if (acre_pinned_alloc(pinned, 5000, &block) == ACRE_OK)
            acre_pinned_free(pinned, block);
        acre_generator_random32(generator, numbers, 64);
    }
    return NULL;
}

static void child_uses_others(void *arg)
{
    uint32_t numbers[64];
    void *block;

    (void)arg;
    alarm(20);
    REQUIRE_OK(acre_pinned_alloc(pinned, 5000, &block));
    memset(block, 1, 5000);
    REQUIRE_OK(acre_pinned_free(pinned, block));
    REQUIRE_OK(acre_generator_random32(generator, numbers, 64));
    acre_pinned_destroy(pinned);
    acre_generator_destroy(generator);
    acre_store_server_destroy(server); /* that of the parent goes on */
}

TEST(a_child_uses_pinned_memory_and_generators)
{
    pthread_t thread;
    acre_store *store;

    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &device));
    REQUIRE_OK(acre_pinned_create(device, NULL, &pinned));
    REQUIRE_OK(acre_generator_create(ACRE_GENERATOR_PHILOX, acre_device_id_of(device), &generator));
    REQUIRE_OK(acre_store_server_create("127.0.0.1", 0, NULL, &server));
    is_over = warm_count = 0;
    REQUIRE(pthread_create(&thread, NULL, hammer_others, NULL) == 0);
    warm_wait(1);
    for (uint64_t i = 0; i < t_count(16, 200); i++) {
        int status = t_child(child_uses_others, NULL);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    is_over = 1;
    pthread_join(thread, NULL);
    REQUIRE_OK(acre_store_connect("127.0.0.1", acre_store_server_port(server), NULL, 5000,
                                  &store));
    REQUIRE_OK(acre_store_set(store, "key", "value", 5));
    acre_store_destroy(store);
    acre_store_server_destroy(server);
    acre_generator_destroy(generator);
    acre_pinned_destroy(pinned);
}

T_MAIN()
