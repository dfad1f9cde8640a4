/* SPDX-License-Identifier: MIT */
#include "replay/target.h"

#include "base/heap.h"

#include <string.h>

acre_status target_init(struct target *target, acre_policy policy, const char *conf,
                        uint64_t device_bytes)
{
    acre_sim_config sim = {.struct_size = sizeof sim, .devices = 1, .memory_bytes = device_bytes,
                           .page_bytes = (uint64_t)2 << 20, .dry = 1, .name = "replay"};
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy, .conf = conf,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};

    memset(target, 0, sizeof *target);
    acre_status status = acre_sim_create(&sim, &target->backend);
    if (status == ACRE_OK)
        status = acre_backend_device(target->backend, 0, &target->device);
    if (status == ACRE_OK)
        status = acre_cache_create(target->device, &config, &target->cache);
    if (status == ACRE_OK)
        status = target_need_stream(target, 0);
    if (status != ACRE_OK)
        target_fini(target);
    return status;
}

void target_fini(struct target *target)
{
    acre_cache_destroy(target->cache);
    for (uint32_t i = 1; i < target->stream_count; i++)
        acre_stream_native_destroy(target->device, target->streams[i]);
    heap_free(target->streams);
    acre_backend_unregister(target->backend);
    memset(target, 0, sizeof *target);
}

acre_status target_need_stream(struct target *target, uint32_t number)
{
    if (number < target->stream_count)
        return ACRE_OK;
    void **streams = heap_realloc(target->streams, ((size_t)number + 1) * sizeof *streams);
    if (!streams)
        return ACRE_ERR_HOST_MEMORY;
    target->streams = streams;
    streams[0] = NULL;
    if (target->stream_count == 0)
        target->stream_count = 1;
    while (target->stream_count <= number) {
        acre_status status = acre_stream_native_create(target->device, 0, 0,
                                                       &streams[target->stream_count]);
        if (status != ACRE_OK)
            return status;
        target->stream_count++;
    }
    return ACRE_OK;
}

acre_status target_page_calls(struct target *target, uint64_t *out_maps, uint64_t *out_unmaps)
{
    acre_sim_usage usage;
    acre_status status = acre_sim_usage_get(target->backend, &usage);

    if (status != ACRE_OK)
        return status;
    *out_maps = usage.calls[ACRE_SIM_MAP] + usage.unused_count;
    *out_unmaps = usage.calls[ACRE_SIM_UNMAP];
    return ACRE_OK;
}
