/* SPDX-License-Identifier: MIT */
/* Virtual memory, sharing through descriptors, multicast. */
#include "tests/conform/backend_suite.h"

#include <unistd.h>

void suite_virtual(void)
{
}

/* Four reserved pages and a handle of one page. */
struct scene {
    struct suite s;
    size_t page;
    char *base;
    void *handle;
};

static void scene_begin(struct scene *c, uint32_t capabilities, acre_handle_type type)
{
    memset(c, 0, sizeof *c);
    c->s = suite_begin(ACRE_CAP_VIRTUAL | capabilities);
    c->page = suite_info(c->s.device).page_bytes;
    REQUIRE_OK(acre_virtual_reserve(c->s.device, 4 * c->page, (void **)&c->base));
    REQUIRE_OK(acre_virtual_create(c->s.device, c->page, type, &c->handle));
}

static void scene_end(struct scene *c)
{
    if (c->handle)
        EXPECT_OK(acre_virtual_release(c->s.device, c->handle));
    EXPECT_OK(acre_virtual_unreserve(c->s.device, c->base, 4 * c->page));
    suite_end(&c->s);
}

static void map_at(struct scene *c, int page)
{
    char *at = c->base + (size_t)page * c->page;

    REQUIRE_OK(acre_virtual_map(c->s.device, at, c->page, 0, c->handle));
    REQUIRE_OK(acre_virtual_set_access(c->s.device, at, c->page, 0, ACRE_ACCESS_READ_WRITE));
}

TEST(reserving_takes_addresses_and_no_memory)
{
    struct suite s = suite_begin(ACRE_CAP_VIRTUAL);
    size_t page = suite_info(s.device).page_bytes;
    uint64_t free_before, free_after, total;
    void *untouched = &s;
    char *base;

    REQUIRE_OK(acre_device_memory(s.device, &free_before, &total));
    REQUIRE_OK(acre_virtual_reserve(s.device, 64 * page, (void **)&base));
    REQUIRE_OK(acre_device_memory(s.device, &free_after, &total));
    EXPECT_EQ(free_before, free_after);
    EXPECT_EQ((uintptr_t)base % page, 0);
    EXPECT_REFUSED(acre_virtual_unreserve(s.device, base, 32 * page));
    EXPECT_REFUSED(acre_virtual_unreserve(s.device, base + page, 63 * page));
    EXPECT_OK(acre_virtual_unreserve(s.device, base, 64 * page));
    EXPECT_REFUSED(acre_virtual_unreserve(s.device, base, 64 * page));
    EXPECT_EQ(acre_virtual_reserve(s.device, 0, &untouched), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_reserve(s.device, page + 1, &untouched), ACRE_ERR_INVALID);
    EXPECT_REFUSED(acre_virtual_reserve(s.device, SIZE_MAX - page + 1, &untouched));
    EXPECT_EQ(acre_virtual_reserve(s.device, page, NULL), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(untouched, &s);
    suite_end(&s);
}

TEST(creating_takes_memory_until_released)
{
    struct suite s = suite_begin(ACRE_CAP_VIRTUAL);
    size_t page = suite_info(s.device).page_bytes;
    uint64_t free_before, free_after, total;
    void *handle, *untouched = &s;

    REQUIRE_OK(acre_device_memory(s.device, &free_before, &total));
    REQUIRE_OK(acre_virtual_create(s.device, 3 * page, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(acre_device_memory(s.device, &free_after, &total));
    if (backend_suite.is_exact)
        EXPECT_EQ(free_before - free_after, 3 * page);
    EXPECT_OK(acre_virtual_release(s.device, handle));
    REQUIRE_OK(acre_device_memory(s.device, &free_after, &total));
    if (backend_suite.is_exact)
        EXPECT_EQ(free_before, free_after);
    if (!backend_suite.is_trusting)
        EXPECT_REFUSED(acre_virtual_release(s.device, handle));
    EXPECT_EQ(acre_virtual_create(s.device, 0, ACRE_HANDLE_NONE, &untouched), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_create(s.device, page / 2, ACRE_HANDLE_NONE, &untouched),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_create(s.device, page, (acre_handle_type)9, &untouched),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_create(s.device, (total / page + 1) * page, ACRE_HANDLE_NONE,
                                  &untouched), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(acre_virtual_release(s.device, NULL), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(untouched, &s);
    suite_end(&s);
}

TEST(mapped_memory_works_once_access_is_set)
{
    struct scene c;
    char host[64] = {0};

    scene_begin(&c, ACRE_CAP_COPY, ACRE_HANDLE_NONE);
    EXPECT_REFUSED(acre_copy(c.s.device, c.base, host, 64, ACRE_COPY_HOST_TO_DEVICE));
    REQUIRE_OK(acre_virtual_map(c.s.device, c.base, c.page, 0, c.handle));
    EXPECT_REFUSED(acre_copy(c.s.device, c.base, host, 64, ACRE_COPY_HOST_TO_DEVICE));
    REQUIRE_OK(acre_virtual_set_access(c.s.device, c.base, c.page, 0, ACRE_ACCESS_READ_WRITE));
    suite_fill(c.s.device, c.base, c.page, 1);
    suite_expect(c.s.device, c.base, c.page, 1);
    EXPECT_REFUSED(acre_copy(c.s.device, c.base, host, c.page + 1, ACRE_COPY_HOST_TO_DEVICE));
    REQUIRE_OK(acre_virtual_unmap(c.s.device, c.base, c.page));
    EXPECT_REFUSED(acre_copy(c.s.device, c.base, host, 64, ACRE_COPY_HOST_TO_DEVICE));
    scene_end(&c);
}

TEST(read_access_does_not_allow_writing)
{
    struct scene c;
    char host[64] = {0};

    scene_begin(&c, ACRE_CAP_COPY, ACRE_HANDLE_NONE);
    map_at(&c, 0);
    suite_fill(c.s.device, c.base, 64, 2);
    REQUIRE_OK(acre_virtual_set_access(c.s.device, c.base, c.page, 0, ACRE_ACCESS_READ));
    EXPECT_REFUSED(acre_copy(c.s.device, c.base, host, 64, ACRE_COPY_HOST_TO_DEVICE));
    suite_expect(c.s.device, c.base, 64, 2);
    REQUIRE_OK(acre_virtual_set_access(c.s.device, c.base, c.page, 0, ACRE_ACCESS_NONE));
    EXPECT_REFUSED(acre_copy(c.s.device, host, c.base, 64, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT_EQ(acre_virtual_set_access(c.s.device, c.base, c.page, 0, (acre_access)8),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_virtual_set_access(c.s.device, c.base, c.page, 99, ACRE_ACCESS_READ),
              ACRE_ERR_RANGE);
    EXPECT_REFUSED(acre_virtual_set_access(c.s.device, c.base + c.page, c.page, 0,
                                           ACRE_ACCESS_READ));
    REQUIRE_OK(acre_virtual_unmap(c.s.device, c.base, c.page));
    scene_end(&c);
}

TEST(one_handle_is_seen_at_several_addresses)
{
    struct scene c;

    scene_begin(&c, ACRE_CAP_COPY, ACRE_HANDLE_NONE);
    map_at(&c, 0);
    map_at(&c, 2);
    suite_fill(c.s.device, c.base, 4096, 3);
    suite_expect(c.s.device, c.base + 2 * c.page, 4096, 3);
    suite_fill(c.s.device, c.base + 2 * c.page, 4096, 4);
    suite_expect(c.s.device, c.base, 4096, 4);
    EXPECT_OK(acre_virtual_unmap(c.s.device, c.base, c.page));
    suite_expect(c.s.device, c.base + 2 * c.page, 4096, 4);
    EXPECT_OK(acre_virtual_unmap(c.s.device, c.base + 2 * c.page, c.page));
    scene_end(&c);
}

TEST(neighbouring_mappings_make_one_range)
{
    struct scene c;
    void *second;

    scene_begin(&c, ACRE_CAP_COPY, ACRE_HANDLE_NONE);
    REQUIRE_OK(acre_virtual_create(c.s.device, 2 * c.page, ACRE_HANDLE_NONE, &second));
    map_at(&c, 0);
    REQUIRE_OK(acre_virtual_map(c.s.device, c.base + c.page, 2 * c.page, 0, second));
    REQUIRE_OK(acre_virtual_set_access(c.s.device, c.base, 3 * c.page, 0,
                                       ACRE_ACCESS_READ_WRITE));
    suite_fill(c.s.device, c.base + c.page - 5000, 10000, 5);
    suite_expect(c.s.device, c.base + c.page - 5000, 10000, 5);
    EXPECT_REFUSED(acre_virtual_unmap(c.s.device, c.base, 2 * c.page));
    EXPECT_REFUSED(acre_virtual_unmap(c.s.device, c.base + c.page, c.page));
    EXPECT_REFUSED(acre_virtual_unmap(c.s.device, c.base, 4 * c.page));
    EXPECT_OK(acre_virtual_unmap(c.s.device, c.base, 3 * c.page));
    EXPECT_OK(acre_virtual_release(c.s.device, second));
    scene_end(&c);
}

/* The table itself refuses what CUDA refuses, whoever calls it. */
TEST(bad_maps_are_refused)
{
    struct scene c;
    const acre_backend_ops *ops;
    void *two, *self;

    scene_begin(&c, 0, ACRE_HANDLE_NONE);
    ops = c.s.ops;
    self = c.s.self;
    REQUIRE_OK(acre_virtual_create(c.s.device, 2 * c.page, ACRE_HANDLE_NONE, &two));
    EXPECT_REFUSED(ops->map(self, 0, c.base, c.page, c.page, two));
    EXPECT_REFUSED(ops->map(self, 0, c.base, c.page, 0, two));
    EXPECT_REFUSED(ops->map(self, 0, c.base, 2 * c.page, 0, c.handle));
    EXPECT_REFUSED(ops->map(self, 0, c.base + c.page / 2, c.page, 0, c.handle));
    EXPECT_REFUSED(ops->map(self, 0, c.base + 3 * c.page, 2 * c.page, 0, two));
    EXPECT_REFUSED(acre_virtual_map(c.s.device, c.base, c.page, c.page, c.handle));
    EXPECT_REFUSED(acre_virtual_map(c.s.device, NULL, c.page, 0, c.handle));
    EXPECT_REFUSED(acre_virtual_map(c.s.device, c.base, c.page, 0, NULL));
    REQUIRE_OK(acre_virtual_map(c.s.device, c.base, c.page, 0, c.handle));
    EXPECT_REFUSED(acre_virtual_map(c.s.device, c.base, c.page, 0, c.handle));
    EXPECT_REFUSED(acre_virtual_map(c.s.device, c.base, 2 * c.page, 0, two));
    EXPECT_REFUSED(acre_virtual_unreserve(c.s.device, c.base, 4 * c.page));
    EXPECT_OK(acre_virtual_unmap(c.s.device, c.base, c.page));
    EXPECT_REFUSED(acre_virtual_unmap(c.s.device, c.base, c.page));
    EXPECT_OK(acre_virtual_release(c.s.device, two));
    scene_end(&c);
}

TEST(mapped_memory_outlives_its_handle)
{
    struct scene c;
    uint64_t before, after, total;

    scene_begin(&c, ACRE_CAP_COPY, ACRE_HANDLE_NONE);
    map_at(&c, 1);
    REQUIRE_OK(acre_device_memory(c.s.device, &before, &total));
    EXPECT_OK(acre_virtual_release(c.s.device, c.handle));
    c.handle = NULL;
    REQUIRE_OK(acre_device_memory(c.s.device, &after, &total));
    if (backend_suite.is_exact)
        EXPECT_EQ(after, before);
    suite_fill(c.s.device, c.base + c.page, 4096, 6);
    suite_expect(c.s.device, c.base + c.page, 4096, 6);
    EXPECT_OK(acre_virtual_unmap(c.s.device, c.base + c.page, c.page));
    REQUIRE_OK(acre_device_memory(c.s.device, &after, &total));
    if (backend_suite.is_exact)
        EXPECT_EQ(after, before + c.page);
    scene_end(&c);
}

/* ---- Sharing -------------------------------------------------------------------------- */

TEST(a_descriptor_carries_memory)
{
    struct scene c;
    int fds = t_fd_count(), fd = -1, untouched = 77;
    uint64_t bytes = 0;
    void *imported;

    scene_begin(&c, ACRE_CAP_SHARE_FD | ACRE_CAP_COPY, ACRE_HANDLE_POSIX);
    map_at(&c, 0);
    suite_fill(c.s.device, c.base, 4096, 7);
    REQUIRE_OK(acre_handle_export_fd(c.s.device, c.handle, &fd));
    EXPECT_GE(fd, 0);
    REQUIRE_OK(acre_handle_import_fd(c.s.device, fd, &imported, &bytes));
    EXPECT_EQ(bytes, c.page);
    EXPECT_EQ(close(fd), 0);
    REQUIRE_OK(acre_virtual_map(c.s.device, c.base + c.page, c.page, 0, imported));
    REQUIRE_OK(acre_virtual_set_access(c.s.device, c.base + c.page, c.page, 0,
                                       ACRE_ACCESS_READ_WRITE));
    suite_expect(c.s.device, c.base + c.page, 4096, 7);
    suite_fill(c.s.device, c.base + c.page, 4096, 8);
    suite_expect(c.s.device, c.base, 4096, 8);
    EXPECT_OK(acre_virtual_unmap(c.s.device, c.base, 2 * c.page));
    EXPECT_OK(acre_virtual_release(c.s.device, imported));
    EXPECT_EQ(acre_handle_export_fd(c.s.device, NULL, &untouched), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_handle_export_fd(c.s.device, c.handle, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(untouched, 77);
    scene_end(&c);
    if (backend_suite.close == acre_backend_unregister)
        EXPECT_EQ(t_fd_count(), fds);
}

TEST(only_shareable_handles_and_real_descriptors_travel)
{
    struct scene c;
    int fd = -5, pipes[2];
    uint64_t bytes = 77;
    void *out = &c;

    scene_begin(&c, ACRE_CAP_SHARE_FD, ACRE_HANDLE_NONE);
    EXPECT_REFUSED(acre_handle_export_fd(c.s.device, c.handle, &fd));
    EXPECT_EQ(fd, -5);
    EXPECT_REFUSED(acre_handle_import_fd(c.s.device, -1, &out, &bytes));
    EXPECT_REFUSED(acre_handle_import_fd(c.s.device, 1000000, &out, &bytes));
    REQUIRE_EQ(pipe(pipes), 0);
    EXPECT_REFUSED(acre_handle_import_fd(c.s.device, pipes[0], &out, &bytes));
    close(pipes[0]);
    close(pipes[1]);
    EXPECT_PTR_EQ(out, &c);
    EXPECT_EQ(bytes, 77);
    scene_end(&c);
}

/* ---- Multicast ------------------------------------------------------------------------- */

/* Maps a page of each of two devices and binds it to one multicast handle. */
TEST(multicast_writes_reach_every_member)
{
    struct suite s = suite_begin(ACRE_CAP_MULTICAST | ACRE_CAP_VIRTUAL | ACRE_CAP_COPY |
                                 ACRE_CAP_STREAMS);
    size_t page = suite_info(s.device).page_bytes;
    acre_device *devices[2] = {s.device, s.second};
    void *memory[2], *multicast, *stream, *untouched = &s;
    char *at[2], *source;

    if (!s.second) {
        suite_end(&s);
        T_SKIP("needs two devices");
    }
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(acre_virtual_create(devices[i], page, ACRE_HANDLE_NONE, &memory[i]));
        REQUIRE_OK(acre_virtual_reserve(devices[i], page, (void **)&at[i]));
        REQUIRE_OK(acre_virtual_map(devices[i], at[i], page, 0, memory[i]));
        REQUIRE_OK(acre_virtual_set_access(devices[i], at[i], page, i, ACRE_ACCESS_READ_WRITE));
    }
    REQUIRE_OK(acre_multicast_create(devices, 2, page, &multicast));
    REQUIRE_OK(acre_multicast_bind(devices[0], multicast, 0, at[0], page));
    REQUIRE_OK(acre_device_alloc(s.device, 4096, (void **)&source));
    REQUIRE_OK(acre_stream_native_create(s.device, 0, suite_info(s.device).priority_least,
                                         &stream));
    suite_fill(s.device, source, 4096, 9);
    REQUIRE_OK(acre_multicast_bind(devices[1], multicast, 0, at[1], page));
    EXPECT_OK(acre_multicast_write_async(s.device, multicast, 512, source, 4096, stream));
    EXPECT_OK(acre_stream_native_synchronize(s.device, stream));
    suite_expect(devices[0], at[0] + 512, 4096, 9);
    suite_expect(devices[1], at[1] + 512, 4096, 9);
    EXPECT_REFUSED(acre_multicast_release(s.device, multicast));
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(acre_multicast_unbind(devices[i], multicast, 0, page));
        EXPECT_OK(acre_virtual_unmap(devices[i], at[i], page));
        EXPECT_OK(acre_virtual_unreserve(devices[i], at[i], page));
        EXPECT_OK(acre_virtual_release(devices[i], memory[i]));
    }
    EXPECT_OK(acre_multicast_release(s.device, multicast));
    devices[1] = devices[0];
    EXPECT_REFUSED(acre_multicast_create(devices, 2, page, &untouched));
    EXPECT_REFUSED(acre_multicast_create(devices, 0, page, &untouched));
    EXPECT_REFUSED(acre_multicast_create(devices, 1, page - 1, &untouched));
    EXPECT_REFUSED(acre_multicast_create(NULL, 1, page, &untouched));
    EXPECT_PTR_EQ(untouched, &s);
    EXPECT_OK(acre_stream_native_destroy(s.device, stream));
    EXPECT_OK(acre_device_free(s.device, source));
    suite_end(&s);
}
