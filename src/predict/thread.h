/* SPDX-License-Identifier: MIT */
/* What a thread has of its own: its current device, its current stream on each device,
 * and the stack that its next allocations carry.
 *
 * It lies on the heap behind a key, not in thread-local storage: a library that is
 * loaded late has little of that left. It is freed when its thread ends.
 */
#ifndef SRC_PREDICT_THREAD_H
#define SRC_PREDICT_THREAD_H

#include "predict/guard.h"

#include <acre/history.h>

struct thread_state {
    int8_t device;
    int64_t streams[PREDICT_DEVICES_MAX];
    uint64_t frame_count;
    uint64_t frames[ACRE_STACK_MAX]; /* innermost first */
};

/* The calling thread's. When host memory is gone, one that all such threads share. */
struct thread_state *thread_self(void);

#endif
