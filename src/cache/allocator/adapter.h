/* SPDX-License-Identifier: MIT */
/* Caches as allocators: what defaults.c needs beyond the public calls. */
#ifndef SRC_CACHE_ALLOCATOR_ADAPTER_H
#define SRC_CACHE_ALLOCATOR_ADAPTER_H

#include <acre/allocator.h>

#include <stdatomic.h>

/* The place is emptied when the allocator, one that adapter.c made, is destroyed
 * and still stands there. */
void adapter_set_place(acre_allocator *allocator, _Atomic(acre_allocator *) *place);

#endif
