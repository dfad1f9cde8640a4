/* SPDX-License-Identifier: MIT */
/* A gate: tasks behind it on a stream wait until it is opened. */
#ifndef TESTS_SUPPORT_GATE_H
#define TESTS_SUPPORT_GATE_H

#include <stdatomic.h>

struct gate {
    _Atomic int is_open;
    _Atomic int is_reached;
};

void gate_task(void *gate); /* for acre_launch_host */
void gate_open(struct gate *gate);
void gate_wait_reached(struct gate *gate);

#endif
