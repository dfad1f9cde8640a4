/* SPDX-License-Identifier: MIT */
/* The ring: requests to the kernel by io_uring. Without liburing at build time there is
 * none, and ring_create() says so. */
#ifndef SRC_EXCHANGE_RING_H
#define SRC_EXCHANGE_RING_H

#include "exchange/io.h"

/* Errors: ACRE_ERR_UNSUPPORTED (not built in, or refused by the system),
 * ACRE_ERR_HOST_MEMORY. */
acre_status ring_create(unsigned depth, struct io_ring **out);
void ring_destroy(struct io_ring *ring); /* NULL is fine */

bool ring_fix(struct io_ring *ring, void *base, size_t bytes);

/* 0, or -errno when it could not be started; then nothing is under way. */
int ring_start(struct io_ring *ring, int fd, const struct io_request *request);
struct io_result ring_finish(struct io_ring *ring);

/* For tests: from now on the kernel takes no request, or does again. */
void ring_refuse(bool refuse);

#endif
