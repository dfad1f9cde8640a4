/* SPDX-License-Identifier: MIT */
/* Exact search for a placement within a capacity. See search.c. */
#ifndef SRC_PLAN_SEARCH_H
#define SRC_PLAN_SEARCH_H

#include "plan/place/section.h"

#include <stdatomic.h>

enum search_result {
    SEARCH_FOUND = 1,   /* offsets hold a placement                      */
    SEARCH_NONE = 0,    /* there is none: every possibility was excluded */
    SEARCH_LIMIT = -1,  /* the nodes were used up, or it was stopped     */
};

/* Ways to search, each better elsewhere; for searches at the same time. */
enum search_style {
    SEARCH_BY_SECTION,  /* the hardest section first; excludes best              */
    SEARCH_BY_FLOOR,    /* the lowest buffer first, with learned ranks           */
    SEARCH_DOWN,        /* as well, but from the seed alone: one of many searches */
    SEARCH_STYLES
};

struct search;

/* Prepares a search over these sections, which must outlive it.
 * Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_LIMIT (too many overlaps). */
acre_status search_create(const struct sections *sections, struct search **out);
void search_destroy(struct search *search); /* NULL is fine */

/* What a piece of work costs, roughly in nanoseconds. */
uint64_t search_work_cost(const struct search *search);

/* Ends runs at a moment (clock.h); 0: never. */
void search_set_deadline(struct search *search, double deadline);

/* What one run looks for, and for how long. */
struct search_task {
    enum search_style style;
    int64_t capacity;
    uint64_t seed;
    const _Atomic uint64_t *limit;
};

/* Looks for offsets within capacity, restarting with other orders, until *limit work was
 * done: a decision by the lowest floor is one, one by section several. Another thread may
 * lower the limit meanwhile. Gives the work done. Equal seeds give equal offsets
 * after the same work, so the search that needs least is a repeatable winner. */
enum search_result search_run(struct search *search, const struct search_task *task,
                              int64_t *offsets, uint64_t *out_work);

#endif
