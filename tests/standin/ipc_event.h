/* SPDX-License-Identifier: MIT */
/* Events that several processes see: a page of shared memory that says how often
 * they were recorded and how far that has got. Recording and waiting are host
 * functions on streams. References are counted; the books are not locked. */
#ifndef TESTS_STANDIN_IPC_EVENT_H
#define TESTS_STANDIN_IPC_EVENT_H

#include "tests/standin/core.h"

struct ipc_event;

CUresult ipc_event_create(struct ipc_event **out);
CUresult ipc_event_open(const char handle[64], struct ipc_event **out);
CUresult ipc_event_handle(struct ipc_event *event, char out[64]);
struct ipc_event *ipc_event_ref(struct ipc_event *event);
void ipc_event_unref(struct ipc_event *event);

CUresult ipc_event_record(struct ipc_event *event, const struct place *at);
CUresult ipc_event_wait(struct ipc_event *event, const struct place *at);
int ipc_event_is_done(struct ipc_event *event);
void ipc_event_synchronize(struct ipc_event *event);

#endif
