/* SPDX-License-Identifier: MIT */
/* Private connections between two processes on which descriptors travel.
 *
 * A listener has an abstract name of random bytes, so nothing is left in any folder. Both
 * sides ask the kernel who the other is (SO_PEERCRED). Messages are records with at most two
 * descriptors; one that is too long, cut or carries more is refused and its descriptors are
 * closed. Descriptors that come have close-on-exec set. Nothing here waits without an end.
 */
#ifndef SRC_SYMM_CHANNEL_H
#define SRC_SYMM_CHANNEL_H

#include <acre/base.h>

#include <sys/types.h>

#define CHANNEL_NAME_BYTES 32 /* of the text, with the zero */
#define CHANNEL_FDS 2

/* Listens under a fresh random name, which comes back. */
acre_status channel_listen(char name[CHANNEL_NAME_BYTES], int *out_fd);
/* Connects; the listener must belong to that process and user.
 * Errors: ACRE_ERR_PEER (nobody listens), ACRE_ERR_REJECTED (somebody else does). */
acre_status channel_connect(const char *name, pid_t pid, uid_t uid, int *out_fd);
/* Accepts one connection, or ACRE_ERR_NOT_READY without a recorded failure; tells who. One of
 * another user is hung up at once: ACRE_ERR_REJECTED. */
acre_status channel_accept(int listener, int *out_fd, pid_t *out_pid);

/* Sends a message with count descriptors, which stay the caller's. */
acre_status channel_send(int fd, const void *data, size_t bytes, const int *fds, int count,
                         int64_t deadline);
/* Takes the next message, which has exactly bytes, if it is there: ACRE_ERR_NOT_READY
 * without a recorded failure otherwise. fds are filled with descriptors or -1.
 * Errors: ACRE_ERR_PEER (hung up), ACRE_ERR_FORMAT, ACRE_ERR_LIMIT (no descriptors left here). */
acre_status channel_take(int fd, void *data, size_t bytes, int fds[CHANNEL_FDS]);

#endif
