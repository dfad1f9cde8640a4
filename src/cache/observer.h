/* SPDX-License-Identifier: MIT */
/* Lists of functions to be told something, callable without a lock.
 *
 * A list is an immutable, counted array; adding and removing make a new one.
 * A caller takes a reference under the owner's lock, drops the lock and calls
 * what is in there, so an observer may add, remove or free anything meanwhile.
 */
#ifndef SRC_CACHE_OBSERVER_H
#define SRC_CACHE_OBSERVER_H

#include <acre/base.h>

#include <stdatomic.h>

struct observer {
    void (*fn)(void); /* cast to its real type by who calls it */
    void *arg;
};

struct observers {
    _Atomic size_t reference_count;
    size_t count;
    struct observer items[];
};

/* NULL is the empty list, everywhere. Changes of *list need the owner's lock. */
acre_status observers_add(struct observers **list, void (*fn)(void), void *arg);
/* Removes the first that matches. Without memory for a new list nothing is
 * removed and the status says so. */
acre_status observers_remove(struct observers **list, void (*fn)(void), void *arg);
struct observers *observers_hold(struct observers *list);
void observers_drop(struct observers *list);

#endif
