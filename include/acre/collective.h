/* SPDX-License-Identifier: MIT */
/** @file collective.h
 *  @brief Moving and reducing data in symmetric memory.
 *
 * Common to all calls: every rank of the handle's group makes the same calls in the same
 * order; they are kept apart from the channels of acre/symm.h and leave every signal pad as it
 * was. Offsets are bytes from the handle's own offset. What a call reads may be changed when
 * it returns, on every rank. Sums add ranks in the order 0, 1, ..., so all ranks get the same
 * bits; 16-bit sums are rounded after each addition, except with ACRE_ALGORITHM_MULTICAST,
 * which accumulates in 32 bits.
 *
 * Ranks on other hosts take part as all others do; large data passes in chunks of 256 KiB.
 * ACRE_ALGORITHM_STAGED is for ranks of one host (else ACRE_ERR_UNSUPPORTED).
 *
 * On device memory a call runs as a kernel, and ordinary pointers are memory of that device.
 *
 * Threads: one call at a time per block and group, as the common order asks for; meanwhile
 * other threads of a rank may use the signals and barriers of acre/symm.h.
 *
 * Errors: ACRE_ERR_INVALID before anything is sent (NULL, a range beyond the buffer, sizes or
 * offsets that are not multiples of 4 and of the element), ACRE_ERR_RANGE (rank), then
 * ACRE_ERR_TIMEOUT and ACRE_ERR_PEER, which name the rank; after one of these two the handle's
 * collectives answer ACRE_ERR_STATE.
 *
 * Fork: groups and their memory are the parent's; a child must not call these.
 */
#ifndef ACRE_COLLECTIVE_H
#define ACRE_COLLECTIVE_H

#include <acre/symm.h>

ACRE_BEGIN_DECLS

/** Types of elements. */
typedef enum acre_dtype {
    ACRE_DTYPE_F32 = 0,  /**< IEEE single.                    */
    ACRE_DTYPE_F16 = 1,  /**< IEEE half.                      */
    ACRE_DTYPE_BF16 = 2, /**< The upper half of a single.     */
    ACRE_DTYPE_I32 = 3,  /**< Sums wrap.                      */
    ACRE_DTYPE_U8 = 4,   /**< Sums wrap.                      */
} acre_dtype;

/** What to do with elements of several ranks. */
typedef enum acre_reduce {
    ACRE_REDUCE_SUM = 0, /**< Everywhere.                              */
    ACRE_REDUCE_AVG = 1, /**< acre_symm_reduce_scatter(), floats only. */
    ACRE_REDUCE_MAX = 2, /**< Nowhere; refused.                        */
} acre_reduce;

/** Ways to reduce. */
typedef enum acre_algorithm {
    ACRE_ALGORITHM_AUTO = 0,      /**< By size and number of ranks.                        */
    ACRE_ALGORITHM_ONE_SHOT = 1,  /**< Every rank reads all. Needs out.                    */
    ACRE_ALGORITHM_TWO_SHOT = 2,  /**< Every rank reduces a part; with out 2, 4, 8 ranks,
                                       and the own part of the input is overwritten.       */
    ACRE_ALGORITHM_MULTICAST = 3, /**< As the hardware would; needs multicast.             */
    ACRE_ALGORITHM_STAGED = 4,    /**< Through small buffers, no meeting; up to 7680
                                       bytes of 8 ranks.                                   */
} acre_algorithm;

/** How a call is to run. NULL and zero mean default. */
typedef struct acre_collective_options {
    uint32_t struct_size;     /**< sizeof(acre_collective_options).                        */
    acre_algorithm algorithm; /**< Where there is a choice.                                */
    acre_reduce reduce;       /**< Default sum.                                            */
    uint32_t is_async;        /**< 1: queue it on the stream and do not wait; failures are
                                   told by acre_symm_status().                             */
    acre_device *device;      /**< For host memory: whose stream is meant.                 */
    void *stream;             /**< NULL: the default stream, where there is a device.      */
    uint64_t timeout_ms;      /**< 0: that of the group.                                   */
} acre_collective_options;

/** The first failure of queued work since the last call, or ACRE_OK. */
ACRE_API acre_status acre_symm_status(acre_symm *symm);

/* ---- Reducing --------------------------------------------------------------------- */

/** Sums count elements of all ranks, in place (@p out NULL) or into @p out. */
ACRE_API acre_status acre_symm_all_reduce(acre_symm *symm, size_t offset, size_t count,
                                          acre_dtype dtype, void *out,
                                          const acre_collective_options *options);
/** Copies @p in, of @p in_count elements, into the own buffer and sums count elements into
 *  @p out. Errors: ACRE_ERR_INVALID (in is shorter than count). */
ACRE_API acre_status acre_symm_all_reduce_copy(acre_symm *symm, size_t offset, const void *in,
                                               size_t in_count, size_t count, acre_dtype dtype,
                                               void *out,
                                               const acre_collective_options *options);
/** Sums and gives each rank its slice of the last dimension: rows x columns elements, out has
 *  rows x columns / N. rows 1 is the flat form. With @p in, ordinary memory is reduced and the
 *  buffer, of at least the same size, is room for it.
 *  Errors: ACRE_ERR_INVALID (columns are not divisible). */
ACRE_API acre_status acre_symm_reduce_scatter(acre_symm *symm, size_t offset, const void *in,
                                              size_t rows, size_t columns, acre_dtype dtype,
                                              void *out,
                                              const acre_collective_options *options);
/** Sums into the root's out; other ranks' out is not touched and may be NULL.
 *  Errors: ACRE_ERR_UNSUPPORTED (no multicast). */
ACRE_API acre_status acre_symm_reduce(acre_symm *symm, size_t offset, size_t count,
                                      acre_dtype dtype, int root, void *out,
                                      const acre_collective_options *options);

/** A rectangle of elements. */
typedef struct acre_tile {
    size_t offset;  /**< Of its first element, in bytes.  */
    size_t rows;    /**< Equal on all ranks.              */
    size_t columns; /**< Equal on all ranks.              */
    size_t stride;  /**< Elements from row to row.        */
} acre_tile;

/** Sums a tile of all ranks into the root's @p out, which has the same stride. */
ACRE_API acre_status acre_symm_tile_reduce(acre_symm *symm, const acre_tile *tile,
                                           acre_dtype dtype, int root, void *out,
                                           const acre_collective_options *options);
/** Reduces several tiles: tile i goes to roots[i]; a rank is root at most once and its
 *  @p out is for its tile. Errors: ACRE_ERR_INVALID (a rank twice, on all ranks). */
ACRE_API acre_status acre_symm_tile_reduce_multi(acre_symm *symm, const acre_tile *tiles,
                                                 const int *roots, size_t tile_count,
                                                 size_t root_count, acre_dtype dtype, void *out,
                                                 const acre_collective_options *options);

/* ---- Moving ----------------------------------------------------------------------- */

/** Puts every rank's bytes at rank * bytes of all buffers. Errors: ACRE_ERR_UNSUPPORTED. */
ACRE_API acre_status acre_symm_all_gather(acre_symm *symm, size_t offset, const void *in,
                                          size_t bytes,
                                          const acre_collective_options *options);
/** Collects bytes of every rank in @p out, pulling in an order that spreads traffic. @p in is
 *  first copied into the own buffer; NULL: it is there. */
ACRE_API acre_status acre_symm_gather_out(acre_symm *symm, size_t offset, const void *in,
                                          size_t bytes, void *out,
                                          const acre_collective_options *options);
/** Copies the root's bytes into all buffers. */
ACRE_API acre_status acre_symm_broadcast(acre_symm *symm, size_t offset, size_t bytes, int root,
                                         const acre_collective_options *options);
/** Gives rank r the r-th piece of bytes of every rank, in rank order, in @p out. */
ACRE_API acre_status acre_symm_all_to_all(acre_symm *symm, size_t offset, size_t bytes,
                                          void *out, const acre_collective_options *options);

/** An exchange with variable splits. Rows are row_bytes long; input rows lie in the buffer. */
typedef struct acre_splits {
    uint32_t struct_size;      /**< sizeof(acre_splits).                                     */
    size_t row_bytes;          /**< Of one row, equal on all ranks.                          */
    size_t in_rows;            /**< Rows in the own buffer from the offset on.               */
    size_t out_rows;           /**< Rows that out has room for.                              */
    size_t experts;            /**< 0: the 1-D form. Else per rank, 1 to 512 / N.            */
    int64_t align;             /**< 2-D: expert groups start at multiples of it, at least 1. */
    const int64_t *in_splits;  /**< Rows per destination: N, or N * experts, rank-major.     */
    const int64_t *in_offsets; /**< NULL: one after the other. Given: the input is
                                    expert-major, the output rank-major (the way back).      */
    int64_t *out_splits;       /**< Receives rows per source: N, or experts x N; for the way
                                    back N x experts.                                        */
    int64_t *out_offsets;      /**< Receives where they begin in out.                        */
} acre_splits;

/** Exchanges rows; splits are host memory. Errors: ACRE_ERR_INVALID (negative splits, more rows
 *  than there are, out is too small: gives both numbers; the others are not disturbed). */
ACRE_API acre_status acre_symm_all_to_all_v(acre_symm *symm, size_t offset,
                                            const acre_splits *splits, void *out,
                                            const acre_collective_options *options);

/* ---- One-sided -------------------------------------------------------------------- */

/** Copies into a rank's buffer. Nobody else takes part. */
ACRE_API acre_status acre_symm_put(acre_symm *symm, int rank, size_t offset, const void *in,
                                   size_t bytes, const acre_collective_options *options);
/** Copies out of a rank's buffer. */
ACRE_API acre_status acre_symm_get(acre_symm *symm, int rank, size_t offset, void *out,
                                   size_t bytes, const acre_collective_options *options);
/** Copies, then sets the 64-bit word @p index of that rank's pad: who sees the value sees the
 *  data. Errors: ACRE_ERR_RANGE (index). */
ACRE_API acre_status acre_symm_put_with_signal(acre_symm *symm, int rank, size_t offset,
                                               const void *in, size_t bytes, size_t index,
                                               uint64_t value,
                                               const acre_collective_options *options);
/** Waits until the word of the own pad is at least, or with ACRE_WAIT_EQ exactly, the value.
 *  @p rank is who is expected to set it. */
ACRE_API acre_status acre_symm_wait_for_signal(acre_symm *symm, int rank, size_t index,
                                               uint64_t value, acre_wait_condition condition,
                                               const acre_collective_options *options);
/** Stores a value into words[index], after all work before it on the stream.
 *  Errors: ACRE_ERR_INVALID, one sentence for each rule (index and value not negative, value
 *  at most 2^32 - 1, index below length). */
ACRE_API acre_status acre_symm_write_value32(acre_symm *symm, void *words, size_t length,
                                             int64_t index, int64_t value,
                                             const acre_collective_options *options);
/** Fills count words from index on. Errors: as acre_symm_write_value32(); also count > 0 and
 *  index + count <= length. */
ACRE_API acre_status acre_symm_memset32(acre_symm *symm, void *words, size_t length,
                                        int64_t index, int64_t value, int64_t count,
                                        const acre_collective_options *options);

/* ---- Around it -------------------------------------------------------------------- */

/** A block that a group keeps for temporary data, at least so long; collective when it grows.
 *  Release the handle as any other. */
ACRE_API acre_status acre_symm_workspace(const char *group, size_t bytes, acre_symm **out);
/** Number of direct links between devices as count x count values, diagonal 0.
 *  Errors: ACRE_ERR_NOT_FOUND (a kind other than "peer"), ACRE_ERR_RANGE (count). */
ACRE_API acre_status acre_symm_connectivity(acre_device_type type, const char *kind, int count,
                                            int *out);
/** What the older intra-node interface would take: one-shot up to 256 KiB, two-shot up to
 *  10 MiB, else ACRE_ALGORITHM_AUTO for "none"; address is that of the input. */
ACRE_API acre_algorithm acre_symm_algorithm_legacy(size_t bytes, acre_dtype dtype,
                                                   uintptr_t address);

ACRE_END_DECLS

#endif
