/* SPDX-License-Identifier: MIT */
/* Queues of the reference device: streams parked at values. Events, order and failures
 * are in the tests of streams and events. */
#include "sim/work/sim_queue.h"

#include "tests/support/sim_rig.h"

#include <sys/mman.h>
#include <unistd.h>

struct condition {
    acre_wait_condition condition;
    uint32_t wanted, blocks, releases;
};

TEST(streams_wait_for_each_condition)
{
    static const struct condition cases[] = {
        {ACRE_WAIT_GEQ, 5, 4, 6},
        {ACRE_WAIT_GEQ, 5, 0x80000006u, 5},
        {ACRE_WAIT_EQ, 5, 6, 5},
        {ACRE_WAIT_AND, 6, 9, 2},
        {ACRE_WAIT_NOR, 0x0fffffffu, 0xf0000000u, 1},
    };

    rig_open(NULL);
    void *waiter = rig_stream(0), *writer = rig_stream(0);
    uint32_t *value = rig_alloc(0, 4096);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rig_put(value, &cases[i].blocks, 4);
        REQUIRE_OK(OP(wait_value32, 0, waiter, value, cases[i].wanted, cases[i].condition));
        EXPECT_STATUS(OP(stream_query, 0, waiter), ACRE_ERR_NOT_READY);
        REQUIRE_OK(OP(write_value32, 0, writer, value, cases[i].blocks));
        REQUIRE_OK(OP(stream_synchronize, 0, writer));
        EXPECT_STATUS(OP(stream_query, 0, waiter), ACRE_ERR_NOT_READY);
        REQUIRE_OK(OP(write_value32, 0, writer, value, cases[i].releases));
        EXPECT_OK(OP(stream_synchronize, 0, waiter));
    }
    rig_close();
}

TEST(host_writes_through_a_window_are_noticed)
{
    rig_open(NULL);
    void *waiter = rig_stream(0);
    uint32_t *value = rig_alloc(0, 4096);
    REQUIRE_OK(OP(wait_value32, 0, waiter, value + 3, 9, ACRE_WAIT_EQ));
    REQUIRE_OK(OP(access_open, value));
    atomic_store((_Atomic uint32_t *)(value + 3), 9);
    EXPECT_OK(OP(stream_synchronize, 0, waiter));
    REQUIRE_OK(OP(access_close, value));
    rig_close();
}

/* In a child: the reference device is not usable there, its memory is. */
static void write_in_child(void *arg)
{
    int fd = *(int *)arg;
    _Atomic uint32_t *value = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    REQUIRE(value != MAP_FAILED);
    atomic_store(value, 9);
}

TEST(values_written_by_another_process_are_noticed)
{
    enum { PAGE = 2 << 20 };
    void *handle, *base;
    int fd;

    rig_open(NULL);
    void *waiter = rig_stream(0);
    REQUIRE_OK(OP(create, 0, PAGE, ACRE_HANDLE_POSIX, &handle));
    REQUIRE_OK(OP(reserve, 0, PAGE, &base));
    REQUIRE_OK(OP(map, 0, base, PAGE, 0, handle));
    REQUIRE_OK(OP(set_access, 0, base, PAGE, 0, ACRE_ACCESS_READ_WRITE));
    REQUIRE_OK(OP(export_fd, 0, handle, &fd));
    REQUIRE_OK(OP(wait_value32, 0, waiter, base, 9, ACRE_WAIT_EQ));
    EXPECT_STATUS(OP(stream_query, 0, waiter), ACRE_ERR_NOT_READY);
    EXPECT_EQ(t_child(write_in_child, &fd), 0);
    EXPECT_OK(OP(stream_synchronize, 0, waiter));
    close(fd);
    rig_close();
}

TEST(values_at_bad_places_are_refused)
{
    uint32_t host = 0;

    rig_open(NULL);
    char *memory = rig_alloc(0, 4096);
    EXPECT_STATUS(OP(write_value32, 0, NULL, NULL, 1), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(write_value32, 0, NULL, memory + 2, 1), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(wait_value32, 0, NULL, memory + 1, 1, ACRE_WAIT_EQ), ACRE_ERR_INVALID);
    EXPECT_STATUS(OP(wait_value32, 0, NULL, memory, 1, (acre_wait_condition)4), ACRE_ERR_INVALID);
    EXPECT_OK(OP(write_value32, 0, NULL, &host, 1));
    EXPECT_STATUS(OP(stream_synchronize, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_OK(OP(wait_value32, 0, NULL, &host, 1, ACRE_WAIT_EQ));
    EXPECT_STATUS(OP(stream_synchronize, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(host, 0);
    rig_close();
}

T_MAIN()
