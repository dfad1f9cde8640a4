/* SPDX-License-Identifier: MIT */
#include "cache/pools/scope.h"

#include "base/heap.h"

#include <stdatomic.h>

uint64_t thread_number(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;

    if (!number)
        number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return number;
}

struct scope *scope_create(struct private_pool *pool, const acre_pool_filter *filter)
{
    static _Atomic uint64_t last;
    struct scope *scope = heap_zalloc(sizeof *scope);

    if (!scope)
        return NULL;
    list_init(&scope->link);
    scope->pool = pool;
    scope->filter = *filter;
    scope->thread = thread_number();
    scope->number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return scope;
}

void scope_destroy(struct scope *scope)
{
    list_remove(&scope->link);
    heap_free(scope);
}

struct scope *scope_find(const struct list *scopes, const struct private_pool *pool)
{
    LIST_FOR_EACH(link, scopes)
        if (CONTAINER_OF(link, struct scope, link)->pool == pool)
            return CONTAINER_OF(link, struct scope, link);
    return NULL;
}

enum scope_answer scope_passes(const struct scope *scope, const void *stream)
{
    switch (scope->filter.kind) {
    case ACRE_POOL_THIS_THREAD:
        return scope->thread == thread_number() ? SCOPE_YES : SCOPE_NO;
    case ACRE_POOL_STREAM:
        return scope->filter.stream == stream ? SCOPE_YES : SCOPE_NO;
    case ACRE_POOL_CALLBACK:
        return SCOPE_ASK;
    case ACRE_POOL_CAPTURE:
        return SCOPE_CAPTURE;
    case ACRE_POOL_ANY:
        break;
    }
    return SCOPE_YES;
}

struct scope *scope_older(const struct list *scopes, uint64_t number)
{
    LIST_FOR_EACH(link, scopes)
        if (CONTAINER_OF(link, struct scope, link)->number < number)
            return CONTAINER_OF(link, struct scope, link);
    return NULL;
}

bool scopes_concern(const struct list *scopes, uint64_t thread, const void *stream)
{
    LIST_FOR_EACH(link, scopes) {
        const struct scope *scope = CONTAINER_OF(link, struct scope, link);
        if (scope->filter.kind == ACRE_POOL_THIS_THREAD ? scope->thread == thread
            : scope->filter.kind == ACRE_POOL_STREAM    ? scope->filter.stream == stream
                                                        : true)
            return true;
    }
    return false;
}
