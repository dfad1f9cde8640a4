/* SPDX-License-Identifier: MIT */
#include "bind/torch_retry.h"

#include "alloc/later.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct refused {
    acre_cache *cache;
    acre_allocator *allocator; /* of that cache */
    void *pointer;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct refused *items; /* lock; never ended, like the caches */
static size_t capacity;       /* lock                               */
static _Atomic size_t count;  /* written under lock                 */

static bool retry_add(const struct refused *item)
{
    bool is_noted = true;

    pthread_mutex_lock(&lock);
    if (count == capacity) {
        struct refused *larger = realloc(items, (2 * capacity + 8) * sizeof *larger);

        is_noted = larger != NULL;
        if (is_noted) {
            items = larger;
            capacity = 2 * capacity + 8;
        }
    }
    if (is_noted)
        items[count++] = *item;
    pthread_mutex_unlock(&lock);
    return is_noted;
}

bool retry_free(acre_cache *cache, acre_allocator *allocator, void *pointer)
{
    acre_status status = acre_cache_free(cache, pointer);

    if (status != ACRE_ERR_STATE && later_may(status) &&
        retry_add(&(struct refused){cache, allocator, pointer}))
        return true;
    return status == ACRE_OK || later_free(allocator, pointer, status);
}

void retry_all(void)
{
    if (!atomic_load_explicit(&count, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        acre_status status = acre_cache_free(items[i].cache, items[i].pointer);

        if (status != ACRE_ERR_STATE && later_may(status))
            items[kept++] = items[i];
        else if (status != ACRE_OK)
            later_free(items[i].allocator, items[i].pointer, status);
    }
    count = kept;
    pthread_mutex_unlock(&lock);
}

void retry_fork(bool is_before)
{
    if (is_before)
        pthread_mutex_lock(&lock);
    else
        pthread_mutex_unlock(&lock);
}
