/* SPDX-License-Identifier: MIT */
/* The memo of a pickle: values by the numbers that the file gives them.
 *
 * Python gives every event a number, and every pool that is written with one, and asks for
 * neither again. Numbers are therefore kept in pages: a full page whose values go up in even
 * steps, in one sequence or in two that alternate, keeps where they begin and nothing more.
 *
 *   values    the page as it is, or NULL: value i is first[i % 2] + i / 2 * step[i % 2]
 *
 * The last page always has values.
 *
 * Not thread-safe.
 */
#ifndef SRC_FORMAT_MEMO_H
#define SRC_FORMAT_MEMO_H

#include <acre/base.h>

#include <stddef.h>

#define MEMO_PAGE ((size_t)512) /* values in a page */

struct memo_page {
    uint64_t *values; /* owned, MEMO_PAGE of them, or NULL */
    uint64_t first[2], step[2];
};

struct memo {
    struct memo_page *pages;
    size_t page_count, page_capacity;
    uint64_t count; /* numbers up to here have a value */
};

void memo_fini(struct memo *memo); /* a zeroed one is fine */

/* Gives the next number, which begins a page. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status memo_push_page(struct memo *memo, uint64_t item);
/* Changes the value of a number below count. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status memo_set(struct memo *memo, uint64_t index, uint64_t item);

/* Gives the next number to a value. Errors: ACRE_ERR_HOST_MEMORY. */
static inline acre_status memo_push(struct memo *memo, uint64_t item)
{
    if (memo->count % MEMO_PAGE == 0)
        return memo_push_page(memo, item);
    memo->pages[memo->page_count - 1].values[memo->count++ % MEMO_PAGE] = item;
    return ACRE_OK;
}

/* The value of a number below count. */
static inline uint64_t memo_get(const struct memo *memo, uint64_t index)
{
    const struct memo_page *page = &memo->pages[index / MEMO_PAGE];
    uint64_t at = index % MEMO_PAGE;

    return page->values ? page->values[at] : page->first[at % 2] + at / 2 * page->step[at % 2];
}

/* Brings what memo_get will read near the processor. */
static inline void memo_prefetch(const struct memo *memo, uint64_t index)
{
    const struct memo_page *page = &memo->pages[index / MEMO_PAGE];

    if (page->values)
        __builtin_prefetch(&page->values[index % MEMO_PAGE]);
}

#endif
