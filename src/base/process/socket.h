/* SPDX-License-Identifier: MIT */
/* Local sockets between processes of one user: messages with descriptors.
 *
 * A socket has an abstract name made of 16 random bytes, so there is no file to
 * leave behind and the name goes with the process. Messages keep their bounds.
 */
#ifndef SRC_BASE_SOCKET_H
#define SRC_BASE_SOCKET_H

#include "base/process/wire.h"

#include <stdbool.h>

/* Listens under a name; does not block. Errors: ACRE_ERR_LIMIT, ACRE_ERR_IO. */
acre_status socket_listen(const uint8_t name[WIRE_RANDOM_BYTES], int *out_fd);

/* Connects to a name; every later call on it waits at most wait_ms.
 * Errors: ACRE_ERR_PEER (nobody listens there), ACRE_ERR_TIMEOUT, ACRE_ERR_LIMIT,
 * ACRE_ERR_IO. */
acre_status socket_connect(const uint8_t name[WIRE_RANDOM_BYTES], int wait_ms, int *out_fd);

/* Whether the process at the other end is of this process's user. */
bool socket_is_own_user(int fd);

/* Sends one message with descriptors, WIRE_BATCH at most; 0 or an errno. */
int socket_send(int fd, const void *message, size_t bytes, const int *fds, int fd_count);

/* Receives one message of at most capacity bytes with its descriptors, which are
 * the caller's to close and not inherited by programs it starts.
 * Errors: ACRE_ERR_PEER (closed), ACRE_ERR_TIMEOUT, ACRE_ERR_FORMAT (longer than
 * that, or with too many descriptors), ACRE_ERR_LIMIT (no room for a descriptor),
 * ACRE_ERR_IO. */
acre_status socket_receive(int fd, void *message, size_t capacity, size_t *out_bytes,
                           int fds[WIRE_BATCH], size_t *out_fd_count);

#endif
