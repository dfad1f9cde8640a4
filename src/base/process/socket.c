/* SPDX-License-Identifier: MIT */
/* See socket.h. */
#include "base/process/socket.h"

#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Room for the descriptors of one message, and a few more than there may be, so
 * that too many are noticed. */
union control {
    struct cmsghdr header;
    char space[CMSG_SPACE((WIRE_BATCH + 4) * sizeof(int))];
};

/* A null byte makes the name abstract. */
static socklen_t address_make(const uint8_t name[WIRE_RANDOM_BYTES], struct sockaddr_un *out)
{
    static const char prefix[] = "acre-share-";
    char *at = out->sun_path + 1;

    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    memcpy(at, prefix, sizeof prefix - 1);
    at += sizeof prefix - 1;
    for (int i = 0; i < WIRE_RANDOM_BYTES; i++, at += 2)
        snprintf(at, 3, "%02x", name[i]);
    return (socklen_t)(at - (char *)out);
}

/* Why a call failed, as a status. */
static acre_status socket_failed(int code, const char *what)
{
    acre_status status = ACRE_ERR_IO;

    if (code == ECONNREFUSED || code == ENOENT || code == EPIPE || code == ECONNRESET)
        return status_fail_native(ACRE_ERR_PEER, code,
                                  "the process that exported this memory "
                                  "is gone, or has nothing exported any more");
    if (code == EAGAIN || code == ETIMEDOUT || code == EINTR)
        return status_fail_native(ACRE_ERR_TIMEOUT, code,
                                  "the process that exported this memory "
                                  "does not answer");
    if (code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOBUFS)
        status = ACRE_ERR_LIMIT;
    return status_fail_native(status, code, "%s a socket for sharing memory failed: %s", what,
                              strerror(code));
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static acre_status socket_open(int flags, int *out_fd)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

    if (fd < 0)
        return socket_failed(errno, "making");
    *out_fd = fd;
    return ACRE_OK;
}

acre_status socket_listen(const uint8_t name[WIRE_RANDOM_BYTES], int *out_fd)
{
    struct sockaddr_un address;
    socklen_t bytes = address_make(name, &address);
    int fd = -1;
    acre_status status = socket_open(SOCK_NONBLOCK, &fd);

    if (status != ACRE_OK)
        return status;
    if (bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, 128) != 0) {
        status = socket_failed(errno, "naming");
        close(fd);
        return status;
    }
    *out_fd = fd;
    return ACRE_OK;
}

acre_status socket_connect(const uint8_t name[WIRE_RANDOM_BYTES], int wait_ms, int *out_fd)
{
    struct timeval wait = {wait_ms / 1000, wait_ms % 1000 * 1000};
    struct sockaddr_un address;
    socklen_t bytes = address_make(name, &address);
    int fd = -1, code;
    acre_status status = socket_open(0, &fd);

    if (status != ACRE_OK)
        return status;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    int64_t until = now_ms() + wait_ms;
    do
        code = connect(fd, (struct sockaddr *)&address, bytes) == 0 ? 0 : errno;
    while (code == EINTR && now_ms() < until);
    if (code) {
        close(fd);
        return socket_failed(code, "connecting");
    }
    *out_fd = fd;
    return ACRE_OK;
}

bool socket_is_own_user(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

int socket_send(int fd, const void *message, size_t bytes, const int *fds, int fd_count)
{
    union control control;
    struct iovec part = {(void *)(uintptr_t)message, bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    size_t fd_bytes = (size_t)fd_count * sizeof(int);
    ssize_t sent;

    if (fd_count) {
        memset(&control, 0, sizeof control);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_bytes);
        memcpy(CMSG_DATA(&control.header), fds, fd_bytes);
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(fd_bytes);
    }
    do
        sent = sendmsg(fd, &header, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno;
    return (size_t)sent == bytes ? 0 : EIO;
}

/* Takes the descriptors out of a message; those beyond WIRE_BATCH are closed. The
 * count is that of all. */
static size_t fds_take(struct msghdr *header, int fds[WIRE_BATCH])
{
    size_t count = 0;

    for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++, count++) {
            int fd;

            memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
            if (count < WIRE_BATCH)
                fds[count] = fd;
            else
                close(fd);
        }
    }
    return count;
}

/* recvmsg() within the time limit of the socket. A signal begins that anew in the kernel, so that
 * a timer of the application would keep it from ever running out. */
static ssize_t message_await(int fd, struct msghdr *header)
{
    struct timeval wait = {0};
    socklen_t bytes = sizeof wait;
    ssize_t received;

    getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, &bytes);
    int64_t wait_ms = wait.tv_sec * 1000 + wait.tv_usec / 1000, until = now_ms() + wait_ms;
    do
        received = recvmsg(fd, header, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR && (wait_ms == 0 || now_ms() < until));
    return received;
}

acre_status socket_receive(int fd, void *message, size_t capacity, size_t *out_bytes,
                           int fds[WIRE_BATCH], size_t *out_fd_count)
{
    union control control;
    struct iovec part = {message, capacity};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control};
    ssize_t received = message_await(fd, &header);
    acre_status status;

    if (received < 0)
        return socket_failed(errno, "reading");
    size_t count = fds_take(&header, fds);
    if (received > 0 && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && count <= WIRE_BATCH) {
        *out_bytes = (size_t)received;
        *out_fd_count = count;
        return ACRE_OK;
    }
    if (received == 0)
        status = socket_failed(ECONNRESET, "reading");
    else if (header.msg_flags & MSG_CTRUNC)
        status = status_fail(ACRE_ERR_LIMIT, "descriptors of shared memory did not arrive: "
                                             "raise ulimit -n");
    else
        status = status_fail(ACRE_ERR_FORMAT, "the exporting process sent a message that is "
                                              "too long");
    while (count > 0)
        if (--count < WIRE_BATCH)
            close(fds[count]);
    return status;
}
