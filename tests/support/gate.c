/* SPDX-License-Identifier: MIT */
#include "tests/support/gate.h"

#include <sched.h>

void gate_task(void *arg)
{
    struct gate *gate = arg;

    atomic_store(&gate->is_reached, 1);
    while (!atomic_load(&gate->is_open))
        sched_yield();
}

void gate_open(struct gate *gate)
{
    atomic_store(&gate->is_open, 1);
}

void gate_wait_reached(struct gate *gate)
{
    while (!atomic_load(&gate->is_reached))
        sched_yield();
}
