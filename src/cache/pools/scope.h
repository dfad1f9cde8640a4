/* SPDX-License-Identifier: MIT */
/* A scope: for as long as it is open, allocations that pass its filter come from
 * its private pool. Scopes of a cache are kept newest first; the first that
 * passes serves.
 *
 * Filters that are functions of the user are called by the owner, without a
 * lock; scope_match stops at them. Numbers grow with every scope, so that the
 * owner can go on where it stopped although scopes came and went meanwhile.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_SCOPE_H
#define SRC_CACHE_SCOPE_H

#include "cache/pools/private_pool.h"

struct scope {
    struct list link;          /* in the cache's list, newest first         */
    struct private_pool *pool; /* it has one use of it                      */
    acre_pool_filter filter;
    uint64_t thread;           /* number of the thread that began it        */
    uint64_t number;           /* grows, never reused                       */
};

/* A number for the calling thread: not 0, never that of another one. */
uint64_t thread_number(void);

/* A scope of a pool for the calling thread; NULL: no host memory. */
struct scope *scope_create(struct private_pool *pool, const acre_pool_filter *filter);
/* Takes a scope out of its list and frees it; the use is the caller's. */
void scope_destroy(struct scope *scope);

/* The open scope of a pool, or NULL. */
struct scope *scope_find(const struct list *scopes, const struct private_pool *pool);

enum scope_answer {
    SCOPE_NO,
    SCOPE_YES,
    SCOPE_ASK,     /* the filter is a function of the user          */
    SCOPE_CAPTURE, /* it depends on what the stream takes part in   */
};

/* Whether an allocation of the calling thread for stream passes. */
enum scope_answer scope_passes(const struct scope *scope, const void *stream);

/* The newest scope with a number below the given one, or NULL. */
struct scope *scope_older(const struct list *scopes, uint64_t number);

/* Whether any open scope may concern allocations of a thread for a stream. */
bool scopes_concern(const struct list *scopes, uint64_t thread, const void *stream);

#endif
