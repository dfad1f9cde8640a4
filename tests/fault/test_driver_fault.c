/* SPDX-License-Identifier: MIT */
/* Every call of a driver fails in turn, through its stand-in. The call of Acre that
 * meets it goes on or gives one clean error, after which the same call succeeds; at
 * the end the driver holds nothing more than before, and neither does the heap.
 *
 * Calls that give something back do not fail here: what a driver does not take back
 * stays. That nothing else goes wrong then is a test of its own. */
#include "base/bits.h"
#include "base/heap.h"
#include "tests/support/standin_bed.h"
#include "tests/support/t.h"

#include <acre/acre.h>

#include <unistd.h>

#define PAGE (2 * MIB)
#define BYTES 4096

static acre_backend *backend;
static acre_device *device;
static uint64_t errors;      /* clean ones, since the scenario began            */
static uint64_t failed;      /* calls of the driver that failed, since then     */
static bool is_lenient;      /* errors are not judged: the driver loses things  */
static acre_policy policy;   /* of caches                                       */
static const char *conf;

/* Judges an answer; true when the call is to be repeated, once. */
static bool is_to_repeat(acre_status status, const char *call)
{
    if (status == ACRE_OK || status == ACRE_ERR_NOT_READY)
        return false;
    if (is_lenient)
        return true;
    if (++errors > 1 || status == ACRE_ERR_INVALID || status == ACRE_ERR_INTERNAL ||
        !*acre_last_error())
        t_fail(__FILE__, __LINE__, "%s: %s (%s) when %s failed", call, acre_status_name(status),
               acre_last_error(), standin_now.failed());
    return true;
}

#define GO(call)                                                               \
    do {                                                                       \
        if (is_to_repeat((call), #call) && is_to_repeat((call), #call) && !is_lenient) \
            t_leave();                                                         \
    } while (0)
/* For a call that has nothing to give on a second try. */
#define END(call) is_to_repeat((call), #call)

/* From here on nothing fails: destroyers have no way to tell. */
static void calm(void)
{
    failed += standin_now.fail_end();
}

/* ---- Scenarios ----------------------------------------------------------------------- */

static void nothing(void *arg)
{
    (void)arg;
}

static void scenario_work(void)
{
    static char host[BYTES], back[BYTES], own[2 * BYTES];
    void *streams[2], *event, *pinned;
    acre_pointer_info info = {.struct_size = sizeof info};
    uint64_t available, total;
    char *memory;
    double ms;

    memset(host, 0x5c, sizeof host);
    GO(acre_device_memory(device, &available, &total));
    for (int i = 0; i < 2; i++)
        GO(acre_stream_native_create(device, 0, 0, &streams[i]));
    GO(acre_event_native_create(device, ACRE_EVENT_TIMING, &event));
    GO(acre_device_alloc(device, 2 * BYTES, (void **)&memory));
    GO(acre_host_alloc(device, BYTES, &pinned));
    GO(acre_host_register(device, own, sizeof own));
    GO(acre_copy(device, memory, host, BYTES, ACRE_COPY_HOST_TO_DEVICE));
    GO(acre_fill_async(device, memory + BYTES, 3, BYTES, streams[0]));
    GO(acre_copy_async(device, memory + 100, memory, BYTES, ACRE_COPY_DEVICE_TO_DEVICE,
                       streams[0]));
    GO(acre_launch_host(device, streams[0], nothing, NULL));
    GO(acre_event_native_record(device, event, streams[0]));
    GO(acre_stream_native_wait(device, streams[1], event));
    GO(acre_write_value32(device, streams[1], memory + BYTES + 512, 5));
    GO(acre_wait_value32(device, streams[1], memory + BYTES + 512, 5, ACRE_WAIT_EQ));
    GO(acre_copy_async(device, back, memory, 100, ACRE_COPY_DEVICE_TO_HOST, streams[1]));
    GO(acre_stream_native_query(device, streams[1]));
    GO(acre_event_native_query(device, event));
    GO(acre_event_native_synchronize(device, event));
    GO(acre_stream_native_synchronize(device, streams[1]));
    GO(acre_event_native_elapsed(device, event, event, &ms));
    GO(acre_device_synchronize(device));
    EXPECT(is_lenient || memcmp(host, back, 100) == 0);
    GO(acre_pointer_info_get(device, memory + 7, &info));
    GO(acre_host_unregister(device, own));
    GO(acre_host_free(device, pinned));
    GO(acre_device_free(device, memory));
    GO(acre_event_native_destroy(device, event));
    for (int i = 0; i < 2; i++)
        GO(acre_stream_native_destroy(device, streams[i]));
}

static acre_cache *cache_open(void)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_cache *cache = NULL;

    GO(acre_cache_create(device, &config, &cache));
    return cache;
}

static void cache_close(acre_cache *cache)
{
    calm();
    EXPECT_EQ(acre_cache_check(cache), ACRE_OK);
    acre_cache_destroy(cache);
}

static void scenario_cache(void)
{
    static const size_t sizes[6] = {1000, 70000, 3 * MIB, 5 * MIB, 100, 11 * MIB};
    void *streams[2], *blocks[6];

    for (int i = 0; i < 2; i++)
        GO(acre_stream_native_create(device, 0, 0, &streams[i]));
    acre_cache *cache = cache_open();
    for (int round = 0; round < (int)t_count(1, 2); round++) {
        for (int i = 0; i < 6; i++)
            GO(acre_cache_alloc(cache, sizes[i], streams[0], &blocks[i]));
        GO(acre_fill_async(device, blocks[3], 1, 1000, streams[1]));
        GO(acre_cache_record_stream(cache, blocks[3], streams[1]));
        for (int i = 1; i < 6; i += 2)
            GO(acre_cache_free(cache, blocks[i]));
        GO(acre_cache_alloc(cache, 13 * MIB, streams[0], &blocks[1])); /* pieces, joined */
        GO(acre_fill_async(device, blocks[1], 1, 1000, streams[0]));
        GO(acre_cache_free(cache, blocks[1]));
        for (int i = 0; i < 6; i += 2)
            GO(acre_cache_free(cache, blocks[i]));
        GO(acre_cache_empty(cache));
    }
    cache_close(cache);
    for (int i = 0; i < 2; i++)
        END(acre_stream_native_destroy(device, streams[i]));
}

static void scenario_virtual(void)
{
    void *handle, *again;
    uint64_t bytes = 0;
    char *base, byte = 7, seen = 0;
    int fd;

    GO(acre_virtual_reserve(device, 4 * PAGE, (void **)&base));
    GO(acre_virtual_create(device, PAGE, ACRE_HANDLE_POSIX, &handle));
    GO(acre_handle_export_fd(device, handle, &fd));
    GO(acre_handle_import_fd(device, fd, &again, &bytes));
    close(fd);
    EXPECT(is_lenient || bytes == PAGE);
    GO(acre_virtual_map(device, base, PAGE, 0, handle));
    GO(acre_virtual_map(device, base + 2 * PAGE, PAGE, 0, again));
    GO(acre_virtual_set_access(device, base, PAGE, 0, ACRE_ACCESS_READ_WRITE));
    GO(acre_virtual_set_access(device, base + 2 * PAGE, PAGE, 0, ACRE_ACCESS_READ_WRITE));
    GO(acre_copy(device, base + 5, &byte, 1, ACRE_COPY_HOST_TO_DEVICE));
    GO(acre_copy(device, &seen, base + 2 * PAGE + 5, 1, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT(is_lenient || seen == 7);
    GO(acre_virtual_unmap(device, base, PAGE));
    GO(acre_virtual_unmap(device, base + 2 * PAGE, PAGE));
    GO(acre_virtual_release(device, handle));
    GO(acre_virtual_release(device, again));
    GO(acre_virtual_unreserve(device, base, 4 * PAGE));
}

static void scenario_capture(void)
{
    acre_capture_info info = {.struct_size = sizeof info};
    void *stream, *graph = NULL, *memory;

    GO(acre_stream_native_create(device, 0, 0, &stream));
    GO(acre_device_alloc(device, BYTES, &memory));
    GO(acre_capture_begin(device, stream));
    GO(acre_fill_async(device, memory, 9, BYTES, stream));
    GO(acre_capture_info_get(device, stream, &info));
    if (!is_to_repeat(acre_capture_end(device, stream, &graph), "acre_capture_end")) {
        GO(acre_graph_launch(device, graph, stream));
        GO(acre_stream_native_synchronize(device, stream));
        GO(acre_graph_destroy(device, graph));
    } else if (acre_capture_end(device, stream, &graph) == ACRE_OK) {
        GO(acre_graph_destroy(device, graph)); /* it had not ended yet */
    }
    GO(acre_device_free(device, memory));
    GO(acre_stream_native_destroy(device, stream));
}

static void scenario_sleep(void)
{
    acre_pool_config config = {.struct_size = sizeof config, .flags = ACRE_POOL_STITCHED};
    const acre_pool_id id = acre_pool_id_next();
    acre_cache *cache = cache_open();
    void *block = NULL;
    char byte = 0;

    GO(acre_pool_create(cache, id, &config));
    GO(acre_pool_begin(cache, id, NULL));
    GO(acre_cache_alloc(cache, 70000, NULL, &block));
    GO(acre_pool_end(cache, id));
    GO(acre_fill_async(device, block, 0x3d, 70000, NULL));
    GO(acre_device_synchronize(device));
    GO(acre_cache_sleep(cache, &id, NULL, ACRE_SLEEP_SAVE));
    GO(acre_cache_wake(cache, &id, NULL));
    GO(acre_copy(device, &byte, (char *)block + 69999, 1, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT(is_lenient || byte == 0x3d);
    GO(acre_cache_free(cache, block));
    GO(acre_pool_release(cache, id));
    cache_close(cache);
}

static void scenario_share(void)
{
    uint8_t handle[ACRE_SHARE_HANDLE_MAX];
    acre_cache *cache = cache_open();
    void *block = NULL, *base = NULL;
    uint64_t offset, bytes;
    size_t length;
    char byte = 0;

    GO(acre_cache_alloc(cache, 3 * MIB, NULL, &block));
    GO(acre_fill_async(device, block, 0x2e, 1000, NULL));
    GO(acre_device_synchronize(device));
    GO(acre_share_export(cache, block, handle, sizeof handle, &length, &offset));
    GO(acre_share_open(device, handle, length, &base, &bytes));
    GO(acre_copy(device, &byte, (char *)base + offset, 1, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT(is_lenient || byte == 0x2e);
    GO(acre_share_close(device, base));
    GO(acre_cache_free(cache, block));
    cache_close(cache);
}

/* ---- Failing each call ----------------------------------------------------------------- */

static void scenario_open(const char *text)
{
    REQUIRE_OK(standin_backend(standin_vendor(), text, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
}

static void scenario_end(void)
{
    acre_backend_unregister(backend);
    standin_end();
}

/* One call fails; whether one did. */
static bool fail_once(void (*scenario)(void), uint64_t nth, int code)
{
    uint64_t heap = heap_live_count(), live = standin_now.live(NULL);

    errors = failed = 0;
    standin_now.fail_nth(nth, code);
    scenario();
    calm();
    if (is_lenient)
        return failed > 0;
    EXPECT_EQ(heap_live_count(), heap);
    if (standin_now.live(NULL) != live) {
        t_fail(__FILE__, __LINE__, "call %llu, %s: now held:%s", (unsigned long long)nth,
               standin_now.failed(), standin_text(&standin_now));
        t_leave();
    }
    return failed > 0;
}

static void fail_each(void (*scenario)(void))
{
    scenario_open("devices:2,memory:256MiB");
    standin_now.spare(1);
    scenario(); /* what is made once and kept is there then */
    for (int i = 0; i < 2; i++)
        for (uint64_t nth = 1;
             fail_once(scenario, nth, i ? STANDIN_OUT_OF_MEMORY : STANDIN_UNKNOWN);)
            nth += t_slowness() > 1 ? 13 : 1;
    scenario_end();
}

TEST(streams_copies_and_host_memory)
{
    fail_each(scenario_work);
}

TEST(virtual_memory)
{
    fail_each(scenario_virtual);
}

TEST(captures)
{
    fail_each(scenario_capture);
}

/* The kinds of memory that caches have. */
static const struct kind {
    acre_policy policy;
    const char *conf;
} plain = {ACRE_POLICY_TORCH, NULL}, expandable = {ACRE_POLICY_TORCH, "expandable_segments:True"},
  stitched = {ACRE_POLICY_ACRE, NULL}, segments = {ACRE_POLICY_ACRE, "stitched_memory:False"};

static void fail_each_of(const struct kind *kind, void (*scenario)(void))
{
    policy = kind->policy;
    conf = kind->conf;
    fail_each(scenario);
}

TEST(a_cache_of_policy_torch)
{
    fail_each_of(&plain, scenario_cache);
}

TEST(a_cache_with_expandable_segments)
{
    fail_each_of(&expandable, scenario_cache);
}

TEST(a_cache_of_stitched_memory)
{
    fail_each_of(&stitched, scenario_cache);
}

TEST(a_cache_of_policy_acre_with_segments)
{
    fail_each_of(&segments, scenario_cache);
}

TEST(expandable_memory_sleeps_and_wakes)
{
    fail_each_of(&expandable, scenario_sleep);
}

TEST(stitched_memory_sleeps_and_wakes)
{
    fail_each_of(&stitched, scenario_sleep);
}

TEST(plain_memory_is_exported_and_opened)
{
    fail_each_of(&plain, scenario_share);
}

TEST(expandable_memory_is_exported_and_opened)
{
    fail_each_of(&expandable, scenario_share);
}

TEST(stitched_memory_is_exported_and_opened)
{
    fail_each_of(&stitched, scenario_share);
}

TEST(starting_a_backend)
{
    standin_use_vendor(standin_vendor());
    standin_now = standin_open(standin_path(standin_vendor()));
    REQUIRE_EQ(standin_now.restart("devices:2,memory:64MiB"), 0);
    for (uint64_t nth = 1;; nth++) {
        uint64_t heap = heap_live_count();

        standin_now.spare(1);
        standin_now.fail_nth(nth, STANDIN_UNKNOWN);
        acre_status status = acre_backend_find(standin_vendor(), &backend);
        bool was_failed = standin_now.fail_end() > 0;
        if (status == ACRE_OK)
            acre_backend_unregister(backend);
        else
            EXPECT(was_failed && *acre_last_error());
        EXPECT_EQ(heap_live_count(), heap);
        EXPECT_EQ(standin_now.live(NULL), 0);
        if (!was_failed)
            break;
    }
    standin_end();
}

/* The driver refuses, and there is no host memory either: what was to go is known as before. */
#define REFUSED(cuda, hip, call)                                               \
    do {                                                                       \
        standin_now.fail(#cuda, 1, STANDIN_UNKNOWN);                           \
        standin_now.fail(#hip, 1, STANDIN_UNKNOWN);                            \
        acre_host_limit_set(1);                                                \
        acre_status status_ = (call);                                          \
        acre_host_limit_set(0);                                                \
        EXPECT_EQ(standin_now.fail_end(), 1);                                  \
        EXPECT(status_ != ACRE_OK && status_ != ACRE_ERR_HOST_MEMORY);         \
        REQUIRE_OK(call);                                                      \
    } while (0)

TEST(what_is_not_taken_back_can_be_given_back_again)
{
    static char own[2 * BYTES];
    void *memory, *pinned, *addresses;

    scenario_open("devices:2,memory:1GiB");
    standin_now.spare(0);
    REQUIRE_OK(acre_device_alloc(device, BYTES, &memory));
    REQUIRE_OK(acre_host_alloc(device, BYTES, &pinned));
    REQUIRE_OK(acre_host_register(device, own, sizeof own));
    REQUIRE_OK(acre_virtual_reserve(device, PAGE, &addresses));
    REFUSED(cuMemFree_v2, hipFree, acre_device_free(device, memory));
    REFUSED(cuMemFreeHost, hipHostFree, acre_host_free(device, pinned));
    REFUSED(cuMemHostUnregister, hipHostUnregister, acre_host_unregister(device, own));
    REFUSED(cuMemAddressFree, hipMemAddressFree,
            acre_virtual_unreserve(device, addresses, PAGE));
    scenario_end();
}

/* What it keeps is lost, but nothing else is. This test is the last: the stand-in holds
 * what it did not take back. */
TEST(a_driver_that_takes_nothing_back)
{
    static const struct kind *const kinds[] = {&plain, &expandable, &stitched, &segments};
    static void (*const scenarios[])(void) = {scenario_work, scenario_virtual, scenario_capture,
                                              scenario_cache, scenario_sleep, scenario_share};

    is_lenient = true;
    scenario_open("devices:2,memory:4GiB");
    standin_now.spare(0);
    for (int k = 0; k < 4; k++)
        for (int i = k ? 3 : 0; i < (k == 1 || k == 2 ? 6 : 4); i++) {
            policy = kinds[k]->policy;
            conf = kinds[k]->conf;
            for (uint64_t nth = 1; fail_once(scenarios[i], nth, STANDIN_UNKNOWN);)
                nth += t_slowness() > 1 ? 31 : 1;
        }
    acre_backend_unregister(backend);
}

T_MAIN()
