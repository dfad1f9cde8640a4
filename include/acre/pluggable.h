/* SPDX-License-Identifier: MIT */
/** @file pluggable.h
 *  @brief Allocators out of shared objects made for PyTorch.
 *
 * A plug-in is two functions with PyTorch's signatures, and optional hooks. Acre
 * makes an allocator of them and keeps the books: what is live, where, for which
 * stream. So statistics, bases and record_stream work whatever the plug-in can,
 * and a plug-in that misbehaves is answered with an error:
 *
 *     acre_pluggable_open(ACRE_DEVICE_CUDA, "lib.so", "my_alloc", "my_free", NULL, &allocator);
 *     acre_allocator_allocate(allocator, bytes, &ptr);
 *
 * History, snapshots and observers of failed requests work as for a cache. With
 * acre_pluggable_cache(), which puts a cache on top and takes its segments from the
 * plug-in, pools and checkpoints do too.
 *
 * The allocator is one as in acre/allocator.h; it may serve a pool too
 * (acre_pool_config.allocator). Its data pointers are simple, and their deleter
 * leads to the plug-in they came from, whichever serves the device type now.
 *
 * Threads: every call may come from any thread; the plug-in is called without
 * any lock of the library held, by several threads at a time, and may call back.
 *
 * Fork: see acre/base.h. Whether memory of a plug-in works in a child is the plug-in's matter.
 */
#ifndef ACRE_PLUGGABLE_H
#define ACRE_PLUGGABLE_H

#include <acre/history.h>
#include <acre/pool.h>

ACRE_BEGIN_DECLS

/** Obtains @p bytes, which may be 0, on a device for a native stream; NULL: out of
 *  memory, or nothing for 0 bytes. */
typedef void *(*acre_pluggable_alloc_fn)(size_t bytes, int device, void *stream);

/** Takes back what the function above gave, with the size, device and stream it
 *  was allocated with. */
typedef void (*acre_pluggable_free_fn)(void *pointer, size_t bytes, int device, void *stream);

/** Optional functions of a plug-in. Those that are NULL are done without. */
typedef struct acre_pluggable_hooks {
    uint32_t struct_size; /**< sizeof(acre_pluggable_hooks). */
    uint32_t reserved;    /**< 0.                            */
    /** Called once, before anything else, with the number of devices. */
    void (*init)(int device_count);
    /** acre_allocator_empty_cache(): returns idle memory. */
    void (*reset)(void);
    /** acre_pluggable_memory_fraction_set(); without it Acre keeps the limit. */
    void (*memory_fraction)(double fraction, int device);
    /** acre_pluggable_base(): gives the first byte, and the size; without it they are
     *  those of the allocation. */
    void *(*base_alloc)(void *pointer, size_t *bytes);
    /** acre_allocator_record_stream(); without it a free waits for the stream. */
    void (*record_stream)(void *pointer, void *stream);
    /** acre_pluggable_pool_begin(). @p filter is a `std::function<bool(stream)>` of
     *  GNU's C++ library, passed as C++ passes one by value; C need not look at it. */
    void (*begin_allocate_to_pool)(int device, acre_pool_id id, void *filter);
    /** acre_pluggable_pool_end(). */
    void (*end_allocate_to_pool)(int device, acre_pool_id id);
    /** acre_pluggable_pool_release(). */
    void (*release_pool)(int device, acre_pool_id id);
} acre_pluggable_hooks;

/** Bits of acre_pluggable_config.flags. */
typedef enum acre_pluggable_flag {
    /** The plug-in gives memory that the host reaches: it is copied as such. */
    ACRE_PLUGGABLE_HOST_MEMORY = 1u << 0,
} acre_pluggable_flag;

/** How a plug-in is to be used. Zero means default everywhere. */
typedef struct acre_pluggable_config {
    uint32_t struct_size; /**< sizeof(acre_pluggable_config).                          */
    uint32_t flags;       /**< Bits of @ref acre_pluggable_flag.                       */
    size_t alignment;     /**< What addresses must be multiples of, a power of two;
                               0: 16, and 512 once there is a cache on top.            */
    const acre_pluggable_hooks *hooks; /**< Copied; NULL: none.                        */
} acre_pluggable_config;

/** Loads a plug-in and makes an allocator of it, for the devices of @p type.
 *
 * @p library is a path or name as for dlopen; it stays loaded until the allocator
 * and the last of its pointers are gone. @p config may be NULL.
 *
 * Allocating calls the plug-in with the current device and stream, also for 0
 * bytes. Errors of the allocator: ACRE_ERR_DEVICE_MEMORY (the plug-in gave NULL, or
 * a limit is reached), ACRE_ERR_DEVICE (it gave an address that is misaligned, or
 * of memory that is live; the books are as before). Misaligned memory is given
 * back; what overlaps is not, since that would free what is live.
 *
 * acre_allocator_destroy() may be called while pointers live: they can still be
 * deleted, and the plug-in goes with the last one. acre_pluggable_close() refuses.
 *
 * Errors: ACRE_ERR_UNSUPPORTED (the library cannot be loaded or lacks a symbol; no
 *         backend of that type), ACRE_ERR_INVALID, ACRE_ERR_LIMIT (256 allocators of
 *         caches and plug-ins exist), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_pluggable_open(acre_device_type type, const char *library,
                                         const char *alloc_symbol, const char *free_symbol,
                                         const acre_pluggable_config *config,
                                         acre_allocator **out);

/** Makes a pluggable allocator from two functions, which outlive the allocator and its pointers. */
ACRE_API acre_status acre_pluggable_create(acre_device_type type, acre_pluggable_alloc_fn alloc,
                                           acre_pluggable_free_fn free,
                                           const acre_pluggable_config *config,
                                           acre_allocator **out);

/** Ends an allocator of a plug-in, if nothing of it is live. NULL is accepted.
 *  Errors: ACRE_ERR_STATE (says how much is live; nothing has changed),
 *  ACRE_ERR_INVALID (not an allocator of a plug-in). */
ACRE_API acre_status acre_pluggable_close(acre_allocator *allocator);

/** Replaces all hooks; one that is in use elsewhere may still be called. If there was
 *  no init before, it is called now. Errors: ACRE_ERR_INVALID. */
ACRE_API acre_status acre_pluggable_hooks_set(acre_allocator *allocator,
                                              const acre_pluggable_hooks *hooks);

/** Allocates on a given device for a given native stream, whatever is current.
 *  Errors: ACRE_ERR_RANGE (device), and as told at acre_pluggable_open(). */
ACRE_API acre_status acre_pluggable_alloc(acre_allocator *allocator, size_t bytes, int device,
                                          void *stream, void **out);

/** Frees what the allocator gave; NULL is accepted. Streams that were recorded are
 *  waited for, unless the plug-in has a hook for them.
 *  Errors: ACRE_ERR_INVALID ("Trying to free a pointer not allocated here": foreign,
 *  interior, or freed already), ACRE_ERR_DEVICE (of waiting; it stays live),
 *  ACRE_ERR_STATE (one of the streams is captured; it stays live). What a deleter cannot
 *  free for these two reasons is freed with a later allocation. */
ACRE_API acre_status acre_pluggable_free(acre_allocator *allocator, void *pointer);

/** First byte and size of the allocation around a pointer.
 *  Errors: ACRE_ERR_INVALID (nothing live there). */
ACRE_API acre_status acre_pluggable_base(acre_allocator *allocator, void *pointer,
                                         void **out_base, size_t *out_bytes);

/** Limits what is live on a device to a share of its memory, through the plug-in's
 *  hook if it has one. Errors: ACRE_ERR_RANGE (device; a share outside [0, 1]),
 *  ACRE_ERR_DEVICE. */
ACRE_API acre_status acre_pluggable_memory_fraction_set(acre_allocator *allocator, int device,
                                                        double fraction);

/** The share set last; 1 when none was. Errors: ACRE_ERR_RANGE. */
ACRE_API acre_status acre_pluggable_memory_fraction_get(acre_allocator *allocator, int device,
                                                        double *out_fraction);

/** Tells the plug-in that allocations on a device that pass @p filter belong to a
 *  pool, until acre_pluggable_pool_end(). @p filter and @p arg must last until then.
 *  Errors: ACRE_ERR_UNSUPPORTED (the plug-in has no such hook: acre_pluggable_cache()
 *  has pools of its own), ACRE_ERR_RANGE, ACRE_ERR_INVALID. */
ACRE_API acre_status acre_pluggable_pool_begin(acre_allocator *allocator, int device,
                                               acre_pool_id id, acre_pool_filter_fn filter,
                                               void *arg);
/** Ends that. Errors: as above. */
ACRE_API acre_status acre_pluggable_pool_end(acre_allocator *allocator, int device,
                                             acre_pool_id id);
/** Tells the plug-in that nobody needs a pool any more. Errors: as above. */
ACRE_API acre_status acre_pluggable_pool_release(acre_allocator *allocator, int device,
                                                 acre_pool_id id);

/** Makes the allocator serve its device type (acre_allocator_get()), as long as none
 *  that is initialised does: a swap comes before anything else, and once.
 *  Errors: ACRE_ERR_STATE ("Can't swap an already initialized allocator"). */
ACRE_API acre_status acre_pluggable_make_current(acre_allocator *allocator);

/** Records what happens on a device of a plug-in, or changes how; every allocation is a
 *  segment of its own there. As acre_cache_history_start().
 *  Errors: ACRE_ERR_RANGE (device), ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_pluggable_history_start(acre_allocator *allocator, int device,
                                                  const acre_history_config *config);

/** Stops recording and forgets. Errors: ACRE_ERR_RANGE (device), ACRE_ERR_INVALID. */
ACRE_API acre_status acre_pluggable_history_stop(acre_allocator *allocator, int device);

/** Copies what was recorded; give it to acre_history_destroy().
 *  Errors: ACRE_ERR_RANGE (device), ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_pluggable_history_create(acre_allocator *allocator, int device,
                                                   acre_history **out);

/** Takes a snapshot of all devices of a plug-in: what is live, each allocation a segment
 *  with one block, and what was recorded. As acre_cache_snapshot(), without settings.
 *  Errors: ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_pluggable_snapshot(acre_allocator *allocator, acre_snapshot **out);

/** Copies what acre_pluggable_snapshot() needs of one device: see acre_cache_snapshot_parts().
 *  Errors: ACRE_ERR_RANGE (no such device) too. */
ACRE_API acre_status acre_pluggable_snapshot_parts(acre_allocator *allocator, int device,
                                                   acre_snapshot_parts **out);

/** Adds an observer of requests for which there was no memory; called without any lock,
 *  before the caller is told. Errors: ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_pluggable_oom_observer_add(acre_allocator *allocator,
                                                     acre_cache_oom_fn fn, void *arg);

/** Removes it; a call under way on another thread may still finish. */
ACRE_API void acre_pluggable_oom_observer_remove(acre_allocator *allocator,
                                                 acre_cache_oom_fn fn, void *arg);

/** Creates a cache that takes its segments from a plug-in.
 *
 * They come through a private pool, *out_pool (which may be NULL), with a scope for
 * all streams and threads; what is idle goes back to the plug-in when the cache is
 * emptied or runs short (ACRE_POOL_GIVES_BACK). Pools of the caller, in newer scopes,
 * take theirs where their configuration says: name the allocator there too. From then
 * on the plug-in must give multiples of 512. End it with acre_cache_destroy(), before
 * the allocator.
 * Errors: ACRE_ERR_RANGE (device), those of acre_cache_create() and
 *         acre_pool_create().
 */
ACRE_API acre_status acre_pluggable_cache(acre_allocator *allocator, int device,
                                          const acre_cache_config *config, acre_cache **out,
                                          acre_pool_id *out_pool);

ACRE_END_DECLS

#endif
