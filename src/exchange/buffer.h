/* SPDX-License-Identifier: MIT */
/* Device memory that is open to the host for transfers in place: one table for the
 * process. A transfer uses an entry, and an entry in use stays. */
#ifndef SRC_EXCHANGE_BUFFER_H
#define SRC_EXCHANGE_BUFFER_H

#include <acre/file.h>

struct buffer;

/* The entry that holds all of the memory, counted as in use, or NULL. */
struct buffer *buffer_use(const acre_device *device, const void *memory, size_t bytes);
void buffer_unuse(struct buffer *buffer); /* NULL is fine */

#endif
