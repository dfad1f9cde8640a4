/* SPDX-License-Identifier: MIT */
/* What the plug-in good.c saw; found by name in the library. */
#ifndef TESTS_PLUGINS_GOOD_H
#define TESTS_PLUGINS_GOOD_H

#include <acre/pluggable.h>

struct good_call {
    void *pointer;
    size_t bytes;
    int device;
    void *stream;
};

struct good_seen {
    int alloc_count, free_count, live_count;
    int init_count, device_count, reset_count;
    struct good_call allocated, freed, recorded; /* the last ones */
    double fraction;
    int fraction_device, pool_device;
    acre_pool_id ended, released;
};

#define GOOD_API __attribute__((visibility("default")))

extern GOOD_API struct good_seen good_seen;
GOOD_API void *good_alloc(size_t bytes, int device, void *stream);
GOOD_API void good_free(void *pointer, size_t bytes, int device, void *stream);
GOOD_API void good_init(int device_count);
GOOD_API void good_reset(void);
GOOD_API void good_memory_fraction(double fraction, int device);
GOOD_API void *good_base_alloc(void *pointer, size_t *bytes);
GOOD_API void good_record_stream(void *pointer, void *stream);
GOOD_API void good_pool_end(int device, acre_pool_id id);
GOOD_API void good_pool_release(int device, acre_pool_id id);

#endif
