/* SPDX-License-Identifier: MIT */
#include "driver/green.h"

#include "base/heap.h"
#include "base/status.h"

/* Work queues can be configured since CUDA 13.1, through calls that 13.0 lacks. */
static acre_status queues_unsupported(void)
{
    return status_fail(ACRE_ERR_UNSUPPORTED, "work queues of green contexts are not supported: "
                                             "they need CUDA 13.1; leave the scope out");
}

/* The compute units asked for, or all of them. */
static acre_status units_split(struct driver *driver, int device, uint32_t units,
                               driver_resource *out)
{
    driver_resource whole = {0}, rest = {0};
    unsigned groups = 1;
    acre_status status =
        CALL(green_resource, driver->units[device].native, &whole, DRIVER_RESOURCE_UNITS);

    if (status != ACRE_OK)
        return status;
    if (units == 0 || units == whole.unit_count) {
        *out = whole;
        return ACRE_OK;
    }
    status = CALL(green_split, out, &groups, &whole, &rest, 0, units);
    if (status == ACRE_OK && groups != 1)
        status = status_fail(ACRE_ERR_LIMIT,
                             "a green context of %u of %u compute units cannot be "
                             "had",
                             units, whole.unit_count);
    return status;
}

static acre_status native_create(struct driver *driver, struct green *green, uint32_t units,
                                 uint32_t *out_units)
{
    driver_resource part = {0};
    driver_resource_desc desc = NULL;
    acre_status status = units_split(driver, green->device, units, &part);

    if (status == ACRE_OK)
        status = CALL(green_describe, &desc, &part, 1);
    if (status == ACRE_OK)
        status = CALL(green_create, &green->native, desc, driver->units[green->device].native,
                      DRIVER_GREEN_DEFAULT_STREAM);
    if (status != ACRE_OK)
        return status;
    status = CALL(green_context, &green->context, green->native);
    if (status == ACRE_OK)
        status = books_object_put(&driver->books, &green->object);
    if (status != ACRE_OK)
        driver->library.call.green_destroy(green->native);
    else
        *out_units = part.unit_count;
    return status;
}

acre_status drv_green_create(void *self, int device, const acre_green_config *config,
                             void **out_green, uint32_t *out_units)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct green *green;
    acre_status status;

    if (config->scope != ACRE_GREEN_SCOPE_NONE)
        return queues_unsupported();
    green = heap_zalloc(sizeof *green);
    if (!green)
        return ACRE_ERR_HOST_MEMORY;
    green->object.kind = OBJECT_GREEN;
    green->device = device;
    status = ON_DEVICE(native_create(driver, green, config->units, out_units));
    if (status != ACRE_OK) {
        heap_free(green);
        return status;
    }
    atomic_fetch_add(&driver->green_count, 1);
    *out_green = green;
    return ACRE_OK;
}

/* Streams that could not be destroyed, such as captured ones, outlive their green context: they
 * are streams as others then. */
static void streams_forget(struct driver *driver, const struct green *green)
{
    struct ptrmap_entry *entry;
    size_t at = 0;

    lock_take(&driver->books.lock);
    while ((entry = ptrmap_next(&driver->green_streams, &at)))
        if (entry->value == green) {
            ptrmap_take(&driver->green_streams, entry->key);
            at = 0; /* taking moves the others */
        }
    lock_drop(&driver->books.lock);
}

acre_status drv_green_destroy(void *self, int device, void *handle)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct green *green = handle;
    acre_status status = books_object_take(&driver->books, OBJECT_GREEN, handle);

    if (status != ACRE_OK)
        return status;
    status = ON_DEVICE(CALL(green_destroy, green->native));
    if (status == ACRE_OK) {
        streams_forget(driver, green);
        atomic_fetch_sub(&driver->green_count, 1);
    }
    return books_object_settle(&driver->books, &green->object, status);
}

acre_status drv_green_stream(void *self, int device, void *handle, uint32_t flags, int priority,
                             void **out_stream)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct green *green = handle;
    driver_stream stream = NULL;
    acre_status status = books_object_check(&driver->books, OBJECT_GREEN, handle);

    (void)flags; /* the driver wants its streams not to wait for the default one */
    if (status == ACRE_OK)
        status = ON_DEVICE(CALL(green_stream_create, &stream, green->native,
                                DRIVER_STREAM_NON_BLOCKING, priority));
    if (status != ACRE_OK)
        return status;
    lock_take(&driver->books.lock);
    status = ptrmap_put(&driver->green_streams, stream, green);
    lock_drop(&driver->books.lock);
    if (status != ACRE_OK)
        driver->library.call.stream_destroy(stream);
    else
        *out_stream = stream;
    return status;
}

driver_context drv_green_context_of(struct driver *driver, const void *stream)
{
    const struct green *green;
    driver_context context;

    if (!stream || atomic_load_explicit(&driver->green_count, memory_order_relaxed) == 0)
        return NULL;
    lock_take(&driver->books.lock);
    green = ptrmap_get(&driver->green_streams, stream);
    context = green ? green->context : NULL;
    lock_drop(&driver->books.lock);
    return context;
}

void drv_green_stream_forget(struct driver *driver, const void *stream)
{
    if (atomic_load_explicit(&driver->green_count, memory_order_relaxed) == 0)
        return;
    lock_take(&driver->books.lock);
    ptrmap_take(&driver->green_streams, stream);
    lock_drop(&driver->books.lock);
}

acre_status drv_green_push(void *self, int device, void *handle)
{
    struct driver *driver = self;
    acre_status status = books_object_check(&driver->books, OBJECT_GREEN, handle);

    (void)device;
    return status != ACRE_OK ? status : CALL(cuda_context_push, ((struct green *)handle)->context);
}

acre_status drv_green_pop(void *self, int device, void *handle)
{
    struct driver *driver = self;
    driver_context current = NULL;
    acre_status status = books_object_check(&driver->books, OBJECT_GREEN, handle);

    (void)device;
    if (status == ACRE_OK)
        status = CALL(cuda_context_get, &current);
    if (status == ACRE_OK && current != ((struct green *)handle)->context)
        status = status_fail(ACRE_ERR_STATE, "another context is current than the green context "
                                             "that is to be left");
    return status != ACRE_OK ? status : CALL(cuda_context_pop, &current);
}

acre_status drv_green_queues(void *self, int device, uint32_t *out_count)
{
    (void)self;
    (void)device;
    (void)out_count;
    return queues_unsupported();
}

bool drv_green_is_current(struct driver *driver, int device)
{
    driver_context current = NULL;
    struct ptrmap_entry *entry;
    bool is_there = false;
    size_t at = 0;

    if (atomic_load_explicit(&driver->green_count, memory_order_relaxed) == 0 ||
        driver->library.call.cuda_context_get(&current) != DRIVER_SUCCESS)
        return false;
    lock_take(&driver->books.lock);
    while (!is_there && (entry = ptrmap_next(&driver->books.objects, &at))) {
        const struct green *green = entry->value;

        is_there = green->object.kind == OBJECT_GREEN && green->device == device &&
                   green->context == current;
    }
    lock_drop(&driver->books.lock);
    return is_there;
}
