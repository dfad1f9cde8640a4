/* SPDX-License-Identifier: MIT */
#include "driver/pool.h"

#include "base/status.h"

/* ---- The pool of a device -------------------------------------------------------------- */

/* Lets a device reach the memory of a pool. Drivers without the call have pools
 * that nobody else reaches. */
static acre_status pool_grant(struct driver *driver, driver_pool pool, int accessor)
{
    driver_access_desc desc = {{DRIVER_LOCATION_DEVICE, driver->units[accessor].native},
                               DRIVER_ACCESS_READ_WRITE};

    return driver->library.call.pool_set_access ? CALL(pool_set_access, pool, &desc, 1) : ACRE_OK;
}

/* Opens the pool to the devices that were given access before the pool was made. */
static acre_status grant_all(struct driver *driver, int device, driver_pool pool)
{
    acre_status status = ACRE_OK;

    for (int i = 0; i < driver->unit_count && status == ACRE_OK; i++)
        if ((atomic_load(&driver->units[device].reached_by[i / 64]) >> (i % 64)) & 1)
            status = pool_grant(driver, pool, i);
    return status;
}

static acre_status pool_make(struct driver *driver, int device, driver_pool *out)
{
    driver_pool_prop prop = {
        .type = DRIVER_MEMORY_PINNED,
        .location = {DRIVER_LOCATION_DEVICE, driver->units[device].native},
    };
    uint64_t threshold = UINT64_MAX; /* nothing goes back by itself */
    acre_status status = CALL(pool_create, out, &prop);

    if (status != ACRE_OK)
        return status;
    status = CALL(pool_set, *out, DRIVER_POOL_RELEASE_THRESHOLD, &threshold);
    if (status == ACRE_OK)
        status = grant_all(driver, device, *out);
    if (status != ACRE_OK)
        driver->library.call.pool_destroy(*out);
    return status;
}

/* The pool of a device, made once. The device is entered. */
static acre_status pool_of(struct driver *driver, int device, driver_pool *out)
{
    struct driver_unit *unit = &driver->units[device];
    driver_pool pool = atomic_load_explicit(&unit->pool, memory_order_acquire), none = NULL;
    acre_status status;

    if (!pool) {
        status = pool_make(driver, device, &pool);
        if (status != ACRE_OK)
            return status;
        if (!atomic_compare_exchange_strong(&unit->pool, &none, pool)) {
            driver->library.call.pool_destroy(pool);
            pool = none;
        }
    }
    *out = pool;
    return ACRE_OK;
}

acre_status drv_pool_share(struct driver *driver, int device, int accessor)
{
    struct driver_unit *unit = &driver->units[device];
    driver_pool pool;

    atomic_fetch_or(&unit->reached_by[accessor / 64], (uint64_t)1 << (accessor % 64));
    pool = atomic_load(&unit->pool);
    return pool ? pool_grant(driver, pool, accessor) : ACRE_OK;
}

void drv_pool_fini(struct driver *driver)
{
    for (int i = 0; i < driver->unit_count; i++)
        if (driver->units[i].pool)
            driver->library.call.pool_destroy(driver->units[i].pool);
}

/* ---- Memory ----------------------------------------------------------------------------- */

static acre_status alloc_in(struct driver *driver, int device, struct book_range *range,
                            driver_stream stream)
{
    driver_pool pool = NULL;
    acre_status status = pool_of(driver, device, &pool);

    if (status == ACRE_OK)
        status = CALL(pool_alloc_async, &range->native, range->bytes, pool, stream);
    if (status != ACRE_OK)
        return status;
    range->base = (uintptr_t)range->native;
    status = books_put(&driver->books, range);
    if (status != ACRE_OK)
        driver->library.call.pool_free_async(range->native, stream);
    return status;
}

acre_status drv_pool_alloc(void *self, int device, size_t bytes, void *stream, void **out_base)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct book_range range = {.bytes = bytes, .device = device, .origin = RANGE_POOLED};
    acre_status status;

    if (bytes == 0)
        return status_fail(ACRE_ERR_INVALID, "async_alloc: 0 bytes");
    status = ON_STREAM_MEMORY(stream, alloc_in(driver, device, &range, stream));
    if (status == ACRE_OK)
        *out_base = range.native;
    return status;
}

acre_status drv_pool_free(void *self, int device, void *base, void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct book_range range;
    acre_status status = books_take(&driver->books, RANGE_POOLED, device, base, &range);

    if (status != ACRE_OK)
        return status;
    return books_range_settle(&driver->books, &range,
                              ON_STREAM_MEMORY(stream, CALL(pool_free_async, base, stream)));
}

/* ---- Levels -------------------------------------------------------------------------------- */

acre_status drv_pool_trim(void *self, int device, uint64_t bytes)
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_pool pool = atomic_load_explicit(&driver->units[device].pool, memory_order_acquire);

    return pool ? ON_DEVICE_MEMORY(CALL(pool_trim, pool, (size_t)bytes)) : ACRE_OK;
}

static acre_status usage_ask(struct driver *driver, driver_pool pool, acre_async_usage *usage)
{
    const struct {
        driver_pool_attribute attribute;
        uint64_t *value;
    } wanted[] = {
        {DRIVER_POOL_USED, &usage->used},
        {DRIVER_POOL_USED_PEAK, &usage->used_peak},
        {DRIVER_POOL_RESERVED, &usage->reserved},
        {DRIVER_POOL_RESERVED_PEAK, &usage->reserved_peak},
    };
    acre_status status = ACRE_OK;

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && status == ACRE_OK; i++)
        status = CALL(pool_get, pool, wanted[i].attribute, wanted[i].value);
    return status;
}

acre_status drv_pool_usage(void *self, int device, acre_async_usage *out_usage)
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_pool pool = atomic_load_explicit(&driver->units[device].pool, memory_order_acquire);
    acre_async_usage usage = {.struct_size = sizeof usage};
    acre_status status = pool ? ON_DEVICE(usage_ask(driver, pool, &usage)) : ACRE_OK;

    if (status == ACRE_OK)
        *out_usage = usage;
    return status;
}

static acre_status peaks_zero(struct driver *driver, driver_pool pool)
{
    uint64_t zero = 0;
    acre_status status = CALL(pool_set, pool, DRIVER_POOL_USED_PEAK, &zero);

    return status == ACRE_OK ? CALL(pool_set, pool, DRIVER_POOL_RESERVED_PEAK, &zero) : status;
}

/* Drivers take 0 only, and put the present level there. */
acre_status drv_pool_reset_peak(void *self, int device)
{
    struct driver *driver = self;
    struct driver_scope scope;
    driver_pool pool = atomic_load_explicit(&driver->units[device].pool, memory_order_acquire);

    return pool ? ON_DEVICE(peaks_zero(driver, pool)) : ACRE_OK;
}
