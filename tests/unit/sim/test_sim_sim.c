/* SPDX-License-Identifier: MIT */
/* The reference device as a backend: names, facts, the environment, fork. */
#include "sim/sim.h"

#include "backend/builtin.h"
#include "sim/sim_memory.h"
#include "base/bits.h"
#include "tests/support/sim_bed.h"

#include <sys/wait.h>

TEST(the_built_in_device_follows_the_environment)
{
    acre_backend *backend;
    acre_device *device;
    acre_device_info info = {.struct_size = sizeof info};

    setenv("ACRE_SIM", "devices:no", 1);
    EXPECT_EQ(sim_start(&backend), ACRE_ERR_CONFIG);
    EXPECT_HAS(acre_last_error(), "ACRE_SIM");
    setenv("ACRE_SIM", "devices:3,memory:1GiB,page:64KiB,fail:alloc@1=oom", 1);
    REQUIRE_OK(sim_start(&backend));
    unsetenv("ACRE_SIM");
    EXPECT_STR_EQ(acre_backend_name(backend), "sim");
    EXPECT_EQ(acre_backend_device_count(backend), 3);
    REQUIRE_OK(acre_backend_device(backend, 2, &device));
    REQUIRE_OK(acre_device_info_get(device, &info));
    EXPECT_EQ(info.total_bytes, GIB);
    EXPECT_EQ(info.page_bytes, 64 * KIB);
    EXPECT_EQ(info.alloc_granularity, 4096);
    EXPECT_EQ(info.priority_least, 0);
    EXPECT_EQ(info.priority_greatest, 1);
    void *p;
    EXPECT_EQ(device->ops->alloc(device->self, 0, 4096, &p), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(acre_sim_fault_disarm(backend), 1);
    acre_backend_unregister(backend);
}

TEST(every_group_is_there)
{
    struct sim_bed bed = bed_open("");
    acre_device *device;
    acre_device_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_backend_device(bed.backend, 1, &device));
    REQUIRE_OK(acre_device_info_get(device, &info));
    EXPECT_EQ(info.capabilities,
              ACRE_CAP_STREAMS | ACRE_CAP_COPY | ACRE_CAP_LAUNCH | ACRE_CAP_VALUES |
                  ACRE_CAP_VIRTUAL | ACRE_CAP_SHARE_FD | ACRE_CAP_MULTICAST |
                  ACRE_CAP_CAPTURE | ACRE_CAP_HOST_MEMORY | ACRE_CAP_POINTERS |
                  ACRE_CAP_PEERS | ACRE_CAP_ACCESS | ACRE_CAP_IPC |
                  ACRE_CAP_IPC_USERS | ACRE_CAP_KERNELS);
    EXPECT_HAS(info.name, "reference device 1");
    bed_close(&bed);
}

TEST(further_devices_have_names_of_their_own)
{
    struct sim_bed a = bed_open("dry:1"), b = bed_open("dry:1");
    acre_sim_config config = {.struct_size = sizeof config, .name = "mine"};
    acre_backend *mine, *found;

    EXPECT(strcmp(acre_backend_name(a.backend), acre_backend_name(b.backend)) != 0);
    REQUIRE_OK(acre_sim_create(&config, &mine));
    REQUIRE_OK(acre_backend_find("mine", &found));
    EXPECT_PTR_EQ(found, mine);
    EXPECT_EQ(acre_sim_create(&config, &found), ACRE_ERR_EXISTS);
    EXPECT_EQ(acre_sim_create(&config, NULL), ACRE_ERR_INVALID);
    config.name = "not a name";
    EXPECT_EQ(acre_sim_create(&config, &found), ACRE_ERR_INVALID);
    acre_backend_unregister(mine);
    acre_backend_unregister(b.backend);
    bed_close(&a);
}

TEST(sixty_four_devices_each_with_its_memory)
{
    struct sim_bed bed = bed_open("devices:64,memory:1MiB");
    void *p[64];

    for (int i = 0; i < 64; i++) {
        REQUIRE_OK(bed.ops->alloc(bed.sim, i, 1 << 20, &p[i]));
        bed_write(&bed, p[i], &i, sizeof i);
    }
    for (int i = 0, out = -1; i < 64; i++) {
        bed_read(&bed, &out, p[i], sizeof out);
        EXPECT_EQ(out, i);
        REQUIRE_OK(bed.ops->free(bed.sim, i, p[i]));
    }
    bed_close(&bed);
}

TEST(creation_survives_each_failing_host_allocation)
{
    uint64_t before = heap_live_count();
    acre_sim_config config = {.struct_size = sizeof config, .name = "failing"};

    for (unsigned nth = 1, is_done = 0; !is_done; nth++) {
        acre_backend *backend;

        config.dry = nth & 1;
        heap_fail_nth(nth);
        acre_status status = acre_sim_create(&config, &backend);
        is_done = !heap_fail_disarm();
        EXPECT_EQ(status, is_done ? ACRE_OK : ACRE_ERR_HOST_MEMORY);
        if (status == ACRE_OK)
            acre_backend_unregister(backend);
        EXPECT_EQ(heap_live_count(), before);
    }
}

TEST(usage_needs_a_reference_device)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};
    struct sim_bed bed = bed_open("dry:1");

    EXPECT_EQ(acre_sim_usage_get(NULL, &usage), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_sim_usage_get(bed.backend, NULL), ACRE_ERR_INVALID);
    bed_close(&bed);
}

/* ---- Fork ----------------------------------------------------------------------- */

struct forked {
    struct sim_bed *bed;
    void *memory;
};

/* In the child: old devices refuse, new ones work, nothing hangs. */
static void child(void *arg)
{
    struct forked *forked = arg;
    struct sim_bed *bed = forked->bed;
    acre_sim_config config = {.struct_size = sizeof config};
    acre_backend *backend;
    acre_sim_usage usage = {.struct_size = sizeof usage};
    acre_device *device;
    void *p;

    EXPECT_EQ(bed->ops->alloc(bed->sim, 0, 4096, &p), ACRE_ERR_FORKED);
    EXPECT_EQ(bed->ops->free(bed->sim, 0, forked->memory), ACRE_ERR_FORKED);
    EXPECT_EQ(bed->ops->reserve(bed->sim, 0, BED_PAGE, &p), ACRE_ERR_FORKED);
    EXPECT_EQ(bed->ops->stream_create(bed->sim, 0, 0, 0, &p), ACRE_ERR_FORKED);
    EXPECT_EQ(bed->ops->device_synchronize(bed->sim, 0), ACRE_ERR_FORKED);
    EXPECT_EQ(bed->ops->access_open(bed->sim, forked->memory), ACRE_ERR_FORKED);
    EXPECT_EQ(acre_sim_usage_get(bed->backend, &usage), ACRE_ERR_FORKED);
    REQUIRE_OK(acre_sim_create(&config, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(device->ops->alloc(device->self, 0, 4096, &p));
    REQUIRE_OK(device->ops->free(device->self, 0, p));
    acre_backend_unregister(backend);
    acre_backend_unregister(bed->backend);
}

TEST(a_child_of_fork_is_told)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    struct forked forked = {.bed = &bed};
    struct lock *lock = &bed.sim->memory->lock;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, &forked.memory));
    EXPECT_EQ(t_child(child, &forked), 0);
    /* The same while another thread would hold the lock of the memory. */
    pthread_mutex_lock(&lock->mutex);
    EXPECT_EQ(t_child(child, &forked), 0);
    pthread_mutex_unlock(&lock->mutex);
    /* The parent goes on. */
    REQUIRE_OK(bed.ops->free(bed.sim, 0, forked.memory));
    bed_close(&bed);
}

T_MAIN()
