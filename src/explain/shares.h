/* SPDX-License-Identifier: MIT */
/* Groups of live memory as users read them. */
#ifndef SRC_EXPLAIN_SHARES_H
#define SRC_EXPLAIN_SHARES_H

#include "explain/device_state.h"
#include "explain/notes.h"

#include <acre/explain.h>

#define STACK_TEXT_MAX 1024

/* The first max groups of a moment, by stack or by size. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status shares_of_stacks(const struct snapshot *snapshot,
                             const struct device_state *device_state, size_t max,
                             struct notes *notes, const acre_share **out, uint64_t *out_count);
acre_status shares_of_sizes(const struct device_state *device_state, struct notes *notes,
                            const acre_share **out, uint64_t *out_count);
/* What live memory is for; counts are not told. */
acre_status shares_of_categories(const struct device_state *device_state, struct notes *notes,
                                 const acre_share **out, uint64_t *out_count);

/* The first that has a stack, or NULL. */
const acre_share *shares_first_known(const acre_share *shares, uint64_t count);

/* "1 MiB to 2 MiB" for the class of blocks from 2^power bytes on. */
char *shares_size_text(struct notes *notes, uint32_t power);

#endif
