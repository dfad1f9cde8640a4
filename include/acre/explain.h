/* SPDX-License-Identifier: MIT */
/** @file explain.h
 *  @brief Recordings explained: why memory ran out, what grew, which setting helps.
 *
 * All results are plain data, made by one call and freed by another. Threads: every
 * call may come from any thread; results are read-only.
 *
 * Fork: a child may use what the parent made, and make its own.
 */
#ifndef ACRE_EXPLAIN_H
#define ACRE_EXPLAIN_H

#include <acre/snapshot.h>
#include <acre/trace.h>

ACRE_BEGIN_DECLS

/** Live allocations that have something in common. */
typedef struct acre_share {
    uint64_t bytes;    /**< Of their blocks.                                             */
    uint64_t count;    /**< How many.                                                    */
    const char *text;  /**< Their stack in one line, innermost first, or their sizes.    */
} acre_share;

/* ---- Why ---------------------------------------------------------------------- */

/** What stood in the way. */
typedef enum acre_verdict {
    ACRE_VERDICT_NONE = 0,          /**< Nothing failed.                                  */
    ACRE_VERDICT_SHORTAGE = 1,      /**< All that was free together was not enough.       */
    ACRE_VERDICT_FRAGMENTATION = 2, /**< Enough was free, but not in one piece.           */
    ACRE_VERDICT_STREAMS = 3,       /**< What was free waited for, or belonged to, other
                                         streams.                                         */
    ACRE_VERDICT_POOLS = 4,         /**< What was free belonged to private pools.         */
    ACRE_VERDICT_LIMIT = 5,         /**< The device had enough for the request: a limit of the
                                         process, or the driver, refused it.              */
    ACRE_VERDICT_UNUSED = 6,        /**< A free piece was large enough, yet was not taken.  */
    ACRE_VERDICT_UNKNOWN = 7,       /**< The file has no segments: the figures are what the
                                         history tells.                                   */
} acre_verdict;

/** Something that can be done, with its effect. */
typedef struct acre_remedy {
    uint64_t bytes;      /**< What it frees or makes usable; an estimate where text says so. */
    uint32_t is_enough;  /**< 1: enough for the request that failed.                       */
    uint32_t reserved;   /**< 0.                                                           */
    const char *text;    /**< One sentence.                                                */
} acre_remedy;

/** A stack whose live memory grew all the time. */
typedef struct acre_growth {
    uint64_t bytes_from;  /**< Live at the first of the moments compared.                 */
    uint64_t bytes_to;    /**< Live at the last.                                          */
    uint64_t count_from;  /**< Allocations at the first.                                  */
    uint64_t count_to;    /**< At the last.                                               */
    const char *text;     /**< The stack in one line.                                     */
} acre_growth;

/** What is asked about. Zero means default everywhere. */
typedef struct acre_why_config {
    uint32_t struct_size;   /**< sizeof(acre_why_config).                                 */
    int32_t device;         /**< -1: the one where a request failed, else that with most
                                 memory.                                                  */
    uint64_t device_bytes;  /**< Capacity of the device; 0: not known.                    */
} acre_why_config;

/** The state at the last failed request, or else when most was live. */
typedef struct acre_why {
    uint32_t struct_size;        /**< sizeof(acre_why), set by the library.               */
    uint32_t device;             /**< Which device it is about.                           */
    uint32_t has_oom;            /**< 1: a request failed.                                */
    uint32_t has_history;        /**< 0: only the state at the end is known.              */
    acre_verdict verdict;        /**< What stood in the way.                              */
    uint32_t reserved;           /**< 0.                                                  */
    uint64_t event;              /**< Number of the event at that moment.                 */
    uint64_t oom_requested_bytes; /**< Of the request that failed, rounded.               */
    uint64_t oom_device_free_bytes; /**< What the device had free then.                   */
    uint64_t allocated_bytes;    /**< In live blocks.                                     */
    uint64_t requested_bytes;    /**< Asked for by them.                                  */
    uint64_t reserved_bytes;     /**< Held from the device.                               */
    uint64_t largest_free_bytes; /**< Free in one piece.                                  */
    uint64_t free_split_bytes;   /**< Free in segments that are also in use.              */
    uint64_t waiting_bytes;      /**< Freed, but a stream may still use it.               */
    uint64_t private_pool_bytes; /**< Held by private pools.                              */
    int64_t outside_bytes;       /**< Used on the device outside the allocator; -1: not
                                      known.                                              */
    const acre_share *top;       /**< Stacks with most live bytes, most first.            */
    uint64_t top_count;          /**< At most 20.                                         */
    const acre_share *sizes;     /**< Classes of block sizes, most bytes first.           */
    uint64_t size_count;         /**< At most 64.                                         */
    const acre_growth *growth;   /**< Suspected leaks, fastest first.                     */
    uint64_t growth_count;       /**< At most 10.                                         */
    const char *text;            /**< One paragraph to act on.                            */
    uint32_t device_count;       /**< Devices in the snapshot.                            */
    uint32_t is_expandable;      /**< 1: the recorded settings let segments grow.         */
    const char *device_reason;   /**< Why this device, such as "where a request failed".  */
    const char *allocator;       /**< "PyTorch" or "torch_npu".                           */
    const char *oom_stack;       /**< Who made the request that failed, in one line; "" when
                                      none did or no stack was recorded.                  */
    uint64_t free_whole_bytes;   /**< Free in segments that are not in use at all.        */
    uint64_t private_free_bytes; /**< Free in private pools. In use, waiting and the three
                                      kinds of free memory add up to reserved_bytes.      */
    uint64_t missing_bytes;      /**< What the failed request lacked in all.              */
    uint64_t stackless_bytes;    /**< Live without a recorded stack.                      */
    const acre_share *categories; /**< What live memory is for, as stacks tell, most first. */
    uint64_t category_count;     /**< At most 8.                                          */
    const acre_remedy *remedies; /**< What to do, best first.                             */
    uint64_t remedy_count;       /**< At most 12.                                         */
} acre_why;

/** Explains a snapshot; @p config may be NULL. Give the result to acre_why_destroy().
 *  Errors: ACRE_ERR_NOT_FOUND (no such device, or an empty snapshot), ACRE_ERR_INVALID,
 *          ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_why_create(const acre_snapshot *snapshot,
                                     const acre_why_config *config, acre_why **out);
/** Frees it. NULL is accepted. */
ACRE_API void acre_why_destroy(acre_why *why);

/* ---- Diff --------------------------------------------------------------------- */

/** Live memory with one stack or size class, in two snapshots. */
typedef struct acre_change {
    uint64_t bytes_a;  /**< In the first.          */
    uint64_t bytes_b;  /**< In the second.         */
    uint64_t count_a;  /**< Blocks in the first.   */
    uint64_t count_b;  /**< Blocks in the second.  */
    const char *text;  /**< The stack in one line, or the sizes.  */
} acre_change;

/** What differs between two snapshots, of live memory. */
typedef struct acre_diff {
    uint32_t struct_size;        /**< sizeof(acre_diff), set by the library.              */
    uint32_t device;             /**< Which device it is about.                           */
    uint64_t allocated_a;        /**< Bytes in live blocks of the first.                  */
    uint64_t allocated_b;        /**< And of the second.                                  */
    uint64_t reserved_a;         /**< Bytes held from the device in the first.            */
    uint64_t reserved_b;         /**< And in the second.                                  */
    const acre_change *stacks;   /**< Those that differ, most growth first.               */
    uint64_t stack_count;        /**< How many.                                           */
    const acre_change *sizes;    /**< Size classes that differ, most growth first.        */
    uint64_t size_count;         /**< How many.                                           */
    const char *text;            /**< One paragraph.                                      */
    const char *device_reason;   /**< Why this device.                                    */
} acre_diff;

/** Bits of acre_diff_create(). */
#define ACRE_DIFF_PEAK 0x1u /**< Compare the moments when most was live, not the ends. */

/** Compares one device of two snapshots; ACRE_DEVICE_CHOOSE lets the second one decide. Two
 *  stacks are equal when all their frames are.
 *  Errors: ACRE_ERR_NOT_FOUND (no such device in one), ACRE_ERR_INVALID,
 *          ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_diff_create(const acre_snapshot *a, const acre_snapshot *b,
                                      uint32_t device, uint32_t flags, acre_diff **out);
/** Frees it. NULL is accepted. */
ACRE_API void acre_diff_destroy(acre_diff *diff);

/* ---- Advice ------------------------------------------------------------------- */

/** Bits of acre_setting.flags. */
#define ACRE_SETTING_RECORDED 0x1u /**< The settings of the recording, or the defaults.   */
#define ACRE_SETTING_PLAN 0x2u     /**< Placed ahead: conf does not apply.                */
#define ACRE_SETTING_UNTRIED 0x4u  /**< The time was over before it was tried: its sizes are 0,
                                        and fits is -1. Such settings stand last.          */

/** One setting, tried. */
typedef struct acre_setting {
    const char *conf;             /**< In PyTorch's grammar; "" for the defaults.         */
    const char *note;             /**< A remark, or "".                                   */
    acre_policy policy;           /**< Who decided.                                       */
    uint32_t flags;               /**< ACRE_SETTING_* bits.                               */
    uint64_t bytes_reserved_peak; /**< Held from a device that is large enough.           */
    uint64_t min_capacity_bytes;  /**< Smallest capacity on which the job works, as far as it
                                       was recorded; 0: none.                             */
    int32_t fits;                 /**< 1 or 0 on the device in question, the requests that
                                       failed in the recording included; -1: not known.   */
    int32_t reserved;             /**< 0.                                                 */
} acre_setting;

/** Bits of acre_advise_config.flags. */
#define ACRE_ADVISE_CURVES 0x1u /**< Also tell what each setting holds over time. */

/** How to advise. Zero means default everywhere; without a configuration the device is chosen. */
typedef struct acre_advise_config {
    uint32_t struct_size;      /**< sizeof(acre_advise_config).                           */
    uint32_t device;           /**< Of a snapshot: a number, or ACRE_DEVICE_CHOOSE.       */
    uint64_t device_bytes;     /**< Capacity to fit; 0: what a failed request in the
                                    recording tells, if any.                              */
    uint32_t threads;          /**< 0: as many as there are processors; at most 7 work.   */
    uint32_t flags;            /**< ACRE_ADVISE_* bits.                                   */
    acre_progress_fn progress; /**< Or NULL. Called on the calling thread.                */
    void *progress_arg;        /**< Handed to it.                                         */
    double seconds;            /**< Try settings for at most this long, reading the recording
                                    included, and draw curves for at most as long again; 0:
                                    all of them, however long it takes.                   */
} acre_advise_config;

/** What was found. */
typedef struct acre_advice {
    uint32_t struct_size;          /**< sizeof(acre_advice), set by the library.          */
    uint32_t device;               /**< Device whose history is used.                     */
    uint32_t is_shortage;          /**< 1: no setting can help.                           */
    uint32_t reserved;             /**< 0.                                                */
    uint64_t events;               /**< Of the trace.                                     */
    uint64_t bytes_requested_peak; /**< The physical limit.                               */
    uint64_t device_bytes;         /**< Capacity in question; 0: not known.               */
    uint64_t recorded_reserved_peak; /**< Held in the recording; 0 for a trace.           */
    uint64_t recorded_ooms;        /**< Requests that failed in the recording.            */
    const char *recorded_conf;     /**< Settings of the recording; "" when not told.      */
    const acre_setting *settings;  /**< Best first: by reserved and smallest device together. */
    uint64_t setting_count;        /**< How many.                                         */
    int64_t recommended;           /**< Index of the setting to use; -1: none helps.      */
    uint64_t saves_bytes;          /**< What it saves against the recorded settings.      */
    const char *why;               /**< One paragraph.                                    */
    const acre_share *top;         /**< Of a snapshot: what makes the peak, by stack.     */
    uint64_t top_count;            /**< At most 10.                                       */
    const char *device_reason;     /**< Why this device; "" for a trace.                  */
    uint32_t device_count;         /**< Devices in the snapshot; 0 for a trace.           */
    uint32_t curve_points;         /**< With ACRE_ADVISE_CURVES: points of each curve.    */
    const char *allocator;         /**< "PyTorch" or "torch_npu"; "" for a trace.         */
    uint64_t failed_bytes;         /**< The last request that failed, rounded; 0: none.   */
    const char *failed_stack;      /**< Who made it, in one line, or "".                  */
    uint64_t wanted_peak_bytes;    /**< Most that was live at once, requests that failed
                                        included.                                         */
    const acre_remedy *remedies;   /**< When nothing fits: what else can be done.         */
    uint64_t remedy_count;         /**< At most 12.                                       */
    const uint64_t *const *curves; /**< By setting: bytes held from a device that is large
                                        enough, the highest between two points; all 0 where
                                        there was no time for it. NULL: not asked for.    */
} acre_advice;

/** Replays a recording under the settings that matter and compares.
 *
 * Recommended is the simplest setting among those that gain at least 2 % and cost nothing: it
 * neither reserves more in ample memory nor needs a larger device. Only when nothing else fits
 * the device in question may it reserve more, and why says so.
 *
 * Runs settings at the same time, the recorded ones first. What a limit of time leaves untried is
 * marked and said in why. Give the result to acre_advice_destroy().
 * Errors: those of acre_replay(): ACRE_ERR_NOT_FOUND for a snapshot without history;
 *         ACRE_ERR_LIMIT (more than 4 TiB are live at once); ACRE_ERR_TIMEOUT (not even the
 *         recorded settings were tried within seconds).
 */
ACRE_API acre_status acre_advise(const char *path, const acre_advise_config *config,
                                 acre_advice **out);
/** Frees it. NULL is accepted. */
ACRE_API void acre_advice_destroy(acre_advice *advice);

ACRE_END_DECLS

#endif
