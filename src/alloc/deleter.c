/* SPDX-License-Identifier: MIT */
#include "alloc/deleter.h"

#include "base/check.h"
#include "base/process/fork.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/status.h"

#include <stdatomic.h>

static struct lock owners_lock = LOCK_INITIALIZER(RANK_ALLOCATOR, "deleters");
FORK_GUARD(owners_lock);
/* The allocator that each function belongs to, or NULL; written under owners_lock. */
static _Atomic(struct deleter_owner *) owners[DELETER_COUNT];
static unsigned next_turn; /* where the next search begins; by owners_lock */

static inline void delete_for(unsigned index, void *pointer)
{
    struct deleter_owner *owner = atomic_load_explicit(&owners[index], memory_order_acquire);

    if (UNLIKELY(!pointer))
        return;
    if (UNLIKELY(!owner)) {
        log_line(ACRE_LOG_WARN, "free of %p was ignored: its allocator is gone", pointer);
        return;
    }
    owner->free(owner, pointer);
}

/* One function per owner: delete_0x00 to delete_0xFF. */
/* clang-format off */
#define ROW(X, row)                                                            \
    X(0x##row##0) X(0x##row##1) X(0x##row##2) X(0x##row##3)                    \
    X(0x##row##4) X(0x##row##5) X(0x##row##6) X(0x##row##7)                    \
    X(0x##row##8) X(0x##row##9) X(0x##row##A) X(0x##row##B)                    \
    X(0x##row##C) X(0x##row##D) X(0x##row##E) X(0x##row##F)
#define ALL(X)                                                                 \
    ROW(X, 0) ROW(X, 1) ROW(X, 2) ROW(X, 3) ROW(X, 4) ROW(X, 5) ROW(X, 6)      \
    ROW(X, 7) ROW(X, 8) ROW(X, 9) ROW(X, A) ROW(X, B) ROW(X, C) ROW(X, D)      \
    ROW(X, E) ROW(X, F)

/* clang-format on */
#define DEFINE(index)                                                                              \
    static void delete_##index(void *pointer)                                                      \
    {                                                                                              \
        delete_for(index, pointer);                                                                \
    }
ALL(DEFINE)
#undef DEFINE

#define NAME(index) delete_##index,
static const acre_deleter functions[] = {ALL(NAME)};
#undef NAME
_Static_assert(sizeof functions / sizeof functions[0] == DELETER_COUNT, "one per owner");

acre_status deleter_bind(struct deleter_owner *owner)
{
    acre_status status = ACRE_OK;
    unsigned tried = 0;

    lock_take(&owners_lock);
    while (tried < DELETER_COUNT &&
           atomic_load_explicit(&owners[next_turn], memory_order_relaxed)) {
        next_turn = (next_turn + 1) % DELETER_COUNT;
        tried++;
    }
    if (tried == DELETER_COUNT) {
        status = status_fail(ACRE_ERR_LIMIT,
                             "there are %d allocators of caches already; destroy one first",
                             DELETER_COUNT);
    } else {
        owner->deleter = functions[next_turn];
        atomic_store_explicit(&owners[next_turn], owner, memory_order_release);
        next_turn = (next_turn + 1) % DELETER_COUNT;
    }
    lock_drop(&owners_lock);
    return status;
}

/* The place of a function in the set, or -1. */
static int index_of(acre_deleter deleter)
{
    for (int i = 0; i < DELETER_COUNT; i++)
        if (functions[i] == deleter)
            return i;
    return -1;
}

void deleter_unbind(acre_deleter deleter)
{
    int index = index_of(deleter);

    if (index < 0)
        return;
    lock_take(&owners_lock);
    atomic_store_explicit(&owners[index], NULL, memory_order_release);
    lock_drop(&owners_lock);
}

acre_status deleter_allocator_create(struct deleter_owner *owner, const char *name,
                                     const acre_allocator_ops *ops, void (*destroy)(void *self),
                                     acre_allocator **out)
{
    acre_allocator_desc desc = {
        .struct_size = sizeof desc, .name = name, .ops = ops, .self = owner, .destroy = destroy};
    acre_status status = deleter_bind(owner);

    if (status == ACRE_OK)
        status = acre_allocator_create(&desc, out);
    if (status != ACRE_OK)
        destroy(owner);
    return status;
}

acre_deleter deleter_of_self(void *self)
{
    return ((const struct deleter_owner *)self)->deleter;
}

struct deleter_owner *deleter_owner_of(acre_deleter deleter)
{
    int index = index_of(deleter);

    return index < 0 ? NULL : atomic_load_explicit(&owners[index], memory_order_acquire);
}
