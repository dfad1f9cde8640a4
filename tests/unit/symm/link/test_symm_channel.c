/* SPDX-License-Identifier: MIT */
/* Connections for descriptors and what comes through them: S35 to S42. */
#include "symm/link/channel.h"

#include "symm/deadline.h"
#include "symm/link/link.h"
#include "symm/team/memory.h"
#include "symm/team/team.h"

#include "tests/support/ranks.h"

#include <acre/sim.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int64_t soon(void)
{
    return deadline_in_ms(10000);
}

/* A connection within this process. */
static void pair_make(int out[2])
{
    char name[CHANNEL_NAME_BYTES];
    int listener;
    pid_t pid;

    REQUIRE_OK(channel_listen(name, &listener));
    REQUIRE_OK(channel_connect(name, getpid(), geteuid(), &out[0]));
    REQUIRE_OK(channel_accept(listener, &out[1], &pid));
    EXPECT_EQ(pid, getpid());
    EXPECT_EQ(channel_accept(listener, &out[1], &pid), ACRE_ERR_NOT_READY);
    close(listener);
}

static ino_t inode_of(int fd)
{
    struct stat stat_buffer;

    REQUIRE(fstat(fd, &stat_buffer) == 0);
    return stat_buffer.st_ino;
}

static void every_inode(struct rank *me)
{
    void *base;
    acre_symm *symm = ranks_symm(me, 64, &base);
    const struct memory *memory;

    /* Every mapping of rank r's block has the inode that rank r's own has. */
    memory = ((struct team **)(void *)symm)[0]->memories[me->rank];
    atomic_store(&me->shared[me->rank], inode_of(memory->fd));
    ranks_meet(me, 0);
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned found = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long low, inode;
        if (sscanf(line, "%lx-%*x %*s %*s %*s %lu", &low, &inode) != 2)
            continue;
        for (int r = 0; r < me->count; r++)
            if (inode == atomic_load(&me->shared[r])) {
                void *at;
                REQUIRE_OK(acre_symm_buffer(symm, r, 0, 1, &at));
                EXPECT_EQ((uintptr_t)at, low);
                found |= 1u << r;
            }
    }
    fclose(maps);
    EXPECT_EQ(found, (1u << me->count) - 1);
    ranks_meet(me, 1);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S35_descriptors_of_all_ranks_arrive_where_they_belong)
{
    for (int count = 2; count <= 8; count += 3)
        ranks_run(count, every_inode);
}

TEST(S36_S41_descriptors_travel_with_close_on_exec)
{
    int ends[2], fds[CHANNEL_FDS], file = memfd_create("x", 0);
    char data[8];

    pair_make(ends);
    EXPECT_EQ(channel_take(ends[1], data, 8, fds), ACRE_ERR_NOT_READY);
    REQUIRE_OK(channel_send(ends[0], "12345678", 8, &file, 1, soon()));
    REQUIRE_OK(channel_send(ends[0], "abcdefgh", 8, NULL, 0, soon()));
    REQUIRE_OK(channel_take(ends[1], data, 8, fds));
    EXPECT(memcmp(data, "12345678", 8) == 0);
    EXPECT_EQ(inode_of(fds[0]), inode_of(file));
    EXPECT(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    EXPECT_EQ(fds[1], -1);
    close(fds[0]);
    REQUIRE_OK(channel_take(ends[1], data, 8, fds));
    EXPECT_EQ(fds[0], -1);
    close(ends[0]);
    EXPECT_EQ(channel_take(ends[1], data, 8, fds), ACRE_ERR_PEER);
    close(ends[1]);
    close(file);
}

/* Sends raw bytes with count descriptors of one file. */
static void send_raw(int fd, const void *data, size_t bytes, int file, int count)
{
    char control[CMSG_SPACE(sizeof(int) * 8)] = {0};
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; i++)
        memcpy(CMSG_DATA(header) + sizeof(int) * (size_t)i, &file, sizeof file);
    REQUIRE(sendmsg(fd, &message, 0) == (ssize_t)bytes);
}

TEST(messages_with_too_much_are_refused_and_leak_nothing)
{
    T_NEEDS("MSG_CTRUNC");
    int ends[2], fds[CHANNEL_FDS], file = memfd_create("x", MFD_CLOEXEC);
    char data[8];

    pair_make(ends);
    int before = t_fd_count();
    send_raw(ends[0], "12345678", 8, file, 3); /* too many descriptors */
    EXPECT_EQ(channel_take(ends[1], data, 8, fds), ACRE_ERR_FORMAT);
    send_raw(ends[0], "123456789", 9, file, 1); /* too long */
    EXPECT_EQ(channel_take(ends[1], data, 8, fds), ACRE_ERR_FORMAT);
    send_raw(ends[0], "1234", 4, file, 2); /* too short */
    EXPECT_EQ(channel_take(ends[1], data, 8, fds), ACRE_ERR_FORMAT);
    EXPECT_EQ(t_fd_count(), before);
    close(ends[0]);
    close(ends[1]);
    close(file);
}

TEST(descriptors_that_find_no_place_are_named_so)
{
    T_NEEDS("MSG_CTRUNC");
    int ends[2], fds[CHANNEL_FDS], file = memfd_create("x", MFD_CLOEXEC);
    struct rlimit before, none;
    char data[8];

    pair_make(ends);
    int free_one = dup(file);
    close(free_one);
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = (struct rlimit){(rlim_t)free_one + 1, before.rlim_max};
    send_raw(ends[0], "12345678", 8, file, 2);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    acre_status status = channel_take(ends[1], data, 8, fds);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    EXPECT_EQ(status, ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "ulimit -n");
    int still_free = dup(file);
    EXPECT_EQ(still_free, free_one);
    close(still_free);
    close(ends[0]);
    close(ends[1]);
    close(file);
}

/* No folder is asked for, so neither its name nor what lies in it matters. */
TEST(S37_S38_S42_there_are_no_socket_files)
{
    static const char *const variables[] = {"TMPDIR", "TMP", "TEMP", "TEMPDIR"};
    char folder[] = "/tmp/acre-test-XXXXXX", stale[64], longer[200], name[CHANNEL_NAME_BYTES];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int ends[2], old = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    REQUIRE(mkdtemp(folder) && old >= 0);
    memset(longer, 'x', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = 0; /* more than a socket's address holds */
    for (int i = 0; i < 4; i++)
        setenv(variables[i], i % 2 ? folder : longer, 1);
    snprintf(stale, sizeof stale, "%s/symm_mem-%d", folder, (int)getpid());
    memcpy(address.sun_path, stale, strlen(stale) + 1);
    REQUIRE(bind(old, (struct sockaddr *)&address, sizeof address) == 0);
    close(old);
    pair_make(ends);
    close(ends[0]);
    close(ends[1]);
    REQUIRE_OK(channel_listen(name, &ends[0]));
    EXPECT_LT(strlen(name), CHANNEL_NAME_BYTES);
    close(ends[0]);
    for (int i = 0; i < 4; i++)
        unsetenv(variables[i]);
    EXPECT_EQ(unlink(stale), 0);
    EXPECT_EQ(rmdir(folder), 0); /* fails unless empty */
}

TEST(S39_a_listener_that_is_somebody_else_is_refused)
{
    char name[CHANNEL_NAME_BYTES];
    int listener, fd;

    REQUIRE_OK(channel_listen(name, &listener));
    EXPECT_EQ(channel_connect(name, getpid() + 1, geteuid(), &fd), ACRE_ERR_REJECTED);
    EXPECT_EQ(channel_connect(name, getpid(), geteuid() + 1, &fd), ACRE_ERR_REJECTED);
    close(listener);
    EXPECT_EQ(channel_connect(name, getpid(), geteuid(), &fd), ACRE_ERR_PEER);
}

struct stranger {
    char name[CHANNEL_NAME_BYTES];
};

static void come_as_nobody(void *arg)
{
    struct stranger *stranger = arg;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char byte;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    REQUIRE(setgid(65534) == 0 && setuid(65534) == 0);
    memcpy(address.sun_path + 1, stranger->name, strlen(stranger->name));
    REQUIRE(connect(fd, (struct sockaddr *)&address,
                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                                strlen(stranger->name))) == 0);
    EXPECT_EQ(recv(fd, &byte, 1, 0), 0); /* hung up */
}

TEST(S39_a_process_of_another_user_is_refused)
{
    struct stranger stranger;
    int listener, fd;
    pid_t pid;
    acre_status status;

    if (geteuid() != 0)
        T_SKIP("only root can be somebody else");
    REQUIRE_OK(channel_listen(stranger.name, &listener));
    pid_t child = t_start(come_as_nobody, &stranger);
    while ((status = channel_accept(listener, &fd, &pid)) == ACRE_ERR_NOT_READY)
        usleep(1000);
    EXPECT_EQ(status, ACRE_ERR_REJECTED);
    EXPECT_HAS(acre_last_error(), "65534");
    EXPECT_EQ(t_join(child), 0);
    close(listener);
}

TEST(S40_objects_are_checked_before_they_are_mapped)
{
    struct memory *memory;
    int file = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipes[2];

    EXPECT_EQ(memory_import(NULL, -1, 8192, &memory), ACRE_ERR_REJECTED);
    REQUIRE(pipe(pipes) == 0);
    EXPECT_EQ(memory_import(NULL, pipes[0], 8192, &memory), ACRE_ERR_REJECTED);
    REQUIRE(ftruncate(file, 4096) == 0);
    EXPECT_EQ(memory_import(NULL, file, 8192, &memory), ACRE_ERR_REJECTED);
    EXPECT_HAS(acre_last_error(), "4096 bytes instead of 8192");
    REQUIRE(ftruncate(file, 8192) == 0);
    EXPECT_EQ(memory_import(NULL, file, 8192, &memory), ACRE_ERR_REJECTED);
    EXPECT_HAS(acre_last_error(), "sealed");
    REQUIRE(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    REQUIRE_OK(memory_import(NULL, file, 8192, &memory));
    memory->base[8191] = 1;
    memory_put(memory);
    close(file);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(device_memory_travels_as_well)
{
    acre_backend *backend;
    acre_device *device;
    struct memory *own, *other;
    acre_sim_usage usage = {.struct_size = sizeof usage};
    size_t granule;
    int fd;

    REQUIRE_OK(acre_sim_create(NULL, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(memory_granularity(device, &granule));
    REQUIRE_OK(memory_create(device, granule, &own));
    REQUIRE_OK(memory_export(own, &fd));
    EXPECT_EQ(memory_import(device, fd, 2 * granule, &other), ACRE_ERR_REJECTED);
    REQUIRE_OK(memory_import(device, fd, granule, &other));
    close(fd);
    memory_put(own);
    memory_put(other);
    REQUIRE_OK(acre_sim_usage_get(backend, &usage));
    EXPECT_EQ(usage.handle_count + usage.map_count + usage.reserve_count, 0);
    acre_backend_unregister(backend);
}

TEST(names_of_ranks)
{
    bool one[3] = {false, true, false}, two[3] = {true, false, true};
    char text[32];

    ranks_text(text, sizeof text, one, 3);
    EXPECT_STR_EQ(text, "rank 1");
    ranks_text(text, sizeof text, two, 3);
    EXPECT_STR_EQ(text, "ranks 0, 2");
}

T_MAIN()
