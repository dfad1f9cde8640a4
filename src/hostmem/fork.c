/* SPDX-License-Identifier: MIT */
/* Heaps in the child of a fork. Their locks are held around the fork, and their caches see to
 * themselves (cache/fork.h), so the child finds no heap in the middle of a change. There, what lost
 * threads kept in magazines goes back to the slabs. */
#include "base/process/fork.h"
#include "hostmem/heap.h"

FORK_GUARD(idle_trim_lock);
FORK_GUARD(heaps_lock);

static void fork_after(void)
{
    for (unsigned i = 0; i < ACRE_HOSTMEM_HEAPS_MAX; i++) {
        if (!heaps[i])
            continue;
        magazines_adopt(heaps[i]);
        idle_orphan(&heaps[i]->idle, !(heaps[i]->flags & ACRE_HOSTMEM_NO_THREAD));
    }
}

FORK_HANDLER_OF(heaps_fork, .after = fork_after);
