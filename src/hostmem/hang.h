/* SPDX-License-Identifier: MIT */
/* Moving pages between addresses of a heap, without copying: mremap hangs them in at the new place,
 * and the old addresses stay mapped without pages (MREMAP_DONTUNMAP).
 *
 * The kernel unmaps the new place first and may refuse afterwards, which leaves a hole in a block:
 *
 *   a source of several mappings, before Linux 6.17     it is asked about first
 *   limits on addresses below what is mapped already    they are looked at first
 *   strict accounting, when memory runs out             nothing is moved under it
 *   no memory of the kernel itself, or a limit that     the hole is mapped again
 *   another thread has lowered meanwhile
 *
 * Until it is, another thread may get addresses of the hole from the kernel: the block and that
 * thread would then share them. Only the last line leaves that open, and a process whose kernel
 * has no memory for a few hundred bytes is about to be ended.
 */
#ifndef SRC_HOSTMEM_HANG_H
#define SRC_HOSTMEM_HANG_H

#include <stdbool.h>
#include <stddef.h>

/* Whether limits, which may have been lowered below what is mapped, leave room for a page. To be
 * asked before some moves: two system calls, a fifth of what a move takes. */
bool hang_has_room(void);

/* Moves whole pages; both places are the caller's, private and anonymous. False: they stay where
 * they are, and what the new place held may be gone. */
bool pages_hang(char *from, char *to, size_t bytes);

#endif
