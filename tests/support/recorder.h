/* SPDX-License-Identifier: MIT */
/* A random job on a dry device with policy torch, recorded as a snapshot would be:
 * segments obtained and given back, allocations, frees, and the state at the end. */
#ifndef TESTS_SUPPORT_RECORDER_H
#define TESTS_SUPPORT_RECORDER_H

#include "format/snapshot/snapshot.h"

#include <acre/acre.h>

struct recorder {
    acre_backend *backend;
    acre_device *device;
    acre_cache *cache;
    struct snapshot *snapshot;
    uint64_t device_bytes;   /* set before it begins; 0: 64 GiB   */
    uint64_t state;          /* of the random numbers            */
    struct {
        void *pointer;
        uint64_t bytes, stream;
    } live[256];
    int live_count;
    void *streams[3];
    struct {
        uint64_t base, bytes, stream;
    } segments[4096];        /* known so far, by address         */
    int segment_count;
    int64_t time_us;
};

void recorder_begin(struct recorder *recorder, const char *conf, uint64_t seed);
/* Records so many steps; largest request in bytes. */
void recorder_run(struct recorder *recorder, int steps, uint64_t largest);
/* Adds the state at the end and ends; the snapshot is the caller's. */
struct snapshot *recorder_end(struct recorder *recorder);
/* Forgets the first count events of the history. */
void recorder_forget(struct snapshot *snapshot, uint64_t count);

#endif
