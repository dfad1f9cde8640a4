/* SPDX-License-Identifier: MIT */
/* Feeds a device through page-locked buffers that are reused as soon as copies are done.
 *
 *     cc pinned.c -lacre && ./a.out
 */
#include <acre/acre.h>

#include <stdio.h>
#include <string.h>

#define BYTES ((size_t)1000000) /* no power of two, and none is made of it */

int main(void)
{
    acre_pinned_stats stats = {.struct_size = sizeof stats};
    acre_device *device;
    acre_pinned *pinned;
    void *batch, *staging, *stream;

    if (acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device) != ACRE_OK ||
        acre_device_alloc(device, BYTES, &batch) != ACRE_OK ||
        acre_stream_native_create(device, 0, 0, &stream) != ACRE_OK ||
        acre_pinned_create(device, NULL, &pinned) != ACRE_OK)
        goto fail;
    for (int i = 0; i < 100; i++) {
        if (acre_pinned_alloc(pinned, BYTES, &staging) != ACRE_OK)
            goto fail;
        memset(staging, i, BYTES);
        acre_copy_async(device, batch, staging, BYTES, ACRE_COPY_HOST_TO_DEVICE, stream);
        acre_pinned_record_stream(pinned, staging, NULL, stream);
        acre_pinned_free(pinned, staging); /* at once: the copy keeps it from being reused */
    }
    acre_stream_native_synchronize(device, stream);
    acre_pinned_stats_get(pinned, &stats);
    printf("%lld buffers from %lld pieces of page-locked memory, %.1f MiB at most\n",
           (long long)stats.active_requests.allocated, (long long)stats.num_host_alloc,
           (double)stats.allocated_bytes.peak / (1 << 20));
    acre_pinned_destroy(pinned);
    acre_stream_native_destroy(device, stream);
    acre_device_free(device, batch);
    return 0;

fail:
    fprintf(stderr, "%s\n", acre_last_error());
    return 1;
}
