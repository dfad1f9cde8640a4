/* SPDX-License-Identifier: MIT */
/* A device that follows a recording: it hands out the addresses that were recorded,
 * and is out of memory when the recorded one was. Nothing is behind its addresses.
 *
 *   expect_alloc   the next segments that must be asked for, in order
 *   expect_free    segments that must be given back meanwhile; until they all are,
 *                  asking for a segment fails
 *
 * What is asked for and not expected is served from addresses of its own and counted.
 * One thread at a time.
 */
#ifndef SRC_REPLAY_SCRIPT_H
#define SRC_REPLAY_SCRIPT_H

#include <acre/backend.h>
#include <acre/device.h>

#include <stdbool.h>

struct script_item {
    uint64_t address, bytes;
    uint64_t event;  /* for messages                                       */
    bool is_range;   /* pages of an expandable segment, met one by one     */
};

/* A call while recording. */
struct script_call {
    uint64_t address, bytes;
    bool is_free;
};

struct script {
    acre_backend *backend;
    acre_device *device;
    uint64_t total_bytes;
    struct script_item *allocs, *frees; /* expected and not met yet, in order     */
    size_t alloc_count, alloc_capacity, free_count, free_capacity;
    bool is_full;             /* every request for a segment fails                */
    uint64_t spare_address;   /* for what is not expected                         */
    uint64_t surprise_count;  /* calls that were not expected, or not so          */
    struct script_item surprise; /* the first since script_forget                 */
    bool surprise_is_free;
    bool is_recording;        /* nothing is expected; every call is noted         */
    struct script_call *calls;
    size_t call_count, call_capacity;
};

/* Errors: ACRE_ERR_HOST_MEMORY, and those of registering. */
acre_status script_init(struct script *script, uint64_t total_bytes);
void script_fini(struct script *script); /* after the cache on it; a zeroed one is fine */

/* What the device must be asked for. Errors: ACRE_ERR_UNSUPPORTED (a segment at address 0),
 * ACRE_ERR_HOST_MEMORY. */
acre_status script_expect_alloc(struct script *script, uint64_t address, uint64_t bytes,
                                uint64_t event);
acre_status script_expect_free(struct script *script, uint64_t address, uint64_t bytes,
                               uint64_t event);
/* Expects a range to be mapped, or unmapped. A reservation begins where the next range that is
 * expected begins. */
acre_status script_expect_map(struct script *script, uint64_t address, uint64_t bytes,
                              uint64_t event);
acre_status script_expect_unmap(struct script *script, uint64_t address, uint64_t bytes,
                                uint64_t event);
/* Drops what is expected and not met, and surprises; true when there were none. */
bool script_forget(struct script *script);

#endif
