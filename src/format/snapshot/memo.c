/* SPDX-License-Identifier: MIT */
#include "format/snapshot/memo.h"

#include "base/heap.h"
#include "format/array.h"

void memo_fini(struct memo *memo)
{
    for (size_t i = 0; i < memo->page_count; i++)
        heap_free(memo->pages[i].values);
    heap_free(memo->pages);
    *memo = (struct memo){.pages = NULL};
}

/* Keeps only the steps of a full page, if it has any; gives the values that it no longer needs,
 * or NULL. */
static uint64_t *page_close(struct memo_page *page)
{
    uint64_t *values = page->values;

    for (size_t i = 0; i < 2; i++) {
        page->first[i] = values[i];
        page->step[i] = values[i + 2] - values[i];
    }
    for (size_t i = 2; i < MEMO_PAGE; i++)
        if (values[i] != values[i - 2] + page->step[i % 2])
            return NULL;
    page->values = NULL;
    return values;
}

acre_status memo_push_page(struct memo *memo, uint64_t item)
{
    acre_status status = ARRAY_ROOM(memo, pages, page, 1);

    if (status != ACRE_OK)
        return status;
    uint64_t *values = memo->page_count ? page_close(&memo->pages[memo->page_count - 1]) : NULL;
    if (!values)
        values = heap_alloc(MEMO_PAGE * sizeof *values);
    if (!values)
        return ACRE_ERR_HOST_MEMORY;
    values[0] = item;
    memo->pages[memo->page_count++] = (struct memo_page){.values = values};
    memo->count++;
    return ACRE_OK;
}

acre_status memo_set(struct memo *memo, uint64_t index, uint64_t item)
{
    struct memo_page *page = &memo->pages[index / MEMO_PAGE];

    if (!page->values) {
        uint64_t *values = heap_alloc(MEMO_PAGE * sizeof *values);
        if (!values)
            return ACRE_ERR_HOST_MEMORY;
        for (size_t i = 0; i < MEMO_PAGE; i++)
            values[i] = page->first[i % 2] + i / 2 * page->step[i % 2];
        page->values = values;
    }
    page->values[index % MEMO_PAGE] = item;
    return ACRE_OK;
}
