/* SPDX-License-Identifier: MIT */
/* Acre under PyTorch: one cache per device, made when first asked for, never ended,
 * since PyTorch may free until the process does.
 *
 *            choose, once                     cache_of, once per device
 *   nothing ──────────────► a backend, or why not ──────────────► cache
 */
#include "bind/torch.h"

#include "bind/torch_late.h"
#include "bind/torch_scope.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEVICES_MAX = 64 };

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* of caches and the choice  */
static acre_backend *chosen;                               /* by making; NULL: not yet  */
static _Atomic(acre_cache *) caches[DEVICES_MAX];          /* written under making      */

/* Around fork: a child finds the locks free, and no scope half changed. */
static void fork_prepare(void)
{
    pthread_mutex_lock(&making);
    torch_scope_fork(true);
    late_fork(true);
}

static void fork_done(void)
{
    late_fork(false);
    torch_scope_fork(false);
    pthread_mutex_unlock(&making);
}

__attribute__((constructor)) static void torch_begin(void)
{
    pthread_atfork(fork_prepare, fork_done, fork_done);
}

/* The backend whose devices are used: the one ACRE_BACKEND names, else the first
 * whose memory PyTorch's kernels can use and that has devices here, else the
 * reference device. */
static acre_status torch_choose(acre_backend **out)
{
    static const char *const names[] = {"cuda", "hip"};
    const char *name = getenv("ACRE_BACKEND");

    if (name && *name)
        return acre_backend_find(name, out);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (acre_backend_find(names[i], out) == ACRE_OK && acre_backend_device_count(*out) > 0)
            return ACRE_OK;
    return acre_backend_find("sim", out);
}

static acre_cache *torch_make(int index)
{
    acre_device *device;
    acre_cache *cache = NULL;
    acre_status status = ACRE_OK;

    pthread_mutex_lock(&making);
    cache = atomic_load_explicit(&caches[index], memory_order_relaxed);
    if (!chosen)
        status = torch_choose(&chosen);
    if (!cache && status == ACRE_OK)
        status = acre_backend_device(chosen, index, &device);
    if (!cache && status == ACRE_OK) {
        status = acre_cache_create(device, NULL, &cache);
        if (status == ACRE_OK)
            atomic_store_explicit(&caches[index], cache, memory_order_release);
    }
    pthread_mutex_unlock(&making);
    return status == ACRE_OK ? cache : NULL;
}

/* The cache of a device if there is one already. */
static acre_cache *torch_present(int device)
{
    if (device < 0 || device >= DEVICES_MAX)
        return NULL;
    return atomic_load_explicit(&caches[device], memory_order_acquire);
}

acre_cache *acre_torch_cache(int device)
{
    acre_cache *cache = torch_present(device);

    return cache || device < 0 || device >= DEVICES_MAX ? cache : torch_make(device);
}

/* Says why something failed, to those who asked for a log. */
static void torch_complain(const char *what, int device)
{
    const char *level = getenv("ACRE_LOG");

    if (level && *level)
        fprintf(stderr, "acre: torch: device %d: %s: %s\n", device, what, acre_last_error());
}

void *acre_torch_malloc(ssize_t bytes, int device, void *stream)
{
    acre_cache *cache = acre_torch_cache(device);
    void *pointer = NULL;

    late_retry();
    if (!cache || acre_cache_alloc(cache, (size_t)bytes, stream, &pointer) != ACRE_OK) {
        torch_complain("allocating failed", device);
        return NULL;
    }
    return pointer;
}

void acre_torch_free(void *pointer, ssize_t bytes, int device, void *stream)
{
    acre_cache *cache = torch_present(device);

    (void)bytes, (void)stream; /* the cache knows both */
    if (pointer && (!cache || !late_free(cache, pointer)))
        torch_complain("freeing failed", device);
}

void acre_torch_init(int device_count)
{
    for (int i = 0; i < device_count; i++)
        acre_torch_cache(i);
}

void acre_torch_reset(void)
{
    late_retry();
    for (int i = 0; i < DEVICES_MAX; i++)
        if (torch_present(i) && acre_cache_empty(torch_present(i)) != ACRE_OK)
            torch_complain("emptying failed", i);
}

void acre_torch_memory_fraction(double fraction, int device)
{
    acre_cache *cache = acre_torch_cache(device);

    if (!cache || acre_cache_memory_fraction_set(cache, fraction) != ACRE_OK)
        torch_complain("setting the memory fraction failed", device);
}

/* The cache in which an address is live, and the size of its block; or NULL. */
static acre_cache *cache_of_pointer(void *pointer, uint64_t *out_bytes)
{
    for (int i = 0; i < DEVICES_MAX; i++)
        if (torch_present(i) &&
            acre_cache_block_bytes(torch_present(i), pointer, out_bytes) == ACRE_OK)
            return torch_present(i);
    return NULL;
}

void *acre_torch_base_alloc(void *pointer, size_t *bytes)
{
    uint64_t extent = 0;
    void *base = pointer;
    acre_cache *cache = cache_of_pointer(pointer, &extent);

    /* Memory that is pages has no one base; then the block answers for itself. */
    if (cache && acre_cache_base(cache, pointer, &base, &extent) != ACRE_OK)
        base = pointer;
    if (cache && bytes)
        *bytes = (size_t)extent;
    return base;
}

void acre_torch_record_stream(void *pointer, void *stream)
{
    uint64_t bytes;
    acre_cache *cache = cache_of_pointer(pointer, &bytes);

    if (pointer && (!cache || acre_cache_record_stream(cache, pointer, stream) != ACRE_OK))
        torch_complain("recording a stream failed", -1);
}

void acre_torch_begin_allocate_to_pool(int device, acre_pool_id id, void *filter)
{
    acre_cache *cache = acre_torch_cache(device);

    if (!cache || torch_scope_begin(cache, device, id, filter) != ACRE_OK)
        torch_complain("beginning to allocate to a pool failed", device);
}

void acre_torch_end_allocate_to_pool(int device, acre_pool_id id)
{
    acre_cache *cache = torch_present(device);

    if (!cache || torch_scope_end(cache, device, id) != ACRE_OK)
        torch_complain("ending to allocate to a pool failed", device);
}

void acre_torch_release_pool(int device, acre_pool_id id)
{
    acre_cache *cache = torch_present(device);

    if (!cache || acre_pool_release(cache, id) != ACRE_OK)
        torch_complain("releasing a pool failed", device);
}
