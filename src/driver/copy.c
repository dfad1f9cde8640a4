/* SPDX-License-Identifier: MIT */
/* Drivers copy whatever they are given; kinds and lengths are checked here, by the
 * books or by the driver's own knowledge of a pointer. */
#include "driver/copy.h"

#include "base/status.h"
#include "driver/memory.h"

#include <string.h>

/* Most pieces that one overlapping copy is queued as. */
#define PIECES_MAX 1024

/* ---- Checks ------------------------------------------------------------------------- */

/* A side is of the right kind and long enough; out_device is -1 for host memory. */
static acre_status side_check(struct driver *driver, const char *side, const void *pointer,
                              size_t bytes, bool must_be_device, int *out_device)
{
    acre_pointer_info info = {.struct_size = sizeof info};
    bool is_device;

    drv_memory_pointer_info(driver, pointer, &info);
    is_device = info.kind == ACRE_MEMORY_DEVICE;
    if (is_device != must_be_device)
        return status_fail(ACRE_ERR_INVALID, "copy: %s %p is %sdevice memory, against its kind",
                           side, pointer, is_device ? "" : "not ");
    if (info.kind != ACRE_MEMORY_UNMANAGED &&
        bytes > info.bytes - (uint64_t)((const char *)pointer - (const char *)info.base))
        return status_fail(ACRE_ERR_INVALID, "copy: %zu bytes at %s %p leave its block of %llu",
                           bytes, side, pointer, (unsigned long long)info.bytes);
    *out_device = is_device ? info.device : -1;
    return ACRE_OK;
}

/* What a copy touches; a device is -1 where a side is host memory. */
struct sides {
    int dst_device, src_device;
};

static acre_status copy_check(struct driver *driver, const void *dst, const void *src, size_t bytes,
                              acre_copy_kind kind, struct sides *out)
{
    bool to_device = kind == ACRE_COPY_HOST_TO_DEVICE || kind == ACRE_COPY_DEVICE_TO_DEVICE;
    bool from_device = kind == ACRE_COPY_DEVICE_TO_HOST || kind == ACRE_COPY_DEVICE_TO_DEVICE;
    acre_status status;

    if (!dst || !src || bytes == 0 || (unsigned)kind > ACRE_COPY_DEVICE_TO_DEVICE)
        return status_fail(ACRE_ERR_INVALID, "copy: %zu bytes from %p to %p of kind %d", bytes, src,
                           dst, (int)kind);
    status = side_check(driver, "destination", dst, bytes, to_device, &out->dst_device);
    if (status == ACRE_OK)
        status = side_check(driver, "source", src, bytes, from_device, &out->src_device);
    return status;
}

static bool is_overlapping(const void *dst, const void *src, size_t bytes)
{
    uintptr_t to = (uintptr_t)dst, from = (uintptr_t)src;

    return to < from ? from - to < bytes : to - from < bytes;
}

/* ---- Blocking copies ---------------------------------------------------------------- */

/* To device memory. Drivers return when they have read memory of the host, and at once where both
 * sides are on devices; what follows on other streams must not overtake the rest. */
static acre_status copy_and_wait(struct driver *driver, void *dst, const void *src, size_t bytes)
{
    acre_status status = driver->vendor->copy(driver, dst, src, bytes);

    if (status != ACRE_OK || !driver->library.call.stream_synchronize)
        return status;
    return CALL(stream_synchronize, NULL);
}

/* Through a temporary, as drivers leave overlapping copies undefined. */
static acre_status copy_overlapping(struct driver *driver, int device, void *dst, const void *src,
                                    size_t bytes)
{
    void *middle = NULL;
    acre_status status = drv_memory_alloc(driver, device, bytes, &middle);

    if (status != ACRE_OK)
        return status;
    status = driver->vendor->copy(driver, middle, src, bytes);
    if (status == ACRE_OK)
        status = copy_and_wait(driver, dst, middle, bytes);
    drv_memory_free(driver, device, middle);
    return status;
}

acre_status drv_copy_now(void *self, void *dst, const void *src, size_t bytes, acre_copy_kind kind)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct sides sides = {-1, -1};
    int device;
    acre_status status = copy_check(driver, dst, src, bytes, kind, &sides);

    if (status != ACRE_OK)
        return status;
    device = sides.dst_device >= 0 ? sides.dst_device : sides.src_device;
    if (device < 0) {
        memmove(dst, src, bytes);
        return ACRE_OK;
    }
    return ON_DEVICE(is_overlapping(dst, src, bytes)
                         ? copy_overlapping(driver, device, dst, src, bytes)
                     : sides.dst_device >= 0 ? copy_and_wait(driver, dst, src, bytes)
                                             : driver->vendor->copy(driver, dst, src, bytes));
}

/* ---- Queued copies ------------------------------------------------------------------ */

/* In pieces no longer than the distance, from the end that is overwritten last. */
static acre_status queue_overlapping(struct driver *driver, char *dst, const char *src,
                                     size_t bytes, driver_stream stream)
{
    bool is_down = dst < src;
    size_t distance = (size_t)(is_down ? src - dst : dst - src), done = 0;
    acre_status status = ACRE_OK;

    if (distance == 0)
        return ACRE_OK;
    if (bytes / distance > PIECES_MAX)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "copy: %zu bytes are to move by only %zu in a "
                           "queue; copy through other memory, or wait with acre_copy",
                           bytes, distance);
    while (done < bytes && status == ACRE_OK) {
        size_t piece = bytes - done < distance ? bytes - done : distance;
        size_t at = is_down ? done : bytes - done - piece;

        status = driver->vendor->copy_async(driver, dst + at, src + at, piece, stream);
        done += piece;
    }
    return status;
}

acre_status drv_copy_queue(void *self, int device, void *dst, const void *src, size_t bytes,
                           acre_copy_kind kind, void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct sides sides = {-1, -1};
    acre_status status = copy_check(driver, dst, src, bytes, kind, &sides);

    if (status != ACRE_OK)
        return status;
    return ON_STREAM(stream, is_overlapping(dst, src, bytes)
                                 ? queue_overlapping(driver, dst, src, bytes, stream)
                                 : driver->vendor->copy_async(driver, dst, src, bytes, stream));
}

acre_status drv_copy_queue_peer(void *self, void *dst, int dst_device, const void *src,
                                int src_device, size_t bytes, void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;
    struct sides sides = {-1, -1};
    int device = src_device;
    acre_status status = copy_check(driver, dst, src, bytes, ACRE_COPY_DEVICE_TO_DEVICE, &sides);

    if (status != ACRE_OK)
        return status;
    return ON_STREAM(stream, driver->vendor->copy_peer_async(driver, dst, dst_device, src,
                                                             src_device, bytes, stream));
}

acre_status drv_copy_queue_fill(void *self, int device, void *dst, int value, size_t bytes,
                                void *stream)
{
    struct driver *driver = self;
    struct driver_scope scope;
    int dst_device;
    acre_status status;

    if (!dst || bytes == 0)
        return status_fail(ACRE_ERR_INVALID, "fill: %zu bytes at %p", bytes, dst);
    status = side_check(driver, "destination", dst, bytes, true, &dst_device);
    if (status != ACRE_OK)
        return status;
    return ON_STREAM(stream, CALL(fill_async, dst, (unsigned char)value, bytes, stream));
}
