/* SPDX-License-Identifier: MIT */
/* History of a plug-in without a cache: one per device, made when first asked for.
 *
 * Each allocation is a segment of its own: it enters the history as segment_alloc and
 * alloc, and leaves it as free_requested, free_completed and segment_free.
 */
#ifndef SRC_CACHE_PLUG_HISTORY_H
#define SRC_CACHE_PLUG_HISTORY_H

#include "alloc/pluggable.h"

/* What is live on a device and what was recorded, of one moment; of nothing recorded, an
 * empty history. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status plug_history_moment(struct plug *plug, int device, acre_cache_layout **out_layout,
                                acre_history **out_history);

#endif
