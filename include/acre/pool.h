/* SPDX-License-Identifier: MIT */
/** @file pool.h
 *  @brief Private pools of a cache.
 *
 * A private pool is memory of a cache that serves one purpose: what a graph
 * uses, what a library must find at fixed addresses, what another allocator
 * provides. While a scope of a pool is open, the allocations its filter names
 * come from that pool and nowhere else; a block returns to its pool whoever
 * frees it and whenever.
 *
 *     acre_pool_id id = acre_pool_id_next();
 *     acre_pool_create(cache, id, NULL);
 *     acre_pool_begin(cache, id, NULL);        this thread allocates there
 *     acre_cache_alloc(cache, bytes, stream, &pointer);
 *     acre_pool_end(cache, id);
 *     ...
 *     acre_pool_release(cache, id);            nobody needs it any more
 *
 * A pool has a use count: one of its creator, one per open scope, one per graph
 * that was captured into it. While it is above 0 the pool keeps what it holds
 * from the device; at 0 it is *freeable*: idle segments go back, and the pool
 * ends, when the cache is emptied or runs short.
 *
 * Pools belong to one cache, thus to one device. Threads: every call may come
 * from any thread.
 *
 * Fork: as the cache of the pools (acre/cache.h).
 */
#ifndef ACRE_POOL_H
#define ACRE_POOL_H

#include <acre/cache.h>

ACRE_BEGIN_DECLS

/** Names a pool. {0, 0} is the shared pool, which always exists. */
typedef struct acre_pool_id {
    uint64_t graph; /**< Not 0: made for a graph; then user is 0. */
    uint64_t user;  /**< Not 0: made by a user; then graph is 0.  */
} acre_pool_id;

/** A new id {0, n} for a pool of a user; n grows and never comes twice in a
 *  process, whatever thread asks. Nothing is created. */
ACRE_API acre_pool_id acre_pool_id_next(void);

/** A new id {n, 0} for the pool of a graph; as acre_pool_id_next(). */
ACRE_API acre_pool_id acre_pool_id_next_graph(void);

/** Bits of acre_pool_config.flags. */
typedef enum acre_pool_flag {
    /** Blocks are never cut: a request takes a whole free block or segment. */
    ACRE_POOL_NO_SPLIT = 1u << 0,
    /** Before the cache gives up on a request for the shared pool, it looks for a
     *  free block here. Pools with an open scope, and pools whose addresses are
     *  in graphs, are passed over, and so is memory that can sleep (expandable,
     *  stitched). */
    ACRE_POOL_USE_ON_OOM = 1u << 1,
    /** Under policy acre: memory is pages, stitched, where the device has virtual
     *  memory, so that the pool can sleep (acre/sleep.h). Nothing is captured into
     *  such a pool, because its free addresses may change; graphs may use what is
     *  live in it. Other policies take no notice. */
    ACRE_POOL_STITCHED = 1u << 2,
    /** Idle segments go back when the cache is emptied or runs short, also while the
     *  pool is used, as those of the shared pool do; not once its addresses are in
     *  graphs. */
    ACRE_POOL_GIVES_BACK = 1u << 3,
} acre_pool_flag;

/** Obtains @p bytes for blocks of @p stream on a device; NULL: out of memory.
 *  Called without any lock of the library held. */
typedef void *(*acre_pool_alloc_fn)(void *arg, size_t bytes, int device, void *stream);

/** Takes back what the function above gave, with the same size, device and
 *  stream. Called without any lock of the library held. */
typedef void (*acre_pool_free_fn)(void *arg, void *pointer, size_t bytes, int device,
                                  void *stream);

/** What a pool is to be. Zero means default everywhere. */
typedef struct acre_pool_config {
    uint32_t struct_size; /**< sizeof(acre_pool_config).                            */
    uint32_t flags;       /**< Bits of @ref acre_pool_flag.                         */
    /** Where segments come from instead of the device: its raw calls, with device
     *  and stream of the block current. Not with alloc. Outlives the pool. */
    acre_allocator *allocator;
    acre_pool_alloc_fn alloc; /**< The source as functions; NULL: the device.       */
    acre_pool_free_fn free;   /**< Its counterpart; both or none.                   */
    void *arg;                /**< Handed to both.                                  */
} acre_pool_config;

/** Creates a pool, or adds to the use count of one that exists.
 *
 * @p config may be NULL for the defaults. Segments of a pool with an allocator of
 * its own are never expandable.
 * Errors: ACRE_ERR_INVALID (the id of the shared pool, a bad configuration, a
 *         configuration for a pool that exists), ACRE_ERR_STATE (the pool is
 *         freeable and has not ended yet), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_pool_create(acre_cache *cache, acre_pool_id id,
                                      const acre_pool_config *config);

/** Drops one use. At 0 the pool becomes freeable; its memory stays until the
 *  cache is emptied or runs short, and blocks that are live stay usable.
 *  Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_STATE (it is freeable already, or only
 *  its open scope uses it). */
ACRE_API acre_status acre_pool_release(acre_cache *cache, acre_pool_id id);

/** How often a pool is used. Errors: ACRE_ERR_NOT_FOUND. */
ACRE_API acre_status acre_pool_use_count(acre_cache *cache, acre_pool_id id,
                                         uint64_t *out_count);

/** Lets the pool help when the shared pool has nothing, or not; see
 *  ACRE_POOL_USE_ON_OOM. Errors: ACRE_ERR_NOT_FOUND. */
ACRE_API acre_status acre_pool_use_on_oom_set(acre_cache *cache, acre_pool_id id,
                                              bool enabled);

/** Lets blocks be cut from now on, or not; see ACRE_POOL_NO_SPLIT.
 *  Errors: ACRE_ERR_NOT_FOUND. */
ACRE_API acre_status acre_pool_no_split_set(acre_cache *cache, acre_pool_id id, bool enabled);

/* ---- Scopes ----------------------------------------------------------------------- */

/** Which allocations a scope is about. */
typedef enum acre_pool_filter_kind {
    ACRE_POOL_THIS_THREAD = 0, /**< Those of the thread that begins the scope.      */
    ACRE_POOL_STREAM = 1,      /**< Those for one stream.                           */
    ACRE_POOL_ANY = 2,         /**< All of them.                                    */
    ACRE_POOL_CALLBACK = 3,    /**< Those a function says yes to.                   */
    ACRE_POOL_CAPTURE = 4,     /**< Those for streams that take part in a capture.  */
} acre_pool_filter_kind;

/** Says whether an allocation for @p stream belongs to the scope. Called, without
 *  any lock of the library held, on the thread that allocates. */
typedef bool (*acre_pool_filter_fn)(void *arg, void *stream);

/** The filter of a scope. */
typedef struct acre_pool_filter {
    acre_pool_filter_kind kind; /**< Which of the following is looked at.        */
    uint32_t reserved;          /**< 0.                                          */
    void *stream;               /**< ACRE_POOL_STREAM: the native stream.        */
    acre_pool_filter_fn fn;     /**< ACRE_POOL_CALLBACK: the function.           */
    void *arg;                  /**< ACRE_POOL_CALLBACK: handed to it.           */
    uint64_t capture_id;        /**< ACRE_POOL_CAPTURE: see acre_capture_info.   */
} acre_pool_filter;

/** Opens a scope: allocations that pass @p filter come from the pool.
 *
 * NULL means those of the calling thread. The pool is created if it does not
 * exist, and used once more until the scope ends. Of several open scopes the
 * newest whose filter passes serves.
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_STATE ("already recording to mempool_id": a
 *         pool has one scope at a time; or the pool is freeable),
 *         ACRE_ERR_HOST_MEMORY; nothing has changed.
 */
ACRE_API acre_status acre_pool_begin(acre_cache *cache, acre_pool_id id,
                                     const acre_pool_filter *filter);

/** Ends the scope of a pool, wherever it stands among the open ones, and drops
 *  the use it had. Any thread may.
 *  Errors: ACRE_ERR_STATE ("not currently recording to mempool_id"). */
ACRE_API acre_status acre_pool_end(acre_cache *cache, acre_pool_id id);

/* ---- What a pool holds ------------------------------------------------------------ */

/** Waits for pending uses of a freeable pool, returns its idle segments, and ends
 *  it when nothing is left. A pool that is used, or does not exist, is left alone.
 *  Errors: ACRE_ERR_DEVICE. */
ACRE_API acre_status acre_pool_empty(acre_cache *cache, acre_pool_id id);

/** Whether the live allocations of a pool are exactly the @p count pointers given.
 *
 * What was freed and waits for streams does not count.
 * Errors: ACRE_ERR_NOT_FOUND ("Could not find pool of id").
 */
ACRE_API acre_status acre_pool_check_live(acre_cache *cache, acre_pool_id id,
                                          void *const *pointers, size_t count, bool *out_same);

/** One pool at one moment. */
typedef struct acre_pool_stats {
    uint32_t struct_size;  /**< sizeof(acre_pool_stats), set by the caller.         */
    uint32_t flags;        /**< Bits of @ref acre_pool_flag.                        */
    uint64_t use_count;    /**< 0: freeable, or ended.                              */
    uint64_t segment_count; /**< Segments held now.                                 */
    uint64_t live_count;   /**< Live allocations.                                   */
    uint64_t live_bytes;   /**< And their bytes.                                    */
    uint64_t waiting_bytes; /**< Bytes of blocks freed that streams may still use.  */
    uint64_t free_bytes;   /**< Bytes of free blocks.                               */
    /** Bytes held from the device (reserved_bytes_by_private_pools): kept, with the
     *  current level 0, after the pool has ended. */
    acre_stat_array reserved_bytes;
} acre_pool_stats;

/** Reads the statistics of a pool, of one that has ended too if it ever held
 *  memory. The calls that reset those of the cache reset these.
 *  Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_INVALID (struct_size is not set, or is larger
 *  than this library knows and the bytes beyond are not zero). */
ACRE_API acre_status acre_pool_stats_get(acre_cache *cache, acre_pool_id id,
                                         acre_pool_stats *stats);

/** Gives the ids of all pools that exist or ever held memory, in no particular
 *  order: at most @p capacity of them; *out_count says how many there are. */
ACRE_API acre_status acre_pool_ids(acre_cache *cache, acre_pool_id *ids, size_t capacity,
                                   size_t *out_count);

/* ---- Captures --------------------------------------------------------------------- */

/** Tells the cache that @p stream, which captures already, does.
 *
 * From then on, calls about streams that take part in a capture, and calls of the
 * thread that said so, leave everything alone that would break it: no event is
 * recorded or asked for, nothing is waited for or given back to the device. A
 * block that other streams use and that is freed meanwhile becomes free when the
 * capture has ended, or, with option graph_capture_record_stream_reuse, as soon
 * as what is captured next on its stream depends on everything that used it.
 * acre_recording_begin() does this, and more. While a scope is open, the cache also asks
 * the streams that calls are about, and treats a capture that it finds as if it had been
 * told, until that capture is over.
 * Errors: ACRE_ERR_STATE (the stream does not capture), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_capture_mark_begin(acre_cache *cache, void *stream);

/** Tells that the capture @p stream began has ended.
 *  Errors: ACRE_ERR_STATE (the cache was not told of one). */
ACRE_API acre_status acre_capture_mark_end(acre_cache *cache, void *stream);

/** A graph and the memory it works on.
 *
 *     acre_recording_begin(cache, stream, NULL, &recording);
 *     ... allocate, queue work on the stream and on streams that wait for it ...
 *     acre_recording_end(recording);
 *     acre_recording_launch(recording, stream);   as often as wanted
 *     acre_recording_destroy(recording);
 *
 * Allocations for streams that take part in the capture come from the pool of
 * the recording, and the recording is a use of that pool: as long as it lives,
 * every launch works on the same addresses, and none of them goes back to the
 * device. What was freed while recording may be used again by later work of the
 * same recording, or of another one with the same pool; two recordings of one pool must
 * not run at the same time.
 *
 * Threads: calls on one recording need the caller's order among themselves.
 */
typedef struct acre_recording acre_recording;

/** Begins to capture @p stream into a graph.
 *
 * @p pool, when not NULL, is the pool to use, created if need be; otherwise the
 * recording has one of its own. The cache must outlive the recording.
 * Errors: ACRE_ERR_UNSUPPORTED (the device has no captures), ACRE_ERR_STATE (the
 *         stream captures already; the pool has an open scope, or is freeable),
 *         ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY, ACRE_ERR_DEVICE.
 */
ACRE_API acre_status acre_recording_begin(acre_cache *cache, void *stream,
                                          const acre_pool_id *pool, acre_recording **out);

/** Ends the capture. On failure there is no graph and the pool is not used any
 *  more; the recording is still to be destroyed.
 *  Errors: ACRE_ERR_STATE (it has ended before; the capture was broken),
 *  ACRE_ERR_HOST_MEMORY, ACRE_ERR_DEVICE. */
ACRE_API acre_status acre_recording_end(acre_recording *recording);

/** Queues the whole graph on a stream. Its pool does not fall asleep meanwhile.
 *  Errors: ACRE_ERR_STATE (there is no graph; the pool sleeps), what the device says. */
ACRE_API acre_status acre_recording_launch(acre_recording *recording, void *stream);

/** The pool of a recording; {0, 0} for NULL. */
ACRE_API acre_pool_id acre_recording_pool(const acre_recording *recording);

/** Drops the graph, or gives up the capture, and the use of the pool. Launches
 *  under way finish. NULL is accepted. */
ACRE_API void acre_recording_destroy(acre_recording *recording);

/* ---- Checkpoints -------------------------------------------------------------------- */

/** How the memory of a pool was divided at one moment; see acre_pool_save(). It
 *  holds addresses and sizes, no contents. */
typedef struct acre_pool_state acre_pool_state;

/** What a restore changed. An address may be in both lists: freed, and allocated
 *  again, perhaps with another size. */
typedef struct acre_pool_delta {
    void **freed;             /**< Allocations that were live before.                   */
    uint64_t freed_count;     /**< How many.                                            */
    void **allocated;         /**< Allocations that are live now; free them as usual.   */
    uint64_t allocated_count; /**< How many.                                            */
} acre_pool_delta;

/** Notes which blocks of a pool are live and how its segments are divided, the
 *  parts of expandable segments that have memory as well as those that have none.
 *
 * A freeable pool can be saved too. Give the state to acre_pool_state_destroy().
 * Errors: ACRE_ERR_NOT_FOUND ("Could not find pool of id"), ACRE_ERR_UNSUPPORTED
 *         (the pool has stitched memory, ACRE_POOL_STITCHED: its free addresses
 *         change, so an earlier division cannot be made again), ACRE_ERR_STATE (the
 *         pool sleeps), ACRE_ERR_NOT_READY (a block was freed and streams still use
 *         it), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_pool_save(acre_cache *cache, acre_pool_id id, acre_pool_state **out);

/** Frees a state. NULL is accepted. */
ACRE_API void acre_pool_state_destroy(acre_pool_state *state);

/** Divides the memory of a pool again as it was at acre_pool_save(): what is live
 *  now is freed, what was live then is allocated, each block with its size and
 *  stream. Segments that came later stay, free.
 *
 * Contents are whatever is there; the size asked for becomes that of the block.
 * Every block passes through the statistics and the history once, so peaks rise.
 * Where streams share memory (policy acre) all work of the device is waited for.
 * Everything is checked first: on failure nothing has changed. @p out_delta may be
 * NULL; give what it gets to acre_pool_delta_destroy().
 * Errors: ACRE_ERR_INVALID (no state, or one of another cache), ACRE_ERR_NOT_FOUND
 *         ("Could not find pool of id", or a segment "could not be found": it was
 *         returned to the device since), ACRE_ERR_STATE (the pool is freeable; a
 *         live block is used on other streams or shared; a capture runs),
 *         ACRE_ERR_NOT_READY (as above), ACRE_ERR_HOST_MEMORY, ACRE_ERR_DEVICE.
 */
ACRE_API acre_status acre_pool_restore(acre_cache *cache, const acre_pool_state *state,
                                       acre_pool_delta **out_delta);

/** Frees a delta. NULL is accepted. */
ACRE_API void acre_pool_delta_destroy(acre_pool_delta *delta);

ACRE_END_DECLS

#endif
