/* SPDX-License-Identifier: MIT */
/* Where page-locked memory comes from: the backend's own, or plain pages that are
 * placed, touched and then registered with it. Called without a lock. */
#ifndef SRC_PINNED_SOURCE_H
#define SRC_PINNED_SOURCE_H

#include "pinned/host_block.h"

#include <acre/base.h>

struct acre_device;

/* How to get it. */
struct source_wish {
    enum source_method method; /* SOURCE_ALLOC or SOURCE_REGISTER     */
    unsigned threads;          /* that touch pages to be registered   */
    int node;                  /* memory node, -1: no preference      */
};

/* Obtains memory, page-aligned. Errors: ACRE_ERR_HOST_MEMORY, what the backend says. */
acre_status source_get(struct acre_device *device, const struct source_wish *wish, size_t bytes,
                       void **out);
/* Gives it back; a SOURCE_RESERVE is the owner's. Errors: what the backend says; own
 * pages that stay registered stay mapped, too. */
acre_status source_put(struct acre_device *device, enum source_method method, void *base,
                       size_t bytes);

#endif
