/* SPDX-License-Identifier: MIT */
#include "cache/observe/pending_stack.h"

_Thread_local struct pending_stack pending_stack;

void pending_stack_take(const void *owner, const acre_context_source *source)
{
    pending_stack.owner = NULL;
    pending_stack.count = source->gather(source->arg, pending_stack.frames, ACRE_STACK_MAX);
    if (pending_stack.count > ACRE_STACK_MAX)
        pending_stack.count = ACRE_STACK_MAX;
    pending_stack.owner = owner;
}
