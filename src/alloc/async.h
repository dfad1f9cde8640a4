/* SPDX-License-Identifier: MIT */
/* Stream-ordered allocators: what the default allocators need beyond async.h. */
#ifndef SRC_ALLOC_ASYNC_H
#define SRC_ALLOC_ASYNC_H

#include <acre/async.h>

#include <stdatomic.h>

/* The place is emptied when the allocator, one that async.c made, is destroyed and
 * still stands there. */
void async_set_place(acre_allocator *allocator, _Atomic(acre_allocator *) *place);

#endif
