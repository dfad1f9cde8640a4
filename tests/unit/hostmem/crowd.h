/* SPDX-License-Identifier: MIT */
/* Threads that allocate and free at random, with contents checked. */
#ifndef TESTS_UNIT_HOSTMEM_CROWD_H
#define TESTS_UNIT_HOSTMEM_CROWD_H

#include "tests/unit/hostmem/heap_make.h"

#include <pthread.h>
#include <stdatomic.h>

struct crowd {
    acre_hostmem *heap;
    _Atomic bool is_over;
    bool is_endless; /* members go on until then */
    _Atomic uint64_t seed, failures;
    _Atomic int warm_count; /* members that have allocated for a while */
};

/* Allocates and frees with contents checked. */
static inline void *member_run(void *arg)
{
    enum { SLOTS = 32 };
    struct crowd *crowd = arg;
    uint64_t state = atomic_fetch_add(&crowd->seed, 1);
    unsigned char *blocks[SLOTS] = {NULL};
    size_t sizes[SLOTS];

    for (int step = 0;
         (crowd->is_endless || step < 20000) && !atomic_load(&crowd->is_over); step++) {
        if (step == 1000)
            atomic_fetch_add(&crowd->warm_count, 1);
        unsigned slot = (unsigned)(t_random(&state) % SLOTS);
        if (blocks[slot]) {
            if (blocks[slot][0] != slot || blocks[slot][sizes[slot] - 1] != slot)
                atomic_fetch_add(&crowd->failures, 1);
            if (acre_hostmem_free(crowd->heap, blocks[slot]) != ACRE_OK)
                atomic_fetch_add(&crowd->failures, 1);
            blocks[slot] = NULL;
            continue;
        }
        sizes[slot] = 1 + t_random(&state) % (t_random(&state) % 4 ? 5000 : 200000);
        if (acre_hostmem_alloc(crowd->heap, sizes[slot], (void **)&blocks[slot]) != ACRE_OK) {
            atomic_fetch_add(&crowd->failures, 1);
            continue;
        }
        blocks[slot][0] = blocks[slot][sizes[slot] - 1] = (unsigned char)slot;
    }
    for (unsigned slot = 0; slot < SLOTS; slot++)
        acre_hostmem_free(crowd->heap, blocks[slot]);
    return NULL;
}

#endif
