/* SPDX-License-Identifier: MIT */
/* Sockets of stores: finding addresses, and bytes that come by a deadline or not at all. */
#ifndef SRC_SYMM_NET_H
#define SRC_SYMM_NET_H

#include <acre/base.h>

#include <stdbool.h>

/* Sends or receives exactly the given number of bytes on a socket, non-blocking or not.
 * Errors: ACRE_ERR_TIMEOUT, ACRE_ERR_PEER (the other side hung up or is gone). */
acre_status net_send(int fd, const void *data, size_t bytes, int64_t deadline);
acre_status net_receive(int fd, void *data, size_t bytes, int64_t deadline);

/* A connected socket. Tries again until the deadline while nobody listens. */
acre_status net_connect(const char *host, uint16_t port, int64_t deadline, int *out_fd);
/* A listening socket; host NULL is the loopback address. Gives the port and whether the
 * address is a loopback one. */
acre_status net_listen(const char *host, uint16_t port, int *out_fd, uint16_t *out_port,
                       bool *out_loopback);

#endif
