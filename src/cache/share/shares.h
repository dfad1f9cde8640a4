/* SPDX-License-Identifier: MIT */
/* Blocks of a cache that other processes may open.
 *
 * A share is the hold (deferred.h) of one exported block: it has the handle that
 * users pass on, and knows how many processes have it open.
 *
 *            export                 free               nobody has it open
 *   block ───────────► offered ──────────────► revoked ───────────────────► gone
 *                         │ free, nobody has it open                          ▲
 *                         └───────────────────────────────────────────────────┘
 *
 * Two kinds. Plain: a handle of the device (ipc_export) of the whole segment.
 * Pages: an offer of this process's service with one descriptor per page.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_SHARES_H
#define SRC_CACHE_SHARES_H

#include "base/process/wire.h"
#include "cache/deferred.h"

/* A handle: version, kind, and 64 bytes. */
#define SHARE_HANDLE_BYTES (2 + WIRE_TICKET_BYTES)
#define SHARE_VERSION 3
#define SHARE_PLAIN 'c' /* the 64 bytes are the device's            */
#define SHARE_PAGES 'p' /* the 64 bytes are a ticket of the service */

struct service;
struct offer;

struct shares {
    struct list list;        /* of struct share                        */
    struct service *service; /* held from the first export on; or NULL */
};

struct share {
    struct hold hold;
    struct list link;             /* in shares.list                              */
    struct acre_device *device;
    const char *first;            /* the address that opening gives over there   */
    struct offer *offer;          /* of pages; NULL: plain                       */
    void **pages;                 /* physical handles; owned, what they name not */
    bool is_counted;              /* whether the device counts users             */
    uint8_t handle[SHARE_HANDLE_BYTES];
};

/* What a share of pages says about itself to importers. */
struct share_note {
    char kind[8];
    uint64_t page_bytes;
    uint64_t page_count;
};
#define SHARE_NOTE_KIND "acre-vm"

void shares_init(struct shares *shares);
/* Ends shares that are left. */
void shares_fini(struct shares *shares);
/* Says in the log what other processes still have open. */
void shares_warn(const struct shares *shares);

/* Shares the plain allocation at base.
 * Errors: ACRE_ERR_UNSUPPORTED, ACRE_ERR_HOST_MEMORY, what the device answers. */
acre_status share_create_plain(struct shares *shares, struct acre_device *device, void *base,
                               struct share **out);

/* Pages that are mapped one after another. */
struct share_pages {
    const void *first;    /* address of the first                    */
    void *const *handles; /* count of them, copied; they must stay until the share ends */
    uint64_t count, page_bytes;
};

/* Shares pages.
 * Errors: ACRE_ERR_UNSUPPORTED, ACRE_ERR_LIMIT, ACRE_ERR_HOST_MEMORY, ACRE_ERR_IO. */
acre_status share_create_pages(struct shares *shares, struct acre_device *device,
                               const struct share_pages *pages, struct share **out);

/* Ends a share that no block has. */
void share_destroy(struct share *share);

/* The share of a live block, or NULL. */
struct share *share_of(const struct block *block);

/* How many processes have it open. Errors: ACRE_ERR_UNSUPPORTED (the device does
 * not count). */
acre_status share_users(const struct share *share, uint64_t *out_count);

#endif
