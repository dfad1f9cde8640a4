/* SPDX-License-Identifier: MIT */
/* Stacks whose live memory grows from one moment to the next, all the time.
 *
 * The moments are the starts of iterations, of which there must be at least four. The
 * program may have marked them. Otherwise a stack marks them that allocates evenly through
 * most of the history; in each iteration most of what is allocated must be freed again. The
 * first quarter is not looked at: what is set up once grows there too. State that an
 * optimizer makes is never called growth: it is made once.
 */
#ifndef SRC_EXPLAIN_GROWTH_H
#define SRC_EXPLAIN_GROWTH_H

#include "format/snapshot/snapshot.h"

#define GROWTH_MAX 10
#define GROWTH_MOMENTS 12

struct growth {
    uint32_t stack;
    uint64_t bytes_from, bytes_to, count_from, count_to;
};

/* Gives at most GROWTH_MAX, fastest first.
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status growth_find(const struct snapshot *snapshot, uint32_t device,
                        struct growth found[GROWTH_MAX], size_t *out_count);

#endif
