/* SPDX-License-Identifier: MIT */
/* Memory of other processes: how a handle becomes addresses of a device, and back.
 * opened.c counts who has a handle open. */
#ifndef SRC_CACHE_IMPORT_H
#define SRC_CACHE_IMPORT_H

#include "cache/share/shares.h"

#include <acre/base.h>

struct acre_device;

/* What was opened. */
struct import {
    struct acre_device *device;
    char *base;
    uint64_t bytes;
    /* Of pages only; otherwise 0 and NULL. */
    uint64_t page_bytes;
    uint64_t page_count;
    void **pages;   /* physical handles */
    int connection; /* to the exporter, kept while it is open; -1 for plain */
};

/* Whether bytes look like a handle: their length, version and kind. Gives the kind.
 * Errors: ACRE_ERR_FORMAT. */
acre_status import_check(const uint8_t *handle, size_t bytes, char *out_kind);

/* Opens a handle that passed the check. Errors: as acre_share_open(). */
acre_status import_open(struct acre_device *device, const uint8_t *handle, size_t bytes,
                        struct import *out);

/* Closes it; no work that is queued may touch it. On failure it is still open. */
acre_status import_close(struct import *import);

#endif
