/* SPDX-License-Identifier: MIT */
/* Two processes with a reference device each exchange handles as descriptors. */
#include "sim/sim.h"

#include "tests/support/shm.h"
#include "tests/support/sim_bed.h"

#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define P BED_PAGE

/* ---- Passing descriptors and words -------------------------------------------- */

union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

static void send_fd(int channel, int fd)
{
    union control control = {.space = {0}};
    char byte = 'f';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};

    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    REQUIRE(sendmsg(channel, &message, 0) == 1);
}

static int receive_fd(int channel)
{
    union control control = {.space = {0}};
    char byte = 0;
    int fd = -1;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};

    REQUIRE(recvmsg(channel, &message, MSG_CMSG_CLOEXEC) == 1);
    REQUIRE(CMSG_FIRSTHDR(&message));
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return fd;
}

static void say(int channel, char word)
{
    REQUIRE(write(channel, &word, 1) == 1);
}

static void hear(int channel, char word)
{
    char byte = 0;

    REQUIRE(read(channel, &byte, 1) == 1);
    EXPECT_EQ(byte, word);
}

/* Starts fn in a child with one end of a channel; gives the other. */
static pid_t start(void (*fn)(void *), int *out_channel)
{
    int channels[2];

    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channels) == 0);
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        close(channels[0]);
        _exit(t_child(fn, &channels[1]) != 0);
    }
    close(channels[1]);
    *out_channel = channels[0];
    return pid;
}

/* ---- A device, one mapping ---------------------------------------------------------- */

struct side {
    struct sim_bed bed;
    void *handle;
    char *base;
};

static void side_map(struct side *side)
{
    REQUIRE_OK(side->bed.ops->reserve(side->bed.sim, 0, P, (void **)&side->base));
    REQUIRE_OK(side->bed.ops->map(side->bed.sim, 0, side->base, P, 0, side->handle));
    REQUIRE_OK(side->bed.ops->set_access(side->bed.sim, 0, side->base, P, 0,
                                         ACRE_ACCESS_READ_WRITE));
}

static void side_close(struct side *side)
{
    REQUIRE_OK(side->bed.ops->unmap(side->bed.sim, 0, side->base, P));
    REQUIRE_OK(side->bed.ops->unreserve(side->bed.sim, 0, side->base, P));
    REQUIRE_OK(side->bed.ops->release(side->bed.sim, 0, side->handle));
    bed_close(&side->bed);
}

static void side_fill(struct side *side, int value)
{
    static char bytes[P];

    memset(bytes, value, P);
    REQUIRE_OK(side->bed.ops->copy(side->bed.sim, side->base, bytes, P,
                                   ACRE_COPY_HOST_TO_DEVICE));
}

static void side_expect(struct side *side, int value)
{
    static char bytes[P], expected[P];

    memset(expected, value, P);
    REQUIRE_OK(side->bed.ops->copy(side->bed.sim, bytes, side->base, P,
                                   ACRE_COPY_DEVICE_TO_HOST));
    EXPECT(memcmp(bytes, expected, P) == 0);
}

/* ---- Exchange ------------------------------------------------------------------------- */

/* Imports what it is sent, sees 'A', writes 'B', and outlives the exporter's use. */
static void importer(void *arg)
{
    int channel = *(int *)arg, fd = receive_fd(channel);
    struct side side = {.bed = bed_open("memory:64MiB")};
    uint64_t bytes = 0;

    REQUIRE_OK(side.bed.ops->import_fd(side.bed.sim, 0, fd, &side.handle, &bytes));
    EXPECT_EQ(bytes, P);
    side_map(&side);
    side_expect(&side, 'A');
    side_fill(&side, 'B');
    say(channel, 'b');
    hear(channel, 'c'); /* the exporter wrote 'C' and let go */
    side_expect(&side, 'C');
    side_close(&side);
    close(fd);
}

TEST(two_processes_see_each_others_writes)
{
    int channel, fd, status = 0;
    pid_t pid = start(importer, &channel);
    struct side side = {.bed = bed_open("memory:64MiB")};

    REQUIRE_OK(side.bed.ops->create(side.bed.sim, 0, P, ACRE_HANDLE_POSIX, &side.handle));
    side_map(&side);
    side_fill(&side, 'A');
    REQUIRE_OK(side.bed.ops->export_fd(side.bed.sim, 0, side.handle, &fd));
    send_fd(channel, fd);
    close(fd);
    hear(channel, 'b');
    side_expect(&side, 'B');
    side_fill(&side, 'C');
    side_close(&side);
    say(channel, 'c');
    REQUIRE(waitpid(pid, &status, 0) == pid);
    EXPECT_EQ(status, 0);
    close(channel);
}

/* ---- Killed processes ------------------------------------------------------------------ */

/* Sockets of this process that have a name. */
static int named_socket_count(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_un address;
        socklen_t length = sizeof address;
        count += getsockname(fd, (struct sockaddr *)&address, &length) == 0 &&
                 address.sun_family == AF_UNIX && length > offsetof(struct sockaddr_un, sun_path);
    }
    return count;
}

/* Holds one of everything, tells so, and is killed by its own hand. */
static void holder(void *arg)
{
    int channel = *(int *)arg, fd;
    struct side side = {.bed = bed_open("memory:64MiB")};
    struct sim_bed *bed = &side.bed;
    void *p, *stream;

    REQUIRE_OK(bed->ops->alloc(bed->sim, 0, P, &p));
    REQUIRE_OK(bed->ops->create(bed->sim, 0, P, ACRE_HANDLE_POSIX, &side.handle));
    REQUIRE_OK(bed->ops->export_fd(bed->sim, 0, side.handle, &fd));
    side_map(&side);
    side_fill(&side, 1);
    REQUIRE_OK(bed->ops->stream_create(bed->sim, 0, 0, 0, &stream));
    REQUIRE_OK(bed->ops->fill_async(bed->sim, 0, p, 1, P, stream));
    EXPECT_EQ(named_socket_count(), 0); /* not even while it lives is there a name */
    say(channel, 'r');
    hear(channel, 'k');
    raise(SIGKILL);
}

static void kill_and_look(void)
{
    char folder[] = "/tmp/acre-test-XXXXXX";
    int channel, status = 0;

    /* A temporary folder of its own, because others use the common one. */
    REQUIRE(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    pid_t pid = start(holder, &channel);
    hear(channel, 'r');
    EXPECT(shm_is_clean());
    say(channel, 'k');
    REQUIRE(waitpid(pid, &status, 0) == pid);
    EXPECT_EQ(WEXITSTATUS(status), 1); /* start's child tells that holder was killed */
    EXPECT(shm_is_clean());
    EXPECT_EQ(rmdir(folder), 0); /* fails unless empty */
    unsetenv("TMPDIR");
    close(channel);
}

TEST(a_killed_process_leaves_nothing_behind)
{
    EXPECT_EQ(shm_child(kill_and_look), 0);
}

T_MAIN()
