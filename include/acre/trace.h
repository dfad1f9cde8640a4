/* SPDX-License-Identifier: MIT */
/** @file trace.h
 *  @brief Recorded allocations: reading traces, and replaying them.
 *
 * A trace is a text file, plain or gzip, with one event a line:
 *
 *     a ID BYTES STREAM    allocation
 *     f ID                 its free
 *     u ID STREAM          it is also used on STREAM
 *     s STREAM | s *       the host waited for a stream, or for all
 *     e                    empty cache
 *     # ...                comment
 *
 * A replay feeds a trace to a cache on a simulated device that hands out
 * addresses only, and reports what was needed.
 *
 * Fork: a child may use what the parent read, and replay on its own.
 */
#ifndef ACRE_TRACE_H
#define ACRE_TRACE_H

#include <acre/cache.h>

ACRE_BEGIN_DECLS

/* ---- Reading ---------------------------------------------------------------------- */

/** Largest number of a stream in a trace. */
#define ACRE_TRACE_STREAM_MAX 65535

/** Stands for all streams in an event of kind ACRE_TRACE_SYNC. */
#define ACRE_TRACE_ALL_STREAMS UINT32_MAX

/** What happened. */
typedef enum acre_trace_kind {
    ACRE_TRACE_ALLOC = 1, /**< Allocation.                              */
    ACRE_TRACE_FREE = 2,  /**< Free of a live allocation.               */
    ACRE_TRACE_USE = 3,   /**< A live allocation is used on a stream.   */
    ACRE_TRACE_SYNC = 4,  /**< The host has waited for streams.         */
    ACRE_TRACE_EMPTY = 5, /**< The cache is emptied.                    */
} acre_trace_kind;

/** One event of a trace. */
typedef struct acre_trace_event {
    uint64_t id;     /**< Of the allocation, as in the file.                             */
    uint64_t bytes;  /**< Of an allocation, 1 to 2^60.                                   */
    uint32_t kind;   /**< An @ref acre_trace_kind.                                       */
    uint32_t stream; /**< At most ACRE_TRACE_STREAM_MAX, or ACRE_TRACE_ALL_STREAMS.      */
    uint32_t slot;   /**< Of the allocation: a small number no other live one has; reused
                          after the free.                                                */
    uint32_t reserved; /**< 0.                                                           */
} acre_trace_event;

/** A trace being read. Threads: one at a time. */
typedef struct acre_trace acre_trace;

/** Opens a trace.
 *
 * Memory grows with live allocations, and with gaps in their numbering, not
 * with the length of the file.
 * Errors: ACRE_ERR_IO, ACRE_ERR_UNSUPPORTED (gzip in a build without zlib),
 *         ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_trace_open(const char *path, acre_trace **out);

/** Reads up to @p capacity events; none are left when @p out_count is 0.
 *
 * Errors: ACRE_ERR_FORMAT (the text names file and line: a free or use of an
 *         allocation that is not live, a number used twice, a size of 0 or above
 *         2^60, a malformed number or line, a line over 4,096 bytes, damaged or
 *         truncated gzip), ACRE_ERR_IO, ACRE_ERR_HOST_MEMORY. Nothing can be
 *         read after an error.
 */
ACRE_API acre_status acre_trace_read(acre_trace *trace, acre_trace_event *events,
                                     size_t capacity, size_t *out_count);

/** Starts again at the first event. Errors: ACRE_ERR_IO (a pipe cannot). */
ACRE_API acre_status acre_trace_rewind(acre_trace *trace);

/** Ends reading. NULL is accepted. */
ACRE_API void acre_trace_close(acre_trace *trace);

/* ---- Replaying -------------------------------------------------------------------- */

/** Told now and then how far a replay is, between 0 and 1, never backwards. */
typedef void (*acre_progress_fn)(void *arg, double done);

/** Bits of acre_replay_config.flags. */
typedef enum acre_replay_flag {
    /** Also search the smallest capacity that replays without failing. */
    ACRE_REPLAY_MIN_CAPACITY = 1u << 0,
    /** Place the whole trace ahead and replay through an acre_planner that follows it;
     *  policy and conf are those of the cache beneath. The trace is read twice. */
    ACRE_REPLAY_PLAN = 1u << 1,
    /** Every allocation is one of page-locked host memory (acre/pinned.h): reserved is
     *  what is held from the system, allocated what is in blocks. With neither of the
     *  others. */
    ACRE_REPLAY_HOST = 1u << 2,
} acre_replay_flag;

/** Capacity of the replay device by default: 80 GiB. */
#define ACRE_REPLAY_DEVICE_BYTES ((uint64_t)80 << 30)

/** How to replay. Zero means default everywhere. */
typedef struct acre_replay_config {
    uint32_t struct_size;  /**< sizeof(acre_replay_config).                              */
    uint32_t flags;        /**< Bits of @ref acre_replay_flag.                           */
    acre_policy policy;    /**< Who decides where blocks go.                             */
    uint32_t repeat;       /**< Passes in one process; 0: 1.                             */
    const char *conf;      /**< Options in PyTorch's grammar, or NULL. The environment is
                                not read.                                                */
    uint64_t device_bytes; /**< Capacity; 0: ACRE_REPLAY_DEVICE_BYTES.                   */
    uint32_t streams;      /**< N: allocation number i goes to stream i mod N; 0: as
                                recorded.                                                */
    uint32_t device;       /**< Device whose history is used; ACRE_DEVICE_CHOOSE of
                                acre/snapshot.h; ignored for traces.                     */
    acre_progress_fn progress; /**< Or NULL. Called on the calling thread.               */
    void *progress_arg;        /**< Handed to it.                                        */
} acre_replay_config;

/** What one pass over a trace needed. */
typedef struct acre_replay_pass {
    uint64_t events;               /**< Lines fed.                                       */
    uint64_t allocs;               /**< Allocations among them.                          */
    uint64_t frees;                /**< Frees among them.                                */
    uint64_t bytes_requested_peak; /**< Highest sum of live requested sizes served.      */
    uint64_t bytes_allocated_peak; /**< Highest sum of live block sizes.                 */
    uint64_t bytes_reserved_peak;  /**< Highest number of bytes held from the device.    */
    uint64_t segments_peak;        /**< Highest number of segments held.                 */
    uint64_t segments;             /**< Segments held at the end of the pass; of expandable
                                        ones, runs of pages.                             */
    uint64_t device_allocs;        /**< Segments obtained from the device in this pass.  */
    uint64_t device_frees;         /**< Segments returned to it in this pass.            */
    uint64_t maps;                 /**< Pages mapped in this pass, and pages obtained for a
                                        mapping that was given up.                       */
    uint64_t unmaps;               /**< Pages unmapped in this pass.                     */
    uint64_t retries;              /**< Attempts after all idle memory was released.     */
    uint64_t ooms;                 /**< Allocations that failed.                         */
    int64_t first_oom_event;       /**< Number of the first, from 0; -1: none.           */
    int64_t waste_ppm;             /**< (reserved - requested) / requested peak, in parts
                                        per million.                                     */
    uint64_t departures;           /**< With ACRE_REPLAY_PLAN: allocations that did not
                                        follow the plan.                                 */
    double ns_per_event;           /**< Wall time of the calls alone.                    */
} acre_replay_pass;

/** What a replay found. */
typedef struct acre_replay_result {
    uint32_t struct_size;   /**< sizeof(acre_replay_result), set by the caller.           */
    uint32_t has_warm;      /**< 1: warm is filled in (repeat above 1).                   */
    uint64_t device_bytes;  /**< Capacity of the device.                                  */
    uint64_t min_capacity_bytes; /**< Multiple of 1 MiB; 0: not searched, or none works.  */
    acre_replay_pass first; /**< From an empty cache.                                     */
    acre_replay_pass warm;  /**< The last pass.                                           */
    uint64_t start_allocs;  /**< Of a snapshot: allocations at the front of the events that
                                 stand for what was live when its history began.          */
    uint64_t start_bytes;   /**< Requested by them.                                       */
    uint64_t start_open;    /**< Blocks among them whose exact size is not recorded ...   */
    uint64_t start_open_bytes; /**< ... and how many bytes larger they may be in all.     */
    uint64_t contradictions; /**< Events that do not fit the segments of the snapshot.    */
    uint32_t device;        /**< Device whose history was replayed.                       */
    uint32_t padding;       /**< Bytes that the recorded allocator adds to each request: 32
                                 for Ascend's torch_npu, else 0.                          */
} acre_replay_result;

/** Replays a trace, or the history of a snapshot, through a new cache on a new
 *  simulated device.
 *
 * A snapshot's history becomes a trace: what was live at its start is allocated
 * first, and a free is that which completed. A request that failed is no event of the job
 * and is left out.
 *
 * A failed allocation does not end the replay: later lines of it count and do
 * nothing. What is live at the end of a pass is freed before the next.
 * Threads: any; replays are independent of each other.
 * Errors: those of reading; ACRE_ERR_NOT_FOUND (a snapshot without history),
 *         ACRE_ERR_STATE (the snapshot is inconsistent), ACRE_ERR_CONFIG (conf),
 *         ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_replay(const char *path, const acre_replay_config *config,
                                 acre_replay_result *result);

/* ---- Verifying ---------------------------------------------------------------- */

/** How far a recorded history is reproduced. */
typedef struct acre_verify_result {
    uint32_t struct_size;   /**< sizeof(acre_verify_result), set by the caller.          */
    uint32_t is_exact;      /**< 1: every event that was compared agreed.                */
    uint64_t events;        /**< Events of the history.                                  */
    uint64_t compared;      /**< Allocations, segments obtained and segments given back. */
    uint64_t agreed;        /**< Those with the recorded address or segment.             */
    int64_t first_difference; /**< Number of the first event that differs; -1: none.     */
    uint64_t start_blocks;  /**< Blocks that were live when the history began.           */
    uint64_t start_open;    /**< Those whose exact size is not recorded ...              */
    uint64_t start_open_bytes; /**< ... and how many bytes larger they may be in all.    */
    uint64_t contradictions; /**< Events that do not fit the segments of the snapshot.   */
    uint32_t ties_by_address; /**< 1: compared with the decisions of older versions, see
                                   ACRE_CACHE_TIES_BY_ADDRESS, which fit better.         */
    uint32_t device;        /**< Whose history it was.                                   */
    char conf[256];         /**< The recorded settings, as they were replayed.           */
    char text[512];         /**< What differs first and why; empty when nothing does.    */
} acre_verify_result;

/** Replays the history of a device of a snapshot under its recorded settings with
 *  ACRE_POLICY_TORCH, from the recovered state at its start, and compares.
 *
 * The device hands out the recorded addresses of segments, and is out of memory
 * when the recorded one was; everything else the policy decides. After a
 * difference the recorded placement is forced where that is possible, so that
 * later events are compared as well.
 * @p device may be ACRE_DEVICE_CHOOSE.
 * Threads: any.
 * Errors: those of reading; ACRE_ERR_NOT_FOUND (no history), ACRE_ERR_STATE (the
 *         snapshot is inconsistent), ACRE_ERR_UNSUPPORTED (a state that cannot be set
 *         up), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_replay_verify(const char *path, uint32_t device,
                                        acre_verify_result *result);

ACRE_END_DECLS

#endif
