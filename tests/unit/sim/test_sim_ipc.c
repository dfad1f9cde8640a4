/* SPDX-License-Identifier: MIT */
/* Plain memory of a reference device in other processes. Opening works in the
 * exporting process too, which is how most of this is tested; tests/process has
 * real ones. */
#include "sim/sim_memory.h"

#include "tests/support/sim_bed.h"

#include <pthread.h>
#include <unistd.h>

#define SIZE ((size_t)1 << 20)

static void expect_bytes(struct sim_bed *bed, const char *at, int value, size_t bytes)
{
    char *copy = malloc(bytes);

    bed_read(bed, copy, at, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (copy[i] != (char)value) {
            t_fail(__FILE__, __LINE__, "byte %zu is %d, not %d", i, copy[i], value);
            break;
        }
    free(copy);
}

static void fill(struct sim_bed *bed, char *at, int value, size_t bytes)
{
    char *copy = malloc(bytes);

    memset(copy, value, bytes);
    bed_write(bed, at, copy, bytes);
    free(copy);
}

static void expect_users(struct sim_bed *bed, const uint8_t *handle, uint64_t count)
{
    uint64_t users = UINT64_MAX;

    for (int i = 0; i < 20000 && users != count; i++) {
        REQUIRE_OK(bed->ops->ipc_users(bed->sim, 0, handle, &users));
        if (users != count)
            usleep(500);
    }
    EXPECT_EQ(users, count);
}

TEST(both_addresses_show_the_same_memory)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    uint8_t handle[64];
    char *base, *opened;
    uint64_t bytes = 0;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, SIZE, (void **)&base));
    fill(&bed, base + 4096, 'a', 8192); /* the rest is not there yet */
    REQUIRE_OK(bed.ops->ipc_export(bed.sim, 0, base, handle));
    expect_bytes(&bed, base + 4096, 'a', 8192);
    expect_bytes(&bed, base, 0, 4096);
    expect_bytes(&bed, base + 12288, 0, SIZE - 12288);
    REQUIRE_OK(bed.ops->ipc_open(bed.sim, 0, handle, (void **)&opened, &bytes));
    EXPECT_EQ(bytes, SIZE);
    EXPECT(opened != base);
    expect_bytes(&bed, opened + 4096, 'a', 8192);
    fill(&bed, opened, 'b', SIZE);
    expect_bytes(&bed, base, 'b', SIZE);
    fill(&bed, base, 'c', SIZE);
    expect_bytes(&bed, opened, 'c', SIZE);
    EXPECT_EQ(bed_usage(&bed).bytes_used, SIZE); /* what is opened takes no capacity */
    REQUIRE_OK(bed.ops->ipc_close(bed.sim, 0, opened));
    bed_expect_gone(opened);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, base));
    bed_close(&bed);
}

TEST(each_handle_is_its_own)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    uint8_t first[64], second[64];
    void *base, *a, *b;
    uint64_t bytes, count = 7;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, SIZE, &base));
    REQUIRE_OK(bed.ops->ipc_export(bed.sim, 0, base, first));
    REQUIRE_OK(bed.ops->ipc_export(bed.sim, 0, base, second));
    EXPECT(memcmp(first, second, sizeof first) != 0);
    REQUIRE_OK(bed.ops->ipc_open(bed.sim, 0, first, &a, &bytes));
    expect_users(&bed, first, 1);
    expect_users(&bed, second, 0);
    REQUIRE_OK(bed.ops->ipc_revoke(bed.sim, 0, second, &count));
    EXPECT_EQ(count, 0);
    EXPECT_EQ(bed.ops->ipc_users(bed.sim, 0, second, &count), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->ipc_open(bed.sim, 0, second, &b, &bytes), ACRE_ERR_NOT_FOUND);
    REQUIRE_OK(bed.ops->ipc_revoke(bed.sim, 0, first, &count));
    EXPECT_EQ(count, 1);
    EXPECT_EQ(bed.ops->ipc_open(bed.sim, 0, first, &b, &bytes), ACRE_ERR_NOT_FOUND);
    REQUIRE_OK(bed.ops->ipc_close(bed.sim, 0, a));
    expect_users(&bed, first, 0);
    REQUIRE_OK(bed.ops->ipc_revoke(bed.sim, 0, first, &count));
    EXPECT_EQ(count, 0);
    EXPECT_EQ(bed.ops->ipc_revoke(bed.sim, 0, first, &count), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, base));
    bed_close(&bed);
}

TEST(memory_given_back_is_found_no_more)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    uint8_t handle[64];
    char *base, *opened;
    void *other;
    uint64_t bytes, count;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, SIZE, (void **)&base));
    fill(&bed, base, 'x', SIZE);
    REQUIRE_OK(bed.ops->ipc_export(bed.sim, 0, base, handle));
    REQUIRE_OK(bed.ops->ipc_open(bed.sim, 0, handle, (void **)&opened, &bytes));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, base));
    EXPECT_EQ(bed.ops->ipc_open(bed.sim, 0, handle, &other, &bytes), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(bed.ops->ipc_users(bed.sim, 0, handle, &count), ACRE_ERR_INVALID);
    expect_bytes(&bed, opened, 'x', SIZE); /* who has it keeps it */
    REQUIRE_OK(bed.ops->ipc_close(bed.sim, 0, opened));
    bed_close(&bed);
}

TEST(what_is_not_a_base_is_refused)
{
    struct sim_bed bed = bed_open("devices:2,memory:64MiB");
    uint8_t handle[64];
    char *base, *opened;
    void *range;
    uint64_t bytes;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, SIZE, (void **)&base));
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, BED_PAGE, &range));
    EXPECT_EQ(bed.ops->ipc_export(bed.sim, 0, base + 4096, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->ipc_export(bed.sim, 1, base, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->ipc_export(bed.sim, 0, range, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->ipc_export(bed.sim, 0, &bed, handle), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->ipc_export(bed.sim, 0, base, handle));
    REQUIRE_OK(bed.ops->ipc_open(bed.sim, 1, handle, (void **)&opened, &bytes));
    EXPECT_EQ(bed.ops->ipc_export(bed.sim, 1, opened, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->free(bed.sim, 1, opened), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->ipc_close(bed.sim, 0, base), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->ipc_close(bed.sim, 0, opened), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->ipc_close(bed.sim, 1, opened + 4096), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->ipc_close(bed.sim, 1, opened));
    EXPECT_EQ(bed.ops->ipc_close(bed.sim, 1, opened), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, range, BED_PAGE));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, base));
    bed_close(&bed);
}

TEST(windows_follow_the_memory_into_its_own_file)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    uint8_t handle[64];
    char *base;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, SIZE, (void **)&base));
    REQUIRE_OK(bed.ops->access_open(bed.sim, base));
    base[5] = 'w';
    EXPECT_EQ(bed.ops->ipc_export(bed.sim, 0, base, handle), ACRE_ERR_STATE);
    REQUIRE_OK(bed.ops->access_close(bed.sim, base));
    REQUIRE_OK(bed.ops->ipc_export(bed.sim, 0, base, handle));
    REQUIRE_OK(bed.ops->access_open(bed.sim, base));
    EXPECT_EQ(base[5], 'w');
    base[6] = 'v';
    REQUIRE_OK(bed.ops->access_close(bed.sim, base));
    expect_bytes(&bed, base + 6, 'v', 1);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, base));
    bed_close(&bed);
}

/* Neighbours in the device's file are not in the one that is handed out. */
TEST(nothing_else_is_shown)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    uint8_t handle[64];
    char *secret, *base, *opened;
    uint64_t bytes;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, SIZE, (void **)&secret));
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, SIZE, (void **)&base));
    fill(&bed, secret, 's', SIZE);
    REQUIRE_OK(bed.ops->ipc_export(bed.sim, 0, base, handle));
    REQUIRE_OK(bed.ops->ipc_open(bed.sim, 0, handle, (void **)&opened, &bytes));
    EXPECT_EQ(bytes, SIZE);
    struct sim_span *span = span_find_locked(bed.sim, opened);
    REQUIRE(span);
    EXPECT_EQ(lseek(span->extent.fd, 0, SEEK_END), SIZE);
    expect_bytes(&bed, opened, 0, SIZE);
    REQUIRE_OK(bed.ops->ipc_close(bed.sim, 0, opened));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, base));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, secret));
    bed_close(&bed);
}

struct writer {
    struct sim_bed *bed;
    char *base;
    atomic_int is_done;
};

static void *write_on(void *arg)
{
    struct writer *writer = arg;
    unsigned char last = 0;

    for (int i = 0; !atomic_load(&writer->is_done); i++) {
        unsigned char read, next = (unsigned char)i;

        bed_read(writer->bed, &read, writer->base + 77, 1);
        EXPECT_EQ(read, last);
        bed_write(writer->bed, writer->base + 77, &next, 1);
        last = next;
    }
    return NULL;
}

/* Moving the pages loses no write of a thread that goes on meanwhile. */
TEST(work_goes_on_while_memory_moves)
{
    struct sim_bed bed = bed_open("memory:64MiB");

    for (int i = 0; i < 20; i++) {
        struct writer writer = {.bed = &bed};
        uint8_t handle[64];
        pthread_t thread;

        REQUIRE_OK(bed.ops->alloc(bed.sim, 0, SIZE, (void **)&writer.base));
        REQUIRE(pthread_create(&thread, NULL, write_on, &writer) == 0);
        usleep(200);
        EXPECT_EQ(bed.ops->ipc_export(bed.sim, 0, writer.base, handle), ACRE_OK);
        usleep(200);
        atomic_store(&writer.is_done, 1);
        pthread_join(thread, NULL);
        REQUIRE_OK(bed.ops->free(bed.sim, 0, writer.base));
    }
    bed_close(&bed);
}

static acre_status scenario(struct sim_bed *bed, char *base)
{
    uint8_t handle[64];
    void *opened;
    uint64_t bytes, count;
    acre_status status = bed->ops->ipc_export(bed->sim, 0, base, handle);

    if (status != ACRE_OK)
        return status;
    status = bed->ops->ipc_open(bed->sim, 0, handle, &opened, &bytes);
    if (status == ACRE_OK) {
        expect_bytes(bed, opened, 'f', SIZE);
        EXPECT_EQ(bed->ops->ipc_close(bed->sim, 0, opened), ACRE_OK);
        expect_users(bed, handle, 0);
    }
    EXPECT_EQ(bed->ops->ipc_revoke(bed->sim, 0, handle, &count), ACRE_OK);
    return status;
}

/* Each host allocation, mapping call and call of the device fails in turn. */
TEST(every_call_may_fail)
{
    for (int kind = 0; kind < 2; kind++)
        for (uint64_t nth = 1;; nth++) {
            struct sim_bed bed = bed_open("memory:64MiB");
            char *base;

            REQUIRE_OK(bed.ops->alloc(bed.sim, 0, SIZE, (void **)&base));
            fill(&bed, base, 'f', SIZE);
            kind ? pages_fail_nth(nth) : heap_fail_nth(nth);
            acre_status status = scenario(&bed, base);
            bool was_failed = kind ? pages_fail_disarm() : heap_fail_disarm();
            if (was_failed)
                EXPECT(status == ACRE_ERR_HOST_MEMORY || status == ACRE_ERR_DEVICE_MEMORY);
            else
                EXPECT_EQ(status, ACRE_OK);
            expect_bytes(&bed, base, 'f', SIZE);
            REQUIRE_OK(bed.ops->free(bed.sim, 0, base));
            bed_close(&bed);
            if (!was_failed)
                break;
        }
}

/* A backend may end with everything still open. */
TEST(what_is_left_ends_with_the_backend)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    uint8_t handle[64];
    void *base, *opened;
    uint64_t bytes;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, SIZE, &base));
    REQUIRE_OK(bed.ops->ipc_export(bed.sim, 0, base, handle));
    REQUIRE_OK(bed.ops->ipc_open(bed.sim, 0, handle, &opened, &bytes));
    bed_drop(&bed);
}

T_MAIN()
