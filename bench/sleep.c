/* SPDX-License-Identifier: MIT */
/* Times sleep and wake of a pool against the two copies they cannot do without:
 * from the device into new host memory, and from there into new device memory. */
#include "bench/bench.h"

#include <acre/acre.h>

#include <time.h>

static uint64_t bytes = 1 << 30, rounds = 3;
static const char *policy;
static bool as_json;

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* A cache on a reference device that has real memory. */
static acre_cache *cache_make(bool is_torch)
{
    acre_sim_config sim = {.struct_size = sizeof sim, .memory_bytes = 4 * bytes};
    acre_cache_config config = {.struct_size = sizeof config,
                                .policy = is_torch ? ACRE_POLICY_TORCH : ACRE_POLICY_ACRE,
                                .conf = is_torch ? "expandable_segments:True" : NULL,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_backend *backend;
    acre_device *device;
    acre_cache *cache;

    bench_require(acre_sim_create(&sim, &backend), "device");
    bench_require(acre_backend_device(backend, 0, &device), "device");
    bench_require(acre_cache_create(device, &config, &cache), "cache");
    return cache;
}

/* A pool with one block, filled. */
static acre_pool_id pool_make(acre_cache *cache, void **block)
{
    acre_pool_config config = {.struct_size = sizeof config, .flags = ACRE_POOL_STITCHED};
    acre_device *device = acre_cache_device(cache);
    acre_pool_id id = acre_pool_id_next();

    bench_require(acre_pool_create(cache, id, &config), "pool");
    bench_require(acre_pool_begin(cache, id, NULL), "scope");
    bench_require(acre_cache_alloc(cache, bytes, NULL, block), "block");
    bench_require(acre_pool_end(cache, id), "scope");
    bench_require(acre_fill_async(device, *block, 7, bytes, NULL), "fill");
    bench_require(acre_device_synchronize(device), "fill");
    return id;
}

/* Milliseconds of the two copies of *twin, which is replaced. Its memory goes back to the system
 * between them, as that of a pool does that sleeps: both sides then touch pages that were in use
 * a moment ago. Pages that nobody held for long can cost several times as much in a virtual
 * machine, and would make one side look slow. */
static double copies(acre_device *device, void **twin)
{
    void *host;

    bench_require(acre_host_alloc(device, bytes, &host), "host memory");
    double begin = now_ms();
    bench_require(acre_copy(device, host, *twin, bytes, ACRE_COPY_DEVICE_TO_HOST), "copy");
    double ms = now_ms() - begin;
    bench_require(acre_device_free(device, *twin), "device memory");
    bench_require(acre_device_alloc(device, bytes, twin), "device memory");
    begin = now_ms();
    bench_require(acre_copy(device, *twin, host, bytes, ACRE_COPY_HOST_TO_DEVICE), "copy");
    ms += now_ms() - begin;
    bench_require(acre_host_free(device, host), "host memory");
    return ms;
}

/* Device memory beside the pool, filled. */
static void *twin_make(acre_device *device)
{
    void *twin;

    bench_require(acre_device_alloc(device, bytes, &twin), "device memory");
    bench_require(acre_fill_async(device, twin, 7, bytes, NULL), "fill");
    bench_require(acre_device_synchronize(device), "fill");
    return twin;
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {.name = "bytes", .help = "of the block that sleeps (1G)", .number = &bytes},
        {.name = "rounds", .help = "of which the best count (3)", .number = &rounds},
        {.name = "policy", .help = "acre or torch (acre)", .word = &policy},
        {.name = "json", .help = "one JSON object", .flag = &as_json},
        {0}};
    double copy_ms = 1e12, sleep_ms = 1e12, wake_ms = 1e12;
    void *block, *twin;

    bench_options(argc, argv, "Times sleep and wake against the copies in them.", options);
    acre_cache *cache = cache_make(policy && *policy == 't');
    acre_device *device = acre_cache_device(cache);
    acre_pool_id id = pool_make(cache, &block);
    twin = twin_make(device);
    for (uint64_t i = 0; i < rounds; i++) {
        double ms = copies(device, &twin);
        copy_ms = ms < copy_ms ? ms : copy_ms;
        double begin = now_ms();
        bench_require(acre_cache_sleep(cache, &id, NULL, ACRE_SLEEP_SAVE), "sleep");
        double middle = now_ms();
        bench_require(acre_cache_wake(cache, &id, NULL), "wake");
        double end = now_ms();
        sleep_ms = middle - begin < sleep_ms ? middle - begin : sleep_ms;
        wake_ms = end - middle < wake_ms ? end - middle : wake_ms;
    }
    printf(as_json ? "{\"sleep_ms\": %.1f, \"wake_ms\": %.1f, \"copies_ms\": %.1f, "
                     "\"ratio\": %.3f}\n"
                   : "sleep %.0f ms, wake %.0f ms; the two copies alone %.0f ms: %.2f times\n",
           sleep_ms, wake_ms, copy_ms, (sleep_ms + wake_ms) / copy_ms);
    bench_require(acre_device_free(device, twin), "device memory");
    acre_cache_free(cache, block);
    acre_cache_destroy(cache);
    return 0;
}
