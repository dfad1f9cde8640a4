/* SPDX-License-Identifier: MIT */
/* Connections for descriptors; see channel.h. */
#include "symm/link/channel.h"

#include "base/status.h"
#include "symm/deadline.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t address_of(const char *name, struct sockaddr_un *out)
{
    size_t length = strnlen(name, CHANNEL_NAME_BYTES - 1);

    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    memcpy(out->sun_path + 1, name, length); /* a leading zero: no file */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static acre_status fail_errno(acre_status status, const char *what)
{
    return status_fail_native(status, errno, "rendezvous: %s: %s", what, strerror(errno));
}

acre_status channel_listen(char name[CHANNEL_NAME_BYTES], int *out_fd)
{
    struct sockaddr_un address;
    uint8_t bytes[12];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return fail_errno(ACRE_ERR_IO, "no random bytes");
    int at = snprintf(name, CHANNEL_NAME_BYTES, "acre-");
    for (size_t i = 0; i < sizeof bytes; i++)
        at += snprintf(name + at, (size_t)(CHANNEL_NAME_BYTES - at), "%02x", bytes[i]);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail_errno(ACRE_ERR_IO, "socket");
    socklen_t length = address_of(name, &address);
    if (bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, 1024) != 0) {
        acre_status status = fail_errno(ACRE_ERR_IO, "listening");
        close(fd);
        return status;
    }
    *out_fd = fd;
    return ACRE_OK;
}

static acre_status peer_of(int fd, struct ucred *out)
{
    socklen_t length = sizeof *out;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &length) != 0)
        return fail_errno(ACRE_ERR_IO, "SO_PEERCRED");
    return ACRE_OK;
}

acre_status channel_connect(const char *name, pid_t pid, uid_t uid, int *out_fd)
{
    struct sockaddr_un address;
    struct ucred peer;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return fail_errno(ACRE_ERR_IO, "socket");
    socklen_t length = address_of(name, &address);
    acre_status status = ACRE_OK;
    if (connect(fd, (struct sockaddr *)&address, length) != 0)
        status = fail_errno(ACRE_ERR_PEER, "connecting");
    if (status == ACRE_OK)
        status = peer_of(fd, &peer);
    if (status == ACRE_OK && (peer.pid != pid || peer.uid != uid))
        status = status_fail(ACRE_ERR_REJECTED,
                             "rendezvous: process %d of user %u listens where "
                             "process %d of user %u should",
                             (int)peer.pid, (unsigned)peer.uid, (int)pid, (unsigned)uid);
    if (status != ACRE_OK)
        close(fd);
    else
        *out_fd = fd;
    return status;
}

acre_status channel_accept(int listener, int *out_fd, pid_t *out_pid)
{
    struct ucred peer;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
            return ACRE_ERR_NOT_READY;
        return fail_errno(ACRE_ERR_IO, "accept");
    }
    acre_status status = peer_of(fd, &peer);
    if (status == ACRE_OK && peer.uid != geteuid())
        status = status_fail(ACRE_ERR_REJECTED,
                             "rendezvous: process %d of user %u tried to join "
                             "and was refused",
                             (int)peer.pid, (unsigned)peer.uid);
    if (status != ACRE_OK) {
        close(fd);
        return status;
    }
    *out_fd = fd;
    *out_pid = peer.pid;
    return ACRE_OK;
}

/* Room for control messages of the largest kind that is accepted. */
union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int) * CHANNEL_FDS)];
};

static acre_status wait_writable(int fd, int64_t deadline)
{
    struct pollfd poll_fd = {fd, POLLOUT, 0};

    if (deadline_left_ns(deadline) == 0)
        return status_fail(ACRE_ERR_TIMEOUT, "rendezvous: a rank does not take what is sent");
    poll(&poll_fd, 1, deadline_poll_ms(deadline));
    return ACRE_OK;
}

acre_status channel_send(int fd, const void *data, size_t bytes, const int *fds, int count,
                         int64_t deadline)
{
    union control control = {.space = {0}};
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
        memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * (size_t)count);
    }
    while (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return fail_errno(ACRE_ERR_PEER, "sending");
        acre_status status = wait_writable(fd, deadline);
        if (status != ACRE_OK)
            return status;
    }
    return ACRE_OK;
}

/* Collects the descriptors of a message; false when there is anything else. When some are
 * missing though there was room, this process could not open more. */
static bool take_fds(struct msghdr *message, int fds[CHANNEL_FDS], bool *out_is_full)
{
    int count = 0;
    bool is_good = !(message->msg_flags & (MSG_TRUNC | MSG_CTRUNC));

    for (struct cmsghdr *it = CMSG_FIRSTHDR(message); it; it = CMSG_NXTHDR(message, it)) {
        if (it->cmsg_level != SOL_SOCKET || it->cmsg_type != SCM_RIGHTS) {
            is_good = false;
            continue;
        }
        for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= it->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(it) + at, sizeof fd);
            if (count < CHANNEL_FDS) {
                fds[count++] = fd;
            } else {
                close(fd);
                is_good = false;
            }
        }
    }
    *out_is_full = message->msg_flags & MSG_CTRUNC && count < CHANNEL_FDS;
    return is_good;
}

acre_status channel_take(int fd, void *data, size_t bytes, int fds[CHANNEL_FDS])
{
    union control control;
    struct iovec part = {data, bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    for (int i = 0; i < CHANNEL_FDS; i++)
        fds[i] = -1;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return ACRE_ERR_NOT_READY;
    if (got <= 0)
        return status_fail_native(ACRE_ERR_PEER, got < 0 ? errno : 0,
                                  "rendezvous: a rank hung "
                                  "up");
    bool is_full = false;
    if (take_fds(&message, fds, &is_full) && (size_t)got == bytes)
        return ACRE_OK;
    for (int i = 0; i < CHANNEL_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (is_full)
        return status_fail(ACRE_ERR_LIMIT, "rendezvous: descriptors of symmetric memory did not "
                                           "arrive: raise ulimit -n");
    return status_fail(ACRE_ERR_FORMAT, "rendezvous: a message of %zd bytes is cut or forged", got);
}
