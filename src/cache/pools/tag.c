/* SPDX-License-Identifier: MIT */
/* Tags of private pools, by which several sleep and wake together. */
#include "cache/cache.h"

#include "base/status.h"
#include "cache/pools/sleep.h"

#include <acre/sleep.h>

#include <string.h>

acre_status acre_pool_tag_set(acre_cache *cache, acre_pool_id id, const char *tag)
{
    struct private_pool *found = NULL;

    if (!cache || (tag && strlen(tag) >= ACRE_TAG_BYTES))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_pool_tag_set: a cache is needed, and %d characters at most",
                           ACRE_TAG_BYTES - 1);
    if (pool_id_equal(id, (acre_pool_id){0}))
        return status_fail(ACRE_ERR_INVALID, "acre_pool_tag_set: the shared pool has no tag");
    quick_lock_take(&cache->lock);
    acre_status status = sleep_find_locked(cache, id, &found);
    if (status == ACRE_OK)
        strcpy(found->tag, tag ? tag : "");
    quick_lock_drop(&cache->lock);
    return status;
}

acre_status acre_pool_tag_get(acre_cache *cache, acre_pool_id id, char buffer[ACRE_TAG_BYTES])
{
    struct private_pool *found = NULL;

    if (!cache || !buffer)
        return status_fail(ACRE_ERR_INVALID, "acre_pool_tag_get: an argument is NULL");
    quick_lock_take(&cache->lock);
    acre_status status = sleep_find_locked(cache, id, &found);
    if (status == ACRE_OK)
        memcpy(buffer, found->tag, ACRE_TAG_BYTES);
    quick_lock_drop(&cache->lock);
    return status;
}
