/* SPDX-License-Identifier: MIT */
/* The stack that a thread gathered before it took a lock, for what it records next.
 *
 * One per thread for all allocators that record: the library is also loaded by dlopen,
 * where the system has little room for what threads have of their own.
 */
#ifndef SRC_CACHE_GATHERED_H
#define SRC_CACHE_GATHERED_H

#include <acre/history.h>

struct pending_stack {
    const void *owner; /* whose it is; NULL: nothing there */
    size_t count;
    void *object; /* instead of frames, with a reference; or NULL */
    acre_context_objects objects; /* whose it is                  */
    uint64_t frames[ACRE_STACK_MAX];
};

extern _Thread_local struct pending_stack pending_stack;

/* Gathers for an owner, without any lock held; objects may be NULL. */
void pending_stack_take(const void *owner, const acre_context_source *source,
                        const acre_context_objects *objects);

/* What was gathered is not needed any more. */
void pending_stack_end(void);

#endif
