/* SPDX-License-Identifier: MIT */
/* A map from addresses to pointers, for slow paths.
 *
 * Open addressing with linear probing. Taking an entry out moves later ones
 * back instead of leaving a mark, so lookups never degrade. At most three
 * quarters of the slots are used. Keys are not NULL and are never read.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_BASE_PTRMAP_H
#define SRC_BASE_PTRMAP_H

#include <acre/base.h>

#include <stdbool.h>

struct ptrmap_entry {
    const void *key; /* NULL: the slot is empty */
    void *value;
};

struct ptrmap {
    struct ptrmap_entry *slots; /* NULL while slot_count is 0 */
    size_t slot_count;          /* 0 or a power of two        */
    size_t count;
};

#define PTRMAP_INITIALIZER {NULL, 0, 0}

void ptrmap_init(struct ptrmap *map); /* takes no memory yet  */
void ptrmap_fini(struct ptrmap *map); /* values are not owned */

/* Sets the value of a key, new or not.
 * Errors: ACRE_ERR_HOST_MEMORY; the map is unchanged then. A key that is there
 * already, and a key put after ptrmap_reserve made room, never fail. */
acre_status ptrmap_put(struct ptrmap *map, const void *key, void *value);
/* Makes room for more further keys. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status ptrmap_reserve(struct ptrmap *map, size_t more);
/* The value of a key, or NULL. */
void *ptrmap_get(const struct ptrmap *map, const void *key);
bool ptrmap_has(const struct ptrmap *map, const void *key);
/* Takes a key out and gives its value, or NULL. */
void *ptrmap_take(struct ptrmap *map, const void *key);

/* Walks all entries in no particular order; *at starts at 0. NULL at the end.
 * The map must not change meanwhile; values may. */
struct ptrmap_entry *ptrmap_next(const struct ptrmap *map, size_t *at);

/* Whether every entry is found from its home slot. */
bool ptrmap_check(const struct ptrmap *map);

#endif
