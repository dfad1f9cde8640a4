/* SPDX-License-Identifier: MIT */
/* One allocation under way: what is asked for, the attempt to serve it, and what the
 * report says when no memory was found. */
#ifndef SRC_CACHE_REQUEST_H
#define SRC_CACHE_REQUEST_H

#include <acre/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block;
struct pool;

/* Input: constant once its pool is chosen. */
struct request {
    size_t bytes; /* as asked for, > 0                  */
    void *stream;
    size_t rounded;    /* size of the block, by the policy; 0: not representable */
    struct pool *pool; /* that serves it                     */
};

/* Report: the state of cache and device at the moment of the failure. */
struct shortage {
    const char *option;       /* would join pieces of memory; NULL: none, or it is on */
    const char *plain_option; /* makes segments plain, which need no addresses beyond their own */
    uint64_t held_bytes;
    uint64_t limit_bytes;
    uint64_t device_free, device_total;
    uint64_t bytes_allocated;   /* sleeping pools aside                       */
    uint64_t bytes_asleep;      /* live in sleeping pools, without memory     */
    uint64_t bytes_unaddressed; /* addresses that could not be reserved; 0: that is not it */
    uint64_t bytes_reserved, bytes_waiting, largest_free, free_private;
    uint64_t free_ended; /* of that, in pools that have ended, kept by a capture */
    double fraction; /* option per_process_memory_fraction         */
};

/* Scratch: how far the attempt has come. */
struct attempt {
    struct request request;
    size_t segment_bytes;     /* what the device was asked for last, or would be        */
    bool has_slack;           /* new memory may be obtained although threads keep some  */
    bool is_rejected;         /* refused before the device was asked                    */
    struct block *block;      /* the result                                             */
    struct shortage shortage; /* set with ACRE_ERR_DEVICE_MEMORY and ACRE_ERR_REJECTED  */
};

/* Starts an attempt; the rest of it is set on the way. */
static inline void attempt_init(struct attempt *attempt, size_t bytes, void *stream)
{
    attempt->request.bytes = bytes;
    attempt->request.stream = stream;
    attempt->has_slack = false;
}

/* Whether a failure is about the amount of memory, so that freeing some may help. */
static inline bool attempt_lacks_memory(acre_status status)
{
    return status == ACRE_ERR_DEVICE_MEMORY || status == ACRE_ERR_LIMIT;
}

/* Out of memory is said of memory that was asked for, and of nothing else: a report is
 * written about it. */
static inline acre_status attempt_other_failure(acre_status status)
{
    return status == ACRE_ERR_DEVICE_MEMORY ? ACRE_ERR_DEVICE : status;
}

#endif
