/* SPDX-License-Identifier: MIT */
/* Weights that sleep while something else needs the device.
 *
 *     cc sleep.c -lacre && ./a.out
 */
#include <acre/acre.h>

#include <stdio.h>
#include <string.h>

#define BYTES ((size_t)64 << 20)

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, acre_last_error());
    return 1;
}

/* Free bytes of the device, in MiB. */
static unsigned long long free_mib(acre_device *device)
{
    uint64_t unused = 0, total;

    acre_device_memory(device, &unused, &total);
    return (unsigned long long)(unused >> 20);
}

static int show(acre_cache *cache, acre_device *device)
{
    acre_pool_config config = {.struct_size = sizeof config, .flags = ACRE_POOL_STITCHED};
    acre_pool_id id = acre_pool_id_next();
    char word[16] = "unchanged", back[16] = "";
    void *weights;

    if (acre_pool_create(cache, id, &config) != ACRE_OK ||
        acre_pool_tag_set(cache, id, "weights") != ACRE_OK ||
        acre_pool_begin(cache, id, NULL) != ACRE_OK)
        return failed("pool");
    if (acre_cache_alloc(cache, BYTES, NULL, &weights) != ACRE_OK)
        return failed("alloc");
    acre_pool_end(cache, id);
    acre_copy(device, weights, word, sizeof word, ACRE_COPY_HOST_TO_DEVICE);
    printf("awake:  %llu MiB free\n", free_mib(device));
    if (acre_cache_sleep(cache, NULL, "weights", ACRE_SLEEP_SAVE) != ACRE_OK)
        return failed("sleep");
    printf("asleep: %llu MiB free\n", free_mib(device));
    if (acre_cache_wake(cache, NULL, "weights") != ACRE_OK)
        return failed("wake");
    acre_copy(device, back, weights, sizeof back, ACRE_COPY_DEVICE_TO_HOST);
    printf("awake:  %llu MiB free, contents %s\n", free_mib(device), back);
    acre_cache_free(cache, weights);
    acre_pool_release(cache, id);
    return strcmp(back, word) != 0;
}

int main(void)
{
    acre_device *device;
    acre_cache *cache;
    int result;

    if (acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device) != ACRE_OK)
        return failed("device");
    if (acre_cache_create(device, NULL, &cache) != ACRE_OK)
        return failed("cache");
    result = show(cache, device);
    acre_cache_destroy(cache);
    return result;
}
