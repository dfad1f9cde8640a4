/* SPDX-License-Identifier: MIT */
/* Addresses of an expandable segment, and the pages of memory in them.
 *
 *   base                                                         base + bytes
 *   ├───────┬───────┬───────┬───────┬───────┬──────── ─ ─ ─ ─ ──┬───────┤
 *   │ page  │ page  │       │ page  │       │                   │       │
 *   └───────┴───────┴───────┴───────┴───────┴──────── ─ ─ ─ ─ ──┴───────┘
 *     mapped  mapped          mapped          addresses only
 *
 * A page is one physical handle, mapped at one place. Each change of a range
 * either happens whole or not at all, except that unmapping stops at the first
 * page that the device refuses and says how far it came. A page whose undoing
 * failed as well is kept as it is and taken up again when that place is mapped.
 *
 * Whoever unmaps has made sure that no queued work uses the pages.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_EXPAND_H
#define SRC_CACHE_EXPAND_H

#include <acre/backend.h>

struct acre_device;

struct expand_page {
    void *handle;    /* physical memory; meaningful with has_handle            */
    bool has_handle; /* false while mapped: released already, unmapping frees  */
    bool is_mapped;
    bool is_asleep;  /* its place is in use, the page itself is gone or going  */
};

/* A set of devices by index. */
struct expand_peers {
    uint64_t bits[2];
};

struct expand {
    struct acre_device *device;
    char *base;                /* first byte of the addresses                   */
    size_t bytes;              /* how many: whole pages                         */
    size_t page_bytes;
    size_t page_count;         /* bytes / page_bytes                            */
    size_t page_end;           /* pages from here on were never there           */
    uint64_t mapped_bytes;
    uint64_t change_count;     /* so often a page in use got or lost its handle */
    struct expand_page *pages; /* page_count of them                            */
    struct expand_peers peers; /* other devices with access to what is mapped   */
    acre_handle_type type;     /* of the pages; what to try first before one is */
    bool is_type_known;        /* a page of that type was created               */
};

/* Rounds up to whole pages, whose size need not be a power of two. */
static inline size_t expand_round(size_t bytes, size_t page_bytes)
{
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/* Bytes of addresses for a device: an eighth more than its memory, in whole
 * pages. */
size_t expand_span(const struct acre_device *device, size_t page_bytes);

/* Reserves addresses in pages of page_bytes, a multiple of the device's page.
 * type is tried first, then what is weaker: fabric, descriptor, not shareable.
 * Errors: ACRE_ERR_HOST_MEMORY, and those of the device's reserve. */
acre_status expand_create(struct acre_device *device, size_t page_bytes,
                          acre_handle_type type, const struct expand_peers *peers,
                          struct expand **out);

/* Returns the addresses; nothing is mapped. On failure everything stays. */
acre_status expand_destroy(struct expand *expand);

/* Takes all pages out and returns the addresses; what cannot be returned is said
 * in the log. For the end of a cache. */
void expand_abandon(struct expand *expand);

/* Puts pages into [offset, offset + bytes), whole pages none of which is mapped,
 * for the device and all peers. On failure nothing has changed. */
acre_status expand_map(struct expand *expand, size_t offset, size_t bytes);

/* Takes pages out of [offset, offset + bytes), whole pages all of which are
 * mapped, from the front on. out_bytes tells how many bytes are out, also when
 * a page could not be. */
acre_status expand_unmap(struct expand *expand, size_t offset, size_t bytes,
                         size_t *out_bytes);

/* ---- Sleep: all pages go and come back, at the same places --------------------------
 *
 *             expand_doze               expand_sleep
 *   MAPPED ──────────────► unmapped ───────────────────► no memory
 *     ▲                    memory kept                       │
 *     │ expand_awake                       expand_wake       │
 *     └─────────────────── mapped, still marked ◄────────────┘
 *                              └── expand_unwake ──► no memory
 */

/* Takes all pages out and keeps their memory. On failure some are out, and expand_wake brings
 * them back with all their contents, as long as it does not fail either. */
acre_status expand_doze(struct expand *expand);
/* Gives up the memory of pages that were taken out. What the device refuses stays
 * and is used again for waking. */
void expand_sleep(struct expand *expand);
/* Puts pages where some are asleep; they stay marked. On failure nothing changed. */
acre_status expand_wake(struct expand *expand);
/* Takes them out again. */
void expand_unwake(struct expand *expand);
/* Ends the sleep. */
void expand_awake(struct expand *expand);
/* Bytes that are asleep and take no memory. */
uint64_t expand_asleep_bytes(const struct expand *expand);
/* Bytes that are asleep and not mapped. */
uint64_t expand_out_bytes(const struct expand *expand);

/* Gives another device access to what is mapped and will be. On failure nothing
 * has changed. */
acre_status expand_admit(struct expand *expand, int peer);
/* Undoes that; for undoing, so it does not fail. */
void expand_expel(struct expand *expand, int peer);

bool expand_peers_has(const struct expand_peers *peers, int device);
void expand_peers_add(struct expand_peers *peers, int device);
void expand_peers_remove(struct expand_peers *peers, int device);

/* Whether the sums hold. */
bool expand_check(const struct expand *expand, const char **fact);

#endif
