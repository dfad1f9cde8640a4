/* SPDX-License-Identifier: MIT */
/** @file plan.h
 *  @brief Planning ahead: offsets for buffers whose lifetimes are known.
 *
 * A compiled graph or a recorded iteration knows when each buffer is needed.
 * Buffers that are never needed at the same time may share memory:
 *
 *     acre_plan_buffer buffers[] = {
 *         {.start = 0, .end = 2, .size = 4096},
 *         {.start = 1, .end = 3, .size = 8192},
 *         {.start = 2, .end = 4, .size = 4096},
 *     };
 *     uint64_t offsets[3];
 *     acre_plan_result result = {.struct_size = sizeof result};
 *     if (acre_plan_place(buffers, 3, NULL, offsets, &result) == ACRE_OK)
 *         arena = allocate(result.height);
 *
 * No placement is lower than the largest sum of sizes needed at one moment, the
 * lower bound; most inputs reach it.
 *
 * Fork: a child may call these.
 */
#ifndef ACRE_PLAN_H
#define ACRE_PLAN_H

#include <acre/trace.h>

ACRE_BEGIN_DECLS

/* ---- Placing ---------------------------------------------------------------------- */

/** Bits of acre_plan_buffer.flags. */
typedef enum acre_plan_flag {
    ACRE_PLAN_FIXED = 1u << 0, /**< The buffer must lie at its offset. */
} acre_plan_flag;

/** A span of time within a buffer's life in which it is not needed. */
typedef struct acre_plan_gap {
    uint64_t start; /**< First moment without it.                 */
    uint64_t end;   /**< First moment with it again.              */
} acre_plan_gap;

/** A buffer: needed from start to end, end excluded. Zero means default. */
typedef struct acre_plan_buffer {
    uint64_t start;     /**< First moment it is needed, in any unit.                     */
    uint64_t end;       /**< First moment it is not; equal to start: never needed.       */
    uint64_t size;      /**< In bytes, at most 2^60.                                     */
    uint64_t alignment; /**< Its offset is a multiple of it, at most 2^40; 0: 1.         */
    uint64_t offset;    /**< With ACRE_PLAN_FIXED: where it must lie.                    */
    const acre_plan_gap *gaps; /**< Gaps in order of time, within its life; or NULL.     */
    uint32_t gap_count; /**< How many.                                                   */
    uint32_t flags;     /**< Bits of @ref acre_plan_flag.                                */
} acre_plan_buffer;

/** How to place. Zero means default everywhere. */
typedef struct acre_plan_config {
    uint32_t struct_size; /**< sizeof(acre_plan_config).                                 */
    uint32_t threads;     /**< Threads to use; 0: 2. The result does not depend on it.   */
    uint64_t capacity;    /**< Height that a placement should not exceed; 0: the lowest
                               that can be found.                                        */
    uint64_t seed;        /**< Other seeds try other orders.                             */
    double seconds;       /**< Keep improving for at most this long; 0: a
                               fixed amount of work, so that results are repeatable.     */
    acre_progress_fn progress; /**< Or NULL. Called on the calling thread.               */
    void *progress_arg;        /**< Handed to it.                                        */
    double limit;         /**< Give up after so many seconds (#ACRE_ERR_TIMEOUT) unless
                               the work has ended by then; 0: never.                     */
} acre_plan_config;

/** What was found. */
typedef struct acre_plan_result {
    uint32_t struct_size; /**< sizeof(acre_plan_result), set by the caller.              */
    uint32_t is_optimal;  /**< 1: no placement is lower (or, with a capacity, it is kept). */
    uint64_t lower_bound; /**< No placement is lower than this.                          */
    uint64_t bound_time;  /**< A moment at which lower_bound bytes are live.             */
    uint64_t height;      /**< Highest end of a buffer in the placement found.           */
    double seconds;       /**< Wall time used.                                           */
} acre_plan_result;

/** Places @p count buffers; offset i goes to @p offsets [i].
 *
 * Deterministic: the same buffers, seed and config give the same offsets, unless
 * seconds ends the work. Buffers that are never needed get offset 0 (or their fixed
 * one). @p result may be NULL; when not, its lower bound is also filled in when
 * the status is ACRE_ERR_LIMIT, and its height is then the lowest found or 0.
 * Threads: any; calls are independent of each other.
 * Errors: ACRE_ERR_INVALID (a buffer that ends before it starts, is too large, or
 *         gaps out of order; fixed buffers that collide), ACRE_ERR_LIMIT (no
 *         placement within the capacity was found; the text says whether it is
 *         impossible and which moment proves it), ACRE_ERR_TIMEOUT (limit),
 *         ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_plan_place(const acre_plan_buffer *buffers, size_t count,
                                     const acre_plan_config *config, uint64_t *offsets,
                                     acre_plan_result *result);

/** Checks a placement: nothing that is needed at one moment overlaps, alignments and
 *  fixed offsets are kept, everything ends within @p capacity (0: any).
 *
 * Errors: ACRE_ERR_INVALID (the text names the buffers), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_plan_verify(const acre_plan_buffer *buffers, size_t count,
                                      const uint64_t *offsets, uint64_t capacity);

/* ---- Files ------------------------------------------------------------------------ */

/** Buffers read from a file, with the rows they came from. Threads: one at a time. */
typedef struct acre_plan_table acre_plan_table;

/** Reads buffers: MiniMalloc's CSV, a trace or a memory snapshot, told by its beginning.
 *
 * CSV: a header with the columns id, lower, upper, size in any order; also buffer,
 * buffer_id for id; begin, start for lower; end, which is inclusive, for upper;
 * alignment, gaps ("4-7 9-12"). Further columns are kept as they are. A trace, or a
 * snapshot with a history, plain or gzip: lifetimes are numbers of events, sizes are
 * rounded up to 512; of a snapshot ACRE_DEVICE_CHOOSE (acre/snapshot.h) decides whose.
 * Errors: ACRE_ERR_FORMAT (the text names file and line; a snapshot without history),
 *         ACRE_ERR_IO, ACRE_ERR_UNSUPPORTED, ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_plan_read(const char *path, acre_plan_table **out);
/** Reads as acre_plan_read(), of a snapshot the history of @p device. */
ACRE_API acre_status acre_plan_read_device(const char *path, uint32_t device,
                                           acre_plan_table **out);

/** The buffers, in the order of rows; valid until the table is closed. */
ACRE_API const acre_plan_buffer *acre_plan_buffers(const acre_plan_table *table,
                                                   size_t *out_count);

/** Writes the rows with a column "offset" as the last.
 *
 * The file appears whole or not at all.
 * Errors: ACRE_ERR_IO, ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_plan_write(const acre_plan_table *table, const uint64_t *offsets,
                                     const char *path);

/** Frees a table. NULL is accepted. */
ACRE_API void acre_plan_close(acre_plan_table *table);

ACRE_END_DECLS

#endif
