/* SPDX-License-Identifier: MIT */
/* What a snapshot is made of, copied at one moment: layout, history and options of a cache.
 *
 * Turning it into a snapshot, and writing that, is the business of libacre_tools; the runtime only
 * hands the copies out.
 */
#ifndef SRC_CACHE_OBSERVE_SNAPSHOT_PARTS_H
#define SRC_CACHE_OBSERVE_SNAPSHOT_PARTS_H

#include "cache/conf.h"

#include <acre/history.h>

/* Makes parts that own layout and history, either of which may be NULL for want of memory; conf
 * NULL: without options. NULL, with everything freed, when anything is missing. */
acre_snapshot_parts *snapshot_parts_create(acre_cache_layout *layout, acre_history *history,
                                           const struct cache_conf *conf, const char *conf_text);

/* Writes the snapshot that option snapshot_on_oom asks for; call it without a lock. A failure is
 * said in the log and nowhere else. */
void snapshot_on_oom(acre_cache *cache);

#endif
