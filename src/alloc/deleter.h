/* SPDX-License-Identifier: MIT */
/* Deleters that know whose they are.
 *
 * A simple data pointer gives its deleter nothing but the address, and one
 * address may be that of two backends at a time. So each owner, an allocator,
 * has a function of its own out of a fixed set, which remembers the owner:
 *
 *            deleter_bind                    the function is called
 *   unused ───────────────► bound to owner ───────────────────────► owner->free
 *      ▲                        │
 *      └────────────────────────┘ deleter_unbind; calls are then ignored
 *
 * Calling one takes no lock. Functions are used in turn, so that a forgotten
 * pointer of an owner that is gone does not soon reach another one.
 *
 * Threads: all calls may come from any thread; an owner is unbound when nobody
 * calls its deleter any more.
 */
#ifndef SRC_ALLOC_DELETER_H
#define SRC_ALLOC_DELETER_H

#include <acre/allocator.h>

/* Most owners at a time. */
enum { DELETER_COUNT = 256 };

struct deleter_owner {
    void (*free)(struct deleter_owner *owner, void *pointer); /* pointer is not NULL */
    acre_deleter deleter; /* its own while bound; stays as it was after that */
};

/* Sets owner->deleter to one that calls owner->free. Errors: ACRE_ERR_LIMIT. */
acre_status deleter_bind(struct deleter_owner *owner);
/* Ends that; other functions, and one that is not bound, are left alone. */
void deleter_unbind(acre_deleter deleter);

/* Makes an allocator whose self begins with its owner, and binds a deleter to the owner, whose free
 * is set. On failure destroy was called, with the owner. Errors: those of deleter_bind() and
 * acre_allocator_create(). */
acre_status deleter_allocator_create(struct deleter_owner *owner, const char *name,
                                     const acre_allocator_ops *ops, void (*destroy)(void *self),
                                     acre_allocator **out);

/* raw_deleter of an allocator whose self begins with its owner. */
acre_deleter deleter_of_self(void *self);

/* The owner of a deleter of the set, or NULL. */
struct deleter_owner *deleter_owner_of(acre_deleter deleter);

#endif
