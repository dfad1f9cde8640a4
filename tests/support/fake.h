/* SPDX-License-Identifier: MIT */
/* A device for tests of allocators: exact to the byte, addresses only, events
 * that complete on command, calls that are counted and fail on command.
 *
 * Streams are small numbers; fake_stream(n) is the native handle of stream n, in
 * increasing order, NULL for 0. Addresses are never handed out twice. */
#ifndef TESTS_SUPPORT_FAKE_H
#define TESTS_SUPPORT_FAKE_H

#include <acre/device.h>

enum fake_call {
    FAKE_ALLOC,
    FAKE_FREE,
    FAKE_MEMORY_INFO,
    FAKE_EVENT_CREATE,
    FAKE_EVENT_DESTROY,
    FAKE_EVENT_RECORD,
    FAKE_EVENT_QUERY,
    FAKE_EVENT_SYNC,
    FAKE_DEVICE_SYNC, /* counted; events still complete on command only */
    FAKE_RESERVE,
    FAKE_UNRESERVE,
    FAKE_CREATE,
    FAKE_RELEASE,
    FAKE_MAP,
    FAKE_UNMAP,
    FAKE_SET_ACCESS,
    FAKE_CALL_COUNT,
    FAKE_ANY = 100,
};

struct fake_config {
    uint64_t bytes;        /* capacity of each device; 0: 8 GiB                       */
    int devices;           /* 0: 1                                                    */
    bool is_descending;    /* each address lies below the one before                  */
    bool without_streams;  /* the group of streams and events is absent               */
    bool completes_at_once; /* events complete when recorded; else see fake_finish    */
    uint64_t granularity;  /* of alloc; 0: 512                                        */
    uint64_t page_bytes;   /* of virtual memory; 0: the group is absent               */
    bool has_fabric;       /* handles of type fabric can be created                   */
};

struct fake;

/* NULL: the defaults. Aborts when it cannot. */
struct fake *fake_create(const struct fake_config *config);
void fake_destroy(struct fake *fake);
acre_device *fake_device(struct fake *fake, int index);
void *fake_stream(int number);

/* All work on the stream so far is done. */
void fake_finish(struct fake *fake, void *stream);
/* Number of the last thing submitted to the stream, and of the last one done. */
uint64_t fake_submitted(struct fake *fake, void *stream);
uint64_t fake_done(struct fake *fake, void *stream);
/* Whether [pointer, pointer + bytes) lies in one live allocation of the device. */
bool fake_owns(struct fake *fake, int device, const void *pointer, uint64_t bytes);
/* Addresses reserved, physical handles, mappings, over all devices. */
uint64_t fake_reserved_bytes(struct fake *fake);
uint64_t fake_handle_count(struct fake *fake);
uint64_t fake_mapping_count(struct fake *fake);
/* Whether accessor reaches all of [pointer, pointer + bytes), mapped memory. */
bool fake_reaches(struct fake *fake, int accessor, const void *pointer, uint64_t bytes);
/* Device memory in use by one device. */
uint64_t fake_device_bytes(struct fake *fake, int device);
/* Device memory in use, live allocations (also ranges, handles, mappings) and live
 * events, over all devices. */
uint64_t fake_bytes(struct fake *fake);
uint64_t fake_alloc_count(struct fake *fake);
uint64_t fake_event_count(struct fake *fake);
/* Memory that somebody else holds on device 0. */
void fake_hog(struct fake *fake, uint64_t bytes);

/* Calls so far. */
uint64_t fake_calls(struct fake *fake, enum fake_call call);
/* Fails the n-th call of that kind from now, 1 being the next; 0 disarms. */
void fake_fail(struct fake *fake, enum fake_call call, uint64_t nth, acre_status status);
/* Disarms; tells whether a call was failed since. */
bool fake_disarm(struct fake *fake);
/* Calls fn at each alloc, without locks of the fake held. */
void fake_on_alloc(struct fake *fake, void (*fn)(void *arg), void *arg);

#endif
