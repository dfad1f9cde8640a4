/* SPDX-License-Identifier: MIT */
/** @file planner.h
 *  @brief An allocator that follows a plan: iterations that repeat are placed ahead.
 *
 * A planner stands in front of a cache. It records what is allocated and freed;
 * when the same sequence came twice in a row, it places one round of it ahead,
 * takes one arena of that height from the device, and serves the next rounds by
 * position in the sequence: an allocation is a comparison and a look-up. A request
 * that departs from the plan, in size, stream or order, is served by the cache and
 * counted; when departures persist, the planner drops the plan and records again.
 *
 *     recording --- the sequence came twice ---> following
 *         ^                                          |
 *         +------------ departures persist ----------+
 *
 * Two buffers share bytes of the arena only when the second comes after the free of
 * the first and both belong to one stream, whose order keeps them apart. What is
 * used on further streams (acre_planner_record_stream()) is left to the cache, which
 * waits for those uses; one that comes unexpectedly keeps its bytes out of the plan
 * until the use has finished.
 *
 * Threads: one at a time per planner, as the order of calls is the sequence; the
 * allocator of acre_planner_allocator() may be used from any thread.
 *
 * Fork: see acre/base.h. A planner on a device that does not work in a child answers
 * ACRE_ERR_FORKED there.
 */
#ifndef ACRE_PLANNER_H
#define ACRE_PLANNER_H

#include <acre/trace.h>

ACRE_BEGIN_DECLS

/** An allocator that follows a plan. */
typedef struct acre_planner acre_planner;

/** Bits of acre_planner_config.flags. */
typedef enum acre_planner_flag {
    /** Records nothing and keeps its plan whatever departs: only acre_planner_learn()
     *  gives it one. */
    ACRE_PLANNER_KEEP = 1u << 0,
} acre_planner_flag;

/** What a planner is to be. Zero means default everywhere. */
typedef struct acre_planner_config {
    uint32_t struct_size; /**< sizeof(acre_planner_config).                               */
    uint32_t flags;       /**< Bits of @ref acre_planner_flag.                            */
    uint32_t period_min;  /**< Calls in the shortest iteration looked for; 0: 64.         */
    uint32_t period_max;  /**< Calls in the longest, which bounds memory; 0: 2^18.        */
    uint64_t seed;        /**< As in acre_plan_config.                                    */
    double seconds;       /**< Time for placing one iteration, all its streams together, where
                               the bound is not reached sooner; 0: 1 second. INFINITY: a fixed
                               amount of work, so that plans are repeatable, however long. */
    double limit;         /**< Seconds after which placing an iteration is given up
                               (#ACRE_ERR_TIMEOUT); 0: never.                              */
} acre_planner_config;

/** What a planner did. */
typedef struct acre_planner_stats {
    uint32_t struct_size;      /**< sizeof(acre_planner_stats), set by the caller.        */
    uint32_t is_following;     /**< 1: a plan is followed, 0: recording.                  */
    uint64_t plans;            /**< Plans made.                                           */
    uint64_t drops;            /**< Plans dropped because departures persisted.           */
    uint64_t rounds;           /**< Iterations that ended while a plan was followed.      */
    uint64_t departures;       /**< Requests that a plan did not foresee.                 */
    uint64_t period_events;    /**< Allocations and frees in the plan followed, or 0.     */
    uint64_t period_allocs;    /**< Allocations among them.                               */
    uint64_t arena_bytes;      /**< Size of its arena.                                    */
    uint64_t lower_bound;      /**< No arena could be smaller than this.                  */
    acre_stat allocated_bytes; /**< Bytes of live blocks, of arenas and cache.            */
    acre_stat reserved_bytes;  /**< Bytes held from the device, arenas and cache.         */
} acre_planner_stats;

/** Creates a planner in front of @p cache, which must outlive it.
 *
 * @p config may be NULL for the defaults. The cache may be used directly as well.
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_planner_create(acre_cache *cache, const acre_planner_config *config,
                                         acre_planner **out);

/** Waits for the device when there is an arena, returns it and ends the planner.
 *
 * Memory of the arena that is still allocated goes too; memory of the cache stays
 * allocated there. NULL is accepted. Threads: no other call may use the planner at
 * that time or later.
 */
ACRE_API void acre_planner_destroy(acre_planner *planner);

/** Allocates @p bytes for use on @p stream, a native stream of the device.
 *
 * As acre_cache_alloc(): aligned to 512 bytes, zero bytes give NULL. The call that
 * completes the second round of a sequence also places it, which takes the seconds of
 * the config at most, or as long as the first placement of a very long round takes.
 * Errors: those of acre_cache_alloc(); a plan that cannot be made is no error.
 */
ACRE_API acre_status acre_planner_alloc(acre_planner *planner, size_t bytes, void *stream,
                                        void **out);

/** Frees what acre_planner_alloc() gave. NULL is accepted.
 *
 * Errors: ACRE_ERR_INVALID ("invalid device pointer": freed already, interior,
 *         foreign; nothing changes), and those of acre_cache_free().
 */
ACRE_API acre_status acre_planner_free(acre_planner *planner, void *pointer);

/** Tells that @p pointer, a live allocation, is also used on @p stream.
 *
 * As acre_cache_record_stream(). Errors: those of acre_cache_record_stream().
 */
ACRE_API acre_status acre_planner_record_stream(acre_planner *planner, void *pointer,
                                                void *stream);

/** Tells that an iteration begins here.
 *
 * Not necessary: repetition is found without. Once it is called, iterations are the
 * spans between calls, and a plan is made when two of them were alike; a plan that
 * was departed from is taken up again at its first request.
 * Errors: ACRE_ERR_INVALID (planner is NULL).
 */
ACRE_API acre_status acre_planner_step(acre_planner *planner);

/** Makes a plan of a recorded sequence and follows it from its first event.
 *
 * @p streams gives the native stream for each number below @p stream_count that the
 * events name; NULL: all of them mean the default stream. What is live after the last
 * event counts as freed there. Nothing of an earlier plan may be live.
 * Errors: ACRE_ERR_INVALID (an event of an unknown kind or stream, a free of what is
 *         not live), ACRE_ERR_STATE (memory of an earlier plan is live),
 *         ACRE_ERR_DEVICE_MEMORY (the arena does not fit), ACRE_ERR_TIMEOUT (limit of the
 *         config), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_planner_learn(acre_planner *planner, const acre_trace_event *events,
                                        size_t count, void *const *streams,
                                        uint32_t stream_count);

/** Reads the statistics; struct_size must be set. Errors: ACRE_ERR_INVALID. */
ACRE_API acre_status acre_planner_stats_get(acre_planner *planner, acre_planner_stats *stats);

/** Sets peaks to the present level, those of the cache too. */
ACRE_API void acre_planner_stats_reset_peak(acre_planner *planner);

/** Sets totals and counters to zero, those of the cache too. */
ACRE_API void acre_planner_stats_reset_accumulated(acre_planner *planner);

/** Makes an allocator of a planner: it serves the device of the cache whatever is
 *  current, on the thread's current stream there.
 *
 * Threads: any, but none of the calls above meanwhile except those for streams, steps
 * and statistics; threads whose calls come in another order each time make departures,
 * never harm. Its data pointers are not simple, so it has no raw deleter. A pointer that
 * cannot be freed is named in the log. The planner must outlive it; end it with
 * acre_allocator_destroy(). Errors: ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_planner_allocator(acre_planner *planner, acre_allocator **out);

ACRE_END_DECLS

#endif
