/* SPDX-License-Identifier: MIT */
#include "tests/support/sim_rig.h"

#include <sched.h>
#include <unistd.h>

struct rig rig;

static void *tell_id(void *arg)
{
    snprintf(arg, 64, "/proc/self/task/%d", (int)gettid());
    return NULL;
}

/* A sanitizer starts a thread of its own with the first one: not ours to count. */
static void warm_up(void)
{
    static bool is_warm;
    pthread_t thread;
    char path[64] = "";

    if (is_warm || pthread_create(&thread, NULL, tell_id, path) != 0)
        return;
    pthread_join(thread, NULL);
    while (access(path, F_OK) == 0) /* a joined thread is listed a moment longer */
        sched_yield();
    is_warm = true;
}

/* Mappings of device memory. Others come and go with the stacks of threads. */
static int map_count(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;

    while (file && fgets(line, sizeof line, file))
        count += strstr(line, "memfd:acre") != NULL;
    if (file)
        fclose(file);
    return count;
}

acre_status rig_try(const acre_sim_config *config)
{
    acre_sim_config small = {.struct_size = sizeof small, .memory_bytes = 64 << 20};
    acre_device *device;
    acre_status status;

    warm_up();
    rig = (struct rig){.heap_before = heap_live_count(), .threads_before = t_thread_count(),
                       .fds_before = t_fd_count(), .maps_before = map_count()};
    status = acre_sim_create(config ? config : &small, &rig.backend);
    if (status != ACRE_OK)
        return status;
    REQUIRE_OK(acre_backend_device(rig.backend, 0, &device));
    rig.ops = device->ops;
    rig.self = device->self;
    return ACRE_OK;
}

void rig_open(const acre_sim_config *config)
{
    REQUIRE_OK(rig_try(config));
}

void rig_close(void)
{
    acre_backend_unregister(rig.backend);
    rig.backend = NULL;
    EXPECT_EQ(heap_live_count(), rig.heap_before);
    EXPECT_EQ(t_threads_left(rig.threads_before), rig.threads_before);
    EXPECT_EQ(t_fd_count(), rig.fds_before);
    EXPECT_EQ(map_count(), rig.maps_before);
}

acre_sim_usage rig_usage(void)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};

    REQUIRE_OK(acre_sim_usage_get(rig.backend, &usage));
    return usage;
}

void *rig_stream(int device)
{
    void *stream = NULL;

    REQUIRE_OK(OP(stream_create, device, 0, 0, &stream));
    return stream;
}

void *rig_event(int device, uint32_t flags)
{
    void *event = NULL;

    REQUIRE_OK(OP(event_create, device, flags, &event));
    return event;
}

void *rig_alloc(int device, size_t bytes)
{
    void *memory = NULL;

    REQUIRE_OK(OP(alloc, device, bytes, &memory));
    return memory;
}

void rig_put(void *dst, const void *src, size_t bytes)
{
    REQUIRE_OK(OP(copy, dst, src, bytes, ACRE_COPY_HOST_TO_DEVICE));
}

void rig_get(void *dst, const void *src, size_t bytes)
{
    REQUIRE_OK(OP(copy, dst, src, bytes, ACRE_COPY_DEVICE_TO_HOST));
}

void rig_gate_task(void *arg)
{
    struct rig_gate *gate = arg;

    pthread_mutex_lock(&gate->mutex);
    gate->entered++;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->is_open)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

void rig_gate_await(struct rig_gate *gate, int entered)
{
    pthread_mutex_lock(&gate->mutex);
    while (gate->entered < entered)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

void rig_gate_open(struct rig_gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->is_open = 1;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}
