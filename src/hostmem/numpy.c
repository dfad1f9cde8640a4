/* SPDX-License-Identifier: MIT */
/* A memory handler as NumPy wants it (NEP 49).
 *
 * NumPy gives and takes memory through a struct of four functions and a context. Its layout
 * is part of NumPy's binary interface since 1.22 and the same in 2.x, so no header of NumPy
 * is needed, and one build serves all versions. Small blocks stay with NumPy's own handler,
 * which keeps them at hand; memory that the heap does not know goes back there too, so an
 * array may be made before the handler is set and resized or freed after. */
#include "base/heap.h"
#include "base/status.h"
#include "hostmem/heap.h"

#include <string.h>

enum { NUMPY_OWN_BELOW = 1024 }; /* bytes that NumPy keeps blocks of by itself */

struct numpy_allocator {
    void *context;
    void *(*malloc)(void *context, size_t bytes);
    void *(*calloc)(void *context, size_t count, size_t bytes);
    void *(*realloc)(void *context, void *pointer, size_t bytes);
    void (*free)(void *context, void *pointer, size_t bytes);
};

struct numpy_handler {
    char name[127];
    uint8_t version;
    struct numpy_allocator allocator;
};

/* The handler of a heap, with what its functions need. */
struct handler {
    struct numpy_handler handler; /* first: this is what NumPy sees */
    acre_hostmem *heap;
    struct numpy_allocator own; /* NumPy's */
};

static void *array_alloc(void *context, size_t bytes)
{
    struct handler *handler = context;
    void *pointer = NULL;

    if (bytes < NUMPY_OWN_BELOW)
        return handler->own.malloc(handler->own.context, bytes);
    return acre_hostmem_alloc(handler->heap, bytes, &pointer) == ACRE_OK ? pointer : NULL;
}

static void *array_calloc(void *context, size_t count, size_t bytes)
{
    struct handler *handler = context;
    size_t all;
    void *pointer = NULL;

    if (!__builtin_mul_overflow(count, bytes, &all) && all < NUMPY_OWN_BELOW)
        return handler->own.calloc(handler->own.context, count, bytes);
    return acre_hostmem_calloc(handler->heap, count, bytes, &pointer) == ACRE_OK ? pointer : NULL;
}

static void *array_realloc(void *context, void *pointer, size_t bytes)
{
    struct handler *handler = context;
    void *moved = NULL;

    if (!pointer)
        return array_alloc(context, bytes);
    if (!acre_hostmem_usable_bytes(handler->heap, pointer))
        return handler->own.realloc(handler->own.context, pointer, bytes);
    /* NumPy means a block by every pointer, of zero bytes too. */
    return acre_hostmem_realloc(handler->heap, pointer, bytes ? bytes : 1, &moved) == ACRE_OK
               ? moved
               : NULL;
}

static void array_free(void *context, void *pointer, size_t bytes)
{
    struct handler *handler = context;

    if (!pointer)
        return;
    if (!acre_hostmem_usable_bytes(handler->heap, pointer))
        handler->own.free(handler->own.context, pointer, bytes);
    else
        acre_hostmem_free(handler->heap, pointer);
}

acre_status acre_hostmem_numpy_handler(acre_hostmem *heap, const void *fallback, void **out)
{
    const struct numpy_handler *own = fallback;
    struct handler *handler;

    if (!own || own->version != 1 || !own->allocator.malloc || !own->allocator.calloc ||
        !own->allocator.realloc || !own->allocator.free)
        return status_fail(ACRE_ERR_INVALID, "the fallback is no memory handler of version 1, as "
                                             "NumPy 1.22 to 2.x have it");
    handler = heap_zalloc(sizeof *handler);
    if (!handler)
        return ACRE_ERR_HOST_MEMORY;
    memcpy(handler->handler.name, "acre", sizeof "acre");
    handler->handler.version = 1;
    handler->handler.allocator = (struct numpy_allocator){.context = handler,
                                                          .malloc = array_alloc,
                                                          .calloc = array_calloc,
                                                          .realloc = array_realloc,
                                                          .free = array_free};
    handler->heap = heap;
    handler->own = own->allocator;
    lock_take(&heap->lock);
    if (!heap->numpy) {
        heap->numpy = handler;
        handler = NULL;
    }
    *out = heap->numpy;
    lock_drop(&heap->lock);
    heap_free(handler);
    return ACRE_OK;
}
