/* SPDX-License-Identifier: MIT */
/** @file pinned.h
 *  @brief The cache of page-locked host memory.
 *
 * Page-locking is slow, so a pinned cache keeps what was freed. It works over any
 * backend with host memory (ACRE_CAP_HOST_MEMORY). A block that streams use is
 * handed out again only when an event recorded on each of them at the free has
 * passed; nobody waits for that.
 *
 *     acre_pinned_create(device, NULL, &pinned);
 *     acre_pinned_alloc(pinned, bytes, &staging);
 *     acre_copy_async(device, weights, staging, bytes, ACRE_COPY_HOST_TO_DEVICE, stream);
 *     acre_pinned_record_stream(pinned, staging, NULL, stream);
 *     acre_pinned_free(pinned, staging);        reused once the copy is done
 *
 * Two policies decide. ACRE_POLICY_TORCH is PyTorch's: sizes are powers of two,
 * blocks are never cut, events are looked at in one order for all streams.
 * ACRE_POLICY_ACRE, the default, cuts blocks out of larger pieces and joins them
 * again. A block is at most an eighth larger than asked for: sizes below 4 KiB are
 * multiples of 64 bytes, below 32 KiB of 512, else of 4 KiB, and so is the
 * alignment. Idle memory beyond a sixteenth of the highest use goes back to the
 * system before more is taken from it.
 *
 * Threads: every call may come from any thread unless it says otherwise.
 *
 * Fork: see acre/base.h. Memory that the backend "host" page-locks goes on working in a child. That
 * of a device which cannot live there is the parent's: every call that allocates, frees or changes
 * answers ACRE_ERR_FORKED, whether or not memory is at hand; statistics, history and snapshots can
 * still be read, and destroying the cache releases what it noted, not the memory.
 */
#ifndef ACRE_PINNED_H
#define ACRE_PINNED_H

#include <acre/history.h>
#include <acre/pool.h>

ACRE_BEGIN_DECLS

/** The cache of page-locked host memory of one backend. */
typedef struct acre_pinned acre_pinned;

/** Bits of acre_pinned_config.flags. */
typedef enum acre_pinned_flag {
    /** The environment (ACRE_CONF, PYTORCH_CUDA_ALLOC_CONF, ...) is not read. */
    ACRE_PINNED_NO_ENVIRONMENT = 1u << 0,
} acre_pinned_flag;

/** What a pinned cache is to be. Zero means default everywhere; sources and their
 *  order as in acre_cache_config. */
typedef struct acre_pinned_config {
    uint32_t struct_size; /**< sizeof(acre_pinned_config).                            */
    uint32_t flags;       /**< Bits of @ref acre_pinned_flag.                         */
    acre_policy policy;   /**< Who decides.                                           */
    uint32_t reserved;    /**< 0.                                                     */
    const char *conf;     /**< Options as in acre_pinned_conf_set(), or NULL; copied. */
} acre_pinned_config;

/** Creates a cache of host memory that @p device page-locks.
 *
 * @p config may be NULL for the defaults. The backend must outlive the cache.
 * Errors: ACRE_ERR_UNSUPPORTED (the device has no page-locked host memory),
 * ACRE_ERR_INVALID, ACRE_ERR_CONFIG (names option and value), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_pinned_create(acre_device *device, const acre_pinned_config *config,
                                        acre_pinned **out);

/** Waits for pending uses, returns all memory and ends the cache.
 *
 * Memory still allocated goes too; how much is said in the log. NULL is
 * accepted. Threads: no other call may use the cache at that time or later.
 */
ACRE_API void acre_pinned_destroy(acre_pinned *pinned);

/* ---- Allocating ------------------------------------------------------------------- */

/** Allocates @p bytes that the host may touch at once; 0 bytes give NULL and ACRE_OK.
 *
 * When the system has no more, pending uses are waited for, idle memory goes back,
 * and it is asked once more.
 * Errors: ACRE_ERR_HOST_MEMORY, and what the backend answers; nothing has changed
 *         except that idle memory may have been returned.
 */
ACRE_API acre_status acre_pinned_alloc(acre_pinned *pinned, size_t bytes, void **out);

/** Frees what acre_pinned_alloc() gave; any thread may. NULL is accepted.
 *
 * Errors: ACRE_ERR_INVALID, "invalid host pointer": not the first byte of a live
 *         allocation of this cache; nothing changes. ACRE_ERR_DEVICE,
 *         ACRE_ERR_HOST_MEMORY: an event could not be recorded; the allocation
 *         stays live. With option pinned_free_catch_all these are said in the log
 *         and ACRE_OK is answered; the block is then kept until
 *         acre_pinned_captured_release(), which tries again, or the cache ends.
 */
ACRE_API acre_status acre_pinned_free(acre_pinned *pinned, void *pointer);

/** Tells that @p stream, a native stream of @p device, uses a live allocation.
 *
 * A NULL @p device is that of the cache. Its free will wait for what was queued on
 * the stream until then. What is recorded while the stream is captured becomes part
 * of a graph that may run at any time later: see acre_pinned_captured_release().
 * Repetitions, a NULL pointer, and devices without streams are ignored.
 * Errors: ACRE_ERR_INVALID ("invalid host pointer", a device of another backend),
 *         ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_pinned_record_stream(acre_pinned *pinned, void *pointer,
                                               acre_device *device, void *stream);

/** Records a use of a data pointer: the allocation is that of @p context, else that which
 *  begins at @p pointer; @p out_known tells whether there is one, and may be NULL.
 *  Errors: ACRE_ERR_HOST_MEMORY, those of acre_stream_native(). */
ACRE_API acre_status acre_pinned_record_event(acre_pinned *pinned, void *pointer, void *context,
                                              acre_stream stream, bool *out_known);

/** Returns idle memory of the shared pool and of pools that nobody uses any more, and
 *  ends the latter when nothing of them is left. Does not wait for pending uses.
 *  Errors: what the backend answers; the rest is returned all the same, and what it refused is
 *  offered again by later calls. */
ACRE_API acre_status acre_pinned_empty(acre_pinned *pinned);

/** Returns idle memory, longest idle first, until at most @p keep_bytes of the shared
 *  pool are idle. @p out_bytes, which may be NULL, gets what went back.
 *  Errors: as acre_pinned_empty(). */
ACRE_API acre_status acre_pinned_trim(acre_pinned *pinned, uint64_t keep_bytes,
                                      uint64_t *out_bytes);

/** Tells that no graph that captured memory of the shared pool will run again: freed
 *  blocks that were used in captures become free. Those of private pools do so when
 *  the pool is released. */
ACRE_API void acre_pinned_captured_release(acre_pinned *pinned);

/* ---- As an allocator -------------------------------------------------------------- */

/** Makes an allocator of a pinned cache. Its data pointers are simple and labelled CPU.
 *
 * acre_allocator_record_stream() ignores what is not this cache's and takes streams of
 * all devices of the backend. Its statistics are the same for each of them. The cache
 * must outlive it. Errors: ACRE_ERR_INVALID, ACRE_ERR_LIMIT, ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_pinned_allocator(acre_pinned *pinned, acre_allocator **out);

/** Creates a pinned cache for devices of @p type and an allocator that owns it; for
 *  acre_host_allocator_set(). Errors: those of the two. */
ACRE_API acre_status acre_pinned_allocator_create(acre_device_type type,
                                                  const acre_pinned_config *config,
                                                  acre_allocator **out);

/* ---- Private pools ---------------------------------------------------------------- */

/** Creates a pool or adds to its use count, and lets the allocations that @p filter
 *  names come from it until acre_pinned_pool_end().
 *
 * A NULL @p filter is ACRE_POOL_THIS_THREAD. Filters look at the thread's current
 * stream of the cache's device. Of several open scopes that pass, policy torch takes
 * the oldest, policy acre the newest.
 * Errors: ACRE_ERR_INVALID (the shared pool, a bad filter), ACRE_ERR_EXISTS ("already
 *         recording": a scope of this pool is open), ACRE_ERR_STATE (the pool is
 *         released), ACRE_ERR_HOST_MEMORY; nothing has changed then.
 */
ACRE_API acre_status acre_pinned_pool_begin(acre_pinned *pinned, acre_pool_id id,
                                            const acre_pool_filter *filter);

/** Ends the scope of a pool; its use count stays.
 *  Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_STATE ("not currently recording"). */
ACRE_API acre_status acre_pinned_pool_end(acre_pinned *pinned, acre_pool_id id);

/** Drops one use. At 0, nothing captured with it will run again: what captures kept
 *  becomes free, and the memory goes back with the next acre_pinned_empty().
 *  Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_STATE (released already, a scope is open). */
ACRE_API acre_status acre_pinned_pool_release(acre_pinned *pinned, acre_pool_id id);

/** How often a pool is used. Errors: ACRE_ERR_NOT_FOUND. */
ACRE_API acre_status acre_pinned_pool_use_count(acre_pinned *pinned, acre_pool_id id,
                                                uint64_t *out_count);

/* ---- Options ---------------------------------------------------------------------- */

/** Sets options at run time, in the grammar of acre_cache_conf_set(). Used are those
 *  whose names begin with `pinned_`; the others are checked and kept. Policy acre, which
 *  rounds to pages at most, has no use for pinned_max_round_threshold_mb.
 *  Errors: ACRE_ERR_CONFIG names option and value, and nothing has changed. */
ACRE_API acre_status acre_pinned_conf_set(acre_pinned *pinned, const char *text);

/** Writes the last options string into @p buffer and returns its length as snprintf
 *  does. */
ACRE_API int acre_pinned_conf_get(acre_pinned *pinned, char *buffer, size_t bytes);

/* ---- Statistics ------------------------------------------------------------------- */

/** How many power-of-two sizes acre_pinned_stats.bucket_allocation tells apart. */
#define ACRE_PINNED_BUCKETS 64

/** The one list of levels: name, what it counts. */
#define ACRE_PINNED_STATS(X)                                                   \
    X(allocations, "pieces of memory held from the system")                    \
    X(allocated_bytes, "and their bytes")                                      \
    X(active_requests, "blocks live, waiting for streams or kept by captures") \
    X(active_bytes, "and their bytes")                                         \
    X(requested_bytes, "bytes asked for, of these blocks")

/** The one list of single figures: name, what it counts. */
#define ACRE_PINNED_COUNTERS(X)                                                \
    X(num_host_alloc, "pieces taken from the system")                          \
    X(num_host_free, "pieces given back")                                      \
    X(waiting_bytes, "freed, but streams use it")                              \
    X(captured_bytes, "freed, but captures use it")                            \
    X(idle_bytes, "held and not active")                                       \
    X(num_event_queries, "events asked about")

/** Times of calls in microseconds. */
typedef struct acre_pinned_time {
    int64_t total; /**< Sum.                   */
    int64_t max;   /**< Longest.               */
    int64_t min;   /**< Shortest; 0: no call.  */
    int64_t count; /**< How many.              */
    double avg;    /**< total / count.         */
} acre_pinned_time;

/** All statistics of a pinned cache at one moment; fields as in the lists. */
typedef struct acre_pinned_stats {
    uint32_t struct_size; /**< sizeof(acre_pinned_stats), set by the caller. */
    uint32_t reserved;    /**< 0.                                            */
#define ACRE_PINNED_FIELD(name, text) acre_stat name;
    ACRE_PINNED_STATS(ACRE_PINNED_FIELD)
#undef ACRE_PINNED_FIELD
#define ACRE_PINNED_FIELD(name, text) int64_t name;
    ACRE_PINNED_COUNTERS(ACRE_PINNED_FIELD)
#undef ACRE_PINNED_FIELD
    acre_pinned_time host_alloc_time; /**< Of taking memory from the system. */
    acre_pinned_time host_free_time;  /**< Of giving it back.                */
    /** Pieces taken, by the next power of two of their size. */
    int64_t bucket_allocation[ACRE_PINNED_BUCKETS];
} acre_pinned_stats;

/** Reads all statistics. Does not look at events. As with PyTorch, peaks of active_*
 *  under policy torch are sums of the peaks of each size; under policy acre they are
 *  exact. Errors: ACRE_ERR_INVALID (struct_size is not set). */
ACRE_API acre_status acre_pinned_stats_get(acre_pinned *pinned, acre_pinned_stats *stats);

/** Sets every peak to the present level, and the longest and shortest times to 0. */
ACRE_API void acre_pinned_stats_reset_peak(acre_pinned *pinned);

/** Sets allocated, freed, the counts and the sums of times to zero. */
ACRE_API void acre_pinned_stats_reset_accumulated(acre_pinned *pinned);

/* ---- History, snapshots, looking inside ------------------------------------------- */

/** Starts recording. Behaviour and errors: as acre_cache_history_start(). */
ACRE_API acre_status acre_pinned_history_start(acre_pinned *pinned,
                                               const acre_history_config *config);

/** Stops recording and forgets what was recorded. */
ACRE_API void acre_pinned_history_stop(acre_pinned *pinned);

/** Whether it records. */
ACRE_API bool acre_pinned_history_is_on(acre_pinned *pinned);

/** Copies what was recorded; give it to acre_history_destroy().
 *  Errors: ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_pinned_history_create(acre_pinned *pinned, acre_history **out);

/** Takes a snapshot, as acre_cache_snapshot() does of caches: one device, whose
 *  segments are the pieces of memory held. Errors: the same. */
ACRE_API acre_status acre_pinned_snapshot(acre_pinned *pinned,
                                          const acre_snapshot_choice *choice,
                                          acre_snapshot **out);

/** Copies what acre_pinned_snapshot() needs: see acre_cache_snapshot_parts(). */
ACRE_API acre_status acre_pinned_snapshot_parts(acre_pinned *pinned,
                                                const acre_snapshot_choice *choice,
                                                acre_snapshot_parts **out);

ACRE_END_DECLS

#endif
