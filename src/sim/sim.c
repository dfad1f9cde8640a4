/* SPDX-License-Identifier: MIT */
/* The reference device as a backend: its life, its table, its facts. */
#include "sim/sim.h"

#include "backend/backend.h"
#include "backend/builtin.h"
#include "sim/sim_conf.h"
#include "sim/sim_fault.h"
#include "sim/sim_memory.h"
#include "sim/work/sim_stream.h"
#include "base/heap.h"
#include "base/struct_size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Facts ----------------------------------------------------------------- */

static acre_status sim_device_count(void *self, int *out_count)
{
    struct sim *sim = self;
    acre_status status = sim_enter_plain(sim, 0);

    if (status == ACRE_OK)
        *out_count = sim->device_count;
    return status;
}

static acre_status sim_device_info(void *self, int device, acre_device_info *out_info)
{
    struct sim *sim = self;
    acre_status status = sim_enter_plain(sim, device);

    if (status != ACRE_OK)
        return status;
    *out_info = (acre_device_info){.total_bytes = sim->config.memory_bytes,
                                   .alloc_granularity = sim->memory->system_page,
                                   .page_bytes = sim->config.page_bytes,
                                   .priority_least = 0,
                                   .priority_greatest = 1};
    snprintf(out_info->name, sizeof out_info->name, "reference device %d%s", device,
             sim_is_dry(sim) ? " (dry)" : "");
    return ACRE_OK;
}

/* ---- The table --------------------------------------------------------------- */

/* Entries that both real and dry devices have. */
#define OPS_COMMON                                                                                 \
    .struct_size = sizeof(acre_backend_ops), .version = ACRE_BACKEND_VERSION,                      \
    .device_count = sim_device_count, .device_info = sim_device_info,                              \
    .memory_info = sim_memory_info, .alloc = sim_alloc, .free = sim_free,                          \
    .stream_create = sim_stream_create, .stream_destroy = sim_stream_destroy,                      \
    .stream_query = sim_stream_query, .stream_synchronize = sim_stream_synchronize,                \
    .stream_wait_event = sim_stream_wait_event, .stream_priority = sim_stream_priority,            \
    .device_synchronize = sim_device_synchronize, .event_create = sim_event_create,                \
    .event_destroy = sim_event_destroy, .event_record = sim_event_record,                          \
    .event_query = sim_event_query, .event_synchronize = sim_event_synchronize,                    \
    .event_elapsed = sim_event_elapsed, .copy = sim_copy, .copy_async = sim_copy_async,            \
    .copy_peer_async = sim_copy_peer_async, .fill_async = sim_fill_async,                          \
    .launch_host = sim_launch_host, .launch_kernel = sim_launch_kernel,                            \
    .write_value32 = sim_write_value32, .wait_value32 = sim_wait_value32, .reserve = sim_reserve,  \
    .unreserve = sim_unreserve, .create = sim_create, .release = sim_release, .map = sim_map,      \
    .unmap = sim_unmap, .set_access = sim_set_access, .multicast_create = sim_multicast_create,    \
    .multicast_bind = sim_multicast_bind, .multicast_unbind = sim_multicast_unbind,                \
    .multicast_write_async = sim_multicast_write_async,                                            \
    .multicast_release = sim_multicast_release, .capture_begin = sim_capture_begin,                \
    .capture_end = sim_capture_end, .capture_info = sim_capture_info,                              \
    .capture_dependencies = sim_capture_dependencies, .graph_launch = sim_graph_launch,            \
    .graph_destroy = sim_graph_destroy, .host_alloc = sim_host_alloc, .host_free = sim_host_free,  \
    .host_register = sim_host_register, .host_unregister = sim_host_unregister,                    \
    .pointer_info = sim_pointer_info, .peer_query = sim_peer_query,                                \
    .peer_enable = sim_peer_enable, .access_open = sim_access_open,                                \
    .access_close = sim_access_close

static const acre_backend_ops sim_ops = {OPS_COMMON,
                                         .export_fd = sim_export_fd,
                                         .import_fd = sim_import_fd,
                                         .ipc_export = sim_ipc_export,
                                         .ipc_open = sim_ipc_open,
                                         .ipc_close = sim_ipc_close,
                                         .ipc_users = sim_ipc_users,
                                         .ipc_revoke = sim_ipc_revoke};

/* There is nothing in a dry device to share. */
static const acre_backend_ops sim_ops_dry = {OPS_COMMON};

/* ---- Life ---------------------------------------------------------------------- */

/* Ends a backend with all that was left in it. A child of fork has neither the
 * threads nor the locks in a known state, so there it is left alone. */
static void sim_destroy(void *self)
{
    struct sim *sim = self;

    if (!sim || sim->fork_generation != atomic_load(&sim_fork_generation))
        return;
    sim_streams_destroy(sim);
    sim_memory_destroy(sim);
    sim_faults_destroy(sim);
    heap_free(sim);
}

static acre_status sim_create_self(const acre_sim_config *config, struct sim **out)
{
    struct sim *sim = heap_zalloc(sizeof *sim);
    acre_status status;

    if (!sim)
        return ACRE_ERR_HOST_MEMORY;
    status = sim_conf_complete(config, &sim->config);
    if (status == ACRE_OK) {
        sim->device_count = (int)sim->config.devices;
        status = sim_faults_create(sim);
    }
    if (status != ACRE_OK) {
        heap_free(sim);
        return status;
    }
    status = sim_memory_create(sim);
    if (status == ACRE_OK)
        status = sim_streams_create(sim);
    if (status != ACRE_OK) {
        sim_destroy(sim);
        return status;
    }
    *out = sim;
    return ACRE_OK;
}

static acre_status sim_register(struct sim *sim, const char *name, acre_backend **out)
{
    acre_backend_desc desc = {.struct_size = sizeof desc,
                              .flags = ACRE_BACKEND_NULL_STREAM,
                              .codec = (acre_stream_codec)sim->config.codec,
                              .name = name,
                              .type = sim->config.type,
                              .ops = sim_is_dry(sim) ? &sim_ops_dry : &sim_ops,
                              .self = sim,
                              .destroy = sim_destroy};

    return backend_register_own(&desc, out);
}

/* Registers under the first of "sim-1", "sim-2", ... that is free. */
static acre_status sim_register_unique(struct sim *sim, acre_backend **out)
{
    acre_status status = ACRE_ERR_EXISTS;
    char name[32];

    for (int i = 1; status == ACRE_ERR_EXISTS && i < 100000; i++) {
        snprintf(name, sizeof name, "sim-%d", i);
        status = sim_register(sim, name, out);
    }
    return status;
}

acre_status acre_sim_create(const acre_sim_config *config, acre_backend **out)
{
    struct sim *sim = NULL;
    acre_status status;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_sim_create: out is NULL");
    status = sim_create_self(config, &sim);
    if (status != ACRE_OK)
        return status;
    /* The registry copies names; the caller's text need not live on. */
    const char *name = sim->config.name;
    sim->config.name = NULL;
    status = name ? sim_register(sim, name, out) : sim_register_unique(sim, out);
    if (status != ACRE_OK)
        sim_destroy(sim);
    return status;
}

acre_status sim_start(acre_backend **out)
{
    acre_sim_config config = {.struct_size = sizeof config};
    const char *text = getenv("ACRE_SIM");
    acre_status status = text ? acre_sim_parse(text, &config) : ACRE_OK;

    config.name = "sim";
    return status == ACRE_OK ? acre_sim_create(&config, out) : status;
}

/* ---- For tests -------------------------------------------------------------------- */

/* The reference device behind a backend, or ACRE_ERR_INVALID. */
static acre_status sim_of(acre_backend *backend, struct sim **out)
{
    acre_device *device;

    if (!backend)
        return status_fail(ACRE_ERR_INVALID, "the backend is NULL");
    acre_status status = acre_backend_device(backend, 0, &device);
    if (status != ACRE_OK)
        return status;
    if (device->ops->device_info != sim_device_info)
        return status_fail(ACRE_ERR_INVALID, "\"%s\" is not a reference device",
                           acre_backend_name(backend));
    *out = device->self;
    return sim_enter_plain(*out, 0);
}

acre_status acre_sim_fault_arm(acre_backend *backend, const acre_sim_fault *fault)
{
    struct sim *sim = NULL;
    acre_status status = sim_of(backend, &sim);

    if (status == ACRE_OK && !fault)
        status = status_fail(ACRE_ERR_INVALID, "acre_sim_fault_arm: the fault is NULL");
    return status == ACRE_OK ? sim_faults_arm(sim, fault) : status;
}

uint64_t acre_sim_fault_disarm(acre_backend *backend)
{
    struct sim *sim = NULL;

    return sim_of(backend, &sim) == ACRE_OK ? sim_faults_disarm(sim) : 0;
}

acre_status acre_sim_usage_get(acre_backend *backend, acre_sim_usage *out)
{
    struct sim *sim = NULL;
    acre_status status = sim_of(backend, &sim);

    if (status == ACRE_OK)
        status = STRUCT_CHECK("acre_sim_usage_get", acre_sim_usage, out);
    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    acre_sim_usage usage = sim->memory->usage;
    lock_drop(&sim->memory->lock);
    sim_streams_usage(sim, &usage);
    for (int i = 0; i < ACRE_SIM_CALL_COUNT; i++)
        usage.calls[i] = atomic_load_explicit(&sim->calls[i], memory_order_relaxed);
    STRUCT_GIVE(acre_sim_usage, out, &usage);
    return ACRE_OK;
}
