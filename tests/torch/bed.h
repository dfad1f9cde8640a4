/* SPDX-License-Identifier: MIT */
/* PyTorch's side of libacre_torch.so: loaded by path, functions found by name.
 * ACRE_BACKEND names the device. */
#ifndef TESTS_TORCH_BED_H
#define TESTS_TORCH_BED_H

#include "tests/support/t.h"

#include <acre/acre.h>

#define PATH ACRE_BUILD "/libacre_torch.so"

struct torch_calls {
    void *library;
    void *(*malloc)(ssize_t bytes, int device, void *stream);
    void (*free)(void *pointer, ssize_t bytes, int device, void *stream);
    void (*init)(int device_count);
    void (*reset)(void);
    void (*memory_fraction)(double fraction, int device);
    void *(*base_alloc)(void *pointer, size_t *bytes);
    void (*record_stream)(void *pointer, void *stream);
    void (*begin)(int device, acre_pool_id id, void *filter);
    void (*end)(int device, acre_pool_id id);
    void (*release)(int device, acre_pool_id id);
    acre_cache *(*cache)(int device);
};

extern struct torch_calls torch;
extern acre_device *device; /* number 0 */
extern bool has_streams;

/* Loads the library; each test begins with it. */
void start(void);

int64_t allocated_now(void);
int64_t reserved_now(void);
/* Live blocks of a pool of device 0, and how often a pool of a device is used; 0 also when the
 * pool has ended. */
uint64_t live_in(acre_pool_id id);
uint64_t uses_of(int index, acre_pool_id id);

void *new_stream(void);
void end_stream(void *stream);

/* Calls of the device that fail: whether this backend can, the n-th call from now on, and the
 * end of it, which tells whether one failed. */
bool faults_find(void);
void faults_arm(uint64_t nth);
bool faults_end(void);

#endif
