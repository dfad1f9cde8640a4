/* SPDX-License-Identifier: MIT */
/* The registry: names, types, devices, failures, fork, threads. */
#include "backend/backend.h"

#include "base/heap.h"
#include "tests/support/small_backend.h"
#include "tests/support/t.h"

#include <pthread.h>

/* A type no built-in backend has, so that registering decides. */
#define TYPE ACRE_DEVICE_OPENCL

TEST(a_registered_backend_is_found_and_goes)
{
    struct small small = SMALL_INITIALIZER;
    uint64_t live = heap_live_count();
    acre_backend *backend, *found;
    acre_device *device;
    void *base;

    EXPECT_EQ(acre_device_get(TYPE, 0, &device), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "opencl");
    REQUIRE_OK(small_register("mine", TYPE, &small, &backend));
    REQUIRE_OK(acre_backend_find("mine", &found));
    EXPECT_PTR_EQ(found, backend);
    EXPECT_STR_EQ(acre_backend_name(backend), "mine");
    EXPECT_EQ(acre_backend_type(backend), TYPE);
    EXPECT_EQ(acre_backend_device_count(backend), 2);
    EXPECT_EQ(acre_device_count(TYPE), 2);
    REQUIRE_OK(acre_device_get(TYPE, 1, &device));
    EXPECT_EQ(acre_device_id_of(device).index, 1);
    EXPECT_EQ(acre_device_id_of(device).type, TYPE);
    EXPECT_EQ(acre_device_get(TYPE, 2, &device), ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "[0, 2)");
    EXPECT_HAS(acre_last_error(), "opencl:2");
    EXPECT_EQ(acre_device_get(TYPE, -2, &device), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_device_alloc(device, 100, &base));
    acre_backend_unregister(backend);
    EXPECT_EQ(small.destroyed, 1);
    EXPECT_EQ(acre_backend_find("mine", &found), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "mine");
    EXPECT_EQ(acre_device_count(TYPE), 0);
    EXPECT_EQ(heap_live_count(), live);
    acre_backend_unregister(NULL);
}

TEST(names_are_unique_and_plain)
{
    static const char *const bad[] = {"", "a b", "a/b", "caf\xc3\xa9", "x.y",
        "0123456789012345678901234567890123456789012345678901234567890123"};
    struct small small = SMALL_INITIALIZER;
    acre_backend *backend, *untouched = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_EQ(small_register(bad[i], TYPE, &small, &untouched), ACRE_ERR_INVALID);
    EXPECT_EQ(small_register(NULL, TYPE, &small, &untouched), ACRE_ERR_INVALID);
    REQUIRE_OK(small_register("Good-Name_1", TYPE, &small, &backend));
    EXPECT_EQ(small_register("Good-Name_1", TYPE, &small, &untouched), ACRE_ERR_EXISTS);
    EXPECT_PTR_EQ(untouched, NULL);
    EXPECT_EQ(small.destroyed, 0);
    acre_backend_unregister(backend);
}

TEST(bad_descriptions_are_refused)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend_desc desc = small_desc("mine", TYPE, &small);
    acre_backend *untouched = NULL;

    EXPECT_EQ(acre_backend_register(NULL, &untouched), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_backend_register(&desc, NULL), ACRE_ERR_INVALID);
    desc.struct_size = 8;
    EXPECT_EQ(acre_backend_register(&desc, &untouched), ACRE_ERR_INVALID);
    desc = small_desc("mine", (acre_device_type)ACRE_DEVICE_TYPE_COUNT, &small);
    EXPECT_EQ(acre_backend_register(&desc, &untouched), ACRE_ERR_INVALID);
    desc = small_desc("mine", (acre_device_type)-1, &small);
    EXPECT_EQ(acre_backend_register(&desc, &untouched), ACRE_ERR_INVALID);
    desc = small_desc("mine", TYPE, &small);
    desc.codec = (acre_stream_codec)5;
    EXPECT_EQ(acre_backend_register(&desc, &untouched), ACRE_ERR_INVALID);
    desc = small_desc("mine", TYPE, &small);
    desc.ops = NULL;
    EXPECT_EQ(acre_backend_register(&desc, &untouched), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_backend_find(NULL, &untouched), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_backend_find("mine", NULL), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(untouched, NULL);
}

/* A description compiled before flags existed. */
TEST(an_older_description_is_widened)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend_desc desc = small_desc("older", TYPE, &small);
    acre_backend *backend;

    desc.struct_size = offsetof(acre_backend_desc, flags);
    desc.flags = 0xffffffffu;
    REQUIRE_OK(acre_backend_register(&desc, &backend));
    EXPECT_EQ(backend->flags, 0);
    acre_backend_unregister(backend);
}

TEST(what_devices_say_of_themselves_must_fit)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend *backend = NULL;

    small.info.capabilities = ACRE_CAP_STREAMS;
    EXPECT_EQ(small_register("mine", TYPE, &small, &backend), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "capabilities");
    small.info.capabilities = 0;
    small.info.alloc_granularity = 768;
    EXPECT_EQ(small_register("mine", TYPE, &small, &backend), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "768");
    small.info.alloc_granularity = 0;
    small.device_count = 128;
    EXPECT_EQ(small_register("mine", TYPE, &small, &backend), ACRE_ERR_INVALID);
    small.device_count = -1;
    EXPECT_EQ(small_register("mine", TYPE, &small, &backend), ACRE_ERR_INVALID);
    small.device_count = 1;
    small.info_status = ACRE_ERR_DEVICE;
    EXPECT_EQ(small_register("mine", TYPE, &small, &backend), ACRE_ERR_DEVICE);
    small.info_status = ACRE_OK;
    small.count_status = ACRE_ERR_DEVICE;
    EXPECT_EQ(small_register("mine", TYPE, &small, &backend), ACRE_ERR_DEVICE);
    EXPECT_PTR_EQ(backend, NULL);
    small.count_status = ACRE_OK;
    small.info.page_bytes = 4096;
    REQUIRE_OK(small_register("mine", TYPE, &small, &backend));
    EXPECT_EQ(backend->devices[0].info.alloc_granularity, 1);
    EXPECT_EQ(backend->devices[0].info.page_bytes, 0);
    acre_backend_unregister(backend);
}

TEST(no_devices_are_fine)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend *backend;
    acre_device *device;

    small.device_count = 0;
    REQUIRE_OK(small_register("empty", TYPE, &small, &backend));
    EXPECT_EQ(acre_device_count(TYPE), 0);
    EXPECT_EQ(acre_device_get(TYPE, 0, &device), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_device_get(TYPE, -1, &device), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_device_set(TYPE, 0), ACRE_ERR_RANGE);
    acre_backend_unregister(backend);
}

TEST(the_first_of_a_type_answers_until_it_goes)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend *first, *second;
    acre_device *device;

    REQUIRE_OK(small_register("first", TYPE, &small, &first));
    REQUIRE_OK(small_register("second", TYPE, &small, &second));
    REQUIRE_OK(acre_device_get(TYPE, 0, &device));
    EXPECT_PTR_EQ(device->backend, first);
    REQUIRE_OK(acre_backend_device(second, 1, &device));
    EXPECT_PTR_EQ(device->backend, second);
    acre_backend_unregister(first);
    REQUIRE_OK(acre_device_get(TYPE, 0, &device));
    EXPECT_PTR_EQ(device->backend, second);
    acre_backend_unregister(second);
}

TEST(builtins_are_listed_and_start_at_first_use)
{
    acre_backend *host, *again;

    EXPECT_STR_EQ(acre_backend_name_at(0), "sim");
    EXPECT_STR_EQ(acre_backend_name_at(1), "host");
    EXPECT(acre_backend_name_at(-1) == NULL);
    EXPECT(acre_backend_name_at(1000) == NULL);
    REQUIRE_OK(acre_backend_find("host", &host));
    REQUIRE_OK(acre_backend_find("host", &again));
    EXPECT_PTR_EQ(host, again);
    acre_backend_unregister(host);
    EXPECT_EQ(acre_device_count(ACRE_DEVICE_CPU), 1);
    REQUIRE_OK(acre_backend_find("host", &again));
    acre_backend_unregister(again);
}

TEST(a_list_in_the_environment_keeps_builtins_out)
{
    char kept[256];
    acre_backend *backend;

    snprintf(kept, sizeof kept, "%s", getenv("ACRE_BACKENDS"));
    setenv("ACRE_BACKENDS", "simulation,xhost,hos", 1);
    EXPECT_EQ(acre_backend_find("host", &backend), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "ACRE_BACKENDS leaves \"host\" out");
    EXPECT_EQ(acre_device_count(ACRE_DEVICE_CPU), 0);
    EXPECT(!acre_hook_is_built(ACRE_DEVICE_CPU));
    setenv("ACRE_BACKENDS", "opencl,host", 1);
    REQUIRE_OK(acre_backend_find("host", &backend));
    setenv("ACRE_BACKENDS", ",", 1);
    EXPECT_EQ(acre_device_count(ACRE_DEVICE_CPU), 1); /* what has started stays */
    acre_backend_unregister(backend);
    EXPECT(!acre_hook_is_built(ACRE_DEVICE_CPU));
    setenv("ACRE_BACKENDS", "", 1);
    EXPECT(acre_hook_is_built(ACRE_DEVICE_CPU));
    setenv("ACRE_BACKENDS", kept, 1);
}

/* Registering with every host allocation failing in turn: one clean error. */
TEST(every_host_allocation_may_fail)
{
    struct small small = SMALL_INITIALIZER;

    for (uint64_t nth = 1;; nth++) {
        uint64_t live = heap_live_count();
        acre_backend *backend = NULL;
        acre_status status;

        heap_fail_nth(nth);
        status = small_register("mine", TYPE, &small, &backend);
        if (!heap_fail_disarm()) {
            REQUIRE_OK(status);
            EXPECT_GT(nth, 3);
            acre_backend_unregister(backend);
            break;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT_PTR_EQ(backend, NULL);
        EXPECT_EQ(heap_live_count(), live);
        EXPECT_EQ(acre_backend_find("mine", &backend), ACRE_ERR_NOT_FOUND);
    }
    EXPECT_EQ(small.destroyed, 1);
}

/* ---- Fork ----------------------------------------------------------------------- */

static struct small forked = SMALL_INITIALIZER;
static acre_device *forked_device;

static void use_in_child(void *unused)
{
    acre_backend *backend;
    acre_device *device;
    uint64_t free_bytes, total;
    int index;
    struct small fresh = SMALL_INITIALIZER;

    (void)unused;
    EXPECT_EQ(acre_backend_find("forked", &backend), ACRE_ERR_FORKED);
    EXPECT_HAS(acre_last_error(), "fork");
    EXPECT_EQ(acre_device_get(TYPE, 0, &device), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_device_current(TYPE, &index), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_device_set(TYPE, 1), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_device_memory(forked_device, &free_bytes, &total), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_device_count(TYPE), 0);
    /* What the child makes itself works. */
    REQUIRE_OK(small_register("fresh", ACRE_DEVICE_HIP, &fresh, &backend));
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_HIP, 0, &device));
    REQUIRE_OK(acre_device_memory(device, &free_bytes, &total));
}

TEST(a_child_of_fork_gets_a_clear_error)
{
    acre_backend *backend;

    REQUIRE_OK(small_register("forked", TYPE, &forked, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &forked_device));
    EXPECT_EQ(t_child(use_in_child, NULL), 0);
    acre_backend_unregister(backend);
}

static void use_safe_in_child(void *unused)
{
    acre_device *device;

    (void)unused;
    REQUIRE_OK(acre_device_get(TYPE, 0, &device));
}

TEST(a_backend_may_promise_to_survive_fork)
{
    acre_backend_desc desc = small_desc("safe", TYPE, &forked);
    acre_backend *backend;

    desc.flags = ACRE_BACKEND_FORK_SAFE;
    REQUIRE_OK(acre_backend_register(&desc, &backend));
    EXPECT_EQ(t_child(use_safe_in_child, NULL), 0);
    acre_backend_unregister(backend);
}

/* ---- Threads --------------------------------------------------------------------- */

static _Atomic int names_won;

static void *register_and_go(void *arg)
{
    static struct small small = SMALL_INITIALIZER;
    char name[32];

    for (int i = 0; i < 50; i++) {
        acre_backend *mine, *shared = NULL, *found;
        acre_device *device;

        snprintf(name, sizeof name, "thread-%d", (int)(intptr_t)arg);
        EXPECT_EQ(small_register(name, TYPE, &small, &mine), ACRE_OK);
        EXPECT_EQ(acre_backend_find(name, &found), ACRE_OK);
        EXPECT(found == mine);
        EXPECT_EQ(acre_backend_device(mine, 1, &device), ACRE_OK);
        if (small_register("contended", ACRE_DEVICE_HIP, &small, &shared) == ACRE_OK) {
            atomic_fetch_add(&names_won, 1);
            acre_backend_unregister(shared);
        }
        EXPECT_EQ(acre_backend_find("host", &found), ACRE_OK);
        EXPECT_EQ(acre_device_get(ACRE_DEVICE_CPU, 0, &device), ACRE_OK);
        acre_backend_unregister(mine);
    }
    return NULL;
}

TEST(threads_register_and_look_up_at_once)
{
    uint64_t live = heap_live_count();
    pthread_t threads[4];
    acre_backend *host;

    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, register_and_go, (void *)(intptr_t)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    EXPECT_GT(names_won, 0);
    REQUIRE_OK(acre_backend_find("host", &host));
    acre_backend_unregister(host);
    EXPECT_EQ(heap_live_count(), live);
}

T_MAIN()
