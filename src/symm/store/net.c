/* SPDX-License-Identifier: MIT */
/* Sockets of stores. */
#include "symm/store/net.h"

#include "base/status.h"
#include "symm/deadline.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static acre_status wait_ready(int fd, short events, int64_t deadline)
{
    struct pollfd poll_fd = {fd, events, 0};
    int ready;

    do {
        ready = poll(&poll_fd, 1, deadline_poll_ms(deadline));
        if (ready < 0 && errno != EINTR)
            return status_fail_native(ACRE_ERR_IO, errno, "store: poll: %s", strerror(errno));
    } while (ready <= 0 && deadline_left_ns(deadline) > 0);
    return ready > 0 ? ACRE_OK
                     : status_fail(ACRE_ERR_TIMEOUT, "store: the server does not answer before "
                                                     "the deadline");
}

static acre_status fail_gone(void)
{
    return status_fail_native(ACRE_ERR_PEER, errno, "store: the other side is gone: %s",
                              errno ? strerror(errno) : "it hung up");
}

acre_status net_send(int fd, const void *data, size_t bytes, int64_t deadline)
{
    for (const char *at = data; bytes > 0;) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            at += sent;
            bytes -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EINTR) {
            acre_status status = wait_ready(fd, POLLOUT, deadline);
            if (status != ACRE_OK)
                return status;
        } else {
            return fail_gone();
        }
    }
    return ACRE_OK;
}

acre_status net_receive(int fd, void *data, size_t bytes, int64_t deadline)
{
    for (char *at = data; bytes > 0;) {
        errno = 0;
        ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
        } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            acre_status status = wait_ready(fd, POLLIN, deadline);
            if (status != ACRE_OK)
                return status;
        } else {
            return fail_gone();
        }
    }
    return ACRE_OK;
}

static acre_status find_address(const char *host, uint16_t port, bool is_server,
                                struct addrinfo **out)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | (is_server ? AI_PASSIVE : 0)};
    char service[8];

    snprintf(service, sizeof service, "%u", port);
    int error = getaddrinfo(host ? host : "127.0.0.1", service, &hints, out);
    if (error == 0)
        return ACRE_OK;
    return status_fail(ACRE_ERR_IO, "store: host \"%s\" is not known: %s", host,
                       gai_strerror(error));
}

/* What is wrong here, and not at the other side: waiting for that one does not help. */
static bool is_own_limit(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* One attempt at one address; -1 and errno on failure. */
static int connect_once(const struct addrinfo *address, int64_t deadline)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0, one = 1;
    socklen_t length = sizeof error;

    if (fd < 0)
        return -1;
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) {
        if (errno == EINPROGRESS && wait_ready(fd, POLLOUT, deadline) == ACRE_OK &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0)
            errno = error;
        else if (errno == EINPROGRESS)
            errno = ETIMEDOUT;
        if (errno != 0) {
            error = errno;
            close(fd);
            errno = error;
            return -1;
        }
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

acre_status net_connect(const char *host, uint16_t port, int64_t deadline, int *out_fd)
{
    struct addrinfo *addresses;
    int64_t pause = NS_PER_MS;
    int fd = -1;
    acre_status status = find_address(host, port, false, &addresses);

    if (status != ACRE_OK)
        return status;
    for (;;) {
        for (struct addrinfo *it = addresses; it && fd < 0; it = it->ai_next)
            fd = connect_once(it, deadline);
        if (fd >= 0 || is_own_limit(errno) || deadline_left_ns(deadline) <= pause)
            break;
        nanosleep(&(struct timespec){0, (long)pause}, NULL);
        pause = pause < 100 * NS_PER_MS ? pause * 2 : pause;
    }
    if (fd < 0 && is_own_limit(errno))
        status = status_fail_native(ACRE_ERR_LIMIT, errno, "store: no socket for %s:%u: %s", host,
                                    port, strerror(errno));
    else if (fd < 0)
        status = status_fail_native(ACRE_ERR_TIMEOUT, errno, "store: nobody answers at %s:%u: %s",
                                    host, port, strerror(errno));
    else
        *out_fd = fd;
    freeaddrinfo(addresses);
    return status;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/* Binds and listens; the port comes back. */
static int listen_at(const struct addrinfo *address, uint16_t *out_port)
{
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    int one = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, 512) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &length) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    *out_port = ntohs(bound.ss_family == AF_INET ? ((struct sockaddr_in *)&bound)->sin_port
                                                 : ((struct sockaddr_in6 *)&bound)->sin6_port);
    return fd;
}

acre_status net_listen(const char *host, uint16_t port, int *out_fd, uint16_t *out_port,
                       bool *out_loopback)
{
    struct addrinfo *addresses;
    int fd = -1;
    acre_status status = find_address(host, port, true, &addresses);

    if (status != ACRE_OK)
        return status;
    for (struct addrinfo *it = addresses; it && fd < 0; it = it->ai_next) {
        fd = listen_at(it, out_port);
        *out_loopback = is_loopback(it->ai_addr);
    }
    if (fd < 0)
        status = status_fail_native(ACRE_ERR_IO, errno, "store: cannot listen on %s:%u: %s",
                                    host ? host : "127.0.0.1", port, strerror(errno));
    else
        *out_fd = fd;
    freeaddrinfo(addresses);
    return status;
}
