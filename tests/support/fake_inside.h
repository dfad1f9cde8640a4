/* SPDX-License-Identifier: MIT */
/* What the files of the fake device share. */
#ifndef TESTS_SUPPORT_FAKE_INSIDE_H
#define TESTS_SUPPORT_FAKE_INSIDE_H

#include "tests/support/fake.h"

#include <pthread.h>

/* Reserved addresses. */
struct fake_range {
    uintptr_t base;
    uint64_t bytes;
    int device;
};

/* Physical memory; counted as used until it is neither held nor mapped. */
struct fake_handle {
    uint64_t bytes;
    int device;
    acre_handle_type type;
    int map_count;
    bool is_released;
};

/* A handle at an address. */
struct fake_mapping {
    uintptr_t base;
    struct fake_handle *handle;
    uint64_t accessors; /* bit d: device d reads and writes */
};

/* Virtual memory: arrays from malloc, so that the library's heap may fail. */
struct fake_virtual {
    struct fake_range *ranges;
    struct fake_mapping *mappings;
    size_t range_count, range_capacity, mapping_count, mapping_capacity;
    uint64_t handle_count;
};

#define STREAM_COUNT 64
#define DEVICE_COUNT 8
#define ALIGNMENT ((uint64_t)2 << 20)

struct event {
    int stream;
    uint64_t ticket; /* complete once the stream's done reaches it */
};

struct piece {
    uintptr_t base;
    uint64_t bytes;
    int device;
};

struct fake {
    pthread_mutex_t lock;
    acre_backend *backend;
    struct fake_config config;
    uint64_t address;      /* next one up, or last one down             */
    struct piece *pieces;  /* live allocations, oldest first; from malloc,
                              so that the library's heap may fail       */
    size_t piece_count, piece_capacity;
    uint64_t used[DEVICE_COUNT];
    uint64_t submitted[STREAM_COUNT], done[STREAM_COUNT];
    uint64_t event_count;
    uint64_t calls[FAKE_CALL_COUNT];
    int fail_call;
    uint64_t fail_nth;
    acre_status fail_status;
    bool has_failed;
    void (*on_alloc)(void *);
    void *on_alloc_arg;
    struct fake_virtual pages;
};

/* Counts a call and tells whether it is to fail. The lock is held. */
acre_status fake_called(struct fake *fake, enum fake_call call);
/* Addresses for so many bytes. The lock is held. */
void *fake_address(struct fake *fake, uint64_t bytes);

/* fake_virtual.c. Where the fake is given, the lock is held. */
void fake_virtual_fill(acre_backend_ops *ops);
void fake_virtual_fini(struct fake *fake);
bool fake_virtual_owns(const struct fake *fake, int device, uintptr_t base, uint64_t bytes);
uint64_t fake_virtual_count(const struct fake *fake);

#endif
