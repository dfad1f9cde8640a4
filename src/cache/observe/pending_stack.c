/* SPDX-License-Identifier: MIT */
#include "cache/observe/pending_stack.h"

_Thread_local struct gathered gathered;

void gathered_take(const void *owner, const acre_context_source *source)
{
    gathered.owner = NULL;
    gathered.count = source->gather(source->arg, gathered.frames, ACRE_STACK_MAX);
    if (gathered.count > ACRE_STACK_MAX)
        gathered.count = ACRE_STACK_MAX;
    gathered.owner = owner;
}
