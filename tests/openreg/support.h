/* SPDX-License-Identifier: MIT */
/* What the tests of libopenreg share.
 *
 * Every test source here is compiled twice, as C and as C++, and linked with
 * libopenreg.so and the harness only. Tasks that must be seen queued or running
 * stand before a gate; nothing depends on how long anything takes.
 */
#ifndef TESTS_OPENREG_SUPPORT_H
#define TESTS_OPENREG_SUPPORT_H

#include "tests/support/t.h"

#include <openreg.h>

#include <pthread.h>
#include <unistd.h>

#define OK(call) REQUIRE_EQ(call, orSuccess)
#define REFUSED(call) EXPECT_EQ(call, orErrorUnknown)
#define BUSY(call) EXPECT_EQ(call, orErrorNotReady)

#ifdef __cplusplus
extern "C" {
#endif

/* A door that tasks wait at. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int is_open;
    int passed; /* tasks that went through        */
    int inside; /* tasks that reached it          */
};

#define GATE_INITIALIZER {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0}

void gate_pass(void *gate);               /* the task: waits until it is open  */
void gate_open(void *gate);               /* also fit for a task               */
void gate_close(struct gate *gate);       /* ready for the next use            */
void gate_await(struct gate *gate, int inside); /* until so many tasks are at it */
int gate_passed(struct gate *gate);

/* Opens a gate from another thread a little later; join afterwards. */
pthread_t gate_open_later(struct gate *gate);

/* Runs fn on a fresh thread and waits for it. */
void on_thread(void (*fn)(void *), void *arg);

/* A number that tasks add 1 to. */
void count_task(void *number);
int number_at(int *number);

/* Device memory with every byte set; reads it back through copies. */
void *device_block(size_t bytes, int value);
void block_set(void *block, size_t bytes, int value);
int block_is(const void *block, size_t bytes, int value);

/* Whether touching a byte faults. */
int read_faults(const void *address);
int write_faults(void *address);

size_t page_bytes(void);

orStream_t new_stream(int device);
orEvent_t new_event(int device, unsigned flags);

#ifdef __cplusplus
}
#endif

#endif
