/* SPDX-License-Identifier: MIT */
/* Host memory that a cache takes for itself: resident bytes per live block, per further cache
 * of a device that was used once, and per thread and stream. Block memory is that of a dry
 * device, which has none on the host. */
#include "bench/bench.h"

#include <stdlib.h>
#include <unistd.h>

static uint64_t live = 1000000, size = 512, caches = 16, streams = 64;
static bool as_json;

/* Resident bytes of this process. */
static double resident(void)
{
    unsigned long long pages = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || fscanf(file, "%llu %llu", &pages, &shared) != 2) {
        fprintf(stderr, "/proc/self/statm cannot be read\n");
        exit(1);
    }
    fclose(file);
    return (double)shared * (double)sysconf(_SC_PAGESIZE);
}

static void use_once(acre_cache *cache, void *stream)
{
    void *pointer;

    bench_require(acre_cache_alloc(cache, 512, stream, &pointer), "a block");
    bench_require(acre_cache_free(cache, pointer), "freeing it");
}

/* A further cache of the same device. */
static acre_cache *cache_beside(acre_cache *cache)
{
    acre_cache_config config = {.struct_size = sizeof config};
    acre_cache *made;

    bench_require(acre_cache_create(acre_cache_device(cache), &config, &made), "a cache");
    return made;
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {.name = "live", .help = "blocks (1000000)", .number = &live},
        {.name = "size", .help = "bytes of each (512)", .number = &size},
        {.name = "caches", .help = "made for the second figure (16)", .number = &caches},
        {.name = "streams", .help = "used for the third (64)", .number = &streams},
        {.name = "json", .help = "one JSON object", .flag = &as_json},
        {0}};
    void *pointer;

    bench_options(argc, argv, "Counts the host memory of caches.", options);
    if (!live || !size || !caches || !streams) {
        fprintf(stderr, "all numbers are at least 1\n");
        return 2;
    }
    acre_cache *cache = bench_cache(NULL);
    use_once(cache, NULL); /* what the first one alone takes */
    use_once(cache_beside(cache), NULL);
    double begin = resident();
    for (uint64_t i = 0; i < caches; i++)
        use_once(cache_beside(cache), NULL);
    double per_cache = (resident() - begin) / (double)caches;

    use_once(cache, bench_stream(cache));
    void **made = calloc(streams, sizeof *made);
    for (uint64_t i = 0; made && i < streams; i++)
        made[i] = bench_stream(cache);
    begin = resident();
    for (uint64_t i = 0; made && i < streams; i++)
        use_once(cache, made[i]);
    double per_stream = (resident() - begin) / (double)streams;
    free(made);

    cache = bench_cache(NULL);
    use_once(cache, NULL);
    begin = resident();
    for (uint64_t i = 0; i < live; i++)
        bench_require(acre_cache_alloc(cache, size, NULL, &pointer), "a block");
    double per_block = (resident() - begin) / (double)live;

    printf(as_json ? "{\"block_bytes\": %.1f, \"cache_bytes\": %.0f, \"stream_bytes\": %.0f}\n"
                   : "host bytes per live block %.1f, per cache used once %.0f, "
                     "per stream of a thread %.0f\n",
           per_block, per_cache, per_stream);
    return 0;
}
