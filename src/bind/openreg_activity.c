/* SPDX-License-Identifier: MIT */
/* Activity tracing: one flag of the process, one stack of numbers per thread.
 *
 * A stack belongs to its thread and ends with it. Nothing else looks at either.
 */
#include <openreg.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct id_stack {
    size_t count, capacity;
    uint64_t ids[]; /* count of them */
};

static atomic_bool is_tracing;
static _Thread_local struct id_stack *stack; /* NULL while never pushed */
static pthread_key_t stack_key;              /* frees the stack of an ending thread */
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;
static int has_key;

static void free_stack(void *ids)
{
    stack = NULL;
    free(ids);
}

static void make_key(void)
{
    has_key = pthread_key_create(&stack_key, free_stack) == 0;
}

/* Room for one more, or orErrorUnknown. */
static orError_t openreg_activity_grow(void)
{
    size_t capacity = stack ? 2 * stack->capacity : 16;
    struct id_stack *larger;

    pthread_once(&stack_once, make_key);
    if (!has_key)
        return orErrorUnknown;
    larger = realloc(stack, sizeof *larger + capacity * sizeof larger->ids[0]);
    if (!larger)
        return orErrorUnknown;
    if (!stack)
        larger->count = 0;
    larger->capacity = capacity;
    stack = larger;
    return pthread_setspecific(stack_key, stack) == 0 ? orSuccess : orErrorUnknown;
}

orError_t orActivityEnableTracing(void)
{
    atomic_store_explicit(&is_tracing, true, memory_order_release);
    return orSuccess;
}

orError_t orActivityDisableTracing(void)
{
    atomic_store_explicit(&is_tracing, false, memory_order_release);
    return orSuccess;
}

orError_t orActivityPushExternalCorrelationId(uint64_t id)
{
    if ((!stack || stack->count == stack->capacity) && openreg_activity_grow() != orSuccess)
        return orErrorUnknown;
    stack->ids[stack->count++] = id;
    return orSuccess;
}

orError_t orActivityPopExternalCorrelationId(uint64_t *id)
{
    uint64_t top = 0;

    if (stack && stack->count > 0)
        top = stack->ids[--stack->count];
    if (id)
        *id = top;
    return orSuccess;
}
