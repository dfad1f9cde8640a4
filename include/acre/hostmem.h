/* SPDX-License-Identifier: MIT */
/** @file hostmem.h
 *  @brief A heap of host memory for tensors and arrays: PyTorch on CPUs, NumPy.
 *
 * A heap serves large blocks from a cache (<acre/cache.h>) over the device "host",
 * so a temporary that is allocated again and again keeps its pages. Requests of up to
 * ACRE_HOSTMEM_SMALL_MAX bytes come from slabs with slots of 64 bytes and more.
 * Statistics, limits, history and snapshots of the cache are those of the heap.
 *
 *     acre_hostmem *heap;
 *     void *pointer;
 *     acre_hostmem_create(NULL, &heap);
 *     acre_hostmem_alloc(heap, 64 << 20, &pointer);
 *     acre_hostmem_free(heap, pointer);
 *
 * Memory that the program has not needed for a while goes back to the system; see
 * acre_hostmem_config. No call touches a page of a block that the caller has not
 * touched, except acre_hostmem_calloc() below 256 KiB and acre_hostmem_realloc(),
 * which copies what it cannot remap.
 *
 * Threads: every call may come from any thread. Allocating and freeing take no lock
 * when the calling thread has a free block of that size at hand.
 * Fork: the child may use its copy of every heap.
 */
#ifndef ACRE_HOSTMEM_H
#define ACRE_HOSTMEM_H

#include <acre/cache.h>
#include <acre/history.h>

ACRE_BEGIN_DECLS

/** A heap of host memory. */
typedef struct acre_hostmem acre_hostmem;

/** Requests up to this size come from slabs, unless a history is recorded. */
#define ACRE_HOSTMEM_SMALL_MAX 4096
/** Every block is aligned to this many bytes. */
#define ACRE_HOSTMEM_ALIGNMENT 64
/** Most heaps that a process may have at a time. */
#define ACRE_HOSTMEM_HEAPS_MAX 4

/** Bits of acre_hostmem_config.flags. */
typedef enum acre_hostmem_flag {
    /** Asks the kernel for huge pages for blocks of 4 MiB and more (madvise). */
    ACRE_HOSTMEM_HUGE_PAGES = 1u << 0,
    /** Does not start a thread: memory goes back by acre_hostmem_trim() only. */
    ACRE_HOSTMEM_NO_THREAD = 1u << 1,
    /** Spreads the pages of segments over all memory nodes. The default leaves each page
     *  on the node of the thread that touches it first, and gives threads blocks of 2 MiB and
     *  more on pages of their own node, as far as free ones are there. */
    ACRE_HOSTMEM_INTERLEAVE = 1u << 2,
} acre_hostmem_flag;

/** What a heap is to be. Zero means default everywhere. */
typedef struct acre_hostmem_config {
    uint32_t struct_size;  /**< sizeof(acre_hostmem_config).                             */
    uint32_t flags;        /**< Bits of @ref acre_hostmem_flag.                          */
    uint64_t limit_bytes;  /**< Cap on bytes held from the system; 0: no cap.            */
    uint32_t idle_ms;      /**< Memory not needed for this long goes back; 0: 10,000.    */
    uint32_t keep_percent; /**< What is kept beyond the need of that time, as a share of
                                that need; 0: 12.                                       */
} acre_hostmem_config;

/** Creates a heap.
 *
 * @p config may be NULL for the defaults. Unless ACRE_HOSTMEM_NO_THREAD is set, the
 * first large allocation starts a thread that returns idle memory. It looks ten times
 * within idle_ms. Pages go back that exceed the highest use within idle_ms by more than
 * keep_percent. When the system or the control group of the process runs short of memory,
 * all idle pages go back at once.
 * Errors: ACRE_ERR_INVALID (struct_size, unknown flags), ACRE_ERR_LIMIT
 *         (ACRE_HOSTMEM_HEAPS_MAX heaps exist), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_hostmem_create(const acre_hostmem_config *config, acre_hostmem **out);

/** Returns all memory to the system, live blocks included, and ends the heap.
 *
 * NULL is accepted. Threads: no other call may use the heap at that time or later. */
ACRE_API void acre_hostmem_destroy(acre_hostmem *heap);

/** Allocates @p bytes, aligned to ACRE_HOSTMEM_ALIGNMENT. Zero bytes give NULL and ACRE_OK.
 *
 * Errors: ACRE_ERR_DEVICE_MEMORY (the last error holds the report of the cache; see
 *         acre_hostmem_report() for who holds the memory), ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_hostmem_alloc(acre_hostmem *heap, size_t bytes, void **out);

/** Allocates @p count times @p bytes, cleared.
 *
 * From 256 KiB on the kernel clears the pages when they are touched.
 * Errors: as acre_hostmem_alloc(); ACRE_ERR_DEVICE_MEMORY also when the product
 *         overflows. */
ACRE_API acre_status acre_hostmem_calloc(acre_hostmem *heap, size_t count, size_t bytes,
                                         void **out);

/** Changes the size of a block and keeps its contents up to the smaller size.
 *
 * A block that is large enough stays where it is. A large block that has to move takes
 * its pages along: they are remapped, not copied. A NULL @p pointer allocates; zero
 * @p bytes free and give NULL. On failure the block stays as it is.
 * Errors: as acre_hostmem_alloc() and acre_hostmem_free(). */
ACRE_API acre_status acre_hostmem_realloc(acre_hostmem *heap, void *pointer, size_t bytes,
                                          void **out);

/** Frees a block. NULL is accepted.
 *
 * Errors: ACRE_ERR_INVALID: @p pointer is not the first byte of a live block of this
 *         heap; nothing has changed. */
ACRE_API acre_status acre_hostmem_free(acre_hostmem *heap, void *pointer);

/** Bytes that the caller may use behind @p pointer; 0 when that is not the first byte of
 *  a live block of this heap. Takes no lock. */
ACRE_API size_t acre_hostmem_usable_bytes(const acre_hostmem *heap, const void *pointer);

/** The cache behind a heap: for limits, history, layout and snapshots. */
ACRE_API acre_cache *acre_hostmem_cache(acre_hostmem *heap);

/** Statistics of a heap. */
typedef struct acre_hostmem_stats {
    uint32_t struct_size;    /**< sizeof(acre_hostmem_stats), set by the caller.            */
    uint32_t reserved;       /**< 0.                                                        */
    int64_t small_count;     /**< Live blocks in slabs.                                     */
    int64_t small_bytes;     /**< Their slots, in bytes.                                    */
    int64_t small_allocated; /**< Blocks ever allocated from slabs.                      */
    int64_t slab_bytes;      /**< Blocks of the cache that hold slabs; part of
                               cache.allocated_bytes.                                    */
    int64_t trimmed_bytes;   /**< Pages returned to the system while idle, ever.           */
    int64_t trim_count;      /**< How often some were.                                      */
    int64_t remap_count;     /**< Blocks that moved with their pages.                       */
    int64_t reserved2;       /**< 0.                                                        */
    acre_cache_stats cache;  /**< Of the cache; its struct_size need not be set. Use these
                                 peaks: the thread that trims resets those of the cache. */
} acre_hostmem_stats;

/** Reads all statistics. Those of the cache are of one moment.
 *  Errors: ACRE_ERR_INVALID (struct_size is not set). */
ACRE_API acre_status acre_hostmem_stats_get(acre_hostmem *heap, acre_hostmem_stats *stats);

/** Sets every peak to the present level. */
ACRE_API void acre_hostmem_stats_reset_peak(acre_hostmem *heap);

/** Returns idle pages to the system until at most @p keep_bytes of free memory are
 *  resident. @p out_bytes, which may be NULL, is what went. */
ACRE_API void acre_hostmem_trim(acre_hostmem *heap, uint64_t keep_bytes, uint64_t *out_bytes);

/** Starts recording as acre_cache_history_start() does. From then on small blocks come
 *  from the cache too, so that the history and snapshots name each of them.
 *  Errors: as acre_cache_history_start(). */
ACRE_API acre_status acre_hostmem_history_start(acre_hostmem *heap,
                                                const acre_history_config *config);
/** Stops recording; see acre_cache_history_stop(). */
ACRE_API void acre_hostmem_history_stop(acre_hostmem *heap);

/** Writes who holds the memory of a heap into @p buffer, several lines, and returns the
 *  length as snprintf does.
 *
 * Blocks are summed by the place that allocated them where stacks were recorded
 * (ACRE_CONTEXT_STATE or more), otherwise by size. The @p count largest are named. */
ACRE_API int acre_hostmem_report(acre_hostmem *heap, unsigned count, char *buffer, size_t bytes);

/** Python's stack of the calling thread as a source for histories.
 *
 * The interpreter is found in the process at run time. Frames are numbers of pairs of
 * code object and line; the code objects stay alive as long as the process. Its functions
 * take the interpreter's lock, and give no frames on threads that run no Python.
 * NULL when the process has no Python of version 3.9 or later. */
ACRE_API const acre_context_source *acre_context_python(void);

/** A memory handler for NumPy (NEP 49) over a heap.
 *
 * @p fallback is NumPy's own handler: blocks below 1024 bytes and blocks that the heap does
 * not know go there. The result has the layout of PyDataMem_Handler and lives as long as
 * the process; the heap must too. Calling it again for a heap gives the handler of the
 * first call.
 * Errors: ACRE_ERR_INVALID (fallback is NULL or not of version 1). */
ACRE_API acre_status acre_hostmem_numpy_handler(acre_hostmem *heap, const void *fallback,
                                                void **out);

ACRE_END_DECLS

#endif
