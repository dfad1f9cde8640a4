/* SPDX-License-Identifier: MIT */
#include "sim/sim_memory.h"

#include "tests/support/sim_bed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define P BED_PAGE

TEST(create_checks_size_type_and_capacity)
{
    struct sim_bed bed = bed_open("memory:8MiB");
    void *handle = &bed, *rest;

    EXPECT_EQ(bed.ops->create(bed.sim, 0, 0, ACRE_HANDLE_NONE, &handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->create(bed.sim, 0, P + 1, ACRE_HANDLE_NONE, &handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->create(bed.sim, 0, SIZE_MAX, ACRE_HANDLE_NONE, &handle),
              ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->create(bed.sim, 0, 5 * P, ACRE_HANDLE_NONE, &handle),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->create(bed.sim, 0, SIZE_MAX - P + 1, ACRE_HANDLE_NONE, &handle),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_FABRIC, &handle),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(bed.ops->create(bed.sim, 2, P, ACRE_HANDLE_NONE, &handle), ACRE_ERR_RANGE);
    EXPECT_PTR_EQ(handle, &bed);
    REQUIRE_OK(bed.ops->create(bed.sim, 0, 3 * P, ACRE_HANDLE_NONE, &handle));
    EXPECT_EQ(bed.ops->create(bed.sim, 0, 2 * P, ACRE_HANDLE_NONE, &rest),
              ACRE_ERR_DEVICE_MEMORY);
    REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_POSIX, &rest));
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, 1, &(void *){NULL}), ACRE_ERR_DEVICE_MEMORY);
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, rest));
    bed_close(&bed);
}

TEST(made_up_and_stale_handles_are_recognised)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    void *first, *second, *multicast;
    int member = 0;

    REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_NONE, &first));
    EXPECT_EQ(bed.ops->release(bed.sim, 1, first), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "device 0");
    REQUIRE_OK(bed.ops->release(bed.sim, 0, first));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_NONE, &second));
    EXPECT(first != second);
    EXPECT_EQ(bed.ops->release(bed.sim, 0, first), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->release(bed.sim, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->release(bed.sim, 0, &bed), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->release(bed.sim, 0, (void *)UINTPTR_MAX), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->release(bed.sim, 0, (void *)1), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->multicast_create(bed.sim, &member, 1, P, &multicast));
    EXPECT_EQ(bed.ops->release(bed.sim, 0, multicast), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->multicast_release(bed.sim, second), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->multicast_release(bed.sim, multicast));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, second));
    bed_close(&bed);
}

TEST(many_handles_need_few_descriptors)
{
    struct sim_bed bed = bed_open("memory:8GiB");
    void *handles[3000];
    int fds = t_fd_count();

    for (int i = 0; i < 3000; i++)
        REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_NONE, &handles[i]));
    EXPECT_LE(t_fd_count(), fds + 1);
    for (int i = 0; i < 3000; i++)
        REQUIRE_OK(bed.ops->release(bed.sim, 0, handles[i]));
    bed_close(&bed);
}

/* ---- Sharing ------------------------------------------------------------------------ */

TEST(an_exported_handle_comes_back_as_the_same_memory)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    char *a, *b, out = 0;
    void *handle, *imported;
    uint64_t bytes = 0;
    int fd;

    REQUIRE_OK(bed.ops->create(bed.sim, 0, 2 * P, ACRE_HANDLE_POSIX, &handle));
    REQUIRE_OK(bed.ops->export_fd(bed.sim, 0, handle, &fd));
    EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    EXPECT_EQ(ftruncate(fd, 0), -1);
    REQUIRE_OK(bed.ops->import_fd(bed.sim, 1, fd, &imported, &bytes));
    close(fd);
    EXPECT_EQ(bytes, 2 * P);
    EXPECT_EQ(bed_usage(&bed).bytes_used, 2 * P);
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 2 * P, (void **)&a));
    REQUIRE_OK(bed.ops->reserve(bed.sim, 1, 2 * P, (void **)&b));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a, 2 * P, 0, handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 1, b, 2 * P, 0, imported));
    bed_write(&bed, a + P, "z", 1);
    bed_read(&bed, &out, b + P, 1);
    EXPECT_EQ(out, 'z');
    /* The importer keeps the memory when its maker lets go. */
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, a, 2 * P));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    EXPECT_EQ(bed_usage(&bed).bytes_used, 0);
    bed_read(&bed, &out, b + P, 1);
    EXPECT_EQ(out, 'z');
    /* An imported handle can be exported again. */
    REQUIRE_OK(bed.ops->export_fd(bed.sim, 1, imported, &fd));
    close(fd);
    REQUIRE_OK(bed.ops->unmap(bed.sim, 1, b, 2 * P));
    REQUIRE_OK(bed.ops->release(bed.sim, 1, imported));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, a, 2 * P));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 1, b, 2 * P));
    bed_close(&bed);
}

TEST(only_shareable_handles_are_exported)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    void *handle;
    int fd = -5;

    REQUIRE_OK(bed.ops->create(bed.sim, 0, P, ACRE_HANDLE_NONE, &handle));
    EXPECT_EQ(bed.ops->export_fd(bed.sim, 0, handle, &fd), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "ACRE_HANDLE_POSIX");
    EXPECT_EQ(bed.ops->export_fd(bed.sim, 0, NULL, &fd), ACRE_ERR_INVALID);
    EXPECT_EQ(fd, -5);
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    EXPECT_EQ(bed.ops->export_fd(bed.sim, 0, handle, &fd), ACRE_ERR_INVALID);
    bed_close(&bed);
}

/* A memfd of a size with seals. */
static int file_of(size_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);

    REQUIRE(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    REQUIRE(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void expect_refused(struct sim_bed *bed, int fd, const char *why)
{
    void *handle = bed;
    uint64_t bytes = 77;

    EXPECT_EQ(bed->ops->import_fd(bed->sim, 0, fd, &handle, &bytes), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), why);
    EXPECT_PTR_EQ(handle, bed);
    EXPECT_EQ(bytes, 77);
    if (fd >= 0)
        close(fd);
}

TEST(import_names_what_is_wrong_with_a_descriptor)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    int pipes[2], fixed = F_SEAL_SHRINK | F_SEAL_GROW;
    char path[] = "/proc/self/fd/0000000000";

    expect_refused(&bed, -1, "descriptor");
    REQUIRE(pipe(pipes) == 0);
    close(pipes[1]);
    expect_refused(&bed, pipes[0], "not shared memory");
    expect_refused(&bed, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "not shared memory");
    expect_refused(&bed, file_of(P, 0), "not sealed");
    expect_refused(&bed, file_of(P, F_SEAL_SHRINK), "not sealed");
    expect_refused(&bed, file_of(P, fixed | F_SEAL_WRITE), "read-only");
    expect_refused(&bed, file_of(P, fixed | F_SEAL_FUTURE_WRITE), "read-only");
    expect_refused(&bed, file_of(P + 4096, fixed), "whole pages");
    expect_refused(&bed, file_of(0, fixed), "whole pages");
    int fd = file_of(P, fixed);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    expect_refused(&bed, open(path, O_RDONLY | O_CLOEXEC), "read-only");
    close(fd);
    bed_close(&bed);
}

TEST(import_survives_a_failing_host_allocation)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    int fd = file_of(P, F_SEAL_SHRINK | F_SEAL_GROW), fds = t_fd_count();
    uint64_t bytes;

    for (unsigned nth = 1, is_done = 0; !is_done; nth++) {
        void *handle;

        heap_fail_nth(nth);
        acre_status status = bed.ops->import_fd(bed.sim, 0, fd, &handle, &bytes);
        is_done = !heap_fail_disarm();
        EXPECT_EQ(status, is_done ? ACRE_OK : ACRE_ERR_HOST_MEMORY);
        if (status == ACRE_OK)
            REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
        EXPECT_EQ(t_fd_count(), fds);
    }
    close(fd);
    bed_close(&bed);
}

T_MAIN()
