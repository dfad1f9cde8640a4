/* SPDX-License-Identifier: MIT */
/* A step of work recorded once and launched many times, with its memory.
 *
 * The allocations of the recording come from a pool of its own: temporary memory
 * is reused within the step, and every launch finds it at the same addresses.
 * Runs on the reference device.
 *
 *     cc recording.c $(pkg-config --cflags --libs acre) && ./a.out
 */
#include <acre/acre.h>

#include <stdio.h>

#define BYTES ((size_t)1 << 20)

/* Ends the program with the sentence of the last error. */
#define GO(call)                                                               \
    do {                                                                       \
        if ((call) != ACRE_OK) {                                               \
            fprintf(stderr, "%s: %s\n", #call, acre_last_error());             \
            return 1;                                                          \
        }                                                                      \
    } while (0)

int main(void)
{
    acre_sim_config sim = {.struct_size = sizeof sim};
    acre_backend *backend;
    acre_device *device;
    acre_cache *cache;
    acre_recording *step;
    acre_pool_stats stats = {.struct_size = sizeof stats};
    void *stream, *input, *temporary, *output;
    unsigned char byte;

    GO(acre_sim_create(&sim, &backend)); /* the reference device */
    GO(acre_backend_device(backend, 0, &device));
    GO(acre_cache_create(device, NULL, &cache));
    GO(acre_stream_native_create(device, 0, 0, &stream));
    GO(acre_cache_alloc(cache, BYTES, stream, &input));

    /* From here to the end nothing runs: it is written down. */
    GO(acre_recording_begin(cache, stream, NULL, &step));
    GO(acre_cache_alloc(cache, BYTES, stream, &temporary));
    GO(acre_copy_async(device, temporary, input, BYTES, ACRE_COPY_DEVICE_TO_DEVICE, stream));
    GO(acre_cache_alloc(cache, BYTES, stream, &output));
    GO(acre_copy_async(device, output, temporary, BYTES, ACRE_COPY_DEVICE_TO_DEVICE, stream));
    GO(acre_cache_free(cache, temporary)); /* the rest of the step may have it */
    GO(acre_recording_end(step));

    for (int i = 1; i <= 3; i++) {
        GO(acre_fill_async(device, input, i, BYTES, stream));
        GO(acre_recording_launch(step, stream));
        GO(acre_stream_native_synchronize(device, stream));
        GO(acre_copy(device, &byte, output, 1, ACRE_COPY_DEVICE_TO_HOST));
        printf("launch %d wrote %d\n", i, byte);
    }
    GO(acre_pool_stats_get(cache, acre_recording_pool(step), &stats));
    printf("its pool holds %lld bytes, %llu live, as long as the recording lives\n",
           (long long)stats.reserved_bytes.all.current, (unsigned long long)stats.live_bytes);

    GO(acre_cache_free(cache, output));
    GO(acre_cache_free(cache, input));
    acre_recording_destroy(step);
    acre_cache_destroy(cache);
    GO(acre_stream_native_destroy(device, stream));
    acre_backend_unregister(backend);
    return 0;
}
