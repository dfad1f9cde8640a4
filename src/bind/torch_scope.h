/* SPDX-License-Identifier: MIT */
/* Scopes of pools that PyTorch opens, with the filters it gives for them. */
#ifndef SRC_BIND_TORCH_SCOPE_H
#define SRC_BIND_TORCH_SCOPE_H

#include <acre/pool.h>

/* Opens a scope whose filter is a copy of a C++ function (alloc/cxx_filter.h), or
 * NULL: all. The first for a pool makes the pool. Each adds one use, which
 * acre_torch_release_pool drops: PyTorch calls that once for every graph that was
 * captured into the pool and for every use_mem_pool(). out_has_use tells whether the use was
 * added, also on failure. Errors: ACRE_ERR_LIMIT (64 scopes are open), those of acre_pool_create
 * and acre_pool_begin. */
acre_status torch_scope_begin(acre_cache *cache, int device, acre_pool_id id, const void *filter,
                              bool *out_has_use);
/* Ends it; nothing, when the last begin of the thread for that pool failed. Errors: those of
 * acre_pool_end. */
acre_status torch_scope_end(acre_cache *cache, int device, acre_pool_id id);

/* Remembers a begin that failed and of which PyTorch is not told, so that the end and the release
 * that it makes for it do nothing either; the release drops the use that was added, if any. */
void torch_scope_miss(int device, acre_pool_id id, bool has_use);
/* Whether a release is the one of a begin that failed, which is forgotten then. */
bool torch_scope_forgive(int device, acre_pool_id id);

/* Holds all scopes around a fork, and lets them go. */
void torch_scope_fork(bool is_before);

#endif
