/* SPDX-License-Identifier: MIT */
/** @file cache.h
 *  @brief The caching allocator of one device.
 *
 * A cache takes large segments from its device and cuts them into blocks, so
 * that most allocations never reach the driver. It knows about streams: a block
 * belongs to the stream it was allocated for, and is handed out again on that
 * stream at once; acre_cache_record_stream() tells that other streams use it
 * too, and a free then waits, without blocking, until they are done.
 *
 * Two policies decide where blocks go. ACRE_POLICY_TORCH decides exactly as
 * PyTorch's allocator does, to the byte; ACRE_POLICY_ACRE, the default, is
 * faster, and wastes less: on devices with virtual memory it joins free pages
 * from anywhere into one block (option stitched_memory).
 *
 * Threads: every call may come from any thread unless it says otherwise.
 * Observers and callbacks run without any lock of the library held and may call
 * back into it. Functions queued on streams must not: before memory goes back to
 * the device, the cache waits for queued work with its lock held.
 *
 * Fork: see acre/base.h. In a child, a cache of host memory goes on with all that was live and
 * free, what other threads of the parent kept at hand included. A cache of a device that cannot
 * live there answers ACRE_ERR_FORKED from every call that allocates, frees or changes it; its
 * statistics, history and snapshots can still be read.
 */
#ifndef ACRE_CACHE_H
#define ACRE_CACHE_H

#include <acre/allocator.h>

#include <stdbool.h>
#include <stdio.h>

ACRE_BEGIN_DECLS

/** The caching allocator of one device. */
typedef struct acre_cache acre_cache;

/** Policy that decides where a block is placed. */
typedef enum acre_policy {
    ACRE_POLICY_DEFAULT = 0, /**< What the configuration says, else ACRE_POLICY_ACRE. */
    ACRE_POLICY_TORCH = 1,   /**< Decisions of PyTorch's allocator, to the byte.      */
    ACRE_POLICY_ACRE = 2,    /**< Fast; streams share memory.                         */
} acre_policy;

/** Bits of acre_cache_config.flags. */
typedef enum acre_cache_flag {
    /** The environment (ACRE_CONF, PYTORCH_CUDA_ALLOC_CONF, ...) is not read. */
    ACRE_CACHE_NO_ENVIRONMENT = 1u << 0,
    /** Option expandable_segments. */
    ACRE_CACHE_EXPANDABLE = 1u << 1,
    /** Option throw_on_cudamalloc_oom: refuse ahead what the fraction forbids. */
    ACRE_CACHE_REJECT_AHEAD = 1u << 2,
    /** Option release_lock_on_cudamalloc: other threads go on meanwhile. */
    ACRE_CACHE_UNLOCKED_DEVICE = 1u << 3,
    /** Starts with caching switched off; see acre_cache_enable(). */
    ACRE_CACHE_DISABLED = 1u << 4,
    /** Of free blocks of one size the lowest address is taken, not that of the oldest
     *  segment, as PyTorch did before it counted segments. */
    ACRE_CACHE_TIES_BY_ADDRESS = 1u << 5,
} acre_cache_flag;

/** A limit that is none; see acre_cache_limit_set(). */
#define ACRE_CACHE_NO_LIMIT UINT64_MAX

/** What a cache is to be. Zero means default everywhere.
 *
 * Later sources win: the defaults; the first that is set of
 * PYTORCH_CUDA_ALLOC_CONF, PYTORCH_HIP_ALLOC_CONF and PYTORCH_ALLOC_CONF; the
 * fields of this struct; its string conf; ACRE_CONF, whose presence also means
 * that PyTorch's variables are not read. ACRE_CACHE_NO_ENVIRONMENT leaves only
 * the struct.
 */
typedef struct acre_cache_config {
    uint32_t struct_size; /**< sizeof(acre_cache_config).                                  */
    uint32_t flags;       /**< Bits of @ref acre_cache_flag.                               */
    acre_policy policy;   /**< Who decides.                                                */
    uint32_t reserved;    /**< 0.                                                          */
    const char *conf;     /**< Options as in acre_cache_conf_set(), or NULL; copied.       */
    uint64_t limit_bytes; /**< Cap on bytes held from the device; 0: the fraction decides. */
    uint64_t max_split_bytes;     /**< Larger blocks stay whole; 0: no limit.              */
    uint64_t large_segment_bytes; /**< Segment of requests below 10 MiB; 0: 20 MiB.        */
    uint64_t max_non_split_rounding_bytes; /**< Waste allowed above max_split_bytes;
                                                0: large_segment_bytes.                    */
    double memory_fraction; /**< Share of the device, (0, 1]; 0: the whole device.         */
    double gc_threshold;    /**< Reclaim above this share of the limit, (0, 1); 0: off.    */
} acre_cache_config;

/** Creates a cache that takes its segments from @p device.
 *
 * @p config may be NULL for the defaults. The device must outlive the cache.
 * Several caches on one device are independent.
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_CONFIG (names option and value; from the
 * environment, also the variable), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_cache_create(acre_device *device, const acre_cache_config *config,
                                       acre_cache **out);

/** Waits for pending uses, returns all memory to the device and ends the cache.
 *
 * Memory still allocated goes too; how much is said in the log. NULL is
 * accepted. Threads: no other call may use the cache at that time or later.
 */
ACRE_API void acre_cache_destroy(acre_cache *cache);

/** The policy of a cache. */
ACRE_API acre_policy acre_cache_policy(const acre_cache *cache);

/** The device of a cache. */
ACRE_API acre_device *acre_cache_device(const acre_cache *cache);

/* ---- Allocating ------------------------------------------------------------------- */

/** Allocates @p bytes for use on @p stream, a native stream of the device.
 *
 * The block is aligned to 512 bytes and usable at once on that stream. Zero
 * bytes give NULL and ACRE_OK. On failure nothing has changed except that
 * cached memory may have been returned to the device.
 * Errors: ACRE_ERR_DEVICE_MEMORY (the last error holds the whole report; also
 *         for 2^60 bytes and more), ACRE_ERR_REJECTED (refused ahead, see
 *         ACRE_CACHE_REJECT_AHEAD), ACRE_ERR_HOST_MEMORY, ACRE_ERR_DEVICE (the
 *         driver failed otherwise).
 */
ACRE_API acre_status acre_cache_alloc(acre_cache *cache, size_t bytes, void *stream,
                                      void **out);

/** Allocates @p bytes at exactly @p address, from cached free memory only.
 *
 * The address is a multiple of 512 and [address, address + rounded bytes) lies
 * in one free block of @p stream; cached memory never grows for this. Zero
 * bytes do nothing.
 * Errors: ACRE_ERR_INVALID (misaligned), ACRE_ERR_NOT_FOUND (not free there),
 *         ACRE_ERR_STATE (caching is off), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_cache_alloc_at(acre_cache *cache, size_t bytes, void *stream,
                                         void *address);

/** Frees what acre_cache_alloc() gave; any thread may. NULL is accepted.
 *
 * Without record_stream the memory is reusable on its stream at once.
 * Errors: ACRE_ERR_INVALID, "invalid device pointer": not the first byte of a
 *         live allocation of this cache (freed already, interior, foreign);
 *         nothing changes. ACRE_ERR_DEVICE, ACRE_ERR_HOST_MEMORY: an event
 *         could not be recorded; the allocation stays live.
 */
ACRE_API acre_status acre_cache_free(acre_cache *cache, void *pointer);

/** Tells that @p pointer, a live allocation, is also used on @p stream.
 *
 * Its free will then wait for the work queued on that stream until the free.
 * The stream it was allocated for, repetitions and a NULL pointer are ignored, and on devices
 * without ACRE_CAP_STREAMS every stream: nothing is ever queued there.
 * Errors: ACRE_ERR_INVALID ("invalid device pointer"), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_cache_record_stream(acre_cache *cache, void *pointer, void *stream);

/** Gives another device of the same backend access to the memory of a cache: to
 *  what it holds already and what it will.
 *
 * Calling it again changes nothing; it cannot be undone.
 * Errors: ACRE_ERR_UNSUPPORTED (the devices are not linked), ACRE_ERR_INVALID
 * (another backend), those of the device; nothing has changed then.
 */
ACRE_API acre_status acre_cache_peer_enable(acre_cache *cache, acre_device *peer);

/** Waits for pending uses and returns all idle segments to the device. The cache's lock is held
 *  meanwhile: work of the device that waits for another thread's call of this cache never ends.
 *  Errors: ACRE_ERR_DEVICE; the rest is released all the same. */
ACRE_API acre_status acre_cache_empty(acre_cache *cache);

/** First byte and size of the segment around a live allocation.
 *  Errors: ACRE_ERR_INVALID ("invalid device pointer"), ACRE_ERR_UNSUPPORTED
 *  (the segment is expandable: switch expandable_segments off). */
ACRE_API acre_status acre_cache_base(acre_cache *cache, void *pointer, void **out_base,
                                     uint64_t *out_bytes);

/** Rounded size, in bytes, of the block behind a live allocation.
 *  Errors: ACRE_ERR_INVALID ("invalid device pointer"). */
ACRE_API acre_status acre_cache_block_bytes(acre_cache *cache, void *pointer,
                                            uint64_t *out_bytes);

/** Gives the size of the largest free block of the cache, and the free memory of the device.
 *  Threads give back the free blocks they keep. Errors: ACRE_ERR_INVALID, ACRE_ERR_DEVICE. */
ACRE_API acre_status acre_cache_info(acre_cache *cache, uint64_t *out_largest_block,
                                     uint64_t *out_device_free);

/** Switches caching on or off. While it is off, allocations go straight to the
 *  device and no statistic moves; each pointer is freed the way it was got. */
ACRE_API void acre_cache_enable(acre_cache *cache, bool enabled);

/** Whether caching is on: switched on, and neither PYTORCH_NO_CUDA_MEMORY_CACHING
 *  nor PYTORCH_NO_HIP_MEMORY_CACHING was "1" at creation. */
ACRE_API bool acre_cache_is_enabled(const acre_cache *cache);

/* ---- As an allocator -------------------------------------------------------------- */

/** Creates an allocator that serves every device of @p type from a cache of its
 *  own, on the current device and current stream of the calling thread.
 *
 * Its data pointers are simple, and its raw deleter stays the same whether
 * caching is on or off. It may be called on any thread whatever device is
 * current, takes no lock of its own and finds the cache by itself; each pointer
 * is freed the way it was got. Since a deleter cannot report, a pointer that the
 * cache refuses (freed already, interior, foreign) is left alone and named in
 * the log. What cannot be freed now, because the pool sleeps, a capture runs or
 * the device fails, is noted and freed when idle memory is next reclaimed.
 * acre_allocator_record_stream() ignores data pointers with a deleter
 * that is no cache's; otherwise ACRE_ERR_INVALID tells that the address is not
 * live, and ACRE_ERR_UNSUPPORTED that the stream is one of another device.
 *
 * @p config is that of each cache; NULL for the defaults. End it with
 * acre_allocator_destroy(), after what it allocated and before its backend.
 * When another backend comes to answer for the type, allocating says
 * ACRE_ERR_STATE.
 * Errors: ACRE_ERR_UNSUPPORTED (no backend of that type), ACRE_ERR_INVALID,
 *         ACRE_ERR_CONFIG, ACRE_ERR_LIMIT (256 allocators of caches exist),
 *         ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_cache_allocator_create(acre_device_type type,
                                                 const acre_cache_config *config,
                                                 acre_allocator **out);

/** Makes an allocator of one cache: it serves that device whatever is current,
 *  on the thread's current stream there.
 *
 * Otherwise as acre_cache_allocator_create(). The cache must outlive it.
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_LIMIT, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_cache_allocator(acre_cache *cache, acre_allocator **out);

/** The allocator of caches that the whole process shares for @p type.
 *
 * The first call makes it as acre_cache_allocator_create() does, with what the
 * environment says (with backend:cudaMallocAsync there, and devices that have it, one of
 * <acre/async.h> without caches); later ones, on any thread, give the same. It lasts until
 * acre_allocator_destroy(), which is called before the backend is unregistered
 * and while no other thread uses it; the next call then makes a new one.
 * Errors: as acre_cache_allocator_create().
 */
ACRE_API acre_status acre_device_allocator(acre_device_type type, acre_allocator **out);

/** Makes the allocator of acre_device_allocator() serve its type, with priority
 *  1: what acre_allocator_set() put there with 0 or 1 is replaced.
 *
 * @p out_replaced, which may be NULL, tells whether it serves now. Nothing is
 * installed before this is called. Errors: as acre_device_allocator().
 */
ACRE_API acre_status acre_device_allocator_install(acre_device_type type, bool *out_replaced);

/** Frees what an allocator of caches gave, by the address alone, as its raw deleter does; and
 *  tells what is wrong, as the deleter cannot.
 *
 * No device has to be current, and the caller need not know which cache serves the address.
 * NULL is accepted.
 * Errors: ACRE_ERR_INVALID (the allocator is none of caches; freed already, interior, foreign),
 *         ACRE_ERR_FORKED; nothing has changed then. */
ACRE_API acre_status acre_cache_allocator_free(acre_allocator *allocator, void *pointer);

/** The cache behind a device of an allocator that one of the calls above gave;
 *  NULL for other allocators and indices. */
ACRE_API acre_cache *acre_cache_of_allocator(const acre_allocator *allocator, int device);

/* ---- Limits and options ----------------------------------------------------------- */

/** Caps the bytes held from the device at a share of its capacity.
 *
 * 1 lifts the cap, 0 forbids every allocation. Memory held already stays.
 * Errors: ACRE_ERR_RANGE (outside [0, 1], not a number).
 */
ACRE_API acre_status acre_cache_memory_fraction_set(acre_cache *cache, double fraction);

/** The cap as a share of the capacity; exactly 1 without a cap. */
ACRE_API double acre_cache_memory_fraction_get(acre_cache *cache);

/** Sets the limit in bytes; ACRE_CACHE_NO_LIMIT removes it. */
ACRE_API void acre_cache_limit_set(acre_cache *cache, uint64_t bytes);

/** The cap in bytes, or ACRE_CACHE_NO_LIMIT. */
ACRE_API uint64_t acre_cache_limit_get(acre_cache *cache);

/** Sets options at run time, in PyTorch's grammar: `option:value,option:value`.
 *
 * `acre help conf` lists the options. As with PyTorch, max_split_size_mb,
 * max_non_split_rounding_mb, garbage_collection_threshold and
 * roundup_power2_divisions return to their defaults when @p text does not name
 * them; the others stay. per_process_memory_fraction does not move the cap.
 * Errors: ACRE_ERR_CONFIG names option and value, and nothing has changed.
 */
ACRE_API acre_status acre_cache_conf_set(acre_cache *cache, const char *text);

/** Writes the last options string into @p buffer and returns its length as
 *  snprintf does. */
ACRE_API int acre_cache_conf_get(acre_cache *cache, char *buffer, size_t bytes);

/* ---- Statistics ------------------------------------------------------------------- */

/** A statistic over everything, and over the small and the large blocks alone. */
typedef struct acre_stat_array {
    acre_stat all;        /**< Both together.                        */
    acre_stat small_pool; /**< Blocks of requests up to 1 MiB (policy acre: below 64 KiB). */
    acre_stat large_pool; /**< Blocks of larger requests.            */
} acre_stat_array;

/** The one list of statistics in three parts: name, what it counts. */
#define ACRE_CACHE_STAT_ARRAYS(X)                                              \
    X(allocation, "live allocations")                                          \
    X(segment, "segments held from the device")                                \
    X(active, "blocks live or waiting for streams")                            \
    X(inactive_split, "free blocks in segments that are partly used")          \
    X(allocated_bytes, "bytes of live blocks")                                 \
    X(reserved_bytes, "bytes held from the device")                            \
    X(active_bytes, "bytes of blocks live or waiting for streams")             \
    X(inactive_split_bytes, "bytes of free blocks in partly used segments")    \
    X(requested_bytes, "bytes asked for, of blocks live or waiting")

/** The one list of single statistics: name, what it counts. */
#define ACRE_CACHE_STATS(X)                                                    \
    X(oversize_allocations, "live blocks of at least max_split_size")          \
    X(oversize_segments, "segments of at least max_split_size")

/** The one list of counters: name, what it counts. */
#define ACRE_CACHE_COUNTERS(X)                                                 \
    X(num_alloc_retries, "attempts after all idle memory was released")        \
    X(num_ooms, "requests that failed")                                        \
    X(num_sync_all_streams, "waits for all pending uses")                      \
    X(num_device_alloc, "requests to the device for memory")                   \
    X(num_device_free, "returns of memory to the device")                      \
    X(num_oom_rejections, "requests refused ahead")                            \
    X(max_split_size, "max_split_size in bytes at creation, -1 for none")

/** All statistics of a cache at one moment; fields as in the three lists. */
typedef struct acre_cache_stats {
    uint32_t struct_size; /**< sizeof(acre_cache_stats), set by the caller. */
    uint32_t reserved;    /**< 0.                                           */
#define ACRE_CACHE_STAT_FIELD(name, text) acre_stat_array name;
    ACRE_CACHE_STAT_ARRAYS(ACRE_CACHE_STAT_FIELD)
#undef ACRE_CACHE_STAT_FIELD
#define ACRE_CACHE_STAT_FIELD(name, text) acre_stat name;
    ACRE_CACHE_STATS(ACRE_CACHE_STAT_FIELD)
#undef ACRE_CACHE_STAT_FIELD
#define ACRE_CACHE_STAT_FIELD(name, text) int64_t name;
    ACRE_CACHE_COUNTERS(ACRE_CACHE_STAT_FIELD)
#undef ACRE_CACHE_STAT_FIELD
} acre_cache_stats;

/** Reads all statistics, exact and of one moment.
 *  Errors: ACRE_ERR_INVALID (struct_size is not set, or a field that this library does
 *  not know is not 0). */
ACRE_API acre_status acre_cache_stats_get(acre_cache *cache, acre_cache_stats *stats);

/** Sets every peak to the present level. */
ACRE_API void acre_cache_stats_reset_peak(acre_cache *cache);

/** Sets allocated, freed and the counters (not max_split_size) to zero. */
ACRE_API void acre_cache_stats_reset_accumulated(acre_cache *cache);

/* ---- Observers -------------------------------------------------------------------- */

/** Told that a request failed, before the caller is.
 *
 * @p bytes is what was asked of the device, @p limit_bytes the cap or else the
 * capacity, @p free_bytes what the device had free.
 */
typedef void (*acre_cache_oom_fn)(void *arg, int device, uint64_t bytes, uint64_t limit_bytes,
                                  uint64_t free_bytes);

/** Told that a request was refused ahead (ACRE_CACHE_REJECT_AHEAD).
 *
 * @p held_bytes is what the cache held from the device, @p total_bytes the
 * capacity.
 */
typedef void (*acre_cache_rejection_fn)(void *arg, int device, uint64_t bytes,
                                        uint64_t held_bytes, uint64_t total_bytes);

/** Asked to give memory back when the cache has no block that fits; returns
 *  whether it freed something. */
typedef bool (*acre_cache_reclaim_fn)(void *arg);

/** Adds an observer of failed requests. Errors: ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_cache_oom_observer_add(acre_cache *cache, acre_cache_oom_fn fn,
                                                 void *arg);
/** Removes it; a call under way on another thread may still finish. */
ACRE_API void acre_cache_oom_observer_remove(acre_cache *cache, acre_cache_oom_fn fn,
                                             void *arg);
/** Adds an observer of refused requests. Errors: ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_cache_rejection_observer_add(acre_cache *cache,
                                                       acre_cache_rejection_fn fn, void *arg);
/** Removes it; a call under way on another thread may still finish. */
ACRE_API void acre_cache_rejection_observer_remove(acre_cache *cache,
                                                   acre_cache_rejection_fn fn, void *arg);
/** Adds a callback that can free memory. All are asked, in the order added,
 *  before the device is. Errors: ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_cache_reclaimer_add(acre_cache *cache, acre_cache_reclaim_fn fn,
                                              void *arg);
/** Removes it; a call under way on another thread may still finish. */
ACRE_API void acre_cache_reclaimer_remove(acre_cache *cache, acre_cache_reclaim_fn fn,
                                          void *arg);

/* ---- Looking inside --------------------------------------------------------------- */

/** What a block is doing. */
typedef enum acre_block_state {
    ACRE_BLOCK_FREE = 0,     /**< Idle.                                        */
    ACRE_BLOCK_LIVE = 1,     /**< Allocated.                                   */
    ACRE_BLOCK_WAITING = 2,  /**< Freed, but a stream may still use it.        */
    ACRE_BLOCK_UNMAPPED = 3, /**< Addresses of an expandable segment, no pages.*/
} acre_block_state;

/** A block of a layout. */
typedef struct acre_block_info {
    void *base;               /**< First byte.                                     */
    uint64_t bytes;           /**< Size of the block.                              */
    uint64_t requested_bytes; /**< Last request served from it; stale when free.   */
    acre_block_state state;   /**< What it is doing.                               */
    uint32_t stack;           /**< That allocated it: acre_history.stacks; 0: none.*/
} acre_block_info;

/** A segment of a layout. Of an expandable segment each run of blocks with memory
 *  is one. */
typedef struct acre_segment_info {
    void *base;           /**< First byte.                                          */
    uint64_t bytes;       /**< Sum of its blocks.                                   */
    void *stream;         /**< The native stream its blocks belong to.              */
    uint64_t order;       /**< Grows with every new segment, never reused.          */
    uint64_t pool[2];     /**< Id of its pool; 0, 0 for the shared one.             */
    uint64_t first_block; /**< Index of its first block in acre_cache_layout.blocks.*/
    uint64_t block_count; /**< How many blocks, in address order.                   */
    uint32_t is_small;    /**< 1: serves requests up to 1 MiB.                      */
    uint32_t is_expandable; /**< 1: pages mapped into reserved addresses.           */
    uint32_t stack;       /**< That obtained it: acre_history.stacks; 0: none.      */
    uint32_t reserved;    /**< 0.                                                   */
} acre_segment_info;

/** Segments, in address order, and blocks of a cache at one moment. */
typedef struct acre_cache_layout {
    acre_segment_info *segments; /**< segment_count of them. */
    uint64_t segment_count;      /**< May be 0.              */
    acre_block_info *blocks;     /**< block_count of them.   */
    uint64_t block_count;        /**< May be 0.              */
} acre_cache_layout;

/** Copies the present layout; give it to acre_cache_layout_destroy().
 *  Errors: ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_cache_layout_create(acre_cache *cache, acre_cache_layout **out);

/** Frees a layout. NULL is accepted. */
ACRE_API void acre_cache_layout_destroy(acre_cache_layout *layout);

/** How much of the addresses of an expandable segment has memory. */
typedef struct acre_stream_segment_size {
    void *stream;         /**< The native stream it serves.                         */
    uint64_t pool[2];     /**< Id of its pool; 0, 0 for the shared one.             */
    uint64_t bytes;       /**< Bytes mapped.                                        */
    uint64_t span_bytes;  /**< Addresses reserved.                                  */
    uint64_t page_bytes;  /**< Unit in which it grows and shrinks.                  */
    uint32_t is_small;    /**< 1: serves requests up to 1 MiB.                      */
    acre_handle_type handle_type; /**< How its pages can be shared.                 */
} acre_stream_segment_size;

/** Sizes of the expandable segments, in the order they were made; those of the
 *  default stream too.
 *
 * Writes at most @p capacity of them and the number there are. @p sizes may be
 * NULL when capacity is 0.
 * Errors: ACRE_ERR_INVALID.
 */
ACRE_API acre_status acre_cache_stream_segment_sizes(acre_cache *cache,
                                                     acre_stream_segment_size *sizes,
                                                     uint64_t capacity, uint64_t *out_count);

/** Prints statistics, options, segments and blocks for people to read.
 *  Errors: ACRE_ERR_IO, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_cache_dump(acre_cache *cache, FILE *file);

/** Walks every structure of the cache and tells whether all facts hold; for
 *  tests and fault finding. Errors: ACRE_ERR_INTERNAL says which does not. */
ACRE_API acre_status acre_cache_check(acre_cache *cache);

/* ---- Options as text ----------------------------------------------------------- */

/** One option of configuration strings. Texts live as long as the library. */
typedef struct acre_cache_option {
    uint32_t struct_size; /**< sizeof(acre_cache_option), set by the caller.             */
    uint32_t policies;    /**< Bit 1 << policy is set for each policy that uses it.      */
    const char *name;     /**< As it is written before the colon.                        */
    const char *alias;    /**< Another name, or NULL.                                    */
    const char *values;   /**< What may follow the colon, for people.                    */
    const char *help;     /**< What it does, and its default.                            */
} acre_cache_option;

/** Describes option number @p index, from 0 on.
 *  Errors: ACRE_ERR_NOT_FOUND (there are fewer), ACRE_ERR_INVALID. */
ACRE_API acre_status acre_cache_option_at(size_t index, acre_cache_option *out);

ACRE_END_DECLS

#endif
