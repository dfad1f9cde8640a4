/* SPDX-License-Identifier: MIT */
/* Two small reference devices and a plug-in on them, for tests of plug-ins. */
#ifndef TESTS_SUPPORT_PLUG_BED_H
#define TESTS_SUPPORT_PLUG_BED_H

#include "base/heap.h"
#include "tests/plugins/good.h"
#include "tests/support/sim_pair.h"

#include <acre/acre.h>

#include <dlfcn.h>

#define TYPE ACRE_DEVICE_OPENCL
#define PLUGIN(name) ACRE_BUILD "/tests/plug_" name ".so"

static acre_backend *backend;
static acre_allocator *allocator;
static struct good_seen *seen; /* of the good one */
static void *library; /* the test's own hold on the plug-in */
static uint64_t heap_before;

static const acre_pluggable_config host_memory = {.struct_size = sizeof host_memory,
                                                  .flags = ACRE_PLUGGABLE_HOST_MEMORY};

static inline void *symbol(const char *name)
{
    void *found = dlsym(library, name);

    REQUIRE(found);
    return found;
}

/* Two devices and a plug-in. */
static inline void start_with(const char *path, const char *alloc, const char *free)
{
    heap_before = heap_live_count();
    backend = sim_pair("plugged", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library);
    REQUIRE_OK(acre_pluggable_open(TYPE, path, alloc, free, &host_memory, &allocator));
}

static inline void start(void)
{
    start_with(PLUGIN("good"), "good_alloc", "good_free");
    seen = symbol("good_seen");
    memset(seen, 0, sizeof *seen);
}

static inline void stop(void)
{
    REQUIRE_OK(acre_pluggable_close(allocator));
    REQUIRE_OK(acre_device_set(TYPE, 0));
    acre_backend_unregister(backend);
    dlclose(library);
    EXPECT_EQ(heap_live_count(), heap_before);
}

static inline acre_allocator_stats stats_of(int device)
{
    acre_allocator_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(acre_allocator_stats_get(allocator, device, &stats));
    return stats;
}

static inline acre_stream some_stream(int device)
{
    acre_stream stream;

    REQUIRE_OK(acre_stream_from_pool(TYPE, device, 0, &stream));
    return stream;
}

static inline void *native_of(acre_stream stream)
{
    void *native;

    REQUIRE_OK(acre_stream_native(stream, &native));
    return native;
}

#endif
