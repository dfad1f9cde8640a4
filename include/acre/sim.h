/* SPDX-License-Identifier: MIT */
/** @file sim.h
 *  @brief The reference device: protected host memory that behaves like a device.
 *
 * The built-in backend "sim" is configured by the environment variable ACRE_SIM
 * in the grammar `key:value,key:value`, for example
 * `ACRE_SIM="devices:2,memory:8GiB,page:2MiB"`; the keys are the fields below.
 * acre_sim_create() makes further ones, which tests use.
 *
 * Device memory is inaccessible to the host outside access windows. Nothing has
 * a name in the file system: a process that is killed leaves nothing behind.
 * In a child of fork every call on a device that was made before the fork
 * answers ACRE_ERR_FORKED; devices made in the child work.
 */
#ifndef ACRE_SIM_H
#define ACRE_SIM_H

#include <acre/backend.h>

ACRE_BEGIN_DECLS

/** Calls that can fail or take time on demand; each is an entry of the table. */
#define ACRE_SIM_CALL_MAP(X)                                                   \
    X(ALLOC, alloc) X(FREE, free) X(HOST_ALLOC, host_alloc)                    \
    X(HOST_REGISTER, host_register) X(STREAM_CREATE, stream_create)            \
    X(STREAM_SYNC, stream_sync) X(STREAM_WAIT, stream_wait)                    \
    X(EVENT_CREATE, event_create) X(EVENT_RECORD, event_record)                \
    X(EVENT_QUERY, event_query) X(EVENT_SYNC, event_sync) X(COPY, copy)        \
    X(FILL, fill) X(LAUNCH, launch) X(VALUE, value) X(RESERVE, reserve)        \
    X(CREATE, create) X(MAP, map) X(UNMAP, unmap) X(SET_ACCESS, set_access)    \
    X(EXPORT, export) X(IMPORT, import) X(MULTICAST, multicast)                \
    X(CAPTURE, capture) X(GRAPH_LAUNCH, graph_launch) X(PEER, peer)            \
    X(ACCESS, access) X(MEMORY_INFO, memory_info)

/** Names of the calls. */
typedef enum acre_sim_call {
#define ACRE_SIM_CALL_ENTRY(upper, lower) ACRE_SIM_##upper,
    ACRE_SIM_CALL_MAP(ACRE_SIM_CALL_ENTRY)
#undef ACRE_SIM_CALL_ENTRY
    ACRE_SIM_CALL_COUNT, /**< How many there are. */
    ACRE_SIM_ANY = 1000  /**< Any of them.        */
} acre_sim_call;

/** How devices reach one another. */
typedef enum acre_sim_topology {
    ACRE_SIM_PEERS_ALL = 0,  /**< Every pair (default).      */
    ACRE_SIM_PEERS_NONE = 1, /**< No pair.                   */
    ACRE_SIM_PEERS_RING = 2, /**< Neighbours in a ring only. */
    ACRE_SIM_PEERS_PAIR = 3, /**< 0-1, 2-3, ...              */
} acre_sim_topology;

/** Most faults that can be armed at a time. */
#define ACRE_SIM_FAULT_MAX 32

/** A fault to inject into calls.
 *
 * It applies to calls of one kind (or any) and of at least bytes_min bytes; of
 * those to the n-th, or to each with a chance, or, with neither, to all.
 */
typedef struct acre_sim_fault {
    uint32_t struct_size;      /**< sizeof(acre_sim_fault).                               */
    acre_sim_call call;        /**< Which call, or ACRE_SIM_ANY.                          */
    uint64_t nth;              /**< Only the n-th that applies from now (1 = next), once. */
    uint32_t probability_ppm;  /**< Else each with this chance in a million; 0: all.      */
    uint32_t seed;             /**< Of that chance.                                       */
    uint64_t bytes_min;        /**< Only calls of at least this size.                     */
    acre_status status;        /**< What to answer; 0 means ACRE_ERR_DEVICE.              */
    uint64_t delay_ns;         /**< By how much the call is late, with is_delay.          */
    uint32_t is_delay;         /**< 1: the call is late by delay_ns instead of failing.   */
} acre_sim_fault;

/** What a simulated backend is to be. Zero means default everywhere. */
typedef struct acre_sim_config {
    uint32_t struct_size;    /**< sizeof(acre_sim_config).                                   */
    uint32_t devices;        /**< 1 to 64, default 2. Key `devices`.                         */
    uint64_t memory_bytes;   /**< Capacity of each, default 8 GiB. Key `memory`.             */
    uint64_t page_bytes;     /**< Virtual memory granularity, power of two, at least a system
                                  page, default 2 MiB. Key `page`.                           */
    uint32_t dry;            /**< 1: addresses only; copies, fills and kernels are checked and
                                  complete but nothing moves. Key `dry`.                     */
    acre_sim_topology peers; /**< Key `peers`: all, none, ring, pair.                        */
    uint64_t call_ns;        /**< Added to every driver call. Key `call_ns`.                 */
    uint64_t byte_ps;        /**< Picoseconds per byte of alloc, create, map, copy, fill.
                                  Key `byte_ps`.                                             */
    uint64_t limit_bytes;    /**< Out of memory beyond it, below the capacity; 0: none.
                                  Key `limit`.                                               */
    const char *name;        /**< Backend name; default "sim", made unique for further ones. */
    acre_device_type type;   /**< Default ACRE_DEVICE_PRIVATE (0 means that, not CPU).       */
    uint32_t codec;          /**< acre_stream_codec of its streams.                          */
    uint32_t fault_count;    /**< How many of faults are armed from the start.               */
    acre_sim_fault faults[ACRE_SIM_FAULT_MAX]; /**< Keys `fail` and `late`, see
                                  acre_sim_parse().                                          */
    uint32_t open;           /**< 1: the host reaches all device memory at any time, as if a
                                  window were open on it for ever. Key `open`.               */
} acre_sim_config;

/** What a simulated backend holds at this moment, over all its devices. */
typedef struct acre_sim_usage {
    uint32_t struct_size;       /**< sizeof(acre_sim_usage), set by the caller.   */
    uint64_t alloc_count;       /**< Live plain allocations.                      */
    uint64_t host_count;        /**< Live host allocations and registrations.     */
    uint64_t reserve_count;     /**< Live reservations.                           */
    uint64_t handle_count;      /**< Live physical handles, multicast included.   */
    uint64_t map_count;         /**< Live mappings.                               */
    uint64_t stream_count;      /**< Live streams.                                */
    uint64_t event_count;       /**< Live events.                                 */
    uint64_t graph_count;       /**< Live graphs.                                 */
    uint64_t window_count;      /**< Open access windows.                         */
    uint64_t bytes_used;        /**< Device bytes held.                           */
    uint64_t reserved_bytes;    /**< Addresses reserved.                          */
    uint64_t thread_count;      /**< Worker threads at this moment.               */
    uint64_t calls[64];         /**< Calls so far, by acre_sim_call.              */
    uint64_t unused_count;      /**< Handles released so far that never were mapped. */
    uint64_t bytes_used_peak;   /**< Most device bytes held so far.               */
    uint64_t bytes_refused_least; /**< The smallest capacity that would have granted a request
                                     refused for want of it, given what was held then; 0:
                                     there was none. Of one device a backend.     */
    uint64_t mapped_end_peak;   /**< Furthest byte mapped so far behind the beginning of its
                                     reservation.                                 */
} acre_sim_usage;

/** Fills config from a string in the grammar of ACRE_SIM, on top of what is in
 *  it; a bad string changes nothing.
 *
 * The keys are those of @ref acre_sim_config, and two that add a fault each time
 * they occur; CALL is a name of @ref ACRE_SIM_CALL_MAP or `any`, the parts in
 * brackets come in this order:
 *
 *     fail:CALL[@NTH][%PPM[/SEED]][>=BYTES][=STATUS]   STATUS: device (default),
 *                                                      oom, host, limit, busy
 *     late:CALL[@NTH][%PPM[/SEED]][>=BYTES]=NANOSECONDS
 *
 * For example `fail:alloc@3`, `fail:map%1000/7`, `fail:create>=4MiB=oom`,
 * `late:copy=1000000`.
 * Errors: ACRE_ERR_CONFIG names key and place, ACRE_ERR_INVALID (NULL).
 */
ACRE_API acre_status acre_sim_parse(const char *text, acre_sim_config *config);

/** Creates and registers a further reference device. NULL: the defaults.
 *
 * Destroy with acre_backend_unregister().
 * Errors: ACRE_ERR_CONFIG, ACRE_ERR_EXISTS, ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_sim_create(const acre_sim_config *config, acre_backend **out);

/** Arms a fault; several may be armed, the first that applies decides.
 *
 * Errors: ACRE_ERR_INVALID (not a reference device, bad call, more than
 *         ACRE_SIM_FAULT_MAX).
 */
ACRE_API acre_status acre_sim_fault_arm(acre_backend *backend, const acre_sim_fault *fault);

/** Disarms all faults and tells how many calls were failed or delayed. */
ACRE_API uint64_t acre_sim_fault_disarm(acre_backend *backend);

/** Reads the counts; for finding leaks. Errors: ACRE_ERR_INVALID (not a reference
 *  device), ACRE_ERR_FORKED. */
ACRE_API acre_status acre_sim_usage_get(acre_backend *backend, acre_sim_usage *out);

ACRE_END_DECLS

#endif
