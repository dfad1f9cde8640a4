/* SPDX-License-Identifier: MIT */
/* Acre under PyTorch: one cache per device, made when first asked for, never ended,
 * since PyTorch may free until the process does.
 *
 *            choose, once                     cache_of, once per device
 *   nothing ──────────────► a backend, or why not ──────────────► cache
 */
#include "bind/torch.h"

#include "bind/torch_scope.h"
#include "bind/torch_use.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES_MAX = 64 };

/* Says on standard error why something failed. PyTorch does not look at what an allocator
 * returns, so that nobody else would; ACRE_TORCH_QUIET=1 switches it off. */
static void torch_say(const char *what, int device)
{
    const char *quiet = getenv("ACRE_TORCH_QUIET");

    if (quiet && *quiet && strcmp(quiet, "0") != 0)
        return;
    if (device < 0)
        fprintf(stderr, "acre: torch: %s: %s\n", what, acre_last_error());
    else
        fprintf(stderr, "acre: torch: device %d: %s: %s\n", device, what, acre_last_error());
}

typedef void torch_fail_fn(const char *function, const char *file, uint32_t line, const char *text);

/* How to raise an exception of PyTorch, where PyTorch itself is the caller: its library c10 has
 * a function that throws, which is called with the sentence. C frames in between are unwound;
 * they own nothing. NULL for callers that could not catch it, such as ctypes. */
static torch_fail_fn *torch_raiser(void *caller)
{
    Dl_info place;
    void *library, *found;

    if (!dladdr(caller, &place) || !place.dli_fname ||
        (!strstr(place.dli_fname, "libtorch") && !strstr(place.dli_fname, "libc10")))
        return NULL;
    library = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
    found = library ? dlsym(library, "_ZN3c106detail14torchCheckFailEPKcS2_jS2_") : NULL;
    if (library)
        dlclose(library); /* PyTorch holds it */
    return (torch_fail_fn *)(uintptr_t)found;
}

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* of caches and the choice  */
static acre_backend *chosen;                               /* by making; NULL: not yet  */
static acre_allocator *allocators[DEVICES_MAX];            /* of caches; before those   */
static _Atomic(acre_cache *) caches[DEVICES_MAX];          /* written under making      */

/* Around fork: a child finds the locks free, and no scope half changed. */
static void fork_prepare(void)
{
    pthread_mutex_lock(&making);
    torch_scope_fork(true);
    use_fork(true);
}

static void fork_done(void)
{
    use_fork(false);
    torch_scope_fork(false);
    pthread_mutex_unlock(&making);
}

__attribute__((constructor)) static void torch_begin(void)
{
    pthread_atfork(fork_prepare, fork_done, fork_done);
}

/* The backend whose devices are used: the one ACRE_BACKEND names, else the first
 * whose memory PyTorch's kernels can use and that has devices here. The reference device
 * must be asked for: kernels of a GPU could not touch its memory. */
static acre_status torch_choose(acre_backend **out)
{
    static const char *const names[] = {"cuda", "hip"};
    static atomic_bool is_told;
    const char *name = getenv("ACRE_BACKEND");

    if (name && *name)
        return acre_backend_find(name, out);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (acre_backend_find(names[i], out) == ACRE_OK && acre_backend_device_count(*out) > 0)
            return ACRE_OK;
    if (!atomic_exchange(&is_told, true))
        torch_say("no GPU is there that PyTorch could use; ACRE_BACKEND=sim uses the reference "
                  "device instead, for tests",
                  -1);
    return ACRE_ERR_NOT_FOUND;
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
            status = acre_cache_allocator(cache, &allocators[index]);
        if (status == ACRE_OK)
            atomic_store_explicit(&caches[index], cache, memory_order_release);
        else
            acre_cache_destroy(cache);
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

/* The same with its allocator. */
static struct torch_home home_of(int device)
{
    acre_cache *cache = torch_present(device);

    return (struct torch_home){cache, cache ? allocators[device] : NULL};
}

acre_cache *acre_torch_cache(int device)
{
    acre_cache *cache = torch_present(device);

    return cache || device < 0 || device >= DEVICES_MAX ? cache : torch_make(device);
}

void *acre_torch_malloc(ssize_t bytes, int device, void *stream)
{
    acre_cache *cache = acre_torch_cache(device);
    void *pointer = NULL;

    use_retry();
    if (!cache || acre_cache_alloc(cache, (size_t)bytes, stream, &pointer) != ACRE_OK) {
        if (cache)
            torch_say("out of memory", device);
        torch_fail_fn *raise = torch_raiser(__builtin_return_address(0));
        if (raise)
            raise(__func__, "libacre_torch.so", 0, acre_last_error());
        return NULL;
    }
    return pointer;
}

void acre_torch_free(void *pointer, ssize_t bytes, int device, void *stream)
{
    struct torch_home home = home_of(device);

    (void)bytes, (void)stream; /* the cache knows both */
    if (pointer && (!home.cache || !use_free(home, pointer)))
        torch_say("freeing failed", device);
}

void acre_torch_init(int device_count)
{
    for (int i = 0; i < device_count; i++)
        acre_torch_cache(i);
}

void acre_torch_reset(void)
{
    use_retry();
    for (int i = 0; i < DEVICES_MAX; i++)
        if (torch_present(i) && acre_cache_empty(torch_present(i)) != ACRE_OK)
            torch_say("emptying failed", i);
}

void acre_torch_memory_fraction(double fraction, int device)
{
    acre_cache *cache = acre_torch_cache(device);

    if (!cache || acre_cache_memory_fraction_set(cache, fraction) != ACRE_OK)
        torch_say("setting the memory fraction failed", device);
}

/* The device whose cache has a live block at an address, and the size of that block; or -1. */
static int device_of_pointer(void *pointer, uint64_t *out_bytes)
{
    for (int i = 0; i < DEVICES_MAX; i++)
        if (torch_present(i) &&
            acre_cache_block_bytes(torch_present(i), pointer, out_bytes) == ACRE_OK)
            return i;
    return -1;
}

void *acre_torch_base_alloc(void *pointer, size_t *bytes)
{
    uint64_t extent = 0;
    void *base = pointer;
    acre_cache *cache = torch_present(device_of_pointer(pointer, &extent));

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
    struct torch_home home = home_of(device_of_pointer(pointer, &bytes));

    if (!pointer || (home.cache && use_note(home, pointer, stream)))
        return;
    torch_say("recording a stream failed", -1);
    /* PyTorch asks for memory of others, too, which nobody hands out again here. */
    torch_fail_fn *raise = home.cache ? torch_raiser(__builtin_return_address(0)) : NULL;
    if (raise)
        raise(__func__, "libacre_torch.so", 0, acre_last_error());
}

void acre_torch_begin_allocate_to_pool(int device, acre_pool_id id, void *filter)
{
    acre_cache *cache = acre_torch_cache(device);
    bool has_use = false;

    if (cache && torch_scope_begin(cache, device, id, filter, &has_use) == ACRE_OK)
        return;
    torch_say("beginning to allocate to a pool failed", device);
    torch_fail_fn *raise = torch_raiser(__builtin_return_address(0));
    if (!raise) {
        torch_scope_miss(device, id, has_use);
        return;
    }
    if (has_use)
        acre_pool_release(cache, id); /* after an exception PyTorch does not */
    raise(__func__, "libacre_torch.so", 0, acre_last_error());
}

void acre_torch_end_allocate_to_pool(int device, acre_pool_id id)
{
    if (torch_scope_end(torch_present(device), device, id) != ACRE_OK)
        torch_say("ending to allocate to a pool failed", device);
}

void acre_torch_release_pool(int device, acre_pool_id id)
{
    acre_cache *cache = torch_present(device);

    if (torch_scope_forgive(device, id))
        return;
    if (!cache || acre_pool_release(cache, id) != ACRE_OK)
        torch_say("releasing a pool failed", device);
}
