/* SPDX-License-Identifier: MIT */
/* A reference device for one test, and tasks that wait for the test.
 *
 * OP(stream_create, 0, 0, 0, &stream) calls an entry of the table. rig_close checks
 * that nothing is left of it: no host memory, threads, descriptors or mapped device
 * memory.
 */
#ifndef TESTS_SUPPORT_SIM_RIG_H
#define TESTS_SUPPORT_SIM_RIG_H

#include "backend/backend.h"
#include "base/heap.h"
#include "tests/support/t.h"

#include <acre/sim.h>

#include <pthread.h>

struct rig {
    acre_backend *backend;
    const acre_backend_ops *ops;
    void *self;
    uint64_t heap_before;
    int threads_before, fds_before, maps_before;
};

extern struct rig rig;

#define OP(call, ...) rig.ops->call(rig.self, __VA_ARGS__)
#define EXPECT_STATUS(call, status)                                            \
    do {                                                                       \
        acre_status t_s = (call);                                              \
        if (t_s != (status))                                                   \
            t_fail(__FILE__, __LINE__, "%s: %s (%s), not " #status, #call,     \
                   acre_status_name(t_s), acre_last_error());                  \
    } while (0)
#define EXPECT_OK(call) EXPECT_STATUS(call, ACRE_OK)

/* Creates the device; NULL: two devices of 64 MiB. */
void rig_open(const acre_sim_config *config);
void rig_close(void);
/* The same for tests that expect creating to fail; rig_close is called in any case. */
acre_status rig_try(const acre_sim_config *config);
acre_sim_usage rig_usage(void);

/* A new stream or event of a device, device memory, all REQUIREd. */
void *rig_stream(int device);
void *rig_event(int device, uint32_t flags);
void *rig_alloc(int device, size_t bytes);
/* Blocking copies, REQUIREd. */
void rig_put(void *dst, const void *src, size_t bytes);
void rig_get(void *dst, const void *src, size_t bytes);

/* A task that says that it runs and waits until it may go on. */
struct rig_gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int entered; /* how many tasks are or were inside */
    int is_open;
};

#define RIG_GATE_INITIALIZER {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0}

void rig_gate_task(void *gate);                      /* the task                        */
void rig_gate_await(struct rig_gate *gate, int entered); /* until so many tasks were inside */
void rig_gate_open(struct rig_gate *gate);

#endif
