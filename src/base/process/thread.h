/* SPDX-License-Identifier: MIT */
/* Threads that the library starts. */
#ifndef SRC_BASE_THREAD_H
#define SRC_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread with every signal blocked but those that a fault of its own code raises:
 * signals are for the threads of the application. Returns 0 or the code of pthread_create. */
int thread_start(pthread_t *out, void *(*run)(void *), void *arg);

/* For tests: from now on no thread can be started (EAGAIN), or threads can be again. */
void thread_refuse(bool refuse);

#endif
