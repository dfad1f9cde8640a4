/* SPDX-License-Identifier: MIT */
/* What a driver backend has handed out and not taken back.
 *
 * Drivers trust their callers: a wrong address or handle may be refused, ignored
 * or fatal. The table of a backend promises that only an exact base is freed and
 * that a pointer tells its allocation, so ranges are kept by address, and our own
 * objects (physical memory, multicast, graphs) by their address too.
 *
 *   begin: books_init    ranges and objects are empty
 *   ...    put and take  in any order, from any thread
 *   end:   books_fini    forgets all; the driver's side is the caller's business
 *
 * The lock is inside, is a leaf, and is never held while the driver is called:
 * what is to be freed is taken out first. The settle calls end that: they forget
 * it, or put it back if the driver refuses, for which nothing has to be had.
 */
#ifndef SRC_DRIVER_BOOKS_H
#define SRC_DRIVER_BOOKS_H

#include "base/lock.h"
#include "base/ptrmap.h"
#include "base/rbtree.h"

#include <acre/backend.h>

enum range_origin {
    RANGE_ALLOC,      /* memory of the device                     */
    RANGE_HOST,       /* page-locked memory                       */
    RANGE_REGISTERED, /* memory of the caller, page-locked by us  */
    RANGE_RESERVED,   /* addresses for mapping                    */
    RANGE_OPENED,     /* memory of another process                */
    RANGE_POOLED,     /* memory of a stream-ordered pool          */
};

struct book_range {
    struct rbnode node;
    uintptr_t base;
    size_t bytes;
    void *native;             /* what the driver called it; not below base less the alignment */
    int device;               /* -1 for host memory                                         */
    enum range_origin origin;
    unsigned open_count;      /* of RANGE_OPENED: how often                                 */
    struct book_range *entry; /* of a copy: what was taken out; NULL: it is in the books    */
};

/* Kinds of objects. */
enum object_kind { OBJECT_MEMORY, OBJECT_MULTICAST, OBJECT_GRAPH, OBJECT_GREEN };

/* The first member of every object. */
struct object {
    enum object_kind kind;
    void (*fini)(struct object *object); /* frees what it holds, or NULL */
};

struct books {
    struct lock lock;
    struct rbtree ranges;   /* of struct book_range by base; they never overlap */
    struct ptrmap objects;  /* address of a struct object to itself        */
    size_t taken_count;     /* objects taken out and not settled: the map has room for them */
};

void books_init(struct books *books);
/* Frees what is still in the books, objects with heap_free. */
void books_fini(struct books *books);

/* Enters a copy of a range. Errors: ACRE_ERR_EXISTS (it overlaps one that is
 * there), ACRE_ERR_HOST_MEMORY. An opened range that is there counts again. */
acre_status books_put(struct books *books, const struct book_range *range);
/* Takes out the range with that exact base and origin, of that device unless it is
 * host memory; out gets a copy, for books_range_settle. An opened range stays while
 * it is open elsewhere; out->open_count tells how often. Errors: ACRE_ERR_INVALID. */
acre_status books_take(struct books *books, enum range_origin origin, int device,
                       const void *base, struct book_range *out);
/* After a take: ACRE_OK forgets the range, all else puts it back. Returns status. */
acre_status books_range_settle(struct books *books, const struct book_range *taken,
                               acre_status status);
/* The range around a pointer. */
bool books_find(struct books *books, const void *pointer, struct book_range *out);

/* Any range, for those that empty the books. */
bool books_any(struct books *books, struct book_range *out);

/* Objects, which belong to the caller until books_fini. Errors of put:
 * ACRE_ERR_HOST_MEMORY; of the others: ACRE_ERR_INVALID (not one of that kind). */
acre_status books_object_put(struct books *books, struct object *object);
acre_status books_object_check(struct books *books, enum object_kind kind, const void *object);
acre_status books_object_take(struct books *books, enum object_kind kind, const void *object);
/* After a take: ACRE_OK frees the object, all else puts it back. Returns status. */
acre_status books_object_settle(struct books *books, struct object *object, acre_status status);

/* How much is in the books, for tests. */
void books_count(struct books *books, uint64_t *out_ranges, uint64_t *out_objects);

#endif
