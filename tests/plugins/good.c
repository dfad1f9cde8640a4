/* SPDX-License-Identifier: MIT */
/* A plug-in that does everything right, on host memory, and tells what it was
 * asked. All hooks are there. */
#include "tests/plugins/good.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct good_seen good_seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *good_alloc(size_t bytes, int device, void *stream)
{
    size_t rounded = (bytes + 511) / 512 * 512;
    void *pointer = bytes ? aligned_alloc(512, rounded) : NULL;

    pthread_mutex_lock(&lock);
    good_seen.alloc_count++;
    good_seen.live_count += pointer != NULL;
    good_seen.allocated = (struct good_call){pointer, bytes, device, stream};
    pthread_mutex_unlock(&lock);
    return pointer;
}

void good_free(void *pointer, size_t bytes, int device, void *stream)
{
    pthread_mutex_lock(&lock);
    good_seen.free_count++;
    good_seen.live_count--;
    good_seen.freed = (struct good_call){pointer, bytes, device, stream};
    pthread_mutex_unlock(&lock);
    memset(pointer, 0xDD, bytes); /* shows who looks too late, or gave a wrong size */
    free(pointer);
}

void good_init(int device_count)
{
    good_seen.init_count++;
    good_seen.device_count = device_count;
}

void good_reset(void)
{
    good_seen.reset_count++;
}

void good_memory_fraction(double fraction, int device)
{
    good_seen.fraction = fraction;
    good_seen.fraction_device = device;
}

void *good_base_alloc(void *pointer, size_t *bytes)
{
    *bytes = 12345;
    return (char *)pointer - 64;
}

void good_record_stream(void *pointer, void *stream)
{
    good_seen.recorded = (struct good_call){pointer, 0, -1, stream};
}

void good_pool_end(int device, acre_pool_id id)
{
    good_seen.pool_device = device;
    good_seen.ended = id;
}

void good_pool_release(int device, acre_pool_id id)
{
    good_seen.pool_device = device;
    good_seen.released = id;
}
