/* SPDX-License-Identifier: MIT */
/* Devices, plain and page-locked memory, pointers, windows, absent groups. */
#include "tests/conform/backend_suite.h"

#include <pthread.h>
#include <unistd.h>

void suite_memory(void)
{
}

/* ---- Support for all files ------------------------------------------------------- */

/* What a test that failed half-way left open. */
static acre_backend *still_open;

static void close_now(void)
{
    if (still_open && backend_suite.describe)
        acre_backend_unregister(still_open);
    else if (still_open && backend_suite.close)
        backend_suite.close(still_open);
    still_open = NULL;
}

acre_device_info suite_info(acre_device *device)
{
    acre_device_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_device_info_get(device, &info));
    return info;
}

bool suite_has(acre_device *device, uint32_t capabilities)
{
    return (suite_info(device).capabilities & capabilities) == capabilities;
}

const char *suite_group_name(uint32_t capabilities)
{
    static const char *const names[] = {
        "streams and events", "copies",          "launch",
        "values",             "virtual memory",  "sharing",
        "multicast",          "capture",         "host memory",
        "pointers",           "peers",           "access windows",
        "ipc",                "current device",  "ipc users",
        "kernels",            "green contexts",  "stream-ordered memory",
        "fabric",             "shared events",
    };

    for (size_t bit = 0; bit < sizeof names / sizeof names[0]; bit++)
        if (capabilities & (1u << bit))
            return names[bit];
    return "group of that number";
}

/* Registers or opens the backend, and finds its table. */
static acre_status suite_open(struct suite *suite)
{
    acre_backend_desc desc = {.struct_size = sizeof desc};
    struct suite_table table = {0};
    acre_status status;

    if (backend_suite.describe) {
        status = backend_suite.describe(&desc);
        if (status == ACRE_OK)
            status = acre_backend_register(&desc, &suite->backend);
        table = (struct suite_table){desc.ops, desc.self, desc.flags};
    } else {
        status = backend_suite.open(&suite->backend);
        if (status == ACRE_OK && suite_table_inside)
            suite_table_inside(suite->backend, &table);
    }
    suite->ops = table.ops;
    suite->self = table.self;
    suite->flags = table.flags;
    return status;
}

struct suite suite_begin(uint32_t capabilities)
{
    struct suite suite = {0};
    uint32_t missing;

    close_now();
    REQUIRE_OK(suite_open(&suite));
    still_open = suite.backend;
    if (acre_backend_device_count(suite.backend) < 1) {
        close_now();
        T_SKIP("the backend has no device");
    }
    REQUIRE_OK(acre_backend_device(suite.backend, 0, &suite.device));
    if (acre_backend_device_count(suite.backend) > 1)
        REQUIRE_OK(acre_backend_device(suite.backend, 1, &suite.second));
    missing = capabilities & ~SUITE_QUEUES & ~suite_info(suite.device).capabilities;
    if (missing) {
        close_now();
        T_SKIP("the device has no %s", suite_group_name(missing));
    }
    if ((capabilities & SUITE_QUEUES) && (suite.flags & ACRE_BACKEND_SYNCHRONOUS)) {
        close_now();
        T_SKIP("work is finished when its call returns");
    }
    if (!suite.ops) {
        t_fail(__FILE__, __LINE__, "the table is not known: give the suite .describe, not .open");
        t_leave();
    }
    if (backend_suite.held)
        suite.held = backend_suite.held(suite.backend);
    return suite;
}

void suite_end(struct suite *suite)
{
    if (backend_suite.held)
        EXPECT_EQ(backend_suite.held(suite->backend), suite->held);
    close_now();
}

static unsigned char pattern_at(size_t i, unsigned pattern)
{
    return (unsigned char)(i * 31 + i / 251 + pattern * 77 + 1);
}

void suite_fill(acre_device *device, void *at, size_t bytes, unsigned pattern)
{
    unsigned char *host = malloc(bytes);

    for (size_t i = 0; i < bytes; i++)
        host[i] = pattern_at(i, pattern);
    EXPECT_OK(acre_copy(device, at, host, bytes, ACRE_COPY_HOST_TO_DEVICE));
    free(host);
}

void suite_expect(acre_device *device, const void *at, size_t bytes, unsigned pattern)
{
    unsigned char *host = calloc(1, bytes);
    size_t wrong = 0;

    EXPECT_OK(acre_copy(device, host, at, bytes, ACRE_COPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < bytes; i++)
        wrong += host[i] != pattern_at(i, pattern);
    if (!backend_suite.is_dry)
        EXPECT_EQ(wrong, 0);
    free(host);
}

static void touch(void *at)
{
    *(volatile char *)at = 1;
}

/* ---- Devices --------------------------------------------------------------------- */

TEST(devices_describe_themselves)
{
    struct suite s = suite_begin(0);
    int count = -1;

    EXPECT_OK(s.ops->device_count(s.self, &count));
    EXPECT_EQ(count, acre_backend_device_count(s.backend));
    for (int i = 0; i < count; i++) {
        acre_device_info info = {.struct_size = sizeof info};
        acre_device *device;

        REQUIRE_OK(acre_backend_device(s.backend, i, &device));
        REQUIRE_OK(acre_device_info_get(device, &info));
        EXPECT(info.name[0] != '\0');
        EXPECT_GT(info.total_bytes, 0);
        EXPECT(info.alloc_granularity && !(info.alloc_granularity & (info.alloc_granularity - 1)));
        EXPECT_EQ(info.page_bytes != 0, suite_has(device, ACRE_CAP_VIRTUAL));
        EXPECT_EQ(acre_device_id_of(device).index, i);
    }
    EXPECT_EQ(acre_backend_device(s.backend, count, &s.device), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_backend_device(s.backend, -1, &s.device), ACRE_ERR_RANGE);
    suite_end(&s);
}

TEST(absent_groups_answer_unsupported)
{
    struct suite s = suite_begin(0);
    int number = 0;
    uint64_t bytes = 0;
    uint8_t handle[64] = {0};
    acre_capture_info capture = {.struct_size = sizeof capture};
    acre_pointer_info pointer = {.struct_size = sizeof pointer};
    void *out = NULL;

#define ABSENT(group, call)                                                    \
    if (!suite_has(s.device, ACRE_CAP_##group)) {                              \
        EXPECT_EQ(call, ACRE_ERR_UNSUPPORTED);                                 \
        EXPECT_HAS(acre_last_error(), suite_group_name(ACRE_CAP_##group));     \
    }
    ABSENT(STREAMS, acre_stream_native_create(s.device, 0, 0, &out))
    ABSENT(STREAMS, acre_event_native_create(s.device, 0, &out))
    ABSENT(COPY, acre_copy(s.device, &number, &bytes, 1, ACRE_COPY_HOST_TO_HOST))
    ABSENT(LAUNCH, acre_launch_host(s.device, NULL, touch, NULL))
    ABSENT(VALUES, acre_write_value32(s.device, NULL, &number, 1))
    ABSENT(VIRTUAL, acre_virtual_reserve(s.device, 1 << 21, &out))
    ABSENT(CAPTURE, acre_capture_begin(s.device, NULL))
    ABSENT(HOST_MEMORY, acre_host_alloc(s.device, 4096, &out))
    ABSENT(POINTERS, acre_pointer_info_get(s.device, &number, &pointer))
    ABSENT(ACCESS, acre_access_open(s.device, &number))
    ABSENT(IPC, acre_ipc_export(s.device, &number, handle))
#undef ABSENT
    EXPECT_PTR_EQ(out, NULL);
    suite_end(&s);
}

TEST(current_device_can_be_set_to_each)
{
    struct suite s = suite_begin(ACRE_CAP_CURRENT);

    for (int i = acre_backend_device_count(s.backend) - 1; i >= 0; i--)
        EXPECT_OK(s.ops->set_current(s.self, i));
    suite_end(&s);
}

/* ---- Plain memory ---------------------------------------------------------------- */

TEST(memory_is_aligned_and_given_back)
{
    struct suite s = suite_begin(0);
    static const size_t sizes[] = {1, 511, 512, 513, 4096, 65537, 3 << 20};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *base = NULL;

        REQUIRE_OK(acre_device_alloc(s.device, sizes[i], &base));
        EXPECT(base != NULL);
        EXPECT_EQ((uintptr_t)base % 512, 0);
        EXPECT_OK(acre_device_free(s.device, base));
    }
    EXPECT_OK(acre_device_free(s.device, NULL));
    suite_end(&s);
}

TEST(bad_sizes_are_refused_and_write_nothing)
{
    struct suite s = suite_begin(0);
    void *base = &s;

    EXPECT_EQ(acre_device_alloc(s.device, 0, &base), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_alloc(s.device, 4096, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_alloc(s.device, SIZE_MAX, &base), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(acre_device_alloc(s.device, SIZE_MAX / 2, &base), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(acre_device_alloc(s.device, (size_t)1 << 60, &base), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(acre_device_alloc(s.device, suite_info(s.device).total_bytes + 1, &base),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(acre_device_alloc(NULL, 4096, &base), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(base, &s);
    suite_end(&s);
}

TEST(only_an_exact_live_base_is_freed)
{
    struct suite s = suite_begin(0);
    int foreign = 0;
    char *base, *other;

    REQUIRE_OK(acre_device_alloc(s.device, 1 << 20, (void **)&base));
    REQUIRE_OK(acre_device_alloc(s.device, 1 << 20, (void **)&other));
    EXPECT_REFUSED(acre_device_free(s.device, base + 512));
    EXPECT_REFUSED(acre_device_free(s.device, base + 1));
    EXPECT_REFUSED(acre_device_free(s.device, &foreign));
    EXPECT_OK(acre_device_free(s.device, base));
    EXPECT_REFUSED(acre_device_free(s.device, base));
    EXPECT_OK(acre_device_free(s.device, other));
    suite_end(&s);
}

TEST(memory_of_another_device_is_not_freed_here)
{
    struct suite s = suite_begin(0);
    void *base;

    if (!s.second || backend_suite.is_trusting) {
        suite_end(&s);
        T_SKIP("needs two devices that know their memory");
    }
    REQUIRE_OK(acre_device_alloc(s.second, 4096, &base));
    EXPECT_REFUSED(acre_device_free(s.device, base));
    EXPECT_OK(acre_device_free(s.second, base));
    suite_end(&s);
}

TEST(memory_info_follows_allocations)
{
    struct suite s = suite_begin(0);
    uint64_t free_before, free_now, total;
    size_t bytes = 8 << 20, unit = suite_info(s.device).alloc_granularity;
    void *base;

    REQUIRE_OK(acre_device_memory(s.device, &free_before, &total));
    EXPECT_GT(total, 0);
    EXPECT_LE(free_before, total);
    REQUIRE_OK(acre_device_alloc(s.device, bytes, &base));
    REQUIRE_OK(acre_device_memory(s.device, &free_now, &total));
    EXPECT_LE(free_now, total);
    if (backend_suite.is_exact)
        EXPECT_EQ(free_before - free_now, (bytes + unit - 1) / unit * unit);
    REQUIRE_OK(acre_device_free(s.device, base));
    REQUIRE_OK(acre_device_memory(s.device, &free_now, &total));
    if (backend_suite.is_exact)
        EXPECT_EQ(free_now, free_before);
    EXPECT_EQ(acre_device_memory(s.device, NULL, &total), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_memory(s.device, &free_now, NULL), ACRE_ERR_INVALID);
    suite_end(&s);
}

/* Random allocations and frees; live ranges never overlap. */
TEST(live_ranges_never_overlap)
{
    enum { LIVE = 48 };
    struct suite s = suite_begin(0);
    struct { char *base; size_t bytes; } live[LIVE] = {{0}};
    uint64_t random = t_seed();

    for (uint64_t step = 0; step < t_count(600, 20000); step++) {
        int i = (int)(t_random(&random) % LIVE);

        if (live[i].base) {
            REQUIRE_OK(acre_device_free(s.device, live[i].base));
            live[i].base = NULL;
            continue;
        }
        live[i].bytes = 1 + t_random(&random) % (1 << (t_random(&random) % 20));
        REQUIRE_OK(acre_device_alloc(s.device, live[i].bytes, (void **)&live[i].base));
        for (int j = 0; j < LIVE; j++)
            if (j != i && live[j].base)
                EXPECT(live[i].base + live[i].bytes <= live[j].base ||
                       live[j].base + live[j].bytes <= live[i].base);
    }
    for (int i = 0; i < LIVE; i++)
        EXPECT_OK(acre_device_free(s.device, live[i].base));
    suite_end(&s);
}

static void *alloc_and_free(void *arg)
{
    struct suite *s = arg;
    uint64_t random = t_seed() + (uintptr_t)&random;

    for (int i = 0; i < 200; i++) {
        void *base = NULL;

        EXPECT_OK(acre_device_alloc(s->device, 1 + t_random(&random) % 100000, &base));
        EXPECT_OK(acre_device_free(s->device, base));
    }
    return NULL;
}

TEST(threads_allocate_at_once)
{
    struct suite s = suite_begin(0);
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, alloc_and_free, &s), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    suite_end(&s);
}

/* ---- Page-locked memory ------------------------------------------------------------ */

TEST(host_memory_is_page_aligned_and_plain)
{
    struct suite s = suite_begin(ACRE_CAP_HOST_MEMORY);
    unsigned char *base;
    void *untouched = &s;

    REQUIRE_OK(acre_host_alloc(s.device, 10001, (void **)&base));
    EXPECT_EQ((uintptr_t)base % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    memset(base, 0x5a, 10001);
    EXPECT_EQ(base[10000], 0x5a);
    EXPECT_REFUSED(acre_host_free(s.device, base + 1));
    EXPECT_OK(acre_host_free(s.device, base));
    EXPECT_REFUSED(acre_host_free(s.device, base));
    EXPECT_OK(acre_host_free(s.device, NULL));
    EXPECT_EQ(acre_host_alloc(s.device, 0, &untouched), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_host_alloc(s.device, 1, NULL), ACRE_ERR_INVALID);
    EXPECT_REFUSED(acre_host_alloc(s.device, SIZE_MAX, &untouched));
    EXPECT_REFUSED(acre_host_alloc(s.device, (size_t)1 << 62, &untouched));
    EXPECT_PTR_EQ(untouched, &s);
    suite_end(&s);
}

TEST(families_do_not_free_each_other)
{
    struct suite s = suite_begin(ACRE_CAP_HOST_MEMORY);
    void *host, *plain;

    REQUIRE_OK(acre_host_alloc(s.device, 4096, &host));
    REQUIRE_OK(acre_device_alloc(s.device, 4096, &plain));
    EXPECT_REFUSED(acre_device_free(s.device, host));
    EXPECT_REFUSED(acre_host_free(s.device, plain));
    EXPECT_OK(acre_host_free(s.device, host));
    EXPECT_OK(acre_device_free(s.device, plain));
    suite_end(&s);
}

TEST(memory_of_the_caller_can_be_registered)
{
    struct suite s = suite_begin(ACRE_CAP_HOST_MEMORY);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *mine = aligned_alloc(page, 2 * page);

    REQUIRE_OK(acre_host_register(s.device, mine, 2 * page));
    mine[page] = 1;
    if (suite_has(s.device, ACRE_CAP_POINTERS))
        EXPECT(acre_host_is_pinned(s.device, mine + page));
    EXPECT_REFUSED(acre_host_register(s.device, mine, page));
    EXPECT_REFUSED(acre_host_unregister(s.device, mine + page));
    EXPECT_OK(acre_host_unregister(s.device, mine));
    EXPECT_REFUSED(acre_host_unregister(s.device, mine));
    EXPECT_REFUSED(acre_host_register(s.device, NULL, page));
    EXPECT_REFUSED(acre_host_register(s.device, mine, 0));
    EXPECT_REFUSED(acre_host_register(s.device, mine, SIZE_MAX));
    free(mine);
    suite_end(&s);
}

/* ---- Pointers and windows ---------------------------------------------------------- */

TEST(pointers_tell_their_allocation)
{
    struct suite s = suite_begin(ACRE_CAP_POINTERS);
    acre_pointer_info info = {.struct_size = sizeof info};
    size_t bytes = 1 << 20;
    int local;
    char *base;

    REQUIRE_OK(acre_device_alloc(s.device, bytes, (void **)&base));
    for (size_t at = 0; at < bytes; at += bytes / 8 - 1) {
        REQUIRE_OK(acre_pointer_info_get(s.device, base + at, &info));
        EXPECT_EQ(info.kind, ACRE_MEMORY_DEVICE);
        EXPECT_EQ(info.device, 0);
        EXPECT_PTR_EQ(info.base, base);
        EXPECT_GE(info.bytes, bytes);
    }
    REQUIRE_OK(acre_pointer_info_get(s.device, &local, &info));
    EXPECT_EQ(info.kind, ACRE_MEMORY_UNMANAGED);
    EXPECT_EQ(info.device, -1);
    EXPECT_PTR_EQ(info.base, &local);
    EXPECT_EQ(info.bytes, 0);
    REQUIRE_OK(acre_device_free(s.device, base));
    REQUIRE_OK(acre_pointer_info_get(s.device, base, &info));
    EXPECT_EQ(info.kind, ACRE_MEMORY_UNMANAGED);
    info.device = 77;
    EXPECT_EQ(acre_pointer_info_get(s.device, NULL, &info), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pointer_info_get(s.device, base, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(info.device, 77);
    suite_end(&s);
}

TEST(pointers_tell_the_second_device_and_host_memory)
{
    struct suite s = suite_begin(ACRE_CAP_POINTERS);
    acre_pointer_info info = {.struct_size = sizeof info};
    char *base;

    if (s.second) {
        REQUIRE_OK(acre_device_alloc(s.second, 4096, (void **)&base));
        REQUIRE_OK(acre_pointer_info_get(s.device, base + 100, &info));
        EXPECT_EQ(info.device, 1);
        REQUIRE_OK(acre_device_free(s.second, base));
    }
    if (suite_has(s.device, ACRE_CAP_HOST_MEMORY)) {
        REQUIRE_OK(acre_host_alloc(s.device, 8192, (void **)&base));
        REQUIRE_OK(acre_pointer_info_get(s.device, base + 5000, &info));
        EXPECT_EQ(info.kind, ACRE_MEMORY_HOST);
        EXPECT_EQ(info.device, -1);
        EXPECT_PTR_EQ(info.base, base);
        REQUIRE_OK(acre_host_free(s.device, base));
    }
    suite_end(&s);
}

TEST(windows_open_nest_and_close)
{
    struct suite s = suite_begin(ACRE_CAP_ACCESS);
    int local = 0;
    char *base;

    REQUIRE_OK(acre_device_alloc(s.device, 8192, (void **)&base));
    EXPECT_REFUSED(acre_access_close(s.device, base));
    EXPECT_OK(acre_access_open(s.device, base + 5000));
    EXPECT_OK(acre_access_open(s.device, base));
    EXPECT_OK(acre_access_close(s.device, base));
    if (!backend_suite.is_dry)
        base[0] = base[8191] = 1;
    EXPECT_OK(acre_access_close(s.device, base + 8191));
    if (!backend_suite.is_dry) {
        EXPECT(t_faults(touch, base));
        EXPECT(t_faults(touch, base + 8191));
    }
    EXPECT_REFUSED(acre_access_close(s.device, base));
    EXPECT_OK(acre_access_open(s.device, &local));
    EXPECT_OK(acre_access_close(s.device, &local));
    EXPECT_OK(acre_access_open(s.device, NULL));
    EXPECT_OK(acre_access_close(s.device, NULL));
    REQUIRE_OK(acre_access_open(s.device, base));
    EXPECT_OK(acre_device_free(s.device, base));
    suite_end(&s);
}

/* ---- Peers -------------------------------------------------------------------------- */

TEST(peers_answer_and_can_be_enabled_twice)
{
    struct suite s = suite_begin(ACRE_CAP_PEERS);
    int count = acre_backend_device_count(s.backend);

    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            bool can = false, again = true;

            if (i == j)
                continue;
            REQUIRE_OK(s.ops->peer_query(s.self, i, j, &can));
            REQUIRE_OK(s.ops->peer_query(s.self, i, j, &again));
            EXPECT_EQ(can, again);
            if (!can)
                continue;
            EXPECT_OK(s.ops->peer_enable(s.self, i, j));
            EXPECT_OK(s.ops->peer_enable(s.self, i, j));
        }
    suite_end(&s);
}

TEST(ipc_refuses_what_is_no_base)
{
    struct suite s = suite_begin(ACRE_CAP_IPC);
    uint8_t handle[64] = {0};
    uint64_t bytes = 77;
    void *out = &s;
    char *base;

    REQUIRE_OK(acre_device_alloc(s.device, 4096, (void **)&base));
    EXPECT_OK(acre_ipc_export(s.device, base, handle));
    EXPECT_REFUSED(acre_ipc_export(s.device, base + 512, handle));
    EXPECT_REFUSED(acre_ipc_export(s.device, NULL, handle));
    EXPECT_OK(acre_device_free(s.device, base));
    memset(handle, 0xee, sizeof handle);
    EXPECT_REFUSED(acre_ipc_open(s.device, handle, &out, &bytes));
    EXPECT_REFUSED(acre_ipc_close(s.device, &bytes));
    EXPECT_PTR_EQ(out, &s);
    suite_end(&s);
}
