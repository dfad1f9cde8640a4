/* SPDX-License-Identifier: MIT */
/* Writes a snapshot as PyTorch does: a pickle of protocol 4 with the same keys, which
 * opens in Python and in PyTorch's own viewer. Texts, frames and stacks are written
 * once and referred to from then on. */
#ifndef SRC_FORMAT_PICKLE_WRITE_H
#define SRC_FORMAT_PICKLE_WRITE_H

#include "format/sink.h"
#include "format/snapshot/snapshot.h"

/* Errors: ACRE_ERR_HOST_MEMORY; those of writing stay in the sink. */
acre_status pickle_write(const struct snapshot *snapshot, struct sink *sink);

#endif
