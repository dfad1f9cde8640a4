/* SPDX-License-Identifier: MIT */
/* The owning data pointer. Its rules are in the header; nothing here locks. */
#include <acre/allocator.h>

#include "base/heap.h"
#include "base/status.h"

/* Context of a closure data pointer. */
struct closure {
    acre_closure_fn fn;
    void *arg;
    void *data;
};

void acre_delete_nothing(void *context)
{
    (void)context;
}

void acre_data_ptr_init(acre_data_ptr *out)
{
    *out = (acre_data_ptr)ACRE_DATA_PTR_EMPTY;
}

void acre_data_ptr_make(acre_data_ptr *out, void *data, void *context, acre_deleter deleter,
                        acre_device_id device)
{
    out->data = data;
    out->context = context;
    out->deleter = deleter ? deleter : acre_delete_nothing;
    out->device = device;
}

void acre_data_ptr_clear(acre_data_ptr *ptr)
{
    if (!ptr)
        return;
    void *context = ptr->context;

    /* Emptied first: the deleter may look at or reuse this very pointer. */
    ptr->data = ptr->context = NULL;
    if (context && ptr->deleter)
        ptr->deleter(context);
}

void acre_data_ptr_move(acre_data_ptr *to, acre_data_ptr *from)
{
    if (to == from)
        return;
    acre_data_ptr moved = *from;

    acre_data_ptr_init(from);
    acre_data_ptr_clear(to);
    *to = moved;
}

bool acre_data_ptr_is_set(const acre_data_ptr *ptr)
{
    return ptr->data || ptr->context;
}

bool acre_data_ptr_is_simple(const acre_data_ptr *ptr)
{
    return ptr->data == ptr->context;
}

void *acre_data_ptr_release_context(acre_data_ptr *ptr)
{
    void *context = ptr->context;

    ptr->context = NULL;
    return context;
}

void *acre_data_ptr_move_context(acre_data_ptr *ptr, acre_deleter *out_deleter)
{
    if (out_deleter)
        *out_deleter = ptr->deleter ? ptr->deleter : acre_delete_nothing;
    return acre_data_ptr_release_context(ptr);
}

void *acre_data_ptr_cast_context(const acre_data_ptr *ptr, acre_deleter expected)
{
    return ptr->deleter == expected ? ptr->context : NULL;
}

bool acre_data_ptr_compare_exchange_deleter(acre_data_ptr *ptr, acre_deleter expected,
                                            acre_deleter replacement)
{
    if (ptr->deleter != expected)
        return false;
    ptr->deleter = replacement ? replacement : acre_delete_nothing;
    return true;
}

bool acre_data_ptr_unsafe_reset(acre_data_ptr *ptr, void *pointer)
{
    if (ptr->deleter && ptr->deleter != acre_delete_nothing)
        return false;
    ptr->data = ptr->context = pointer;
    return true;
}

void acre_data_ptr_unsafe_set_device(acre_data_ptr *ptr, acre_device_id device)
{
    ptr->device = device;
}

void acre_delete_closure(void *context)
{
    struct closure closure = *(struct closure *)context;

    heap_free(context);
    closure.fn(closure.arg, closure.data);
}

acre_status acre_data_ptr_closure(void *data, acre_closure_fn fn, void *arg, acre_device_id device,
                                  acre_data_ptr *out)
{
    if (!fn || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_data_ptr_closure: %s is NULL",
                           fn ? "out" : "the function");
    struct closure *closure = heap_alloc(sizeof *closure);
    if (!closure)
        return ACRE_ERR_HOST_MEMORY;
    *closure = (struct closure){fn, arg, data};
    acre_data_ptr_make(out, data, closure, acre_delete_closure, device);
    return ACRE_OK;
}
