/* SPDX-License-Identifier: MIT */
/* Descriptors that a child of fork must not keep.
 *
 * A child inherits every descriptor. For most that is harmless; but a connection
 * whose closing tells somebody that a process is done stays open in the child,
 * and a listening socket goes on accepting what nobody answers. Such descriptors
 * are noted here, and a handler of fork closes them in the child.
 *
 * Noting takes no lock, so the child finds the table in a usable state whatever
 * the other threads of the parent were doing. A descriptor is taken out before
 * it is closed: the child never closes one that means something else by then.
 */
#ifndef SRC_BASE_FORK_FD_H
#define SRC_BASE_FORK_FD_H

#include <acre/base.h>

/* Notes a descriptor. Errors: ACRE_ERR_LIMIT; the caller
 * still has to close it. */
acre_status fork_fd_note(int fd);

/* Takes it out, when it is in, and closes it. Negative numbers are fine. A connection that was
 * noted ends for the other side at once: also when a child made in this moment still holds
 * it, since that child no longer finds it noted. */
void fork_fd_close(int fd);

#endif
