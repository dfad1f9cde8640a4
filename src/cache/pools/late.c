/* SPDX-License-Identifier: MIT */
/* See late.h. */
#include "cache/pools/late.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/cache.h"
#include "cache/engine.h"

enum {
    LATE_TRIES = 8, /* so often a pool may wake and fall asleep again right then */
    LATE_PAGE = 62, /* pointers in a page                                        */
};

struct late_page {
    struct late_page *next;
    size_t count;
    void *pointers[LATE_PAGE];
};

static bool has_room(struct late *late)
{
    if (late->pages && late->pages->count < LATE_PAGE)
        return true;
    struct late_page *page = heap_zalloc(sizeof *page);
    if (!page)
        return false;
    page->next = late->pages;
    late->pages = page;
    return true;
}

/* Notes a live block of a sleeping pool. False: it is none, or there is no host memory. */
static bool late_note(acre_cache *cache, void *pointer)
{
    quick_lock_take(&cache->lock);
    const struct block *block = engine_find_locked(cache, pointer);
    bool is_late = block && block->segment && pool_is_asleep(block->pool) && has_room(&cache->late);
    if (is_late)
        cache->late.pages->pointers[cache->late.pages->count++] = pointer;
    quick_lock_drop(&cache->lock);
    return is_late;
}

acre_status late_free(acre_cache *cache, void *pointer, acre_status refusal)
{
    acre_status status = refusal;

    for (int i = 0; i < LATE_TRIES && status == ACRE_ERR_STATE; i++)
        status = late_note(cache, pointer) ? ACRE_OK : acre_cache_free(cache, pointer);
    return status;
}

/* Frees what a page notes. What its pool or the device refuses stays in the page; only what is no
 * block any more is dropped. */
static void page_settle(acre_cache *cache, struct late_page *page)
{
    size_t kept = 0;

    for (size_t i = 0; i < page->count; i++) {
        acre_status status = acre_cache_free(cache, page->pointers[i]);
        if (status != ACRE_OK && status != ACRE_ERR_STATE) /* a pool that sleeps is no failure */
            log_line(ACRE_LOG_ERROR, "free of %p failed: %s", page->pointers[i], acre_last_error());
        if (status != ACRE_OK && status != ACRE_ERR_INVALID)
            page->pointers[kept++] = page->pointers[i];
    }
    page->count = kept;
}

/* Puts a page behind the first, which may have room. False: a pool has woken meanwhile, for which
 * the page was out of sight. */
static bool page_put_back(acre_cache *cache, struct late_page *page, unsigned *settle_count)
{
    quick_lock_take(&cache->lock);
    bool is_same = cache->late.settle_count == *settle_count;
    *settle_count = cache->late.settle_count;
    if (is_same) {
        struct late_page **at = cache->late.pages ? &cache->late.pages->next : &cache->late.pages;
        page->next = *at;
        *at = page;
    }
    quick_lock_drop(&cache->lock);
    return is_same;
}

void late_settle(acre_cache *cache)
{
    struct status_saved before;

    status_save(&before); /* other pools may still refuse */
    quick_lock_take(&cache->lock);
    unsigned settle_count = ++cache->late.settle_count;
    struct late_page *page = cache->late.pages, *next;
    cache->late.pages = NULL;
    quick_lock_drop(&cache->lock);
    for (; page; page = next) {
        bool is_back = false;
        next = page->next;
        page_settle(cache, page);
        while (page->count && !(is_back = page_put_back(cache, page, &settle_count)))
            page_settle(cache, page);
        if (!is_back) /* all are freed */
            heap_free(page);
    }
    status_restore(&before);
}

void late_fini(acre_cache *cache)
{
    for (struct late_page *page = cache->late.pages, *next; page; page = next) {
        next = page->next;
        heap_free(page);
    }
}
