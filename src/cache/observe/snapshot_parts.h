/* SPDX-License-Identifier: MIT */
/* What a snapshot is made of, copied at one moment: of a cache, or of any allocator that
 * can say as much of itself. snapshot.c makes one of it. */
#ifndef SRC_CACHE_MOMENT_H
#define SRC_CACHE_MOMENT_H

#include "cache/conf.h"

#include <acre/history.h>

struct moment {
    acre_cache_layout *layout; /* owned, like the rest */
    acre_history *history;
    struct cache_conf conf;
    char *conf_text;
};

/* Frees what is there. */
void moment_fini(struct moment *moment);

/* Makes a snapshot with one moment in it, as that of a device. No lock is held: stacks
 * are named. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status moment_snapshot(const struct moment *moment, uint32_t device,
                            const acre_snapshot_choice *choice, acre_snapshot **out);

#endif
