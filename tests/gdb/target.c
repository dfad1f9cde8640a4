/* SPDX-License-Identifier: MIT */
/* For tests/gdb/acre.py: two caches with blocks in all states, their dumps, and a place to
 * stop at. Arguments: where the dumps go, one for each policy. */
#include <acre/acre.h>

#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 12

static void require(acre_status status)
{
    if (status == ACRE_OK)
        return;
    fprintf(stderr, "%s\n", acre_last_error());
    exit(1);
}

__attribute__((noinline)) static void stop_here(acre_cache *cache, void *memory)
{
    __asm__ volatile("" : : "r"(cache), "r"(memory) : "memory");
}

static void run(acre_device *device, acre_policy policy, const char *path)
{
    const acre_cache_config config = {.struct_size = sizeof config, .policy = policy,
                                      .flags = ACRE_CACHE_NO_ENVIRONMENT};
    void *blocks[BLOCKS];
    acre_cache *cache;

    require(acre_cache_create(device, &config, &cache));
    for (size_t i = 0; i < BLOCKS; i++)
        require(acre_cache_alloc(cache, (size_t)100 << (i + i / 2), NULL, &blocks[i]));
    for (size_t i = 0; i < BLOCKS; i += 2)
        require(acre_cache_free(cache, blocks[i]));
    FILE *file = fopen(path, "w");
    if (!file)
        exit(1);
    require(acre_cache_dump(cache, file));
    fclose(file);
    stop_here(cache, (char *)blocks[3] + 5);
    acre_cache_destroy(cache);
}

int main(int argc, char **argv)
{
    acre_device *device;

    if (argc != 3)
        return 2;
    require(acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device));
    run(device, ACRE_POLICY_TORCH, argv[1]);
    run(device, ACRE_POLICY_ACRE, argv[2]);
    return 0;
}
