/* SPDX-License-Identifier: MIT */
/* Which device reaches whose memory.
 *
 * A byte per ordered pair: -1 unknown, 0 no, 1 yes and enabled. Known pairs are
 * read without the lock; the lock makes the driver be asked once.
 */
#include "backend/peer.h"

#include "base/heap.h"
#include "base/lock.h"
#include "base/process/fork.h"
#include "base/status.h"

struct peer_cache {
    struct lock lock; /* held while the driver is asked */
    struct fork_guard fork_guard;
    int count;
    _Atomic signed char reaches[]; /* count x count, row: who reaches */
};

acre_status peer_cache_create(int device_count, struct peer_cache **out)
{
    size_t count = (size_t)device_count;
    struct peer_cache *cache = heap_zalloc(sizeof *cache + count * count);

    if (!cache)
        return ACRE_ERR_HOST_MEMORY;
    lock_init(&cache->lock, RANK_RUNTIME, "peers");
    fork_guard_lock(&cache->fork_guard, &cache->lock);
    cache->count = device_count;
    for (size_t i = 0; i < count * count; i++)
        atomic_init(&cache->reaches[i], i / count == i % count ? 1 : -1);
    *out = cache;
    return ACRE_OK;
}

void peer_cache_destroy(struct peer_cache *cache)
{
    if (!cache)
        return;
    fork_guard_end(&cache->fork_guard);
    lock_fini(&cache->lock);
    heap_free(cache);
}

/* Asks the driver about a pair, and enables it when the answer is yes. */
static acre_status peer_ask(acre_backend *backend, int device, int other, bool *out)
{
    acre_status status;
    bool can = false;

    if (!device_has(&backend->devices[device], ACRE_CAP_PEERS)) {
        *out = false;
        return ACRE_OK;
    }
    status = backend->ops.peer_query(backend->self, device, other, &can);
    if (status == ACRE_OK && can)
        status = backend->ops.peer_enable(backend->self, device, other);
    if (status == ACRE_OK)
        *out = can;
    return status;
}

acre_status peer_reaches(acre_backend *backend, int device, int other, bool *out)
{
    struct peer_cache *cache = backend->peers;
    acre_status status = ACRE_OK;
    _Atomic signed char *known;
    bool can;

    if (device < 0 || device >= cache->count || other < 0 || other >= cache->count)
        return status_fail(ACRE_ERR_RANGE,
                           "peer access of device %d to device %d: backend \"%s\" has [0, %d)",
                           device, other, backend->name, cache->count);
    known = &cache->reaches[device * cache->count + other];
    if (atomic_load_explicit(known, memory_order_acquire) < 0) {
        lock_take(&cache->lock);
        if (atomic_load_explicit(known, memory_order_relaxed) < 0) {
            status = peer_ask(backend, device, other, &can);
            if (status == ACRE_OK)
                atomic_store_explicit(known, can ? 1 : 0, memory_order_release);
        }
        lock_drop(&cache->lock);
    }
    if (status == ACRE_OK)
        *out = atomic_load_explicit(known, memory_order_acquire) == 1;
    return status;
}
