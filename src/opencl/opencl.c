/* SPDX-License-Identifier: MIT */
/* Finding platforms and devices, and the table of the backend. */
#include "opencl/opencl.h"

#include "backend/backend.h"
#include "backend/builtin.h"
#include "base/conf.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/process/fork.h"
#include "base/status.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define PLATFORMS_MAX 16
#define GRANULARITY   512

/* ---- Configuration ---------------------------------------------------------------------- */

static const char *const grain_words[] = {"coarse", "fine", NULL};
static const char *const kind_words[] = {"all", "cpu", "gpu", "accelerator", NULL};
static const ocl_bits kind_bits[] = {OCL_DEVICE_TYPE_ALL, OCL_DEVICE_TYPE_CPU, OCL_DEVICE_TYPE_GPU,
                                     OCL_DEVICE_TYPE_ACCELERATOR};

static const struct conf_option options[] = {
    {.name = "memory",
     .kind = CONF_BYTES,
     CONF_FIELD(struct opencl_config, memory_bytes),
     .min = 1 << 20,
     .help = "most memory taken of each device; by default all it has"},
    {.name = "grain",
     .kind = CONF_WORD,
     CONF_FIELD(struct opencl_config, grain),
     .words = grain_words,
     .help = "kind of shared virtual memory; coarse by default"},
    {.name = "kind",
     .kind = CONF_WORD,
     CONF_FIELD(struct opencl_config, kind),
     .words = kind_words,
     .help = "which devices; all by default"},
};

static acre_status config_read(struct opencl_config *config)
{
    static const struct conf_spec spec = {.options = options,
                                          .option_count = sizeof options / sizeof options[0],
                                          .target_bytes = sizeof *config};
    const char *text = getenv("ACRE_OPENCL");

    return text ? conf_parse(&spec, "ACRE_OPENCL", text, config, NULL) : ACRE_OK;
}

/* ---- Devices ------------------------------------------------------------------------------ */

acre_status opencl_queue_create(struct opencl *cl, int device, ocl_queue *out)
{
    static const ocl_bits properties[] = {OCL_QUEUE_PROPERTIES, OCL_QUEUE_PROFILING_ENABLE, 0};
    ocl_int code = OCL_SUCCESS;
    ocl_queue queue = ocl.CreateCommandQueueWithProperties(
        opencl_context(cl, device), cl->devices[device].id, properties, &code);

    if (!queue)
        return api_fail("CreateCommandQueueWithProperties", code);
    *out = queue;
    return ACRE_OK;
}

/* A fact about a device; 0 when it does not say. */
static uint64_t device_fact(ocl_device id, ocl_uint what, size_t bytes)
{
    uint64_t value = 0;

    return ocl.GetDeviceInfo(id, what, bytes, &value, NULL) == OCL_SUCCESS ? value : 0;
}

/* The longest beginning of a name that fits. */
static void device_name(ocl_device id, char *out, size_t bytes)
{
    char name[256] = "";

    if (ocl.GetDeviceInfo(id, OCL_DEVICE_NAME, sizeof name - 1, name, NULL) != OCL_SUCCESS ||
        !*name)
        strcpy(name, "OpenCL device");
    memcpy(out, name, bytes - 1);
    out[bytes - 1] = '\0';
}

/* Whether a device has the memory that is asked for. */
static bool device_fits(const struct opencl *cl, ocl_device id)
{
    uint64_t wanted =
        cl->config.grain ? OCL_DEVICE_SVM_FINE_GRAIN_BUFFER : OCL_DEVICE_SVM_COARSE_GRAIN_BUFFER;

    return device_fact(id, OCL_DEVICE_SVM_CAPABILITIES, sizeof(ocl_bits)) & wanted &&
           device_fact(id, OCL_DEVICE_AVAILABLE, sizeof(ocl_uint));
}

static void device_describe(const struct opencl *cl, ocl_device id, int platform,
                            struct opencl_device *out)
{
    *out = (struct opencl_device){
        .id = id,
        .platform = platform,
        .bytes_total = device_fact(id, OCL_DEVICE_GLOBAL_MEM_SIZE, sizeof(uint64_t)),
        .bytes_alloc = device_fact(id, OCL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(uint64_t)),
        .compute_units = (int32_t)device_fact(id, OCL_DEVICE_MAX_COMPUTE_UNITS, sizeof(ocl_uint)),
        .runs_functions = device_fact(id, OCL_DEVICE_EXECUTION_CAPABILITIES, sizeof(ocl_bits)) &
                          OCL_EXEC_NATIVE_KERNEL,
    };
    if (cl->config.memory_bytes && cl->config.memory_bytes < out->bytes_total)
        out->bytes_total = cl->config.memory_bytes;
    if (out->bytes_alloc < 2 * GRANULARITY || out->bytes_alloc > out->bytes_total)
        out->bytes_alloc = out->bytes_total + GRANULARITY;
    device_name(id, out->name, sizeof out->name);
}

/* Adds the devices of a platform that fit, with a context around them; a platform
 * without any is passed over. *out_seen counts all devices met. */
static acre_status platform_add(struct opencl *cl, ocl_platform id, int *out_seen)
{
    struct opencl_platform *platform = &cl->platforms[cl->platform_count];
    ocl_device ids[BACKEND_DEVICES_MAX];
    ocl_uint count = 0, fitting = 0;
    ocl_int code =
        ocl.GetDeviceIDs(id, kind_bits[cl->config.kind], BACKEND_DEVICES_MAX, ids, &count);

    if (code == OCL_DEVICE_NOT_FOUND)
        return ACRE_OK;
    if (code != OCL_SUCCESS)
        return api_fail("GetDeviceIDs", code);
    count = count < BACKEND_DEVICES_MAX ? count : BACKEND_DEVICES_MAX;
    *out_seen += (int)count;
    for (ocl_uint i = 0; i < count; i++)
        if (device_fits(cl, ids[i]) && cl->device_count + (int)fitting < BACKEND_DEVICES_MAX)
            ids[fitting++] = ids[i];
    if (fitting == 0)
        return ACRE_OK;
    platform->context = ocl.CreateContext(NULL, fitting, ids, NULL, NULL, &code);
    if (!platform->context)
        return api_fail("CreateContext", code);
    platform->id = id;
    for (ocl_uint i = 0; i < fitting; i++)
        device_describe(cl, ids[i], cl->platform_count, &cl->devices[cl->device_count++]);
    cl->platform_count++;
    return ACRE_OK;
}

static acre_status platforms_find(struct opencl *cl)
{
    ocl_platform ids[PLATFORMS_MAX];
    ocl_uint count = 0;
    int seen = 0;
    ocl_int code = ocl.GetPlatformIDs(PLATFORMS_MAX, ids, &count);
    acre_status status = ACRE_OK;

    if (code == OCL_PLATFORM_NOT_FOUND || (code == OCL_SUCCESS && count == 0))
        return status_fail_native(ACRE_ERR_UNSUPPORTED, code,
                                  "OpenCL has no platform here; install a driver (Debian: "
                                  "pocl-opencl-icd runs on the processor)");
    if (code != OCL_SUCCESS)
        return api_fail("GetPlatformIDs", code);
    for (ocl_uint i = 0; status == ACRE_OK && i < count && i < PLATFORMS_MAX; i++)
        status = platform_add(cl, ids[i], &seen);
    if (status == ACRE_OK && cl->device_count == 0)
        status = status_fail(ACRE_ERR_UNSUPPORTED,
                             "OpenCL has %d device%s of kind %s here, none with %s-grained shared "
                             "virtual memory; see ACRE_OPENCL",
                             seen, text_plural((uint64_t)seen), kind_words[cl->config.kind],
                             grain_words[cl->config.grain]);
    for (int i = 0; status == ACRE_OK && i < cl->device_count; i++)
        status = opencl_queue_create(cl, i, &cl->devices[i].copies);
    return status;
}

/* ---- The table ------------------------------------------------------------------------------ */

static acre_status opencl_device_count(void *self, int *out_count)
{
    *out_count = ((struct opencl *)self)->device_count;
    return ACRE_OK;
}

static acre_status opencl_device_info(void *self, int device, acre_device_info *out_info)
{
    const struct opencl_device *d = &((struct opencl *)self)->devices[device];

    memset(out_info, 0, sizeof *out_info);
    memcpy(out_info->name, d->name, sizeof d->name);
    out_info->total_bytes = d->bytes_total;
    out_info->alloc_granularity = GRANULARITY;
    out_info->compute_units = d->compute_units;
    return ACRE_OK;
}

static acre_status opencl_peer_query(void *self, int device, int other, bool *out_can)
{
    const struct opencl *cl = self;

    *out_can = cl->devices[device].platform == cl->devices[other].platform;
    return ACRE_OK;
}

/* Memory of a context is within reach of all its devices from the start. */
static acre_status opencl_peer_enable(void *self, int device, int other)
{
    const struct opencl *cl = self;

    if (cl->devices[device].platform == cl->devices[other].platform)
        return ACRE_OK;
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "opencl: %s does not reach memory of %s, of another "
                       "platform",
                       cl->devices[device].name, cl->devices[other].name);
}

static void opencl_destroy(void *self)
{
    struct opencl *cl = self;

    /* In a child of fork its threads are gone, locks may be held, and drivers do not work. */
    if (cl->fork_generation != fork_generation())
        return;
    stream_fini(cl);
    event_fini(cl);
    memory_fini(cl);
    for (int i = 0; i < cl->device_count; i++)
        if (cl->devices[i].copies)
            ocl.ReleaseCommandQueue(cl->devices[i].copies);
    for (int i = 0; i < cl->platform_count; i++)
        ocl.ReleaseContext(cl->platforms[i].context);
    heap_free(cl->devices);
    heap_free(cl->platforms);
    lock_fini(&cl->lock);
    heap_free(cl);
}

static acre_status opencl_create(struct opencl **out)
{
    struct opencl *cl = heap_zalloc(sizeof *cl);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!cl)
        return status;
    cl->fork_generation = fork_generation();
    lock_init(&cl->lock, RANK_DEVICE, "opencl");
    rbtree_init(&cl->ranges);
    ptrmap_init(&cl->streams);
    ptrmap_init(&cl->events);
    cl->platforms = heap_array(PLATFORMS_MAX, sizeof *cl->platforms);
    cl->devices = heap_array(BACKEND_DEVICES_MAX, sizeof *cl->devices);
    if (cl->platforms && cl->devices)
        status = config_read(&cl->config);
    if (status == ACRE_OK)
        status = api_open();
    if (status == ACRE_OK)
        status = platforms_find(cl);
    if (status == ACRE_OK)
        *out = cl;
    else
        opencl_destroy(cl);
    return status;
}

static const acre_backend_ops ops = {
    .struct_size = sizeof ops,
    .version = ACRE_BACKEND_VERSION,
    .device_count = opencl_device_count,
    .device_info = opencl_device_info,
    .memory_info = memory_info,
    .alloc = memory_alloc,
    .free = memory_free,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event,
    .stream_priority = stream_priority,
    .device_synchronize = stream_device_synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
    .copy = copy_now,
    .copy_async = copy_queued,
    .copy_peer_async = copy_peer,
    .fill_async = copy_fill,
    .launch_host = function_launch_host,
    .launch_kernel = function_launch_kernel,
    .host_alloc = memory_host_alloc,
    .host_free = memory_host_free,
    .host_register = memory_host_register,
    .host_unregister = memory_host_unregister,
    .pointer_info = memory_pointer_info,
    .peer_query = opencl_peer_query,
    .peer_enable = opencl_peer_enable,
};

acre_status opencl_of(acre_device *device, struct opencl **out)
{
    if (!device)
        return status_fail(ACRE_ERR_INVALID, "the device is NULL");
    if (device->ops->device_info != opencl_device_info)
        return status_fail(ACRE_ERR_INVALID,
                           "device %d of backend \"%s\" is not one of backend "
                           "\"opencl\"",
                           device->index, device->backend->name);
    *out = device->self;
    return backend_check_fork(device->backend);
}

acre_status opencl_start(acre_backend **out)
{
    struct opencl *cl = NULL;
    acre_status status = opencl_create(&cl);
    const acre_backend_desc desc = {
        .struct_size = sizeof desc,
        .name = "opencl",
        .type = ACRE_DEVICE_OPENCL,
        .ops = &ops,
        .self = cl,
        .destroy = opencl_destroy,
    };

    if (status != ACRE_OK)
        return status;
    status = backend_register_own(&desc, out);
    if (status != ACRE_OK)
        opencl_destroy(cl);
    return status;
}
