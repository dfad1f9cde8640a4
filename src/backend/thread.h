/* SPDX-License-Identifier: MIT */
/* What each thread has chosen: a current device per backend, and a current
 * stream per device. */
#ifndef SRC_BACKEND_THREAD_H
#define SRC_BACKEND_THREAD_H

#include "backend/backend.h"

/* The calling thread's current device; 0 until it chooses. */
int thread_device(const acre_backend *backend);

/* Makes a device current, index being valid; tells a driver that keeps one.
 * Never fails for host memory once this thread chose anything of the backend. */
acre_status thread_set_device(acre_backend *backend, int index);

/* Id of the calling thread's current stream of a device; the default stream
 * until it chooses. */
int64_t thread_stream(const acre_backend *backend, int index);

/* Makes a stream current; index and id were checked. */
acre_status thread_set_stream(acre_backend *backend, int index, int64_t id);

/* Drops what the calling thread keeps about a backend that goes. What other
 * threads keep goes with them, or when they next choose something. */
void thread_forget(const acre_backend *backend);

/* Makes the calling thread like a new one: device 0 and default streams everywhere.
 * Worker threads do so after each task of the user. */
void thread_reset(void);

#endif
