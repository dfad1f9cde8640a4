/* SPDX-License-Identifier: MIT */
#include "cache/observe/pending_stack.h"

_Thread_local struct pending_stack pending_stack;

void pending_stack_end(void)
{
    void *object = pending_stack.object;

    pending_stack.owner = NULL;
    pending_stack.object = NULL;
    if (object)
        pending_stack.objects.release(pending_stack.objects.arg, object);
}

void pending_stack_take(const void *owner, const acre_context_source *source,
                        const acre_context_objects *objects)
{
    pending_stack_end();
    pending_stack.count = 0;
    if (objects && objects->take) {
        pending_stack.objects = *objects;
        pending_stack.object = objects->take(objects->arg);
    } else {
        pending_stack.count = source->gather(source->arg, pending_stack.frames, ACRE_STACK_MAX);
        if (pending_stack.count > ACRE_STACK_MAX)
            pending_stack.count = ACRE_STACK_MAX;
    }
    pending_stack.owner = owner;
}
